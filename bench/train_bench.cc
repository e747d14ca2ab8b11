// Exposures a second through the trainer: scoring as `evaluate` does (one candidate an exposure,
// between two batches), learning, and both. Arguments: history tokens, threads.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "model/model.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::trainer {
namespace {

constexpr std::size_t kExamples = 4'096;
constexpr std::size_t kContexts = 79;
constexpr std::size_t kItems = 7'500;
constexpr base::UnixMs kStartMs = 1'650'000'000'000;

model::Model start_model() {
  model::ModelConfig config;
  for (std::size_t f = 0; f < kContexts; ++f) {
    config.context_names.push_back("c" + std::to_string(f));
  }
  auto model = model::make_model(config);
  if (!model) {
    std::fprintf(stderr, "%s\n", model.error().message.c_str());
    std::exit(1);
  }
  return *std::move(model);
}

// Items, authors and tags are as unequal as real ones: the square of a uniform number.
model::ItemRef add_item(std::mt19937_64& random, model::Slate& slate) {
  const double u = std::uniform_real_distribution<double>(0, 1)(random);
  const auto item = static_cast<model::Key>(u * u * double{kItems});
  model::ItemRef ref;
  ref.item = (item + 1) * 0x9E3779B97F4A7C15ULL;
  ref.author = (item % 5'000 + 1) * 0xC2B2AE3D27D4EB4FULL;
  ref.tags_begin = static_cast<std::uint32_t>(slate.tags.size());
  slate.tags.push_back((item % 40 + 1) * 0x165667B19E3779F9ULL);
  if (item % 3 == 0) slate.tags.push_back((item % 37 + 50) * 0x165667B19E3779F9ULL);
  ref.tags_end = static_cast<std::uint32_t>(slate.tags.size());
  return ref;
}

std::vector<DecodedExample> make_examples(std::size_t tokens) {
  std::mt19937_64 random(1);
  std::normal_distribution<float> normal;
  std::vector<DecodedExample> examples(kExamples);
  for (std::size_t i = 0; i < kExamples; ++i) {
    model::Slate& slate = examples[i].slate;
    slate.time_ms = kStartMs + static_cast<std::int64_t>(i) * 7'000;
    slate.segment = random() % 8 + 1;
    for (std::size_t h = 0; h < tokens; ++h) {
      const auto age = static_cast<std::int64_t>(tokens - h) * 1'234'567;
      slate.history.push_back(
          {add_item(random, slate), slate.time_ms - age, static_cast<std::uint32_t>(random() % 8)});
    }
    slate.candidates.push_back(add_item(random, slate));
    for (std::size_t f = 0; f < kContexts; ++f) slate.context.push_back(normal(random));
    const bool click = random() % 3 == 0;
    examples[i].labels = {
        .label = {click ? 1.0F : 0.0F, click && random() % 2 == 0 ? 1.0F : 0.0F, 0},
        .weight = {1, 1, 1}};
  }
  return examples;
}

struct Bench {
  std::vector<DecodedExample> examples;
  std::unique_ptr<OnlineTrainer> trainer;
  std::vector<const DecodedExample*> batch;
  std::vector<const model::Slate*> slates;
  std::vector<float> logits;

  Bench(std::size_t tokens, std::size_t threads) : examples(make_examples(tokens)) {
    StepConfig config;
    config.threads = threads;
    auto made = OnlineTrainer::create(start_model(), config);
    if (!made) {
      std::fprintf(stderr, "%s\n", made.error().message.c_str());
      std::exit(1);
    }
    trainer = *std::move(made);
  }
  void take(std::size_t number) {
    const std::size_t size = trainer->config().batch_examples;
    batch.clear();
    slates.clear();
    for (std::size_t i = 0; i < size; ++i) {
      const DecodedExample& example = examples[(number * size + i) % examples.size()];
      batch.push_back(&example);
      slates.push_back(&example.slate);
    }
  }
  [[nodiscard]] std::string state() const {
    std::string bytes;
    trainer->append_to(bytes);
    return bytes;
  }
};

// A benchmark of something wrong is worth nothing: one and two threads must give the same bytes.
void check_threads(std::size_t tokens) {
  Bench one(tokens, 1);
  Bench two(tokens, 2);
  for (std::size_t number = 0; number < 4; ++number) {
    for (Bench* bench : {&one, &two}) {
      bench->take(number);
      if (!bench->trainer->learn(bench->batch).learned) std::abort();
    }
  }
  if (one.state() != two.state()) {
    std::fprintf(stderr, "one and two threads give different models\n");
    std::exit(1);
  }
}

enum class Work { kScore, kLearn, kBoth };

void run(benchmark::State& state, Work work) {
  const auto tokens = static_cast<std::size_t>(state.range(0));
  check_threads(tokens);
  Bench bench(tokens, static_cast<std::size_t>(state.range(1)));
  std::size_t number = 0;
  for (auto _ : state) {
    bench.take(number++);
    if (work != Work::kLearn) bench.trainer->score(bench.slates, bench.logits);
    if (work != Work::kScore) bench.trainer->learn(bench.batch);
  }
  const double exposures =
      static_cast<double>(number) * static_cast<double>(bench.trainer->config().batch_examples);
  state.counters["exposures/s"] = benchmark::Counter(exposures, benchmark::Counter::kIsRate);
}

void shapes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"tokens", "threads"});
  for (const int tokens : {7, 64, 128}) {
    for (const int threads : {1, 2}) benchmark->Args({tokens, threads});
  }
  benchmark->UseRealTime()->Unit(benchmark::kMillisecond);
}

void train_score(benchmark::State& state) { run(state, Work::kScore); }
void train_learn(benchmark::State& state) { run(state, Work::kLearn); }
void train_score_and_learn(benchmark::State& state) { run(state, Work::kBoth); }
BENCHMARK(train_score)->Apply(shapes);
BENCHMARK(train_learn)->Apply(shapes);
BENCHMARK(train_score_and_learn)->Apply(shapes);

}  // namespace
}  // namespace sirenfeed::trainer

BENCHMARK_MAIN();
