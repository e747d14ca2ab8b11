#include "trainer/metric_window.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "trainer/metrics.h"

namespace sirenfeed::trainer {
namespace {

TEST(MetricWindow, IsExactOnTheNewestCells) {
  MetricWindow window(5);
  std::vector<double> p;
  std::vector<std::uint8_t> y;
  for (int i = 0; i < 13; ++i) {
    const float probability = static_cast<float>((i * 7) % 11) / 11;
    const bool label = i % 3 == 0;
    window.add(probability, label);
    p.push_back(probability);
    y.push_back(label ? 1 : 0);
  }
  const std::vector<double> newest(p.end() - 5, p.end());
  const std::vector<std::uint8_t> labels(y.end() - 5, y.end());
  const WindowFigures figures = window.figures();
  EXPECT_EQ(figures.cells_total, 13U);
  EXPECT_EQ(figures.cells, 5U);
  EXPECT_NEAR(figures.log_loss, log_loss({newest, labels}), 1e-12);
  EXPECT_NEAR(figures.auc, auc({newest, labels}), 1e-12);
  EXPECT_NEAR(figures.normalized_entropy, normalized_entropy({newest, labels}), 1e-12);
}

TEST(MetricWindow, SurvivesACheckpointAtEveryFillLevel) {
  for (int cells = 0; cells < 12; ++cells) {
    MetricWindow window(5);
    for (int i = 0; i < cells; ++i) window.add(static_cast<float>(i) / 12, i % 2 == 0);
    std::string bytes;
    window.append_to(bytes);
    std::string_view rest = bytes;
    auto restored = MetricWindow::restore(rest, 5);
    ASSERT_TRUE(restored.has_value()) << restored.error().message;
    EXPECT_TRUE(rest.empty());
    EXPECT_EQ(*restored, window);
    window.add(0.5F, true);
    restored->add(0.5F, true);
    EXPECT_EQ(*restored, window);
  }
}

TEST(MetricWindow, RefusesAnotherSizeAndTruncation) {
  MetricWindow window(5);
  window.add(0.5F, true);
  std::string bytes;
  window.append_to(bytes);
  std::string_view whole = bytes;
  EXPECT_FALSE(MetricWindow::restore(whole, 6).has_value());
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    std::string_view part = std::string_view(bytes).substr(0, length);
    EXPECT_FALSE(MetricWindow::restore(part, 5).has_value()) << length;
  }
}

TEST(MetricWindow, UndefinedFiguresAreNullInJson) {
  const MetricWindow empty(5);
  const std::string json = figures_json({"click"}, {empty.figures()});
  EXPECT_EQ(json, R"({"click":{"cells_total":0,"cells":0,"rate":null,"log_loss":null,"ne":null,)"
                  R"("auc":null,"ece":null}})");
}

}  // namespace
}  // namespace sirenfeed::trainer
