// Towers inside the trainer: determinism, restarts, bad input, the live baseline.
#include "trainer/tower_trainer.h"

#include <gtest/gtest.h>
#include <tbb/global_control.h>

#include <cmath>
#include <limits>

#include "model/model_file.h"
#include "model/ranker.h"
#include "tests/unit/trainer/synthetic_examples.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::trainer {
namespace {

struct Options {
  std::size_t threads = 1;
  std::vector<std::string> towers = {"counter", "cross"};
  bool isotonic = true;
  double counter_rate = 1e-3;
  std::size_t replay_bytes_max = 100 * 9 * sizeof(float);  // 100 rows
};

std::unique_ptr<OnlineTrainer> make_trainer(const Options& options) {
  model::ModelConfig shape = testing::small_config();
  shape.towers = options.towers;
  StepConfig config = testing::small_step();
  config.threads = options.threads;
  config.towers.counter_rate = options.counter_rate;
  config.towers.replay_bytes_max = options.replay_bytes_max;
  if (options.isotonic) {
    shape.isotonic_knots = kIsotonicKnots;
    config.optimizer.calibration = CalibrationKind::kIsotonic;
  }
  auto trainer = OnlineTrainer::create(*model::make_model(shape), config);
  EXPECT_TRUE(trainer.has_value()) << trainer.error().message;
  return *std::move(trainer);
}

void learn_all(OnlineTrainer& trainer, std::span<const DecodedExample> examples) {
  for (std::size_t begin = 0; begin < examples.size(); begin += 16) {
    std::vector<const DecodedExample*> batch;
    for (std::size_t i = begin; i < std::min(examples.size(), begin + 16); ++i) {
      batch.push_back(&examples[i]);
    }
    trainer.learn(batch);
  }
}

std::vector<DecodedExample> stream(std::size_t examples, std::size_t candidates = 1) {
  return testing::decode_all(
      testing::make_examples({.examples = examples, .candidates = candidates}));
}

std::string state_of(const OnlineTrainer& trainer) {
  std::string bytes;
  trainer.append_to(bytes);
  return bytes;
}

TEST(TowerTrainer, TheBytesDoNotDependOnTheNumberOfThreads) {
  const tbb::global_control allow(tbb::global_control::max_allowed_parallelism, 8);
  const auto examples = stream(1'200, 2);  // enough for the cross tower's first edges
  std::vector<std::string> states;
  std::vector<std::string> files;
  for (const std::size_t threads : {1U, 2U, 8U}) {
    const auto trainer = make_trainer({.threads = threads});
    learn_all(*trainer, examples);
    states.push_back(state_of(*trainer));
    files.push_back(model::encode_model(trainer->model()));
  }
  EXPECT_TRUE(states[0] == states[1]);
  EXPECT_TRUE(states[0] == states[2]);
  EXPECT_TRUE(files[0] == files[1]);
  EXPECT_TRUE(files[0] == files[2]);
}

TEST(TowerTrainer, ARestoredTrainerGoesOnAsIfNothingHadHappened) {
  const auto examples = stream(1'600);
  const auto undisturbed = make_trainer({});
  learn_all(*undisturbed, examples);
  const auto first = make_trainer({});
  learn_all(*first, std::span(examples).first(800));
  const auto second = make_trainer({});
  const auto restored = second->restore(state_of(*first));
  ASSERT_TRUE(restored.has_value()) << restored.error().message;
  learn_all(*second, std::span(examples).subspan(800));
  EXPECT_TRUE(state_of(*second) == state_of(*undisturbed));
  EXPECT_TRUE(model::encode_model(second->model()) == model::encode_model(undisturbed->model()));
}

TEST(TowerTrainer, TheCheckpointStaysBounded) {
  const auto trainer = make_trainer({.towers = {"counter"}});
  learn_all(*trainer, stream(1'600));
  const std::size_t before = state_of(*trainer).size();
  learn_all(*trainer, stream(1'600));
  EXPECT_EQ(state_of(*trainer).size(), before);
}

TEST(TowerTrainer, EachTowerLearns) {
  for (const char* tower : {"counter", "cross"}) {
    const auto trainer = make_trainer({.towers = {tower}, .isotonic = false, .counter_rate = 0.01});
    const auto examples = stream(4'000);
    learn_all(*trainer, examples);
    const auto ranker = model::make_ranker(trainer->model().config);
    model::Workspace workspace;
    double clicked = 0;
    double others = 0;
    std::size_t n_clicked = 0;
    for (std::size_t i = 3'000; i < 4'000; ++i) {
      const model::Slate* const one = &examples[i].slate;
      (void)(*ranker)->forward(trainer->model(), std::span(&one, 1), workspace);
      const auto logits = (*ranker)->tower_logits(trainer->model(), std::span(&one, 1), workspace);
      const float z = logits.counter.empty() ? logits.cross[0] : logits.counter[0];
      const bool always = examples[i].item_ids[0] == "i3";
      (always ? clicked : others) += z;
      n_clicked += always ? 1 : 0;
    }
    clicked /= static_cast<double>(n_clicked);
    others /= static_cast<double>(1'000 - n_clicked);
    EXPECT_GT(clicked, others + 1.0) << tower;
  }
}

TEST(TowerTrainer, TheCounterTowerIsTheLiveBaseline) {
  const auto trainer = make_trainer({.towers = {"counter"}});
  learn_all(*trainer, stream(320));
  const auto baseline = trainer->counter_progressive();
  ASSERT_EQ(baseline.size(), 3U);
  EXPECT_EQ(baseline[0].cells_total, 320U);
  EXPECT_TRUE(std::isfinite(baseline[0].normalized_entropy));
  EXPECT_NE(baseline[0].log_loss, trainer->progressive()[0].log_loss);
  EXPECT_TRUE(make_trainer({.towers = {}})->counter_progressive().empty());
}

TEST(TowerTrainer, WithoutReplayNothingIsDrawn) {
  model::ModelConfig shape = testing::small_config();
  shape.towers = {"counter"};
  StepConfig config = testing::small_step();
  config.towers.replay_batches = 0;
  const auto plain = *OnlineTrainer::create(*model::make_model(shape), config);
  config.towers.replay_batches = 2;
  const auto replaying = *OnlineTrainer::create(*model::make_model(shape), config);
  const auto examples = stream(320);
  learn_all(*plain, examples);
  learn_all(*replaying, examples);
  // The transformer is the same, the tower is not: no gradient passes between them.
  const model::Model& a = plain->model();
  const model::Model& b = replaying->model();
  for (const model::TensorSpec& spec : a.layout.tensors) {
    const auto x = a.tensor(spec.name);
    const auto y = b.tensor(spec.name);
    const bool equal = std::equal(x.begin(), x.end(), y.begin());
    EXPECT_EQ(equal, !spec.name.starts_with("counter.")) << spec.name;
  }
}

TEST(TowerTrainer, AnExplodingTowerSkipsTheWholeBatch) {
  for (const char* tower : {"counter", "cross"}) {
    const auto trainer = make_trainer({.towers = {tower}});
    auto examples = stream(64);
    learn_all(*trainer, std::span(examples).first(48));
    const std::string before = model::encode_model(trainer->model());
    std::vector<const DecodedExample*> batch;
    for (std::size_t i = 48; i < 64; ++i) batch.push_back(&examples[i]);
    TowerTrainer own(trainer->model(), trainer->config());
    examples[50].labels.weight[0] = std::numeric_limits<float>::infinity();
    EXPECT_FALSE(own.prepare(trainer->model(), batch)) << tower;
    EXPECT_FALSE(trainer->learn(batch).learned);
    EXPECT_EQ(trainer->batches_skipped(), 1U);
    EXPECT_TRUE(model::encode_model(trainer->model()) == before) << tower;
  }
}

TEST(TowerTrainer, WeightsThatExplodeInTheTowerAloneAreNotPassedOn) {
  const auto trainer = make_trainer({.towers = {"counter"}, .isotonic = false});
  auto examples = stream(512);
  learn_all(*trainer, std::span(examples).first(256));
  // Weights that are finite one by one, whose products are not: only the tower overflows.
  model::Model model = trainer->model();
  for (float& w : model.tensor("counter.1.weight")) w = 1e30F;
  for (float& w : model.tensor("counter.2.weight")) w = 1e30F;
  TowerTrainer own(model, trainer->config());
  std::vector<const DecodedExample*> batch;
  for (std::size_t i = 256; i < 272; ++i) batch.push_back(&examples[i]);
  const std::vector<float> before = model.dense;
  EXPECT_FALSE(own.prepare(model, batch));
  EXPECT_EQ(model.dense, before);
}

TEST(TowerTrainer, AModelWithoutKnotsRefusesIsotonicCalibration) {
  StepConfig config = testing::small_step();
  config.optimizer.calibration = CalibrationKind::kIsotonic;
  const auto refused = OnlineTrainer::create(testing::small_model(), config);
  ASSERT_FALSE(refused.has_value());
  EXPECT_NE(refused.error().message.find("isotonic"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::trainer
