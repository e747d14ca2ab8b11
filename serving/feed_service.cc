#include "serving/feed_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <random>
#include <unordered_map>

#include "base/hash.h"
#include "features/example_format/context_schema.h"
#include "features/feature_reader.h"
#include "serving/filter.h"
#include "serving/model_slot.h"
#include "serving/request_log.h"
#include "serving/request_record.h"
#include "serving/scorer.h"
#include "serving/selector.h"
#include "serving/source.h"
#include "serving/why.h"

namespace sirenfeed::serving {

using base::ErrorCode;
using base::fail;
using Steady = std::chrono::steady_clock;

namespace {

/// Sources are asked again with these factors while the filters leave fewer than the feed needs: a
/// user who has seen the newest 150 items still gets the next ones.
constexpr std::size_t kWidenings[] = {1, 4, 16};

std::int64_t us_between(Steady::time_point begin, Steady::time_point end) {
  return std::chrono::duration_cast<std::chrono::microseconds>(end - begin).count();
}

base::Result<void> check_id(std::string_view field, std::string_view id, std::size_t bytes_max) {
  if (id.empty()) return fail(ErrorCode::kInvalidArgument, "{}: is empty", field);
  if (id.size() > bytes_max) {
    return fail(ErrorCode::kInvalidArgument, "{}: is longer than id_bytes_max ({})", field,
                bytes_max);
  }
  return {};
}

/// One request on its way through the stages.
struct Run {
  std::string request_id;
  std::uint64_t seed = 0;
  base::UnixMs now_ms = 0;
  std::string surface;
  features::UserSnapshot user;
  std::optional<base::UnixMs> erased_ms;  // of the user, before the history was read
  std::unordered_set<Key> excluded;
  ModelSlot::Snapshot snapshot;
  std::optional<std::string> degraded;
  Steady::time_point begin = Steady::now();
  Steady::time_point mark = begin;
  std::int64_t stage_us[kStages] = {};
  std::vector<SourceCount> sources;
  std::size_t candidates = 0;
  std::vector<RemovedCandidate> removed;

  /// Books the time since the last call on `stage`.
  void end_stage(Stage stage) {
    const auto now = Steady::now();
    stage_us[static_cast<std::size_t>(stage)] += us_between(mark, now);
    mark = now;
  }
};

}  // namespace

struct FeedService::Impl {
  Impl(const FeedConfig& feed_config, const Parts& feed_parts)
      : config(feed_config),
        parts(feed_parts),
        sources(default_sources()),
        filters_of_feed(feed_filters(feed_config.filters)),
        filters_of_rank(rank_filters()),
        selector(feed_config.selector),
        context_schema(features::schema_hash(feed_parts.features.feature_names())) {
    std::random_device device;
    process_id = (static_cast<std::uint64_t>(device()) << 32U) | device();
  }

  base::Result<Run> begin(const std::string& user_id, const std::optional<std::string>& surface);
  FeedContext context_of(const Run& run, std::size_t widen) const;
  std::vector<Candidate> gather_and_filter(Run& run, std::size_t count) const;
  std::vector<Candidate> caller_candidates(Run& run, const std::vector<std::string>& items) const;
  ScoredSlate score(Run& run, std::vector<Candidate> candidates);
  void recheck(Run& run, const ScoredSlate& slate, Selection& selection) const;
  bool erased_since(const Run& run) const;
  FeedItem item_of(const Run& run, const ScoredSlate& slate, const SelectedItem& selected,
                   bool explained) const;
  FeedAnswer answer(Run& run, const ScoredSlate& slate, const Selection& selection, bool explained);
  void record(const Run& run, const ScoredSlate& slate, const Selection& selection) const;
  base::Result<FeedAnswer> feed_once(const FeedRequest& request, std::size_t count, bool& erased);
  base::Result<FeedAnswer> rank_once(const RankRequest& request, bool& erased);

  const FeedConfig config;
  const Parts parts;
  const SourceList sources;
  const FilterList filters_of_feed;
  const FilterList filters_of_rank;
  const Selector selector;
  const std::uint64_t context_schema;
  std::uint64_t process_id = 0;
  std::atomic<std::uint64_t> requests = 0;
  WorkspacePool workspaces;
};

base::Result<Run> FeedService::Impl::begin(const std::string& user_id,
                                           const std::optional<std::string>& surface) {
  SF_TRY(check_id("user", user_id, config.id_bytes_max));
  if (surface) SF_TRY(check_id("surface", *surface, config.id_bytes_max));
  Run run;
  run.request_id = fmt::format("{:016x}-{}", process_id, requests.fetch_add(1));
  run.seed = config.selector.seed ^ base::xxh3_64(run.request_id);
  run.surface = surface.value_or(config.surface_default);
  run.now_ms = parts.clock.now_ms();
  SF_ASSIGN(run.erased_ms, parts.features.erased_at(user_id));
  SF_ASSIGN(run.user, parts.features.read_user(user_id, run.now_ms));
  run.snapshot = parts.models.current();
  run.end_stage(Stage::kUser);
  return run;
}

FeedContext FeedService::Impl::context_of(const Run& run, std::size_t widen) const {
  return {.config = config,
          .features = parts.features,
          .user = run.user,
          .now_ms = run.now_ms,
          .surface = run.surface,
          .excluded = run.excluded,
          .seed = run.seed,
          .widen = widen};
}

std::vector<Candidate> FeedService::Impl::gather_and_filter(Run& run, std::size_t count) const {
  std::vector<Candidate> kept;
  std::size_t before = 0;
  for (const std::size_t widen : kWidenings) {
    const FeedContext context = context_of(run, widen);
    Gathered gathered = gather(sources, context);
    run.end_stage(Stage::kSources);
    run.candidates = gathered.candidates.size();
    run.sources = std::move(gathered.counts);
    Filtered filtered = filter(filters_of_feed, context, std::move(gathered.candidates));
    run.end_stage(Stage::kFilters);
    kept = std::move(filtered.kept);
    run.removed = std::move(filtered.removed);
    if (kept.size() >= 2 * count || run.candidates == before) break;
    before = run.candidates;
  }
  for (std::size_t i = config.sources.candidates_max; i < kept.size(); ++i) {
    run.removed.push_back({std::move(kept[i]), "candidates_max"});
  }
  kept.resize(std::min(kept.size(), config.sources.candidates_max));
  return kept;
}

std::vector<Candidate> FeedService::Impl::caller_candidates(
    Run& run, const std::vector<std::string>& items) const {
  std::vector<Candidate> candidates;
  std::unordered_set<Key> known;
  for (const std::string& id : items) {
    Candidate candidate{.item = base::xxh3_64(id),
                        .info = parts.features.item(std::string_view(id)),
                        .source = "caller",
                        .source_rank = candidates.size()};
    if (!candidate.info) {
      // Scored by what an unknown item is; it needs its name for the answer.
      auto stub = std::make_shared<features::CatalogItem>();
      stub->id = id;
      stub->hash = candidate.item;
      candidate.info = std::move(stub);
    }
    if (known.insert(candidate.item).second) {
      candidates.push_back(std::move(candidate));
    } else {
      run.removed.push_back({std::move(candidate), "repeated"});
    }
  }
  run.sources.push_back({.name = "caller", .given = items.size(), .took_us = 0});
  run.candidates = items.size();
  run.end_stage(Stage::kSources);
  Filtered filtered = filter(filters_of_rank, context_of(run, 1), std::move(candidates));
  std::move(filtered.removed.begin(), filtered.removed.end(), std::back_inserter(run.removed));
  run.end_stage(Stage::kFilters);
  return std::move(filtered.kept);
}

ScoredSlate FeedService::Impl::score(Run& run, std::vector<Candidate> candidates) {
  const FeedContext context = context_of(run, 1);
  if (run.snapshot) {
    const SirenScorer scorer(run.snapshot, workspaces);
    // A copy, for the case that the model cannot score: shared pointers and integers only.
    auto slate = scorer.run_scorer(context, candidates);
    if (slate) {
      run.stage_us[static_cast<std::size_t>(Stage::kFeatures)] = slate->features_us;
      run.stage_us[static_cast<std::size_t>(Stage::kScorer)] = slate->scorer_us;
      run.mark = Steady::now();
      return *std::move(slate);
    }
    run.degraded = slate.error().message;
    run.snapshot = nullptr;
  } else {
    run.degraded = "no model yet: ordered by popularity and freshness";
  }
  auto slate = ColdScorer().run_scorer(context, std::move(candidates));
  run.end_stage(Stage::kScorer);
  return *std::move(slate);  // the cold scorer has no failure
}

/// A takedown that was applied while the request ran holds for it too.
void FeedService::Impl::recheck(Run& run, const ScoredSlate& slate, Selection& selection) const {
  std::erase_if(selection.selected, [&](const SelectedItem& selected) {
    const Candidate& candidate = slate.scored[selected.index].candidate;
    const features::CatalogItemPtr now = parts.features.item(candidate.item);
    if (!now || !(now->taken_down() || now->hidden)) return false;
    run.removed.push_back({candidate, now->hidden ? "hidden" : "taken_down"});
    return true;
  });
}

/// An erasure that was applied while the request ran: its history may not be used.
bool FeedService::Impl::erased_since(const Run& run) const {
  const auto erased = parts.features.erased_at(run.user.user_id);
  return erased && *erased != run.erased_ms;
}

FeedItem FeedService::Impl::item_of(const Run& run, const ScoredSlate& slate,
                                    const SelectedItem& selected, bool explained) const {
  const ScoredCandidate& scored = slate.scored[selected.index];
  FeedItem item{.item_id = item_name(scored.candidate),
                .score = scored.utility,
                .probabilities = {},
                .source = std::string(scored.candidate.source),
                .explored = selected.explored,
                .propensity = selected.propensity,
                .known = false,
                .why = {},
                .title = {},
                .url = {},
                .image_url = {},
                .author_id = {},
                .tags = {},
                .published_at_ms = {}};
  for (std::size_t task = 0; task < scored.probabilities.size(); ++task) {
    item.probabilities.emplace_back(run.snapshot->model.config.tasks[task],
                                    scored.probabilities[task]);
  }
  if (const auto& info = scored.candidate.info) {
    item.known = info->known;
    item.title = info->title;
    item.url = info->url;
    item.image_url = info->image_url;
    item.author_id = info->author_id;
    item.tags = info->tags;
    item.published_at_ms = info->published_ms;
  }
  if (explained) {
    const auto row =
        std::span(slate.context).subspan(selected.index * slate.context_width, slate.context_width);
    item.why = explain(context_of(run, 1), scored, row, run.snapshot.get());
    if (selected.explored) item.why.push_back("this slot was drawn at random, to learn");
  }
  return item;
}

FeedAnswer FeedService::Impl::answer(Run& run, const ScoredSlate& slate, const Selection& selection,
                                     bool explained) {
  FeedAnswer answer;
  answer.request_id = run.request_id;
  answer.user_id = run.user.user_id;
  answer.time_ms = run.now_ms;
  answer.model_version = run.snapshot ? run.snapshot->manifest.version : 0;
  answer.degraded = run.degraded;
  answer.history_items = run.user.history.tokens.size();
  for (const SelectedItem& selected : selection.selected) {
    answer.items.push_back(item_of(run, slate, selected, explained));
  }
  for (const RemovedCandidate& removed : run.removed) {
    answer.removed.push_back({item_name(removed.candidate), std::string(removed.reason)});
  }
  for (std::size_t i = 0; i < selection.left_out.size(); ++i) {
    if (selection.left_out[i].empty()) continue;
    answer.removed.push_back(
        {item_name(slate.scored[i].candidate), std::string(selection.left_out[i])});
  }
  run.end_stage(Stage::kSelector);
  answer.took_us = us_between(run.begin, run.mark);
  DebugReport& debug = answer.debug.emplace();
  debug.candidates = run.candidates;
  for (const SourceCount& source : run.sources) {
    debug.sources.push_back({std::string(source.name), source.given, source.took_us});
  }
  const ServingProbe& probe = parts.probe;
  for (std::size_t stage = 0; stage < kStages; ++stage) {
    debug.stages_us.emplace_back(stage_name(static_cast<Stage>(stage)), run.stage_us[stage]);
    probe.stage_latency[stage].observe(static_cast<double>(run.stage_us[stage]) * 1e-6);
  }
  probe.feed_latency.observe(static_cast<double>(answer.took_us) * 1e-6);
  if (run.degraded) probe.degraded.add();
  return answer;
}

void FeedService::Impl::record(const Run& run, const ScoredSlate& slate,
                               const Selection& selection) const {
  std::size_t explored = 0;
  for (const SelectedItem& selected : selection.selected) explored += selected.explored ? 1 : 0;
  parts.probe.items_served.add(selection.selected.size());
  parts.probe.items_explored.add(explored);
  if (parts.requests == nullptr) return;
  RequestRecord record{.request_id = run.request_id,
                       .user_id = run.user.user_id,
                       .time_ms = run.now_ms,
                       .surface = run.surface,
                       .model_version = run.snapshot ? run.snapshot->manifest.version : 0,
                       .degraded = run.degraded,
                       .context_schema = context_schema,
                       .items = {},
                       .erased_ms = run.erased_ms,
                       .inputs = {}};
  std::vector<features::ServedItem> served;
  std::vector<float> context;
  for (const SelectedItem& selected : selection.selected) {
    FeedItem item = item_of(run, slate, selected, false);
    const auto row =
        std::span(slate.context).subspan(selected.index * slate.context_width, slate.context_width);
    record.items.push_back({.item_id = std::move(item.item_id),
                            .score = item.score,
                            .propensity = item.propensity,
                            .explored = item.explored,
                            .source = std::move(item.source),
                            .probabilities = std::move(item.probabilities),
                            .context = {row.begin(), row.end()}});
    const Candidate& candidate = slate.scored[selected.index].candidate;
    served.push_back({candidate.item, candidate.info, selected.propensity});
    context.insert(context.end(), row.begin(), row.end());
  }
  if (!context.empty()) {
    record.inputs = parts.features.served_inputs(run.user, run.surface, served, context);
  }
  parts.requests->write(std::move(record));
}

base::Result<FeedAnswer> FeedService::Impl::feed_once(const FeedRequest& request, std::size_t count,
                                                      bool& erased) {
  SF_ASSIGN(Run run, begin(request.user_id, request.surface));
  for (const std::string& id : request.exclude) run.excluded.insert(base::xxh3_64(id));
  std::vector<Candidate> candidates = gather_and_filter(run, count);
  const ScoredSlate slate = score(run, std::move(candidates));
  Selection selection = selector.run_selector(slate.scored, count, run.seed);
  recheck(run, slate, selection);
  erased = erased_since(run);
  FeedAnswer answer = this->answer(run, slate, selection, request.explain);
  if (!erased) record(run, slate, selection);
  if (!request.debug) {
    answer.debug.reset();
    answer.removed.clear();
  }
  return answer;
}

base::Result<FeedAnswer> FeedService::Impl::rank_once(const RankRequest& request, bool& erased) {
  SF_ASSIGN(Run run, begin(request.user_id, request.surface));
  std::vector<Candidate> candidates = caller_candidates(run, request.items);
  const ScoredSlate slate = score(run, std::move(candidates));
  Selection selection;
  for (const std::size_t index : rank_order(slate.scored)) {
    selection.selected.push_back({.index = index});
  }
  recheck(run, slate, selection);
  erased = erased_since(run);
  FeedAnswer answer = this->answer(run, slate, selection, request.explain);
  answer.debug.reset();
  return answer;
}

FeedService::FeedService(const FeedConfig& config, Parts parts)
    : impl_(std::make_unique<Impl>(config, parts)) {}

FeedService::~FeedService() = default;

base::Result<FeedAnswer> FeedService::feed(const FeedRequest& request) {
  const FeedConfig& config = impl_->config;
  const std::size_t count = request.count.value_or(config.count_default);
  if (count < 1 || count > config.count_max) {
    return fail(ErrorCode::kInvalidArgument, "count: {} is not 1 to {}", count, config.count_max);
  }
  if (request.exclude.size() > config.exclude_max) {
    return fail(ErrorCode::kInvalidArgument, "exclude: {} items are more than exclude_max ({})",
                request.exclude.size(), config.exclude_max);
  }
  for (const std::string& id : request.exclude) {
    SF_TRY(check_id("exclude", id, config.id_bytes_max));
  }
  bool erased = false;
  auto answer = impl_->feed_once(request, count, erased);
  if (answer && erased) answer = impl_->feed_once(request, count, erased);
  if (answer) impl_->parts.probe.feeds.add();
  return answer;
}

base::Result<FeedAnswer> FeedService::rank(const RankRequest& request) {
  const FeedConfig& config = impl_->config;
  if (request.items.empty()) return fail(ErrorCode::kInvalidArgument, "items: is empty");
  if (request.items.size() > config.rank_items_max) {
    return fail(ErrorCode::kTooLarge, "items: {} are more than rank_items_max ({})",
                request.items.size(), config.rank_items_max);
  }
  for (std::size_t i = 0; i < request.items.size(); ++i) {
    SF_TRY(check_id(fmt::format("items[{}]", i), request.items[i], config.id_bytes_max));
  }
  bool erased = false;
  auto answer = impl_->rank_once(request, erased);
  if (answer && erased) answer = impl_->rank_once(request, erased);
  if (answer) impl_->parts.probe.ranks.add();
  return answer;
}

}  // namespace sirenfeed::serving
