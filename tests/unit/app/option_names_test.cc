#include "app/option_names.h"

#include <gtest/gtest.h>

namespace sirenfeed::app {
namespace {

std::string named(const std::string& message, std::string_view section) {
  return named_as_option(base::Error{base::ErrorCode::kInvalidArgument, message}, section).message;
}

TEST(OptionNames, AFieldBecomesTheOptionOfItsSection) {
  EXPECT_EQ(named("http.request_queue_max: must be at least 1", "serving"),
            "--serving.request_queue_max: must be at least 1");
  EXPECT_EQ(named("model config: heads is 0, expected 1 to 16", "model"),
            "--model.heads is 0, expected 1 to 16");
  EXPECT_EQ(named("features.join.window_ms: expected more than 0", "features"),
            "--features.join_window_ms: expected more than 0");
}

TEST(OptionNames, AMessageWithoutAFieldStays) {
  EXPECT_EQ(named("unknown model variant 'x'", "model"), "unknown model variant 'x'");
  EXPECT_EQ(named("--http: expected ADDRESS:PORT", "serving"), "--http: expected ADDRESS:PORT");
  EXPECT_EQ(named("", "model"), "");
}

TEST(OptionNames, OnlyWrongValuesAreRenamed) {
  const auto other = named_as_option(
      base::Result<void>(base::fail(base::ErrorCode::kStorage, "disk_full: no room")), "model");
  EXPECT_EQ(other.error().message, "disk_full: no room");
  EXPECT_TRUE(named_as_option(base::Result<void>(), "model"));
}

}  // namespace
}  // namespace sirenfeed::app
