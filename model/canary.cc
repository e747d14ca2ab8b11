#include "model/canary.h"

#include <algorithm>
#include <cmath>

namespace sirenfeed::model {

using base::ErrorCode;
using base::fail;

namespace {
constexpr double kCanaryTolerance = 1e-3;
}  // namespace

std::vector<Slate> canary_slates(const Model& model) {
  constexpr std::size_t kKeys = 8;
  const auto keys_of = [&](TableId id) {
    // In key order, which does not depend on how the table came to be.
    std::vector<Key> keys = model.table(id).smallest_keys(kKeys);
    keys.push_back(1);  // and one that has no row, most likely
    return keys;
  };
  const std::vector<Key> items = keys_of(TableId::kItem);
  const std::vector<Key> tags = keys_of(TableId::kTag);
  const std::vector<Key> authors = keys_of(TableId::kAuthor);
  std::vector<Slate> slates(2);  // with a history and without
  for (std::size_t s = 0; s < slates.size(); ++s) {
    Slate& slate = slates[s];
    slate.time_ms = model.config.time_reference_ms + model.config.time_span_ms / 4;
    const auto item = [&](std::size_t i) {
      const auto begin = static_cast<std::uint32_t>(slate.tags.size());
      slate.tags.push_back(tags[i % tags.size()]);
      slate.tags.push_back(tags[(i + 1) % tags.size()]);
      return ItemRef{items[i % items.size()], authors[i % authors.size()], begin, begin + 2};
    };
    const std::size_t tokens =
        s == 0 ? 0 : std::min<std::size_t>(12, static_cast<std::size_t>(model.config.history_max));
    for (std::size_t i = 0; i < tokens; ++i) {
      const auto age_ms = static_cast<std::int64_t>((tokens - i) * (tokens - i)) * 1'234'567;
      slate.history.push_back({item(i), slate.time_ms - age_ms, static_cast<std::uint32_t>(i)});
    }
    for (std::size_t c = 0; c < 4; ++c) slate.candidates.push_back(item(c + 5));
    for (std::size_t i = 0; i < 4 * model.config.context_row_width(); ++i) {
      slate.context.push_back(static_cast<float>(std::sin(static_cast<double>(i))));
    }
  }
  return slates;
}

base::Result<std::vector<double>> score_canaries(const Model& model, const Ranker& ranker) {
  Workspace workspace;
  std::vector<double> all;
  for (const Slate& slate : canary_slates(model)) {
    std::vector<float> logits(slate.candidates.size() * model.config.n_tasks());
    SF_TRY(score(ranker, model, slate, workspace, logits));
    for (const float logit : logits) {
      if (!std::isfinite(logit)) {
        return fail(ErrorCode::kCorrupt, "canary scoring gives a logit that is not finite");
      }
      all.push_back(static_cast<double>(logit));
    }
  }
  return all;
}

base::Result<void> check_canaries(const std::vector<double>& expected,
                                  const std::vector<double>& actual) {
  if (expected.size() != actual.size()) {
    return fail(ErrorCode::kCorrupt, "canary scoring gives {} logits, the manifest has {}",
                actual.size(), expected.size());
  }
  for (std::size_t i = 0; i < actual.size(); ++i) {
    const double allowed = kCanaryTolerance * std::max(1.0, std::abs(expected[i]));
    if (!(std::abs(actual[i] - expected[i]) <= allowed)) {
      return fail(ErrorCode::kCorrupt, "canary logit {} is {}, the manifest has {}", i, actual[i],
                  expected[i]);
    }
  }
  return {};
}

}  // namespace sirenfeed::model
