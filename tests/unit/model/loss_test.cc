#include "model/loss.h"

#include <gtest/gtest.h>

#include <cmath>

namespace sirenfeed::model {
namespace {

LossConfig two_tasks() {
  LossConfig config;
  config.task_weights = {1.0, 0.5};
  config.pairwise_weight = 0.3;
  return config;
}

// Three candidates, two tasks; the third candidate's click is masked.
SlateLabels three_candidates() {
  return {.label = {1, 0, 0, 1, 0, 0}, .weight = {1, 1, 2, 1, 0, 1}, .correction = false};
}

double total(const std::vector<float>& z, const SlateLabels& labels, const LossConfig& config,
             std::vector<float>* d_z = nullptr) {
  LossTerms terms;
  count_loss_terms(labels, config, terms);
  std::vector<float> scratch(z.size());
  return add_loss(z, labels, config, terms, d_z == nullptr ? scratch : *d_z);
}

TEST(Loss, IsTheWrittenFormula) {
  const std::vector<float> z = {0.5F, -1.0F, 1.5F, 0.25F, 9.0F, 2.0F};
  const auto bce = [](double logit, double label) {
    const double p = 1 / (1 + std::exp(-logit));
    return -label * std::log(p) - (1 - label) * std::log(1 - p);
  };
  const double click = (bce(0.5, 1) + 2 * bce(1.5, 0)) / 2;
  const double view = (bce(-1.0, 0) + bce(0.25, 1) + bce(2.0, 0)) / 3;
  const double pair = std::log(1 + std::exp(-(0.5 - 1.5)));
  EXPECT_NEAR(total(z, three_candidates(), two_tasks()), click + 0.5 * view + 0.3 * pair, 1e-6);
}

TEST(Loss, GradientMatchesCentralDifferences) {
  std::vector<float> z = {0.5F, -1.0F, 1.5F, 0.25F, 9.0F, 2.0F};
  std::vector<float> d_z(z.size());
  total(z, three_candidates(), two_tasks(), &d_z);
  EXPECT_EQ(d_z[4], 0.0F);  // masked: in neither term
  for (std::size_t i = 0; i < z.size(); ++i) {
    constexpr float kStep = 1.0F / 128;
    const float before = z[i];
    z[i] = before + kStep;
    const double up = total(z, three_candidates(), two_tasks());
    z[i] = before - kStep;
    const double down = total(z, three_candidates(), two_tasks());
    z[i] = before;
    EXPECT_NEAR(static_cast<double>(d_z[i]), (up - down) * 64, 1e-4) << i;
  }
}

TEST(Loss, MeansRunOverTheBatchNotTheSlate) {
  const std::vector<float> z = {0.5F, -1.0F, 1.5F, 0.25F, 9.0F, 2.0F};
  const SlateLabels labels = three_candidates();
  const LossConfig config = two_tasks();
  LossTerms terms;
  count_loss_terms(labels, config, terms);
  count_loss_terms(labels, config, terms);
  std::vector<float> d_z(z.size());
  const double twice = 2 * add_loss(z, labels, config, terms, d_z);
  EXPECT_NEAR(twice, total(z, labels, config), 1e-9);
}

TEST(Loss, ACorrectionIsTheDifferenceOfTheTwoLabels) {
  SlateLabels labels{.label = {0, 1}, .weight = {0, 1}, .correction = true};
  const std::vector<float> z = {3.0F, 0.7F};
  std::vector<float> d_z(2);
  const double loss = total(z, labels, two_tasks(), &d_z);
  const double logit = static_cast<double>(z[1]);
  EXPECT_NEAR(loss, 0.5 * (binary_cross_entropy(logit, 1) - binary_cross_entropy(logit, 0)), 1e-9);
  EXPECT_EQ(d_z, (std::vector<float>{0.0F, -0.5F}));
}

TEST(Loss, FakeNegativesHaveNoExpectedGradientWhereTheModelIsRight) {
  const double q = 0.3;  // of all exposures, which all come as negatives first
  const SlateLabels first{.label = {0}, .weight = {1}, .fake_negatives = true};
  const SlateLabels later{.label = {1}, .weight = {1}, .correction = true, .fake_negatives = true};
  LossConfig config;
  config.task_weights = {1.0};
  for (const double p : {0.05, 0.3, 0.8}) {
    const std::vector<float> z = {static_cast<float>(std::log(p / (1 - p)))};
    std::vector<float> negative(1);
    std::vector<float> positive(1);
    const double loss = total(z, first, config, &negative);
    const double corrected = total(z, later, config, &positive);
    EXPECT_NEAR(loss, -(1 - p) * (1 + p) * std::log(1 - p), 1e-6);
    EXPECT_NEAR(corrected, -(1 + p) * std::log(p), 1e-6);
    EXPECT_NEAR(negative[0] + q * positive[0], (1 - p * p) * (p - q), 1e-6) << p;
  }
}

TEST(Loss, ALogitLearnedFromFakeNegativesFindsTheTrueRate) {
  const SlateLabels first{.label = {0}, .weight = {1}, .fake_negatives = true};
  const SlateLabels later{.label = {1}, .weight = {1}, .correction = true, .fake_negatives = true};
  const SlateLabels naive_first{.label = {0}, .weight = {1}};
  const SlateLabels naive_later{.label = {1}, .weight = {1}};
  double z = 0;
  double naive = 0;
  for (int i = 0; i < 4'000; ++i) {
    z -= 0.05 * cell_gradient(z, 0, first);
    naive -= 0.05 * cell_gradient(naive, 0, naive_first);
    if (i % 4 != 3) continue;  // every fourth is answered
    z -= 0.05 * cell_gradient(z, 1, later);
    naive -= 0.05 * cell_gradient(naive, 1, naive_later);
  }
  EXPECT_NEAR(sigmoid(z), 0.25, 0.02);
  EXPECT_NEAR(sigmoid(naive), 0.2, 0.02);  // one in five records: what the weights are for
}

TEST(Loss, FakeNegativesMakeNoPairs) {
  SlateLabels labels{.label = {0, 0, 0, 0}, .weight = {1, 1, 1, 1}, .fake_negatives = true};
  labels.label[0] = 1;
  LossTerms terms;
  count_loss_terms(labels, two_tasks(), terms);
  EXPECT_EQ(terms.pairs, 0U);
}

TEST(Loss, StaysFiniteFarOut) {
  EXPECT_NEAR(binary_cross_entropy(1000, 0), 1000, 1e-9);
  EXPECT_NEAR(binary_cross_entropy(-1000, 1), 1000, 1e-9);
  EXPECT_EQ(sigmoid(-1000), 0.0);
  EXPECT_EQ(sigmoid(1000), 1.0);
}

TEST(LossConfig, NamesTheBadField) {
  LossConfig config;
  EXPECT_TRUE(config.validate(3));
  EXPECT_NE(config.validate(2).error().message.find("task_weights"), std::string::npos);
  config.pairwise_weight = -1;
  EXPECT_NE(config.validate(3).error().message.find("pairwise_weight"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::model
