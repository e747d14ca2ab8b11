#include "trainer/prequential.h"

#include <chrono>
#include <thread>
#include <utility>

#include "base/bounded_queue.h"
#include "base/check.h"
#include "trainer/prequential_pass.h"

namespace sirenfeed::trainer {

namespace {

struct Record {
  bool closed = false;  // false: an exposure
  std::shared_ptr<const DecodedExample> example;
};
// Shared by all runs: none of them changes it.
using Group = std::shared_ptr<const std::vector<Record>>;

/// A pass on a thread of its own.
class Worker {
 public:
  Worker(PrequentialPass pass, std::size_t queue_entries_max)
      : pass_(std::move(pass)), queue_({.entries_max = queue_entries_max}) {
    thread_ = std::jthread([this] { run(); });
  }
  ~Worker() { queue_.close(); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  void push(Group group) { queue_.push(std::move(group)); }
  PrequentialResult finish() {
    queue_.close();
    if (thread_.joinable()) thread_.join();
    return std::move(result_);
  }
  [[nodiscard]] const OnlineTrainer& trainer() const { return pass_.trainer(); }

 private:
  void run() {
    using Seconds = std::chrono::duration<double>;
    Seconds busy{0};
    while (const std::optional<Group> group = queue_.pop()) {
      const auto begin = std::chrono::steady_clock::now();
      for (const Record& record : **group) {
        if (record.closed) {
          pass_.on_closed(record.example);
        } else {
          pass_.on_exposure(record.example);
        }
      }
      busy += std::chrono::steady_clock::now() - begin;
    }
    const auto begin = std::chrono::steady_clock::now();
    result_ = pass_.finish();
    busy += std::chrono::steady_clock::now() - begin;
    result_.busy_seconds = busy.count();
  }

  PrequentialPass pass_;
  PrequentialResult result_;
  base::BoundedQueue<Group> queue_;
  std::jthread thread_;
};

}  // namespace

struct Prequential::Impl {
  ExampleDecoder decoder;
  const std::size_t group_examples;
  std::vector<std::unique_ptr<Worker>> workers;
  std::vector<Record> group;
  bool finished = false;

  Impl(const ExampleSchema& schema, std::size_t group_size)
      : decoder(schema), group_examples(group_size) {}

  base::Result<void> add(const features::Example& example, bool closed) {
    SF_CHECK(!finished);
    SF_ASSIGN(DecodedExample decoded, decoder.decode(example));
    group.push_back({closed, std::make_shared<const DecodedExample>(std::move(decoded))});
    if (group.size() >= group_examples) hand_over();
    return {};
  }
  void hand_over() {
    if (group.empty()) return;
    const auto shared = std::make_shared<const std::vector<Record>>(std::move(group));
    for (const auto& worker : workers) worker->push(shared);
    group = {};
    group.reserve(group_examples);
  }
};

base::Result<std::unique_ptr<Prequential>> Prequential::create(
    const ExampleSchema& schema, const std::vector<PrequentialRun>& runs,
    const PrequentialConfig& config) {
  if (runs.empty() || config.group_examples == 0 || config.queue_entries_max == 0 ||
      config.score_pending_max == 0) {
    return base::fail(base::ErrorCode::kInvalidArgument,
                      "a prequential pass needs at least one run, and limits above 0");
  }
  auto impl = std::make_unique<Impl>(schema, config.group_examples);
  for (const PrequentialRun& run : runs) {
    SF_CHECK(run.start != nullptr);
    SF_ASSIGN(auto trainer, OnlineTrainer::create(*run.start, run.step));
    impl->workers.push_back(std::make_unique<Worker>(
        PrequentialPass(run.name, std::move(trainer), config.score_pending_max),
        config.queue_entries_max));
  }
  return std::unique_ptr<Prequential>(new Prequential(std::move(impl)));
}

Prequential::Prequential(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Prequential::~Prequential() = default;

base::Result<void> Prequential::on_exposure(const features::Example& example) {
  return impl_->add(example, false);
}

base::Result<void> Prequential::on_closed(const features::Example& example) {
  return impl_->add(example, true);
}

base::Result<std::vector<PrequentialResult>> Prequential::finish() {
  SF_CHECK(!impl_->finished);
  impl_->hand_over();
  impl_->finished = true;
  std::vector<PrequentialResult> results;
  for (const auto& worker : impl_->workers) results.push_back(worker->finish());
  return results;
}

const model::Model& Prequential::model(std::size_t index) const {
  SF_CHECK(impl_->finished && index < impl_->workers.size());
  return impl_->workers[index]->trainer().model();
}

}  // namespace sirenfeed::trainer
