// Ten million generated events (seeded) through parser, merge and state with live settings on one
// thread: memory and speed of every million, then what reading one user costs. The outbox is
// acknowledged as a log would. EVENTS, USERS, ITEMS change the sizes; the default for ten million
// is minutes, so that `make bench` runs 500,000. COVER=1 first shows every user and every item
// once, as for the state of a million of each:
//   COVER=1 EVENTS=4000000 USERS=1000000 ITEMS=1000000 memory_bench
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/metrics.h"
#include "bench/bench_folder.h"
#include "bench/captured_database.h"
#include "bench/require.h"
#include "features/feature_state.h"
#include "ingest/event_json.h"
#include "ingest/ingest_loop.h"
#include "ingest/replay_log_reader.h"
#include "ingest/replay_order.h"

namespace sirenfeed {
namespace {

using bench::require;

using Clock = std::chrono::steady_clock;

constexpr base::UnixMs kStart = 1'700'000'000'000;
constexpr base::UnixMs kStepMs = 370;  // ten million events are a month

std::uint64_t setting(const char* name, std::uint64_t usual) {
  const char* text = std::getenv(name);
  return text == nullptr ? usual : std::strtoull(text, nullptr, 10);
}

/// Impressions of one item, two fifths of them clicked within five minutes; a tenth of the users
/// and items get a third of everything. An item's event comes before its first exposure.
class GeneratedReader final : public ingest::ReplayReader {
 public:
  GeneratedReader(std::uint64_t events, std::uint64_t users, std::uint64_t items, bool cover)
      : events_(events),
        users_(users),
        items_(items),
        covered_(cover ? std::max(users, items) : 0),
        known_(items, false) {}

  base::Result<std::optional<ingest::ReplayRecord>> next() override {
    if (given_ == events_) return std::nullopt;
    while (true) {
      auto record = order_.pop_before(now_);
      if (record) {
        ++given_;
        return record;
      }
      step();
    }
  }
  std::uint64_t bytes_read() const override { return given_; }
  std::uint64_t bytes_total() const override { return events_; }

 private:
  std::uint64_t skewed(std::uint64_t count) {
    const double u = std::uniform_real_distribution<double>()(random_);
    return std::min(count - 1, static_cast<std::uint64_t>(u * u * static_cast<double>(count)));
  }
  void step() {
    now_ = kStart + static_cast<base::UnixMs>(steps_) * kStepMs;
    const bool covering = steps_ < covered_;
    const std::uint64_t item = covering ? steps_ % items_ : skewed(items_);
    const std::uint64_t user = covering ? steps_ % users_ : skewed(users_);
    ingest::Impression shown;
    shown.impression_id = "i" + std::to_string(steps_++);
    shown.user_id = "user-" + std::to_string(user);
    shown.time_ms = now_;
    shown.items.emplace_back().item_id = "item-" + std::to_string(item);
    shown.surface = "home";
    if (!known_[item]) {
      known_[item] = true;
      ingest::ItemUpdate update;
      update.item_id = shown.items[0].item_id;
      update.time_ms = now_;
      update.author_id = "author-" + std::to_string(item % (items_ / 20 + 1));
      update.tags = {"tag-" + std::to_string(item % 97)};
      order_.push(std::move(update));
    }
    if (random_() % 5 < 2) {
      ingest::Action click;
      click.user_id = shown.user_id;
      click.item_id = shown.items[0].item_id;
      click.time_ms = now_ + 500 + static_cast<base::UnixMs>(random_() % 300'000);
      click.type = "click";
      click.impression_id = shown.impression_id;
      click.event_id = shown.impression_id + ":click";
      order_.push(std::move(click));
    }
    order_.push(std::move(shown));
  }

  const std::uint64_t events_, users_, items_;
  const std::uint64_t covered_;  // impressions that go through all users and items in turn
  std::mt19937_64 random_{1};
  std::vector<bool> known_;
  ingest::ReplayOrder order_;
  base::UnixMs now_ = kStart;
  std::uint64_t steps_ = 0;
  std::uint64_t given_ = 0;
};

/// Processor time of all threads, compactions included.
double process_seconds() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

double resident_mib() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1U << 20U);
}

double folder_mib(const std::string& dir) {
  std::uintmax_t bytes = 0;
  std::error_code gone;  // a compaction may remove a file meanwhile
  for (const auto& entry : std::filesystem::directory_iterator(dir, gone)) {
    const auto size = entry.file_size(gone);
    if (!gone) bytes += size;
  }
  return static_cast<double>(bytes) / (1U << 20U);
}

/// The state, with an outbox that a log has taken at once, and a line every million records.
class MeasuredSink final : public ingest::EventSink {
 public:
  MeasuredSink(features::FeatureState& state, const std::string& dir, std::uint64_t every)
      : state_(state), dir_(dir), every_(every), from_(Clock::now()) {
    std::printf("%12s %12s %14s %10s %12s\n", "events", "events/s", "events/cpu s", "RSS MiB",
                "on disk MiB");
  }
  base::Result<void> apply(std::span<const ingest::InputRecord> records) override {
    const auto begin = Clock::now();
    SF_TRY(state_.apply(records));
    apply_ms_.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    SF_ASSIGN(const auto streams, state_.outbox().streams());
    for (const auto stream : streams) {
      SF_ASSIGN(const auto entries,
                state_.outbox().read(stream, taken_ + 1, 100'000, std::size_t{64} << 20U));
      if (entries.empty()) continue;
      taken_ = entries.back().sequence;
      SF_TRY(state_.outbox().acknowledge(stream, taken_));
    }
    records_ += records.size();
    if (records_ / every_ > reported_) report();
    return {};
  }
  base::Result<std::optional<ingest::AppliedPosition>> position(
      ingest::TopicPartition source) override {
    return state_.position(source);
  }
  base::Result<void> idle(ingest::Partition partition) override { return state_.idle(partition); }
  base::Result<void> close_windows(ingest::Partition partition) override {
    return state_.close_windows(partition);
  }
  [[nodiscard]] std::uint64_t records() const { return records_; }
  [[nodiscard]] const std::vector<double>& apply_ms() const { return apply_ms_; }

 private:
  void report() {
    const auto now = Clock::now();
    const double seconds = std::chrono::duration<double>(now - from_).count();
    const auto events = static_cast<double>(records_ - before_);
    const double cpu_seconds = process_seconds();
    std::printf("%12llu %12.0f %14.0f %10.0f %12.0f\n", static_cast<unsigned long long>(records_),
                events / seconds, events / (cpu_seconds - cpu_from_), resident_mib(),
                folder_mib(dir_));
    cpu_from_ = cpu_seconds;
    std::fflush(stdout);
    reported_ = records_ / every_;
    before_ = records_;
    from_ = now;
  }

  features::FeatureState& state_;
  const std::string& dir_;
  const std::uint64_t every_;
  Clock::time_point from_;
  double cpu_from_ = process_seconds();
  std::vector<double> apply_ms_;  // of each batch
  std::uint64_t records_ = 0, before_ = 0, reported_ = 0, taken_ = 0;
};

void print_quantiles(const char* what, const char* unit, std::vector<double> values) {
  std::sort(values.begin(), values.end());
  std::printf("%-24s p50 %6.1f %s  p99 %6.1f %s  max %8.1f %s\n", what, values[values.size() / 2],
              unit, values[values.size() * 99 / 100], unit, values.back(), unit);
}

/// How often RocksDB slowed writes down or stopped them, by its own count.
void report_stalls() {
  for (rocksdb::ColumnFamilyHandle* family : bench::capture.handles) {
    std::map<std::string, std::string> statistics;
    SF_CHECK(
        bench::capture.db->GetMapProperty(family, rocksdb::DB::Properties::kCFStats, &statistics));
    std::printf("  %-24s writes slowed down %s times, stopped %s times\n",
                family->GetName().c_str(), statistics.at("io_stalls.total_slowdown").c_str(),
                statistics.at("io_stalls.total_stop").c_str());
  }
}

void report_reads(const features::FeatureState& state, std::uint64_t users) {
  std::mt19937_64 random(2);
  const base::UnixMs now = kStart + 60 * base::kMsPerDay;
  std::vector<double> first_us, again_us;
  for (int i = 0; i < 20'000; ++i) {
    const std::string user = "user-" + std::to_string(random() % users);
    for (std::vector<double>* times : {&first_us, &again_us}) {
      const auto begin = Clock::now();
      const auto read = require(state.reader().read_user(user, now));
      times->push_back(std::chrono::duration<double, std::micro>(Clock::now() - begin).count());
      SF_CHECK(read.user_id == user);
    }
  }
  print_quantiles("reading one user, first", "us", std::move(first_us));
  print_quantiles("reading one user, warm", "us", std::move(again_us));
}

void run(const std::string& dir) {
  const std::uint64_t events = setting("EVENTS", 500'000);
  const std::uint64_t users = setting("USERS", 100'000);
  const std::uint64_t items = setting("ITEMS", 20'000);
  std::printf("%llu events, %llu users, %llu items\n", static_cast<unsigned long long>(events),
              static_cast<unsigned long long>(users), static_cast<unsigned long long>(items));
  base::MetricsRegistry registry;
  features::FeaturesProbe probe(registry);
  const ingest::IngestProbe ingest_probe(registry);
  features::FeaturesConfig config;
  config.store.dir = dir;
  config.join.lateness_max_ms = 0;
  const auto state = require(features::FeatureState::open(config, probe, {}));
  MeasuredSink sink(*state, dir, std::min<std::uint64_t>(1'000'000, events / 5));
  ingest::ReplayLog log(
      std::make_unique<GeneratedReader>(events, users, items, setting("COVER", 0) != 0));
  ingest::IngestConfig ingest_config;
  ingest_config.parser.check_future = false;
  ingest_config.idle_flush_after.reset();
  const base::EventClock clock;
  const base::SteadyClock steady;
  ingest::IngestLoop loop(ingest_config, {log, sink, clock, steady, ingest_probe});
  require(loop.run_until_end());
  SF_CHECK(sink.records() == events && probe.in.value() == events);
  SF_CHECK(probe.applied.value() == events && probe.duplicate.value() == 0);
  for (const features::FamilySize& family : require(state->families())) {
    std::printf("  %-24s %12llu keys %12.1f MiB\n", family.family.c_str(),
                static_cast<unsigned long long>(family.keys),
                static_cast<double>(family.bytes) / (1U << 20U));
  }
  print_quantiles("applying one batch", "ms", sink.apply_ms());
  report_stalls();
  report_reads(*state, users);
}

}  // namespace
}  // namespace sirenfeed

int main() {
  const sirenfeed::bench::BenchFolder folder;
  sirenfeed::run(folder.path());
  return 0;
}
