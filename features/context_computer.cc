#include "features/context_computer.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "base/check.h"
#include "base/hash.h"
#include "features/context_features.h"

namespace sirenfeed::features {
namespace {

constexpr std::size_t kRecentMax = 20;
constexpr std::size_t kRecentShort = 5;
constexpr double kRateFloor = 1e-3;

// The smoothing a of FEATURES.md's table.
constexpr double kSmoothItem = 10;
constexpr double kSmoothAuthor = 10;
constexpr double kSmoothTag = 20;
constexpr double kSmoothSurface = 20;
constexpr double kSmoothItemSurface = 10;
constexpr double kSmoothUser = 4;
constexpr double kSmoothUserSurface = 4;
constexpr double kSmoothUserTag = 2;
constexpr double kSmoothUserAuthor = 2;

constexpr std::array<HalfLife, kHalfLives> kHalves = {HalfLife::kHour, HalfLife::kDay,
                                                      HalfLife::kMonth};
constexpr std::array<const char*, kHalfLives> kHalfNames = {"1h", "1d", "30d"};
constexpr std::array<const char*, 9> kEntities = {"item",         "author",       "tag",
                                                  "surface",      "item_surface", "user",
                                                  "user_surface", "user_tag",     "user_author"};

double logit(double p) { return std::log(p / (1 - p)); }
double clamp_rate(double p) { return std::clamp(p, kRateFloor, 1 - kRateFloor); }
double shrunk_rate(double hits, double prior, double shown) {
  return .98 * (hits + prior) / shown + .01;
}
double seconds_term(base::UnixMs elapsed_ms) {
  return std::log1p(static_cast<double>(elapsed_ms) / base::kMsPerSecond) / 6 - 1;
}
double phase(base::UnixMs time_ms, base::UnixMs period) {
  const base::UnixMs within = ((time_ms % period) + period) % period;
  return 2 * std::numbers::pi * static_cast<double>(within) / static_cast<double>(period);
}

// Six features of one entity: log-odds of clicks and log1p of exposures for each half-life.
void rate_terms(const CountValues& counts, double smoothing, double g, double logit_g,
                float*& out) {
  const bool never = counts.never_seen();
  for (const HalfLife half : kHalves) {
    const double shown = counts.of(Count::kShown, half);
    const double clicks = counts.of(Count::kClicks, half);
    const double rate = clamp_rate((clicks + smoothing * g) / (shown + smoothing));
    *out++ = never ? 0.0F : static_cast<float>(logit(rate) - logit_g);
    *out++ = never ? 0.0F : static_cast<float>(std::log1p(shown) / 3);
  }
}

double long_view_term(const CountValues& counts, double smoothing, double g, double logit_g) {
  if (counts.never_seen()) return 0;
  const double shown = counts.of(Count::kShown, HalfLife::kMonth);
  const double views = counts.of(Count::kLongViews, HalfLife::kMonth);
  return logit(clamp_rate((views + smoothing * g) / (shown + smoothing))) - logit_g;
}

}  // namespace

std::vector<std::string> base_context_names(const ContextConfig& config) {
  std::vector<std::string> names;
  for (const char* entity : kEntities) {
    for (const char* half : kHalfNames) {
      names.push_back(fmt::format("{}.ctr_{}", entity, half));
      names.push_back(fmt::format("{}.shown_{}", entity, half));
    }
  }
  for (const char* name :
       {"global.ctr", "user.ctr_last5", "user.ctr_last20", "user.long_view_last20",
        "user_tag.shown_last20", "user_tag.ctr_last20", "user.last_clicked", "user.since_exposure",
        "user.since_click", "item.age", "item.since_first_shown", "item.duration", "time.hour_sin",
        "time.hour_cos", "time.weekday_sin", "time.weekday_cos", "item.long_view_30d",
        "user.long_view_30d"}) {
    names.emplace_back(name);
  }
  for (const std::string& surface : config.surfaces) names.push_back("surface.is_" + surface);
  names.emplace_back("surface.is_other");
  names.emplace_back("user_item.seen");
  return names;
}

std::vector<std::string> context_feature_names(const ContextConfig& config) {
  std::vector<std::string> names = base_context_names(config);
  if (config.extended) {
    for (std::string& name : extended_context_names()) names.push_back(std::move(name));
  }
  return names;
}

std::vector<std::string> task_names(const ExampleConfig& config) {
  std::vector<std::string> names;
  for (const TaskConfig& task : config.tasks) names.push_back(task.action);
  return names;
}

// What all candidates of a request share.
struct ContextComputer::Terms {
  double g = 0;    // global click rate
  double g_v = 0;  // global long-view rate
  double logit_g = 0;
  double logit_g_v = 0;
  std::array<float, 6> surface{};
  std::array<float, 6> user{};
  std::array<float, 6> user_surface{};
  float user_long_view = 0;
  // The newest exposures, newest first.
  struct Recent {
    Key tag = kNoKey;
    bool clicked = false;
  };
  std::array<Recent, kRecentMax> recent{};
  std::size_t recent_count = 0;
  std::array<float, 3> recent_rates{};        // last5, last20, long views of last20
  std::array<float, 3> since{0, 1.5F, 1.5F};  // last clicked, since exposure, since click
  std::array<float, 4> time{};
  std::size_t surface_index = 0;  // of the one-hot; the number of surfaces: other
};

ContextComputer::ContextComputer(const ContextConfig& config, const ItemSide& item_side,
                                 ActionType click, ActionType long_view)
    : config_(config), item_side_(item_side), click_(click), long_view_(long_view) {
  for (const std::string& surface : config_.surfaces) {
    surface_keys_.push_back(base::xxh3_64(surface));
  }
  if (config_.extended) extended_.emplace(config_, item_side, click, long_view);
  base_count_ = base_context_names(config_).size();
  feature_count_ = context_feature_names(config_).size();
}

ContextComputer::Terms ContextComputer::request_terms(const ContextRequest& request) const {
  Terms terms;
  const base::UnixMs t = request.time_ms;
  const CountValues global = item_side_.counts({CounterKind::kGlobal, 0, 0}, t);
  const double shown = global.of(Count::kShown, HalfLife::kDay) + config_.prior_shown;
  terms.g = clamp_rate((global.of(Count::kClicks, HalfLife::kDay) + config_.prior_clicks) / shown);
  terms.g_v =
      clamp_rate((global.of(Count::kLongViews, HalfLife::kDay) + config_.prior_long_views) / shown);
  terms.logit_g = logit(terms.g);
  terms.logit_g_v = logit(terms.g_v);

  float* out = terms.surface.data();
  rate_terms(item_side_.counts({CounterKind::kSurface, request.surface, 0}, t), kSmoothSurface,
             terms.g, terms.logit_g, out);
  const CountValues user = request.user.total.at(t);
  out = terms.user.data();
  rate_terms(user, kSmoothUser, terms.g, terms.logit_g, out);
  terms.user_long_view =
      static_cast<float>(long_view_term(user, kSmoothUser, terms.g_v, terms.logit_g_v));
  if (const UserCounter* pair = request.user.pair(PairKind::kSurface, request.surface)) {
    out = terms.user_surface.data();
    rate_terms(pair->at(t), kSmoothUserSurface, terms.g, terms.logit_g, out);
  }
  add_recent(request, terms);
  const double hour = phase(t, base::kMsPerDay);
  const double week = phase(t, 7 * base::kMsPerDay);
  terms.time = {static_cast<float>(std::sin(hour)), static_cast<float>(std::cos(hour)),
                static_cast<float>(std::sin(week)), static_cast<float>(std::cos(week))};
  const auto at = std::find(surface_keys_.begin(), surface_keys_.end(), request.surface);
  terms.surface_index = static_cast<std::size_t>(at - surface_keys_.begin());
  return terms;
}

void ContextComputer::add_recent(const ContextRequest& request, Terms& terms) const {
  const base::UnixMs t = request.time_ms;
  double clicks_short = 0;
  double clicks = 0;
  double long_views = 0;
  bool any_click = false;
  base::UnixMs last_click = 0;
  std::size_t& m = terms.recent_count;
  for (auto it = request.user.sequence.rbegin(); it != request.user.sequence.rend(); ++it) {
    if (it->time_ms >= t) continue;
    const ActionMark* click = it->find(click_);
    const bool clicked = click != nullptr && click->time_ms < t;
    if (clicked && (!any_click || click->time_ms > last_click)) {
      any_click = true;
      last_click = click->time_ms;
    }
    if (!it->exposed || m == kRecentMax) continue;
    if (m == 0) {
      terms.since[0] = clicked ? 1.0F : -1.0F;
      terms.since[1] = static_cast<float>(seconds_term(t - it->time_ms));
    }
    Terms::Recent& recent = terms.recent[m++];
    recent.clicked = clicked;
    item_side_.with_item(it->item, [&](const CatalogItem* item) {
      recent.tag = item != nullptr ? item->first_tag() : kNoKey;
    });
    clicks += clicked ? 1 : 0;
    clicks_short += clicked && m <= kRecentShort ? 1 : 0;
    long_views += it->has_before(long_view_, t) ? 1 : 0;
  }
  if (any_click) terms.since[2] = static_cast<float>(seconds_term(t - last_click));
  const auto count = static_cast<double>(m);
  const double count_short = std::min(count, static_cast<double>(kRecentShort));
  const double short_rate = shrunk_rate(clicks_short, terms.g, count_short + 1);
  const double rate = shrunk_rate(clicks, 2 * terms.g, count + 2);
  const double long_view_rate = shrunk_rate(long_views, 2 * terms.g_v, count + 2);
  terms.recent_rates = {static_cast<float>(logit(short_rate) - terms.logit_g),
                        static_cast<float>(logit(rate) - terms.logit_g),
                        static_cast<float>(logit(long_view_rate) - terms.logit_g_v)};
}

void ContextComputer::item_terms(const ContextRequest& request, const CatalogItem* meta,
                                 float* out) const {
  double age = 0;
  double since_first_shown = -1;
  double duration = 0;
  if (meta != nullptr) {
    const base::UnixMs t = request.time_ms;
    const auto hours_since = [t](base::UnixMs then) {
      return std::max(static_cast<double>(t - then) / base::kMsPerHour, 0.0);
    };
    if (meta->published_ms) age = std::log1p(hours_since(*meta->published_ms)) / 3 - 1.5;
    if (meta->first_shown_ms && *meta->first_shown_ms < t) {
      since_first_shown = std::log1p(hours_since(*meta->first_shown_ms)) / 3 - 1;
    }
    for (const auto& [name, value] : meta->numeric) {
      if (name != config_.duration_field) continue;
      duration = std::log(std::max(value * config_.duration_unit_s, 1.0)) / 2 - 1.5;
    }
  }
  out[0] = static_cast<float>(age);
  out[1] = static_cast<float>(since_first_shown);
  out[2] = static_cast<float>(std::isfinite(duration) ? duration : 0.0);
}

void ContextComputer::candidate(const ContextRequest& request, const Terms& terms,
                                const ContextCandidate& candidate, float* out) const {
  const base::UnixMs t = request.time_ms;
  const CatalogItem* meta = candidate.meta.get();
  const Key author = meta != nullptr ? meta->author : kNoKey;
  const Key tag = meta != nullptr ? meta->first_tag() : kNoKey;
  const auto entity = [&](const CountValues& counts, double smoothing) {
    rate_terms(counts, smoothing, terms.g, terms.logit_g, out);
  };
  const auto copy = [&](const auto& values) { out = std::copy(values.begin(), values.end(), out); };
  const auto pair = [&](PairKind kind, Key key, double smoothing) {
    const UserCounter* counter = request.user.pair(kind, key);
    entity(counter != nullptr ? counter->at(t) : CountValues{}, smoothing);
  };

  const CountValues item = item_side_.counts({CounterKind::kItem, candidate.item, 0}, t);
  entity(item, kSmoothItem);
  entity(item_side_.counts({CounterKind::kAuthor, author, 0}, t), kSmoothAuthor);
  entity(item_side_.counts({CounterKind::kTag, tag, 0}, t), kSmoothTag);
  copy(terms.surface);
  entity(item_side_.counts({CounterKind::kItemSurface, candidate.item, request.surface}, t),
         kSmoothItemSurface);
  copy(terms.user);
  copy(terms.user_surface);
  pair(PairKind::kTag, tag, kSmoothUserTag);
  pair(PairKind::kAuthor, author, kSmoothUserAuthor);

  *out++ = static_cast<float>(terms.logit_g);
  copy(terms.recent_rates);
  double shown = 0;
  double clicks = 0;
  for (std::size_t i = 0; i < terms.recent_count; ++i) {
    if (terms.recent[i].tag != tag) continue;
    shown += 1;
    clicks += terms.recent[i].clicked ? 1 : 0;
  }
  *out++ = static_cast<float>(std::log1p(shown));
  *out++ = static_cast<float>(logit(shrunk_rate(clicks, terms.g, shown + 1)) - terms.logit_g);
  copy(terms.since);
  item_terms(request, meta, out);
  out += 3;
  copy(terms.time);
  *out++ = static_cast<float>(long_view_term(item, kSmoothItem, terms.g_v, terms.logit_g_v));
  *out++ = terms.user_long_view;
  for (std::size_t s = 0; s <= surface_keys_.size(); ++s) {
    *out++ = s == terms.surface_index ? 1.0F : 0.0F;
  }
  *out = request.user.seen_before(candidate.item, t) ? 1.0F : 0.0F;
}

void ContextComputer::compute(const ContextRequest& request,
                              std::span<const ContextCandidate> candidates, std::span<float> out,
                              std::span<Baseline> baselines) const {
  SF_CHECK(out.size() == candidates.size() * feature_count_);
  SF_CHECK(baselines.empty() || baselines.size() == candidates.size());
  const Terms terms = request_terms(request);
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    candidate(request, terms, candidates[c], out.data() + c * feature_count_);
  }
  if (!extended_) return;
  ExtendedContext::Terms extended = extended_->request_terms(request);
  for (std::size_t c = 0; c < candidates.size(); ++c) {
    const Baseline baseline = extended_->candidate(request, candidates[c], extended,
                                                   out.data() + c * feature_count_ + base_count_);
    if (!baselines.empty()) baselines[c] = baseline;
  }
}

}  // namespace sirenfeed::features
