#include "app/replay_convention.h"

#include <gtest/gtest.h>

#include "app/settings_options.h"

namespace sirenfeed::app {
namespace {

Settings converted(const std::string& arguments, const std::string& format = "kuairand") {
  Settings settings;
  CLI::App root;
  add_settings(root, settings);
  root.parse(arguments);
  EXPECT_TRUE(apply_replay_convention(root, format, settings));
  return settings;
}

TEST(ReplayConvention, KuaiRandHasItsSurfacesAndMilliseconds) {
  const features::ContextConfig context = converted("").features.context;
  EXPECT_EQ(context.surfaces, (std::vector<std::string>{"0", "1", "2", "4", "6"}));
  EXPECT_EQ(context.duration_field, "duration_ms");
  EXPECT_DOUBLE_EQ(context.duration_unit_s, 0.001);
}

TEST(ReplayConvention, WhatIsGivenStays) {
  const auto unit = converted("--features.duration_unit_s 0.01").features.context;
  EXPECT_EQ(unit.duration_field, "duration_ms");
  EXPECT_DOUBLE_EQ(unit.duration_unit_s, 0.01);
  const auto field = converted("--features.duration_field length").features.context;
  EXPECT_EQ(field.duration_field, "length");
  EXPECT_DOUBLE_EQ(field.duration_unit_s, 1);
  EXPECT_EQ(converted("--features.lateness_max_ms 5").features.join.lateness_max_ms, 5);
}

TEST(ReplayConvention, EventsKeepTheConfiguredFeatures) {
  const Settings settings = converted("", "events");
  EXPECT_EQ(settings.features.context.duration_field, "duration_s");
  EXPECT_EQ(settings.features.join.lateness_max_ms, 0);
  EXPECT_EQ(settings.clock, "event");
}

}  // namespace
}  // namespace sirenfeed::app
