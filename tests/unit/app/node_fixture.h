#pragma once
// The data folder of a node that does not run: an embedded log with events in it, and the state
// that ingest, as in a running node, has made of them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "app/settings.h"
#include "app/stopped_node.h"
#include "features/align_examples.h"
#include "features/outbox_relay.h"
#include "ingest/embedded_log.h"
#include "ingest/event_json.h"
#include "ingest/ingest_loop.h"

namespace sirenfeed::app {

inline constexpr base::UnixMs kStart = 1'650'000'000'000;
inline constexpr base::UnixMs kWindow = 600'000;

class NodeFixture : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "sirenfeed-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
    settings_ = settings_for(dir_ + "/data");
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }

  static Settings settings_for(const std::string& data) {
    Settings settings;
    settings.data_dir = data;
    settings.clock = "event";
    settings.partitions = 2;
    settings.features.join.lateness_max_ms = 0;
    settings.features.store.memtable_bytes = 2U << 20U;
    settings.features.store.block_cache_bytes = 2U << 20U;
    settings.embedded.segment_bytes = 20'000;  // several segments
    const auto resolved = settings.resolve();
    EXPECT_TRUE(resolved) << resolved.error().message;
    settings.features.partitions = 2;
    return settings;
  }

  static ingest::EventBody impression(const std::string& id, const std::string& user,
                                      base::UnixMs time, const std::string& item) {
    ingest::Impression event;
    event.impression_id = id;
    event.user_id = user;
    event.time_ms = time;
    event.items.push_back({item, {}, {}, {}});
    event.surface = "home";
    return event;
  }
  static ingest::EventBody click(const std::string& user, base::UnixMs time,
                                 const std::string& item, const std::string& impression) {
    ingest::Action event;
    event.user_id = user;
    event.item_id = item;
    event.time_ms = time;
    event.type = "click";
    event.impression_id = impression;
    return event;
  }
  static ingest::EventBody erasure(const std::string& user, base::UnixMs time) {
    ingest::UserUpdate event;
    event.user_id = user;
    event.time_ms = time;
    event.erase = true;
    return event;
  }
  /// Visits of five users, a minute apart, clicks on every second one.
  static std::vector<ingest::EventBody> visits(int from, int to) {
    std::vector<ingest::EventBody> events;
    for (int i = from; i < to; ++i) {
      const std::string n = std::to_string(i);
      const std::string user = "user-" + std::to_string(i % 5);
      const base::UnixMs time = kStart + i * 60'000;
      ingest::ItemUpdate item;
      item.item_id = "item-" + n;
      item.time_ms = item.published_at_ms.emplace(time);
      item.tags = {"tag-" + std::to_string(i % 3)};
      events.emplace_back(item);
      events.push_back(impression("i" + n, user, time + 1, "item-" + n));
      if (i % 2 == 0) events.push_back(click(user, time + 1'000, "item-" + n, "i" + n));
    }
    return events;
  }

  static std::unique_ptr<ingest::EventLog> open_log(const Settings& settings) {
    auto log = ingest::EmbeddedLog::open(settings.embedded);
    EXPECT_TRUE(log) << log.error().message;
    return log ? *std::move(log) : nullptr;
  }
  static void append(const Settings& settings, const std::vector<ingest::EventBody>& events) {
    const auto log = open_log(settings);
    const auto writer = log->open_writer("test");
    for (const ingest::EventBody& event : events) {
      const ingest::Topic topic = ingest::event_topic(event);
      const std::string key = ingest::event_key(event);
      const ingest::TopicPartition target{topic,
                                          ingest::partition_of(key, *log->partitions(topic))};
      ASSERT_TRUE((*writer)->append(target, key, ingest::event_json(event), 1, {}));
    }
    ASSERT_TRUE((*writer)->flush(std::chrono::seconds(10)));
  }
  /// The log and the state, open as in a running node; nothing runs yet.
  struct OpenNode {
    explicit OpenNode(const Settings& settings) : log(open_log(settings)) {
      auto opened = features::FeatureState::open(settings.features, probe,
                                                 {.event_clock = &clock, .clock = &clock});
      EXPECT_TRUE(opened) << opened.error().message;
      if (opened) state = *std::move(opened);
    }
    [[nodiscard]] ingest::IngestLoop::Parts loop_parts() {
      return {*log, *state, clock, steady, ingest_probe};
    }
    base::MetricsRegistry registry;
    features::FeaturesProbe probe{registry};
    ingest::IngestProbe ingest_probe{registry};
    base::EventClock clock;
    base::SteadyClock steady;
    std::unique_ptr<ingest::EventLog> log;
    std::unique_ptr<features::FeatureState> state;
  };
  /// Applies what the log holds, as a start of the node does; sends the outbox where asked to.
  static void catch_up(const Settings& settings, bool send = true) {
    OpenNode node(settings);
    ASSERT_TRUE(node.log && node.state);
    ASSERT_TRUE(features::align_examples(*node.state, *node.log));
    ingest::IngestLoop loop(settings.ingest, node.loop_parts());
    const auto done = loop.run_until_end(ingest::IngestLoop::AtEnd::kLeaveWindowsOpen);
    ASSERT_TRUE(done) << done.error().message;
    if (!send) return;
    features::OutboxRelay relay({}, node.state->outbox(), *node.log, node.probe);
    relay.start();
    ASSERT_TRUE(relay.drain(std::chrono::seconds(10)));
    relay.stop();
  }
  static std::string canonical(const Settings& settings) {
    const auto node = StoppedNode::open(settings, StoppedNode::Log::kNone);
    EXPECT_TRUE(node) << node.error().message;
    if (!node) return "";
    std::ostringstream out;
    EXPECT_TRUE((*node)->state().dump_canonical(out));
    return out.str();
  }
  /// Without how far examples were written, which a state made anew writes in an epoch of its own.
  static std::string without_epochs(const std::string& text) {
    std::istringstream in(text);
    std::string out;
    for (std::string line; std::getline(in, line);) {
      if (line.starts_with("partition ")) line = line.substr(0, line.find(" epoch="));
      out += line + "\n";
    }
    return out;
  }

  std::string dir_;
  Settings settings_;
};

}  // namespace sirenfeed::app
