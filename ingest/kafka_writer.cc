#include <fmt/format.h>

#include <array>
#include <condition_variable>
#include <thread>
#include <utility>

#include "base/log.h"
#include "ingest/kafka_impl.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using Steady = std::chrono::steady_clock;

constexpr int kPurgeAll =
    RD_KAFKA_PURGE_F_QUEUE | RD_KAFKA_PURGE_F_INFLIGHT | RD_KAFKA_PURGE_F_NON_BLOCKING;

/// A null pointer is a null key or value; that of an empty one is not null. librdkafka copies.
decltype(rd_kafka_vu_t::u.mem) bytes_of(const std::optional<std::string>& bytes) {
  if (!bytes) return {nullptr, 0};
  return {const_cast<char*>(bytes->data()), bytes->size()};
}

/// Threads: append() and flush() any; `poller_` runs the deliveries.
class Writer final : public LogWriter {
 public:
  Writer(KafkaMetadata& metadata, std::string name)
      : metadata_(metadata), config_(metadata.config()), name_(std::move(name)) {}
  ~Writer() override;
  Writer(const Writer&) = delete;
  Writer& operator=(const Writer&) = delete;

  base::Result<void> start();
  base::Result<void> append(TopicPartition target, std::optional<std::string> key,
                            std::optional<std::string> value, base::UnixMs time_ms,
                            OnDelivered on_delivered) override SF_EXCLUDES(mutex_);
  base::Result<void> flush(std::chrono::milliseconds timeout) override SF_EXCLUDES(mutex_);

 private:
  struct Record {
    TopicPartition target;
    const std::optional<std::string>& key;
    const std::optional<std::string>& value;
    base::UnixMs time_ms = 0;
  };

  static void on_delivery(rd_kafka_t* client, const rd_kafka_message_t* message,
                          void* self) noexcept;
  static void on_error(rd_kafka_t* client, int error, const char* reason, void* self) noexcept;
  rd_kafka_resp_err_t produce(const Record& record, OnDelivered& on_delivered) SF_REQUIRES(mutex_);
  base::Result<Offset> outcome(const rd_kafka_message_t& message) const;
  void kill(const base::Error& error) SF_EXCLUDES(mutex_);
  [[nodiscard]] tl::unexpected<base::Error> refusal(rd_kafka_resp_err_t error,
                                                    const Record& record) const;

  KafkaMetadata& metadata_;
  const KafkaConfig& config_;
  const std::string name_;
  base::Mutex mutex_;
  std::condition_variable delivered_;
  std::size_t under_way_ SF_GUARDED_BY(mutex_) = 0;
  std::optional<base::Error> dead_ SF_GUARDED_BY(mutex_);
  KafkaPtr<rd_kafka_t> client_;
  std::jthread poller_;  // last: ends before the client
};

base::Result<void> Writer::start() {
  const auto text = [](auto number) { return std::to_string(number); };
  // Room for the record's framing: message_bytes_max speaks of key and value alone.
  constexpr std::size_t kFramingBytes = 10'000;
  SF_ASSIGN(auto conf, make_kafka_conf(
                           config_, name_,
                           {{"acks", "all"},
                            {"enable.idempotence", "true"},
                            // A failed batch stops the producer before a later one can pass it.
                            {"enable.gapless.guarantee", "true"},
                            {"message.timeout.ms", "0"},
                            {"partitioner", "murmur2_random"},
                            {"linger.ms", text(config_.linger.count())},
                            {"message.max.bytes", text(config_.message_bytes_max + kFramingBytes)},
                            {"queue.buffering.max.messages", "500000"},
                            {"queue.buffering.max.kbytes", text(config_.queue_bytes_max >> 10U)}}));
  rd_kafka_conf_set_opaque(conf.get(), this);
  rd_kafka_conf_set_dr_msg_cb(conf.get(), on_delivery);
  rd_kafka_conf_set_error_cb(conf.get(), on_error);
  SF_ASSIGN(client_, make_kafka_client(KafkaRole::kProducer, std::move(conf)));
  poller_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) rd_kafka_poll(client_.get(), 50);
  });
  return {};
}

Writer::~Writer() {
  if (!client_) return;
  kill({ErrorCode::kClosed, fmt::format("writer {} was closed", name_)});
  {
    base::MutexLock lock(mutex_);
    while (under_way_ > 0) lock.wait(delivered_);  // purged records are reported, too
  }
  poller_.request_stop();
  poller_.join();
}

base::Result<void> Writer::append(TopicPartition target, std::optional<std::string> key,
                                  std::optional<std::string> value, base::UnixMs time_ms,
                                  OnDelivered on_delivered) {
  const std::size_t bytes = (key ? key->size() : 0) + (value ? value->size() : 0);
  if (bytes > config_.message_bytes_max) {
    return base::fail(ErrorCode::kTooLarge,
                      "a record of {} bytes for topic {} is over message_bytes_max = {}", bytes,
                      kafka_topic_name(config_, target.topic), config_.message_bytes_max);
  }
  SF_TRY(metadata_.check(target));
  const Record record{target, key, value, time_ms};
  const auto deadline = Steady::now() + config_.queue_full_wait_max;
  // Held while producing: once the writer is dead, nothing may enter the queue behind its purge.
  base::MutexLock lock(mutex_);
  while (true) {
    if (dead_) {
      return base::fail(ErrorCode::kClosed, "an earlier delivery of writer {} failed: {}", name_,
                        dead_->message);
    }
    const rd_kafka_resp_err_t error = produce(record, on_delivered);
    if (error == RD_KAFKA_RESP_ERR_NO_ERROR) return {};
    const auto left = deadline - Steady::now();
    if (error != RD_KAFKA_RESP_ERR__QUEUE_FULL || left <= left.zero())
      return refusal(error, record);
    lock.wait_for(delivered_, left);
  }
}

rd_kafka_resp_err_t Writer::produce(const Record& record, OnDelivered& on_delivered) {
  const std::string topic = kafka_topic_name(config_, record.target.topic);
  auto report = std::make_unique<OnDelivered>(std::move(on_delivered));
  std::array<rd_kafka_vu_t, 7> fields{};
  fields[0].vtype = RD_KAFKA_VTYPE_TOPIC;
  fields[0].u.cstr = topic.c_str();
  fields[1].vtype = RD_KAFKA_VTYPE_PARTITION;
  fields[1].u.i32 = record.target.partition;
  fields[2].vtype = RD_KAFKA_VTYPE_MSGFLAGS;
  fields[2].u.i = RD_KAFKA_MSG_F_COPY;
  fields[3].vtype = RD_KAFKA_VTYPE_KEY;
  fields[3].u.mem = bytes_of(record.key);
  fields[4].vtype = RD_KAFKA_VTYPE_VALUE;
  fields[4].u.mem = bytes_of(record.value);
  fields[5].vtype = RD_KAFKA_VTYPE_TIMESTAMP;
  fields[5].u.i64 = record.time_ms;
  fields[6].vtype = RD_KAFKA_VTYPE_OPAQUE;
  fields[6].u.ptr = report.get();
  const KafkaPtr<rd_kafka_error_t> refused(
      rd_kafka_produceva(client_.get(), fields.data(), fields.size()));
  const rd_kafka_resp_err_t error =
      refused ? rd_kafka_error_code(refused.get()) : RD_KAFKA_RESP_ERR_NO_ERROR;
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    on_delivered = std::move(*report);
    return error;
  }
  (void)report.release();  // on_delivery() owns it
  ++under_way_;
  return error;
}

tl::unexpected<base::Error> Writer::refusal(rd_kafka_resp_err_t error, const Record& record) const {
  const std::string topic = kafka_topic_name(config_, record.target.topic);
  if (error == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
    return base::fail(ErrorCode::kUnavailable,
                      "the queue of writer {} was full (queue_bytes_max = {}) for {} ms", name_,
                      config_.queue_bytes_max, config_.queue_full_wait_max.count());
  }
  if (error == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
    return base::fail(ErrorCode::kTooLarge, "a record for topic {} is over message_bytes_max = {}",
                      topic, config_.message_bytes_max);
  }
  std::array<char, 512> reason{};
  if (rd_kafka_fatal_error(client_.get(), reason.data(), reason.size()) !=
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    return base::fail(ErrorCode::kClosed, "writer {}: {}", name_, reason.data());
  }
  return kafka_failure(error, fmt::format("append to {}/{}", topic, record.target.partition));
}

base::Result<Offset> Writer::outcome(const rd_kafka_message_t& message) const {
  if (message.err == RD_KAFKA_RESP_ERR_NO_ERROR) return message.offset;
  const std::string what =
      fmt::format("record for {}/{}", rd_kafka_topic_name(message.rkt), message.partition);
  if (message.err == RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE) {
    return base::fail(ErrorCode::kTooLarge,
                      "{} of {} bytes: over the broker's limit, which has to be at least "
                      "message_bytes_max = {} (topic setting max.message.bytes)",
                      what, message.len + message.key_len, config_.message_bytes_max);
  }
  if (message.err == RD_KAFKA_RESP_ERR_INVALID_RECORD && message.key == nullptr) {
    return base::fail(ErrorCode::kInvalidArgument,
                      "{}: refused by the broker: a record of a compacted topic needs a key", what);
  }
  return kafka_failure(message.err, what);
}

void Writer::on_delivery(rd_kafka_t*, const rd_kafka_message_t* message, void* self) noexcept {
  auto* writer = static_cast<Writer*>(self);
  const std::unique_ptr<OnDelivered> report(static_cast<OnDelivered*>(message->_private));
  base::Result<Offset> result = writer->outcome(*message);
  if (!result) writer->kill(result.error());
  if (*report) (*report)(std::move(result));
  {
    // Notified under the lock: the destructor may run as soon as the last record is reported.
    base::MutexLock lock(writer->mutex_);
    --writer->under_way_;
    writer->delivered_.notify_all();
  }
}

void Writer::on_error(rd_kafka_t* client, int error, const char*, void* self) noexcept {
  if (error != RD_KAFKA_RESP_ERR__FATAL) return;  // passes by itself, and is in the log
  std::array<char, 512> reason{};
  rd_kafka_fatal_error(client, reason.data(), reason.size());
  auto* writer = static_cast<Writer*>(self);
  {
    // Nothing more is accepted. The failed record's own report says more than this one, so it is
    // the one that the writer dies of, unless there is none.
    base::MutexLock lock(writer->mutex_);
    if (writer->under_way_ > 0) {
      rd_kafka_purge(client, kPurgeAll);
      return;
    }
  }
  writer->kill({ErrorCode::kClosed, reason.data()});
}

/// Everything under way is reported as failed, later appends are refused. What was purged may be
/// reported before the record that failed, whose error then takes the place of theirs.
void Writer::kill(const base::Error& error) {
  bool first = false;
  {
    base::MutexLock lock(mutex_);
    if (dead_ && (dead_->code != ErrorCode::kClosed || error.code == ErrorCode::kClosed)) return;
    first = !dead_;
    dead_ = error;
  }
  if (error.code != ErrorCode::kClosed) {
    base::log_warning("kafka writer {}: {}; what is under way fails with it", name_, error.message);
  }
  if (first) rd_kafka_purge(client_.get(), kPurgeAll);
  delivered_.notify_all();
}

base::Result<void> Writer::flush(std::chrono::milliseconds timeout) {
  const auto deadline = Steady::now() + timeout;
  base::MutexLock lock(mutex_);
  while (under_way_ > 0) {
    const auto left = deadline - Steady::now();
    if (left <= left.zero()) {
      return base::fail(ErrorCode::kUnavailable,
                        "{} records of writer {} were not acknowledged within {} ms", under_way_,
                        name_, timeout.count());
    }
    lock.wait_for(delivered_, left);
  }
  if (dead_) return base::fail(*dead_);
  return {};
}

}  // namespace

base::Result<std::unique_ptr<LogWriter>> make_kafka_writer(KafkaMetadata& metadata,
                                                           std::string name) {
  auto writer = std::make_unique<Writer>(metadata, std::move(name));
  SF_TRY(writer->start());
  return writer;
}

}  // namespace sirenfeed::ingest
