#pragma once
// A world whose truth is known: users with daily and weekly topic habits of their own phase, items
// with quality and freshness, fatigue. What a ranker should find out, and the yardstick for regret.
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace sirenfeed::app {

struct WorldConfig {
  std::uint64_t seed = 1;
  std::uint32_t users = 400;
  std::uint32_t topics = 4;
  std::uint32_t authors = 60;
  double items_per_day = 75;
  std::uint32_t items_at_start = 225;  // born in the item_life before the start
  double visits_per_day_min = 4;       // a user's own rate is uniform between these
  double visits_per_day_max = 20;
  base::UnixMs start_ms = 1'650'643'200'000;  // 2022-04-22T16:00Z
  base::UnixMs item_life_ms = 3 * base::kMsPerDay;
  double daily_amplitude = 2.5;   // logits, of the topic's cosine over 24 h
  double weekly_amplitude = 0.5;  // logits, over 7 days
  [[nodiscard]] base::Result<void> validate() const;
};

struct WorldItem {
  std::string id;
  std::string author;
  std::uint32_t topic = 0;
  base::UnixMs born_ms = 0;
  double quality = 0;
};

struct WorldVisit {
  std::uint32_t user = 0;
  base::UnixMs time_ms = 0;
};

/// Everything follows from the seed. Threads: one.
class SimulatedWorld {
 public:
  explicit SimulatedWorld(const WorldConfig& config);

  [[nodiscard]] const std::vector<WorldItem>& items() const { return items_; }
  [[nodiscard]] std::string user_id(std::uint32_t user) const;
  [[nodiscard]] static std::string topic_id(std::uint32_t topic);

  /// The next visit of any user; visits come in time order, each user's as a Poisson process.
  WorldVisit next_visit();
  /// Indices into items() of the items born up to `time_ms` since the last call.
  std::vector<std::size_t> births_until(base::UnixMs time_ms);
  /// P(click) of the item shown to the user at `time_ms`:
  ///   logit = -0.5 + daily·cos(2π(hour − φ)/24) + weekly·cos(2π(day − ψ)/7) + quality
  ///           + exp(−age/12 h) − 0.3 − 0.4 · (same topic shown to the user in the last hour)
  [[nodiscard]] double click_probability(std::uint32_t user, std::size_t item,
                                         base::UnixMs time_ms) const;
  /// The user was shown the item: it wears the topic out for an hour.
  void show(std::uint32_t user, std::size_t item, base::UnixMs time_ms);
  /// Draws whether a user reacts with this probability.
  bool draw(double probability);
  /// Items the user could be shown: alive and not yet shown to the user.
  [[nodiscard]] std::vector<std::size_t> showable(std::uint32_t user, base::UnixMs time_ms) const;
  /// The index of the item with this id; items().size() where there is none.
  [[nodiscard]] std::size_t find_item(const std::string& id) const;

 private:
  struct User {
    double visits_per_ms = 0;
    std::vector<double> daily_phase_h;   // one a topic
    std::vector<double> weekly_phase_d;  // one a topic
    base::UnixMs next_visit_ms = 0;
    std::vector<bool> shown;  // by item index
    std::deque<std::pair<base::UnixMs, std::uint32_t>> recent_topics;
  };
  void add_item(base::UnixMs born_ms);
  void plan_visit(User& user);

  WorldConfig config_;
  std::mt19937_64 random_;
  std::vector<User> users_;
  std::vector<WorldItem> items_;
  std::size_t announced_ = 0;
  base::UnixMs next_birth_ms_ = 0;
};

}  // namespace sirenfeed::app
