#include "base/metrics.h"

#include <gtest/gtest.h>

namespace sirenfeed::base {
namespace {

TEST(MetricsRegistry, TheSameNameAndLabelsGiveTheSameMetric) {
  MetricsRegistry registry;
  registry.counter("sirenfeed_test_events_total", "Events.", {{"topic", "clicks"}}).add(2);
  registry.counter("sirenfeed_test_events_total", "Events.", {{"topic", "clicks"}}).add(3);
  registry.counter("sirenfeed_test_events_total", "Events.", {{"topic", "items"}}).add(7);
  EXPECT_EQ(
      registry.counter("sirenfeed_test_events_total", "Events.", {{"topic", "clicks"}}).value(),
      5U);
  EXPECT_EQ(registry.samples().size(), 2U);
}

TEST(MetricsRegistry, ExportsThePrometheusTextFormat) {
  MetricsRegistry registry;
  registry.gauge("sirenfeed_test_lag_events", "Lag.").set(4);
  registry.histogram("sirenfeed_test_latency_seconds", "Latency.", {}, {0.1, 1}).observe(0.5);
  const std::string text = registry.exposition();
  EXPECT_NE(text.find("# HELP sirenfeed_test_lag_events Lag."), std::string::npos);
  EXPECT_NE(text.find("sirenfeed_test_lag_events 4"), std::string::npos);
  EXPECT_NE(text.find("sirenfeed_test_latency_seconds_bucket{le=\"1\"} 1"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::base
