#include "model/sequence_attention.h"

#include <cmath>
#include <random>

#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

constexpr std::int64_t kHourMs = 3'600'000;

SequenceAttentionConfig small(Variant rotation) {
  SequenceAttentionConfig config;
  config.rotation = rotation;
  config.width = 8;
  config.kinds = 3;
  config.angle_width = 4;
  config.semantic_width = 4;
  config.time_reference_ms = 1'650'000'000'000;
  return config;
}

/// Two sequences, one token without a time and one without a kind among them.
struct Case {
  std::vector<SequenceToken> tokens;
  std::vector<std::size_t> lengths = {5, 3};
  Matrix<double> x;
  Matrix<double> values;
  Matrix<double> d_y;

  explicit Case(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::normal_distribution<double> normal;
    for (std::size_t i = 0; i < 8; ++i) {
      tokens.push_back({1'650'000'000'000 + static_cast<std::int64_t>(i) * 5 * kHourMs,
                        static_cast<std::int32_t>(i % 3)});
    }
    tokens[2].time_ms = kUnknownTime;
    tokens[3].kind = -1;
    for (Matrix<double>* matrix : {&x, &values, &d_y}) {
      matrix->resize(8, 8);
      for (std::size_t e = 0; e < matrix->size(); ++e) matrix->data()[e] = normal(random);
    }
  }
};

/// Every element's gradient against central differences; what does not hold, a line each.
std::vector<std::string> gradient_faults(Variant rotation, double scale_of_hand_written) {
  constexpr double kStep = 1e-5;
  Case c(11);
  auto layer = *BasicSequenceAttention<double>::create(small(rotation));
  std::mt19937_64 random(12);
  std::normal_distribution<double> perturbation(0, 0.3);
  for (double& p : layer.parameters()) p += perturbation(random);
  Matrix<double> y, d_x, d_values;
  for (Matrix<double>* matrix : {&y, &d_x, &d_values}) matrix->resize(8, 8);
  const auto loss = [&] {
    EXPECT_TRUE(
        layer.forward(c.tokens, c.lengths, c.x.view(), c.values.view(), y.view()).has_value());
    double total = 0;
    for (std::size_t e = 0; e < y.size(); ++e) total += c.d_y.data()[e] * y.data()[e];
    return total;
  };
  (void)loss();
  layer.backward(c.d_y.view(), d_x.view(), d_values.view());
  const std::vector<double> gradient(layer.gradient().begin(), layer.gradient().end());

  std::vector<std::string> faults;
  const auto check = [&](const std::string& name, double* element, double by_hand) {
    const double before = *element;
    *element = before + kStep;
    const double up = loss();
    *element = before - kStep;
    const double down = loss();
    *element = before;
    const double numeric = (up - down) / (2 * kStep);
    if (!(std::abs(numeric - scale_of_hand_written * by_hand) <= 1e-5)) {
      faults.push_back(name + ": " + std::to_string(by_hand) + " by hand, " +
                       std::to_string(numeric) + " by differences");
    }
  };
  for (const TensorSpec& spec : layer.layout().tensors) {
    const std::size_t count = std::min<std::size_t>(spec.size, 12);
    for (std::size_t i = 0; i < count; ++i) {
      check(spec.name, &layer.parameters()[spec.offset + i], gradient[spec.offset + i]);
    }
  }
  for (std::size_t e = 0; e < 24; ++e) {
    check("x", c.x.data() + e, d_x.data()[e]);
    check("values", c.values.data() + e, d_values.data()[e]);
  }
  return faults;
}

TEST(SequenceAttention, GradientsMatchCentralDifferencesForEveryRotation) {
  for (const Variant rotation :
       {Variant::kNone, Variant::kOrdinal, Variant::kTorope, Variant::kTimeBias,
        Variant::kAlibiTime, Variant::kSirenTemporal, Variant::kSirenSemantic, Variant::kSiren,
        Variant::kSirenTimeBias, Variant::kSirenLinear}) {
    EXPECT_EQ(gradient_faults(rotation, 1.0), std::vector<std::string>{}) << variant_name(rotation);
  }
}

TEST(SequenceAttention, TheGradientCheckFailsForAGradientThatIsTwoPercentOff) {
  EXPECT_FALSE(gradient_faults(Variant::kSiren, 1.02).empty());
}

TEST(SequenceAttention, SirenStartsAsPlainRope) {
  Case c(21);
  auto plain = *BasicSequenceAttention<double>::create(small(Variant::kOrdinal));
  auto siren = *BasicSequenceAttention<double>::create(small(Variant::kSiren));
  Matrix<double> y_plain, y_siren;
  y_plain.resize(8, 8);
  y_siren.resize(8, 8);
  c.tokens[2].time_ms = c.tokens[1].time_ms;
  ASSERT_TRUE(plain.forward(c.tokens, c.lengths, c.x.view(), c.values.view(), y_plain.view()));
  ASSERT_TRUE(siren.forward(c.tokens, c.lengths, c.x.view(), c.values.view(), y_siren.view()));
  for (std::size_t e = 0; e < y_plain.size(); ++e) {
    EXPECT_NEAR(y_plain.data()[e], y_siren.data()[e], 1e-9) << e;
  }
}

TEST(SequenceAttention, ATokenNeitherSeesItselfNorWhatComesAfter) {
  Case c(31);
  auto layer = *BasicSequenceAttention<double>::create(small(Variant::kSiren));
  Matrix<double> before, after;
  before.resize(8, 8);
  after.resize(8, 8);
  ASSERT_TRUE(layer.forward(c.tokens, c.lengths, c.x.view(), c.values.view(), before.view()));
  for (std::size_t col = 0; col < 8; ++col) c.values.row(3)[col] += 5;  // of the first sequence
  ASSERT_TRUE(layer.forward(c.tokens, c.lengths, c.x.view(), c.values.view(), after.view()));
  const auto same = [&](std::size_t row) {
    return std::equal(before.row(row), before.row(row) + 8, after.row(row));
  };
  for (const std::size_t row : {0U, 1U, 2U, 3U, 5U, 6U, 7U}) EXPECT_TRUE(same(row)) << row;
  EXPECT_FALSE(same(4));
}

TEST(SequenceAttention, RefusesWhatDoesNotFitAndNamesIt) {
  SequenceAttentionConfig config = small(Variant::kTimeEmbedding);
  EXPECT_FALSE(SequenceAttention::create(config).has_value());
  config.rotation = Variant::kSiren;
  config.heads = 3;
  EXPECT_FALSE(SequenceAttention::create(config).has_value());
  Case c(41);
  auto layer = *BasicSequenceAttention<double>::create(small(Variant::kSiren));
  Matrix<double> y;
  y.resize(8, 8);
  c.tokens[6].kind = 3;
  const auto refused = layer.forward(c.tokens, c.lengths, c.x.view(), c.values.view(), y.view());
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("token 6 has kind 3"), std::string::npos);
  c.tokens[6].kind = 0;
  c.lengths = {5, 4};
  EXPECT_FALSE(layer.forward(c.tokens, c.lengths, c.x.view(), c.values.view(), y.view()));
}

}  // namespace
}  // namespace sirenfeed::model
