// Applied events a second against RocksDB alone: the state's own reads and writes, captured by
// RocksDB's tracing and issued again to a fresh database with the same options (column families,
// WAL, write buffers, cache) and the same batches, with nothing computed in between. Two captures:
// `issued`, what the state really asks of RocksDB with its caches of decoded values, and `logical`,
// the same writes with every read of a value that an event needs (caches off). Afterwards the two
// databases must hold the same keys and values. SIRENFEED_KUAIRAND names the input (default: the
// slice of tests/data).
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/trace_reader_writer.h>
#include <rocksdb/trace_record.h>
#include <rocksdb/trace_record_result.h>
#include <rocksdb/utilities/replayer.h>
#include <rocksdb/write_buffer_manager.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/metrics.h"
#include "bench/bench_folder.h"
#include "bench/captured_database.h"
#include "bench/kuairand_log.h"
#include "bench/require.h"
#include "features/feature_state.h"
#include "ingest/event_parser.h"
#include "ingest/ingest_loop.h"

namespace sirenfeed {
namespace {

using bench::capture;
using bench::Families;
using bench::Handles;
using bench::require;

/// Processor time of the calling thread, which does all of the work in question on either side:
/// what else the machine does then counts for neither. RocksDB's background threads are left out.
double thread_seconds() {
  timespec now{};
  SF_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now) == 0);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

features::FeaturesConfig state_config(const std::string& dir, bool caches) {
  features::FeaturesConfig config;
  config.store.dir = dir;
  config.join.lateness_max_ms = 0;
  config.context.surfaces = {"0", "1", "2", "4", "6"};
  config.context.duration_field = "duration_ms";
  config.context.duration_unit_s = 0.001;
  if (!caches) {
    config.store.user_cache_bytes = 1;
    config.store.item_entries_max = 64;
    config.store.catalog_entries_max = 64;
    config.store.pending_bytes = 1;
  }
  return config;
}

constexpr std::size_t kBatch = 1'000;

struct Times {
  double apply_s = 0;
  double parse_s = 0;
};

/// The whole input through parser and state, in batches as live.
Times run_state(const std::string& dir, bool caches, const std::string& trace) {
  capture.trace = trace;
  base::MetricsRegistry registry;
  features::FeaturesProbe probe(registry);
  const auto state = require(features::FeatureState::open(state_config(dir, caches), probe, {}));
  std::vector<ingest::LogRecord> records = bench::kuairand_records();
  const base::EventClock clock;
  ingest::ParserConfig parser_config;
  parser_config.check_future = false;
  ingest::EventParser parser(parser_config, clock);
  Times times;
  std::vector<ingest::InputRecord> batch;
  for (std::size_t at = 0; at < records.size(); at += kBatch) {
    const double begin = thread_seconds();
    batch.clear();
    for (std::size_t i = at; i < std::min(at + kBatch, records.size()); ++i) {
      batch.push_back(parser.parse(std::move(records[i]), 1));
    }
    times.parse_s += thread_seconds() - begin;
    const double parsed = thread_seconds();
    require(state->apply(batch));
    times.apply_s += thread_seconds() - parsed;
  }
  SF_CHECK(probe.in.value() == records.size() && probe.applied.value() == records.size());
  if (!trace.empty()) SF_CHECK(capture.db->EndTrace().ok());
  capture.trace.clear();
  return times;
}

/// An open database beside the state's way of opening one.
struct Direct {
  explicit Direct(const std::string& dir) {
    rocksdb::DBOptions options = capture.options;
    // Of its own: what the state's database left in a shared one would count here.
    options.write_buffer_manager =
        std::make_shared<rocksdb::WriteBufferManager>(features::StoreConfig{}.memtable_bytes);
    options.info_log.reset();
    Families families = capture.families;
    for (auto& family : families) family.options.compaction_filter = nullptr;  // of a closed state
    rocksdb::DB* opened = nullptr;
    SF_CHECK(bench::open_real(options, dir, families, &handles, &opened).ok());
    db.reset(opened);
  }
  ~Direct() {
    for (auto* handle : handles) (void)db->DestroyColumnFamilyHandle(handle);
  }
  Direct(const Direct&) = delete;
  Direct& operator=(const Direct&) = delete;

  Handles handles;
  std::unique_ptr<rocksdb::DB> db;
};

struct Replayed {
  double seconds = 0;
  std::size_t reads = 0;
  std::size_t writes = 0;
};

Replayed replay(const std::string& trace, const std::string& dir) {
  const Direct direct(dir);
  std::unique_ptr<rocksdb::TraceReader> reader;
  SF_CHECK(
      rocksdb::NewFileTraceReader(rocksdb::Env::Default(), rocksdb::EnvOptions(), trace, &reader)
          .ok());
  std::unique_ptr<rocksdb::Replayer> replayer;
  SF_CHECK(direct.db->NewDefaultReplayer(direct.handles, std::move(reader), &replayer).ok());
  SF_CHECK(replayer->Prepare().ok());
  std::vector<std::unique_ptr<rocksdb::TraceRecord>> records;
  Replayed result;
  for (;;) {
    std::unique_ptr<rocksdb::TraceRecord> record;
    if (!replayer->Next(&record).ok()) break;
    const bool write = record->GetTraceType() == rocksdb::kTraceWrite;
    ++(write ? result.writes : result.reads);
    records.push_back(std::move(record));
  }
  const double begin = thread_seconds();
  for (const auto& record : records) {
    const rocksdb::Status status = replayer->Execute(record, nullptr);
    SF_CHECK(status.ok() || status.IsNotFound());
  }
  result.seconds = thread_seconds() - begin;
  return result;
}

// Of a value of the family of ids, which begin with it.
base::UnixMs time_of(const rocksdb::Slice& value) {
  base::UnixMs time = 0;
  SF_CHECK(value.size() >= sizeof time);
  std::memcpy(&time, value.data(), sizeof time);
  return time;
}

// Ids before it may be gone from a state that has compacted.
base::UnixMs expiry_floor(rocksdb::Iterator& ids) {
  base::UnixMs newest = INT64_MIN;
  for (ids.SeekToFirst(); ids.Valid(); ids.Next()) newest = std::max(newest, time_of(ids.value()));
  return newest - features::JoinConfig{}.dedup_horizon_ms;
}

/// Every key and value of the state's database and of the other, in every family. An id that has
/// expired may be gone from the state's and still be in the other, which is compacted without the
/// state's filter; nothing else may.
void check_equal(const std::string& state, const std::string& other) {
  const Direct a(state);
  const Direct b(other);
  std::size_t keys = 0, expired = 0;
  for (std::size_t family = 0; family < a.handles.size(); ++family) {
    const std::unique_ptr<rocksdb::Iterator> x(a.db->NewIterator({}, a.handles[family]));
    const std::unique_ptr<rocksdb::Iterator> y(b.db->NewIterator({}, b.handles[family]));
    const bool expires = a.handles[family]->GetName() == "expiring";
    const base::UnixMs floor = expires ? expiry_floor(*y) : INT64_MIN;
    x->SeekToFirst();
    for (y->SeekToFirst(); y->Valid(); y->Next()) {
      if (x->Valid() && x->key() == y->key()) {
        SF_CHECK(x->value() == y->value());
        x->Next();
        ++keys;
      } else {
        SF_CHECK(expires && time_of(y->value()) < floor);
        ++expired;
      }
    }
    SF_CHECK(!x->Valid() && x->status().ok() && y->status().ok());
  }
  std::printf("both databases hold the same %zu keys and values (%zu expired ids in one)\n", keys,
              expired);
}

void run(const std::filesystem::path& folder) {
  const auto dir = [&](const char* name) { return (folder / name).string(); };
  const std::size_t events = bench::kuairand_records().size();
  const Times ours = run_state(dir("ours"), true, "");
  run_state(dir("issued"), true, dir("issued.trace"));
  run_state(dir("logical"), false, dir("logical.trace"));
  const Replayed issued = replay(dir("issued.trace"), dir("direct-issued"));
  const Replayed logical = replay(dir("logical.trace"), dir("direct-logical"));
  check_equal(dir("ours"), dir("direct-issued"));
  const auto rate = [&](double seconds) { return static_cast<double>(events) / seconds; };
  std::printf("%zu events, batches of %zu\n", events, kBatch);
  std::printf("state, parse excluded   %9.0f events a second of its thread\n", rate(ours.apply_s));
  std::printf("state, parse included   %9.0f events a second of its thread\n",
              rate(ours.apply_s + ours.parse_s));
  const auto print = [&](const char* name, const Replayed& direct) {
    std::printf(
        "RocksDB, %-14s %9.0f events a second of its thread  (%zu reads, %zu batches)  "
        "state/RocksDB %.2f\n",
        name, rate(direct.seconds), direct.reads, direct.writes, direct.seconds / ours.apply_s);
  };
  print("issued", issued);
  print("logical reads", logical);
}

}  // namespace
}  // namespace sirenfeed

int main() {
  const sirenfeed::bench::BenchFolder folder;
  sirenfeed::run(folder.path());
  return 0;
}
