#pragma once
// What tests/data/state_formats holds: a store with something of every family, as a dump.
#include <fmt/format.h>

#include <string>
#include <vector>

#include "features/store.h"
#include "features/store_format.h"
#include "state_fixture.h"

namespace sirenfeed::features {

inline constexpr base::UnixMs kWindow = 600'000;

inline std::string fixture_path(int format) {
  return fmt::format("{}/tests/data/state_formats/{}.dump", SIRENFEED_SOURCE_DIR, format);
}

inline std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text.empty() ? "-" : text;
}
inline std::string dump(const Store& store) {
  std::string text;
  for (const Family family : {Family::kState, Family::kExpiring, Family::kOutbox}) {
    EXPECT_TRUE(store.scan(family, "", [&](std::string_view key, std::string_view value) {
      text += fmt::format("{} {} {}\n", static_cast<int>(family), hex(key), hex(value));
      return true;
    }));
  }
  return text;
}

inline FeaturesConfig config_in(const std::string& dir, int format = kStoreFormat) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.store.dir = dir;
  config.partitions = 2;
  config.corrections.enabled = format >= 2;  // retained impressions came later
  return config;
}

// Something of every family: a heavy user (sections of its own), profiles, an erasure, a takedown,
// an open window with labels, a held record, outbox entries and a dead letter.
inline std::vector<ingest::InputRecord> stream_of_everything(Records& records) {
  std::vector<ingest::InputRecord> all;
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(i);
    all.push_back(records.of(item_event("item-" + n, kStart, {"t" + n, "x"}, "author-" + n)));
  }
  ingest::UserUpdate profile;
  profile.user_id = "u1";
  profile.time_ms = kStart;
  profile.segment = "de-mobile";
  profile.blocked_tags = {"t3"};
  all.push_back(records.of(profile));
  for (int i = 0; i < 40; ++i) {
    const std::string n = std::to_string(i);
    const base::UnixMs time = kStart + i * 30'000;
    all.push_back(records.of(impression_event("i" + n, "u1", time, {"item-" + n}, "home")));
    all.push_back(records.of(action_event("u1", "item-" + n, time + 5, "click", "i" + n)));
  }
  all.push_back(records.of(impression_event("e1", "u-erased", kStart + kWindow, {"item-1"}),
                           ingest::partition_of("u-erased", 2)));
  all.push_back(records.of(erase_event("u-erased", kStart + 2 * kWindow),
                           ingest::partition_of("u-erased", 2)));
  all.push_back(records.of(takedown_event("item-2", kStart + 2 * kWindow)));
  all.push_back(records.of(impression_event("open", "u2", kStart + 3 * kWindow, {"item-3"})));
  all.push_back(records.of(action_event("u2", "item-3", kStart + 3 * kWindow + 9, "like", "open")));
  all.push_back(records.of(action_event("u2", "item-4", kStart + 90 * base::kMsPerDay)));  // held
  auto broken = records.of(action_event("u", "a", kStart));
  broken.content = ingest::Rejection{ingest::RejectReason::kNotJson, "expected an object"};
  all.push_back(broken);
  return all;
}

}  // namespace sirenfeed::features
