#include "trainer/row_admission.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/unit/trainer/synthetic_examples.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::trainer {
namespace {

using model::TableId;

constexpr std::size_t kItems = static_cast<std::size_t>(TableId::kItem);

DecodedExample example_of(std::vector<model::Key> candidates,
                          std::vector<model::Key> history = {}) {
  DecodedExample example;
  example.slate.time_ms = testing::kStartMs;
  for (const model::Key item : candidates) {
    example.slate.candidates.push_back({.item = item});
    for (int f = 0; f < 3; ++f) example.slate.context.push_back(0.5F);
    for (int task = 0; task < 3; ++task) {
      example.labels.label.push_back(task == 0 ? 1.0F : 0.0F);
      example.labels.weight.push_back(1.0F);
    }
  }
  for (const model::Key item : history) {
    example.slate.history.push_back({.item = {.item = item}, .time_ms = testing::kStartMs - 1000});
  }
  return example;
}

std::vector<const DecodedExample*> pointers(const std::vector<DecodedExample>& examples) {
  std::vector<const DecodedExample*> out;
  for (const DecodedExample& example : examples) out.push_back(&example);
  return out;
}

std::unique_ptr<OnlineTrainer> trainer_of(StepConfig config) {
  return *OnlineTrainer::create(testing::small_model(), config);
}

bool has_item(const OnlineTrainer& trainer, model::Key item) {
  return trainer.model().table(TableId::kItem).index_of(item) != model::kNoRow;
}

std::string state_of(const OnlineTrainer& trainer) {
  std::string bytes;
  trainer.append_to(bytes);
  return bytes;
}

TEST(RowAdmission, CountsExamplesNotOccurrences) {
  const model::Model model = testing::small_model();
  RowAdmission admission(2, model.config);
  const std::vector<DecodedExample> first{example_of({1, 1, 2}, {1, 3})};
  admission.count(model, pointers(first));
  EXPECT_FALSE(admission.admits(kItems, 1));
  const std::vector<DecodedExample> second{example_of({3}), example_of({4}, {1})};
  admission.count(model, pointers(second));
  EXPECT_TRUE(admission.admits(kItems, 1));
  EXPECT_FALSE(admission.admits(kItems, 2));
  EXPECT_TRUE(admission.admits(kItems, 3));
  EXPECT_FALSE(admission.admits(static_cast<std::size_t>(TableId::kTag), 1)) << "another table";
}

TEST(RowAdmission, OfAHistoryOfActionsOnlyWhatTheModelReadsIsCounted) {
  model::Model model = testing::small_model();
  model.config.history_kind = model::HistoryKind::kActions;
  model.config.history_max = 2;
  RowAdmission admission(2, model.config);
  DecodedExample example = example_of({9}, {1, 2, 3, 4});
  example.slate.history[0].action_bits = 1;
  example.slate.history[2].action_bits = 1;
  const std::vector<DecodedExample> twice{example, example};
  admission.count(model, pointers(twice));
  EXPECT_TRUE(admission.admits(kItems, 1)) << "the second newest action";
  EXPECT_FALSE(admission.admits(kItems, 2)) << "only seen";
  EXPECT_TRUE(admission.admits(kItems, 3));
  EXPECT_FALSE(admission.admits(kItems, 4)) << "only seen";
}

TEST(RowAdmission, WithOneEveryKeyIsAdmittedAndNothingIsCounted) {
  const model::Model model = testing::small_model();
  const RowAdmission admission(1, model.config);
  EXPECT_TRUE(admission.admits(kItems, 77));
  std::string bytes;
  admission.append_to(bytes);
  EXPECT_EQ(bytes.size(), 16U);
}

TEST(RowAdmission, ARowIsMadeWithTheExampleThatAdmitsIt) {
  StepConfig config = testing::small_step();
  config.row_admission_examples = 3;
  const auto trainer = trainer_of(config);
  const std::vector<DecodedExample> batch{example_of({1, 2})};
  for (int round = 1; round <= 3; ++round) {
    EXPECT_FALSE(has_item(*trainer, 1)) << round;
    ASSERT_TRUE(trainer->learn(pointers(batch)).learned);
  }
  EXPECT_TRUE(has_item(*trainer, 1));
  EXPECT_TRUE(has_item(*trainer, 2));
  const std::vector<DecodedExample> both{example_of({9}), example_of({9}), example_of({9}),
                                         example_of({8})};
  ASSERT_TRUE(trainer->learn(pointers(both)).learned);
  EXPECT_TRUE(has_item(*trainer, 9)) << "three examples of one batch";
  EXPECT_FALSE(has_item(*trainer, 8));
}

TEST(RowAdmission, CountsGoOnAfterARestart) {
  StepConfig config = testing::small_step();
  config.row_admission_examples = 2;
  const auto trainer = trainer_of(config);
  const std::vector<DecodedExample> batch{example_of({1})};
  trainer->learn(pointers(batch));
  const auto restarted = trainer_of(config);
  ASSERT_TRUE(restarted->restore(state_of(*trainer)));
  for (OnlineTrainer* each : {trainer.get(), restarted.get()}) each->learn(pointers(batch));
  EXPECT_TRUE(has_item(*restarted, 1));
  EXPECT_EQ(state_of(*restarted), state_of(*trainer));
}

TEST(RowsMax, AFullTableEvictsTheRowsUnseenLongest) {
  StepConfig config = testing::small_step();
  config.rows_max = 32;
  const auto trainer = trainer_of(config);
  const auto learn = [&](std::vector<model::Key> items, std::int64_t hours) {
    std::vector<DecodedExample> batch{example_of(std::move(items))};
    batch[0].slate.time_ms += hours * 3'600'000;
    return trainer->learn(pointers(batch));
  };
  for (model::Key item = 1; item <= 32; ++item) {
    EXPECT_EQ(learn({item}, static_cast<std::int64_t>(item)).evicted[kItems], 0U);
  }
  learn({1}, 100);  // seen again: 2 and 3 are now the oldest
  const StepReport report = learn({50, 2}, 101);
  EXPECT_EQ(report.evicted[kItems], 2U) << "a sixteenth of rows_max";
  EXPECT_TRUE(has_item(*trainer, 50));
  EXPECT_TRUE(has_item(*trainer, 1));
  EXPECT_TRUE(has_item(*trainer, 2)) << "the batch's own row stays";
  EXPECT_FALSE(has_item(*trainer, 3));
  EXPECT_FALSE(has_item(*trainer, 4));
  EXPECT_TRUE(has_item(*trainer, 5));
  EXPECT_EQ(trainer->model().table(TableId::kItem).size(), 31U);
}

TEST(RowsMax, MoreNewKeysThanATableHoldsAreTakenInOrder) {
  StepConfig config = testing::small_step();
  config.rows_max = 16;
  const auto trainer = trainer_of(config);
  std::vector<model::Key> items;
  for (model::Key item = 1; item <= 40; ++item) items.push_back(item);
  const std::vector<DecodedExample> batch{example_of(items)};
  for (int round = 0; round < 2; ++round) {
    ASSERT_TRUE(trainer->learn(pointers(batch)).learned);
    EXPECT_EQ(trainer->model().table(TableId::kItem).size(), 16U);
    EXPECT_TRUE(has_item(*trainer, 16));
    EXPECT_FALSE(has_item(*trainer, 17));
  }
}

TEST(RowsMax, EvictionsAreTheSameForEveryRunAndAfterARestart) {
  StepConfig config = testing::small_step();
  config.rows_max = 20;
  const auto run = [&](std::size_t restart_at) {
    auto trainer = trainer_of(config);
    std::mt19937_64 random(4);
    std::size_t evicted = 0;
    for (std::size_t step = 0; step < 60; ++step) {
      std::vector<DecodedExample> batch{example_of({random() % 60 + 1, random() % 60 + 1}),
                                        example_of({random() % 60 + 1})};
      batch[0].slate.time_ms += static_cast<std::int64_t>(step / 4) * 3'600'000;
      evicted += trainer->learn(pointers(batch)).evicted[kItems];
      if (step != restart_at) continue;
      auto next = trainer_of(config);
      EXPECT_TRUE(next->restore(state_of(*trainer)));
      trainer = std::move(next);
    }
    EXPECT_GT(evicted, 10U);
    return state_of(*trainer);
  };
  EXPECT_EQ(run(1000), run(1000));
  EXPECT_EQ(run(1000), run(33));
}

}  // namespace
}  // namespace sirenfeed::trainer
