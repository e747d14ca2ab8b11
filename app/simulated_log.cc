#include "app/simulated_log.h"

#include <fmt/format.h>
#include <zlib.h>

#include <boost/json.hpp>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <queue>
#include <utility>
#include <vector>

#include "trainer/metrics.h"

namespace sirenfeed::app {
namespace {

namespace json = boost::json;
using base::ErrorCode;
using base::fail;

constexpr base::UnixMs kClickDelayMs = 1000;
constexpr double kLongViewShare = 0.5;

/// Text lines to a file, gzipped where its name ends so.
class LineFile {
 public:
  explicit LineFile(std::string path)
      : path_(std::move(path)),
        file_(gzopen(path_.c_str(), path_.ends_with(".gz") ? "wb" : "wbT")) {
    note(file_ != nullptr);
  }
  LineFile(const LineFile&) = delete;
  LineFile& operator=(const LineFile&) = delete;
  ~LineFile() { (void)close(); }

  /// Does nothing after the first failure, which ok() and close() tell of.
  void write(std::string line) {
    if (!error_.empty()) return;
    line += '\n';
    note(gzwrite(file_, line.data(), static_cast<unsigned>(line.size())) > 0);
  }
  [[nodiscard]] base::Result<void> ok() const {
    if (error_.empty()) return {};
    return fail(ErrorCode::kStorage, "{}: cannot be written: {}", path_, error_);
  }
  base::Result<void> close() {
    if (file_ != nullptr) note(gzclose(std::exchange(file_, nullptr)) == Z_OK);
    return ok();
  }

 private:
  void note(bool done) {
    if (!done && error_.empty()) error_ = errno != 0 ? std::strerror(errno) : "no more room";
  }

  const std::string path_;
  gzFile file_;
  std::string error_;
};

/// A line that waits for its time.
struct Due {
  base::UnixMs time_ms = 0;
  std::uint64_t number = 0;  // keeps the order of equal times
  std::string line;
  friend bool operator>(const Due& a, const Due& b) {
    return std::pair(a.time_ms, a.number) > std::pair(b.time_ms, b.number);
  }
};

class LogWriter {
 public:
  LogWriter(const WorldConfig& world, const SimulatedLogConfig& config)
      : config_(config), start_ms_(world.start_ms), world_(world), events_(config.file) {
    if (!config.truth_file.empty()) {
      truth_ = std::make_unique<LineFile>(config.truth_file);
      truth_->write("impression_id,time_ms,user_id,item_id,probability");
    }
  }

  base::Result<SimulatedLogReport> run(
      const std::function<void(double, std::uint64_t)>& on_progress) {
    const double span_ms = config_.days * static_cast<double>(base::kMsPerDay);
    const base::UnixMs end_ms = start_ms_ + static_cast<base::UnixMs>(span_ms);
    report_.last_from_ms = end_ms - static_cast<base::UnixMs>(span_ms / 3);
    while (true) {
      const WorldVisit visit = world_.next_visit();
      if (visit.time_ms >= end_ms) break;
      show(visit);
      SF_TRY(events_.ok());
      if (truth_) SF_TRY(truth_->ok());
      if (on_progress && report_.impressions % 1000 == 0) {
        on_progress(static_cast<double>(visit.time_ms - start_ms_) / span_ms, report_.impressions);
      }
    }
    write_until(end_ms + kClickDelayMs);
    SF_TRY(events_.close());
    if (truth_) SF_TRY(truth_->close());
    report_.bayes_auc = trainer::auc({probability_, clicked_});
    const auto last = static_cast<std::ptrdiff_t>(last_begin_.value_or(probability_.size()));
    report_.bayes_auc_last = trainer::auc({{probability_.begin() + last, probability_.end()},
                                           {clicked_.begin() + last, clicked_.end()}});
    return report_;
  }

 private:
  void due(base::UnixMs time_ms, const json::object& event) {
    due_.push({time_ms, number_++, json::serialize(event)});
  }
  void write_until(base::UnixMs time_ms) {
    while (!due_.empty() && due_.top().time_ms <= time_ms) {
      events_.write(due_.top().line);
      due_.pop();
    }
  }
  void announce(base::UnixMs time_ms) {
    for (const std::size_t i : world_.births_until(time_ms)) {
      const WorldItem& item = world_.items()[i];
      json::object event{{"topic", "items"},
                         {"item_id", item.id},
                         {"timestamp", item.born_ms},
                         {"published_at", item.born_ms},
                         {"tags", json::array{SimulatedWorld::topic_id(item.topic)}}};
      if (!item.author.empty()) event["author_id"] = item.author;
      due(item.born_ms, event);
      ++report_.items;
    }
  }
  void show(const WorldVisit& visit) {
    announce(visit.time_ms);
    const std::vector<std::size_t> items =
        world_.random_items(visit.user, visit.time_ms, config_.items_per_visit);
    if (items.empty()) return;
    if (!last_begin_ && visit.time_ms >= report_.last_from_ms) last_begin_ = probability_.size();
    const std::string user = world_.user_id(visit.user);
    const std::string impression = "i-" + std::to_string(report_.impressions++);
    json::array shown;
    for (const std::size_t i : items) shown.push_back(json::string(world_.items()[i].id));
    due(visit.time_ms, {{"topic", "impressions"},
                        {"impression_id", impression},
                        {"user_id", user},
                        {"timestamp", visit.time_ms},
                        {"items", std::move(shown)}});
    for (const std::size_t i : items) react(visit, i, user, impression);
    for (const std::size_t i : items) world_.show(visit.user, i, visit.time_ms);
    write_until(visit.time_ms);
  }
  void react(const WorldVisit& visit, std::size_t i, const std::string& user,
             const std::string& impression) {
    const WorldItem& item = world_.items()[i];
    const double probability = world_.click_probability(visit.user, i, visit.time_ms);
    const bool clicked = world_.draw(probability);
    ++report_.shown;
    probability_.push_back(probability);
    clicked_.push_back(clicked ? 1 : 0);
    if (truth_) {
      truth_->write(
          fmt::format("{},{},{},{},{:.6f}", impression, visit.time_ms, user, item.id, probability));
    }
    if (!clicked) return;
    ++report_.clicks;
    json::object action{{"topic", "clicks"},
                        {"type", "click"},
                        {"user_id", user},
                        {"item_id", item.id},
                        {"impression_id", impression},
                        {"timestamp", visit.time_ms + kClickDelayMs}};
    due(visit.time_ms + kClickDelayMs, action);
    if (!world_.draw(kLongViewShare)) return;
    action["type"] = "long_view";
    due(visit.time_ms + kClickDelayMs, action);
  }

  const SimulatedLogConfig config_;
  const base::UnixMs start_ms_;
  SimulatedWorld world_;
  LineFile events_;
  std::unique_ptr<LineFile> truth_;
  std::priority_queue<Due, std::vector<Due>, std::greater<>> due_;
  std::uint64_t number_ = 0;
  SimulatedLogReport report_;
  std::vector<double> probability_;
  std::vector<std::uint8_t> clicked_;
  std::optional<std::size_t> last_begin_;
};

}  // namespace

base::Result<void> SimulatedLogConfig::validate() const {
  if (!(days > 0)) {
    return fail(ErrorCode::kInvalidArgument, "--simulate.days: expected more than 0, got {}", days);
  }
  if (items_per_visit == 0) {
    return fail(ErrorCode::kInvalidArgument, "--items-per-visit: expected at least 1");
  }
  return {};
}

WorldConfig daily_world(WorldConfig config) {
  config.weekly_amplitude = 0;
  config.phase_drift_h_per_day = 0;
  config.quality_drift_per_day = 0;
  config.items_at_start = 600;
  config.authors = 0;
  return config;
}

base::Result<SimulatedLogReport> write_simulated_log(
    const WorldConfig& world, const SimulatedLogConfig& config,
    const std::function<void(double, std::uint64_t)>& on_progress) {
  SF_TRY(world.validate());
  SF_TRY(config.validate());
  LogWriter writer(world, config);
  return writer.run(on_progress);
}

}  // namespace sirenfeed::app
