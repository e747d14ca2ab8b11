#include "model/starts.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "model/model.h"
#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

std::vector<float> values(Start start, std::uint64_t key, std::size_t n) {
  std::vector<float> out(n);
  fill_start(start, 42, "embedding.tag", key, out);
  return out;
}

// Written down from a second implementation of docs/FORMATS.md (tests/golden/starts.py).
TEST(Starts, EqualTheDocumentedFunctionBitForBit) {
  const boost::json::value fixture = test::read_json("starts.json");
  for (const boost::json::value& line : fixture.as_array()) {
    const std::string kind(line.at("kind").as_string());
    const Start start{kind == "uniform" ? StartKind::kUniform : StartKind::kNormal,
                      line.at("scale").to_number<double>()};
    const auto expected = test::numbers<float>(line.at("values"));
    std::vector<float> actual(expected.size());
    fill_start(start, line.at("seed").to_number<std::uint64_t>(),
               std::string(line.at("name").as_string()), line.at("key").to_number<std::uint64_t>(),
               actual);
    EXPECT_EQ(actual, expected) << line;
  }
}

TEST(Starts, AreAFunctionOfSeedNameAndKeyAlone) {
  const Start normal{StartKind::kNormal, 1.0};
  EXPECT_EQ(values(normal, 5, 8), values(normal, 5, 8));
  EXPECT_NE(values(normal, 5, 8), values(normal, 6, 8));
  const std::vector<float> longer = values(normal, 5, 9);
  EXPECT_EQ(values(normal, 5, 8), std::vector<float>(longer.begin(), longer.end() - 1));
}

TEST(Starts, HaveTheirDistribution) {
  double square = 0;
  for (const float value : values({StartKind::kNormal, 0.5}, 1, 20000)) {
    square += static_cast<double>(value) * static_cast<double>(value);
  }
  EXPECT_NEAR(std::sqrt(square / 20000), 0.5, 0.01);
  double sum = 0;
  for (const float value : values({StartKind::kUniform, 2.0}, 1, 20000)) {
    EXPECT_LE(std::abs(value), 2.0F);
    sum += static_cast<double>(value);
  }
  EXPECT_NEAR(sum / 20000, 0.0, 0.05);
}

TEST(Starts, KeysStartAsACopyOfQueries) {
  const Model model = *make_model(test::small_config(Variant::kSiren));
  const auto same = [&](const char* a, const char* b) {
    const auto x = model.tensor(a);
    const auto y = model.tensor(b);
    return std::equal(x.begin(), x.end(), y.begin(), y.end());
  };
  EXPECT_TRUE(same("layers.0.attention.query.weight", "layers.0.attention.key.weight"));
  EXPECT_TRUE(same("pooling.query.weight", "pooling.key.weight"));
  EXPECT_FALSE(same("pooling.query.weight", "pooling.value.weight"));
}

TEST(Starts, ClickBitsStartInTheWideTerms) {
  const Model model = *make_model(test::small_config(Variant::kOrdinal));
  const auto weight = model.tensor("head.wide.action_weight");  // lies as [H (A + 1), K]
  for (std::size_t bit = 0; bit < 8; ++bit) {
    for (std::size_t task = 0; task < 3; ++task) {
      const bool click = bit % 4 == 0 && task < 2;
      EXPECT_EQ(weight[bit * 3 + task], click ? 0.15F : 0.0F) << bit << " " << task;
    }
  }
}

}  // namespace
}  // namespace sirenfeed::model
