#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <utility>

#include "base/log.h"
#include "ingest/kafka_impl.h"
#include "ingest/kafka_rejoin.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using std::chrono::milliseconds;
using Steady = std::chrono::steady_clock;

constexpr auto kProbePeriod = milliseconds(500);  // while the broker is lost
constexpr auto kProbeWait = milliseconds(200);
constexpr auto kEndQueryWait = milliseconds(1'000);
constexpr auto kEndRetry = milliseconds(20);
constexpr auto kFirstAssignmentWait = milliseconds(5'000);
constexpr auto kCloseWait = milliseconds(3'000);
constexpr int kClosePollMs = 20;
/// Records of a paused partition that are kept here, because librdkafka drops what it has fetched
/// of a partition that it pauses, and fetches it again.
constexpr std::size_t kHeldBytesMax = 4U << 20U;

std::size_t bytes_of(const LogRecord& record) {
  return (record.key ? record.key->size() : 0) + (record.value ? record.value->size() : 0);
}

/// Threads: one; every callback runs within poll() or the destructor.
class Reader final : public LogReader {
 public:
  Reader(KafkaConfig config, ReaderOptions options)
      : config_(std::move(config)),
        options_(std::move(options)),
        rejoin_(config_.session_timeout) {}
  ~Reader() override;
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;

  base::Result<void> start();
  base::Result<void> assign(TopicPartition source, std::optional<Offset> offset) override;
  base::Result<void> unassign(TopicPartition source) override;
  base::Result<void> pause(TopicPartition source) override;
  base::Result<void> resume(TopicPartition source) override;
  base::Result<PollBatch> poll(milliseconds timeout) override;
  void confirm_ends() override {
    for (auto& [source, input] : inputs_) input.end_owed = input.end_owed || input.reached_end;
  }
  void report_position(TopicPartition source, Offset next_offset) override;

 private:
  struct Input {
    Offset position = RD_KAFKA_OFFSET_BEGINNING;  // of the next record, once one was received
    bool paused = false;
    bool fetch_paused = false;  // by librdkafka too
    bool failed = false;
    bool reached_end = false;  // at `position`, when the fetch was answered
    bool end_owed = false;     // and not told yet since then
    std::deque<LogRecord> held;
    std::size_t held_bytes = 0;
  };

  static void on_rebalance(rd_kafka_t* client, rd_kafka_resp_err_t error,
                           rd_kafka_topic_partition_list_t* partitions, void* self) noexcept;
  static void on_error(rd_kafka_t* client, int error, const char* reason, void* self) noexcept;
  void rebalance(bool assigned, std::span<const Partition> partitions);
  [[nodiscard]] bool safe_to_destroy();
  [[nodiscard]] bool close_in_time();
  void end_client();
  base::Result<void> join_again();
  void note_fatal_error();

  base::Result<Input*> find(TopicPartition source);
  [[nodiscard]] std::string name_of(TopicPartition source) const;
  rd_kafka_topic_partition_t* add(rd_kafka_topic_partition_list_t* list,
                                  TopicPartition source) const;
  base::Result<void> change_assignment(rd_kafka_topic_partition_list_t* list, bool assign);
  void set_fetching(TopicPartition source, Input& input, bool on);

  void release_held(PollBatch& batch);
  void receive(PollBatch& batch, milliseconds timeout);
  void take(const rd_kafka_message_t& message, PollBatch& batch);
  void take_error(const rd_kafka_message_t& message);
  void tell_ends(PollBatch& batch);
  void probe_broker();
  [[nodiscard]] bool full(const PollBatch& batch) const;
  [[nodiscard]] bool owes_end() const;

  const KafkaConfig config_;
  const ReaderOptions options_;
  std::map<TopicPartition, Input> inputs_;
  std::deque<base::Error> errors_;    // one for each partition that stopped; for the next polls
  std::optional<base::Error> fatal_;  // the answer of every poll from now on
  KafkaPartitions rebalancing_;       // what the listener assigns or unassigns while it is called
  std::size_t batch_bytes_ = 0;
  bool broker_lost_ = false;
  bool assigned_once_ = false;  // by the group, be it no partition
  bool closing_ = false;
  bool fenced_ = false;  // `fatal_` is that
  KafkaRejoin rejoin_;
  Steady::time_point next_probe_{};
  KafkaPtr<rd_kafka_t> client_;  // last: dies first
};

base::Result<void> Reader::start() {
  const bool member = options_.group.has_value();
  std::map<std::string, std::string> settings = {
      // Without a group librdkafka still wants a name; nothing is joined or committed under it.
      {"group.id", member ? *options_.group : fmt::format("{}-no-group", config_.client_id)},
      {"enable.auto.commit", member ? "true" : "false"},
      {"enable.auto.offset.store", "false"},
      {"auto.offset.reset", "error"},
      {"enable.partition.eof", "true"},
      {"fetch.wait.max.ms", std::to_string(config_.fetch_wait_max.count())},
      {"queued.max.messages.kbytes", std::to_string(config_.queue_bytes_max >> 10U)},
  };
  if (member) {
    settings["partition.assignment.strategy"] = "cooperative-sticky";
    settings["session.timeout.ms"] = std::to_string(config_.session_timeout.count());
    if (options_.member) settings["group.instance.id"] = *options_.member;
  }
  SF_ASSIGN(auto conf, make_kafka_conf(config_, options_.name, settings));
  rd_kafka_conf_set_opaque(conf.get(), this);
  rd_kafka_conf_set_error_cb(conf.get(), on_error);
  if (member) rd_kafka_conf_set_rebalance_cb(conf.get(), on_rebalance);
  SF_ASSIGN(client_, make_kafka_client(KafkaRole::kConsumer, std::move(conf)));
  rd_kafka_poll_set_consumer(client_.get());
  if (!member) return {};
  const KafkaPartitions topics = make_partitions();
  rd_kafka_topic_partition_list_add(
      topics.get(), kafka_topic_name(config_, Topic::kImpressions).c_str(), RD_KAFKA_PARTITION_UA);
  const rd_kafka_resp_err_t error = rd_kafka_subscribe(client_.get(), topics.get());
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) return kafka_failure(error, "subscribe");
  return {};
}

/// librdkafka 2.0.2 aborts the process when a cooperative-sticky member is destroyed that has
/// joined its group but has not had an assignment yet (confluentinc/librdkafka issue 4312, fixed
/// in 2.3). So such a member waits for it a moment.
bool Reader::safe_to_destroy() {
  const auto joined = [this] {
    char* const id = rd_kafka_memberid(client_.get());
    const bool has_id = id != nullptr && *id != '\0';
    if (id != nullptr) rd_kafka_mem_free(client_.get(), id);
    return has_id;
  };
  const auto deadline = Steady::now() + kFirstAssignmentWait;
  while (options_.group && !assigned_once_ && joined()) {
    note_fatal_error();
    if (fatal_ || Steady::now() > deadline) return false;
    const KafkaPtr<rd_kafka_message_t> dropped(rd_kafka_consumer_poll(client_.get(), 50));
  }
  return true;
}

Reader::~Reader() { end_client(); }

void Reader::end_client() {
  if (!client_) return;
  closing_ = true;
  if (safe_to_destroy() && close_in_time()) return client_.reset();
  // Also rd_kafka_destroy_flags() without closing may wait for ever then.
  base::log_warning("kafka reader {}: left its client behind, which waits for the group",
                    options_.name);
  (void)client_.release();  // nothing of ours is called without a poll
}

/// rd_kafka_consumer_close() waits for the group's coordinator, for ever where no broker comes back
/// and the group had just been joined. May still call on_revoked.
bool Reader::close_in_time() {
  const KafkaPtr<rd_kafka_queue_t> queue(rd_kafka_queue_new(client_.get()));
  const KafkaPtr<rd_kafka_error_t> refused(
      rd_kafka_consumer_close_queue(client_.get(), queue.get()));
  if (refused) return true;  // it was never open
  const auto deadline = Steady::now() + kCloseWait;
  while (rd_kafka_consumer_closed(client_.get()) == 0) {
    if (Steady::now() > deadline) return false;
    const KafkaPtr<rd_kafka_event_t> event(rd_kafka_queue_poll(queue.get(), kClosePollMs));
    if (event && rd_kafka_event_type(event.get()) == RD_KAFKA_EVENT_REBALANCE) {
      on_rebalance(client_.get(), rd_kafka_event_error(event.get()),
                   rd_kafka_event_topic_partition_list(event.get()), this);
    }
  }
  return true;
}

/// Joins again, as a new reader would: librdkafka gives a client that was fenced up for good.
base::Result<void> Reader::join_again() {
  base::log_warning("kafka reader {}: was away for too long; joins group {} again", options_.name,
                    *options_.group);
  std::vector<Partition> taken;
  for (const auto& [source, input] : inputs_) {
    if (source.topic == Topic::kImpressions) taken.push_back(source.partition);
  }
  rebalancing_ = make_partitions();  // the old client need not be told
  if (options_.listener.on_revoked && !taken.empty()) options_.listener.on_revoked(taken);
  rebalancing_.reset();
  end_client();
  inputs_.clear();
  errors_.clear();
  fatal_.reset();
  fenced_ = assigned_once_ = closing_ = false;
  auto started = start();
  if (!started) fatal_ = started.error();
  return started;
}

// --- assignment ----------------------------------------------------------------------------------

std::string Reader::name_of(TopicPartition source) const {
  return fmt::format("{}/{}", kafka_topic_name(config_, source.topic), source.partition);
}

base::Result<Reader::Input*> Reader::find(TopicPartition source) {
  const auto found = inputs_.find(source);
  if (found == inputs_.end()) {
    return base::fail(ErrorCode::kNotFound, "{} is not assigned to reader {}", name_of(source),
                      options_.name);
  }
  return &found->second;
}

rd_kafka_topic_partition_t* Reader::add(rd_kafka_topic_partition_list_t* list,
                                        TopicPartition source) const {
  return rd_kafka_topic_partition_list_add(list, kafka_topic_name(config_, source.topic).c_str(),
                                           source.partition);
}

base::Result<void> Reader::change_assignment(rd_kafka_topic_partition_list_t* list, bool assign) {
  const KafkaPtr<rd_kafka_error_t> error(assign
                                             ? rd_kafka_incremental_assign(client_.get(), list)
                                             : rd_kafka_incremental_unassign(client_.get(), list));
  if (!error) return {};
  return kafka_failure(
      rd_kafka_error_code(error.get()),
      fmt::format("reader {}: {} partitions: {}", options_.name, assign ? "assign" : "unassign",
                  rd_kafka_error_string(error.get())));
}

base::Result<void> Reader::assign(TopicPartition source, std::optional<Offset> offset) {
  if (inputs_.contains(source)) SF_TRY(unassign(source));
  const KafkaPartitions list = make_partitions();
  auto* const target = rebalancing_ ? rebalancing_.get() : list.get();
  add(target, source)->offset = offset.value_or(RD_KAFKA_OFFSET_BEGINNING);
  if (!rebalancing_) SF_TRY(change_assignment(list.get(), true));
  inputs_[source].position = offset.value_or(RD_KAFKA_OFFSET_BEGINNING);
  return {};
}

base::Result<void> Reader::unassign(TopicPartition source) {
  SF_ASSIGN(Input * input, find(source));
  if (input->fetch_paused) set_fetching(source, *input, true);  // outlives the assignment otherwise
  inputs_.erase(source);
  const KafkaPartitions list = make_partitions();
  add(rebalancing_ ? rebalancing_.get() : list.get(), source);
  if (!rebalancing_) return change_assignment(list.get(), false);
  return {};
}

base::Result<void> Reader::pause(TopicPartition source) {
  SF_ASSIGN(Input * input, find(source));
  input->paused = true;
  return {};
}

base::Result<void> Reader::resume(TopicPartition source) {
  SF_ASSIGN(Input * input, find(source));
  input->paused = false;
  if (input->reached_end) input->end_owed = true;
  return {};
}

void Reader::set_fetching(TopicPartition source, Input& input, bool on) {
  const KafkaPartitions list = make_partitions();
  add(list.get(), source);
  const rd_kafka_resp_err_t error = on ? rd_kafka_resume_partitions(client_.get(), list.get())
                                       : rd_kafka_pause_partitions(client_.get(), list.get());
  if (error != RD_KAFKA_RESP_ERR_NO_ERROR) {
    base::log_warning("kafka reader {}: {} {}: {}", options_.name, on ? "resume" : "pause",
                      name_of(source), rd_kafka_err2str(error));
    return;
  }
  input.fetch_paused = !on;
}

void Reader::report_position(TopicPartition source, Offset next_offset) {
  if (!options_.group || !inputs_.contains(source)) return;
  const KafkaPartitions list = make_partitions();
  add(list.get(), source)->offset = next_offset;
  rd_kafka_offsets_store(client_.get(), list.get());  // for dashboards: a failure costs nothing
}

void Reader::on_rebalance(rd_kafka_t*, rd_kafka_resp_err_t error,
                          rd_kafka_topic_partition_list_t* partitions, void* self) noexcept {
  auto* reader = static_cast<Reader*>(self);
  std::vector<Partition> numbers;
  for (int i = 0; i < partitions->cnt; ++i) numbers.push_back(partitions->elems[i].partition);
  reader->rebalance(error == RD_KAFKA_RESP_ERR__ASSIGN_PARTITIONS, numbers);
}

/// The group has impressions alone; the listener adds or removes the same partitions of the topics
/// that go with it, and librdkafka is told of all of them at once.
void Reader::rebalance(bool assigned, std::span<const Partition> partitions) {
  base::log_info("kafka reader {}: group {} {} partitions [{}] of {}", options_.name,
                 *options_.group, assigned ? "gives" : "takes",
                 fmt::join(partitions.begin(), partitions.end(), ", "),
                 kafka_topic_name(config_, Topic::kImpressions));
  assigned_once_ = assigned_once_ || assigned;
  note_fatal_error();
  if (assigned) {
    rejoin_.assigned();
  } else if (!fatal_) {
    rejoin_.taken(rd_kafka_assignment_lost(client_.get()) != 0);
  }
  if (assigned && closing_) partitions = {};  // the owner is about to go, too
  rebalancing_ = make_partitions();
  const auto& tell = assigned ? options_.listener.on_assigned : options_.listener.on_revoked;
  if (tell && !(closing_ && inputs_.empty()) && (assigned || !partitions.empty())) {
    tell(partitions);
  }
  const KafkaPartitions list = std::exchange(rebalancing_, nullptr);
  if (auto done = change_assignment(list.get(), assigned); !done) {
    base::log_error("kafka: {}", done.error().message);
    if (assigned) errors_.push_back(done.error());
  }
}

void Reader::on_error(rd_kafka_t*, int error, const char* reason, void* self) noexcept {
  auto* reader = static_cast<Reader*>(self);
  if (error == RD_KAFKA_RESP_ERR__ALL_BROKERS_DOWN) {
    if (!reader->broker_lost_) {
      base::log_warning("kafka reader {}: no broker answers: {}", reader->options_.name, reason);
    }
    reader->broker_lost_ = true;
    return;
  }
  if (error == RD_KAFKA_RESP_ERR__FATAL) reader->note_fatal_error();
}

void Reader::note_fatal_error() {
  std::array<char, 512> text{};
  const rd_kafka_resp_err_t cause = rd_kafka_fatal_error(client_.get(), text.data(), text.size());
  if (cause == RD_KAFKA_RESP_ERR_NO_ERROR || fatal_) return;
  fenced_ = cause == RD_KAFKA_RESP_ERR_FENCED_INSTANCE_ID;
  fatal_ = base::Error{ErrorCode::kClosed, fmt::format("kafka reader {}: {} ({})", options_.name,
                                                       text.data(), rd_kafka_err2name(cause))};
}

// --- reading -------------------------------------------------------------------------------------

bool Reader::full(const PollBatch& batch) const {
  return batch.records.size() >= options_.poll_records_max ||
         batch_bytes_ >= options_.poll_bytes_max;
}

bool Reader::owes_end() const {
  return std::ranges::any_of(inputs_, [](const auto& entry) {
    const Input& input = entry.second;
    return input.end_owed && !input.paused && input.held.empty();
  });
}

base::Result<PollBatch> Reader::poll(milliseconds timeout) {
  if (!client_) return base::fail(*fatal_);  // could not join again
  PollBatch batch;
  batch_bytes_ = 0;
  release_held(batch);
  if (!batch.records.empty() || !errors_.empty()) timeout = milliseconds(0);
  if (owes_end()) timeout = std::min(timeout, kEndRetry);
  receive(batch, timeout);
  note_fatal_error();  // some come as a message, some through on_error()
  if (fatal_ && std::exchange(fenced_, false)) {
    const auto now = Steady::now();
    if (rejoin_.fenced(now)) {
      SF_TRY(join_again());
      return PollBatch{};  // records are read again, and an end was that of the assignment before
    }
    fatal_->message += fmt::format(
        ": another process uses the name {} in group {}; give each its own --kafka.member",
        options_.member.value_or(""), *options_.group);
  }
  if (fatal_) return base::fail(*fatal_);
  if (batch.records.empty() && !errors_.empty()) {
    base::Error error = std::move(errors_.front());
    errors_.pop_front();
    return base::fail(std::move(error));
  }
  if (broker_lost_) probe_broker();
  if (!broker_lost_) tell_ends(batch);
  batch.broker_lost = broker_lost_;
  return batch;
}

void Reader::release_held(PollBatch& batch) {
  for (auto& [source, input] : inputs_) {
    if (input.paused || input.failed) continue;
    while (!input.held.empty() && !full(batch)) {
      const std::size_t bytes = bytes_of(input.held.front());
      input.held_bytes -= bytes;
      batch_bytes_ += bytes;
      batch.records.push_back(std::move(input.held.front()));
      input.held.pop_front();
    }
    if (input.held.empty() && input.fetch_paused) set_fetching(source, input, true);
  }
}

/// Waits for a first message, then takes what is there.
void Reader::receive(PollBatch& batch, milliseconds timeout) {
  const auto deadline = Steady::now() + timeout;
  while (!full(batch)) {
    const bool found = !batch.records.empty() || !errors_.empty() || fatal_ || owes_end();
    const auto left =
        found ? milliseconds(0) : std::chrono::ceil<milliseconds>(deadline - Steady::now());
    const KafkaPtr<rd_kafka_message_t> message(
        rd_kafka_consumer_poll(client_.get(), std::max(0, static_cast<int>(left.count()))));
    if (message) {
      message->err == RD_KAFKA_RESP_ERR_NO_ERROR ? take(*message, batch) : take_error(*message);
    } else if (left <= left.zero()) {
      return;
    }
  }
}

void Reader::take(const rd_kafka_message_t& message, PollBatch& batch) {
  broker_lost_ = false;
  const auto topic = topic_of_kafka_name(config_, rd_kafka_topic_name(message.rkt));
  const auto found =
      topic ? inputs_.find(TopicPartition{*topic, message.partition}) : inputs_.end();
  if (found == inputs_.end()) return;  // revoked while it was on its way
  Input& input = found->second;
  LogRecord record;
  record.source = found->first;
  record.offset = message.offset;
  record.log_time_ms = rd_kafka_message_timestamp(&message, nullptr);
  if (message.key != nullptr) {
    record.key.emplace(static_cast<const char*>(message.key), message.key_len);
  }
  if (message.payload != nullptr) {
    record.value.emplace(static_cast<const char*>(message.payload), message.len);
  }
  input.position = message.offset + 1;
  input.reached_end = false;
  input.end_owed = false;
  if (!input.paused && input.held.empty()) {
    batch_bytes_ += bytes_of(record);
    batch.records.push_back(std::move(record));
    return;
  }
  input.held_bytes += bytes_of(record);
  input.held.push_back(std::move(record));
  if (input.held_bytes > kHeldBytesMax && !input.fetch_paused) {
    set_fetching(found->first, input, false);
  }
}

void Reader::take_error(const rd_kafka_message_t& message) {
  const auto topic = message.rkt == nullptr
                         ? std::nullopt
                         : topic_of_kafka_name(config_, rd_kafka_topic_name(message.rkt));
  const auto found =
      topic ? inputs_.find(TopicPartition{*topic, message.partition}) : inputs_.end();
  const std::string text = rd_kafka_message_errstr(&message);
  const ErrorCode code = code_of(message.err);
  if (message.err == RD_KAFKA_RESP_ERR__PARTITION_EOF) {
    broker_lost_ = false;
    if (found == inputs_.end()) return;
    found->second.position = message.offset;
    found->second.reached_end = true;
    found->second.end_owed = true;
  } else if (code == ErrorCode::kNotFound) {
    errors_.push_back(
        {code, fmt::format("Kafka has no topic or partition {}: make the topics with "
                           "`sirenfeed topics create` ({})",
                           found == inputs_.end() ? kafka_topic_name(config_, Topic::kImpressions)
                                                  : name_of(found->first),
                           text)});
  } else if (code == ErrorCode::kUnavailable ||
             message.err == RD_KAFKA_RESP_ERR__MAX_POLL_EXCEEDED) {
    base::log_warning("kafka reader {}: {}", options_.name, text);
  } else if (found == inputs_.end()) {
    errors_.push_back({code, fmt::format("kafka reader {}: {}", options_.name, text)});
  } else if (!found->second.failed) {
    found->second.failed = true;
    errors_.push_back({code, fmt::format("{}: offset {} cannot be read: {}", name_of(found->first),
                                         found->second.position, text)});
  }
}

/// A fetch that found the end may have been answered before the records of this batch were written.
/// So the log is asked for its ends now, after all of them were received.
void Reader::tell_ends(PollBatch& batch) {
  const KafkaPartitions list = make_partitions();
  std::vector<TopicPartition> asked;
  for (const auto& [source, input] : inputs_) {
    const bool at_end = input.reached_end && !input.paused && !input.failed && input.held.empty();
    if (!at_end || (!input.end_owed && batch.records.empty())) continue;
    add(list.get(), source)->offset = RD_KAFKA_OFFSET_END;
    asked.push_back(source);
  }
  if (asked.empty()) return;
  const rd_kafka_resp_err_t error = rd_kafka_offsets_for_times(
      client_.get(), list.get(), static_cast<int>(kEndQueryWait.count()));
  for (const TopicPartition source : asked) {
    Input& input = inputs_.at(source);
    input.end_owed = true;
    const rd_kafka_topic_partition_t* answer = rd_kafka_topic_partition_list_find(
        list.get(), kafka_topic_name(config_, source.topic).c_str(), source.partition);
    if (error != RD_KAFKA_RESP_ERR_NO_ERROR || answer == nullptr ||
        answer->err != RD_KAFKA_RESP_ERR_NO_ERROR) {
      continue;  // asked again by the next poll
    }
    input.end_owed = false;
    if (answer->offset == input.position) {
      batch.at_end.push_back(source);
    } else {
      input.reached_end = false;  // more was written: its records come, and then its end
    }
  }
}

void Reader::probe_broker() {
  if (Steady::now() < next_probe_) return;
  next_probe_ = Steady::now() + kProbePeriod;
  const rd_kafka_metadata_t* answer = nullptr;
  if (rd_kafka_metadata(client_.get(), 0, nullptr, &answer, static_cast<int>(kProbeWait.count())) !=
      RD_KAFKA_RESP_ERR_NO_ERROR) {
    return;
  }
  rd_kafka_metadata_destroy(answer);
  broker_lost_ = false;
  base::log_info("kafka reader {}: a broker answers again", options_.name);
}

}  // namespace

base::Result<std::unique_ptr<LogReader>> make_kafka_reader(const KafkaConfig& config,
                                                           ReaderOptions options) {
  auto reader = std::make_unique<Reader>(config, std::move(options));
  SF_TRY(reader->start());
  return reader;
}

}  // namespace sirenfeed::ingest
