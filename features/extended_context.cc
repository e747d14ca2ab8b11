#include "features/extended_context.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <variant>
#include <vector>

#include "features/context_computer.h"
#include "features/context_features.h"

namespace sirenfeed::features {
namespace {

using Entity = ExtendedContext::Entity;
using Half = ResidualHalf;

constexpr double kRateFloor = 1e-4;
constexpr std::size_t kRecentMax = 20;
constexpr std::size_t kRecentShort = 5;
constexpr double kLogMsPrior = 11;  // of the user's mean ln duration, one pseudo exposure

struct EntityKind {
  const char* name;
  double smoothing;
};
constexpr std::array<EntityKind, ExtendedContext::kEntities> kKinds = {{
    {"item", 10},
    {"author", 10},
    {"tagset", 20},
    {"surface", 20},
    {"item_surface", 10},
    {"bucket_surface", 20},
    {"hour_surface", 20},
    {"tag_surface", 20},
    {"author_surface", 10},
    {"user", 4},
    {"user_surface", 4},
    {"user_tag", 2},
    {"user_bucket", 2},
}};

enum class Stat : std::uint8_t { kClickRate, kLongViewRate, kResidual, kShown };
constexpr std::array<const char*, 4> kStatNames = {"ctr", "long_view", "residual", "shown"};
constexpr std::array<const char*, kResidualHalves> kHalfNames = {"1h", "1d", "7d"};

/// A feature that counters give.
struct Counted {
  Entity entity;
  Stat stat;
  Half half;
};
/// And all others.
enum class Other : std::uint8_t {
  kP0,
  kPJoint,
  kQ0,
  kClickRateLast5,
  kClickRateLast20,
  kLongViewRateLast20,
  kMeanP0Last20,
  kSkipsInRow,
  kLogDuration,
  kLogDurationMinusClicked,
  kLogDurationMinusLongViewed,
};
constexpr std::array<const char*, 11> kOtherNames = {
    "ext.p0",
    "ext.p_joint",
    "ext.q0",
    "ext.user.ctr_last5",
    "ext.user.ctr_last20",
    "ext.user.long_view_last20",
    "ext.user.mean_p0_last20",
    "ext.user.skips_in_row",
    "ext.item.log_duration",
    "ext.item.log_duration_minus_user_clicked",
    "ext.item.log_duration_minus_user_long_viewed",
};
using Feature = std::variant<Counted, Other>;

constexpr Feature clicks(Entity entity, Half half) {
  return Counted{entity, Stat::kClickRate, half};
}
constexpr Feature views(Entity entity, Half half) {
  return Counted{entity, Stat::kLongViewRate, half};
}
constexpr Feature residual(Entity entity, Half half) {
  return Counted{entity, Stat::kResidual, half};
}
constexpr Feature shown(Entity entity, Half half) { return Counted{entity, Stat::kShown, half}; }

// The most useful first.
constexpr std::array<Feature, kExtendedFeatures> kFeatures = {
    Other::kP0,
    Other::kPJoint,
    Other::kQ0,
    clicks(Entity::kSurface, Half::kDay),
    views(Entity::kSurface, Half::kDay),
    views(Entity::kSurface, Half::kWeek),
    clicks(Entity::kBucketSurface, Half::kWeek),
    views(Entity::kBucketSurface, Half::kWeek),
    clicks(Entity::kAuthor, Half::kWeek),
    clicks(Entity::kUser, Half::kWeek),
    clicks(Entity::kUserSurface, Half::kWeek),
    Other::kClickRateLast20,
    Other::kLongViewRateLast20,
    clicks(Entity::kBucketSurface, Half::kDay),
    clicks(Entity::kHourSurface, Half::kWeek),
    views(Entity::kUserSurface, Half::kWeek),
    views(Entity::kBucketSurface, Half::kDay),
    clicks(Entity::kSurface, Half::kWeek),
    views(Entity::kHourSurface, Half::kWeek),
    clicks(Entity::kItem, Half::kWeek),
    views(Entity::kUser, Half::kWeek),
    residual(Entity::kAuthor, Half::kWeek),
    clicks(Entity::kUser, Half::kDay),
    residual(Entity::kItem, Half::kWeek),
    Other::kMeanP0Last20,
    clicks(Entity::kAuthor, Half::kDay),
    Other::kClickRateLast5,
    views(Entity::kItem, Half::kWeek),
    clicks(Entity::kItem, Half::kDay),
    views(Entity::kTagSurface, Half::kWeek),
    views(Entity::kAuthor, Half::kWeek),
    views(Entity::kUser, Half::kDay),
    residual(Entity::kUserSurface, Half::kWeek),
    views(Entity::kTagset, Half::kDay),
    residual(Entity::kUser, Half::kDay),
    residual(Entity::kBucketSurface, Half::kWeek),
    residual(Entity::kBucketSurface, Half::kDay),
    clicks(Entity::kItemSurface, Half::kWeek),
    residual(Entity::kTagset, Half::kWeek),
    residual(Entity::kUser, Half::kWeek),
    clicks(Entity::kTagSurface, Half::kDay),
    residual(Entity::kTagset, Half::kDay),
    clicks(Entity::kUserSurface, Half::kDay),
    views(Entity::kTagSurface, Half::kDay),
    Other::kLogDuration,
    clicks(Entity::kTagSurface, Half::kWeek),
    views(Entity::kTagset, Half::kWeek),
    Other::kSkipsInRow,
    shown(Entity::kUserSurface, Half::kWeek),
    residual(Entity::kAuthorSurface, Half::kDay),
    clicks(Entity::kAuthorSurface, Half::kWeek),
    views(Entity::kUserSurface, Half::kDay),
    shown(Entity::kUserSurface, Half::kDay),
    clicks(Entity::kTagset, Half::kWeek),
    residual(Entity::kSurface, Half::kDay),
    views(Entity::kAuthor, Half::kDay),
    shown(Entity::kSurface, Half::kHour),
    residual(Entity::kItemSurface, Half::kWeek),
    shown(Entity::kUser, Half::kWeek),
    Other::kLogDurationMinusClicked,
    residual(Entity::kTagSurface, Half::kWeek),
    Other::kLogDurationMinusLongViewed,
    clicks(Entity::kUserBucket, Half::kDay),
    clicks(Entity::kUser, Half::kHour),
};

double logit(double p) { return std::log(p / (1 - p)); }
double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
// As a rate enters the network.
double rate_logit(double p) { return logit(std::clamp(p, kRateFloor, 1 - kRateFloor)); }
double shrunk_rate(double hits, double prior, double exposures) {
  return .98 * (hits + prior) / exposures + .01;
}
double smoothing_of(Entity entity) { return kKinds[static_cast<std::size_t>(entity)].smoothing; }

double click_rate(const ExtendedContext::Terms& terms, Entity entity, Half half) {
  const ResidualValues& counts = terms.counts[static_cast<std::size_t>(entity)];
  const double a = smoothing_of(entity);
  return (counts.of(Count::kClicks, half) + a * terms.g) / (counts.of(Count::kShown, half) + a);
}
double long_view_rate(const ExtendedContext::Terms& terms, Entity entity, Half half) {
  const ResidualValues& counts = terms.counts[static_cast<std::size_t>(entity)];
  const double a = smoothing_of(entity);
  return (counts.of(Count::kLongViews, half) + a * terms.g_v) /
         (counts.of(Count::kShown, half) + a);
}
double mean_residual(const ExtendedContext::Terms& terms, Entity entity, Half half) {
  const ResidualValues& counts = terms.counts[static_cast<std::size_t>(entity)];
  return counts.residual(half) / (counts.of(Count::kShown, half) + smoothing_of(entity));
}

double counted_feature(const ExtendedContext::Terms& terms, const Counted& feature) {
  switch (feature.stat) {
    case Stat::kClickRate:
      return rate_logit(click_rate(terms, feature.entity, feature.half));
    case Stat::kLongViewRate:
      return rate_logit(long_view_rate(terms, feature.entity, feature.half));
    case Stat::kResidual:
      return mean_residual(terms, feature.entity, feature.half);
    case Stat::kShown:
      break;
  }
  const auto& counts = terms.counts[static_cast<std::size_t>(feature.entity)];
  return std::log1p(counts.of(Count::kShown, feature.half));
}

}  // namespace

std::vector<std::string> extended_context_names() {
  std::vector<std::string> names;
  for (const Feature& feature : kFeatures) {
    if (const auto* counted = std::get_if<Counted>(&feature)) {
      names.push_back(fmt::format("ext.{}.{}_{}",
                                  kKinds[static_cast<std::size_t>(counted->entity)].name,
                                  kStatNames[static_cast<std::size_t>(counted->stat)],
                                  kHalfNames[static_cast<std::size_t>(counted->half)]));
    } else {
      names.emplace_back(kOtherNames[static_cast<std::size_t>(std::get<Other>(feature))]);
    }
  }
  return names;
}

// The expectations of one candidate, from coarse to fine.
struct ExtendedContext::Chances {
  double p0 = 0;       // of item and surface, without the user
  double p_joint = 0;  // with what the user's residuals say
  double q0 = 0;       // of surface and user, without the item

  explicit Chances(const Terms& terms) {
    const double surface = click_rate(terms, Entity::kSurface, Half::kWeek);
    const double prior = sigmoid(logit(click_rate(terms, Entity::kItem, Half::kWeek)) +
                                 logit(surface) - logit(terms.g));
    const auto& counts = terms.counts[static_cast<std::size_t>(Entity::kItemSurface)];
    const double a = smoothing_of(Entity::kItemSurface);
    p0 = (counts.of(Count::kClicks, Half::kWeek) + a * prior) /
         (counts.of(Count::kShown, Half::kWeek) + a);
    const double user = mean_residual(terms, Entity::kUser, Half::kWeek);
    p_joint = sigmoid(rate_logit(p0) + 4.5 * user +
                      2 * mean_residual(terms, Entity::kUserTag, Half::kWeek));
    q0 = std::clamp(surface + user, .01, .99);
  }
};

ExtendedContext::ExtendedContext(const ContextConfig& config, const ItemSide& item_side,
                                 ActionType click, ActionType long_view)
    : config_(config), item_side_(item_side), click_(click), long_view_(long_view) {}

ExtendedContext::Terms ExtendedContext::request_terms(const ContextRequest& request) const {
  Terms terms;
  const base::UnixMs t = request.time_ms;
  const ResidualValues global = item_side_.residuals({CounterKind::kGlobal, 0, 0}, t);
  const double exposures = global.of(Count::kShown, Half::kWeek) + config_.prior_shown;
  terms.g = std::clamp((global.of(Count::kClicks, Half::kWeek) + config_.prior_clicks) / exposures,
                       kRateFloor, 1 - kRateFloor);
  terms.g_v =
      std::clamp((global.of(Count::kLongViews, Half::kWeek) + config_.prior_long_views) / exposures,
                 kRateFloor, 1 - kRateFloor);
  const auto counts = [&terms](Entity entity) -> ResidualValues& {
    return terms.counts[static_cast<std::size_t>(entity)];
  };
  counts(Entity::kSurface) = item_side_.residuals({CounterKind::kSurface, request.surface, 0}, t);
  counts(Entity::kHourSurface) =
      item_side_.residuals({CounterKind::kHourSurface, local_hour(config_, t), request.surface}, t);
  counts(Entity::kUser) = request.user.residuals.at(t);
  if (const auto* pair = request.user.residual_pair(PairKind::kSurface, request.surface)) {
    counts(Entity::kUserSurface) = pair->at(t);
  }
  add_sequence(request, terms);
  return terms;
}

// Everything that the user's exposures say, newest first.
void ExtendedContext::add_sequence(const ContextRequest& request, Terms& terms) const {
  const base::UnixMs t = request.time_ms;
  double clicks_short = 0;
  double clicks = 0;
  double long_views = 0;
  double p0 = 0;
  std::size_t m = 0;
  bool skipping = true;
  struct Mean {
    double sum = kLogMsPrior;
    double n = 1;
  } clicked_ms, long_viewed_ms;
  const auto& sequence = request.user.sequence;
  for (auto entry = sequence.rbegin(); entry != sequence.rend(); ++entry) {
    if (!entry->exposed || entry->time_ms >= t) continue;
    const bool clicked = entry->has_before(click_, t);
    const bool long_viewed = entry->has_before(long_view_, t);
    if (m < kRecentMax) {
      clicks += clicked ? 1 : 0;
      clicks_short += clicked && m < kRecentShort ? 1 : 0;
      long_views += long_viewed ? 1 : 0;
      p0 += static_cast<double>(entry->p0);
      ++m;
    }
    skipping = skipping && !clicked;
    if (skipping) terms.skips_in_row += 1;
    if (!clicked && !long_viewed) continue;
    item_side_.with_item(entry->item, [&](const CatalogItem* item) {
      const std::optional<double> log_ms = log_duration_ms(config_, item);
      for (Mean* mean :
           {clicked ? &clicked_ms : nullptr, long_viewed ? &long_viewed_ms : nullptr}) {
        if (mean == nullptr || !log_ms) continue;
        mean->sum += *log_ms;
        mean->n += 1;
      }
    });
  }
  const auto count = static_cast<double>(m);
  const double count_short = std::min(count, static_cast<double>(kRecentShort));
  terms.click_rate_last5 = shrunk_rate(clicks_short, terms.g, count_short + 1);
  terms.click_rate_last20 = shrunk_rate(clicks, 2 * terms.g, count + 2);
  terms.long_view_rate_last20 = shrunk_rate(long_views, 2 * terms.g_v, count + 2);
  terms.mean_p0_last20 = m > 0 ? p0 / count : terms.g;
  terms.clicked_log_ms = clicked_ms.sum / clicked_ms.n;
  terms.long_viewed_log_ms = long_viewed_ms.sum / long_viewed_ms.n;
}

void ExtendedContext::load_counts(const ContextRequest& request, const ExposureKeys& keys,
                                  Terms& terms) const {
  const base::UnixMs t = request.time_ms;
  const auto load = [&](Entity entity, const CounterKey& key) {
    terms.counts[static_cast<std::size_t>(entity)] = item_side_.residuals(key, t);
  };
  load(Entity::kItem, {CounterKind::kItem, keys.item, 0});
  load(Entity::kAuthor, {CounterKind::kAuthor, keys.author, 0});
  load(Entity::kTagset, {CounterKind::kTagset, keys.tagset, 0});
  load(Entity::kItemSurface, {CounterKind::kItemSurface, keys.item, keys.surface});
  load(Entity::kBucketSurface, {CounterKind::kBucketSurface, keys.bucket, keys.surface});
  load(Entity::kTagSurface, {CounterKind::kTagSurface, keys.tag, keys.surface});
  load(Entity::kAuthorSurface, {CounterKind::kAuthorSurface, keys.author, keys.surface});
  const auto load_pair = [&](Entity entity, PairKind kind, Key key) {
    const UserResiduals* pair = request.user.residual_pair(kind, key);
    terms.counts[static_cast<std::size_t>(entity)] =
        pair != nullptr ? pair->at(t) : ResidualValues{};
  };
  load_pair(Entity::kUserTag, PairKind::kTag, keys.tag);
  load_pair(Entity::kUserBucket, PairKind::kHalfBucket, half_bucket_key(keys.bucket));
}

Baseline ExtendedContext::candidate(const ContextRequest& request,
                                    const ContextCandidate& candidate, Terms& terms,
                                    float* out) const {
  const CatalogItem* meta = candidate.meta.get();
  load_counts(request, exposure_keys(config_, candidate.item, meta, request.surface), terms);
  const Chances chances(terms);
  const std::optional<double> log_ms = log_duration_ms(config_, meta);
  const auto other = [&](Other feature) -> double {
    switch (feature) {
      case Other::kP0:
        return rate_logit(chances.p0);
      case Other::kPJoint:
        return rate_logit(chances.p_joint);
      case Other::kQ0:
        return rate_logit(chances.q0);
      case Other::kClickRateLast5:
        return rate_logit(terms.click_rate_last5);
      case Other::kClickRateLast20:
        return rate_logit(terms.click_rate_last20);
      case Other::kLongViewRateLast20:
        return rate_logit(terms.long_view_rate_last20);
      case Other::kMeanP0Last20:
        return rate_logit(terms.mean_p0_last20);
      case Other::kSkipsInRow:
        return std::log1p(terms.skips_in_row);
      case Other::kLogDuration:
        return log_ms.value_or(0);
      case Other::kLogDurationMinusClicked:
        return log_ms ? *log_ms - terms.clicked_log_ms : 0;
      case Other::kLogDurationMinusLongViewed:
        break;
    }
    return log_ms ? *log_ms - terms.long_viewed_log_ms : 0;
  };
  for (const Feature& feature : kFeatures) {
    const auto* counted = std::get_if<Counted>(&feature);
    const double value =
        counted != nullptr ? counted_feature(terms, *counted) : other(std::get<Other>(feature));
    *out++ = static_cast<float>(value);
  }
  return {std::clamp(chances.p0, 0.0, 1.0), chances.q0};
}

}  // namespace sirenfeed::features
