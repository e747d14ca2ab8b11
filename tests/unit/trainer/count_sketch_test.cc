#include "trainer/count_sketch.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

namespace sirenfeed::trainer {
namespace {

TEST(CountSketch, NeverSaysLessThanTheTrueCountAndSeldomMore) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed);
  CountSketch sketch(1U << 14U, 5);
  std::map<std::uint64_t, std::uint32_t> counts;
  for (int i = 0; i < 4000; ++i) {  // below a quarter of the cells: nothing is halved
    const std::uint64_t key = random() % 2000;
    sketch.add(key);
    ++counts[key];
  }
  std::size_t over = 0;
  for (std::uint64_t key = 0; key < 4000; ++key) {
    const auto known = counts.find(key);
    const std::uint32_t count = known == counts.end() ? 0 : known->second;
    ASSERT_GE(sketch.estimate(key), count);
    if (sketch.estimate(key) > count) ++over;
  }
  EXPECT_LT(over, 40U);
}

TEST(CountSketch, IsBounded) {
  CountSketch sketch(4096, 1);
  for (int i = 0; i < 1023; ++i) sketch.add(9);
  EXPECT_EQ(sketch.estimate(9), 255U);
  sketch.add(9);  // a quarter of the cells: everything is halved
  EXPECT_EQ(sketch.estimate(9), 127U);
  CountSketch none(0, 1);
  none.add(9);
  EXPECT_EQ(none.estimate(9), 0U);
}

TEST(CountSketch, GoesOnFromItsBytes) {
  CountSketch sketch(1024, 3);
  for (std::uint64_t key = 0; key < 300; ++key) sketch.add(key % 50);
  std::string bytes;
  sketch.append_to(bytes);
  CountSketch other(1024, 3);
  std::string_view view = bytes;
  ASSERT_TRUE(other.restore(view));
  EXPECT_TRUE(view.empty());
  sketch.add(7);
  other.add(7);
  std::string again;
  std::string expected;
  other.append_to(again);
  sketch.append_to(expected);
  EXPECT_EQ(again, expected);
  CountSketch smaller(512, 3);
  view = bytes;
  EXPECT_FALSE(smaller.restore(view));
  view = std::string_view(bytes).substr(0, 100);
  EXPECT_FALSE(other.restore(view));
}

}  // namespace
}  // namespace sirenfeed::trainer
