#include "serving/scorer.h"

namespace sirenfeed::serving {

namespace {

/// Bands below each other, so that every popular item precedes every fresh one. The caller's own
/// candidates keep the caller's order.
double band(std::string_view source) {
  if (source == "popular" || source == "caller") return 3;
  if (source == "fresh") return 2;
  if (source == "exploration") return 0;
  return 1;
}

}  // namespace

base::Result<ScoredSlate> ColdScorer::run_scorer(const FeedContext&,
                                                 std::vector<Candidate> candidates) const {
  ScoredSlate slate;
  slate.scored.reserve(candidates.size());
  for (Candidate& candidate : candidates) {
    const double place = 1.0 / (1.0 + static_cast<double>(candidate.source_rank));
    const double utility = (band(candidate.source) + place) / 4.0;
    slate.scored.push_back(
        {.candidate = std::move(candidate), .utility = utility, .probabilities = {}});
  }
  return slate;
}

}  // namespace sirenfeed::serving
