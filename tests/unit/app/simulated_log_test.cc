#include "app/simulated_log.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace sirenfeed::app {
namespace {

namespace json = boost::json;

class SimulatedLog : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() /
              ("sirenfeed-simulated-log-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  SimulatedLogReport write(const WorldConfig& world, SimulatedLogConfig config,
                           const std::string& name = "log.ndjson") {
    config.file = folder_ / name;
    config.truth_file = folder_ / (name + ".truth.csv");
    const auto report = write_simulated_log(world, config, {});
    EXPECT_TRUE(report) << report.error().message;
    return *report;
  }
  [[nodiscard]] std::string text(const std::string& name) const {
    std::stringstream all;
    all << std::ifstream(folder_ / name, std::ios::binary).rdbuf();
    return all.str();
  }
  [[nodiscard]] std::vector<json::object> events(const std::string& name = "log.ndjson") const {
    std::vector<json::object> all;
    std::istringstream lines(text(name));
    for (std::string line; std::getline(lines, line);) all.push_back(json::parse(line).as_object());
    return all;
  }

  std::filesystem::path folder_;
};

TEST_F(SimulatedLog, HoldsEveryRecordOnceInTimeOrder) {
  const auto report = write({.users = 30}, {.days = 1, .items_per_visit = 3});
  base::UnixMs last = 0;
  std::map<std::string, std::uint64_t> count;
  std::set<std::string> items, impressions;
  for (const json::object& event : events()) {
    const std::string topic(event.at("topic").as_string());
    ++count[topic];
    const base::UnixMs time = event.at("timestamp").as_int64();
    EXPECT_GE(time, last);
    last = time;
    if (topic == "items") items.emplace(event.at("item_id").as_string());
    if (topic == "impressions") {
      EXPECT_TRUE(impressions.emplace(event.at("impression_id").as_string()).second);
      EXPECT_EQ(event.at("items").as_array().size(), 3U);
      for (const auto& item : event.at("items").as_array()) {
        EXPECT_TRUE(items.contains(std::string(item.as_string())));  // known before it is shown
      }
    }
    if (topic == "clicks") {
      EXPECT_TRUE(impressions.contains(std::string(event.at("impression_id").as_string())));
    }
  }
  EXPECT_EQ(count["items"], report.items);
  EXPECT_EQ(count["impressions"], report.impressions);
  EXPECT_EQ(report.shown, 3 * report.impressions);
  EXPECT_GE(count["clicks"], report.clicks);  // and the long views
  EXPECT_GT(report.clicks, 0U);
}

TEST_F(SimulatedLog, FollowsFromTheSeed) {
  write({.users = 10}, {.days = 1}, "a.ndjson");
  write({.users = 10}, {.days = 1}, "b.ndjson");
  write({.seed = 2, .users = 10}, {.days = 1}, "c.ndjson");
  EXPECT_EQ(text("a.ndjson"), text("b.ndjson"));
  EXPECT_EQ(text("a.ndjson.truth.csv"), text("b.ndjson.truth.csv"));
  EXPECT_NE(text("a.ndjson"), text("c.ndjson"));
}

TEST_F(SimulatedLog, ClicksAreDrawnWithTheTrueProbabilities) {
  const auto report = write({.users = 200}, {.days = 3});
  std::istringstream lines(text("log.ndjson.truth.csv"));
  std::string line;
  std::getline(lines, line);
  EXPECT_EQ(line, "impression_id,time_ms,user_id,item_id,probability");
  double expected = 0, variance = 0;
  std::uint64_t rows = 0;
  while (std::getline(lines, line)) {
    const double p = std::stod(line.substr(line.rfind(',') + 1));
    expected += p;
    variance += p * (1 - p);
    ++rows;
  }
  EXPECT_EQ(rows, report.shown);
  EXPECT_NEAR(static_cast<double>(report.clicks), expected, 4 * std::sqrt(variance));
}

TEST_F(SimulatedLog, TheDailyWorldIsAsHardAsThePublishedOne) {
  // data/simulated: 58,359 impressions, Bayes AUC .876 over the last four of twelve days.
  const auto report = write(daily_world({}), {.days = 12});
  EXPECT_NEAR(static_cast<double>(report.impressions), 58'359, 2'500);
  EXPECT_NEAR(report.bayes_auc_last, 0.876, 0.006);
}

TEST_F(SimulatedLog, AFileThatCannotBeWrittenIsNamed) {
  std::filesystem::create_symlink("/dev/full", folder_ / "full.gz");
  for (const std::string& file :
       {std::string("/no/such/folder/x.ndjson"), std::string("/no/such/folder/x.ndjson.gz"),
        std::string("/dev/full"), (folder_ / "full.gz").string()}) {
    const auto report = write_simulated_log({.users = 5}, {.file = file, .days = 0.1}, {});
    ASSERT_FALSE(report) << file;
    EXPECT_NE(report.error().message.find(file), std::string::npos) << report.error().message;
  }
}

}  // namespace
}  // namespace sirenfeed::app
