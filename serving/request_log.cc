#include "serving/request_log.h"

#include <condition_variable>
#include <deque>
#include <thread>

#include "base/clock.h"
#include "base/log.h"
#include "base/mutex.h"
#include "serving/request_record.h"

namespace sirenfeed::serving {

namespace {

/// What a record holds in the queue, roughly.
std::size_t bytes_of(const RequestRecord& record) {
  std::size_t bytes =
      sizeof(record) + record.request_id.size() + record.user_id.size() + record.inputs.size();
  for (const RecordedItem& item : record.items) {
    bytes += sizeof(item) + item.item_id.size() + item.context.size() * sizeof(float) +
             item.probabilities.size() * sizeof(item.probabilities[0]);
  }
  return bytes;
}

}  // namespace

struct RequestLog::Impl {
  Impl(const RequestLogConfig& log_config, ingest::LogWriter& log_writer,
       ingest::Partition partition_count, ServingProbe& serving_probe, Erased erased_since)
      : config(log_config),
        writer(log_writer),
        partitions(partition_count),
        probe(serving_probe),
        erased(std::move(erased_since)) {}

  void run();
  void append(const RequestRecord& record);

  const RequestLogConfig config;
  ingest::LogWriter& writer;
  const ingest::Partition partitions;
  ServingProbe& probe;
  const Erased erased;
  base::Mutex in_hand;  // while a record is looked at and handed to the log; before `mutex`
  base::Mutex mutex;
  std::condition_variable filled;
  std::deque<RequestRecord> queue SF_GUARDED_BY(mutex);
  std::size_t bytes SF_GUARDED_BY(mutex) = 0;
  bool stopping SF_GUARDED_BY(mutex) = false;
  bool complained = false;  // by the thread alone
  std::jthread thread;
};

void RequestLog::Impl::run() {
  while (true) {
    RequestRecord record;
    {
      base::MutexLock lock(mutex);
      while (queue.empty() && !stopping) lock.wait(filled);
      if (queue.empty()) return;
      record = std::move(queue.front());
      queue.pop_front();
      bytes -= bytes_of(record);
    }
    base::MutexLock lock(in_hand);
    if (erased && erased(record)) {
      probe.requests_dropped.add();
      continue;
    }
    append(record);
  }
}

void RequestLog::Impl::append(const RequestRecord& record) {
  const ingest::TopicPartition target{ingest::Topic::kRequests,
                                      ingest::partition_of(record.user_id, partitions)};
  const auto appended =
      writer.append(target, record.user_id, request_json(record), base::WallClock().now_ms(),
                    [counters = std::pair(probe.requests_logged, probe.requests_dropped)](
                        const base::Result<ingest::Offset>& offset) {
                      (offset ? counters.first : counters.second).add();
                    });
  if (appended) {
    complained = false;
    return;
  }
  probe.requests_dropped.add();
  if (!std::exchange(complained, true)) {
    base::log_warning("requests: {}; served requests are not recorded until this ends",
                      appended.error().message);
  }
}

RequestLog::RequestLog(const RequestLogConfig& config, ingest::LogWriter& writer,
                       ingest::Partition partitions, ServingProbe& probe, Erased erased)
    : impl_(std::make_unique<Impl>(config, writer, partitions, probe, std::move(erased))) {
  impl_->thread = std::jthread([impl = impl_.get()] { impl->run(); });
}

RequestLog::~RequestLog() { stop(); }

void RequestLog::write(RequestRecord record) {
  const std::size_t bytes = bytes_of(record);
  {
    base::MutexLock lock(impl_->mutex);
    if (impl_->stopping || impl_->queue.size() >= impl_->config.queue_entries_max ||
        impl_->bytes + bytes > impl_->config.queue_bytes_max) {
      impl_->probe.requests_dropped.add();
      return;
    }
    impl_->bytes += bytes;
    impl_->queue.push_back(std::move(record));
  }
  impl_->filled.notify_one();
}

std::size_t RequestLog::forget(const std::string& user_id) {
  base::MutexLock none_in_hand(impl_->in_hand);
  base::MutexLock lock(impl_->mutex);
  std::size_t forgotten = 0;
  for (auto it = impl_->queue.begin(); it != impl_->queue.end();) {
    if (it->user_id != user_id) {
      ++it;
      continue;
    }
    impl_->bytes -= bytes_of(*it);
    it = impl_->queue.erase(it);
    ++forgotten;
  }
  impl_->probe.requests_dropped.add(forgotten);
  return forgotten;
}

void RequestLog::stop() {
  {
    base::MutexLock lock(impl_->mutex);
    impl_->stopping = true;
  }
  impl_->filled.notify_one();
  if (impl_->thread.joinable()) impl_->thread.join();
}

}  // namespace sirenfeed::serving
