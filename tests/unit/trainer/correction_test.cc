// A late action's example: what it does to the gradient and the model, to the last formula.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "model/ranker.h"
#include "tests/unit/trainer/synthetic_examples.h"
#include "trainer/batch_gradient.h"
#include "trainer/online_trainer.h"
#include "trainer/optimizer.h"

namespace sirenfeed::trainer {
namespace {

constexpr std::size_t kLike = 2;  // the task

/// A model that has left its zero starts.
model::Model trained_model() {
  auto trainer = *OnlineTrainer::create(testing::small_model(), testing::small_step());
  const auto examples = testing::decode_all(testing::make_examples({.examples = 64}));
  for (std::size_t begin = 0; begin < examples.size(); begin += 16) {
    std::vector<const DecodedExample*> batch;
    for (std::size_t i = begin; i < begin + 16; ++i) batch.push_back(&examples[i]);
    trainer->learn(batch);
  }
  return trainer->model();
}

/// A slate of three of which only "like" of the second is unmasked.
DecodedExample only_one_like(float label, bool correction) {
  auto examples = testing::make_examples({.examples = 80, .candidates = 3, .seed = 5});
  features::Example& example = examples.back();
  for (int c = 0; c < 3; ++c) {
    example.mutable_candidates(c)->set_mask_bits(c == 1 ? 1U << kLike : 0U);
    example.mutable_candidates(c)->set_label_bits(c == 1 ? 0b111U : 0b001U);
  }
  example.set_revision(correction ? 1 : 0);
  DecodedExample decoded = *ExampleDecoder(testing::small_schema()).decode(example);
  decoded.labels.label[3 + kLike] = label;
  return decoded;
}

BatchResult gradient_of(const model::Model& model, const DecodedExample& example) {
  const auto ranker = *model::make_ranker(model.config);
  BatchGradient gradient(*ranker, testing::small_step().loss, 4, 1);
  const DecodedExample* batch = &example;
  return gradient.compute(model, {&batch, 1});
}

TEST(Correction, ItsGradientIsThatOfTheNewLabelWithoutThatOfTheOld) {
  const model::Model model = trained_model();
  const BatchResult late = gradient_of(model, only_one_like(1, true));
  const BatchResult one = gradient_of(model, only_one_like(1, false));
  const BatchResult zero = gradient_of(model, only_one_like(0, false));
  ASSERT_EQ(late.dense.size(), one.dense.size());
  double largest = 0;
  for (std::size_t i = 0; i < late.dense.size(); ++i) {
    const float difference = one.dense[i] - zero.dense[i];
    EXPECT_NEAR(late.dense[i], difference, 1e-6 + 1e-5 * std::abs(difference)) << i;
    largest = std::max(largest, std::abs(static_cast<double>(difference)));
  }
  EXPECT_GT(largest, 1e-3);
  for (std::size_t t = 0; t < late.tables.size(); ++t) {
    ASSERT_EQ(late.tables[t].keys, one.tables[t].keys);
    for (std::size_t i = 0; i < late.tables[t].rows.size(); ++i) {
      const float difference = one.tables[t].rows[i] - zero.tables[t].rows[i];
      EXPECT_NEAR(late.tables[t].rows[i], difference, 1e-6) << "table " << t;
    }
  }
  const double z = static_cast<double>(late.mean[3 + kLike]);
  const double weight = testing::small_step().loss.task_weights[kLike];
  EXPECT_NEAR(late.loss, -weight * z, 1e-6);
  EXPECT_NEAR(late.loss, one.loss - zero.loss, 1e-6);
}

TEST(Correction, TheModelTakesOneStepOfAdamAlongIt) {
  const model::Model start = trained_model();
  const DecodedExample late = only_one_like(1, true);
  const BatchResult gradient = gradient_of(start, late);
  const StepConfig config = testing::small_step();
  auto trainer = *OnlineTrainer::create(start, config);
  const DecodedExample* batch = &late;
  const StepReport report = trainer->learn({&batch, 1});
  EXPECT_TRUE(report.learned);
  EXPECT_NEAR(report.loss, gradient.loss, 1e-9);
  Adam adam(start.layout, config.optimizer);
  std::vector<float> expected(start.dense.begin(), start.dense.end());
  adam.step(expected, gradient.dense, adam.norm(gradient.dense));
  EXPECT_EQ(std::vector<float>(trainer->model().dense.begin(), trainer->model().dense.end()),
            expected);
  EXPECT_NE(expected, std::vector<float>(start.dense.begin(), start.dense.end()));
  // No exposure counts twice: neither in the metrics nor in the calibration.
  EXPECT_EQ(trainer->progressive()[kLike].cells_total, 0U);
  EXPECT_EQ(trainer->model().calibration.bias, start.calibration.bias);
}

// The same examples as they come with fake negatives: revision 0 all negative, then a correction
// for every positive cell.
TEST(FakeNegatives, TheMetricsAreThoseOfTheLabelsThatCameLater) {
  const auto labelled = testing::decode_all(testing::make_examples({.examples = 64}));
  std::vector<DecodedExample> stream;
  std::size_t positives = 0;
  for (const DecodedExample& example : labelled) {
    DecodedExample shown = example;
    shown.labels.fake_negatives = true;
    std::fill(shown.labels.label.begin(), shown.labels.label.end(), 0.0F);
    stream.push_back(shown);
  }
  for (const DecodedExample& example : labelled) {
    for (std::size_t cell = 0; cell < example.labels.label.size(); ++cell) {
      if (example.labels.label[cell] == 0) continue;
      positives += cell % testing::small_schema().tasks.size() == 0 ? 1 : 0;
      DecodedExample correction = example;
      correction.identity.revision = 1;
      correction.labels.fake_negatives = correction.labels.correction = true;
      std::fill(correction.labels.weight.begin(), correction.labels.weight.end(), 0.0F);
      correction.labels.weight[cell] = 1;
      stream.push_back(correction);
    }
  }
  ASSERT_GT(positives, 5U);
  auto trainer = *OnlineTrainer::create(testing::small_model(), testing::small_step());
  for (std::size_t begin = 0; begin < stream.size(); begin += 16) {
    std::vector<const DecodedExample*> batch;
    for (std::size_t i = begin; i < std::min(stream.size(), begin + 16); ++i) {
      batch.push_back(&stream[i]);
    }
    ASSERT_TRUE(trainer->learn(batch).learned);
  }
  const WindowFigures click = trainer->progressive()[0];
  std::size_t cells = 0;
  for (const DecodedExample& example : labelled) cells += example.slate.candidates.size();
  EXPECT_EQ(click.cells_total, cells);  // no exposure counts twice
  EXPECT_NEAR(click.rate, static_cast<double>(positives) / static_cast<double>(cells), 1e-12);
}

}  // namespace
}  // namespace sirenfeed::trainer
