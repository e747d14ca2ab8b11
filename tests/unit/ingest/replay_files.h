#pragma once
// Recorded inputs as files, and what a replay reader makes of them.
#include <gtest/gtest.h>
#include <zlib.h>

#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "ingest/event_parser.h"
#include "ingest/replay_reader.h"
#include "tests/support/temp_dir.h"

namespace sirenfeed::ingest {

using Strings = std::vector<std::string>;

class ReplayFilesTest : public testing::Test {
 protected:
  std::string write(const std::string& name, const std::string& text) {
    const std::string path = (folder() / name).string();
    std::ofstream(path, std::ios::binary) << text;
    return path;
  }
  std::string write_gzip(const std::string& name, const std::string& text) {
    const std::string path = (folder() / name).string();
    gzFile file = gzopen(path.c_str(), "wb");
    EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
              static_cast<int>(text.size()));
    gzclose(file);
    return path;
  }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }

  /// Every record as "time topic key value"; the last line is the error, if there was one. Checks
  /// that they come in merge order, that the parser takes them, and that the whole file was read.
  static Strings read(const std::string& path, ReplayFormat format,
                      const ReplayOptions& options = {}) {
    Strings out;
    auto reader = open_replay(path, format, options);
    if (!reader) return {reader.error().message};
    ParserConfig config;
    config.check_future = false;
    const base::EventClock clock;
    EventParser parser(config, clock);
    std::pair<base::UnixMs, Topic> last{0, Topic::kItems};
    while (true) {
      auto record = (*reader)->next();
      if (!record) {
        out.push_back(record.error().message);
        const auto after = (*reader)->next();
        EXPECT_TRUE(after && !*after) << "a failed reader is done";
        return out;
      }
      if (!*record) {
        EXPECT_EQ((*reader)->bytes_read(), (*reader)->bytes_total());
        return out;
      }
      const ReplayRecord& got = **record;
      const std::pair key(got.time_ms, got.topic);
      EXPECT_LE(last, key);
      last = key;
      if (got.value) {
        const auto event = parser.parse_event(got.topic, *got.value, got.time_ms);
        EXPECT_TRUE(event) << *got.value << ": " << event.error().detail;
      }
      out.push_back(std::to_string(got.time_ms) + " " + std::string(topic_name(got.topic)) + " " +
                    got.key + " " + got.value.value_or("null"));
    }
  }

 private:
  test_support::TempDir folder_;
};

}  // namespace sirenfeed::ingest
