#include "app/process_metrics.h"

#include <gtest/gtest.h>

#include <vector>

namespace sirenfeed::app {
namespace {

TEST(ProcessMetrics, MemoryGrowsByWhatIsTouched) {
  const ProcessFigures before = process_figures(".");
  const std::vector<char> touched(64U << 20U, 'x');
  const ProcessFigures after = process_figures(".");
  EXPECT_GT(after.resident_bytes - before.resident_bytes, 60e6) << touched.back();
  EXPECT_GE(after.cpu_seconds, before.cpu_seconds);
}

TEST(ProcessMetrics, AFolderThatIsNotThereYetHasTheRoomOfItsParent) {
  const ProcessFigures here = process_figures("/tmp");
  const ProcessFigures later = process_figures("/tmp/sirenfeed-not-there/data");
  EXPECT_GT(later.disk_free_bytes, 0);
  EXPECT_EQ(later.disk_capacity_bytes, here.disk_capacity_bytes);
  EXPECT_LE(later.disk_free_bytes, later.disk_capacity_bytes);
}

TEST(ProcessMetrics, TheRegistryHasTheBuildAndTheFiguresFromTheStart) {
  base::MetricsRegistry registry;
  const ProcessMetrics metrics(registry, ".");
  const std::string text = registry.exposition();
  EXPECT_NE(text.find("sirenfeed_app_build_info{commit="), std::string::npos) << text;
  for (const base::MetricsRegistry::Sample& sample : registry.samples()) {
    EXPECT_GT(sample.value, 0) << sample.name;
  }
}

}  // namespace
}  // namespace sirenfeed::app
