#include "app/simulated_world.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <numbers>

namespace sirenfeed::app {
namespace {

constexpr std::string_view kItemPrefix = "item-";
constexpr double kTwoPi = 2 * std::numbers::pi;
constexpr double kFreshnessHalfwayMs = 12.0 * static_cast<double>(base::kMsPerHour);
constexpr double kMsPerDayReal = static_cast<double>(base::kMsPerDay);
constexpr double kMsPerHourReal = static_cast<double>(base::kMsPerHour);
constexpr double kHoursPerWeek = 168;
constexpr double kQualityDeviation = 0.5;
constexpr std::size_t kNotAmongLast = 20;  // shown items that random showing does not repeat

/// Seeds of the streams of random numbers.
std::uint64_t stream_seed(std::uint64_t seed, std::uint64_t stream) {
  return (seed + 1) * 0x9E3779B97F4A7C15U + stream;
}

/// std::normal_distribution keeps half of a pair of draws; this one always makes two.
double normal(std::mt19937_64& random, double deviation) {
  const double u = (static_cast<double>(random() >> 11U) + 1) / 9007199254740993.0;  // (0, 1]
  const double v = static_cast<double>(random() >> 11U) / 9007199254740992.0;
  return deviation * std::sqrt(-2 * std::log(u)) * std::cos(kTwoPi * v);
}

}  // namespace

base::Result<void> WorldConfig::validate() const {
  using base::ErrorCode, base::fail;
  if (users == 0) return fail(ErrorCode::kInvalidArgument, "simulate.users: expected at least 1");
  if (topics == 0) return fail(ErrorCode::kInvalidArgument, "simulate.topics: expected at least 1");
  if (!(items_per_day > 0)) {
    return fail(ErrorCode::kInvalidArgument, "simulate.items_per_day: expected more than 0, got {}",
                items_per_day);
  }
  if (!(visits_per_day_min > 0) || !(visits_per_day_max >= visits_per_day_min)) {
    return fail(ErrorCode::kInvalidArgument,
                "simulate.visits_per_day_max: expected at least visits_per_day_min ({}) and that "
                "more than 0, got {}",
                visits_per_day_min, visits_per_day_max);
  }
  for (const auto& [name, value] : {std::pair("daily_amplitude", daily_amplitude),
                                    std::pair("weekly_amplitude", weekly_amplitude),
                                    std::pair("phase_drift_h_per_day", phase_drift_h_per_day),
                                    std::pair("quality_drift_per_day", quality_drift_per_day)}) {
    if (!(value >= 0) || !std::isfinite(value)) {
      return fail(ErrorCode::kInvalidArgument, "simulate.{}: expected 0 or more, got {}", name,
                  value);
    }
  }
  return {};
}

SimulatedWorld::SimulatedWorld(const WorldConfig& config)
    : config_(config),
      visits_random_(stream_seed(config.seed, 1)),
      items_random_(stream_seed(config.seed, 2)),
      reactions_random_(stream_seed(config.seed, 3)),
      next_birth_ms_(config.start_ms) {
  std::mt19937_64 users_random(stream_seed(config.seed, 4));
  std::uniform_real_distribution<double> rate(config.visits_per_day_min, config.visits_per_day_max);
  std::uniform_real_distribution<double> hour_of_day(0, 24);
  std::uniform_real_distribution<double> hour_of_week(0, kHoursPerWeek);
  users_.resize(config.users);
  for (User& user : users_) {
    user.visits_per_ms = rate(users_random) / kMsPerDayReal;
    for (std::uint32_t topic = 0; topic < config.topics; ++topic) {
      Habit habit;
      habit.daily_phase_h = hour_of_day(users_random);
      habit.weekly_phase_h = hour_of_week(users_random);
      habit.daily_drift_h_per_day = normal(users_random, config.phase_drift_h_per_day);
      habit.weekly_drift_h_per_day = normal(users_random, config.phase_drift_h_per_day);
      user.habits.push_back(habit);
    }
    user.next_visit_ms = config.start_ms;
    plan_visit(user);
  }
  std::uniform_int_distribution<base::UnixMs> age(0, config.item_life_ms);
  std::vector<base::UnixMs> births(config.items_at_start);
  for (base::UnixMs& birth : births) birth = config.start_ms - age(items_random_);
  std::sort(births.begin(), births.end());
  for (const base::UnixMs birth : births) add_item(birth);
  next_birth_ms_ += birth_gap_ms();
}

std::string SimulatedWorld::user_id(std::uint32_t user) const {
  return "user-" + std::to_string(user);
}

std::string SimulatedWorld::topic_id(std::uint32_t topic) {
  return "topic-" + std::to_string(topic);
}

void SimulatedWorld::plan_visit(User& user) {
  std::exponential_distribution<double> gap(user.visits_per_ms);
  user.next_visit_ms += 1 + static_cast<base::UnixMs>(gap(visits_random_));
}

void SimulatedWorld::add_item(base::UnixMs born_ms) {
  std::uniform_int_distribution<std::uint32_t> topic(0, config_.topics - 1);
  WorldItem item;
  item.id = std::string(kItemPrefix) + std::to_string(items_.size());
  if (config_.authors > 0) {
    std::uniform_int_distribution<std::uint32_t> author(0, config_.authors - 1);
    item.author = "author-" + std::to_string(author(items_random_));
  }
  item.topic = topic(items_random_);
  item.born_ms = born_ms;
  item.quality = normal(items_random_, kQualityDeviation);
  item.quality_drift_per_day = normal(items_random_, config_.quality_drift_per_day);
  items_.push_back(std::move(item));
}

WorldVisit SimulatedWorld::next_visit() {
  const auto next = std::min_element(
      users_.begin(), users_.end(),
      [](const User& a, const User& b) { return a.next_visit_ms < b.next_visit_ms; });
  const WorldVisit visit{static_cast<std::uint32_t>(next - users_.begin()), next->next_visit_ms};
  plan_visit(*next);
  return visit;
}

base::UnixMs SimulatedWorld::birth_gap_ms() {
  std::exponential_distribution<double> gap(config_.items_per_day / kMsPerDayReal);
  return 1 + static_cast<base::UnixMs>(gap(items_random_));
}

std::vector<std::size_t> SimulatedWorld::births_until(base::UnixMs time_ms) {
  for (; next_birth_ms_ <= time_ms; next_birth_ms_ += birth_gap_ms()) add_item(next_birth_ms_);
  std::vector<std::size_t> born;
  for (; announced_ < items_.size(); ++announced_) born.push_back(announced_);
  return born;
}

double SimulatedWorld::click_probability(std::uint32_t user_index, std::size_t item_index,
                                         base::UnixMs time_ms) const {
  const User& user = users_[user_index];
  const WorldItem& item = items_[item_index];
  const Habit& habit = user.habits[item.topic];
  const double days = static_cast<double>(time_ms - config_.start_ms) / kMsPerDayReal;
  const double hour = static_cast<double>(time_ms % base::kMsPerDay) / kMsPerHourReal;
  const double week_hour = static_cast<double>(time_ms % (7 * base::kMsPerDay)) / kMsPerHourReal;
  const double daily = hour - habit.daily_phase_h - habit.daily_drift_h_per_day * days;
  const double weekly = week_hour - habit.weekly_phase_h - habit.weekly_drift_h_per_day * days;
  const auto worn =
      std::count_if(user.recent_topics.begin(), user.recent_topics.end(), [&](const auto& shown) {
        return shown.second == item.topic && time_ms - shown.first < base::kMsPerHour;
      });
  const double age_ms = static_cast<double>(time_ms - item.born_ms);
  const double logit = -0.5 + config_.daily_amplitude * std::cos(kTwoPi * daily / 24) +
                       config_.weekly_amplitude * std::cos(kTwoPi * weekly / kHoursPerWeek) +
                       item.quality + item.quality_drift_per_day * age_ms / kMsPerDayReal +
                       std::exp(-age_ms / kFreshnessHalfwayMs) - 0.3 -
                       0.4 * static_cast<double>(worn);
  return 1 / (1 + std::exp(-logit));
}

void SimulatedWorld::show(std::uint32_t user_index, std::size_t item, base::UnixMs time_ms) {
  User& user = users_[user_index];
  user.shown.resize(std::max(user.shown.size(), items_.size()));
  user.shown[item] = true;
  user.last.push_back(item);
  if (user.last.size() > kNotAmongLast) user.last.pop_front();
  user.recent_topics.emplace_back(time_ms, items_[item].topic);
  while (time_ms - user.recent_topics.front().first >= base::kMsPerHour) {
    user.recent_topics.pop_front();
  }
}

bool SimulatedWorld::draw(double probability) {
  return std::bernoulli_distribution(probability)(reactions_random_);
}

std::pair<std::size_t, std::size_t> SimulatedWorld::living(base::UnixMs time_ms) const {
  const auto older = [](base::UnixMs time, const WorldItem& item) { return time < item.born_ms; };
  const auto announced = items_.begin() + static_cast<std::ptrdiff_t>(announced_);
  const auto first =
      std::upper_bound(items_.begin(), announced, time_ms - config_.item_life_ms, older);
  const auto last = std::upper_bound(first, announced, time_ms, older);
  return {static_cast<std::size_t>(first - items_.begin()),
          static_cast<std::size_t>(last - items_.begin())};
}

std::vector<std::size_t> SimulatedWorld::showable(std::uint32_t user_index,
                                                  base::UnixMs time_ms) const {
  const User& user = users_[user_index];
  const auto [first, last] = living(time_ms);
  std::vector<std::size_t> unseen;
  for (std::size_t i = last; i-- > first;) {
    if (i >= user.shown.size() || !user.shown[i]) unseen.push_back(i);
  }
  return unseen;
}

WorldOptimum SimulatedWorld::optimum(std::uint32_t user, base::UnixMs time_ms,
                                     std::size_t count) const {
  std::vector<double> probabilities;
  for (const std::size_t item : showable(user, time_ms)) {
    probabilities.push_back(click_probability(user, item, time_ms));
  }
  WorldOptimum optimum;
  if (probabilities.empty()) return optimum;
  const std::size_t shown = std::min(count, probabilities.size());
  std::partial_sort(probabilities.begin(),
                    probabilities.begin() + static_cast<std::ptrdiff_t>(shown), probabilities.end(),
                    std::greater<>());
  double sum = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    sum += probabilities[i];
    if (i < shown) optimum.best += probabilities[i];
  }
  optimum.random = sum / static_cast<double>(probabilities.size()) * static_cast<double>(shown);
  return optimum;
}

std::vector<std::size_t> SimulatedWorld::random_items(std::uint32_t user_index,
                                                      base::UnixMs time_ms, std::size_t count) {
  const User& user = users_[user_index];
  const auto [first, last] = living(time_ms);
  std::vector<std::size_t> left;
  for (std::size_t i = first; i < last; ++i) {
    if (std::find(user.last.begin(), user.last.end(), i) == user.last.end()) left.push_back(i);
  }
  std::vector<std::size_t> drawn;
  while (drawn.size() < count && !left.empty()) {
    std::uniform_int_distribution<std::size_t> any(0, left.size() - 1);
    const std::size_t at = any(reactions_random_);
    drawn.push_back(left[at]);
    left[at] = left.back();
    left.pop_back();
  }
  return drawn;
}

std::size_t SimulatedWorld::find_item(const std::string& id) const {
  std::size_t index = items_.size();
  if (id.starts_with(kItemPrefix)) {
    std::from_chars(id.data() + kItemPrefix.size(), id.data() + id.size(), index);
  }
  return std::min(index, items_.size());
}

}  // namespace sirenfeed::app
