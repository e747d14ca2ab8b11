#include "serving/json_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>

namespace sirenfeed::serving {
namespace {

namespace json = boost::json;

TEST(JsonText, WritesNumbersAsPeopleReadThem) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(json_text({0.5, 1.0, 0.1F, 0.1, -3, 18446744073709551615U, infinity, nullptr, true}),
            "[0.5,1,0.1,0.1,-3,18446744073709551615,null,null,true]");
  EXPECT_EQ(json_text({{"a\n\"", "é"}}), "{\"a\\n\\\"\":\"é\"}");
}

TEST(JsonText, EveryDoubleReadsBackEqual) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 20'000; ++i) {
    const auto bits = random();
    double value = 0;
    std::memcpy(&value, &bits, sizeof value);
    if (!std::isfinite(value)) continue;
    ASSERT_EQ(std::strtod(json_text(value).c_str(), nullptr), value);
  }
}

}  // namespace
}  // namespace sirenfeed::serving
