#include "model/model_store.h"

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>

#include "base/hash.h"
#include "model/file_io.h"
#include "model/model_file.h"
#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

namespace fs = std::filesystem;

class ModelStore : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    dir_ = testing::TempDir() + "sirenfeed_store_" + info->name() + "_" + std::to_string(getpid());
    fs::remove_all(dir_);
  }
  void TearDown() override { fs::remove_all(dir_); }

  Model sample(float lambda = 1.0F) {
    Model model = *make_model(test::small_config(Variant::kSiren));
    test::perturb(model, 41);
    model.tensor("rotary.lambda")[0] = lambda;
    return model;
  }
  ModelStoreWriter writer(std::size_t keep_max = 20) {
    return *ModelStoreWriter::open({.dir = dir_, .keep_max = keep_max});
  }
  /// Large enough that a few changed rows are worth a delta.
  Model large() {
    Model model = sample();
    for (Key key = 1; key <= 3000; ++key) {
      model.table(TableId::kItem).find_or_create(key * 0x9E3779B97F4A7C15ULL);
    }
    return model;
  }
  static void learn(Model& model, int step) {
    model.tensor("rotary.lambda")[0] += 0.125F;
    EmbeddingTable& items = model.table(TableId::kItem);
    const auto row = static_cast<std::uint32_t>(step * 37 % 2500);
    items.row_at(row)[1] += 1.0F;
    items.erase(items.key_at(row + 5));
    items.find_or_create(static_cast<Key>(step) + 7);
  }
  /// Publishes `count` versions of `model`, each a little further; returns their full bytes.
  std::map<std::uint64_t, std::string> publish_steps(ModelStoreWriter& publisher, Model& model,
                                                     int count) {
    std::map<std::uint64_t, std::string> expected;
    for (int i = 0; i < count; ++i) {
      learn(model, static_cast<int>(publisher.last_version()));
      const auto version = publisher.publish(model, 1000);
      EXPECT_TRUE(version) << version.error().message;
      expected[*version] = encode_model(model);
    }
    return expected;
  }
  void damage(const std::string& path) {
    std::string bytes = *read_file(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    ASSERT_TRUE(write_file(path, bytes));
  }
  std::vector<std::uint64_t> kept() {
    std::vector<std::uint64_t> versions;
    const std::vector<Manifest> manifests = *ModelStoreReader(dir_).list();
    for (const Manifest& manifest : manifests) versions.push_back(manifest.version);
    return versions;
  }
  std::string file(std::uint64_t version, const std::string& name) {
    return dir_ + "/versions/" + std::to_string(version) + "/" + name;
  }

  std::string dir_;
};

TEST_F(ModelStore, AVersionThatAFailedAttemptLeftIsReplacedByTheNext) {
  ModelStoreWriter publisher = writer();
  ASSERT_EQ(*publisher.publish(sample(), 1000), 1U);
  // As an attempt leaves it whose fsync failed after the rename: CURRENT does not name it.
  fs::create_directories(dir_ + "/versions/2");
  ASSERT_TRUE(write_file(dir_ + "/versions/2/manifest.json", "{}").has_value());
  const auto published = publisher.publish(sample(3.0F), 2000);
  ASSERT_TRUE(published.has_value()) << published.error().message;
  EXPECT_EQ(*published, 2U);
  const auto loaded = ModelStoreReader(dir_).load(2);
  ASSERT_TRUE(loaded.has_value()) << loaded.error().message;
  EXPECT_EQ((*loaded)->model.tensor("rotary.lambda")[0], 3.0F);
}

TEST_F(ModelStore, AReaderFollowsThePublisher) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader reader(dir_);
  ASSERT_TRUE(reader.poll());
  EXPECT_EQ(*reader.poll(), nullptr);
  ASSERT_EQ(*publisher.publish(sample(), 1000, R"({"auc":0.7})"), 1U);
  auto snapshot = reader.poll();
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  ASSERT_NE(*snapshot, nullptr);
  EXPECT_EQ((*snapshot)->manifest.version, 1U);
  EXPECT_EQ((*snapshot)->manifest.created_ms, 1000);
  EXPECT_EQ((*snapshot)->manifest.metrics_json, R"({"auc":7E-1})");
  EXPECT_EQ((*snapshot)->model.dense, sample().dense);
  EXPECT_EQ(*reader.poll(), nullptr);
  ASSERT_EQ(*publisher.publish(sample(2.0F), 2000), 2U);
  EXPECT_EQ((*reader.poll())->manifest.version, 2U);
}

TEST_F(ModelStore, NumberingGoesOnAfterARestart) {
  ASSERT_EQ(*writer().publish(sample(), 1), 1U);
  fs::create_directories(dir_ + "/versions/writing");  // what a crash leaves
  ModelStoreWriter again = writer();
  EXPECT_EQ(again.last_version(), 1U);
  EXPECT_EQ(*again.publish(sample(), 2), 2U);
}

TEST_F(ModelStore, OnlyTheNewestVersionsAreKeptAndThePinnedOne) {
  ModelStoreWriter publisher = writer(2);
  ModelStoreReader reader(dir_);
  ASSERT_TRUE(publisher.publish(sample(), 1));
  ASSERT_TRUE(reader.pin(1));
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(publisher.publish(sample(), 2));
  const auto manifests = *reader.list();
  std::vector<std::uint64_t> versions;
  for (const Manifest& manifest : manifests) versions.push_back(manifest.version);
  EXPECT_EQ(versions, (std::vector<std::uint64_t>{1, 4, 5}));
}

TEST_F(ModelStore, WhatWasPinnedWhileVersionsAreRemovedIsThere) {
  ModelStoreWriter publisher = writer(1);
  ASSERT_TRUE(publisher.publish(sample(), 1));
  std::jthread publishing([&](const std::stop_token& stop) {
    while (!stop.stop_requested()) EXPECT_TRUE(publisher.publish(sample(), 1));
  });
  int held = 0;
  for (int attempt = 0; attempt < 300; ++attempt) {
    ModelStoreReader reader(dir_);
    const auto manifests = *reader.list();
    if (manifests.empty()) continue;
    const std::uint64_t oldest = manifests.front().version;  // the next one to go, or going
    if (!reader.pin(oldest)) continue;  // gone before the pin: refused, and nothing is held
    ++held;
    EXPECT_TRUE(ModelStoreReader(dir_).load(oldest)) << "pinned, and removed all the same";
    ASSERT_TRUE(reader.unpin());
  }
  EXPECT_GT(held, 0);
}

TEST_F(ModelStore, APinHoldsUntilItIsLifted) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader reader(dir_);
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(publisher.publish(sample(), 1));
  ASSERT_TRUE(reader.pin(2));
  EXPECT_EQ(*reader.wanted(), std::optional<std::uint64_t>(2));
  ASSERT_TRUE(publisher.publish(sample(), 1));
  EXPECT_EQ((*reader.poll())->manifest.version, 2U);
  EXPECT_EQ(reader.rollback()->version, 1U);
  EXPECT_EQ((*reader.poll())->manifest.version, 1U);
  const auto none_older = reader.rollback();
  ASSERT_FALSE(none_older);
  EXPECT_EQ(none_older.error().code, base::ErrorCode::kNotFound);
  ASSERT_TRUE(reader.unpin());
  ASSERT_TRUE(reader.unpin());
  EXPECT_EQ((*reader.poll())->manifest.version, 4U);
  EXPECT_FALSE(reader.pin(99));
}

TEST_F(ModelStore, ACorruptVersionIsRefusedOnceAndNamed) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader reader(dir_);
  ASSERT_TRUE(publisher.publish(sample(), 1));
  ASSERT_NE(*reader.poll(), nullptr);
  ASSERT_TRUE(publisher.publish(sample(), 2));
  std::string bytes = *read_file(file(2, "model.safetensors"));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_TRUE(write_file(file(2, "model.safetensors"), bytes));
  const auto refused = reader.poll();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("model version 2 refused: the check-sum"),
            std::string::npos);
  ASSERT_TRUE(reader.poll());
  EXPECT_EQ(*reader.poll(), nullptr);
  ASSERT_TRUE(publisher.publish(sample(), 3));
  EXPECT_EQ((*reader.poll())->manifest.version, 3U);
  EXPECT_FALSE(reader.pin(2));
}

TEST_F(ModelStore, OtherScoresThanThePublishersAreRefused) {
  ModelStoreWriter publisher = writer();
  ASSERT_TRUE(publisher.publish(sample(), 1));
  auto manifest = boost::json::parse(*read_file(file(1, "manifest.json")));
  auto& canary = manifest.as_object()["canary_logits"].as_array();
  ASSERT_GE(canary.size(), 12U);
  canary[3] = canary[3].to_number<double>() + 0.1;
  ASSERT_TRUE(write_file(file(1, "manifest.json"), boost::json::serialize(manifest)));
  const auto refused = ModelStoreReader(dir_).load(1);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("canary logit 3"), std::string::npos);
}

TEST_F(ModelStore, AModelThatIsNotFiniteIsNotPublished) {
  ModelStoreWriter publisher = writer();
  ASSERT_TRUE(publisher.publish(sample(), 1));
  Model broken = sample();
  broken.tensor("head.2.bias")[0] = std::numeric_limits<float>::quiet_NaN();
  const auto refused = publisher.publish(broken, 2);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("head.2.bias"), std::string::npos);
  EXPECT_EQ(*ModelStoreReader(dir_).wanted(), std::optional<std::uint64_t>(1));
  EXPECT_EQ(*publisher.publish(sample(), 3), 2U);
}

TEST_F(ModelStore, ExportCopiesTheWantedVersion) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader reader(dir_);
  EXPECT_FALSE(reader.export_to(dir_ + "/out"));
  ASSERT_TRUE(publisher.publish(sample(), 1));
  EXPECT_EQ(*reader.export_to(dir_ + "/out"), 1U);
  EXPECT_EQ(*read_file(dir_ + "/out/model.safetensors"), *read_file(file(1, "model.safetensors")));
}

TEST_F(ModelStore, DeltasFollowAFullFileAndGiveTheSameModel) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader follower(dir_);
  Model model = large();
  for (int i = 0; i < 6; ++i) {
    const auto expected = publish_steps(publisher, model, 1);
    const auto snapshot = follower.poll();
    ASSERT_TRUE(snapshot) << snapshot.error().message;
    ASSERT_EQ(encode_model((*snapshot)->model), expected.begin()->second) << i;
  }
  EXPECT_TRUE(fs::exists(file(1, "model.safetensors")));
  EXPECT_FALSE(fs::exists(file(4, "model.safetensors")));
  EXPECT_LT(fs::file_size(file(4, "delta.safetensors")),
            fs::file_size(file(1, "model.safetensors")) / 2);
  const auto fresh = ModelStoreReader(dir_).poll();
  ASSERT_TRUE(fresh) << fresh.error().message;
  EXPECT_EQ(encode_model((*fresh)->model), encode_model(model));
}

TEST_F(ModelStore, AFullFileIsAddedWhenItIsDueAndReadersBeginThere) {
  ModelStoreWriter publisher = *ModelStoreWriter::open(
      {.dir = dir_, .keep_max = 1, .full_interval = std::chrono::milliseconds(5000)});
  Model model = large();
  publish_steps(publisher, model, 3);
  EXPECT_FALSE(publisher.full_due(5999));
  EXPECT_TRUE(publisher.full_due(6000));
  ASSERT_TRUE(publisher.write_full(6000));
  EXPECT_FALSE(publisher.full_due(10'999));
  EXPECT_EQ(*read_file(file(3, "model.safetensors")), encode_model(model));
  const auto expected = publish_steps(publisher, model, 2);
  EXPECT_EQ(kept(), (std::vector<std::uint64_t>{3, 4, 5})) << "what the newest builds on stays";
  const auto snapshot = ModelStoreReader(dir_).poll();
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_EQ(encode_model((*snapshot)->model), expected.at(5));
}

TEST_F(ModelStore, DeltasThatAddUpToTheFullFileMakeAnotherDue) {
  ModelStoreWriter publisher = *ModelStoreWriter::open({.dir = dir_, .full_share = 0.5});
  Model model = large();
  publish_steps(publisher, model, 2);
  EXPECT_FALSE(publisher.full_due(1000));
  for (int i = 0; i < 20 && !publisher.full_due(1000); ++i) publish_steps(publisher, model, 1);
  EXPECT_TRUE(publisher.full_due(1000));
  EXPECT_GT(publisher.last_version(), 3U);
}

TEST_F(ModelStore, AChainIsNoLongerThanConfigured) {
  ModelStoreWriter publisher = *ModelStoreWriter::open({.dir = dir_, .deltas_max = 2});
  Model model = large();
  publish_steps(publisher, model, 5);
  EXPECT_FALSE(fs::exists(file(3, "model.safetensors")));
  EXPECT_TRUE(fs::exists(file(4, "model.safetensors")));
}

TEST_F(ModelStore, AHoleInTheChainIsRefusedUntilTheNextFullFile) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader follower(dir_);
  Model model = large();
  publish_steps(publisher, model, 3);
  ASSERT_TRUE(follower.poll());
  publish_steps(publisher, model, 2);
  fs::remove_all(dir_ + "/versions/4");
  const auto refused = follower.poll();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("model version 5 refused: the delta of version 5 builds "
                                         "on version 4, which is missing"),
            std::string::npos)
      << refused.error().message;
  EXPECT_EQ(*follower.poll(), nullptr) << "reported once";
  EXPECT_FALSE(ModelStoreReader(dir_).load(5));
  ASSERT_TRUE(publisher.write_full(2000));
  const auto healed = follower.poll();
  ASSERT_TRUE(healed) << healed.error().message;
  ASSERT_NE(*healed, nullptr) << "the same version, which has a full file now";
  EXPECT_EQ(encode_model((*healed)->model), encode_model(model));
}

TEST_F(ModelStore, ADamagedDeltaIsRefusedAndWhatBuildsOnIt) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader follower(dir_);
  Model model = large();
  publish_steps(publisher, model, 2);
  ASSERT_TRUE(follower.poll());
  publish_steps(publisher, model, 1);
  damage(file(3, "delta.safetensors"));
  const auto refused = follower.poll();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("version 3: the check-sum of delta.safetensors"),
            std::string::npos)
      << refused.error().message;
  publish_steps(publisher, model, 1);
  EXPECT_FALSE(follower.poll());
  ASSERT_TRUE(publisher.write_full(2000));
  ASSERT_NE(*follower.poll(), nullptr);
  publish_steps(publisher, model, 1);
  EXPECT_EQ(encode_model((*follower.poll())->model), encode_model(model));
}

TEST_F(ModelStore, ADeltaOfAnotherHistoryIsRefused) {
  ModelStoreWriter publisher = writer();
  Model model = large();
  publish_steps(publisher, model, 2);
  // Another process's version 1 in its place, intact as it is.
  fs::rename(dir_ + "/versions/1", dir_ + "/kept");
  const std::string mine = dir_;
  dir_ += "/other";
  ModelStoreWriter other = writer();
  learn(model, 77);
  ASSERT_TRUE(other.publish(model, 1));
  dir_ = mine;
  fs::rename(dir_ + "/other/versions/1", dir_ + "/versions/1");
  const auto refused = ModelStoreReader(dir_).load(2);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("which is another one now"), std::string::npos);
}

TEST_F(ModelStore, PinRollbackAndExportWorkAcrossDeltas) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader reader(dir_);
  Model model = large();
  const auto expected = publish_steps(publisher, model, 6);
  ASSERT_TRUE(reader.poll());
  ASSERT_TRUE(reader.pin(3));
  EXPECT_EQ(encode_model((*reader.poll())->model), expected.at(3));
  EXPECT_EQ(*reader.export_to(dir_ + "/out"), 3U);
  EXPECT_EQ(*read_file(dir_ + "/out/model.safetensors"), expected.at(3));
  ASSERT_TRUE(reader.unpin());
  EXPECT_EQ(encode_model((*reader.poll())->model), expected.at(6));
  const auto rollback = reader.rollback();
  ASSERT_TRUE(rollback) << rollback.error().message;
  EXPECT_EQ(rollback->version, 5U);
  EXPECT_TRUE(rollback->skipped.empty());
  EXPECT_EQ(encode_model((*reader.poll())->model), expected.at(5));
}

TEST_F(ModelStore, ARollbackPassesOverDamagedVersionsAndSaysSo) {
  ModelStoreWriter publisher = writer();
  ModelStoreReader reader(dir_);
  Model model = large();
  const auto expected = publish_steps(publisher, model, 5);
  damage(file(3, "delta.safetensors"));  // and so 4, which builds on it
  const auto rollback = reader.rollback();
  ASSERT_TRUE(rollback) << rollback.error().message;
  EXPECT_EQ(rollback->version, 2U);
  ASSERT_EQ(rollback->skipped.size(), 2U);
  EXPECT_NE(rollback->skipped[0].find("model version 4 refused: version 3: the check-sum"),
            std::string::npos)
      << rollback->skipped[0];
  EXPECT_EQ(encode_model((*reader.poll())->model), expected.at(2));
  damage(file(1, "model.safetensors"));
  const auto none = reader.rollback();
  ASSERT_FALSE(none);
  EXPECT_NE(none.error().message.find("no older model version to roll back to: model version 1"),
            std::string::npos)
      << none.error().message;
  EXPECT_EQ(*reader.wanted(), std::optional<std::uint64_t>(2));
}

TEST_F(ModelStore, PruningCutsNoChain) {
  ModelStoreWriter publisher = writer(2);
  ModelStoreReader reader(dir_);
  Model model = large();
  const auto early = publish_steps(publisher, model, 4);
  ASSERT_TRUE(reader.pin(4));
  ASSERT_TRUE(publisher.write_full(2000));
  publish_steps(publisher, model, 1);
  EXPECT_EQ(kept(), (std::vector<std::uint64_t>{4, 5}));
  publish_steps(publisher, model, 2);
  ASSERT_TRUE(publisher.write_full(3000));
  const auto late = publish_steps(publisher, model, 2);
  EXPECT_EQ(kept(), (std::vector<std::uint64_t>{4, 7, 8, 9}));
  EXPECT_EQ(encode_model((*reader.poll())->model), early.at(4));
  ASSERT_TRUE(reader.unpin());
  EXPECT_EQ(encode_model((*reader.poll())->model), late.at(9));
}

TEST_F(ModelStore, AStoreOfFullFilesFromBeforeThereWereDeltasIsRead) {
  const std::string bytes = encode_model(sample());
  const auto canaries = *score_canaries(sample(), **make_ranker(sample().config));
  fs::create_directories(dir_ + "/versions/7");
  ASSERT_TRUE(write_file(file(7, "model.safetensors"), bytes));
  ASSERT_TRUE(
      write_file(file(7, "manifest.json"),
                 fmt::format(R"({{"version":7,"created_ms":5,"variant":"siren","bytes":{},)"
                             R"("xxh3_64":"{:016x}","canary_logits":[{}],"metrics":{{}}}})",
                             bytes.size(), base::xxh3_64(bytes), fmt::join(canaries, ","))));
  ASSERT_TRUE(write_file(dir_ + "/CURRENT", "7\n"));
  const auto snapshot = ModelStoreReader(dir_).poll();
  ASSERT_TRUE(snapshot) << snapshot.error().message;
  EXPECT_EQ(encode_model((*snapshot)->model), bytes);
  EXPECT_EQ(*writer().publish(sample(2), 9), 8U);
}

TEST_F(ModelStore, AnEmptyCurrentIsRefusedAndTheNextVersionReplacesIt) {
  ModelStoreReader reader(dir_);
  ASSERT_TRUE(writer().publish(sample(), 1));
  ASSERT_TRUE(reader.poll());
  ASSERT_TRUE(write_file(dir_ + "/CURRENT", ""));
  const auto refused = reader.poll();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("/CURRENT: is empty"), std::string::npos);
  EXPECT_EQ(*writer().publish(sample(2), 1), 2U);
  EXPECT_EQ((*reader.poll())->manifest.version, 2U);
}

TEST_F(ModelStore, WhatACrashLeavesAtAnyByteIsNoVersion) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  Model model = large();
  std::string expected;
  {
    ModelStoreWriter publisher = writer();
    publish_steps(publisher, model, 3);
    expected = encode_model(model);
  }
  const auto cut = [&](std::string text) { return text.substr(0, random() % (text.size() + 1)); };
  for (int round = 0; round < 60; ++round) {
    const std::string current = std::to_string(*ModelStoreReader(dir_).wanted().value());
    const std::string newest = dir_ + "/versions/" + current;
    const std::string writing = dir_ + "/versions/writing";
    switch (random() % 5) {
      case 0:  // in the middle of a version
        fs::create_directories(writing);
        ASSERT_TRUE(write_file(writing + "/delta.safetensors", cut(expected)));
        if (random() % 2 == 0) {
          ASSERT_TRUE(write_file(writing + "/manifest.json", cut("{\"version")));
        }
        break;
      case 1:  // between the version and CURRENT
        ASSERT_TRUE(write_file(dir_ + "/CURRENT.new", cut("999\n")));
        break;
      case 2:  // in the middle of a full file
        ASSERT_TRUE(write_file(newest + "/model.safetensors.new", cut(expected)));
        break;
      case 3:  // between a full file and its manifest
        if (!fs::exists(newest + "/model.safetensors")) {
          ASSERT_TRUE(write_file(newest + "/model.safetensors", expected));
        }
        ASSERT_TRUE(write_file(newest + "/manifest.json.new", cut("{\"version\":1}")));
        break;
      default:  // in the middle of a removal
        fs::create_directories(dir_ + "/versions/removing");
        ASSERT_TRUE(write_file(dir_ + "/versions/removing/manifest.json", cut("{}")));
    }
    const auto found = ModelStoreReader(dir_).poll();
    ASSERT_TRUE(found) << "round " << round << ": " << found.error().message;
    ASSERT_EQ(encode_model((*found)->model), expected) << "round " << round;
    ModelStoreWriter publisher = writer(3);
    publish_steps(publisher, model, static_cast<int>(random() % 3) + 1);
    if (random() % 2 == 0) {
      ASSERT_TRUE(publisher.write_full(5000));
    }
    expected = encode_model(model);
  }
}

TEST_F(ModelStore, AKilledPublisherLeavesAReadableStore) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  for (int round = 0; round < 12; ++round) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      Model model = large();
      ModelStoreWriter publisher = writer(2);
      for (int step = 0;; ++step) {
        learn(model, step % 2000);
        if (!publisher.publish(model, step)) _exit(1);
        if (step % 3 == 2 && !publisher.write_full(step)) _exit(1);
      }
    }
    while (!fs::exists(dir_ + "/CURRENT")) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 40));
    ASSERT_EQ(kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status)) << "it ended by itself: round " << round;
    const auto snapshot = ModelStoreReader(dir_).poll();
    ASSERT_TRUE(snapshot) << "round " << round << ": " << snapshot.error().message;
    ASSERT_NE(*snapshot, nullptr);
  }
}

TEST_F(ModelStore, ASecondWriterIsRefusedAndTheFolderIsNamed) {
  std::optional<ModelStoreWriter> publisher = writer();
  const auto second = ModelStoreWriter::open({.dir = dir_});
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, base::ErrorCode::kLocked);
  EXPECT_NE(second.error().message.find(dir_), std::string::npos);
  publisher.reset();
  EXPECT_TRUE(ModelStoreWriter::open({.dir = dir_}));
}

TEST_F(ModelStore, ADamagedManifestIsToldOf) {
  ModelStoreWriter publisher = writer();
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(publisher.publish(sample(), 1));
  ModelStoreReader reader(dir_);
  EXPECT_TRUE(reader.unreadable()->empty());
  ASSERT_TRUE(write_file(dir_ + "/versions/2/manifest.json", "{\"ver"));
  EXPECT_EQ(reader.list()->size(), 1U);
  const auto unreadable = *reader.unreadable();
  ASSERT_EQ(unreadable.size(), 1U);
  EXPECT_NE(unreadable[0].message.find("versions/2"), std::string::npos) << unreadable[0].message;
}

TEST_F(ModelStore, ARollbackThatCannotBeWrittenPassesNoVersionOver) {
  ModelStoreWriter publisher = writer();
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(publisher.publish(sample(), 1));
  fs::create_directories(dir_ + "/PINNED.new/in_the_way");
  ModelStoreReader reader(dir_);
  const auto failed = reader.rollback();
  ASSERT_FALSE(failed);
  EXPECT_EQ(failed.error().code, base::ErrorCode::kStorage);
  fs::remove_all(dir_ + "/PINNED.new");
  EXPECT_EQ(reader.rollback()->version, 2U);
}

TEST_F(ModelStore, AnExportThatFailsLeavesTheOneBefore) {
  ModelStoreWriter publisher = writer();
  ASSERT_TRUE(publisher.publish(sample(), 1));
  const std::string out = dir_ + "/out";
  ASSERT_TRUE(ModelStoreReader(dir_).export_to(out));
  const std::string before = *read_file(out + "/model.safetensors");
  ASSERT_TRUE(publisher.publish(sample(2), 1));
  fs::create_directories(out + "/model.safetensors.new/in_the_way");
  EXPECT_FALSE(ModelStoreReader(dir_).export_to(out));
  EXPECT_EQ(*read_file(out + "/model.safetensors"), before);
}

}  // namespace
}  // namespace sirenfeed::model
