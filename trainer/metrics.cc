#include "trainer/metrics.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "base/hash.h"

namespace sirenfeed::trainer {

namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr double kProbabilityMin = 1e-7;
constexpr std::size_t kNdcgCut = 10;

using Cell = std::pair<double, std::uint8_t>;

// Rank-sum with mid-ranks: exact with ties, O(n log n).
double auc_of(std::vector<Cell>& cells) {
  for (const Cell& cell : cells) {
    if (std::isnan(cell.first)) return kUndefined;  // it has no rank
  }
  std::sort(cells.begin(), cells.end());
  double positives = 0;
  double wins = 0;  // pairs won by the positive, ties count half
  double negatives_below = 0;
  for (std::size_t i = 0; i < cells.size();) {
    double tied_positives = 0;
    double tied_negatives = 0;
    std::size_t j = i;
    for (; j < cells.size() && cells[j].first == cells[i].first; ++j) {
      (cells[j].second != 0 ? tied_positives : tied_negatives) += 1;
    }
    wins += tied_positives * (negatives_below + 0.5 * tied_negatives);
    positives += tied_positives;
    negatives_below += tied_negatives;
    i = j;
  }
  if (positives == 0 || negatives_below == 0) return kUndefined;
  return wins / (positives * negatives_below);
}

std::vector<std::size_t> order_by_group(std::span<const std::uint64_t> group) {
  std::vector<std::size_t> order(group.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return group[a] < group[b]; });
  return order;
}

// Calls visit(first, last) for each run of equal groups in `order`.
template <class Visit>
void for_each_group(std::span<const std::uint64_t> group, std::span<const std::size_t> order,
                    const Visit& visit) {
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin + 1;
    while (end < order.size() && group[order[end]] == group[order[begin]]) ++end;
    visit(order.subspan(begin, end - begin));
    begin = end;
  }
}

// nullopt without a positive.
std::optional<SlateRanking> rank_slate(std::vector<Cell>& cells) {
  std::stable_sort(cells.begin(), cells.end(),
                   [](const Cell& a, const Cell& b) { return a.first > b.first; });
  SlateRanking ranking;
  double gain = 0;
  double ideal = 0;
  double precision = 0;
  std::size_t hits = 0;
  for (std::size_t rank = 0; rank < cells.size(); ++rank) {
    if (cells[rank].second == 0) continue;
    const double discount = 1.0 / std::log2(static_cast<double>(rank) + 2.0);
    if (rank < kNdcgCut) gain += discount;
    if (hits < kNdcgCut) ideal += 1.0 / std::log2(static_cast<double>(hits) + 2.0);
    ++hits;
    precision += static_cast<double>(hits) / static_cast<double>(rank + 1);
    if (hits == 1) ranking.reciprocal_rank = 1.0 / static_cast<double>(rank + 1);
  }
  if (hits == 0) return std::nullopt;
  ranking.ndcg10 = gain / ideal;
  ranking.average_precision = precision / static_cast<double>(hits);
  return ranking;
}

}  // namespace

double cell_log_loss(double probability, std::uint8_t label) {
  const double p = std::clamp(probability, kProbabilityMin, 1 - kProbabilityMin);
  return label != 0 ? -std::log(p) : -std::log1p(-p);
}

double binary_entropy(double rate) {
  return -(rate * std::log(rate) + (1 - rate) * std::log1p(-rate));
}

std::size_t calibration_bin(double probability) {
  const double p = std::clamp(probability, 0.0, 1.0);
  return std::min(static_cast<std::size_t>(p * double{kCalibrationBins}), kCalibrationBins - 1);
}

double log_loss(const Scored& scored) {
  SF_CHECK(scored.probability.size() == scored.label.size());
  if (scored.label.empty()) return kUndefined;
  double sum = 0;
  for (std::size_t i = 0; i < scored.label.size(); ++i) {
    sum += cell_log_loss(scored.probability[i], scored.label[i]);
  }
  return sum / static_cast<double>(scored.label.size());
}

double normalized_entropy(const Scored& scored) {
  const double positives = static_cast<double>(
      std::count_if(scored.label.begin(), scored.label.end(), [](auto y) { return y != 0; }));
  const double rate = positives / static_cast<double>(scored.label.size());
  if (!(rate > 0 && rate < 1)) return kUndefined;
  return log_loss(scored) / binary_entropy(rate);
}

double auc(const Scored& scored) {
  SF_CHECK(scored.probability.size() == scored.label.size());
  std::vector<Cell> cells(scored.label.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    cells[i] = {scored.probability[i], scored.label[i]};
  }
  return auc_of(cells);
}

double expected_calibration_error(const Scored& scored) {
  SF_CHECK(scored.probability.size() == scored.label.size());
  if (scored.label.empty()) return kUndefined;
  std::array<double, kCalibrationBins> excess{};
  for (std::size_t i = 0; i < scored.label.size(); ++i) {
    const double p = std::clamp(scored.probability[i], 0.0, 1.0);
    excess[calibration_bin(p)] += p - (scored.label[i] != 0 ? 1.0 : 0.0);
  }
  double sum = 0;
  for (const double e : excess) sum += std::abs(e);
  return sum / static_cast<double>(scored.label.size());
}

std::vector<GroupAuc> group_aucs(const Scored& scored, std::span<const std::uint64_t> group) {
  SF_CHECK(scored.probability.size() == scored.label.size() && group.size() == scored.label.size());
  std::vector<GroupAuc> result;
  std::vector<Cell> cells;
  const std::vector<std::size_t> order = order_by_group(group);
  for_each_group(group, order, [&](std::span<const std::size_t> members) {
    cells.clear();
    for (const std::size_t i : members) cells.emplace_back(scored.probability[i], scored.label[i]);
    const double value = auc_of(cells);
    if (!std::isnan(value)) result.push_back({members.front(), members.size(), value});
  });
  return result;
}

GroupedAuc grouped_auc(const Scored& scored, std::span<const std::uint64_t> group) {
  GroupedAuc result;
  double weighted = 0;
  for (const GroupAuc& one : group_aucs(scored, group)) {
    weighted += one.value * static_cast<double>(one.rows);
    result.rows += one.rows;
    ++result.groups;
  }
  result.value = result.rows == 0 ? kUndefined : weighted / static_cast<double>(result.rows);
  return result;
}

GroupedAuc user_day_auc(const Scored& scored, std::span<const std::uint64_t> user,
                        std::span<const base::UnixMs> time_ms) {
  SF_CHECK(user.size() == time_ms.size());
  // Numbered rather than hashed together, so that no two groups can fall into one.
  std::vector<std::pair<std::uint64_t, base::UnixMs>> keys(user.size());
  for (std::size_t i = 0; i < user.size(); ++i) {
    const base::UnixMs day = time_ms[i] / base::kMsPerDay;
    keys[i] = {user[i], day - (time_ms[i] % base::kMsPerDay < 0 ? 1 : 0)};
  }
  auto distinct = keys;
  std::sort(distinct.begin(), distinct.end());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<std::uint64_t> group(user.size());
  for (std::size_t i = 0; i < group.size(); ++i) {
    group[i] = static_cast<std::uint64_t>(
        std::lower_bound(distinct.begin(), distinct.end(), keys[i]) - distinct.begin());
  }
  return grouped_auc(scored, group);
}

std::vector<SlateRanking> slate_rankings(const Scored& scored,
                                         std::span<const std::uint64_t> slate) {
  SF_CHECK(scored.probability.size() == scored.label.size() && slate.size() == scored.label.size());
  std::vector<SlateRanking> result;
  std::vector<Cell> cells;
  const std::vector<std::size_t> order = order_by_group(slate);
  for_each_group(slate, order, [&](std::span<const std::size_t> members) {
    if (members.size() < 2) return;
    cells.clear();
    for (const std::size_t i : members) cells.emplace_back(scored.probability[i], scored.label[i]);
    if (auto ranking = rank_slate(cells)) {
      ranking->first = members.front();
      result.push_back(*ranking);
    }
  });
  return result;
}

RankingMetrics ranking_metrics(const Scored& scored, std::span<const std::uint64_t> slate) {
  RankingMetrics result;
  for (const SlateRanking& one : slate_rankings(scored, slate)) {
    result.ndcg10 += one.ndcg10;
    result.mean_average_precision += one.average_precision;
    result.mean_reciprocal_rank += one.reciprocal_rank;
    ++result.slates;
  }
  const double n = result.slates == 0 ? kUndefined : static_cast<double>(result.slates);
  result.ndcg10 /= n;
  result.mean_average_precision /= n;
  result.mean_reciprocal_rank /= n;
  return result;
}

}  // namespace sirenfeed::trainer
