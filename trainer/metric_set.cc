#include "trainer/metric_set.h"

#include <tbb/parallel_for.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "base/check.h"

namespace sirenfeed::trainer {

namespace {

constexpr double kUndefined = std::numeric_limits<double>::quiet_NaN();
constexpr std::size_t kLanes = UserResamples::kLanes;
using Lanes = std::array<double, kLanes>;

std::size_t index_of(Metric metric) { return static_cast<std::size_t>(metric); }

bool several_items(const MetricCells& cells) {
  return std::adjacent_find(cells.impression.begin(), cells.impression.end()) !=
         cells.impression.end();
}

/// A metric that is a mean over things that belong to one user each: Σ value · weight / Σ weight.
struct UserMeans {
  std::vector<std::uint32_t> user;
  std::vector<double> value;  // times the weight
  std::vector<double> weight;

  void add(std::uint32_t of_user, double its_value, double its_weight) {
    if (user.empty() || user.back() != of_user) {
      user.push_back(of_user);
      value.push_back(0);
      weight.push_back(0);
    }
    value.back() += its_value * its_weight;
    weight.back() += its_weight;
  }
};

UserMeans means_of_groups(const MetricCells& cells, const std::vector<double>& probability,
                          const std::vector<std::uint64_t>& group) {
  UserMeans means;
  for (const GroupAuc& one : group_aucs({probability, cells.label}, group)) {
    means.add(cells.user[one.first], one.value, static_cast<double>(one.rows));
  }
  return means;
}

/// One cell in the order of the scores.
struct SortedCell {
  double probability = 0;
  double excess = 0;  // p − y, for the calibration error
  std::uint32_t user = 0;
  std::uint8_t label = 0;
  std::uint8_t bin = 0;       // of the calibration error
  std::uint8_t tie_ends = 1;  // 0: the next cell has the same score
};

std::vector<SortedCell> sort_cells(const MetricCells& cells) {
  std::vector<SortedCell> sorted(cells.label.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const double p = cells.probability[i];
    sorted[i] = {.probability = p,
                 .excess = std::clamp(p, 0.0, 1.0) - (cells.label[i] != 0 ? 1.0 : 0.0),
                 .user = cells.user[i],
                 .label = cells.label[i],
                 .bin = static_cast<std::uint8_t>(calibration_bin(p))};
  }
  std::stable_sort(sorted.begin(), sorted.end(), [](const SortedCell& a, const SortedCell& b) {
    return a.probability < b.probability;
  });
  for (std::size_t i = 1; i < sorted.size(); ++i) {
    sorted[i - 1].tie_ends = sorted[i].probability == sorted[i - 1].probability ? 0 : 1;
  }
  return sorted;
}

/// What replicates need of the cells, whatever the sample.
struct Prepared {
  std::vector<SortedCell> sorted;
  UserMeans loss;      // log loss; the weight is the number of cells
  UserMeans positive;  // the label
  std::array<UserMeans, kMetrics> means;
};

Prepared prepare(const MetricCells& cells) {
  Prepared prepared;
  prepared.sorted = sort_cells(cells);
  for (std::size_t i = 0; i < cells.label.size(); ++i) {
    prepared.loss.add(cells.user[i], cell_log_loss(cells.probability[i], cells.label[i]), 1);
    prepared.positive.add(cells.user[i], cells.label[i], 1);
  }
  prepared.means[index_of(Metric::kUserAuc)] =
      means_of_groups(cells, cells.probability, {cells.user.begin(), cells.user.end()});
  prepared.means[index_of(Metric::kUserDayAuc)] =
      means_of_groups(cells, cells.probability, cells.user_day);
  if (!cells.frozen_probability.empty()) {
    prepared.means[index_of(Metric::kFrozenAuc)] =
        means_of_groups(cells, cells.frozen_probability, cells.user_day);
  }
  if (!several_items(cells)) return prepared;
  prepared.means[index_of(Metric::kImpressionAuc)] =
      means_of_groups(cells, cells.probability, cells.impression);
  const Scored scored{cells.probability, cells.label};
  for (const SlateRanking& one : slate_rankings(scored, cells.impression)) {
    const std::uint32_t user = cells.user[one.first];
    prepared.means[index_of(Metric::kNdcg10)].add(user, one.ndcg10, 1);
    prepared.means[index_of(Metric::kMeanAveragePrecision)].add(user, one.average_precision, 1);
    prepared.means[index_of(Metric::kMeanReciprocalRank)].add(user, one.reciprocal_rank, 1);
  }
  return prepared;
}

/// One block of samples, a lane each.
class Block {
 public:
  Block(const UserResamples& resamples, std::size_t block) : resamples_(resamples), block_(block) {}

  /// Σ over users of count · value / Σ of count · weight; NaN where no weight was drawn.
  [[nodiscard]] Lanes mean(const UserMeans& means) const {
    Lanes value{}, weight{};
    for (std::size_t i = 0; i < means.user.size(); ++i) {
      const std::uint8_t* count = resamples_.counts(block_, means.user[i]);
      for (std::size_t l = 0; l < kLanes; ++l) value[l] += count[l] * means.value[i];
      for (std::size_t l = 0; l < kLanes; ++l) weight[l] += count[l] * means.weight[i];
    }
    for (std::size_t l = 0; l < kLanes; ++l) {
      value[l] = weight[l] > 0 ? value[l] / weight[l] : kUndefined;
    }
    return value;
  }

  /// AUC and calibration error in one pass over the cells in the order of their scores.
  void sorted_metrics(const std::vector<SortedCell>& sorted, Lanes& auc, Lanes& error) const {
    Lanes wins{}, below{}, positives{}, tied_positives{}, tied_negatives{}, rows{}, excess{};
    error = {};
    std::uint8_t bin = 0;
    const auto close_bin = [&] {
      for (std::size_t l = 0; l < kLanes; ++l) error[l] += std::abs(excess[l]);
      excess = {};
    };
    for (const SortedCell& cell : sorted) {
      const std::uint8_t* count = resamples_.counts(block_, cell.user);
      if (cell.bin != bin) {
        close_bin();
        bin = cell.bin;
      }
      for (std::size_t l = 0; l < kLanes; ++l) excess[l] += count[l] * cell.excess;
      for (std::size_t l = 0; l < kLanes; ++l) rows[l] += count[l];
      Lanes& tied = cell.label != 0 ? tied_positives : tied_negatives;
      for (std::size_t l = 0; l < kLanes; ++l) tied[l] += count[l];
      if (cell.tie_ends == 0) continue;
      for (std::size_t l = 0; l < kLanes; ++l) {
        wins[l] += tied_positives[l] * (below[l] + 0.5 * tied_negatives[l]);
        positives[l] += tied_positives[l];
        below[l] += tied_negatives[l];
      }
      tied_positives = {};
      tied_negatives = {};
    }
    close_bin();
    for (std::size_t l = 0; l < kLanes; ++l) {
      const double pairs = positives[l] * below[l];
      auc[l] = pairs > 0 ? wins[l] / pairs : kUndefined;
      error[l] = rows[l] > 0 ? error[l] / rows[l] : kUndefined;
    }
  }

 private:
  const UserResamples& resamples_;
  const std::size_t block_;
};

}  // namespace

std::string_view metric_key(Metric metric) {
  constexpr std::array<std::string_view, kMetrics> kKeys = {"ne",
                                                            "auc",
                                                            "gauc_user_live",
                                                            "gauc_user_day_live",
                                                            "gauc_user_day_frozen",
                                                            "auc_within_impression",
                                                            "log_loss",
                                                            "ece",
                                                            "ndcg10",
                                                            "map",
                                                            "mrr"};
  return kKeys[index_of(metric)];
}

std::string_view metric_title(Metric metric) {
  constexpr std::array<std::string_view, kMetrics> kTitles = {
      "NE",       "AUC", "GAUC*",   "GAUC day*", "GAUC day", "AUC imp.",
      "log loss", "ECE", "NDCG@10", "MAP",       "MRR"};
  return kTitles[index_of(metric)];
}

MetricValues measure(const MetricCells& cells) {
  MetricValues values;
  values.fill(kUndefined);
  const Scored scored{cells.probability, cells.label};
  const auto set = [&values](Metric metric, double value) { values[index_of(metric)] = value; };
  set(Metric::kNormalizedEntropy, normalized_entropy(scored));
  set(Metric::kAuc, auc(scored));
  set(Metric::kLogLoss, log_loss(scored));
  set(Metric::kCalibrationError, expected_calibration_error(scored));
  const std::vector<std::uint64_t> user(cells.user.begin(), cells.user.end());
  set(Metric::kUserAuc, grouped_auc(scored, user).value);
  set(Metric::kUserDayAuc, grouped_auc(scored, cells.user_day).value);
  if (!cells.frozen_probability.empty()) {
    set(Metric::kFrozenAuc,
        grouped_auc({cells.frozen_probability, cells.label}, cells.user_day).value);
  }
  if (!several_items(cells)) return values;
  set(Metric::kImpressionAuc, grouped_auc(scored, cells.impression).value);
  const RankingMetrics ranking = ranking_metrics(scored, cells.impression);
  set(Metric::kNdcg10, ranking.ndcg10);
  set(Metric::kMeanAveragePrecision, ranking.mean_average_precision);
  set(Metric::kMeanReciprocalRank, ranking.mean_reciprocal_rank);
  return values;
}

UserResamples::UserResamples(std::size_t users, std::size_t resamples, std::uint64_t seed)
    : users_(users), resamples_(resamples), counts_(blocks() * users * kLanes) {
  tbb::parallel_for(std::size_t{0}, resamples, [&](std::size_t sample) {
    std::mt19937_64 random(seed * 0x9E3779B97F4A7C15U + sample);
    std::uint8_t* lane = counts_.data() + sample / kLanes * users * kLanes + sample % kLanes;
    for (std::size_t draw = 0; draw < users; ++draw) {
      // The high bits times the number of users: std::uniform_int_distribution's draws differ
      // between libraries.
      const auto user = static_cast<std::size_t>(((random() >> 32U) * users) >> 32U);
      ++lane[user * kLanes];  // 256 draws of one user in a sample do not happen
    }
  });
}

MetricReplicates measure_resamples(const MetricCells& cells, const UserResamples& resamples) {
  const Prepared prepared = prepare(cells);
  MetricReplicates replicates;
  for (auto& values : replicates) values.assign(resamples.resamples(), kUndefined);
  tbb::parallel_for(std::size_t{0}, resamples.blocks(), [&](std::size_t b) {
    const Block block(resamples, b);
    const std::size_t begin = b * kLanes;
    const std::size_t count = std::min(kLanes, resamples.resamples() - begin);
    const auto set = [&](Metric metric, const Lanes& lanes) {
      std::copy_n(lanes.begin(), count,
                  replicates[index_of(metric)].begin() + static_cast<std::ptrdiff_t>(begin));
    };
    Lanes auc{}, error{};
    block.sorted_metrics(prepared.sorted, auc, error);
    set(Metric::kAuc, auc);
    set(Metric::kCalibrationError, error);
    const Lanes loss = block.mean(prepared.loss);
    const Lanes rate = block.mean(prepared.positive);
    Lanes entropy{};
    for (std::size_t l = 0; l < kLanes; ++l) {
      entropy[l] = rate[l] > 0 && rate[l] < 1 ? loss[l] / binary_entropy(rate[l]) : kUndefined;
    }
    set(Metric::kLogLoss, loss);
    set(Metric::kNormalizedEntropy, entropy);
    for (const Metric metric :
         {Metric::kUserAuc, Metric::kUserDayAuc, Metric::kFrozenAuc, Metric::kImpressionAuc,
          Metric::kNdcg10, Metric::kMeanAveragePrecision, Metric::kMeanReciprocalRank}) {
      set(metric, block.mean(prepared.means[index_of(metric)]));
    }
  });
  return replicates;
}

}  // namespace sirenfeed::trainer
