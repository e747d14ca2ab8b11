#include "app/evaluation_report.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace sirenfeed::app {
namespace {

trainer::PredictionRow row(base::UnixMs time_ms, const std::string& user, double probability,
                           std::uint8_t label) {
  trainer::PredictionRow made;
  made.time_ms = time_ms;
  made.user_id = user;
  made.item_id = "an \"odd\", id";
  made.identity.impression_offset = time_ms;
  made.cells = {{probability, label, false}};
  return made;
}

Evaluation two_rows() {
  Evaluation evaluation;
  evaluation.models.push_back({"siren", 1, {}, {}});
  evaluation.models[0].result.rows = {row(1000, "u", 0.25, 0), row(2000, "v", 0.75, 1)};
  return evaluation;
}

TEST(ParseWindow, TakesIsoTimesAndUnixMilliseconds) {
  const auto iso = parse_window("2022-04-30T16:00Z..2022-05-04T16:00Z");
  ASSERT_TRUE(iso);
  EXPECT_EQ(iso->from_ms, 1'651'334'400'000);
  EXPECT_EQ(iso->to_ms - iso->from_ms, 4 * base::kMsPerDay);
  const auto unix_ms = parse_window("5..7");
  ASSERT_TRUE(unix_ms);
  EXPECT_EQ(unix_ms->from_ms, 5);
}

TEST(ParseWindow, RefusesWhatIsNoWindow) {
  EXPECT_FALSE(parse_window("2022-04-30"));
  EXPECT_FALSE(parse_window("7..5"));
  EXPECT_FALSE(parse_window("a..b"));
}

TEST(ReportWindows, AWindowHoldsItsStartAndNotItsEnd) {
  const auto reports = report_windows(two_rows(), {"click"}, {{1000, 2000}, {1000, 2001}});
  ASSERT_EQ(reports.size(), 2U);
  EXPECT_EQ(reports[0].rows, 1U);
  EXPECT_EQ(reports[1].rows, 2U);
  EXPECT_DOUBLE_EQ(reports[1].auc, 1);
  EXPECT_DOUBLE_EQ(reports[1].rate, 0.5);
  EXPECT_NEAR(reports[1].log_loss, -std::log(0.75), 1e-12);
}

TEST(ReportJson, AnUndefinedFigureIsNull) {
  const Evaluation evaluation = two_rows();
  const auto reports = report_windows(evaluation, {"click"}, {{1000, 2000}});
  const auto parsed = boost::json::parse(report_json({}, evaluation, reports));
  EXPECT_TRUE(parsed.at("windows").at(0).at("auc").is_null());
  EXPECT_EQ(parsed.at("windows").at(0).at("rows").to_number<int>(), 1);
}

TEST(WritePredictions, QuotesIdsAsCsvDoes) {
  const auto path = std::filesystem::temp_directory_path() / "sirenfeed-predictions-test.csv";
  ASSERT_TRUE(write_predictions(path, two_rows().models[0].result, {"click"}));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  EXPECT_EQ(text.str(),
            "time_ms,user_id,item_id,task,label,probability\n"
            "1000,u,\"an \"\"odd\"\", id\",click,0,0.25\n"
            "2000,v,\"an \"\"odd\"\", id\",click,1,0.75\n");
}

}  // namespace
}  // namespace sirenfeed::app
