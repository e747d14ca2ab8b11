// From an example's arrival in the trainer to a served weight, with a large table: a trainer that
// learns from the embedded log and publishes every second, and a second process that follows the
// store as `serve` does. Each published version counts with the oldest example that it brought.
//   snapshot_bench [--rows 1000000] [--seconds 30] [--rate 2000] [--history 64]
// At the end the two models are compared: a follower that had other bytes would be fast and wrong.
#include <example.pb.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/build_info.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "features/example_format/context_schema.h"
#include "ingest/embedded_log.h"
#include "model/file_io.h"
#include "model/model_file.h"
#include "model/model_store.h"
#include "serving/model_slot.h"
#include "trainer/example_decoder.h"
#include "trainer/train_loop.h"

namespace sirenfeed {
namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t kContexts = 79;
constexpr base::UnixMs kStartMs = 1'650'000'000'000;

struct Options {
  std::size_t rows = 1'000'000;
  double seconds = 30;
  double rate = 2'000;  // examples a second
  std::size_t history = 64;
};

template <class T>
T must(base::Result<T> result) {
  if (!result) {
    fmt::print(stderr, "snapshot_bench: {}\n", result.error().message);
    std::exit(1);
  }
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

void require(bool held, const char* what) {
  if (held) return;
  fmt::print(stderr, "snapshot_bench: {}\n", what);
  std::exit(1);
}

double memory_mib(const char* field) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with(field))
      return std::strtod(line.c_str() + line.find(':') + 1, nullptr) / 1024;
  }
  return 0;
}

void print_distribution(const char* what, const char* unit, std::vector<double> values) {
  if (values.empty()) return fmt::print("{:<42} none\n", what);
  std::sort(values.begin(), values.end());
  const auto at = [&](double share) {
    return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1))];
  };
  fmt::print("{:<42} p50 {:.3f}  p99 {:.3f}  max {:.3f} {}  ({})\n", what, at(0.5), at(0.99),
             values.back(), unit, values.size());
}

model::ModelConfig config() {
  model::ModelConfig config;
  for (std::size_t f = 0; f < kContexts; ++f) config.context_names.push_back(fmt::format("c{}", f));
  return config;
}

std::string hash_of(const model::Model& model) {
  return fmt::format("{:016x}", base::xxh3_64(model::encode_model(model)));
}

model::Key item_key(std::size_t item) { return (item + 1) * 0x9E3779B97F4A7C15ULL; }

model::Model start_model(std::size_t rows) {
  model::Model model = must(model::make_model(config()));
  std::mt19937_64 random(1);
  for (std::size_t item = 0; item < rows; ++item) {
    model::EmbeddingTable& items = model.table(model::TableId::kItem);
    for (float& value : items.row_at(items.find_or_create(item_key(item)))) {
      value = static_cast<float>(random() % 2001) * 1e-4F - 0.1F;
    }
  }
  return model;
}

/// Examples over all items, half of them over a hundredth of them, as feeds are.
class ExampleStream {
 public:
  explicit ExampleStream(const Options& options) : options_(options) {}

  features::Example next() {
    const model::ModelConfig names = config();
    features::Example example;
    example.set_version(trainer::kExampleVersion);
    example.set_impression_offset(static_cast<std::int64_t>(sequence_));
    example.set_parts(1);
    example.set_epoch(1);
    example.set_sequence(++sequence_);
    example.set_user_id(fmt::format("u{}", random_() % 10'000));
    example.set_time_ms(kStartMs + static_cast<std::int64_t>(sequence_) * 500);
    example.set_closed_ms(example.time_ms() + 600'000);
    example.set_context_schema(context_schema_);
    example.set_action_schema(action_schema_);
    example.set_task_schema(task_schema_);
    auto& history = *example.mutable_history();
    std::int64_t previous = 0;
    for (std::size_t h = options_.history; h > 0; --h) {
      history.add_item(item_key(draw_item()));
      history.add_author(random_() % 20'000);
      const std::int64_t token_ms = example.time_ms() - static_cast<std::int64_t>(h) * 1'234'567;
      history.add_time_delta_ms(token_ms - previous);
      previous = token_ms;
      history.add_action_bits(static_cast<std::uint32_t>(random_() % 8));
      history.add_tag_count(1);
      history.add_tags(1 + random_() % 40);
    }
    auto& candidate = *example.add_candidates();
    candidate.set_item_id("i");
    candidate.set_item(item_key(draw_item()));
    candidate.set_author(1 + random_() % 20'000);
    candidate.add_tags(1 + random_() % 40);
    for (std::size_t f = 0; f < kContexts; ++f) {
      candidate.add_context(static_cast<float>(random_() % 1000) / 500.0F - 1.0F);
    }
    candidate.set_mask_bits(7);
    candidate.set_label_bits(random_() % 3 == 0 ? 1U : 0U);
    return example;
  }

 private:
  std::size_t draw_item() {
    const std::size_t hot = std::max<std::size_t>(1, options_.rows / 100);
    return random_() % (random_() % 2 == 0 ? options_.rows : hot);
  }

  const Options& options_;
  std::mt19937_64 random_{7};
  std::uint64_t sequence_ = 0;
  const std::uint64_t context_schema_ = features::schema_hash(config().context_names);
  const std::uint64_t action_schema_ = features::schema_hash(config().actions);
  const std::uint64_t task_schema_ = features::schema_hash(config().tasks);
};

/// The second process: follows the store until its standard input ends, then says what it saw.
int follow(const std::string& store_dir) {
  base::MetricsRegistry registry;
  serving::ServingProbe probe(registry);
  const base::WallClock clock;
  serving::ModelSlot slot({}, store_dir, clock, probe);
  slot.start();
  std::atomic<bool> ended{false};
  const std::jthread input([&] {
    char byte = 0;
    while (::read(STDIN_FILENO, &byte, 1) > 0) {
    }
    ended = true;
  });
  std::vector<double> latencies;
  std::uint64_t seen = 0;
  while (!ended) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    const serving::ModelSlot::Snapshot snapshot = slot.current();
    if (!snapshot || snapshot->manifest.version == seen) continue;
    seen = snapshot->manifest.version;
    if (snapshot->first_arrival_ms == 0) continue;  // the first one
    latencies.push_back(static_cast<double>(clock.now_ms() - snapshot->first_arrival_ms) / 1000);
  }
  slot.stop();
  must(slot.poll_once());
  print_distribution("oldest example of a version: to served", "s", latencies);
  fmt::print("{:<42} {:.0f} MiB now, {:.0f} MiB at most\n", "memory of the serving process",
             memory_mib("VmRSS"), memory_mib("VmHWM"));
  fmt::print("{:<42} {}\n", "versions refused", probe.model_refused.value());
  std::fflush(stdout);
  must(model::write_file(store_dir + "/served.xxh3", hash_of(slot.current()->model)));
  return 0;
}

/// Appends `rate` examples a second until `stop`.
void feed(ingest::EventLog& log, const Options& options, const std::stop_token& stop) {
  const auto writer = must(log.open_writer("bench"));
  ExampleStream stream(options);
  const auto begin = std::chrono::steady_clock::now();
  for (std::uint64_t sent = 0; !stop.stop_requested();) {
    const double due = Seconds(std::chrono::steady_clock::now() - begin).count() * options.rate;
    for (; static_cast<double>(sent) < due; ++sent) {
      const features::Example example = stream.next();
      must(writer->append({ingest::Topic::kExamples, 0}, example.user_id(),
                          example.SerializeAsString(), example.closed_ms(), {}));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

struct Follower {
  pid_t pid = 0;
  int input = -1;
};

Follower start_follower(const char* program, const std::string& store_dir) {
  int ends[2];
  require(::pipe(ends) == 0, "no pipe");
  const pid_t pid = ::fork();
  require(pid >= 0, "no second process");
  if (pid == 0) {
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    ::execl(program, program, "--follow", store_dir.c_str(), nullptr);
    std::_Exit(127);
  }
  ::close(ends[0]);
  return {pid, ends[1]};
}

void print_store(const std::string& store_dir) {
  std::vector<double> deltas;
  std::size_t full = 0;
  double full_bytes = 0;
  for (const model::Manifest& manifest : must(model::ModelStoreReader(store_dir).list())) {
    if (manifest.delta) deltas.push_back(static_cast<double>(manifest.delta->file.bytes) / 1e6);
    if (!manifest.full) continue;
    ++full;
    full_bytes = static_cast<double>(manifest.full->bytes);
  }
  print_distribution("bytes of a delta", "MB", deltas);
  fmt::print("{:<42} {} of {:.1f} MB\n", "full files", full, full_bytes / 1e6);
}

int run(const char* program, const Options& options) {
  const fs::path dir = fs::temp_directory_path() / fmt::format("snapshot_bench_{}", ::getpid());
  const std::string store_dir = dir / "models";
  fmt::print("commit {}, {}; {} item rows, {:.0f} examples/s of {} history tokens, {:.0f} s\n",
             base::kCommit, base::kBuildType, options.rows, options.rate, options.history,
             options.seconds);
  auto store = must(model::ModelStoreWriter::open({.dir = store_dir, .keep_max = 100'000}));
  const Follower follower = start_follower(program, store_dir);
  const auto log = must(ingest::EmbeddedLog::open({.dir = dir / "log", .partitions = 1}));
  base::MetricsRegistry registry;
  trainer::TrainerProbe probe(registry, config().tasks);
  const base::WallClock clock;
  const base::SteadyClock steady;
  trainer::TrainLoopConfig loop_config;
  loop_config.checkpoint_file = dir / "checkpoint";
  auto loop = must(trainer::TrainLoop::create(loop_config, start_model(options.rows),
                                              {*log, store, probe, clock, steady}));
  loop->start();
  while (loop->status().published_version == 0) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  {
    const std::jthread feeder([&](const std::stop_token& stop) { feed(*log, options, stop); });
    std::this_thread::sleep_for(Seconds(options.seconds));
  }
  loop->stop();
  const trainer::TrainStatus status = loop->status();
  fmt::print("{:<42} {} ({:.0f} a second)\n", "examples learned", status.examples,
             static_cast<double>(status.examples) / options.seconds);
  fmt::print("{:<42} {}, checkpoints {}\n", "versions", status.published_version,
             probe.checkpoints.value());
  print_store(store_dir);
  fmt::print("{:<42} {:.0f} MiB now, {:.0f} MiB at most\n", "memory of the training process",
             memory_mib("VmRSS"), memory_mib("VmHWM"));
  std::fflush(stdout);
  ::close(follower.input);
  int ended = 0;
  require(::waitpid(follower.pid, &ended, 0) == follower.pid && ended == 0,
          "the following process failed");
  require(must(model::read_file(store_dir + "/served.xxh3")) == hash_of(loop->model()),
          "the served model is not the trained one");
  fs::remove_all(dir);
  return 0;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view name(argv[i]);
    const double value = std::strtod(argv[i + 1], nullptr);
    if (name == "--rows") options.rows = static_cast<std::size_t>(value);
    if (name == "--seconds") options.seconds = value;
    if (name == "--rate") options.rate = value;
    if (name == "--history") options.history = static_cast<std::size_t>(value);
  }
  return options;
}

}  // namespace
}  // namespace sirenfeed

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--follow") return sirenfeed::follow(argv[2]);
  sirenfeed::base::configure_log({.level = sirenfeed::base::LogLevel::kWarning});
  return sirenfeed::run("/proc/self/exe", sirenfeed::parse(argc, argv));
}
