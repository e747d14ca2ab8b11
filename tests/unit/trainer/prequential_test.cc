#include "trainer/prequential.h"

#include <gtest/gtest.h>

#include <cmath>

#include "model/loss.h"
#include "model/model_file.h"
#include "tests/unit/trainer/synthetic_examples.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::trainer {
namespace {

constexpr std::int64_t kWindowMs = 600'000;

// What features would call: the exposure at T, then the windows that T closes.
struct Call {
  bool closed = false;
  std::size_t example = 0;
};

std::vector<Call> calls_of(const std::vector<features::Example>& examples) {
  std::vector<Call> calls;
  std::size_t next_closed = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    calls.push_back({false, i});
    while (examples[next_closed].time_ms() + kWindowMs < examples[i].time_ms()) {
      calls.push_back({true, next_closed++});
    }
  }
  for (; next_closed < examples.size(); ++next_closed) calls.push_back({true, next_closed});
  return calls;
}

struct Outcome {
  std::vector<ExposureRow> rows;
  PrequentialResult result;
  std::string model;

  [[nodiscard]] float click_logit(std::size_t row) const { return result.logits[3 * row]; }
};

Outcome run(const std::vector<features::Example>& examples, std::size_t threads = 1,
            const PrequentialConfig& config = {}) {
  const model::Model start = testing::small_model();
  StepConfig step = testing::small_step();
  step.threads = threads;
  auto engine = Prequential::create(testing::small_schema(), {{"siren.1", &start, step}}, config);
  EXPECT_TRUE(engine.has_value());
  for (const Call& call : calls_of(examples)) {
    const features::Example& example = examples[call.example];
    if (call.closed) {
      EXPECT_TRUE((*engine)->on_closed(example).has_value());
    } else {
      features::Example shown = example;  // no labels are known yet
      for (auto& candidate : *shown.mutable_candidates()) candidate.set_label_bits(0);
      shown.set_sequence(0);
      EXPECT_TRUE((*engine)->on_exposure(shown).has_value());
    }
  }
  auto outcome = (*engine)->finish();
  EXPECT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->unmatched, 0U);
  return {std::move(outcome->rows), std::move(outcome->results[0]),
          model::encode_model((*engine)->model(0))};
}

// The rule once more, without queues or laziness: one exposure at a time.
std::vector<float> naive_click_logits(const std::vector<features::Example>& examples) {
  auto trainer = *OnlineTrainer::create(testing::small_model(), testing::small_step());
  const auto decoded = testing::decode_all(examples);
  std::vector<float> click_logits;
  std::vector<std::size_t> closed;
  std::size_t learned = 0;
  std::size_t may_learn = 0;  // examples closed before the first exposure of the newest T
  std::int64_t now = -1;
  for (const Call& call : calls_of(examples)) {
    if (call.closed) {
      closed.push_back(call.example);
      continue;
    }
    const DecodedExample& exposure = decoded[call.example];
    if (exposure.slate.time_ms != now) may_learn = closed.size();
    now = exposure.slate.time_ms;
    for (; learned + 16 <= may_learn; learned += 16) {
      std::vector<const DecodedExample*> batch;
      for (std::size_t i = 0; i < 16; ++i) batch.push_back(&decoded[closed[learned + i]]);
      trainer->learn(batch);
    }
    std::vector<float> logits;
    const std::vector<const model::Slate*> slates{&exposure.slate};
    trainer->score(slates, logits);
    for (std::size_t c = 0; c < exposure.item_ids.size(); ++c) {
      click_logits.push_back(logits[3 * c]);
    }
  }
  return click_logits;
}

std::vector<features::Example> stream(std::uint64_t seed = 1) {
  auto examples =
      testing::make_examples({.examples = 300, .candidates = 2, .seed = seed, .step_ms = 25'000});
  // Every third exposure shares the time of the one before.
  for (std::size_t i = 3; i < examples.size(); i += 3) {
    examples[i].set_time_ms(examples[i - 1].time_ms());
  }
  return examples;
}

TEST(Prequential, PredictsWithExactlyTheBatchesClosedBefore) {
  const auto examples = stream();
  const Outcome outcome = run(examples);
  const std::vector<float> expected = naive_click_logits(examples);
  ASSERT_EQ(outcome.rows.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(outcome.click_logit(i), expected[i]) << i;
  }
}

TEST(Prequential, FlippingEveryLabelAfterTChangesNoPredictionUpToT) {
  const auto examples = stream();
  const Outcome original = run(examples);
  for (const std::size_t cut : {0U, 57U, 150U, 151U, 299U}) {
    auto flipped = examples;
    const std::int64_t t = examples[cut].time_ms();
    for (features::Example& example : flipped) {
      if (example.time_ms() < t) continue;  // labels of exposures from T on are known after T
      for (auto& candidate : *example.mutable_candidates()) {
        candidate.set_label_bits(candidate.label_bits() ^ 7U);
      }
    }
    const Outcome changed = run(flipped);
    ASSERT_EQ(changed.rows.size(), original.rows.size());
    bool any_later_differs = false;
    for (std::size_t i = 0; i < original.rows.size(); ++i) {
      const bool same = changed.click_logit(i) == original.click_logit(i);
      if (original.rows[i].time_ms <= t) {
        ASSERT_TRUE(same) << "row " << i << " of cut " << cut;
      }
      any_later_differs = any_later_differs || !same;
    }
    EXPECT_EQ(any_later_differs, cut < 270) << cut;  // the test can fail
  }
}

TEST(Prequential, MatchesEachLabelToItsExposureAndCandidate) {
  auto examples = stream();
  // A slate that shows one item twice, with different labels.
  auto& twice = examples[10];
  *twice.mutable_candidates(1) = twice.candidates(0);
  twice.mutable_candidates(0)->set_label_bits(1);
  twice.mutable_candidates(1)->set_label_bits(2);
  // A cell that is not to be learned is not reported.
  examples[11].mutable_candidates(1)->set_mask_bits(5);
  const Outcome outcome = run(examples);
  std::size_t row = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    for (const auto& candidate : examples[i].candidates()) {
      const ExposureRow& got = outcome.rows[row++];
      EXPECT_EQ(got.item_id, candidate.item_id());
      EXPECT_EQ(got.user_id, examples[i].user_id());
      EXPECT_EQ(got.time_ms, examples[i].time_ms());
      for (std::size_t k = 0; k < 3; ++k) {
        const bool masked = (candidate.mask_bits() >> k & 1U) == 0;
        EXPECT_EQ(got.known(k), !masked);
        if (masked) continue;
        EXPECT_EQ(got.label(k), (candidate.label_bits() >> k & 1U) != 0) << i;
      }
    }
  }
  EXPECT_EQ(row, outcome.rows.size());
}

TEST(Prequential, LearnsTheIncompleteLastBatch) {
  const auto examples = stream();
  const Outcome outcome = run(examples);
  EXPECT_EQ(outcome.result.examples, 300U);
  EXPECT_EQ(outcome.result.batches, 19U);  // 18 of 16 and one of 12
  auto trainer = *OnlineTrainer::create(testing::small_model(), testing::small_step());
  const auto decoded = testing::decode_all(examples);
  for (std::size_t begin = 0; begin < 300; begin += 16) {
    std::vector<const DecodedExample*> batch;
    for (std::size_t i = begin; i < std::min<std::size_t>(300, begin + 16); ++i) {
      batch.push_back(&decoded[i]);
    }
    trainer->learn(batch);
  }
  EXPECT_EQ(outcome.model, model::encode_model(trainer->model()));
}

TEST(Prequential, ThreadsQueuesAndGroupsChangeNoByte) {
  const auto examples = stream();
  const Outcome one = run(examples);
  const Outcome other =
      run(examples, 8, {.queue_entries_max = 2, .group_examples = 3, .score_pending_max = 5});
  EXPECT_EQ(one.model, other.model);
  EXPECT_EQ(one.result.logits, other.result.logits);
}

TEST(Prequential, SeveralRunsShareOnePass) {
  const auto examples = stream();
  const Outcome alone = run(examples);
  const model::Model siren = testing::small_model();
  model::ModelConfig config = testing::small_config();
  config.variant = model::Variant::kOrdinal;
  const model::Model ordinal = *model::make_model(config);
  auto engine = *Prequential::create(
      testing::small_schema(),
      {{"ordinal.1", &ordinal, testing::small_step()}, {"siren.1", &siren, testing::small_step()}},
      {});
  for (const Call& call : calls_of(examples)) {
    const auto& example = examples[call.example];
    ASSERT_TRUE(
        (call.closed ? engine->on_closed(example) : engine->on_exposure(example)).has_value());
  }
  const auto outcome = *engine->finish();
  ASSERT_EQ(outcome.results.size(), 2U);
  EXPECT_EQ(outcome.results[0].name, "ordinal.1");
  EXPECT_EQ(outcome.results[1].logits, alone.result.logits);
  EXPECT_EQ(model::encode_model(engine->model(1)), alone.model);
  EXPECT_NE(model::encode_model(engine->model(0)), alone.model);
}

TEST(Prequential, MoreRunsThanThreadsGiveWhatEachGivesAlone) {
  const auto examples = stream();
  const Outcome alone = run(examples);
  const model::Model start = testing::small_model();
  const std::vector<PrequentialRun> runs(7, {"siren.1", &start, testing::small_step()});
  auto engine = *Prequential::create(testing::small_schema(), runs,
                                     {.threads = 2, .queue_entries_max = 2, .group_examples = 5});
  for (const Call& call : calls_of(examples)) {
    const auto& example = examples[call.example];
    ASSERT_TRUE(
        (call.closed ? engine->on_closed(example) : engine->on_exposure(example)).has_value());
  }
  const auto outcome = *engine->finish();
  ASSERT_EQ(outcome.results.size(), 7U);
  for (std::size_t i = 0; i < 7; ++i) {
    EXPECT_EQ(outcome.results[i].logits, alone.result.logits);
    EXPECT_EQ(model::encode_model(engine->model(i)), alone.model);
  }
}

TEST(Prequential, AFrozenUserIsScoredByTheSameModelAndNotLearned) {
  const auto examples = stream();
  const Outcome alone = run(examples);
  const model::Model start = testing::small_model();
  auto engine =
      *Prequential::create(testing::small_schema(), {{"siren.1", &start, testing::small_step()}},
                           {.group_examples = 5, .score_pending_max = 7});
  for (const Call& call : calls_of(examples)) {
    const auto& example = examples[call.example];
    if (call.closed) {
      ASSERT_TRUE(engine->on_closed(example).has_value());
      continue;
    }
    features::Example frozen = example;
    if (call.example % 2 == 1) frozen.clear_history();
    ASSERT_TRUE(engine->on_frozen(frozen).has_value());
    ASSERT_TRUE(engine->on_exposure(example).has_value());
  }
  const auto outcome = *engine->finish();
  const PrequentialResult& result = outcome.results[0];
  EXPECT_EQ(result.logits, alone.result.logits);
  EXPECT_EQ(model::encode_model(engine->model(0)), alone.model);
  ASSERT_EQ(result.frozen_logits.size(), result.logits.size());
  std::size_t row = 0, other = 0;
  for (std::size_t i = 0; i < examples.size(); ++i) {
    for (int c = 0; c < examples[i].candidates_size(); ++c, ++row) {
      const bool same = result.frozen_logits[3 * row] == result.logits[3 * row];
      if (i % 2 == 0) {
        EXPECT_TRUE(same) << i;
      }
      other += same ? 0 : 1;
    }
  }
  EXPECT_GT(other, 200U);
}

TEST(Prequential, ShuffledTimesChangeWhatIsLearned) {
  const auto examples = stream();
  const Outcome original = run(examples);
  const Outcome shuffled = run(examples, 1, {.shuffle_times_seed = 1});
  EXPECT_NE(original.model, shuffled.model);
  EXPECT_EQ(run(examples, 2, {.shuffle_times_seed = 1}).model, shuffled.model);
}

TEST(Prequential, AnExposureThatNeverClosesIsCountedAndLeftOut) {
  const auto examples = stream();
  const model::Model start = testing::small_model();
  auto engine = *Prequential::create(testing::small_schema(),
                                     {{"siren.1", &start, testing::small_step()}}, {});
  for (std::size_t i = 0; i < 4; ++i) ASSERT_TRUE(engine->on_exposure(examples[i]).has_value());
  ASSERT_TRUE(engine->on_closed(examples[2]).has_value());
  const auto outcome = *engine->finish();
  EXPECT_EQ(outcome.rows.size(), 2U);
  EXPECT_EQ(outcome.results[0].logits.size(), 2U * 3);
  EXPECT_EQ(outcome.rows[0].item_id, examples[2].candidates(0).item_id());
  EXPECT_EQ(outcome.unmatched, 6U);
}

TEST(Prequential, AnExampleOfAnotherSchemaIsRefused) {
  const model::Model start = testing::small_model();
  auto engine = *Prequential::create(testing::small_schema(),
                                     {{"siren.1", &start, testing::small_step()}}, {});
  features::Example example = stream()[0];
  example.set_context_schema(3);
  EXPECT_FALSE(engine->on_exposure(example).has_value());
}

TEST(Prequential, PredictionsThatAreNotFiniteAreAnErrorThatNamesTheRun) {
  model::Model start = testing::small_model();
  for (float& weight : start.tensor("head.0.weight")) weight = 3e38F;
  auto engine = Prequential::create(testing::small_schema(),
                                    {{"siren.7", &start, testing::small_step()}}, {});
  ASSERT_TRUE(engine);
  for (const features::Example& example : stream()) {
    ASSERT_TRUE((*engine)->on_exposure(example));
  }
  const auto outcome = (*engine)->finish();
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().message.find("siren.7"), std::string::npos) << outcome.error().message;
}

}  // namespace
}  // namespace sirenfeed::trainer
