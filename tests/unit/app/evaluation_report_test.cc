#include "app/evaluation_report.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>

#include "app/evaluation_output.h"

namespace sirenfeed::app {
namespace {

using trainer::Metric;

constexpr auto kAuc = static_cast<std::size_t>(Metric::kAuc);
constexpr auto kLogLoss = static_cast<std::size_t>(Metric::kLogLoss);

trainer::ExposureRow row(base::UnixMs time_ms, const std::string& user, bool label) {
  trainer::ExposureRow made;
  made.time_ms = time_ms;
  made.user_id = user;
  made.item_id = "an \"odd\", id";
  made.identity.impression_offset = time_ms;
  made.known_bits = 1;
  made.label_bits = label ? 1 : 0;
  return made;
}

float logit(double p) { return static_cast<float>(std::log(p / (1 - p))); }

Evaluation two_rows() {
  Evaluation evaluation;
  evaluation.rows = {row(1000, "u", false), row(2000, "v", true)};
  evaluation.models.push_back({"siren", 1, {}, {}});
  evaluation.models[0].result.logits = {logit(0.25), logit(0.75)};
  return evaluation;
}

// `variants` with two seeds each; each is better than the one before.
Evaluation several(const std::vector<std::string>& variants) {
  std::mt19937_64 random(3);
  Evaluation evaluation;
  for (int i = 0; i < 600; ++i) {
    evaluation.rows.push_back(
        row(1000 + i * base::kMsPerHour / 10, "u" + std::to_string(i % 50), random() % 2 == 0));
    evaluation.rows.back().item_id = "i" + std::to_string(random() % 60);
  }
  double skill = 0;
  for (const std::string& variant : variants) {
    for (const std::uint64_t seed : {1U, 2U}) {
      evaluation.models.push_back({variant, seed, {}, {}});
      for (const auto& one : evaluation.rows) {
        const double noise = static_cast<double>(random() % 1000) / 500 - 1;
        evaluation.models.back().result.logits.push_back(
            static_cast<float>(noise + (one.label(0) ? skill : -skill)));
      }
    }
    skill += 0.5;
  }
  return evaluation;
}

ReportOptions options(const std::vector<EvaluationWindow>& windows) {
  ReportOptions made;
  made.windows = windows;
  made.tasks = {"click"};
  return made;
}

const ReportPart& part(const EvaluationReport& report, const std::string& slice,
                       std::size_t window = 0) {
  for (const ReportPart& one : report.parts) {
    if (one.slice == slice && one.window == window) return one;
  }
  throw std::runtime_error("no part of slice " + slice);
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

TEST(MakeReport, AWindowHoldsItsStartAndNotItsEnd) {
  const auto report = make_report(two_rows(), options({{1000, 2000}, {1000, 2001}}), {});
  EXPECT_EQ(part(report, "all", 0).rows, 1U);
  const ReportPart& both = part(report, "all", 1);
  EXPECT_EQ(both.rows, 2U);
  EXPECT_EQ(both.users, 2U);
  EXPECT_DOUBLE_EQ(both.rate, 0.5);
  EXPECT_DOUBLE_EQ(both.variants[0].mean[kAuc], 1);
  EXPECT_NEAR(both.variants[0].mean[kLogLoss], -std::log(0.75), 1e-6);
}

TEST(MakeReport, ComparesWithTheBaselineWhereverItStands) {
  const EvaluationWindow all{0, 1'000'000'000};
  const auto report = make_report(several({"siren", "ordinal", "none"}), options({all}), {});
  EXPECT_EQ(report.baseline, "ordinal");
  EXPECT_EQ(report.seeds, (std::vector<std::uint64_t>{1, 2}));
  const ReportPart& whole = part(report, "all");
  ASSERT_EQ(whole.variants.size(), 3U);
  EXPECT_FALSE(whole.variants[1].comparison);
  for (const std::size_t v : {0U, 2U}) {
    ASSERT_TRUE(whole.variants[v].comparison);
    const Comparison& comparison = *whole.variants[v].comparison;
    EXPECT_NEAR(comparison.difference[kAuc],
                whole.variants[v].mean[kAuc] - whole.variants[1].mean[kAuc], 1e-12);
    EXPECT_LT(comparison.low[kAuc], comparison.difference[kAuc]);
    EXPECT_GT(comparison.high[kAuc], comparison.difference[kAuc]);
  }
  EXPECT_LT(whole.variants[0].comparison->high[kAuc], 0);  // siren is the one without skill here
  EXPECT_GT(whole.variants[2].comparison->low[kAuc], 0);
  const double a = whole.variants[0].runs[0][kAuc], b = whole.variants[0].runs[1][kAuc];
  EXPECT_NEAR(whole.variants[0].spread[kAuc], std::abs(a - b) / std::sqrt(2.0), 1e-12);
}

TEST(MakeReport, TheSameSeedGivesTheSameIntervals) {
  const EvaluationWindow all{0, 1'000'000'000};
  const Evaluation evaluation = several({"ordinal", "siren"});
  ReportOptions made = options({all});
  const auto low = [&] {
    return part(make_report(evaluation, made, {}), "all").variants[1].comparison->low[kAuc];
  };
  const double first = low();
  EXPECT_EQ(first, low());
  made.resample_seed = 2;
  EXPECT_NE(first, low());
  made.resamples = 0;
  EXPECT_TRUE(std::isnan(low()));
}

TEST(MakeReport, WithoutTheBaselineThereIsNoComparison) {
  const auto report = make_report(several({"siren", "none"}), options({{0, 1'000'000'000}}), {});
  EXPECT_EQ(report.baseline, "");
  for (const auto& figures : part(report, "all").variants) EXPECT_FALSE(figures.comparison);
}

TEST(MakeReport, SlicesAreWhatTheirNamesSay) {
  ReportOptions made = options({{0, 1'000'000'000}});
  made.slices.cold_item_exposures = 3;
  made.slices.cold_user_exposures = 2;
  const auto report = make_report(several({"siren"}), made, {});
  EXPECT_EQ(part(report, "cold_users").rows, 2U * 50);
  EXPECT_EQ(part(report, "cold_items").rows, 3U * 60);  // every item is shown three times or more
  EXPECT_EQ(part(report, "peak_hours").rows + part(report, "off_peak_hours").rows, 600U);
  EXPECT_GE(part(report, "peak_hours").rows, 300U);
  EXPECT_GT(part(report, "long_tail").rows, 0U);
  EXPECT_LT(part(report, "long_tail").rows, 8 * 600U / 10);  // 80 % of the items, shown less
}

TEST(MakeReport, BucketsAndBinsHoldEveryCell) {
  const auto report = make_report(several({"ordinal", "siren"}), options({{0, 1'000'000'000}}), {});
  ASSERT_EQ(report.timelines.size(), 1U);
  std::size_t rows = 0;
  for (const std::size_t n : report.timelines[0].rows) rows += n;
  EXPECT_EQ(rows, 600U);
  EXPECT_LE(report.timelines[0].from_ms.size(), 60U);
  ASSERT_EQ(report.calibration.size(), 2U);
  for (const CalibrationCurve& curve : report.calibration) {
    std::size_t cells = 0;
    for (const std::size_t n : curve.cells) cells += n;
    EXPECT_EQ(cells, 2U * 600);  // two seeds
  }
}

TEST(ReportJson, AnUndefinedFigureIsNull) {
  const Evaluation evaluation = two_rows();
  const auto report = make_report(evaluation, options({{1000, 2000}}), {});
  const auto parsed = boost::json::parse(report_json({"f", "events"}, evaluation, report));
  EXPECT_TRUE(parsed.at("windows").at(0).at("auc").is_null());
  EXPECT_EQ(parsed.at("windows").at(0).at("rows").to_number<int>(), 1);
  EXPECT_TRUE(parsed.at("baseline").is_null());
  EXPECT_EQ(parsed.at("report_version").to_number<int>(), 2);
}

TEST(ReportJson, HasEveryPartWithItsComparison) {
  const Evaluation evaluation = several({"ordinal", "siren"});
  const auto report = make_report(evaluation, options({{0, 1'000'000'000}}), {});
  const auto parsed = boost::json::parse(report_json({"f", "events"}, evaluation, report));
  const auto& parts = parsed.at("parts").as_array();
  ASSERT_EQ(parts.size(), report.slices.size());
  for (const auto& one : parts) {
    EXPECT_EQ(one.at("variants").as_array().size(), 2U);
    EXPECT_TRUE(one.at("variants").at(0).at("comparison").is_null());
    EXPECT_TRUE(one.at("variants").at(1).at("comparison").at("low").at("ne").is_double());
    EXPECT_EQ(one.at("variants").at(1).at("seeds").as_array().size(), 2U);
  }
  EXPECT_EQ(parsed.at("windows").as_array().size(), 4U);
}

TEST(ReportTable, NamesEveryVariantSliceAndTheInterval) {
  const auto report = make_report(several({"ordinal", "siren"}), options({{0, 1'000'000'000}}), {});
  const std::string text = report_table(report, TableStyle::kText);
  for (const char* word : {"ordinal", "siren", "cold_users", "long_tail", "1000 resamples", "±",
                           "biased", "1970-01-01T00:00Z"}) {
    EXPECT_NE(text.find(word), std::string::npos) << word;
  }
  const std::string markdown = report_table(report, TableStyle::kMarkdown);
  EXPECT_NE(markdown.find("| slice | variant |"), std::string::npos);
}

TEST(WritePredictions, QuotesIdsAsCsvDoes) {
  const auto path = std::filesystem::temp_directory_path() / "sirenfeed-predictions-test.csv";
  Evaluation evaluation = two_rows();
  evaluation.models[0].result.logits = {0, 100};
  ASSERT_TRUE(write_predictions(path, evaluation, 0, {"click"}));
  std::stringstream text;
  text << std::ifstream(path).rdbuf();
  std::filesystem::remove(path);
  EXPECT_EQ(text.str(),
            "time_ms,user_id,item_id,task,label,probability\n"
            "1000,u,\"an \"\"odd\"\", id\",click,0,0.5\n"
            "2000,v,\"an \"\"odd\"\", id\",click,1,1\n");
}

}  // namespace
}  // namespace sirenfeed::app
