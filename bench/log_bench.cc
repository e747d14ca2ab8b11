// Records a second through the embedded log: appended until durable, and read back. A record is an
// event of the size that publishers send (about 200 bytes).
#include <benchmark/benchmark.h>

#include <memory>
#include <string>

#include "base/check.h"
#include "base/log.h"
#include "bench/bench_folder.h"
#include "ingest/embedded_log.h"

namespace sirenfeed::ingest {
namespace {

constexpr std::int64_t kRecords = 200'000;
constexpr auto kPatience = std::chrono::minutes(5);

/// A log in a new folder, which goes with it.
class BenchLog {
 public:
  explicit BenchLog(FsyncPolicy fsync) {
    base::configure_log({base::LogLevel::kWarning});
    EmbeddedLogConfig config;
    config.dir = folder_.path();
    config.fsync = fsync;
    auto opened = EmbeddedLog::open(config);
    SF_CHECK(opened);
    log_ = *std::move(opened);
  }
  BenchLog(const BenchLog&) = delete;
  BenchLog& operator=(const BenchLog&) = delete;

  EventLog& operator*() { return *log_; }

 private:
  const bench::BenchFolder folder_;  // first: it outlives the log
  std::unique_ptr<EventLog> log_;
};

/// Returns when the last of kRecords is durable.
void append_records(EventLog& log) {
  const std::string value(180, 'x');
  auto writer = log.open_writer("bench");
  SF_CHECK(writer);
  std::int64_t delivered = 0;  // callbacks come from one thread, and flush() is behind them
  for (std::int64_t i = 0; i < kRecords; ++i) {
    const auto partition = static_cast<Partition>(i % 4);
    SF_CHECK((*writer)->append({Topic::kImpressions, partition}, "user-" + std::to_string(i), value,
                               i,
                               [&](base::Result<Offset> offset) { delivered += offset ? 1 : 0; }));
  }
  SF_CHECK((*writer)->flush(kPatience));
  SF_CHECK(delivered == kRecords);
}

void append(benchmark::State& state) {
  BenchLog log(static_cast<FsyncPolicy>(state.range(0)));
  for (auto _ : state) append_records(*log);
  state.SetItemsProcessed(state.iterations() * kRecords);
}
BENCHMARK(append)
    ->ArgName("fsync:always=0,interval=1,never=2")
    ->DenseRange(0, 2)
    ->UseRealTime()
    ->Unit(benchmark::kMillisecond);

void read(benchmark::State& state) {
  BenchLog log(FsyncPolicy::kInterval);
  append_records(*log);
  for (auto _ : state) {
    auto reader = (*log).open_reader({});
    for (Partition p = 0; p < 4; ++p) {
      SF_CHECK((*reader)->assign({Topic::kImpressions, p}, std::nullopt));
    }
    std::int64_t records = 0;
    while (records < kRecords) {
      const auto batch = (*reader)->poll(kPatience);
      SF_CHECK(batch);
      records += static_cast<std::int64_t>(batch->records.size());
    }
    SF_CHECK(records == kRecords);
  }
  state.SetItemsProcessed(state.iterations() * kRecords);
}
BENCHMARK(read)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sirenfeed::ingest

BENCHMARK_MAIN();
