#include "serving/why.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace sirenfeed::serving {

namespace {

/// Contributions to the logit below this are not worth a sentence.
constexpr double kContributionMin = 0.02;
constexpr std::size_t kFeaturesMax = 2;

std::string reason_name(const Candidate& candidate) {
  if (!candidate.info) return {};
  if (candidate.reason == candidate.info->author) return candidate.info->author_id.value_or("");
  for (std::size_t i = 0; i < candidate.info->tag_keys.size(); ++i) {
    if (candidate.info->tag_keys[i] == candidate.reason) return candidate.info->tags[i];
  }
  return {};
}

std::string age_text(base::UnixMs age_ms) {
  const double hours = static_cast<double>(age_ms) / static_cast<double>(base::kMsPerHour);
  if (hours < 1) return fmt::format("{:.0f} min ago", std::max(0.0, hours * 60));
  if (hours < 48) return fmt::format("{:.0f} h ago", hours);
  return fmt::format("{:.0f} days ago", hours / 24);
}

std::string source_sentence(const FeedContext& request, const Candidate& candidate) {
  if (candidate.source == "topics") {
    return fmt::format("source: new in topic {}, which you click", reason_name(candidate));
  }
  if (candidate.source == "authors") {
    return fmt::format("source: new by {}, whom you click", reason_name(candidate));
  }
  if (candidate.source == "popular") {
    return fmt::format("source: number {} of what is clicked now", candidate.source_rank + 1);
  }
  if (candidate.source == "fresh" && candidate.info) {
    const base::UnixMs at = candidate.info->published_ms.value_or(candidate.info->updated_ms);
    return fmt::format("source: fresh, published {}", age_text(request.now_ms - at));
  }
  return fmt::format("source: {}", candidate.source);
}

/// "your history: 4 of topic sport, 2 of them acted on, the last one 3 h ago".
void history_sentences(const FeedContext& request, const Candidate& candidate,
                       std::vector<std::string>& why) {
  if (!candidate.info) return;
  struct Match {
    std::size_t shown = 0;
    std::size_t acted = 0;
    base::UnixMs last_ms = 0;
    void add(const features::HistoryToken& token) {
      ++shown;
      if (token.action_bits != 0) ++acted;
      last_ms = std::max(last_ms, token.time_ms);
    }
  };
  Match topic;
  Match author;
  const Key tag = candidate.info->first_tag();
  const features::History& history = request.user.history;
  for (const features::HistoryToken& token : history.tokens) {
    const auto begin = history.tags.begin() + static_cast<std::ptrdiff_t>(token.tags_begin);
    const auto end = history.tags.begin() + static_cast<std::ptrdiff_t>(token.tags_end);
    if (tag != features::kNoKey && std::find(begin, end, tag) != end) topic.add(token);
    if (candidate.info->author != features::kNoKey && token.author == candidate.info->author) {
      author.add(token);
    }
  }
  const auto say = [&](const Match& match, std::string_view kind, std::string_view name) {
    if (match.shown == 0) return;
    why.push_back(fmt::format("your history: {} shown of {} {}, {} acted on, the last {}",
                              match.shown, kind, name, match.acted,
                              age_text(request.now_ms - match.last_ms)));
  };
  say(author, "author", candidate.info->author_id.value_or(""));
  if (tag != features::kNoKey) say(topic, "topic", candidate.info->tags.front());
}

void feature_sentences(std::span<const float> context, const model::ModelSnapshot& snapshot,
                       std::vector<std::string>& why) {
  const model::Model& model = snapshot.model;
  const std::size_t width = model.config.n_context();
  if (context.size() != model.config.context_row_width() || model.config.tasks.empty() ||
      model.statistics.context_examples < model::kContextExamplesMin) {
    return;
  }
  const auto weights = model.tensor("head.wide.context_weight");
  std::vector<std::pair<double, std::size_t>> contributions;
  for (std::size_t f = 0; f < width; ++f) {
    const float spread = std::max(model.statistics.context_std[f], model::kContextStdMin);
    const float standard = std::clamp((context[f] - model.statistics.context_mean[f]) / spread,
                                      -model::kContextClamp, model::kContextClamp);
    contributions.emplace_back(static_cast<double>(weights[f] * standard), f);  // task 0
  }
  std::sort(contributions.begin(), contributions.end(),
            [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
  for (std::size_t i = 0; i < std::min(kFeaturesMax, contributions.size()); ++i) {
    const auto& [value, f] = contributions[i];
    if (std::abs(value) < kContributionMin) return;
    why.push_back(fmt::format("feature {} = {:.2f} moves the {} logit by {:+.2f}",
                              model.config.context_names[f], context[f], model.config.tasks[0],
                              value));
  }
}

}  // namespace

std::vector<std::string> explain(const FeedContext& request, const ScoredCandidate& scored,
                                 std::span<const float> context,
                                 const model::ModelSnapshot* snapshot) {
  std::vector<std::string> why;
  why.push_back(source_sentence(request, scored.candidate));
  history_sentences(request, scored.candidate, why);
  if (snapshot != nullptr && !scored.probabilities.empty()) {
    feature_sentences(context, *snapshot, why);
  }
  return why;
}

}  // namespace sirenfeed::serving
