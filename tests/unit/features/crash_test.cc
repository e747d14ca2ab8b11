// What a crash of the machine or a failing disk leaves: the same state, once the records that it
// may have lost are read again.
#include <algorithm>
#include <fstream>

#include "state_fixture.h"
#include "tests/support/fault_file_system.h"

namespace sirenfeed::features {
namespace {

namespace fs = std::filesystem;

using Batches = std::vector<std::vector<ingest::InputRecord>>;

Batches stream(int batches) {
  Records records;
  Batches all;
  for (int b = 0; b < batches; ++b) {
    auto& batch = all.emplace_back();
    for (int i = 0; i < 5; ++i) {
      const std::string n = std::to_string(5 * b + i);
      const std::string user = "u" + std::to_string(i);
      const base::UnixMs time = kStart + (5 * b + i) * 60'000;
      batch.push_back(records.of(item_event("item-" + n, time, {"t"}, "p")));
      batch.push_back(records.of(impression_event("i" + n, user, time, {"item-" + n}, "home")));
      batch.push_back(records.of(action_event(user, "item-" + n, time + 10, "click", "i" + n)));
    }
  }
  return all;
}

class CrashTest : public testing::Test {
 protected:
  /// The state after all of `batches`, undisturbed.
  static std::string expected(const Batches& batches) {
    StateUnderTest s;
    for (const auto& batch : batches) s.apply(batch);
    return s.canonical();
  }
  [[nodiscard]] FeaturesConfig config(const std::string& dir, bool wal_sync) const {
    FeaturesConfig config = StateUnderTest::default_config();
    config.store.dir = dir;
    config.store.wal_sync = wal_sync;
    config.store.env = disk_.env();
    return config;
  }
  test_support::FaultDisk disk_;
  TempDir folder_;
};

TEST_F(CrashTest, AFailingFsyncFailsTheBatchAndTheSameBatchSucceedsLater) {
  const Batches batches = stream(6);
  StateUnderTest s(config(folder_.path(), /*wal_sync=*/true));
  for (int b = 0; b < 3; ++b) s.apply(batches[static_cast<std::size_t>(b)]);
  const std::string before = s.canonical();
  disk_->fail_syncs(true);
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto done = s.state->apply(batches[3]);
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code, base::ErrorCode::kStorage) << done.error().message;
  }
  EXPECT_EQ(s.canonical(), before) << "reads go on, and see nothing of it";
  disk_->fail_syncs(false);
  for (const auto& batch : batches) s.apply(batch);  // the first ones again, too
  EXPECT_EQ(s.canonical(), expected(batches));
  s.reopen();
  EXPECT_EQ(s.canonical(), expected(batches));
}

TEST_F(CrashTest, APowerCutLosesNothingThatWasSynced) {
  const Batches batches = stream(8);
  {
    StateUnderTest s(config(folder_.path(), /*wal_sync=*/true));
    for (const auto& batch : batches) s.apply(batch);
  }
  disk_->lose_unsynced();
  StateUnderTest s(config(folder_.path(), true));
  EXPECT_EQ(s.canonical(), expected(batches));
}

TEST_F(CrashTest, AfterAPowerCutWithoutSyncTheStateIsAnEarlierOneAndReadingAgainMakesItWhole) {
  const Batches batches = stream(8);
  {
    StateUnderTest s(config(folder_.path(), /*wal_sync=*/false));
    for (const auto& batch : batches) s.apply(batch);
  }
  disk_->lose_unsynced();
  StateUnderTest s(config(folder_.path(), false));
  const auto at = s.state->position({ingest::Topic::kImpressions, 0});
  ASSERT_TRUE(at);
  EXPECT_LT((*at ? (*at)->offset : -1), 39) << "or this test shows nothing";
  for (const auto& batch : batches) s.apply(batch);
  EXPECT_EQ(s.canonical(), expected(batches));
}

TEST_F(CrashTest, ATornLastWriteIsReadAgain) {
  const Batches batches = stream(4);
  {
    StateUnderTest s(config(folder_.path(), true));
    for (const auto& batch : batches) s.apply(batch);
  }
  std::string wal;
  for (const auto& file : fs::directory_iterator(folder_.path())) {
    if (file.path().extension() == ".log") wal = std::max(wal, file.path().string());
  }
  ASSERT_FALSE(wal.empty());
  const std::uintmax_t bytes = fs::file_size(wal);
  const std::string whole = expected(batches);
  for (const std::uintmax_t cut : {1U, 7U, 100U, 1'000U, 3'000U}) {
    SCOPED_TRACE(cut);
    TempDir copy;
    fs::copy(folder_.path(), copy.path(), fs::copy_options::recursive);
    const fs::path torn = copy.path() / fs::path(wal).filename();
    fs::resize_file(torn, bytes - cut);
    if (cut == 100) {  // and what stood in the blocks before
      std::ofstream(torn, std::ios::app | std::ios::binary) << std::string(60, '\x5a');
    }
    StateUnderTest s(config(copy.path(), true));
    EXPECT_NE(s.canonical(), whole) << "or nothing was torn";
    for (const auto& batch : batches) s.apply(batch);
    EXPECT_EQ(s.canonical(), whole);
  }
}

TEST_F(CrashTest, WhicheverOperationOfTheDiskFailsTheStateEndsUpTheSame) {
  const Batches batches = stream(12);
  const std::string whole = expected(batches);
  std::uint64_t failures = 0;
  for (std::uint64_t n = 1; n < 24; n += 1 + n / 6) {
    SCOPED_TRACE(n);
    TempDir folder;
    test_support::FaultDisk disk;
    FeaturesConfig failing = config(folder.path(), true);
    failing.store.env = disk.env();
    StateUnderTest s(failing);  // opens on a good disk
    disk->fail_operation(n);
    for (const auto& batch : batches) {
      base::Result<void> done;
      for (int attempt = 0; attempt < 5; ++attempt) {
        done = s.state->apply(batch);
        if (done) break;
        EXPECT_EQ(done.error().code, base::ErrorCode::kStorage) << done.error().message;
      }
      ASSERT_TRUE(done) << done.error().message;
    }
    failures += disk->has_failed() ? 1 : 0;
    disk->fail_operation(0);
    EXPECT_EQ(s.canonical(), whole);
    s.reopen();
    EXPECT_EQ(s.canonical(), whole);
  }
  EXPECT_GE(failures, 5U) << "or this test shows nothing";
}

}  // namespace
}  // namespace sirenfeed::features
