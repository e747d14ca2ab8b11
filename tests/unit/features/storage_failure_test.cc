// A disk that takes nothing more: the batch fails whole, and succeeds when there is room again.
#include <sys/resource.h>

#include <csignal>

#include "features/outbox_relay.h"
#include "state_fixture.h"
#include "tests/fakes/memory_log.h"

namespace sirenfeed::features {
namespace {

/// No file grows beyond `bytes` while it lives, as on a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before_);
    rlimit limit = before_;
    limit.rlim_cur = bytes;
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() { setrlimit(RLIMIT_FSIZE, &before_); }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit before_{};
};

std::vector<ingest::InputRecord> slates(Records& records, int from, int to) {
  std::vector<ingest::InputRecord> batch;
  for (int i = from; i < to; ++i) {
    const std::string n = std::to_string(i);
    batch.push_back(records.of(item_event("item-" + n, kStart + i, {"t"}, "p")));
    batch.push_back(records.of(
        impression_event("i" + n, "u" + std::to_string(i % 5), kStart + i, {"item-" + n}, "home")));
    batch.push_back(records.of(
        action_event("u" + std::to_string(i % 5), "item-" + n, kStart + i, "click", "i" + n)));
  }
  return batch;
}

TEST(StorageFailure, AFullDiskFailsTheBatchAndTheSameBatchSucceedsLater) {
  StateUnderTest s;
  StateUnderTest undisturbed;
  const auto first = slates(s.records, 0, 20);
  const auto second = slates(s.records, 20, 120);
  s.apply(first);
  undisturbed.apply(first);
  const std::string before = s.canonical();
  {
    const FileSizeLimit full(16U << 10U);
    for (int attempt = 0; attempt < 3; ++attempt) {
      const auto done = s.state->apply(second);
      ASSERT_FALSE(done);
      EXPECT_EQ(done.error().code, base::ErrorCode::kStorage) << done.error().message;
    }
    EXPECT_EQ(s.canonical(), before);
    EXPECT_EQ(s.probe->in.value(), first.size());
    EXPECT_EQ(s.reader().item("item-21"), nullptr);
  }
  const auto done = s.state->apply(second);
  ASSERT_TRUE(done) << done.error().message;
  undisturbed.apply(second);
  EXPECT_EQ(s.canonical(), undisturbed.canonical());
  s.reopen();
  EXPECT_EQ(s.canonical(), undisturbed.canonical());
}

TEST(StorageFailure, TheOutboxOfAReopenedStoreLeavesWithoutAnotherBatch) {
  StateUnderTest s;
  fakes::MemoryLog log;
  OutboxRelayConfig config;
  config.retry_backoff = config.retry_backoff_max = std::chrono::milliseconds(1);
  // Two windows closed by one batch, which the disk refuses at first.
  const std::vector<ingest::InputRecord> batch = {
      s.records.of(impression_event("i1", "u", kStart, {"a"})),
      s.records.of(impression_event("i2", "u", kStart + 1, {"a"})),
      s.records.of(impression_event("i3", "v", kStart + 700'000, {"a"}))};
  {
    const FileSizeLimit full(100);
    ASSERT_FALSE(s.state->apply(batch));
  }
  ASSERT_TRUE(s.state->apply(batch));
  {
    const FileSizeLimit full(100);
    ASSERT_FALSE(s.state->apply(std::vector{s.records.of(action_event("u", "a", kStart + 2))}));
  }
  // The store waits to be opened again: the relay's own acknowledgement does it.
  OutboxRelay relay(config, s.state->outbox(), log, *s.probe);
  relay.start();
  const auto drained = relay.drain(std::chrono::seconds(10));
  EXPECT_TRUE(drained) << drained.error().message;
  relay.stop();
  EXPECT_EQ(log.records({ingest::Topic::kExamples, 0}).size(), 2U);
  EXPECT_EQ(s.probe->outbox_entries.value(), 0);
}

TEST(StorageFailure, AFolderThatCannotBeMadeIsNamed) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.store.dir = "/proc/nowhere/state";
  base::MetricsRegistry registry;
  FeaturesProbe probe(registry);
  const auto state = FeatureState::open(config, probe);
  ASSERT_FALSE(state);
  EXPECT_EQ(state.error().code, base::ErrorCode::kStorage);
  EXPECT_NE(state.error().message.find("/proc/nowhere/state"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::features
