// Latency of one feed at 500 candidates, by length of history: p50, p99 and where the time goes.
// The answer is checked against the model scoring one item alone before anything is timed.
#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <map>
#include <memory>
#include <random>

#include "base/build_info.h"
#include "base/check.h"
#include "base/hash.h"
#include "model/ranker.h"
#include "serving/scorer.h"
#include "tests/support/served_world.h"

namespace sirenfeed::serving {
namespace {

using test::kWorldStart;
using test::ServedWorld;
using test::WorldOptions;

constexpr int kItems = 4000;
constexpr int kUsers = 64;

WorldOptions bench_options() {
  WorldOptions options;
  options.serving.feed.sources.fresh_max = 200;
  options.serving.feed.sources.popular_max = 200;
  options.serving.feed.sources.topics_max = 200;
  options.serving.feed.sources.authors_max = 100;
  options.serving.feed.sources.exploration_max = 200;
  options.serving.feed.sources.candidates_max = 500;
  return options;
}

/// A world of 4,000 items whose users have `history` exposures each, a third of them clicked.
/// `towers` of the model beside the transformer: 0 none, 1 the counter tower, 2 the cross tower
/// too.
std::unique_ptr<ServedWorld> make_world(int history, int towers) {
  WorldOptions options = bench_options();
  if (towers > 0) options.towers.emplace_back("counter");
  if (towers > 1) options.towers.emplace_back("cross");
  auto world = std::make_unique<ServedWorld>(options);
  std::vector<ingest::EventBody> events;
  for (int i = 0; i < kItems; ++i) {
    events.emplace_back(
        ServedWorld::item("i" + std::to_string(i), "author" + std::to_string(i % 200),
                          "topic" + std::to_string(i % 40), kWorldStart - 86'400'000 + i * 1000));
  }
  std::mt19937_64 random(1);
  for (int t = 0; t < history; ++t) {
    for (int u = 0; u < kUsers; ++u) {
      const std::string user = "u" + std::to_string(u);
      const std::string item = "i" + std::to_string(random() % kItems);
      const base::UnixMs time = kWorldStart - 3'600'000 + t * 10'000 + u;
      events.emplace_back(ServedWorld::impression(user, {item}, time));
      if (random() % 3 == 0) events.emplace_back(ServedWorld::action(user, item, time + 500));
    }
  }
  world->publish(events);
  world->publish_model(1);
  return world;
}

ServedWorld& world_of(int history, int towers) {
  // Never destroyed: RocksDB's own statics are gone by the time that ours would close it.
  static auto& worlds = *new std::map<std::pair<int, int>, std::unique_ptr<ServedWorld>>();
  auto& world = worlds[{history, towers}];
  if (!world) world = make_world(history, towers);
  return *world;
}

/// The feed's first score must be that of its item scored alone.
void check(ServedWorld& world, const FeedAnswer& answer) {
  const auto& reader = world.state->reader();
  const auto user = reader.read_user(answer.user_id, answer.time_ms);
  SF_CHECK(user && !answer.items.empty() && !answer.degraded);
  Candidate candidate;
  candidate.item = base::xxh3_64(answer.items[0].item_id);
  candidate.info = reader.item(candidate.item);
  std::vector<float> context(reader.feature_names().size());
  reader.context(*user, std::span(&candidate.item, 1), "", context);
  const auto snapshot = world.models->current();
  model::Workspace workspace;
  std::vector<float> logits(snapshot->model.config.n_tasks());
  SF_CHECK(model::score(*snapshot->ranker, snapshot->model,
                        make_slate(*user, "", answer.time_ms, std::span(&candidate, 1), context),
                        workspace, logits));
  const double alone = 1.0 / (1.0 + std::exp(-static_cast<double>(logits[0])));
  SF_CHECK(std::abs(alone - answer.items[0].probabilities[0].second) < 1e-5);
}

/// Processor time of this thread: what a feed costs, whoever else is on the machine.
double thread_cpu_ms() {
  timespec now{};
  SF_CHECK(::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) * 1e3 + static_cast<double>(now.tv_nsec) * 1e-6;
}

double quantile(std::vector<double>& values, double q) {
  const auto at = static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + at, values.end());
  return values[static_cast<std::size_t>(at)];
}

void BM_Feed(benchmark::State& state) {
  ServedWorld& world = world_of(static_cast<int>(state.range(0)), static_cast<int>(state.range(1)));
  std::vector<double> took_ms;
  std::vector<double> cpu_ms;
  std::map<std::string, double> stages_ms;
  double candidates = 0;
  int n = 0;
  for (auto _ : state) {
    FeedRequest request;
    request.user_id = "u" + std::to_string(n++ % kUsers);
    request.count = 20;
    request.debug = true;
    const double cpu_before = thread_cpu_ms();
    const auto answer = world.feeds->feed(request);
    cpu_ms.push_back(thread_cpu_ms() - cpu_before);
    SF_CHECK(answer);
    took_ms.push_back(static_cast<double>(answer->took_us) / 1000);
    state.PauseTiming();
    if (n == 1) check(world, *answer);
    double scored = static_cast<double>(answer->items.size());
    for (const RemovedItem& removed : answer->removed) {
      if (removed.reason.ends_with("_cap") || removed.reason == "ranked_lower") ++scored;
    }
    candidates += scored;
    for (const auto& [stage, us] : answer->debug->stages_us) {
      stages_ms[stage] += static_cast<double>(us) / 1000;
    }
    state.ResumeTiming();
  }
  const auto requests = static_cast<double>(took_ms.size());
  state.counters["p50_ms"] = quantile(took_ms, .5);
  state.counters["p99_ms"] = quantile(took_ms, .99);
  state.counters["max_ms"] = quantile(took_ms, 1);
  state.counters["cpu_p50_ms"] = quantile(cpu_ms, .5);
  state.counters["cpu_p99_ms"] = quantile(cpu_ms, .99);
  state.counters["scored"] = candidates / requests;
  for (const auto& [stage, ms] : stages_ms) state.counters[stage + "_ms"] = ms / requests;
}
BENCHMARK(BM_Feed)
    ->ArgNames({"history", "towers"})
    ->ArgsProduct({{64, 128}, {0, 1, 2}})
    ->MinTime(3)
    ->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sirenfeed::serving

int main(int argc, char** argv) {
  std::cout << "feed_bench, commit " << sirenfeed::base::kCommit << ", "
            << sirenfeed::base::kBuildType << "\n";
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
}
