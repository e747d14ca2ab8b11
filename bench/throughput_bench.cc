// Training exposures/s against threads, latency of scoring 500 candidates, what SIREN-RoPE costs
// over plain rotation, and the share of the machine's own matrix-product peak that training
// reaches.
//
//   throughput_bench               prints the tables
//   throughput_bench --write DIR   writes the workload and our answers for bench/torch_peer
//   throughput_bench --serve       reads "train|score SIZE VARIANT TOKENS THREADS SECONDS" line by
//                                  line, answers each with one line of JSON
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>

#include "base/build_info.h"
#include "bench/throughput_case.h"
#include "model/cost.h"
#include "model/gemm.h"
#include "model/model_file.h"
#include "model/ranker.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::bench {
namespace {

using model::Variant;
using trainer::DecodedExample;
using trainer::OnlineTrainer;
using Clock = std::chrono::steady_clock;

[[noreturn]] void give_up(const std::string& why) {
  std::cerr << "throughput_bench: " << why << '\n';
  std::exit(1);
}

template <class T>
T need(base::Result<T> result) {
  if (!result) give_up(result.error().message);
  return *std::move(result);
}

ModelSize size_named(const std::string& name) {
  for (const ModelSize& size : {kDefaultSize, kLargeSize}) {
    if (name == size.name) return size;
  }
  give_up("no size " + name);
}

struct Task {
  std::string work;
  std::string size;
  std::string variant;
  std::size_t tokens = 0;
  std::size_t threads = 0;
  [[nodiscard]] std::string key() const {
    return fmt::format("{} {} {} {} {}", work, size, variant, tokens, threads);
  }
};

std::vector<const DecodedExample*> batch_of(const std::vector<DecodedExample>& examples,
                                            std::size_t number, std::size_t size) {
  std::vector<const DecodedExample*> batch;
  for (std::size_t i = 0; i < size; ++i) {
    batch.push_back(&examples[(number * size + i) % examples.size()]);
  }
  return batch;
}

/// One thing to be timed; each call of run() is one batch learned or one slate scored.
class Contender {
 public:
  virtual ~Contender() = default;
  virtual void run() = 0;
  [[nodiscard]] virtual std::size_t exposures() const = 0;  // of one run
  [[nodiscard]] virtual std::size_t threads() const { return 1; }
};

class Training final : public Contender {
 public:
  Training(const model::Model& start, std::size_t tokens, std::size_t threads) : threads_(threads) {
    trainer::StepConfig config;
    config.threads = threads;
    trainer_ = need(OnlineTrainer::create(start, config));
    batch_size_ = config.batch_examples;
    examples_ = make_case_examples(kBatches * batch_size_, tokens, kCandidates);
    for (std::size_t b = 0; b < kBatches; ++b) {
      batches_.push_back(batch_of(examples_, b, batch_size_));
    }
  }
  void run() override {
    if (!trainer_->learn(batches_[next_++ % kBatches]).learned) give_up("a batch was skipped");
  }
  [[nodiscard]] std::size_t exposures() const override { return batch_size_ * kCandidates; }
  [[nodiscard]] std::size_t threads() const override { return threads_; }
  [[nodiscard]] std::string state() const {
    std::string bytes;
    trainer_->append_to(bytes);
    return bytes;
  }

 private:
  std::unique_ptr<OnlineTrainer> trainer_;
  std::vector<DecodedExample> examples_;
  std::vector<std::vector<const DecodedExample*>> batches_;
  std::size_t threads_;
  std::size_t batch_size_ = 0;
  std::size_t next_ = 0;
};

class Scoring final : public Contender {
 public:
  Scoring(model::Model model, std::size_t tokens)
      : model_(std::move(model)),
        ranker_(need(model::make_ranker(model_.config))),
        examples_(make_case_examples(1, tokens, kScoredCandidates)),
        logits_(kScoredCandidates * model_.config.n_tasks()) {}
  void run() override {
    const auto scored =
        model::score(*ranker_, model_, examples_[0].slate, workspace_, std::span(logits_));
    if (!scored) give_up(scored.error().message);
  }
  [[nodiscard]] std::size_t exposures() const override { return kScoredCandidates; }
  [[nodiscard]] const std::vector<DecodedExample>& examples() const { return examples_; }
  [[nodiscard]] const std::vector<float>& logits() const { return logits_; }

 private:
  model::Model model_;
  std::unique_ptr<const model::Ranker> ranker_;
  std::vector<DecodedExample> examples_;
  model::Workspace workspace_;
  std::vector<float> logits_;
};

std::unique_ptr<Contender> make_contender(const Task& task) {
  const model::Model model =
      make_case_model(size_named(task.size), need(model::parse_variant(task.variant)));
  if (task.work == "train") return std::make_unique<Training>(model, task.tokens, task.threads);
  if (task.work == "score") return std::make_unique<Scoring>(model, task.tokens);
  give_up("no work " + task.work);
}

/// Milliseconds of the fastest and of the median run within `seconds`, and the processor time of
/// all threads for each run, which a busy machine changes least.
struct Timing {
  double median_ms = 0;
  double best_ms = 0;
  double cpu_ms = 0;
  std::size_t runs = 0;
};
Timing time_runs(Contender& contender, double seconds) {
  std::vector<double> took;
  const std::clock_t cpu_begin = std::clock();
  const auto end = Clock::now() + std::chrono::duration<double>(seconds);
  for (auto begin = Clock::now(); begin < end || took.size() < 3;) {
    contender.run();
    const auto now = Clock::now();
    took.push_back(std::chrono::duration<double, std::milli>(now - begin).count());
    begin = now;
  }
  std::sort(took.begin(), took.end());
  const double cpu_ms = 1e3 * static_cast<double>(std::clock() - cpu_begin) / CLOCKS_PER_SEC;
  return {took[took.size() / 2], took.front(), cpu_ms / static_cast<double>(took.size()),
          took.size()};
}

// One long slate scored whole, and cut in pieces and in other company: equal bits.
void check_scores(const Scoring& scoring, const ModelSize& size, Variant variant) {
  const model::Model model = make_case_model(size, variant);
  const auto ranker = need(model::make_ranker(model.config));
  const std::size_t tasks = model.config.n_tasks();
  model::Slate part = scoring.examples()[0].slate;
  const std::vector<float> context = part.context;
  const std::vector<model::ItemRef> all = part.candidates;
  const std::size_t width = model.config.n_context();
  model::Workspace workspace;
  for (const std::size_t first : {std::size_t{0}, std::size_t{7}, std::size_t{493}}) {
    const std::size_t count = std::min<std::size_t>(7, all.size() - first);
    part.candidates.assign(all.begin() + static_cast<std::ptrdiff_t>(first),
                           all.begin() + static_cast<std::ptrdiff_t>(first + count));
    part.context.assign(context.begin() + static_cast<std::ptrdiff_t>(first * width),
                        context.begin() + static_cast<std::ptrdiff_t>((first + count) * width));
    std::vector<float> logits(count * tasks);
    if (!model::score(*ranker, model, part, workspace, logits)) give_up("score failed");
    for (std::size_t i = 0; i < logits.size(); ++i) {
      if (!std::isfinite(logits[i]) || logits[i] != scoring.logits()[first * tasks + i]) {
        give_up("a candidate's score depends on those beside it");
      }
    }
  }
}

// One and two threads must give the same bytes.
void check_threads(const ModelSize& size, std::size_t tokens) {
  const model::Model model = make_case_model(size, Variant::kSiren);
  Training one(model, tokens, 1);
  Training two(model, tokens, 2);
  for (int batch = 0; batch < 4; ++batch) {
    one.run();
    two.run();
  }
  if (one.state() != two.state()) give_up("one and two threads give different models");
}

void write_file(const std::filesystem::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  if (!file) give_up("cannot write " + path.string());
}

boost::json::value statistics_json(const model::Statistics& statistics) {
  return boost::json::array{boost::json::value_from(statistics.context_mean),
                            boost::json::value_from(statistics.context_std),
                            boost::json::value_from(statistics.action_mean)};
}

/// SIZE-VARIANT/{model.safetensors, train_TOKENS.json, score_TOKENS.json, expected.json}
void write_cases(const std::filesystem::path& folder) {
  for (const ModelSize& size : {kDefaultSize, kLargeSize}) {
    for (const Variant variant : {Variant::kSiren, Variant::kOrdinal}) {
      const model::Model model = make_case_model(size, variant);
      const auto to = folder / fmt::format("{}-{}", size.name, model::variant_name(variant));
      std::filesystem::create_directories(to);
      if (const auto saved = model::save_model(model, to / "model.safetensors"); !saved) {
        give_up(saved.error().message);
      }
      boost::json::object expected;
      for (const std::size_t tokens : {std::size_t{7}, std::size_t{128}}) {
        const auto trainer = need(OnlineTrainer::create(model, {}));
        const std::size_t batch = trainer->config().batch_examples;
        const auto examples = make_case_examples(kBatches * batch, tokens, kCandidates);
        const trainer::StepReport report = trainer->learn(batch_of(examples, 0, batch));
        // The running statistics move with every step; the peer is given them.
        boost::json::array statistics;
        trainer::StepReport last = report;
        for (std::size_t step = 1; step < kCheckedSteps; ++step) {
          statistics.push_back(statistics_json(trainer->model().statistics));
          last = trainer->learn(batch_of(examples, step % kBatches, batch));
        }
        Scoring scoring(model, tokens);
        scoring.run();
        check_scores(scoring, size, variant);
        write_file(to / fmt::format("train_{}.json", tokens), examples_json(examples));
        write_file(to / fmt::format("score_{}.json", tokens), examples_json(scoring.examples()));
        expected[std::to_string(tokens)] = boost::json::object{
            {"loss", report.loss},    {"gradient_norm", report.gradient_norm},
            {"steps", kCheckedSteps}, {"statistics", std::move(statistics)},
            {"last_loss", last.loss}, {"last_gradient_norm", last.gradient_norm},
            {"batch", batch},         {"logits", boost::json::value_from(scoring.logits())}};
      }
      write_file(to / "expected.json", boost::json::serialize(expected));
    }
  }
}

void serve() {
  std::map<std::string, std::unique_ptr<Contender>> contenders;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    Task task;
    double seconds = 0;
    if (!(words >> task.work >> task.size >> task.variant >> task.tokens >> task.threads >>
          seconds)) {
      give_up("cannot read: " + line);
    }
    std::unique_ptr<Contender>& contender = contenders[task.key()];
    if (!contender) {
      contender = make_contender(task);
      for (int warm = 0; warm < 3; ++warm) contender->run();
    }
    const Timing timing = time_runs(*contender, seconds);
    std::cout << boost::json::serialize(boost::json::object{{"median_ms", timing.median_ms},
                                                            {"best_ms", timing.best_ms},
                                                            {"cpu_ms", timing.cpu_ms},
                                                            {"runs", timing.runs},
                                                            {"exposures", contender->exposures()}})
              << std::endl;
  }
}

constexpr int kRounds = 7;
constexpr double kSeconds = 0.15;

/// Milliseconds of a run in each round, in turns: [contender][round]. With one thread the processor
/// time, which other work on the machine hardly changes; with more the fastest run.
std::vector<std::vector<double>> take_turns(const std::vector<Contender*>& contenders) {
  std::vector<std::vector<double>> took(contenders.size());
  for (int round = -1; round < kRounds; ++round) {  // the first one warms up
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      const Timing timing = time_runs(*contenders[c], kSeconds);
      const bool alone = contenders[c]->threads() == 1;
      if (round >= 0) took[c].push_back(alone ? timing.cpu_ms : timing.best_ms);
    }
  }
  return took;
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// GFLOP/s of our matrix product where everything lies in the first caches.
double peak_gflops() {
  constexpr std::size_t kSide = 96;
  constexpr int kProducts = 200;
  const std::vector<float> ones(kSide * kSide, 1.0F);
  std::vector<float> c(kSide * kSide);
  double best_s = 1e9;
  for (int round = 0; round < 50; ++round) {
    const auto begin = Clock::now();
    for (int product = 0; product < kProducts; ++product) {
      model::gemm(model::left(model::View<const float>{ones.data(), kSide, kSide, kSide}),
                  {ones.data(), kSide, kSide, kSide}, {c.data(), kSide, kSide, kSide},
                  model::GemmStart::kZero);
    }
    best_s = std::min(best_s, std::chrono::duration<double>(Clock::now() - begin).count());
  }
  if (c[7] != static_cast<float>(kSide)) give_up("the product is wrong");
  return 2.0 * kProducts * kSide * kSide * kSide / best_s / 1e9;
}

// A step is counted as three forward passes: the backward one has two products for each of theirs.
double batch_gflop(const model::Model& model, std::size_t tokens) {
  const auto shape = model::SlateShape::all_distinct(tokens, kCandidates);
  return 3e-9 * 64 * model::model_cost(model.config, shape).flops;
}

void print_training() {
  const double peak = peak_gflops();
  fmt::print("peak of the matrix product, one thread: {:.0f} GFLOP/s\n\n", peak);
  fmt::print("{:8} {:>7} {:>8} {:>12} {:>7} {:>9} {:>8}\n", "training", "history", "threads",
             "exposures/s", "of one", "GFLOP/s", "of peak");
  for (const ModelSize& size : {kDefaultSize, kLargeSize}) {
    for (const std::size_t tokens : {std::size_t{7}, std::size_t{128}}) {
      check_threads(size, tokens);
      const model::Model model = make_case_model(size, Variant::kSiren);
      Training one(model, tokens, 1);
      Training two(model, tokens, 2);
      const auto took = take_turns({&one, &two});
      for (const std::size_t threads : {std::size_t{1}, std::size_t{2}}) {
        const double ms = median(took[threads - 1]);
        const double gflops = batch_gflop(model, tokens) / (ms / 1e3);
        fmt::print("{:8} {:>7} {:>8} {:>12.0f} {:>7.2f} {:>9.0f} {:>7.0f}%\n", size.name, tokens,
                   threads, 1e3 * static_cast<double>(one.exposures()) / ms, median(took[0]) / ms,
                   gflops, 100 * gflops / (peak * static_cast<double>(threads)));
      }
    }
  }
}

/// siren against ordinal in turns; the median of the rounds' ratios.
void print_overhead() {
  constexpr std::size_t kTokens = 128;
  fmt::print("\n{:22} {:>10} {:>10} {:>9}\n", "128 tokens of history", "ordinal ms", "siren ms",
             "overhead");
  for (const ModelSize& size : {kDefaultSize, kLargeSize}) {
    const model::Model plain = make_case_model(size, Variant::kOrdinal);
    const model::Model siren = make_case_model(size, Variant::kSiren);
    Scoring score_plain(plain, kTokens);
    Scoring score_siren(siren, kTokens);
    Training train_plain(plain, kTokens, 1);
    Training train_siren(siren, kTokens, 1);
    const auto took = take_turns({&score_plain, &score_siren, &train_plain, &train_siren});
    check_scores(score_siren, size, Variant::kSiren);
    for (const std::size_t first : {std::size_t{0}, std::size_t{2}}) {
      std::vector<double> ratios;
      for (std::size_t round = 0; round < took[first].size(); ++round) {
        ratios.push_back(took[first + 1][round] / took[first][round]);
      }
      fmt::print("{:22} {:>10.3f} {:>10.3f} {:>8.1f}%\n",
                 fmt::format("{} {}", first == 0 ? "score 500," : "train 64x10,", size.name),
                 median(took[first]), median(took[first + 1]), 100 * (median(ratios) - 1));
    }
  }
}

void print_tables() {
  fmt::print(
      "commit {}, {}; medians of {} turns: one thread by processor time, two by the fastest\n",
      base::kCommit, base::kBuildType, kRounds);
  print_training();
  print_overhead();
}

}  // namespace
}  // namespace sirenfeed::bench

int main(int argc, char** argv) {
  using namespace sirenfeed::bench;
  const std::string mode = argc > 1 ? argv[1] : "";
  if (mode == "--write" && argc == 3) {
    write_cases(argv[2]);
  } else if (mode == "--serve" && argc == 2) {
    serve();
  } else if (argc == 1) {
    print_tables();
  } else {
    std::cerr << "usage: throughput_bench [--write DIR | --serve]\n";
    return 2;
  }
  return 0;
}
