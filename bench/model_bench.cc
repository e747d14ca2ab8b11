// Forward, backward and scoring at the default shape, one core. Every benchmark first checks that
// scores do not depend on the chunk and that the gradient is that of the score.
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <random>

#include "base/build_info.h"
#include "model/loss.h"
#include "model/model.h"
#include "model/ranker.h"

namespace sirenfeed::model {
namespace {

constexpr std::size_t kFeatures = 79;
constexpr std::size_t kItems = 7000;
constexpr std::size_t kChunk = 16;

ModelConfig default_config(Variant variant) {
  ModelConfig config;
  config.variant = variant;
  config.time_reference_ms = 1'649'980'800'000;
  for (std::size_t i = 0; i < kFeatures; ++i) config.context_names.push_back(fmt::format("c{}", i));
  return config;
}

Model default_model(Variant variant) {
  Model model = *make_model(default_config(variant));
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal(0.0F, 0.1F);
  for (float& value : model.dense) value += normal(random);
  for (Key key = 0; key < kItems; ++key) {
    if (key > 0) model.table(TableId::kItem).find_or_create(key * 77);
    if (key < 100) model.table(TableId::kTag).find_or_create(key);
    if (key < 100 && key > 0 && model.table(TableId::kSemanticTag).width() > 0) {
      model.table(TableId::kSemanticTag).find_or_create(key);
    }
    model.table(TableId::kAuthor).find_or_create(key);
  }
  model.statistics.context_examples = 1000;
  return model;
}

std::vector<Slate> make_slates(std::size_t count, std::size_t history, std::size_t candidates) {
  std::mt19937_64 random(2);
  std::vector<Slate> slates(count);
  for (Slate& slate : slates) {
    const auto item = [&] {
      const std::uint64_t id = 1 + random() % (kItems - 1);
      const auto begin = static_cast<std::uint32_t>(slate.tags.size());
      for (std::uint64_t t = 0; t <= id % 2; ++t) slate.tags.push_back(1 + (id * 31 + t) % 60);
      return ItemRef{id * 77, id % 5000, begin, static_cast<std::uint32_t>(slate.tags.size())};
    };
    slate.time_ms = 1'650'812'741'436 + static_cast<std::int64_t>(random() % 100'000'000);
    for (std::size_t i = 0; i < history; ++i) {
      const auto age = static_cast<std::int64_t>((history - i) * 3'000'000 + random() % 1'000'000);
      slate.history.push_back(
          {item(), slate.time_ms - age, static_cast<std::uint32_t>(random() % 8)});
    }
    for (std::size_t c = 0; c < candidates; ++c) {
      slate.candidates.push_back(item());
      for (std::size_t f = 0; f < kFeatures; ++f) {
        slate.context.push_back(static_cast<float>(random() % 1000) / 500.0F - 1.0F);
      }
    }
  }
  return slates;
}

void require(bool held, const char* what) {
  if (held) return;
  std::fprintf(stderr, "model_bench: %s\n", what);
  std::exit(1);
}

std::vector<const Slate*> pointers(const std::vector<Slate>& slates) {
  std::vector<const Slate*> out;
  for (const Slate& slate : slates) out.push_back(&slate);
  return out;
}

void check_first(const Ranker& ranker, const Model& model, const std::vector<const Slate*>& chunk) {
  Workspace workspace;
  const auto all = ranker.forward(model, chunk, workspace);
  const std::vector<float> together(all.begin(), all.end());
  const auto one = ranker.forward(model, std::span(chunk).first(1), workspace);
  for (std::size_t i = 0; i < one.size(); ++i) {
    require(std::isfinite(one[i]) && one[i] == together[i], "scores depend on the chunk");
  }
  // A small step along the gradient moves Σ z by the gradient's square.
  const std::vector<float> ones(one.size(), 1.0F);
  double before = 0;
  for (const float z : one) before += static_cast<double>(z);
  ChunkGradient gradient;
  ranker.backward(model, workspace, ones, gradient);
  double square = 0;
  for (const float g : gradient.dense) square += static_cast<double>(g) * static_cast<double>(g);
  const double step = 0.01 / square;
  Model moved = model;
  for (std::size_t i = 0; i < moved.dense.size(); ++i) {
    moved.dense[i] += static_cast<float>(step * static_cast<double>(gradient.dense[i]));
  }
  double after = 0;
  for (const float z : ranker.forward(moved, std::span(chunk).first(1), workspace)) {
    after += static_cast<double>(z);
  }
  require(std::abs((after - before) / 0.01 - 1.0) < 0.05, "the gradient is not that of the score");
}

/// One chunk of kChunk slates. Arguments: history tokens, candidates, variant.
template <bool kBackward>
void run_chunk(benchmark::State& state) {
  const auto variant = static_cast<Variant>(state.range(2));
  const Model model = default_model(variant);
  const auto ranker = *make_ranker(model.config);
  const auto slates = make_slates(kChunk, static_cast<std::size_t>(state.range(0)),
                                  static_cast<std::size_t>(state.range(1)));
  const auto chunk = pointers(slates);
  check_first(*ranker, model, chunk);
  Workspace workspace;
  ChunkGradient gradient;
  std::vector<float> d_z;
  for (auto _ : state) {
    const auto z = ranker->forward(model, chunk, workspace);
    if constexpr (kBackward) {
      d_z.assign(z.begin(), z.end());
      ranker->backward(model, workspace, d_z, gradient);
      benchmark::DoNotOptimize(gradient.dense.data());
    }
    benchmark::DoNotOptimize(z.data());
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(kChunk));
  state.SetLabel(variant_name(variant));
}

void forward(benchmark::State& state) { run_chunk<false>(state); }
void forward_backward(benchmark::State& state) { run_chunk<true>(state); }

/// Arguments: history tokens, candidates.
void score_request(benchmark::State& state) {
  const Model model = default_model(Variant::kSiren);
  const auto ranker = *make_ranker(model.config);
  const auto slates = make_slates(1, static_cast<std::size_t>(state.range(0)),
                                  static_cast<std::size_t>(state.range(1)));
  Workspace workspace;
  std::vector<float> logits(slates[0].candidates.size() * model.config.n_tasks());
  for (auto _ : state) {
    require(score(*ranker, model, slates[0], workspace, logits).has_value(), "score failed");
    benchmark::DoNotOptimize(logits.data());
  }
}

void shapes(benchmark::internal::Benchmark* bench) {
  const auto siren = static_cast<std::int64_t>(Variant::kSiren);
  for (const std::int64_t history : {7, 64, 70, 128}) bench->Args({history, 1, siren});
  bench->Args({7, 1, static_cast<std::int64_t>(Variant::kOrdinal)});
  bench->Unit(benchmark::kMicrosecond);
}

BENCHMARK(forward)->Apply(shapes);
BENCHMARK(forward_backward)->Apply(shapes);
BENCHMARK(score_request)
    ->Args({64, 500})
    ->Args({128, 500})
    ->Args({64, 20})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace sirenfeed::model

int main(int argc, char** argv) {
  benchmark::AddCustomContext("commit", sirenfeed::base::kCommit);
  benchmark::AddCustomContext("build", sirenfeed::base::kBuildType);
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
