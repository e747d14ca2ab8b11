#include "app/restore.h"

#include "app/backup.h"
#include "app/backup_files.h"
#include "app/data_use.h"
#include "app/rebuild.h"
#include "model/file_io.h"
#include "model/model_store.h"
#include "node_fixture.h"

namespace sirenfeed::app {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;

/// The process is killed: nothing of restore's own comes after it.
struct Killed {};

class RestoreTest : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    backup_ = dir_ + "/backup";
    fill(settings_, 30, 1);
    const auto made = make_backup(settings_, backup_);
    ASSERT_TRUE(made) << made.error().message;
    before_ = canonical(settings_);
  }
  /// A log and a state of `count` visits, and as many versions of the model.
  static void fill(const Settings& settings, int count, int versions) {
    append(settings, visits(0, count));
    catch_up(settings);
    auto store = model::ModelStoreWriter::open({.dir = settings.models_dir()});
    ASSERT_TRUE(store);
    model::Model model = *model::make_model(settings.model);
    for (int version = 1; version <= versions; ++version) {
      model.dense[0] += 1e-3F;
      ASSERT_TRUE(store->publish(model, version));
    }
  }
  /// A folder with other contents, and a checkpoint, which the backup has not.
  Settings other(const std::string& name) const {
    Settings settings = settings_for(dir_ + "/" + name);
    fill(settings, 60, 3);
    fs::create_directories(settings.trainer_dir());
    EXPECT_TRUE(model::replace_file(settings.trainer.checkpoint_file, "learned"));
    return settings;
  }
  void expect_restored(const Settings& settings) const {
    EXPECT_EQ(canonical(settings), before_);
    EXPECT_FALSE(fs::exists(settings.trainer.checkpoint_file));
    EXPECT_EQ(model::ModelStoreReader(settings.models_dir()).wanted().value(), 1U);
    const auto log = open_log(settings);
    EXPECT_EQ(log->bounds({ingest::Topic::kItems, 0})->next, 30);
    for (const auto& entry : fs::directory_iterator(settings.data_dir)) {
      const std::string left = entry.path().filename();
      EXPECT_TRUE(left == "LOCK" || left == "log" || left == "state" || left == "models") << left;
    }
  }

  std::string backup_;
  std::string before_;
};

TEST_F(RestoreTest, NoProcessOpensTheFolderWhileItWorks) {
  const Settings settings = other("other");
  int steps = 0;
  const auto done = restore_backup(settings, backup_, /*replace=*/true, [&](const std::string&) {
    ++steps;
    const auto use = DataUse::share(settings.data_dir);
    ASSERT_FALSE(use);
    EXPECT_EQ(use.error().code, ErrorCode::kLocked);
    EXPECT_NE(use.error().message.find("sirenfeed restore"), std::string::npos);
    const auto node = StoppedNode::open(settings, StoppedNode::Log::kNone);
    ASSERT_FALSE(node);
    EXPECT_EQ(node.error().code, ErrorCode::kLocked) << node.error().message;
  });
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_GT(steps, 8);
  expect_restored(settings);
}

TEST_F(RestoreTest, AFolderInUseIsLeftAlone) {
  const Settings settings = other("other");
  const std::string kept = canonical(settings);
  {
    const auto first = DataUse::share(settings.data_dir);
    const auto second = DataUse::share(settings.data_dir);  // serve and train
    ASSERT_TRUE(first && second);
    const auto refused = restore_backup(settings, backup_, /*replace=*/true);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ErrorCode::kLocked);
    const auto rebuilt = rebuild_state(settings, {}, [](std::uint64_t, std::uint64_t) {});
    ASSERT_FALSE(rebuilt);
    EXPECT_EQ(rebuilt.error().code, ErrorCode::kLocked);
  }
  EXPECT_EQ(canonical(settings), kept);
}

TEST_F(RestoreTest, ModelsThatAreBeingPublishedAreLeftAlone) {
  Settings settings = settings_for(dir_ + "/other");
  settings.models = dir_ + "/models";
  auto store = model::ModelStoreWriter::open({.dir = settings.models});  // another folder's trainer
  ASSERT_TRUE(store);
  model::Model model = *model::make_model(settings.model);
  ASSERT_TRUE(store->publish(model, 1));
  ASSERT_TRUE(store->publish(model, 2));
  const auto refused = restore_backup(settings, backup_, /*replace=*/true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kLocked) << refused.error().message;
  EXPECT_EQ(model::ModelStoreReader(settings.models).wanted().value(), 2U);
  EXPECT_FALSE(fs::exists(settings.state_dir()));
}

TEST_F(RestoreTest, EndedAtAnyStepItChangesNothingOrIsFinishedByTheNext) {
  int unchanged = 0, finished = 0;
  for (int kill_at = 0;; ++kill_at) {
    const Settings settings = other(std::to_string(kill_at));
    const std::string newer = canonical(settings);
    int step = 0;
    std::string at;
    try {
      const auto done =
          restore_backup(settings, backup_, /*replace=*/true, [&](const std::string& what) {
            at = what;
            if (step++ == kill_at) throw Killed{};
          });
      ASSERT_TRUE(done) << done.error().message;
      break;  // there are no more steps
    } catch (const Killed&) {
    }
    SCOPED_TRACE(at);
    const bool begun = fs::exists(restoring_file(settings.data_dir));
    ++(begun ? finished : unchanged);
    if (begun) {
      const auto start = DataUse::share(settings.data_dir);
      ASSERT_FALSE(start);
      EXPECT_EQ(start.error().code, ErrorCode::kUnavailable);
      EXPECT_NE(start.error().message.find("sirenfeed restore"), std::string::npos);
      EXPECT_FALSE(StoppedNode::open(settings, StoppedNode::Log::kNone));
      EXPECT_FALSE(rebuild_state(settings, {}, [](std::uint64_t, std::uint64_t) {}));
    } else {
      EXPECT_EQ(canonical(settings), newer);
    }
    // What was begun needs no --replace.
    const auto again = restore_backup(settings, backup_, /*replace=*/!begun);
    ASSERT_TRUE(again) << again.error().message;
    expect_restored(settings);
  }
  EXPECT_EQ(unchanged, 2);  // before and after the copying
  EXPECT_GT(finished, 8);
}

TEST_F(RestoreTest, WhatWasBegunIsFinishedWithoutItsBackup) {
  const Settings settings = other("other");
  const auto killed = [](const std::string& what) {
    if (what.starts_with("state: the new one")) throw Killed{};
  };
  EXPECT_THROW((void)restore_backup(settings, backup_, /*replace=*/true, killed), Killed);
  ASSERT_FALSE(fs::exists(settings.state_dir()));
  fs::remove_all(backup_);
  const auto done = restore_backup(settings, backup_, /*replace=*/false);
  ASSERT_TRUE(done) << done.error().message;
  expect_restored(settings);
}

TEST_F(RestoreTest, AMountPointIsRefusedBeforeAnythingMoves) {
  EXPECT_TRUE(is_mount_point("/proc"));
  EXPECT_FALSE(is_mount_point(dir_));
  EXPECT_FALSE(is_mount_point(dir_ + "/missing"));
  Settings settings = settings_for(dir_ + "/other");
  settings.models = "/proc";
  const auto refused = restore_backup(settings, backup_, /*replace=*/true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::kInvalidArgument) << refused.error().message;
  EXPECT_FALSE(fs::exists(restoring_file(settings.data_dir)));
  EXPECT_FALSE(fs::exists(settings.state_dir()));
}

TEST_F(RestoreTest, ARebuildThatEndedWithoutAStateInPlaceIsNamed) {
  fs::rename(settings_.state_dir(), settings_.state_dir() + ".replaced");
  const auto start = DataUse::share(settings_.data_dir);
  ASSERT_FALSE(start);
  EXPECT_NE(start.error().message.find("sirenfeed rebuild"), std::string::npos);
  const auto rebuilt = rebuild_state(settings_, {}, [](std::uint64_t, std::uint64_t) {});
  ASSERT_TRUE(rebuilt) << rebuilt.error().message;
  EXPECT_EQ(without_epochs(canonical(settings_)), without_epochs(before_));
  EXPECT_FALSE(fs::exists(settings_.state_dir() + ".replaced"));
}

}  // namespace
}  // namespace sirenfeed::app
