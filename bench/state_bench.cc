// Events a second through the state on one core, over KuaiRand: SIRENFEED_KUAIRAND names the file
// (default: the slice of tests/data). `apply`: records that are parsed already. `log_to_state`: the
// whole way of `evaluate`, file → parser → merge → state. Every run checks what it has counted.
#include <benchmark/benchmark.h>
#include <example.pb.h>

#include <span>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "bench/bench_folder.h"
#include "bench/kuairand_log.h"
#include "bench/require.h"
#include "features/feature_state.h"
#include "ingest/event_parser.h"
#include "ingest/ingest_loop.h"

namespace sirenfeed {
namespace {

using bench::require;

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

std::vector<ingest::InputRecord> parsed_records() {
  const base::WallClock clock;
  ingest::EventParser parser({}, clock);
  std::vector<ingest::InputRecord> records;
  for (ingest::LogRecord& record : bench::kuairand_records()) {
    records.push_back(parser.parse(std::move(record), 1));
  }
  return records;
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
    const bench::BenchFolder folder;
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
    const bench::BenchFolder folder;
    base::MetricsRegistry registry;
    features::FeaturesProbe probe(registry);
    const ingest::IngestProbe ingest_probe(registry);
    features::StateWiring wiring;
    wiring.observer = &seen;
    const auto state =
        require(features::FeatureState::open(bench_config(folder.path(), false), probe, wiring));
    ingest::ReplayLog log = bench::kuairand_log();
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
  const bench::BenchFolder folder;
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
