#pragma once
// An EventLog in memory for the tests of those who read and write one. Keeps the contract of
// ingest/event_log.h (tests/unit/ingest/event_log_contract_test.cc runs over it too).
#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "ingest/event_log.h"

namespace sirenfeed::fakes {

/// Threads: any. on_delivered runs inside append() unless deliveries are held.
class MemoryLog final : public ingest::EventLog {
 public:
  using Record = ingest::LogRecord;
  using TopicPartition = ingest::TopicPartition;
  using Offset = ingest::Offset;

  /// Topics items and dead-letters have one partition, the others `partitions`.
  explicit MemoryLog(ingest::Partition partitions = 1, std::size_t message_bytes_max = 1'000'000)
      : shared_(std::make_shared<Shared>()) {
    shared_->message_bytes_max = message_bytes_max;
    for (std::size_t i = 0; i < shared_->counts.size(); ++i) {
      const auto topic = static_cast<ingest::Topic>(i);
      const bool single = topic == ingest::Topic::kItems || topic == ingest::Topic::kDeadLetters;
      shared_->counts[i] = single ? 1 : partitions;
    }
  }

  // --- for tests -------------------------------------------------------------------------------

  /// Makes `topic` have another number of partitions (0: it does not exist).
  void set_partitions(ingest::Topic topic, ingest::Partition partitions) {
    base::MutexLock lock(shared_->mutex);
    shared_->counts[static_cast<std::size_t>(topic)] = partitions;
  }
  /// Appends without a writer and returns the offset.
  Offset put(TopicPartition target, std::optional<std::string> key,
             std::optional<std::string> value, base::UnixMs time_ms = 0) {
    base::MutexLock lock(shared_->mutex);
    return shared_->put(target, std::move(key), std::move(value), time_ms);
  }
  /// Every retained record of `source`.
  [[nodiscard]] std::vector<Record> records(TopicPartition source) const {
    base::MutexLock lock(shared_->mutex);
    const auto found = shared_->logs.find(source);
    return found == shared_->logs.end() ? std::vector<Record>{} : found->second.records;
  }
  /// The next delivery fails with `error` (and its writer is dead). With `stored` the record enters
  /// the log although it was reported as failed, as after a lost acknowledgement.
  void fail_next_delivery(base::Error error, bool stored = false) {
    base::MutexLock lock(shared_->mutex);
    shared_->fail_next = std::pair(std::move(error), stored);
  }
  /// While held, appends stay under way (neither stored nor reported) until released.
  void hold_deliveries(bool held) {
    {
      base::MutexLock lock(shared_->mutex);
      shared_->held = held;
    }
    if (!held) shared_->deliver_pending();
  }
  /// Readers report broker_lost and bring nothing.
  void set_broker_lost(bool lost) {
    base::MutexLock lock(shared_->mutex);
    shared_->lost = lost;
    shared_->changed.notify_all();
  }
  /// The consumer group takes its time: its members get no partitions while it is on.
  void set_group_waits(bool waits) {
    base::MutexLock lock(shared_->mutex);
    shared_->group_waits = waits;
    shared_->changed.notify_all();
  }
  /// Drops the records before `first`, as retention does.
  void trim(TopicPartition source, Offset first) {
    base::MutexLock lock(shared_->mutex);
    auto& log = shared_->logs[source];
    while (!log.records.empty() && log.records.front().offset < first) {
      log.records.erase(log.records.begin());
    }
    log.first = std::max(log.first, first);
  }
  /// Positions that readers have reported.
  [[nodiscard]] std::optional<Offset> reported(TopicPartition source) const {
    base::MutexLock lock(shared_->mutex);
    const auto found = shared_->reported.find(source);
    return found == shared_->reported.end() ? std::nullopt : std::optional(found->second);
  }

  // --- EventLog --------------------------------------------------------------------------------

  base::Result<ingest::Partition> partitions(ingest::Topic topic) override {
    base::MutexLock lock(shared_->mutex);
    const ingest::Partition count = shared_->counts[static_cast<std::size_t>(topic)];
    if (count == 0) {
      return base::fail(base::ErrorCode::kNotFound, "topic {} does not exist",
                        ingest::topic_name(topic));
    }
    return count;
  }
  base::Result<Bounds> bounds(TopicPartition source) override {
    base::MutexLock lock(shared_->mutex);
    SF_TRY(shared_->check(source));
    const auto& log = shared_->logs[source];
    return Bounds{log.first, log.next};
  }
  base::Result<std::unique_ptr<ingest::LogReader>> open_reader(
      ingest::ReaderOptions options) override {
    return std::make_unique<Reader>(shared_, std::move(options));
  }
  base::Result<std::unique_ptr<ingest::LogWriter>> open_writer(std::string) override {
    return std::make_unique<Writer>(shared_);
  }

 private:
  struct Log {
    std::vector<Record> records;
    Offset first = 0;
    Offset next = 0;
  };
  struct WriterState {
    std::optional<base::Error> dead;
    std::size_t pending = 0;
  };
  struct Pending {
    std::shared_ptr<WriterState> writer;
    TopicPartition target;
    std::optional<std::string> key;
    std::optional<std::string> value;
    base::UnixMs time_ms = 0;
    ingest::LogWriter::OnDelivered on_delivered;
  };

  struct Shared {
    base::Mutex mutex;
    std::condition_variable changed;
    std::array<ingest::Partition, 7> counts{};
    std::size_t message_bytes_max = 0;
    std::map<TopicPartition, Log> logs;
    std::map<TopicPartition, Offset> reported;
    std::vector<Pending> pending;
    std::optional<std::pair<base::Error, bool>> fail_next;
    bool held = false;
    bool lost = false;
    bool group_waits = false;
    base::Mutex delivery_mutex;  // one delivery at a time, so that they come in append order

    base::Result<void> check(TopicPartition source) SF_REQUIRES(mutex) {
      if (source.partition < 0 ||
          source.partition >= counts[static_cast<std::size_t>(source.topic)]) {
        return base::fail(base::ErrorCode::kNotFound, "{}/{} does not exist",
                          ingest::topic_name(source.topic), source.partition);
      }
      return {};
    }
    Offset put(TopicPartition target, std::optional<std::string> key,
               std::optional<std::string> value, base::UnixMs time_ms) SF_REQUIRES(mutex) {
      auto& log = logs[target];
      log.records.push_back({target, log.next, time_ms, std::move(key), std::move(value)});
      changed.notify_all();
      return log.next++;
    }
    base::Result<Offset> store(Pending& append) SF_REQUIRES(mutex) {
      if (append.writer->dead) {
        return base::fail(base::ErrorCode::kClosed, "an earlier delivery of this writer failed: {}",
                          append.writer->dead->message);
      }
      if (!fail_next) {
        return put(append.target, std::move(append.key), std::move(append.value), append.time_ms);
      }
      auto [error, stored] = *std::exchange(fail_next, std::nullopt);
      if (stored)
        put(append.target, std::move(append.key), std::move(append.value), append.time_ms);
      append.writer->dead = error;
      return base::fail(std::move(error));
    }
    void deliver_pending() SF_EXCLUDES(mutex, delivery_mutex) {
      base::MutexLock one_at_a_time(delivery_mutex);
      std::vector<Pending> batch;
      std::vector<base::Result<Offset>> results;
      {
        base::MutexLock lock(mutex);
        if (held) return;
        batch.swap(pending);
        for (Pending& append : batch) results.push_back(store(append));
      }
      for (std::size_t i = 0; i < batch.size(); ++i) {
        if (batch[i].on_delivered) batch[i].on_delivered(std::move(results[i]));
        base::MutexLock lock(mutex);
        --batch[i].writer->pending;
        changed.notify_all();
      }
    }
  };

  class Writer final : public ingest::LogWriter {
   public:
    explicit Writer(std::shared_ptr<Shared> shared)
        : shared_(std::move(shared)), state_(std::make_shared<WriterState>()) {}
    ~Writer() override {
      std::vector<OnDelivered> dropped;
      {
        base::MutexLock lock(shared_->mutex);
        auto& pending = shared_->pending;
        for (Pending& append : pending) {
          if (append.writer == state_) dropped.push_back(std::move(append.on_delivered));
        }
        std::erase_if(pending, [&](const Pending& append) { return append.writer == state_; });
      }
      for (const auto& on_delivered : dropped) {
        if (on_delivered)
          on_delivered(base::fail(base::ErrorCode::kClosed, "the writer was closed"));
      }
    }
    base::Result<void> append(TopicPartition target, std::optional<std::string> key,
                              std::optional<std::string> value, base::UnixMs time_ms,
                              OnDelivered on_delivered) override {
      {
        base::MutexLock lock(shared_->mutex);
        const std::size_t bytes = (key ? key->size() : 0) + (value ? value->size() : 0);
        if (bytes > shared_->message_bytes_max) {
          return base::fail(base::ErrorCode::kTooLarge,
                            "a record of {} bytes is over message_bytes_max = {}", bytes,
                            shared_->message_bytes_max);
        }
        SF_TRY(shared_->check(target));
        if (state_->dead) {
          return base::fail(base::ErrorCode::kClosed, "an earlier delivery failed: {}",
                            state_->dead->message);
        }
        ++state_->pending;
        shared_->pending.push_back(
            {state_, target, std::move(key), std::move(value), time_ms, std::move(on_delivered)});
      }
      shared_->deliver_pending();
      return {};
    }
    base::Result<void> flush(std::chrono::milliseconds timeout) override {
      const auto deadline = std::chrono::steady_clock::now() + timeout;
      base::MutexLock lock(shared_->mutex);
      while (state_->pending > 0) {
        const auto left = deadline - std::chrono::steady_clock::now();
        if (left <= left.zero()) {
          return base::fail(base::ErrorCode::kUnavailable, "{} records not delivered within {} ms",
                            state_->pending, timeout.count());
        }
        lock.wait_for(shared_->changed, left);
      }
      if (state_->dead) return base::fail(*state_->dead);
      return {};
    }

   private:
    std::shared_ptr<Shared> shared_;
    std::shared_ptr<WriterState> state_;
  };

  class Reader final : public ingest::LogReader {
   public:
    Reader(std::shared_ptr<Shared> shared, ingest::ReaderOptions options)
        : shared_(std::move(shared)), options_(std::move(options)) {}

    base::Result<void> assign(TopicPartition source, std::optional<Offset> offset) override {
      base::MutexLock lock(shared_->mutex);
      SF_TRY(shared_->check(source));
      inputs_[source] = Input{offset.value_or(shared_->logs[source].first)};
      return {};
    }
    base::Result<void> unassign(TopicPartition source) override {
      SF_TRY(find(source));
      inputs_.erase(source);
      return {};
    }
    base::Result<void> pause(TopicPartition source) override {
      SF_ASSIGN(Input * input, find(source));
      input->paused = true;
      return {};
    }
    base::Result<void> resume(TopicPartition source) override {
      SF_ASSIGN(Input * input, find(source));
      input->paused = false;
      input->end_told = false;
      return {};
    }
    base::Result<ingest::PollBatch> poll(std::chrono::milliseconds timeout) override {
      if (options_.group && !joined_ && !group_waits()) {
        joined_ = true;
        std::vector<ingest::Partition> all;
        {
          base::MutexLock lock(shared_->mutex);
          const auto impressions = static_cast<std::size_t>(ingest::Topic::kImpressions);
          for (ingest::Partition p = 0; p < shared_->counts[impressions]; ++p) all.push_back(p);
        }
        if (options_.listener.on_assigned) options_.listener.on_assigned(all);
      }
      const auto deadline = std::chrono::steady_clock::now() + timeout;
      base::MutexLock lock(shared_->mutex);
      while (true) {
        SF_ASSIGN(ingest::PollBatch batch, collect());
        const auto left = deadline - std::chrono::steady_clock::now();
        if (!batch.records.empty() || !batch.at_end.empty() || left <= left.zero()) return batch;
        lock.wait_for(shared_->changed, left);
      }
    }
    void confirm_ends() override {
      for (auto& [source, input] : inputs_) input.end_told = false;
    }
    void report_position(TopicPartition source, Offset next_offset) override {
      base::MutexLock lock(shared_->mutex);
      shared_->reported[source] = next_offset;
    }

   private:
    struct Input {
      Offset position = 0;
      bool paused = false;
      bool failed = false;
      bool end_told = false;
    };

    [[nodiscard]] bool group_waits() const {
      base::MutexLock lock(shared_->mutex);
      return shared_->group_waits;
    }
    base::Result<Input*> find(TopicPartition source) {
      const auto found = inputs_.find(source);
      if (found == inputs_.end()) {
        return base::fail(base::ErrorCode::kNotFound, "{}/{} is not assigned",
                          ingest::topic_name(source.topic), source.partition);
      }
      return &found->second;
    }
    base::Result<ingest::PollBatch> collect() SF_REQUIRES(shared_->mutex) {
      ingest::PollBatch batch;
      batch.broker_lost = shared_->lost;
      if (shared_->lost) return batch;
      std::size_t bytes = 0;
      for (auto& [source, input] : inputs_) {
        if (input.paused || input.failed) continue;
        const Log& log = shared_->logs[source];
        if (input.position < log.first || input.position > log.next) {
          if (!batch.records.empty()) continue;  // the error comes with the next poll
          input.failed = true;
          return base::fail(base::ErrorCode::kCorrupt,
                            "{}/{}: offset {} is not in the log, which holds {} to {}",
                            ingest::topic_name(source.topic), source.partition, input.position,
                            log.first, log.next);
        }
        take(log, input, batch, bytes);
      }
      for (auto& [source, input] : inputs_) {
        if (input.paused || input.failed) continue;
        const bool at_end = input.position == shared_->logs[source].next;
        if (at_end && (!input.end_told || !batch.records.empty())) batch.at_end.push_back(source);
        input.end_told = at_end;
      }
      return batch;
    }
    void take(const Log& log, Input& input, ingest::PollBatch& batch, std::size_t& bytes) const {
      while (input.position < log.next && batch.records.size() < options_.poll_records_max) {
        const Record& record = log.records[static_cast<std::size_t>(input.position - log.first)];
        bytes += (record.key ? record.key->size() : 0) + (record.value ? record.value->size() : 0);
        if (bytes > options_.poll_bytes_max && !batch.records.empty()) return;
        batch.records.push_back(record);
        ++input.position;
      }
    }

    std::shared_ptr<Shared> shared_;
    const ingest::ReaderOptions options_;
    std::map<TopicPartition, Input> inputs_;
    bool joined_ = false;
  };

  std::shared_ptr<Shared> shared_;
};

}  // namespace sirenfeed::fakes
