#include "app/backup.h"

#include <atomic>
#include <functional>
#include <thread>

#include "app/restore.h"
#include "model/file_io.h"
#include "model/model_store.h"
#include "node_fixture.h"

namespace sirenfeed::app {
namespace {

namespace fs = std::filesystem;

class BackupTest : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    backup_ = dir_ + "/backup";
  }
  void publish_model() const {
    auto store = model::ModelStoreWriter::open({.dir = settings_.models_dir()});
    ASSERT_TRUE(store);
    const auto start = model::make_model(settings_.model);
    ASSERT_TRUE(start);
    ASSERT_TRUE(store->publish(*start, 1));
  }
  void put_checkpoint(const std::string& bytes) const {
    fs::create_directories(settings_.trainer_dir());
    ASSERT_TRUE(model::replace_file(settings_.trainer.checkpoint_file, bytes));
  }
  static std::string bytes_of(const std::string& path) { return *model::read_file(path); }

  std::string backup_;
};

TEST_F(BackupTest, WhatIsRestoredElsewhereIsWhatWasBackedUp) {
  append(settings_, visits(0, 60));
  catch_up(settings_);
  publish_model();
  put_checkpoint("what the trainer has learned");
  const std::string before = canonical(settings_);
  const auto made = make_backup(settings_, backup_);
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_EQ(made->parts, (std::vector<std::string>{"trainer", "models", "state", "log"}));
  EXPECT_EQ(made->positions.size(), 5U);  // items, and both partitions of impressions and clicks
  EXPECT_EQ(made->partitions, 2);

  const Settings other = settings_for(dir_ + "/other");
  const auto restored = restore_backup(other, backup_, /*replace=*/false);
  ASSERT_TRUE(restored) << restored.error().message;
  EXPECT_EQ(canonical(other), before);
  EXPECT_EQ(bytes_of(other.trainer.checkpoint_file), "what the trainer has learned");
  const model::ModelStoreReader models(other.models_dir());
  EXPECT_TRUE(models.load(**models.wanted()));
  // And it goes on as the other does.
  for (const Settings& each : {settings_, other}) {
    append(each, visits(60, 90));
    catch_up(each);
  }
  EXPECT_EQ(canonical(other), canonical(settings_));
}

TEST_F(BackupTest, ModelsComeWithTheirDeltasAndWithWhatIsPinned) {
  model::Model model = *model::make_model(settings_.model);
  for (model::Key key = 1; key <= 3'000; ++key) {
    model.table(model::TableId::kItem).find_or_create(key * 0x9E3779B97F4A7C15ULL);
  }
  auto store = model::ModelStoreWriter::open({.dir = settings_.models_dir()});
  ASSERT_TRUE(store);
  for (int version = 1; version <= 4; ++version) {
    model.dense[0] += 1e-3F;
    ASSERT_TRUE(store->publish(model, version));
  }
  model::ModelStoreReader source(settings_.models_dir());
  ASSERT_TRUE(source.pin(2));
  const std::string newest = "/versions/4/delta.safetensors";
  ASSERT_TRUE(fs::exists(settings_.models_dir() + newest));
  ASSERT_FALSE(fs::exists(settings_.models_dir() + "/versions/4/model.safetensors"));

  ASSERT_TRUE(make_backup(settings_, backup_));
  const Settings other = settings_for(dir_ + "/other");
  ASSERT_TRUE(restore_backup(other, backup_, /*replace=*/false));
  model::ModelStoreReader restored(other.models_dir());
  EXPECT_EQ(restored.pinned().value(), 2U);
  ASSERT_TRUE(restored.unpin());
  EXPECT_EQ(restored.wanted().value(), 4U);
  const auto snapshot = restored.load(4);
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_EQ((*snapshot)->model.dense[0], model.dense[0]);

  // One that is damaged in the store does not keep the rest from being backed up.
  ASSERT_TRUE(model::write_file(settings_.models_dir() + newest, "damaged"));
  ASSERT_TRUE(make_backup(settings_, dir_ + "/second"));
  EXPECT_TRUE(model::ModelStoreReader(dir_ + "/second/models").load(3));
}

TEST_F(BackupTest, AFolderThatIsNotEmptyIsRefusedOnBothSides) {
  append(settings_, visits(0, 10));
  catch_up(settings_);
  fs::create_directories(backup_ + "/something");
  const auto refused = make_backup(settings_, backup_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kAlreadyExists);
  fs::remove_all(backup_);
  ASSERT_TRUE(make_backup(settings_, backup_));

  append(settings_, visits(10, 20));
  catch_up(settings_);
  const std::string newer = canonical(settings_);
  const auto kept = restore_backup(settings_, backup_, /*replace=*/false);
  ASSERT_FALSE(kept);
  EXPECT_NE(kept.error().message.find("--replace"), std::string::npos);
  EXPECT_EQ(canonical(settings_), newer);
  ASSERT_TRUE(restore_backup(settings_, backup_, /*replace=*/true));
  EXPECT_NE(canonical(settings_), newer);
  EXPECT_FALSE(fs::exists(settings_.state_dir() + ".replaced"));
}

TEST_F(BackupTest, DamageIsFoundBeforeAnythingIsWritten) {
  append(settings_, visits(0, 30));
  catch_up(settings_);
  const auto made = make_backup(settings_, backup_);
  ASSERT_TRUE(made);
  const Settings other = settings_for(dir_ + "/other");
  const auto expect_refused = [&](const std::string& name) {
    const auto refused = restore_backup(other, backup_, false);
    ASSERT_FALSE(refused) << name;
    EXPECT_EQ(refused.error().code, base::ErrorCode::kCorrupt) << refused.error().message;
    EXPECT_NE(refused.error().message.find(name), std::string::npos) << refused.error().message;
    EXPECT_FALSE(fs::exists(other.state_dir()));
  };
  for (const BackupFile& file : made->files) {
    if (file.bytes == 0) continue;
    const std::string path = backup_ + "/" + file.path;
    const std::string good = bytes_of(path);
    std::string bad = good;
    bad[bad.size() / 2] = static_cast<char>(bad[bad.size() / 2] ^ 1);
    ASSERT_TRUE(model::write_file(path, bad));
    expect_refused(file.path);
    ASSERT_TRUE(model::write_file(path, good.substr(0, good.size() - 1)));
    expect_refused(file.path);
    fs::remove(path);
    expect_refused(file.path);
    ASSERT_TRUE(model::write_file(path, good));
  }
  ASSERT_TRUE(model::write_file(backup_ + "/state/extra", "x"));
  expect_refused("extra");
  fs::remove(backup_ + "/state/extra");
  fs::remove(backup_ + "/manifest.json");
  const auto none = restore_backup(other, backup_, false);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, base::ErrorCode::kNotFound);
}

TEST_F(BackupTest, ABackupThatFailsLeavesNothing) {
  const auto nothing = make_backup(settings_, backup_);
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, base::ErrorCode::kNotFound);
  EXPECT_FALSE(fs::exists(backup_));
}

TEST_F(BackupTest, TakenWhileEventsAreAppliedItIsOneMomentOfAll) {
  append(settings_, visits(0, 50));
  catch_up(settings_);
  OpenNode node(settings_);
  ASSERT_TRUE(node.log && node.state);
  ingest::IngestConfig config = settings_.ingest;
  config.batch_records_max = 7;
  ingest::IngestLoop loop(config, node.loop_parts());
  ASSERT_TRUE(loop.start());
  features::OutboxRelay relay({}, node.state->outbox(), *node.log, node.probe);
  relay.start();
  std::atomic<bool> stop{false};
  std::thread producer([&] {
    const auto writer = node.log->open_writer("test");
    for (int i = 50; !stop && i < 5'000; ++i) {
      for (const ingest::EventBody& event : visits(i, i + 1)) {
        const ingest::Topic topic = ingest::event_topic(event);
        const std::string key = ingest::event_key(event);
        (void)(*writer)->append({topic, ingest::partition_of(key, *node.log->partitions(topic))},
                                key, ingest::event_json(event), 1, {});
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    (void)(*writer)->flush(std::chrono::seconds(10));
  });
  for (int n = 0; n < 5; ++n) {
    const std::string to = backup_ + std::to_string(n) + "/data";
    const auto done = back_up_owned(*node.state, node.log.get(), settings_.log_dir(), to);
    ASSERT_TRUE(done) << done.error().message;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  stop = true;
  producer.join();
  loop.stop();
  relay.stop();
  // Each opens, its log covers its state, and its examples are none that the state does not know.
  for (int n = 0; n < 5; ++n) {
    const Settings copy = settings_for(backup_ + std::to_string(n) + "/data");
    const auto stopped = StoppedNode::open(copy, StoppedNode::Log::kEmbedded);
    ASSERT_TRUE(stopped) << stopped.error().message;
    for (ingest::Partition p = 0; p < 2; ++p) {
      const auto written = (*stopped)->state().written_examples(p);
      EXPECT_EQ(written.epoch, 1U);
      EXPECT_LE((*stopped)->log().bounds({ingest::Topic::kExamples, p})->next,
                static_cast<ingest::Offset>(written.sequence));
      for (const ingest::Topic topic : {ingest::Topic::kImpressions, ingest::Topic::kClicks}) {
        const auto applied = (*stopped)->state().position({topic, p});
        ASSERT_TRUE(applied && *applied);
        EXPECT_LT((*applied)->offset, (*stopped)->log().bounds({topic, p})->next);
      }
    }
  }
}

/// The node's log, through which a backup is followed.
class FollowedLog final : public ingest::EventLog {
 public:
  FollowedLog(ingest::EventLog& log, std::function<void(ingest::TopicPartition)> after)
      : log_(log), after_(std::move(after)) {}
  base::Result<ingest::Partition> partitions(ingest::Topic topic) override {
    return log_.partitions(topic);
  }
  base::Result<Bounds> bounds(ingest::TopicPartition source) override {
    return log_.bounds(source);
  }
  base::Result<std::vector<ingest::LogFile>> files(ingest::TopicPartition source) override {
    auto files = log_.files(source);
    after_(source);
    return files;
  }
  base::Result<std::unique_ptr<ingest::LogReader>> open_reader(
      ingest::ReaderOptions options) override {
    return log_.open_reader(std::move(options));
  }
  base::Result<std::unique_ptr<ingest::LogWriter>> open_writer(std::string name) override {
    return log_.open_writer(std::move(name));
  }

 private:
  ingest::EventLog& log_;
  const std::function<void(ingest::TopicPartition)> after_;
};

TEST_F(BackupTest, WhatLeavesTheOutboxMeanwhileIsInTheCopyAllTheSame) {
  append(settings_, visits(0, 60));
  catch_up(settings_, /*send=*/false);
  OpenNode node(settings_);
  ASSERT_TRUE(node.log && node.state);
  const auto waiting = [&] { return !node.state->outbox().streams()->empty(); };
  ASSERT_TRUE(waiting());
  features::OutboxRelay relay({}, node.state->outbox(), *node.log, node.probe);
  // Sends all of it between the look at topic examples and the copy of the state.
  FollowedLog followed(*node.log, [&](ingest::TopicPartition source) {
    if (source.topic != ingest::Topic::kDeadLetters) return;
    relay.start();
    for (int i = 0; i < 100 && waiting(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    for (ingest::Partition p = 0; p < 2; ++p) {
      EXPECT_GT(node.log->bounds({ingest::Topic::kExamples, p})->next, 0);
    }
  });
  const auto done = back_up_owned(*node.state, &followed, settings_.log_dir(), backup_ + "/data");
  ASSERT_TRUE(done) << done.error().message;
  ASSERT_TRUE(relay.drain(std::chrono::seconds(10)));
  relay.stop();

  const auto copy = StoppedNode::open(settings_for(backup_ + "/data"), StoppedNode::Log::kEmbedded);
  ASSERT_TRUE(copy) << copy.error().message;
  for (ingest::Partition p = 0; p < 2; ++p) {
    const auto sent = (*copy)->log().bounds({ingest::Topic::kExamples, p})->next;
    const auto left = (*copy)->state().outbox().read({ingest::Topic::kExamples, p}, 0, 1'000,
                                                     std::size_t{1} << 30U);
    ASSERT_TRUE(left);
    const auto written = (*copy)->state().written_examples(p).sequence;
    ASSERT_GT(written, 0U);
    EXPECT_EQ(static_cast<std::uint64_t>(sent) + left->size(), written);
  }
}

}  // namespace
}  // namespace sirenfeed::app
