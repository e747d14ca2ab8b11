#pragma once
// A world whose truth is known: users with daily and weekly topic habits of their own phase, items
// with quality and freshness, fatigue. What a ranker should find out, and the yardstick for regret.
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace sirenfeed::app {

struct WorldConfig {
  std::uint64_t seed = 1;
  std::uint32_t users = 400;
  std::uint32_t topics = 4;
  std::uint32_t authors = 60;  // 0: items have none
  double items_per_day = 75;
  std::uint32_t items_at_start = 225;  // born in the item_life before the start
  double visits_per_day_min = 4;       // a user's own rate is uniform between these
  double visits_per_day_max = 20;
  base::UnixMs start_ms = 1'650'643'200'000;  // 2022-04-22T16:00Z
  base::UnixMs item_life_ms = 3 * base::kMsPerDay;
  double daily_amplitude = 2.5;   // logits, of the topic's cosine over 24 h
  double weekly_amplitude = 0.5;  // logits, over 7 days
  // Drift: each phase moves at a speed of its own, and so does each item's quality with its age.
  double phase_drift_h_per_day = 0.1;  // standard deviation of the phases' speeds
  double quality_drift_per_day = 0.1;  // standard deviation of the qualities' speeds, logits
  [[nodiscard]] base::Result<void> validate() const;
};

struct WorldItem {
  std::string id;
  std::string author;
  std::uint32_t topic = 0;
  base::UnixMs born_ms = 0;
  double quality = 0;                // when born
  double quality_drift_per_day = 0;  // logits
};

struct WorldVisit {
  std::uint32_t user = 0;
  base::UnixMs time_ms = 0;
};

/// What users could have clicked on at one visit, by true click probability.
struct WorldOptimum {
  double best = 0;    // Σ over the items that a Bayes ranker would show
  double random = 0;  // Σ in expectation over items drawn at random
};

/// Who visits when and which items there are follow from the seed alone, whatever is shown; what
/// users do follows from it and from what they were shown. Threads: one.
class SimulatedWorld {
 public:
  explicit SimulatedWorld(const WorldConfig& config);

  [[nodiscard]] const std::vector<WorldItem>& items() const { return items_; }
  [[nodiscard]] bool lives(const WorldItem& item, base::UnixMs time_ms) const {
    return item.born_ms <= time_ms && time_ms - item.born_ms < config_.item_life_ms;
  }
  [[nodiscard]] std::string user_id(std::uint32_t user) const;
  [[nodiscard]] static std::string topic_id(std::uint32_t topic);

  /// The next visit of any user; visits come in time order, each user's as a Poisson process.
  WorldVisit next_visit();
  /// Indices into items() of the items born up to `time_ms` since the last call.
  std::vector<std::size_t> births_until(base::UnixMs time_ms);
  /// P(click) of the item shown to the user at `time_ms`:
  ///   logit = −0.5 + daily·cos(2π(hour − φ(t))/24) + weekly·cos(2π(day − ψ(t))/7) + q(t)
  ///           + exp(−age/12 h) − 0.3 − 0.4 · (exposures of the topic to the user in the last hour)
  ///   φ(t) = φ₀ + u·(t − start)/day hours and ψ(t) = ψ₀ + v·(t − start)/day hours, a φ₀, ψ₀, u and
  ///   v for each user and topic: φ₀ ~ U(0, 24 h), ψ₀ ~ U(0, 7 d), u, v ~ N(0, phase_drift)
  ///   q(t) = q₀ + g·age/day, for each item q₀ ~ N(0, 0.5), g ~ N(0, quality_drift)
  [[nodiscard]] double click_probability(std::uint32_t user, std::size_t item,
                                         base::UnixMs time_ms) const;
  /// The user was shown the item: it wears the topic out for an hour.
  void show(std::uint32_t user, std::size_t item, base::UnixMs time_ms);
  /// Draws whether a user reacts with this probability.
  bool draw(double probability);
  /// Items the user could be shown: alive and not yet shown to the user.
  [[nodiscard]] std::vector<std::size_t> showable(std::uint32_t user, base::UnixMs time_ms) const;
  /// The Bayes ranker of one visit: the `count` showable items with the highest click probability.
  /// It looks no further than the visit. Fewer are showable: of as many as there are.
  [[nodiscard]] WorldOptimum optimum(std::uint32_t user, base::UnixMs time_ms,
                                     std::size_t count) const;
  /// `count` distinct items, each drawn uniformly among the living ones that are not among the last
  /// 20 that the user was shown; fewer where there are not as many.
  std::vector<std::size_t> random_items(std::uint32_t user, base::UnixMs time_ms,
                                        std::size_t count);
  /// The index of the item with this id; items().size() where there is none.
  [[nodiscard]] std::size_t find_item(const std::string& id) const;

 private:
  struct Habit {
    double daily_phase_h = 0;
    double weekly_phase_h = 0;
    double daily_drift_h_per_day = 0;
    double weekly_drift_h_per_day = 0;
  };
  struct User {
    double visits_per_ms = 0;
    std::vector<Habit> habits;  // one a topic
    base::UnixMs next_visit_ms = 0;
    std::vector<bool> shown;       // by item index
    std::deque<std::size_t> last;  // items, newest last
    std::deque<std::pair<base::UnixMs, std::uint32_t>> recent_topics;
  };
  void add_item(base::UnixMs born_ms);
  void plan_visit(User& user);
  base::UnixMs birth_gap_ms();

  /// The living items, as [first, last) of items_, which are in order of birth.
  [[nodiscard]] std::pair<std::size_t, std::size_t> living(base::UnixMs time_ms) const;

  WorldConfig config_;
  // A stream each, so that what is shown changes neither the visits nor the items.
  std::mt19937_64 visits_random_;
  std::mt19937_64 items_random_;
  std::mt19937_64 reactions_random_;
  std::vector<User> users_;
  std::vector<WorldItem> items_;
  std::size_t announced_ = 0;
  base::UnixMs next_birth_ms_ = 0;
};

}  // namespace sirenfeed::app
