#include <utility>

#include "ingest/embedded_impl.h"

namespace sirenfeed::ingest::embedded {
namespace {

class Writer final : public LogWriter {
 public:
  Writer(EmbeddedLog::Impl& log, std::string name)
      : log_(log), state_(std::make_shared<WriterState>(std::move(name))) {}
  /// The log's thread brings what is under way to its end, whatever that is, in a bounded time.
  ~Writer() override { log_.wait_delivered(*state_, std::nullopt); }
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  base::Result<void> append(TopicPartition target, std::optional<std::string> key,
                            std::optional<std::string> value, base::UnixMs time_ms,
                            OnDelivered on_delivered) override {
    const std::size_t bytes = (key ? key->size() : 0) + (value ? value->size() : 0);
    if (bytes > log_.config().message_bytes_max) {
      return base::fail(base::ErrorCode::kTooLarge,
                        "a record of {} bytes for topic {} is over message_bytes_max = {}", bytes,
                        topic_name(target.topic), log_.config().message_bytes_max);
    }
    SF_TRY(log_.find(target));
    return log_.enqueue(state_, target, key, value, time_ms, std::move(on_delivered));
  }

  base::Result<void> flush(std::chrono::milliseconds timeout) override {
    if (!log_.wait_delivered(*state_, std::chrono::steady_clock::now() + timeout)) {
      return base::fail(base::ErrorCode::kUnavailable,
                        "records of writer {} were not durable within {} ms", state_->name(),
                        timeout.count());
    }
    if (state_->dead()) return base::fail(state_->error());
    return {};
  }

 private:
  EmbeddedLog::Impl& log_;
  const std::shared_ptr<WriterState> state_;
};

}  // namespace

std::unique_ptr<LogWriter> make_writer(EmbeddedLog::Impl& log, std::string name) {
  return std::make_unique<Writer>(log, std::move(name));
}

}  // namespace sirenfeed::ingest::embedded
