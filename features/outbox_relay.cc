#include "features/outbox_relay.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "base/log.h"
#include "base/mutex.h"

namespace sirenfeed::features {
namespace {

constexpr std::chrono::milliseconds kPoll{100};

// What came of one stream's entries under way. The log's threads write it, possibly after the relay
// has given up on them, so they share it.
class Window {
 public:
  void delivered(std::uint64_t sequence) {
    base::MutexLock lock(mutex_);
    last_ = std::max(last_, sequence);  // successes come in order
  }
  void failed(const base::Error& error) {
    base::MutexLock lock(mutex_);
    if (!error_) error_ = error;
  }
  [[nodiscard]] std::uint64_t last() const {
    base::MutexLock lock(mutex_);
    return last_;
  }
  [[nodiscard]] std::optional<base::Error> error() const {
    base::MutexLock lock(mutex_);
    return error_;
  }

 private:
  mutable base::Mutex mutex_;
  std::uint64_t last_ SF_GUARDED_BY(mutex_) = 0;
  std::optional<base::Error> error_ SF_GUARDED_BY(mutex_);
};

}  // namespace

base::Result<void> OutboxRelayConfig::validate() const {
  const auto bad = [](const char* field) {
    return base::fail(base::ErrorCode::kInvalidArgument, "features.relay.{}: must be more than 0",
                      field);
  };
  if (in_flight_max == 0) return bad("in_flight_max");
  if (in_flight_bytes_max == 0) return bad("in_flight_bytes_max");
  if (retry_backoff.count() <= 0) return bad("retry_backoff");
  if (retry_backoff_max < retry_backoff) return bad("retry_backoff_max");
  if (flush_timeout.count() <= 0) return bad("flush_timeout");
  return {};
}

struct OutboxRelay::Impl {
  const OutboxRelayConfig config;
  Outbox& outbox;
  ingest::EventLog& log;
  const FeaturesProbe& probe;
  const base::WallClock wall_clock;
  std::unique_ptr<ingest::LogWriter> writer;  // the relay thread's alone
  std::optional<ingest::Partition> dead_letter_partitions;
  mutable base::Mutex mutex;
  std::string last_error SF_GUARDED_BY(mutex);
  std::jthread thread;

  Impl(OutboxRelayConfig config_in, Outbox& outbox_in, ingest::EventLog& log_in,
       const FeaturesProbe& probe_in)
      : config(config_in), outbox(outbox_in), log(log_in), probe(probe_in) {}

  void run(const std::stop_token& stop) {
    std::chrono::milliseconds backoff = config.retry_backoff;
    while (!stop.stop_requested()) {
      const auto sent = send_round(stop);
      if (sent) {
        set_error("");
        backoff = config.retry_backoff;
        if (!*sent) outbox.wait(kPoll);
        continue;
      }
      if (stop.stop_requested()) break;
      base::log_warning("outbox: {}; trying again in {} ms", sent.error().message, backoff.count());
      set_error(sent.error().message);
      // A timed-out record may have been overtaken by later ones: a new producer, and everything
      // from the lowest unacknowledged entry again.
      writer.reset();
      probe.outbox_resent.add();
      for (auto left = backoff; left.count() > 0 && !stop.stop_requested(); left -= kPoll) {
        std::this_thread::sleep_for(std::min(left, kPoll));
      }
      backoff = std::min(2 * backoff, config.retry_backoff_max);
    }
    writer.reset();
  }

  // False: there was nothing to send.
  base::Result<bool> send_round(const std::stop_token& stop) {
    SF_ASSIGN(const auto streams, outbox.streams());
    if (streams.empty()) return false;
    if (writer == nullptr) {
      SF_ASSIGN(writer, log.open_writer("sirenfeed-outbox"));
    }
    std::map<OutboxStream, std::shared_ptr<Window>> windows;
    std::optional<base::Error> error;
    for (const OutboxStream& stream : streams) {
      auto window = std::make_shared<Window>();
      windows.emplace(stream, window);
      if (auto sent = append_window(stream, window); !sent) {
        error = sent.error();
        break;
      }
    }
    auto flushed = flush(stop);
    for (const auto& [stream, window] : windows) {
      if (window->last() > 0) SF_TRY(outbox.acknowledge(stream, window->last()));
      if (!error) error = window->error();
    }
    if (error) return base::fail(*std::move(error));
    if (!flushed) return base::fail(std::move(flushed).error());
    return true;
  }

  base::Result<void> append_window(const OutboxStream& stream,
                                   const std::shared_ptr<Window>& window) {
    SF_ASSIGN(auto entries,
              outbox.read(stream, 0, config.in_flight_max, config.in_flight_bytes_max));
    SF_ASSIGN(const ingest::Partition partition, target_partition(stream));
    for (OutboxEntry& entry : entries) {
      // The log's time is that of sending, as with any producer: retention goes by it, and the
      // events of a replay are old.
      SF_TRY(writer->append({stream.topic, partition}, std::move(entry.key), std::move(entry.value),
                            wall_clock.now_ms(),
                            [window, sequence = entry.sequence](base::Result<ingest::Offset> at) {
                              if (at) {
                                window->delivered(sequence);
                              } else {
                                window->failed(at.error());
                              }
                            }));
    }
    return {};
  }

  base::Result<ingest::Partition> target_partition(const OutboxStream& stream) {
    if (stream.topic == ingest::Topic::kExamples) return stream.partition;
    if (!dead_letter_partitions) {
      SF_ASSIGN(dead_letter_partitions, log.partitions(ingest::Topic::kDeadLetters));
    }
    return stream.partition % *dead_letter_partitions;
  }

  // In slices, so that stop() need not wait for a broker that is gone.
  base::Result<void> flush(const std::stop_token& stop) {
    base::Result<void> flushed;
    for (auto left = config.flush_timeout; left.count() > 0; left -= kPoll) {
      flushed = writer->flush(std::min(left, kPoll));
      if (flushed || flushed.error().code != base::ErrorCode::kUnavailable) return flushed;
      if (stop.stop_requested()) return flushed;
    }
    return flushed;
  }

  void set_error(std::string text) {
    base::MutexLock lock(mutex);
    last_error = std::move(text);
  }
};

OutboxRelay::OutboxRelay(OutboxRelayConfig config, Outbox& outbox, ingest::EventLog& log,
                         const FeaturesProbe& probe)
    : impl_(std::make_unique<Impl>(config, outbox, log, probe)) {}
OutboxRelay::~OutboxRelay() { stop(); }

void OutboxRelay::start() {
  if (impl_->thread.joinable()) return;
  impl_->thread = std::jthread([this](const std::stop_token& stop) { impl_->run(stop); });
}

void OutboxRelay::stop() {
  if (!impl_->thread.joinable()) return;
  impl_->thread.request_stop();
  impl_->thread.join();
}

base::Result<void> OutboxRelay::drain(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    SF_ASSIGN(const auto streams, impl_->outbox.streams());
    if (streams.empty()) return {};
    if (std::chrono::steady_clock::now() >= deadline) {
      const std::string reason = last_error();
      return base::fail(base::ErrorCode::kUnavailable,
                        "the outbox still holds entries of {} streams{}{}", streams.size(),
                        reason.empty() ? "" : ": ", reason);
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::string OutboxRelay::last_error() const {
  base::MutexLock lock(impl_->mutex);
  return impl_->last_error;
}

}  // namespace sirenfeed::features
