// T_ref moves without a jump: ten years of event time, a shift every 21 days.
#include <cmath>

#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

constexpr std::int64_t kDayMs = 86'400'000;

/// time_embedding adds W·0 + b to a token without time, so that b's share of a shift moves it: the
/// variant has no jump only where times are known.
void give_times(std::vector<Slate>& slates) {
  for (Slate& slate : slates) {
    if (slate.time_ms == kUnknownTime) slate.time_ms = slates[0].time_ms;
    for (std::size_t i = 0; i < slate.history.size(); ++i) {
      std::int64_t& time_ms = slate.history[i].time_ms;
      if (time_ms == kUnknownTime) time_ms = slate.time_ms - static_cast<std::int64_t>(i) * kDayMs;
    }
  }
}

class TenYears : public testing::TestWithParam<Variant> {};

TEST_P(TenYears, NoShiftChangesAScoreBeyondRounding) {
  const ModelConfig config = test::small_config(GetParam());
  Model model = *make_model(config);
  test::perturb(model, 17);
  const auto ranker = make_ranker(config);
  Workspace workspace;
  std::vector<Slate> slates = test::seeded_slates(config, 5, 23);
  if (GetParam() == Variant::kTimeEmbedding) give_times(slates);
  // Histories of at most eight days: the clamp at one span does not act on either side of a shift.
  const auto scores_at = [&](std::int64_t now_ms) {
    std::vector<float> all;
    for (Slate& slate : slates) {
      if (slate.time_ms != kUnknownTime) {
        const std::int64_t moved_ms = now_ms - slate.time_ms;
        slate.time_ms = now_ms;
        for (std::size_t i = 0; i < slate.history.size(); ++i) {
          std::int64_t& time_ms = slate.history[i].time_ms;
          if (time_ms != kUnknownTime) time_ms += moved_ms;
        }
      }
      std::vector<float> logits(slate.candidates.size() * config.n_tasks());
      EXPECT_TRUE(score(**ranker, model, slate, workspace, logits));
      all.insert(all.end(), logits.begin(), logits.end());
    }
    return all;
  };
  const std::int64_t begin_ms = config.time_reference_ms;
  int shifts = 0;
  double worst = 0;
  float least = 0;
  float most = 0;
  for (std::int64_t day = 1; day <= 3652; ++day) {
    const std::int64_t now_ms = begin_ms + day * kDayMs + 1;
    if (now_ms - model.config.time_reference_ms <= config.time_span_ms / 2) continue;
    const std::vector<float> before = scores_at(now_ms);
    const int moved = shift_time_reference(model, now_ms);
    ASSERT_EQ(moved, 1);
    shifts += moved;
    EXPECT_EQ(model.config.time_reference_ms, begin_ms + shifts * config.time_span_ms / 2);
    const std::vector<float> after = scores_at(now_ms);
    for (std::size_t i = 0; i < before.size(); ++i) {
      worst = std::max(worst, static_cast<double>(std::abs(after[i] - before[i])));
      least = std::min(least, after[i]);
      most = std::max(most, after[i]);
    }
  }
  EXPECT_EQ(shifts, 173);  // every 21 days
  EXPECT_GT(most - least, 0.1);
  EXPECT_LE(worst, 2e-4);
}

INSTANTIATE_TEST_SUITE_P(TimeReference, TenYears,
                         testing::Values(Variant::kSiren, Variant::kSirenTemporal,
                                         Variant::kSirenSineOnly, Variant::kSirenReluOnly,
                                         Variant::kSirenLinear, Variant::kSirenTimeBias,
                                         Variant::kSirenAlibiTime, Variant::kTimeEmbedding,
                                         Variant::kSirenHierarchical, Variant::kSirenDiscovery,
                                         Variant::kOrdinal),
                         [](const auto& info) { return std::string(variant_name(info.param)); });

// The test above must be able to fail.
TEST(TimeReference, AShiftWithoutItsBiasIsFound) {
  const ModelConfig config = test::small_config(Variant::kSiren);
  Model model = *make_model(config);
  test::perturb(model, 17);
  const auto ranker = make_ranker(config);
  Workspace workspace;
  const std::vector<Slate> slates = test::seeded_slates(config, 1, 23);
  std::vector<float> before(slates[0].candidates.size() * config.n_tasks());
  std::vector<float> after(before.size());
  ASSERT_TRUE(score(**ranker, model, slates[0], workspace, before));
  model.config.time_reference_ms += config.time_span_ms / 2;
  ASSERT_TRUE(score(**ranker, model, slates[0], workspace, after));
  double worst = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    worst = std::max(worst, static_cast<double>(std::abs(after[i] - before[i])));
  }
  EXPECT_GT(worst, 1e-3);
}

}  // namespace
}  // namespace sirenfeed::model
