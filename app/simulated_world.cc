#include "app/simulated_world.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numbers>

namespace sirenfeed::app {
namespace {

constexpr std::string_view kItemPrefix = "item-";
constexpr double kTwoPi = 2 * std::numbers::pi;
constexpr double kFreshnessHalfwayMs = 12.0 * static_cast<double>(base::kMsPerHour);
constexpr double kMsPerDayReal = static_cast<double>(base::kMsPerDay);

}  // namespace

base::Result<void> WorldConfig::validate() const {
  using base::ErrorCode, base::fail;
  if (users == 0) return fail(ErrorCode::kInvalidArgument, "simulate.users: expected at least 1");
  if (topics == 0) return fail(ErrorCode::kInvalidArgument, "simulate.topics: expected at least 1");
  if (authors == 0) {
    return fail(ErrorCode::kInvalidArgument, "simulate.authors: expected at least 1");
  }
  if (!(items_per_day > 0)) {
    return fail(ErrorCode::kInvalidArgument, "simulate.items_per_day: expected more than 0, got {}",
                items_per_day);
  }
  if (!(visits_per_day_min > 0) || !(visits_per_day_max >= visits_per_day_min)) {
    return fail(ErrorCode::kInvalidArgument,
                "simulate.visits_per_day: expected 0 < min <= max, got {} and {}",
                visits_per_day_min, visits_per_day_max);
  }
  return {};
}

SimulatedWorld::SimulatedWorld(const WorldConfig& config)
    : config_(config), random_(config.seed), next_birth_ms_(config.start_ms) {
  std::uniform_real_distribution<double> rate(config.visits_per_day_min, config.visits_per_day_max);
  std::uniform_real_distribution<double> hour(0, 24);
  std::uniform_real_distribution<double> day(0, 7);
  users_.resize(config.users);
  for (User& user : users_) {
    user.visits_per_ms = rate(random_) / kMsPerDayReal;
    for (std::uint32_t topic = 0; topic < config.topics; ++topic) {
      user.daily_phase_h.push_back(hour(random_));
      user.weekly_phase_d.push_back(day(random_));
    }
    user.next_visit_ms = config.start_ms;
    plan_visit(user);
  }
  std::uniform_int_distribution<base::UnixMs> age(0, config.item_life_ms);
  std::vector<base::UnixMs> births(config.items_at_start);
  for (base::UnixMs& birth : births) birth = config.start_ms - age(random_);
  std::sort(births.begin(), births.end());
  for (const base::UnixMs birth : births) add_item(birth);
}

std::string SimulatedWorld::user_id(std::uint32_t user) const {
  return "user-" + std::to_string(user);
}

std::string SimulatedWorld::topic_id(std::uint32_t topic) {
  return "topic-" + std::to_string(topic);
}

void SimulatedWorld::plan_visit(User& user) {
  std::exponential_distribution<double> gap(user.visits_per_ms);
  user.next_visit_ms += 1 + static_cast<base::UnixMs>(gap(random_));
}

void SimulatedWorld::add_item(base::UnixMs born_ms) {
  std::uniform_int_distribution<std::uint32_t> topic(0, config_.topics - 1);
  std::uniform_int_distribution<std::uint32_t> author(0, config_.authors - 1);
  std::normal_distribution<double> quality(0, 0.5);
  WorldItem item;
  item.id = std::string(kItemPrefix) + std::to_string(items_.size());
  item.author = "author-" + std::to_string(author(random_));
  item.topic = topic(random_);
  item.born_ms = born_ms;
  item.quality = quality(random_);
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

std::vector<std::size_t> SimulatedWorld::births_until(base::UnixMs time_ms) {
  std::exponential_distribution<double> gap(config_.items_per_day / kMsPerDayReal);
  while (next_birth_ms_ <= time_ms) {
    next_birth_ms_ += 1 + static_cast<base::UnixMs>(gap(random_));
    if (next_birth_ms_ <= time_ms) add_item(next_birth_ms_);
  }
  std::vector<std::size_t> born;
  for (; announced_ < items_.size(); ++announced_) born.push_back(announced_);
  return born;
}

double SimulatedWorld::click_probability(std::uint32_t user_index, std::size_t item_index,
                                         base::UnixMs time_ms) const {
  const User& user = users_[user_index];
  const WorldItem& item = items_[item_index];
  const double hour = static_cast<double>(time_ms % base::kMsPerDay) / base::kMsPerHour;
  const double day = static_cast<double>(time_ms % (7 * base::kMsPerDay)) / kMsPerDayReal;
  const auto worn =
      std::count_if(user.recent_topics.begin(), user.recent_topics.end(), [&](const auto& shown) {
        return shown.second == item.topic && time_ms - shown.first < base::kMsPerHour;
      });
  const double age_ms = static_cast<double>(time_ms - item.born_ms);
  const double logit =
      -0.5 +
      config_.daily_amplitude * std::cos(kTwoPi * (hour - user.daily_phase_h[item.topic]) / 24) +
      config_.weekly_amplitude * std::cos(kTwoPi * (day - user.weekly_phase_d[item.topic]) / 7) +
      item.quality + std::exp(-age_ms / kFreshnessHalfwayMs) - 0.3 -
      0.4 * static_cast<double>(worn);
  return 1 / (1 + std::exp(-logit));
}

void SimulatedWorld::show(std::uint32_t user_index, std::size_t item, base::UnixMs time_ms) {
  User& user = users_[user_index];
  user.shown.resize(std::max(user.shown.size(), items_.size()));
  user.shown[item] = true;
  user.recent_topics.emplace_back(time_ms, items_[item].topic);
  while (time_ms - user.recent_topics.front().first >= base::kMsPerHour) {
    user.recent_topics.pop_front();
  }
}

bool SimulatedWorld::draw(double probability) {
  return std::bernoulli_distribution(probability)(random_);
}

std::vector<std::size_t> SimulatedWorld::showable(std::uint32_t user_index,
                                                  base::UnixMs time_ms) const {
  const User& user = users_[user_index];
  std::vector<std::size_t> alive;
  for (std::size_t i = announced_; i-- > 0;) {
    if (items_[i].born_ms > time_ms) continue;
    if (time_ms - items_[i].born_ms >= config_.item_life_ms) break;  // in order of birth
    if (i >= user.shown.size() || !user.shown[i]) alive.push_back(i);
  }
  return alive;
}

std::size_t SimulatedWorld::find_item(const std::string& id) const {
  std::size_t index = items_.size();
  if (id.starts_with(kItemPrefix)) {
    std::from_chars(id.data() + kItemPrefix.size(), id.data() + id.size(), index);
  }
  return std::min(index, items_.size());
}

}  // namespace sirenfeed::app
