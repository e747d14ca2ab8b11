// Events a second through the state on one core, over KuaiRand: SIRENFEED_KUAIRAND names the file
// (default: the slice of tests/data). `apply`: records that are parsed already. `log_to_state`: the
// whole way of `evaluate`, file → parser → merge → state. Every run checks what it has counted.
#include <benchmark/benchmark.h>
#include <example.pb.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "features/feature_state.h"
#include "ingest/event_parser.h"
#include "ingest/ingest_loop.h"
#include "ingest/replay_log_reader.h"

namespace sirenfeed {
namespace {

std::string input_file() {
  const char* named = std::getenv("SIRENFEED_KUAIRAND");
  return named != nullptr ? named : "tests/data/kuairand_pure/impressions_slice.csv.gz";
}

template <class T>
T require(base::Result<T> result) {
  if (!result) {
    std::fprintf(stderr, "%s\n", result.error().message.c_str());
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

struct CountingObserver final : features::ExampleObserver {
  void on_exposure(const features::Example& /*example*/) override { ++exposures; }
  void on_closed(const features::Example& example) override {
    ++closed;
    for (const auto& candidate : example.candidates()) clicks += candidate.label_bits() & 1U;
  }
  std::uint64_t exposures = 0;
  std::uint64_t closed = 0;
  std::uint64_t clicks = 0;
};

features::FeaturesConfig bench_config(const std::string& dir, bool live) {
  features::FeaturesConfig config;
  config.store.dir = dir;
  config.store.wal = live;
  config.outbox = live;
  config.index.enabled = live;
  config.join.lateness_max_ms = 0;
  config.context.surfaces = {"0", "1", "2", "4", "6"};
  config.context.duration_field = "duration_ms";
  config.context.duration_unit_s = 0.001;
  return config;
}

class Folder {
 public:
  Folder() {
    std::string pattern = std::filesystem::temp_directory_path() / "sirenfeed-bench-XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) std::exit(1);
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

std::vector<ingest::InputRecord> parsed_records() {
  ingest::ReplayLog log(
      require(ingest::open_replay(input_file(), ingest::ReplayFormat::kKuairand, {})));
  const auto reader = require(log.open_reader({.name = "bench"}));
  for (const auto topic : {ingest::Topic::kItems, ingest::Topic::kUsers,
                           ingest::Topic::kImpressions, ingest::Topic::kClicks}) {
    require(reader->assign({topic, 0}, std::nullopt));
  }
  const base::WallClock clock;
  ingest::EventParser parser({}, clock);
  std::vector<ingest::InputRecord> records;
  for (;;) {
    ingest::PollBatch batch = require(reader->poll(std::chrono::milliseconds(0)));
    if (batch.records.empty()) return records;
    for (ingest::LogRecord& record : batch.records) {
      records.push_back(parser.parse(std::move(record), 1));
    }
  }
}

void report(benchmark::State& bench, std::uint64_t records, const CountingObserver& seen) {
  if (seen.exposures == 0 || seen.closed != seen.exposures || seen.clicks == 0) {
    bench.SkipWithError("examples are missing");
  }
  bench.counters["records"] = static_cast<double>(records);
  bench.counters["exposures"] = static_cast<double>(seen.exposures);
  bench.counters["clicks"] = static_cast<double>(seen.clicks);
  bench.counters["records/s"] = benchmark::Counter(static_cast<double>(records),
                                                   benchmark::Counter::kIsIterationInvariantRate);
}

// Argument: 1 with WAL, outbox and candidate indexes, as live; 0 without, as evaluate.
void apply(benchmark::State& bench) {
  static const std::vector<ingest::InputRecord> records = parsed_records();
  CountingObserver seen;
  for (auto _ : bench) {
    seen = {};
    const Folder folder;
    base::MetricsRegistry registry;
    features::FeaturesProbe probe(registry);
    features::StateWiring wiring;
    wiring.observer = &seen;
    const auto state = require(features::FeatureState::open(
        bench_config(folder.path(), bench.range(0) != 0), probe, wiring));
    for (std::size_t at = 0; at < records.size(); at += 1'000) {
      const std::size_t count = std::min<std::size_t>(1'000, records.size() - at);
      require(state->apply(std::span(records).subspan(at, count)));
    }
    require(state->close_windows(0));
  }
  report(bench, records.size(), seen);
}
BENCHMARK(apply)->ArgName("live")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond)->Iterations(1);

void log_to_state(benchmark::State& bench) {
  CountingObserver seen;
  std::uint64_t records = 0;
  for (auto _ : bench) {
    seen = {};
    const Folder folder;
    base::MetricsRegistry registry;
    features::FeaturesProbe probe(registry);
    const ingest::IngestProbe ingest_probe(registry);
    features::StateWiring wiring;
    wiring.observer = &seen;
    const auto state =
        require(features::FeatureState::open(bench_config(folder.path(), false), probe, wiring));
    ingest::ReplayLog log(
        require(ingest::open_replay(input_file(), ingest::ReplayFormat::kKuairand, {})));
    ingest::IngestConfig config;
    config.parser.check_future = false;
    config.idle_flush_after.reset();
    const base::EventClock clock;
    const base::SteadyClock steady;
    ingest::IngestLoop loop(config, {log, *state, clock, steady, ingest_probe});
    require(loop.run_until_end());
    records = probe.in.value();
  }
  report(bench, records, seen);
}
BENCHMARK(log_to_state)->Unit(benchmark::kMillisecond)->Iterations(1);

// What a request reads: one user, 500 candidates and their context features.
void read_request(benchmark::State& bench) {
  const Folder folder;
  base::MetricsRegistry registry;
  features::FeaturesProbe probe(registry);
  const auto state =
      require(features::FeatureState::open(bench_config(folder.path(), true), probe, {}));
  const std::vector<ingest::InputRecord> records = parsed_records();
  require(state->apply(records));
  std::vector<std::string> users;
  for (const ingest::InputRecord& record : records) {
    if (const auto* body = std::get_if<ingest::EventBody>(&record.content)) {
      const auto* shown = std::get_if<ingest::Impression>(body);
      if (shown != nullptr && users.size() < 1'000) users.push_back(shown->user_id);
    }
  }
  const features::FeatureReader& reader = state->reader();
  const base::UnixMs now = records.back().time_ms + 1;
  const std::vector<features::Key> items = reader.fresh(500, now);
  std::vector<float> context(items.size() * reader.feature_names().size());
  std::size_t next = 0;
  for (auto _ : bench) {
    const auto user = require(reader.read_user(users[next++ % users.size()], now));
    reader.context(user, items, "1", context);
    benchmark::DoNotOptimize(context.data());
  }
  if (items.size() != 500) bench.SkipWithError("candidates are missing");
}
BENCHMARK(read_request)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sirenfeed

BENCHMARK_MAIN();
