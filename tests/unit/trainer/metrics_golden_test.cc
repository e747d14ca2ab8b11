// Against scikit-learn and numpy: tests/golden/generate_metrics.py wrote the values.
#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <cmath>
#include <fstream>
#include <sstream>
#include <vector>

#include "trainer/metrics.h"

namespace sirenfeed::trainer {
namespace {

namespace json = boost::json;

template <class T>
std::vector<T> column(const json::value& one, const char* name) {
  std::vector<T> values;
  for (const json::value& v : one.at(name).as_array()) values.push_back(v.to_number<T>());
  return values;
}

TEST(MetricsGolden, EveryFigureIsThatOfScikitLearn) {
  std::stringstream text;
  text << std::ifstream(SIRENFEED_SOURCE_DIR "/tests/golden/metrics.json").rdbuf();
  const json::value cases = json::parse(text.str());
  ASSERT_GE(cases.as_array().size(), 12U);
  std::size_t figures = 0;
  for (const json::value& one : cases.as_array()) {
    SCOPED_TRACE(one.at("name").as_string().c_str());
    const auto p = column<double>(one, "probability");
    const auto y = column<std::uint8_t>(one, "label");
    const auto user = column<std::uint64_t>(one, "user");
    const auto impression = column<std::uint64_t>(one, "impression");
    const Scored scored{p, y};
    const RankingMetrics ranking = ranking_metrics(scored, impression);
    const std::vector<std::pair<const char*, double>> got = {
        {"auc", auc(scored)},
        {"log_loss", log_loss(scored)},
        {"ne", normalized_entropy(scored)},
        {"ece", expected_calibration_error(scored)},
        {"gauc", grouped_auc(scored, user).value},
        {"impression_auc", grouped_auc(scored, impression).value},
        {"ndcg10", ranking.ndcg10},
        {"map", ranking.mean_average_precision},
        {"mrr", ranking.mean_reciprocal_rank}};
    for (const auto& [name, value] : got) {
      const json::value& expected = one.at("expected").at(name);
      if (expected.is_null()) {
        EXPECT_TRUE(std::isnan(value)) << name;
      } else {
        EXPECT_NEAR(value, expected.to_number<double>(), 1e-9) << name;
        ++figures;
      }
    }
  }
  EXPECT_GE(figures, 50U);
}

}  // namespace
}  // namespace sirenfeed::trainer
