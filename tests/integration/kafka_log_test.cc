// The Kafka log against a real broker: the contract, groups of several members, a broker that is
// stopped, killed and started again with its data.
#include "ingest/kafka_log.h"

#include <gmock/gmock.h>

#include <atomic>
#include <iostream>
#include <map>
#include <set>
#include <thread>

#include "ingest/topics_admin.h"
#include "tests/support/kafka_broker.h"
#include "tests/support/log_contract.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr auto kPatience = std::chrono::seconds(40);

/// One broker for all tests of this process; each test has topics with a prefix of its own.
class SharedBroker {
 public:
  static test_support::KafkaBroker* get() {
    static SharedBroker shared;
    return shared.broker_ ? &*shared.broker_ : nullptr;
  }
  static const std::string& reason() {
    get();
    return reason_;
  }

 private:
  SharedBroker() {
    if (const auto reason = test_support::KafkaBroker::unavailable()) {
      reason_ = *reason;
      return;
    }
    broker_.emplace();
    if (broker_->start()) return;
    broker_.reset();
    reason_ = "the Kafka broker did not start";
    ADD_FAILURE() << reason_;
  }
  inline static std::string reason_;
  std::optional<test_support::KafkaBroker> broker_;
};

KafkaConfig next_config() {
  static int count = 0;
  KafkaConfig config = SharedBroker::get()->config();
  config.topic_prefix = "t" + std::to_string(::getpid()) + "-" + std::to_string(count++) + ".";
  return config;
}

base::Result<std::vector<TopicDescription>> create(const KafkaConfig& config,
                                                   Partition partitions) {
  TopicsConfig topics;
  topics.partitions = partitions;
  return create_topics(config, topics);
}

class RealKafkaUnderTest final : public LogUnderTest {
 public:
  RealKafkaUnderTest() {
    KafkaConfig config = next_config();
    config.message_bytes_max = kMessageBytesMax;
    const auto created = create(config, kPartitions);
    EXPECT_TRUE(created) << created.error().message;
    auto connected = KafkaLog::connect(config);
    EXPECT_TRUE(connected) << connected.error().message;
    if (connected) log_ = *std::move(connected);
  }
  EventLog& log() override { return *log_; }

 private:
  std::unique_ptr<EventLog> log_;
};

INSTANTIATE_TEST_SUITE_P(Logs, EventLogContract,
                         testing::Values(LogFactory{"KafkaBroker",
                                                    []() -> std::unique_ptr<LogUnderTest> {
                                                      if (SharedBroker::get() == nullptr)
                                                        return nullptr;
                                                      return std::make_unique<RealKafkaUnderTest>();
                                                    }}),
                         [](const auto& test) { return test.param.name; });

class RealKafkaTest : public testing::Test {
 protected:
  void SetUp() override {
    if (SharedBroker::get() == nullptr) GTEST_SKIP() << SharedBroker::reason();
    config_ = next_config();
  }
  std::unique_ptr<EventLog> connect() {
    auto connected = KafkaLog::connect(config_);
    EXPECT_TRUE(connected) << connected.error().message;
    return connected ? *std::move(connected) : nullptr;
  }
  void create_all(Partition partitions) {
    const auto created = create(config_, partitions);
    ASSERT_TRUE(created) << created.error().message;
  }
  /// Its own for each test: a static member keeps its place for session_timeout after it has gone.
  [[nodiscard]] std::string group() const { return config_.topic_prefix + "feed"; }

  KafkaConfig config_;
};

TEST_F(RealKafkaTest, TopicsAreMadeOnceAndDescribed) {
  const auto before = describe_topics(config_);
  ASSERT_TRUE(before) << before.error().message;
  for (const auto& topic : *before) EXPECT_EQ(topic.partitions, 0) << topic.name;
  const auto created = create(config_, 4);
  ASSERT_TRUE(created) << created.error().message;
  ASSERT_EQ(created->size(), 7U);
  for (const auto& topic : *created) {
    const bool single = topic.topic == Topic::kItems || topic.topic == Topic::kDeadLetters;
    EXPECT_TRUE(topic.created) << topic.name;
    EXPECT_EQ(topic.partitions, single ? 1 : 4) << topic.name;
    EXPECT_EQ(topic.replication_factor, 1) << topic.name;
  }
  const auto again = create(config_, 5);
  ASSERT_TRUE(again) << again.error().message;
  for (const auto& topic : *again) {
    EXPECT_FALSE(topic.created) << topic.name;
    EXPECT_NE(topic.partitions, 5) << "existing topics are left as they are";
  }
  EXPECT_EQ(check_copartitioned(*connect()), 4);
}

TEST_F(RealKafkaTest, AReplicationFactorBeyondTheClusterIsRefusedByTheTopicsName) {
  TopicsConfig topics;
  topics.replication_factor = 3;
  const auto created = create_topics(config_, topics);
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, ErrorCode::kInvalidArgument) << created.error().message;
  EXPECT_THAT(created.error().message, HasSubstr(config_.topic_prefix));
}

TEST_F(RealKafkaTest, AMissingTopicNamesTheCommandThatMakesIt) {
  const auto log = connect();
  const auto count = log->partitions(Topic::kClicks);
  ASSERT_FALSE(count);
  EXPECT_EQ(count.error().code, ErrorCode::kNotFound);
  EXPECT_THAT(count.error().message, HasSubstr(config_.topic_prefix + "clicks"));
  EXPECT_THAT(count.error().message, HasSubstr("sirenfeed topics create"));
  auto writer = log->open_writer("w");
  const auto appended = (*writer)->append({Topic::kClicks, 0}, "k", "v", 1, {});
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code, ErrorCode::kNotFound);
  EXPECT_FALSE(log->partitions(Topic::kClicks)) << "asking must not make the topic";
}

TEST_F(RealKafkaTest, ARecordOverTheBrokersLimitNamesBothLimits) {
  TopicsConfig topics;
  topics.message_bytes_max = 5'000;
  ASSERT_TRUE(create_topics(config_, topics));
  const auto log = connect();
  auto writer = log->open_writer("w");
  std::optional<base::Error> error;
  ASSERT_TRUE((*writer)->append({Topic::kClicks, 0}, "k", std::string(20'000, 'x'), 1,
                                [&](base::Result<Offset> delivered) {
                                  if (!delivered) error = delivered.error();
                                }));
  EXPECT_FALSE((*writer)->flush(kPatience));
  ASSERT_TRUE(error);
  EXPECT_EQ(error->code, ErrorCode::kTooLarge);
  EXPECT_THAT(error->message, HasSubstr("message_bytes_max"));
  EXPECT_THAT(error->message, HasSubstr("max.message.bytes"));
}

/// A member that follows impressions, clicks and users, as the ingest loop does. `state` holds how
/// far each partition was read: where it is given, it moves with the partition to another member.
class Member {
 public:
  using Positions = std::map<TopicPartition, Offset>;
  Member(EventLog& log, const std::string& group, const std::string& name,
         Positions* state = nullptr)
      : next_(state != nullptr ? *state : own_) {
    ReaderOptions options;
    options.name = name;
    options.group = group;
    options.member = name;
    options.listener.on_assigned = [this](std::span<const Partition> given) {
      for (const Partition p : given) {
        owned_.insert(p);
        for (const Topic topic : kTopics)
          EXPECT_TRUE(reader_->assign({topic, p}, next_[{topic, p}]));
      }
    };
    options.listener.on_revoked = [this](std::span<const Partition> taken) {
      for (const Partition p : taken) {
        owned_.erase(p);
        for (const Topic topic : kTopics) EXPECT_TRUE(reader_->unassign({topic, p}));
      }
    };
    auto opened = log.open_reader(std::move(options));
    EXPECT_TRUE(opened) << opened.error().message;
    reader_ = *std::move(opened);
  }
  void poll() {
    const auto batch = reader_->poll(milliseconds(50));
    ASSERT_TRUE(batch) << batch.error().message;
    for (const LogRecord& record : batch->records) {
      EXPECT_TRUE(owned_.contains(record.source.partition));
      seen_.insert(record.value.value_or(""));
      next_[record.source] = record.offset + 1;
      reader_->report_position(record.source, record.offset + 1);
    }
  }
  [[nodiscard]] const std::set<Partition>& owned() const { return owned_; }
  [[nodiscard]] const std::multiset<std::string>& seen() const { return seen_; }

 private:
  static constexpr std::array kTopics = {Topic::kImpressions, Topic::kClicks, Topic::kUsers};
  std::set<Partition> owned_;
  std::multiset<std::string> seen_;
  Positions own_;
  Positions& next_;
  std::unique_ptr<LogReader> reader_;
};

TEST_F(RealKafkaTest, ThreeMembersShareThePartitionsOfAllTopicsAlike) {
  create_all(6);
  const auto log = connect();
  {
    auto writer = log->open_writer("w");
    for (Partition p = 0; p < 6; ++p) {
      for (const Topic topic : {Topic::kImpressions, Topic::kClicks, Topic::kUsers}) {
        const std::string value = std::string(topic_name(topic)) + std::to_string(p);
        ASSERT_TRUE((*writer)->append({topic, p}, "k", value, 1, {}));
      }
    }
    ASSERT_TRUE((*writer)->flush(kPatience));
  }
  std::vector<std::unique_ptr<Member>> members;
  const auto settle = [&](std::size_t each) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      for (const auto& member : members) member->poll();
      std::set<Partition> all;
      bool even = true;
      for (const auto& member : members) {
        even = even && member->owned().size() == each;
        all.insert(member->owned().begin(), member->owned().end());
      }
      if (even && all.size() == 6) return true;
    }
    return false;
  };
  members.push_back(std::make_unique<Member>(*log, group(), "a"));
  ASSERT_TRUE(settle(6));
  members.push_back(std::make_unique<Member>(*log, group(), "b"));
  members.push_back(std::make_unique<Member>(*log, group(), "c"));
  ASSERT_TRUE(settle(2)) << "cooperative rebalancing moved the partitions one by one";
  for (int i = 0; i < 20; ++i) {
    for (const auto& member : members) member->poll();
  }
  std::set<std::string> seen;
  for (const auto& member : members) seen.insert(member->seen().begin(), member->seen().end());
  EXPECT_EQ(seen.size(), 18U);
}

TEST_F(RealKafkaTest, MembersThatJoinAndLeaveLoseNothingAndReadNothingTwice) {
  constexpr Partition kPartitions = 6;
  create_all(kPartitions);
  config_.session_timeout = milliseconds(6'000);  // a static member keeps its place for this long
  const auto log = connect();
  auto writer = log->open_writer("w");
  std::multiset<std::string> written;
  const auto write_round = [&](int round) {
    for (Partition p = 0; p < kPartitions; ++p) {
      for (const Topic topic : {Topic::kImpressions, Topic::kClicks, Topic::kUsers}) {
        std::string value = fmt::format("{}/{} {}", topic_name(topic), p, round);
        ASSERT_TRUE((*writer)->append({topic, p}, "k", value, 1, {}));
        written.insert(std::move(value));
      }
    }
  };
  Member::Positions state;
  std::multiset<std::string> seen;
  std::map<std::string, std::unique_ptr<Member>> members;
  const auto leave = [&](const std::string& name) {
    seen.insert(members.at(name)->seen().begin(), members.at(name)->seen().end());
    members.erase(name);
  };
  int round = 0;
  const auto settle = [&](std::size_t each) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      write_round(round++);
      bool even = true;
      for (const auto& [name, member] : members) {
        member->poll();
        even = even && member->owned().size() == each;
      }
      if (even) return true;
    }
    return false;
  };
  members["a"] = std::make_unique<Member>(*log, group(), "a", &state);
  ASSERT_TRUE(settle(6));
  members["b"] = std::make_unique<Member>(*log, group(), "b", &state);
  ASSERT_TRUE(settle(3));
  members["c"] = std::make_unique<Member>(*log, group(), "c", &state);
  ASSERT_TRUE(settle(2));
  leave("a");
  ASSERT_TRUE(settle(3)) << "the others get what it had";
  ASSERT_TRUE((*writer)->flush(kPatience));
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::size_t read = 0;
  while (read < written.size() && std::chrono::steady_clock::now() < deadline) {
    read = seen.size();
    for (const auto& [name, member] : members) {
      member->poll();
      read += member->seen().size();
    }
  }
  for (const std::string name : {"b", "c"}) leave(name);
  EXPECT_EQ(seen, written);
}

TEST_F(RealKafkaTest, AMemberThatComesBackUnderItsNameKeepsItsPartitions) {
  create_all(4);
  const auto log = connect();
  Member first(*log, group(), "first");
  auto second = std::make_unique<Member>(*log, group(), "second");
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while ((first.owned().size() != 2 || second->owned().size() != 2) &&
         std::chrono::steady_clock::now() < deadline) {
    first.poll();
    second->poll();
  }
  ASSERT_EQ(second->owned().size(), 2U);
  const std::set<Partition> before = second->owned();
  second.reset();
  second = std::make_unique<Member>(*log, group(), "second");
  while (second->owned().size() != 2 && std::chrono::steady_clock::now() < deadline) {
    first.poll();
    second->poll();
  }
  EXPECT_EQ(second->owned(), before);
  EXPECT_EQ(first.owned().size(), 2U) << "a static member's absence is no rebalance";
}

TEST_F(RealKafkaTest, ASecondProcessUnderAMembersNameEndsTheFirst) {
  create_all(1);
  const auto log = connect();
  const auto open_member = [&] {
    ReaderOptions options;
    options.name = "node";
    options.group = group();
    options.member = "node-1";
    return *log->open_reader(std::move(options));
  };
  const auto first = open_member();
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(first->poll(milliseconds(100)));
  const auto second = open_member();
  base::Result<PollBatch> polled;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (polled && std::chrono::steady_clock::now() < deadline) {
    const auto other = second->poll(milliseconds(50));
    ASSERT_TRUE(other) << other.error().message;
    polled = first->poll(milliseconds(50));
  }
  ASSERT_FALSE(polled);
  EXPECT_EQ(polled.error().code, ErrorCode::kClosed);
  EXPECT_THAT(polled.error().message, HasSubstr("FENCED"));
  EXPECT_THAT(polled.error().message, HasSubstr("another process uses the name node-1"));
}

TEST(SecureKafka, PropertiesReachTheBrokerAndAWrongPasswordSaysSo) {
  if (const auto reason = test_support::KafkaBroker::unavailable()) GTEST_SKIP() << *reason;
  test_support::KafkaBroker broker(
      "listener.security.protocol.map=BROKER:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT\n"
      "sasl.enabled.mechanisms=PLAIN\n"
      "sasl.mechanism.inter.broker.protocol=PLAIN\n"
      "listener.name.broker.plain.sasl.jaas.config="
      "org.apache.kafka.common.security.plain.PlainLoginModule required "
      "username=\"admin\" password=\"admin-secret\" "
      "user_admin=\"admin-secret\" user_feed=\"feed-secret\";");
  ASSERT_TRUE(broker.start());
  KafkaConfig config = broker.config();
  config.properties = {{"security.protocol", "sasl_plaintext"},
                       {"sasl.mechanism", "PLAIN"},
                       {"sasl.username", "feed"},
                       {"sasl.password", "feed-secret"}};
  const auto created = create(config, 1);
  ASSERT_TRUE(created) << created.error().message;
  const auto log = KafkaLog::connect(config);
  ASSERT_TRUE(log) << log.error().message;
  {
    auto writer = (*log)->open_writer("w");
    ASSERT_TRUE((*writer)->append({Topic::kClicks, 0}, "k", "v", 1, {}));
    EXPECT_TRUE((*writer)->flush(kPatience));
  }
  config.properties["sasl.password"] = "guessed";
  config.connect_wait_max = milliseconds(2'000);
  const auto refused = KafkaLog::connect(config);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("uthentication"));
  EXPECT_THAT(refused.error().message, testing::Not(HasSubstr("guessed")));
}

/// What the outbox and the merge live through when the broker goes and comes.
void expect_survival(const KafkaConfig& config, bool (test_support::KafkaBroker::*end)()) {
  auto connected = KafkaLog::connect(config);
  ASSERT_TRUE(connected) << connected.error().message;
  EventLog& log = **connected;
  constexpr TopicPartition kClicks0{Topic::kClicks, 0};
  auto writer = log.open_writer("w");
  auto reader = log.open_reader({});
  ASSERT_TRUE((*reader)->assign(kClicks0, std::nullopt));
  std::vector<std::string> got;
  bool lost = false;
  const auto poll_until = [&](auto&& done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (!done() && std::chrono::steady_clock::now() < deadline) {
      const auto batch = (*reader)->poll(milliseconds(50));
      EXPECT_TRUE(batch) << batch.error().message;
      if (!batch) return;
      lost = batch->broker_lost;
      for (const LogRecord& record : batch->records) got.push_back(record.value.value_or(""));
    }
  };
  ASSERT_TRUE((*writer)->append(kClicks0, "k", "before", 1, {}));
  ASSERT_TRUE((*writer)->flush(kPatience));
  poll_until([&] { return got.size() == 1; });
  ASSERT_TRUE((SharedBroker::get()->*end)());
  poll_until([&] { return lost; });
  EXPECT_TRUE(lost);
  std::atomic<Offset> offset = -1;
  ASSERT_TRUE((*writer)->append(kClicks0, "k", "meanwhile", 1,
                                [&](auto delivered) { offset = delivered.value_or(-2); }));
  ASSERT_TRUE(SharedBroker::get()->start());
  EXPECT_TRUE((*writer)->flush(kPatience));
  EXPECT_EQ(offset, 1);
  poll_until([&] { return got.size() == 2 && !lost; });
  EXPECT_FALSE(lost);
  EXPECT_THAT(got, ElementsAre("before", "meanwhile"));
}

TEST_F(RealKafkaTest, AStoppedBrokerComesBackWithItsData) {
  create_all(1);
  expect_survival(config_, &test_support::KafkaBroker::stop);
}

TEST_F(RealKafkaTest, AKilledBrokerComesBackWithItsData) {
  create_all(1);
  expect_survival(config_, &test_support::KafkaBroker::kill);
}

}  // namespace
}  // namespace sirenfeed::ingest
