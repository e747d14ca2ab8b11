#pragma once
// A state in a folder of its own and records made by hand.
#include <example.pb.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "base/metrics.h"
#include "features/context_features.h"
#include "features/feature_state.h"
#include "ingest/event_json.h"

namespace sirenfeed::features {

inline constexpr base::UnixMs kStart = 1'650'000'000'000;

class TempDir {
 public:
  TempDir() : TempDir(std::filesystem::temp_directory_path()) {}
  explicit TempDir(const std::filesystem::path& parent) {
    std::string pattern = (parent / "sirenfeed-XXXXXX").string();
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() { std::filesystem::remove_all(path_); }
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Copies of everything it was told.
struct RecordingObserver final : ExampleObserver {
  void on_exposure(const Example& example) override {
    exposures.push_back(example);
    order.push_back("exposure " + example.impression_id());
  }
  void on_closed(const Example& example) override {
    closed.push_back(example);
    order.push_back("closed " + example.impression_id());
  }
  std::vector<Example> exposures;
  std::vector<Example> closed;
  std::vector<std::string> order;
};

/// Gives records the offsets that they would get in empty topics of one partition.
class Records {
 public:
  ingest::InputRecord of(ingest::EventBody body, ingest::Partition partition = 0) {
    ingest::InputRecord record;
    record.source = {ingest::event_topic(body), partition};
    record.offset = next_[record.source]++;
    record.time_ms = record.log_time_ms = ingest::event_time_ms(body);
    record.payload = ingest::event_json(body);
    record.hash = base::xxh3_64(record.payload);
    record.content = std::move(body);
    return record;
  }

 private:
  std::map<ingest::TopicPartition, ingest::Offset> next_;
};

inline ingest::ItemUpdate item_event(std::string id, base::UnixMs time,
                                     std::vector<std::string> tags = {},
                                     std::optional<std::string> author = std::nullopt) {
  ingest::ItemUpdate event;
  event.item_id = std::move(id);
  event.time_ms = time;
  event.published_at_ms = time;
  event.tags = std::move(tags);
  event.author_id = std::move(author);
  return event;
}
inline ingest::ItemUpdate takedown_event(std::string id, base::UnixMs time) {
  ingest::ItemUpdate event;
  event.item_id = std::move(id);
  event.time_ms = time;
  event.deleted = true;
  return event;
}
inline ingest::UserUpdate erase_event(std::string id, base::UnixMs time) {
  ingest::UserUpdate event;
  event.user_id = std::move(id);
  event.time_ms = time;
  event.erase = true;
  return event;
}
inline ingest::Impression impression_event(std::string id, std::string user, base::UnixMs time,
                                           const std::vector<std::string>& items,
                                           std::optional<std::string> surface = std::nullopt) {
  ingest::Impression event;
  event.impression_id = std::move(id);
  event.user_id = std::move(user);
  event.time_ms = time;
  for (const std::string& item : items) event.items.push_back({item, {}, {}, {}});
  event.surface = std::move(surface);
  return event;
}
inline ingest::Action action_event(std::string user, std::string item, base::UnixMs time,
                                   std::string type = "click",
                                   std::optional<std::string> impression = std::nullopt) {
  ingest::Action event;
  event.user_id = std::move(user);
  event.item_id = std::move(item);
  event.time_ms = time;
  event.type = std::move(type);
  event.impression_id = std::move(impression);
  return event;
}

/// A FeatureState that can be closed and opened again.
class StateUnderTest {
 public:
  explicit StateUnderTest(FeaturesConfig config = default_config()) : config_(std::move(config)) {
    if (config_.store.dir.empty()) config_.store.dir = folder_.path();
    wiring.observer = &seen;
    open();
  }
  ~StateUnderTest() { state.reset(); }  // before its folder goes
  static FeaturesConfig default_config() {
    FeaturesConfig config;
    config.join.lateness_max_ms = 0;
    config.store.memtable_bytes = 2U << 20U;
    config.store.block_cache_bytes = 2U << 20U;
    return config;
  }

  void open() {
    registry = std::make_unique<base::MetricsRegistry>();
    probe = std::make_unique<FeaturesProbe>(*registry);
    auto opened = FeatureState::open(config_, *probe, wiring);
    ASSERT_TRUE(opened) << opened.error().message;
    state = *std::move(opened);
  }
  void reopen() {
    state.reset();
    open();
  }
  void apply(const std::vector<ingest::InputRecord>& records) {
    const auto done = state->apply(records);
    ASSERT_TRUE(done) << done.error().message;
  }
  void apply(ingest::EventBody body, ingest::Partition partition = 0) {
    apply(std::vector{records.of(std::move(body), partition)});
  }
  [[nodiscard]] std::string canonical() const {
    std::ostringstream out;
    const auto done = state->dump_canonical(out);
    EXPECT_TRUE(done) << done.error().message;
    return out.str();
  }
  /// Feature `name` of candidate `c`.
  [[nodiscard]] double feature(const Example& example, std::string_view name, int c = 0) const {
    const auto names = context_feature_names(config_.context);
    for (std::size_t f = 0; f < names.size(); ++f) {
      if (names[f] == name) return example.candidates(c).context(static_cast<int>(f));
    }
    ADD_FAILURE() << "no feature " << name;
    return 0;
  }
  /// Of /metrics; the sum where several labels have it.
  [[nodiscard]] double metric(const std::string& name) const {
    double sum = 0;
    for (const auto& sample : registry->samples()) sum += sample.name == name ? sample.value : 0;
    return sum;
  }
  [[nodiscard]] const FeatureReader& reader() const { return state->reader(); }

  StateWiring wiring;
  RecordingObserver seen;
  Records records;
  std::unique_ptr<base::MetricsRegistry> registry;
  std::unique_ptr<FeaturesProbe> probe;
  std::unique_ptr<FeatureState> state;

 private:
  TempDir folder_;
  FeaturesConfig config_;
};

}  // namespace sirenfeed::features
