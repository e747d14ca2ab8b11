// Random streams against the join told plainly (join_reference.h): duplicates, events out of order
// and late, takedowns, erasures, requests, restarts and rebalances in the middle of a batch, with
// windows of single types, tasks of their own and fake negatives. A seed that fails prints the
// smallest stream that still does.
//
// SIRENFEED_MODEL_SEEDS: how many streams (300); SIRENFEED_MODEL_SEED: the first.
#include <random>

#include "features/context_features.h"
#include "features/example_format/context_schema.h"
#include "join_reference.h"
#include "state_fixture.h"

namespace sirenfeed::features {
namespace {

using reference::Event;
using reference::Fault;
using Kind = Event::Kind;

constexpr int kUsers = 4;
constexpr int kItems = 5;
constexpr int kPartitions = 2;

/// One whose key belongs in partition user % kPartitions.
std::string user_name(int user) {
  std::string name = "u" + std::to_string(user);
  while (ingest::partition_of(name, kPartitions) != user % kPartitions) name += '+';
  return name;
}
std::string item_name(int item) { return "item" + std::to_string(item); }

/// One step of a stream.
struct Step {
  enum class What : std::uint8_t { kEvent, kCommit, kRestart, kRebalance, kIdle, kClose };
  What what = What::kEvent;
  Event event;
  base::UnixMs clock = 0;  // of kIdle
  int again = 0;           // records that are read once more
};

struct Stream {
  FeaturesConfig config;
  std::vector<Step> steps;
};

std::string text(const Event& event) {
  constexpr const char* kKinds[] = {"impression", "action", "request", "erase", "takedown"};
  std::string line = fmt::format("{} time {} user {} id '{}' items {}",
                                 kKinds[static_cast<std::size_t>(event.kind)], event.time - kStart,
                                 event.user, event.id, fmt::join(event.items, ","));
  if (event.kind == Kind::kAction) {
    line += " type " + reference::kTypes[static_cast<std::size_t>(event.type)];
  }
  if (event.names) line += fmt::format(" names '{}'", *event.names);
  return line;
}

std::string text(const Stream& stream) {
  const JoinConfig& join = stream.config.join;
  std::string lines = fmt::format(
      "window {} like {} lateness {} horizon {} per_task_close {} fake_negatives {} requests {} "
      "corrections {} for {} at most {}\n",
      join.window_ms, stream.config.join.longest_window_ms(), join.lateness_max_ms,
      join.dedup_horizon_ms, join.per_task_close, join.fake_negatives, join.requests_held_max,
      stream.config.corrections.enabled, stream.config.corrections.retention_ms,
      stream.config.corrections.retained_max);
  constexpr const char* kWhats[] = {"", "commit", "restart", "rebalance", "idle", "close"};
  for (const Step& step : stream.steps) {
    lines += step.what == Step::What::kEvent
                 ? text(step.event)
                 : fmt::format("{} again {} clock {}", kWhats[static_cast<std::size_t>(step.what)],
                               step.again, step.clock - kStart);
    lines += '\n';
  }
  return lines;
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(n)); }
  bool chance(int percent) { return below(100) < percent; }
  template <class T>
  T one_of(std::initializer_list<T> values) {
    return values.begin()[below(static_cast<int>(values.size()))];
  }

 private:
  std::mt19937_64 engine_;
};

FeaturesConfig random_config(Random& random) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.partitions = kPartitions;
  config.index.enabled = false;
  config.example.history_max = 6;
  config.user.sequence_max = 20;
  JoinConfig& join = config.join;
  join.window_ms = 1'000;
  if (random.chance(50)) join.action_windows = {{"like", random.one_of({2'000, 3'000, 500})}};
  join.lateness_max_ms = random.one_of({0, 0, 200, 700});
  join.dedup_horizon_ms =
      join.longest_window_ms() + join.lateness_max_ms + random.one_of({0, 1'000, 20'000});
  join.event_jump_max_ms = 1'000 * base::kMsPerDay;
  join.requests_held_max = random.one_of<std::size_t>({1, 3, 100});
  const int mode = random.below(3);
  join.per_task_close = mode == 1;
  join.fake_negatives = mode == 2;
  config.corrections.enabled = random.chance(80);
  config.corrections.retention_ms =
      std::min<base::UnixMs>(random.one_of({0, 700, 5'000}), join.dedup_horizon_ms);
  config.corrections.retained_max = random.one_of<std::size_t>({1, 3, 100});
  return config;
}

/// Draws events whose ids and items refer to earlier ones often enough to meet.
class Author {
 public:
  explicit Author(Random& random) : random_(random) {}

  Event next() {
    if (!written_.empty() && random_.chance(8)) {
      return written_[static_cast<std::size_t>(random_.below(static_cast<int>(written_.size())))];
    }
    now_ += random_.one_of({0, 1, 20, 150, 400, random_.chance(10) ? 3'000 : 50});
    Event event;
    event.user = random_.below(kUsers);
    event.time = now_ - (random_.chance(25) ? random_.below(random_.chance(20) ? 6'000 : 900) : 0);
    const int kind = random_.below(100);
    if (kind < 40) {
      impression(event);
    } else if (kind < 80) {
      action(event);
    } else if (kind < 94) {
      request(event);
    } else if (kind < 97) {
      event.kind = Kind::kErase;
    } else {
      event.kind = Kind::kTakedown;
      event.items = {random_.below(kItems)};
    }
    written_.push_back(event);
    return event;
  }
  [[nodiscard]] base::UnixMs now() const { return now_; }

 private:
  std::vector<int> slate() {
    std::vector<int> items;
    for (int item = 0; item < kItems; ++item) {
      if (random_.chance(45)) items.push_back(item);
    }
    if (items.empty()) items.push_back(random_.below(kItems));
    return items;
  }
  void impression(Event& event) {
    event.kind = Kind::kImpression;
    event.id = "i" + std::to_string(random_.below(40));
    event.items = slate();
    if (random_.chance(50)) event.names = "r" + std::to_string(random_.below(6));
  }
  void action(Event& event) {
    event.kind = Kind::kAction;
    event.items = {random_.below(kItems)};
    event.type = random_.below(4);
    if (random_.chance(60)) event.id = "e" + std::to_string(random_.below(200));
    // Most answer something that was written, some before it was.
    for (int tries = 0; tries < 4 && !written_.empty(); ++tries) {
      const Event& earlier = written_[written_.size() - 1 -
                                      static_cast<std::size_t>(random_.below(
                                          std::min(12, static_cast<int>(written_.size()))))];
      if (earlier.kind != Kind::kImpression) continue;
      event.user = earlier.user;
      event.items = {earlier.items[static_cast<std::size_t>(
          random_.below(static_cast<int>(earlier.items.size())))]};
      if (random_.chance(60)) event.names = earlier.id;
      if (random_.chance(50)) event.time = earlier.time + random_.one_of({0, 1, 999, 1'000, 1'001});
      return;
    }
  }
  void request(Event& event) {
    event.kind = Kind::kRequest;
    event.id = "r" + std::to_string(random_.below(6));
    event.items = slate();
  }

  Random& random_;
  std::vector<Event> written_;
  base::UnixMs now_ = kStart;
};

Stream random_stream(std::uint64_t seed) {
  Random random(seed);
  Stream stream{random_config(random), {}};
  Author author(random);
  const int steps = 20 + random.below(100);
  for (int i = 0; i < steps; ++i) {
    Step step;
    const int kind = random.below(100);
    if (kind < 84) {
      step.event = author.next();
    } else if (kind < 94) {
      step.what = Step::What::kCommit;
    } else if (kind < 96) {
      step.what = Step::What::kRestart;
    } else if (kind < 98) {
      step.what = Step::What::kRebalance;
    } else {
      step.what = Step::What::kIdle;
      step.clock = author.now() + random.below(2'000);
    }
    step.again = random.below(4);
    stream.steps.push_back(step);
  }
  if (random.chance(70)) stream.steps.push_back({Step::What::kClose, {}, 0, 0});
  return stream;
}

/// What serving would have written of these items: features that tell when.
std::string served_inputs(const FeaturesConfig& config, const Event& event) {
  static const std::size_t width = context_feature_names(config.context).size();
  static const std::uint64_t context = schema_hash(context_feature_names(config.context));
  Example example;
  example.set_version(2);
  example.set_time_ms(event.time);
  example.set_context_schema(context);
  example.set_action_schema(schema_hash(config.example.actions));
  for (const int item : event.items) {
    Candidate& candidate = *example.add_candidates();
    candidate.set_item(base::xxh3_64(item_name(item)));
    for (std::size_t f = 0; f < width; ++f) {
      candidate.add_context(static_cast<float>(event.time - kStart));
    }
  }
  return example.SerializeAsString();
}

ingest::EventBody body_of(const FeaturesConfig& config, const Event& event) {
  const std::string user = user_name(event.user);
  switch (event.kind) {
    case Kind::kImpression: {
      std::vector<std::string> items;
      for (const int item : event.items) items.push_back(item_name(item));
      auto impression = impression_event(event.id, user, event.time, items);
      impression.request_id = event.names;
      return impression;
    }
    case Kind::kAction: {
      auto action =
          action_event(user, item_name(event.items[0]), event.time,
                       reference::kTypes[static_cast<std::size_t>(event.type)], event.names);
      if (!event.id.empty()) action.event_id = event.id;
      return action;
    }
    case Kind::kRequest: {
      ingest::ServedRequest request;
      request.request_id = event.id;
      request.user_id = user;
      request.time_ms = event.time;
      request.inputs = served_inputs(config, event);
      return request;
    }
    case Kind::kErase:
      return erase_event(user, event.time);
    case Kind::kTakedown:
      break;
  }
  return takedown_event(item_name(event.items[0]), event.time);
}

/// As the reference writes it.
std::string line_of(const Example& example) {
  const std::string identity = fmt::format("impression {} revision {} part {} time {} closed {}",
                                           example.impression_offset(), example.revision(),
                                           example.part(), example.time_ms(), example.closed_ms());
  if (example.erased()) return identity + " erased";
  std::string inputs = "history";
  if (example.recomputed()) {
    base::UnixMs time = 0;
    for (int i = 0; i < example.history().item_size(); ++i) {
      time += example.history().time_delta_ms(i);
      int item = 0;
      while (base::xxh3_64(item_name(item)) != example.history().item(i)) ++item;
      inputs += fmt::format(" {}@{}+{}", item, time, example.history().action_bits(i));
    }
  } else {
    inputs = fmt::format("served {}", example.served_ms());
    for (const Candidate& candidate : example.candidates()) {
      for (const float c : candidate.context()) {
        if (c != static_cast<float>(example.served_ms() - kStart)) return "not what was served";
      }
    }
  }
  std::string line = fmt::format("{} fake {} {}", identity, example.fake_negative(), inputs);
  for (const Candidate& candidate : example.candidates()) {
    line += fmt::format(" {}:{}/{}", candidate.item_id().substr(4), candidate.label_bits(),
                        candidate.mask_bits());
  }
  return line;
}

/// In memory where there is such a folder: a stream opens its state several times.
FeaturesConfig in_folder(FeaturesConfig config, const std::string& dir) {
  config.store.dir = dir;
  return config;
}
std::string memory_folder() {
  const char* shared = "/dev/shm";
  return std::filesystem::is_directory(shared) ? shared
                                               : std::filesystem::temp_directory_path().string();
}

/// A state that reads the stream as a consumer does: in batches, from the stored positions.
class Consumer {
 public:
  explicit Consumer(const FeaturesConfig& config)
      : folder_(memory_folder()), config_(in_folder(config, folder_.path())), state_(config_) {
    state_.wiring.observer = nullptr;
    state_.wiring.clock = &clock_;
    state_.reopen();
  }

  struct Placed {
    int partition = 0;
    ingest::Offset offset = 0;
  };
  Placed read(const Event& event) {
    const bool item = event.kind == Kind::kTakedown;
    const int partition = item ? 0 : event.user % kPartitions;
    log_.push_back(state_.records.of(body_of(config_, event), partition));
    batch_.push_back(log_.back());
    return {partition, log_.back().offset};
  }
  void commit() { state_.apply(std::exchange(batch_, {})); }
  /// What is in memory is lost; the log is read again from the positions, or from before them.
  void restart(int again) {
    state_.reopen();
    read_again(again);
  }
  void rebalance(int again) {
    const auto half = static_cast<std::ptrdiff_t>(batch_.size() / 2);
    state_.apply({batch_.begin(), batch_.begin() + half});
    read_again(again);
  }
  void idle(base::UnixMs now) {
    commit();
    clock_.advance_to(now);
    for (int p = 0; p < kPartitions; ++p) EXPECT_TRUE(state_.state->idle(p));
  }
  void close() {
    commit();
    for (int p = 0; p < kPartitions; ++p) EXPECT_TRUE(state_.state->close_windows(p));
  }
  [[nodiscard]] base::UnixMs now() const { return clock_.now_ms(); }

  [[nodiscard]] std::vector<std::string> examples(int partition) const {
    std::vector<std::string> lines;
    const auto entries = state_.state->outbox().read({ingest::Topic::kExamples, partition}, 1,
                                                     100'000, std::size_t{1} << 30U);
    EXPECT_TRUE(entries);
    for (const OutboxEntry& entry : *entries) {
      Example example;
      const bool good = example.ParseFromString(entry.value) &&
                        example.sequence() == lines.size() + 1 &&
                        entry.sequence == example.sequence();
      lines.push_back(good ? line_of(example) : "no example, or out of sequence");
    }
    return lines;
  }
  [[nodiscard]] std::string sequence(int user) const {
    std::string line;
    const auto sequence = state_.reader().read_sequence(user_name(user));
    EXPECT_TRUE(sequence);
    for (const SequenceView& entry : *sequence) {
      int item = 0;
      while (base::xxh3_64(item_name(item)) != entry.item) ++item;
      line += fmt::format(" {}@{}{}", item, entry.time_ms, entry.exposed ? "" : "!");
      for (const SequenceAction& action : entry.actions) {
        const auto type =
            std::find(reference::kTypes.begin(), reference::kTypes.end(), action.type);
        line += fmt::format("+{}@{}", type - reference::kTypes.begin(), action.time_ms);
      }
    }
    return line;
  }
  [[nodiscard]] std::string counts() const {
    const auto c = state_.state->conservation();
    EXPECT_TRUE(c);
    const auto i = state_.state->impressions();
    return fmt::format(
        "in {} applied {} rejected {} duplicate {}; accepted {} left {} pending {} "
        "erased {}",
        c->in, c->applied, c->rejected, c->duplicate, i.accepted, i.left, i.pending, i.erased);
  }

 private:
  void read_again(int again) {
    batch_.clear();
    for (const ingest::InputRecord& record : log_) {
      const auto position = state_.state->position(record.source);
      EXPECT_TRUE(position);
      const ingest::Offset next = *position ? (*position)->offset + 1 : 0;
      if (record.offset >= next - again) batch_.push_back(record);
    }
  }

  const TempDir folder_;
  const FeaturesConfig config_;
  base::EventClock clock_{kStart};
  StateUnderTest state_;
  std::vector<ingest::InputRecord> log_;
  std::vector<ingest::InputRecord> batch_;
};

std::string counts_of(const reference::Join& join) {
  const auto& c = join.counts;
  return fmt::format(
      "in {} applied {} rejected {} duplicate {}; accepted {} left {} pending {} "
      "erased {}",
      c.in, c.applied, c.rejected, c.duplicate, c.accepted, c.left, join.pending(), c.erased);
}

/// Empty, or the first thing that differs.
std::string difference(const Stream& stream, Fault fault) {
  Consumer consumer(stream.config);
  reference::Join join(stream.config, fault);
  for (const Step& step : stream.steps) {
    switch (step.what) {
      case Step::What::kEvent: {
        const Consumer::Placed placed = consumer.read(step.event);
        join.apply(placed.partition, placed.offset, step.event);
        break;
      }
      case Step::What::kCommit:
        consumer.commit();
        break;
      case Step::What::kRestart:
        consumer.restart(step.again);
        break;
      case Step::What::kRebalance:
        consumer.rebalance(step.again);
        break;
      case Step::What::kIdle:
        consumer.idle(step.clock);
        for (int p = 0; p < kPartitions; ++p) {
          join.close_until(p, consumer.now() - stream.config.join.lateness_max_ms);
        }
        break;
      case Step::What::kClose:
        consumer.close();
        for (int p = 0; p < kPartitions; ++p) join.close_until(p, INT64_MAX);
        break;
    }
  }
  consumer.commit();
  for (int p = 0; p < kPartitions; ++p) {
    const std::vector<std::string> got = consumer.examples(p);
    std::vector<std::string> expected;
    for (const auto& line : join.examples[p]) expected.push_back(line.identity + line.rest);
    for (std::size_t i = 0; i < std::max(got.size(), expected.size()); ++i) {
      const std::string a = i < got.size() ? got[i] : "none";
      const std::string b = i < expected.size() ? expected[i] : "none";
      if (a != b) return fmt::format("example {} of partition {}: {}, expected {}", i + 1, p, a, b);
    }
  }
  for (int user = 0; user < kUsers; ++user) {
    const std::string a = consumer.sequence(user);
    if (a != join.sequence(user)) {
      return fmt::format("sequence of user {}:{}, expected{}", user, a, join.sequence(user));
    }
  }
  const std::string a = consumer.counts();
  return a == counts_of(join) ? "" : fmt::format("{}, expected {}", a, counts_of(join));
}

/// Delta debugging: leaves out ever smaller pieces while something still differs.
Stream shrink(Stream stream, Fault fault) {
  for (std::size_t piece = stream.steps.size() / 2; piece > 0;) {
    bool smaller = false;
    for (std::size_t from = 0; from + piece <= stream.steps.size();) {
      Stream shorter = stream;
      const auto begin = shorter.steps.begin() + static_cast<std::ptrdiff_t>(from);
      shorter.steps.erase(begin, begin + static_cast<std::ptrdiff_t>(piece));
      if (difference(shorter, fault).empty()) {
        from += piece;
      } else {
        stream = std::move(shorter);
        smaller = true;
      }
    }
    if (!smaller || piece > stream.steps.size()) piece /= 2;
  }
  return stream;
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

// In shares, which run beside each other.
constexpr std::uint64_t kShares = 4;
class JoinModel : public testing::TestWithParam<std::uint64_t> {};
INSTANTIATE_TEST_SUITE_P(Shares, JoinModel, testing::Range(std::uint64_t{0}, kShares));

TEST_P(JoinModel, AnyStreamGivesWhatTheReferenceGives) {
  const std::uint64_t first = from_environment("SIRENFEED_MODEL_SEED", 1);
  const std::uint64_t seeds = from_environment("SIRENFEED_MODEL_SEEDS", 300);
  for (std::uint64_t seed = first + GetParam(); seed < first + seeds; seed += kShares) {
    const Stream stream = random_stream(seed);
    const std::string found = difference(stream, Fault::kNone);
    if (found.empty()) continue;
    const Stream smallest = shrink(stream, Fault::kNone);
    FAIL() << "seed " << seed << ": " << found << "\nThe smallest stream of it:\n"
           << text(smallest) << difference(smallest, Fault::kNone);
  }
}

// The canary: whatever rule is told wrongly is found, and shrunk to what it takes.
class JoinCanary : public testing::TestWithParam<std::pair<Fault, std::size_t>> {};

TEST_P(JoinCanary, AWrongRuleIsFoundAndItsStreamShrunk) {
  const auto [fault, steps_max] = GetParam();
  for (std::uint64_t seed = 1; seed <= 300; ++seed) {
    const Stream stream = random_stream(seed);
    if (difference(stream, fault).empty()) continue;
    const Stream smallest = shrink(stream, fault);
    EXPECT_LE(smallest.steps.size(), steps_max) << text(smallest);
    EXPECT_FALSE(difference(smallest, fault).empty());
    return;
  }
  FAIL() << "300 seeds did not find it";
}

INSTANTIATE_TEST_SUITE_P(Faults, JoinCanary,
                         testing::Values(std::pair(Fault::kWindow, 4),
                                         std::pair(Fault::kRevision, 6),
                                         std::pair(Fault::kLateness, 4),
                                         std::pair(Fault::kErasure, 4)));

}  // namespace
}  // namespace sirenfeed::features
