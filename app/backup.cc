#include "app/backup.h"

#include <array>
#include <boost/json.hpp>
#include <filesystem>

#include "app/data_use.h"
#include "app/http_client.h"
#include "app/progress_line.h"
#include "app/run_file.h"
#include "app/stopped_node.h"
#include "base/build_info.h"
#include "base/clock.h"
#include "base/log.h"
#include "features/log_coverage.h"
#include "features/store.h"
#include "features/stored_state.h"
#include "model/file_io.h"
#include "model/model_store.h"

namespace sirenfeed::app {
namespace {

namespace fs = std::filesystem;
using base::ErrorCode;
using base::fail;
using ingest::Topic;

constexpr std::chrono::minutes kOwnerWaitMax{30};
constexpr int kModelAttempts = 5;
constexpr std::array kWritten = {Topic::kExamples, Topic::kDeadLetters};

/// Topic-partitions and their files as they were at one moment.
using Extents = std::vector<std::vector<ingest::LogFile>>;

template <class Topics>
base::Result<void> add_extents(ingest::EventLog& log, const Topics& topics, Extents& extents) {
  for (const Topic topic : topics) {
    SF_ASSIGN(const ingest::Partition partitions, log.partitions(topic));
    for (ingest::Partition p = 0; p < partitions; ++p) {
      SF_ASSIGN(auto files, log.files({topic, p}));
      extents.push_back(std::move(files));
    }
  }
  return {};
}

base::Result<void> copy_log(const Extents& extents, const fs::path& log_dir, const fs::path& to) {
  SF_TRY(copy_durably(log_dir / "LOG", to / "LOG"));
  for (const auto& files : extents) {
    bool kept_one = false;
    for (const ingest::LogFile& file : files) {
      const fs::path target = to / file.path.lexically_relative(log_dir);
      const auto done =
          file.growing ? copy_durably(file.path, target, file.bytes) : link_file(file.path, target);
      // Retention removes from the oldest on.
      if (!done && done.error().code == ErrorCode::kNotFound && !kept_one) continue;
      SF_TRY(done);
      kept_one = true;
    }
  }
  return {};
}

base::Result<void> ask_owner(const RunningProcess& owner, const std::string& dir) {
  SF_ASSIGN(HttpClient client, HttpClient::make(owner.url, kOwnerWaitMax));
  const boost::json::object body{{"dir", fs::absolute(dir).string()}, {"token", owner.token}};
  SF_ASSIGN(const HttpResponse response,
            client.request("POST", "/v1/admin/backup", boost::json::serialize(body)));
  if (response.status == 200) return {};
  return fail(ErrorCode::kStorage, "process {} at {} answered {}: {}", owner.pid, owner.url,
              response.status, response.body);
}

base::Result<void> back_up_stopped(const Settings& settings, const std::string& dir) {
  Settings offline = settings;
  offline.brokers.clear();  // Kafka keeps its own log
  const bool has_log = settings.brokers.empty() && fs::exists(settings.log_dir() + "/LOG");
  SF_ASSIGN(const auto node, StoppedNode::open(offline, has_log ? StoppedNode::Log::kEmbedded
                                                                : StoppedNode::Log::kNone));
  return back_up_owned(node->state(), node->log_or_null(), settings.log_dir(), dir);
}

/// What would be served now, and what once nothing is pinned any more, with the deltas below them.
base::Result<void> verify_models(const model::ModelStoreReader& copy) {
  SF_ASSIGN(const auto wanted, copy.wanted());
  SF_ASSIGN(const auto versions, copy.list());
  if (!wanted || versions.empty()) {
    return fail(ErrorCode::kNotFound, "no version of the model is there");
  }
  SF_TRY(copy.load(*wanted));
  if (versions.back().version != *wanted) SF_TRY(copy.load(versions.back().version));
  return {};
}

// The newest version and those before it; a publisher or its clean-up may be at work.
base::Result<bool> back_up_models(const std::string& from, const fs::path& to) {
  const model::ModelStoreReader source(from);
  SF_ASSIGN(const auto wanted, source.wanted());
  if (!wanted) return false;
  base::Result<void> done;
  for (int attempt = 0; attempt < kModelAttempts; ++attempt) {
    std::error_code ignored;
    fs::remove_all(to, ignored);
    SF_ASSIGN(const auto files, list_files(from));
    // First what names the newest version, so that it is there when its turn comes.
    for (const char* name : {"CURRENT", "PINNED"}) {
      const auto copied = copy_durably(fs::path(from) / name, to / name);
      if (!copied && copied.error().code != ErrorCode::kNotFound) return fail(copied.error());
    }
    for (const std::string& file : files) {
      if (!file.starts_with("versions/") || file.starts_with("versions/writing/")) continue;
      const auto linked = link_file(fs::path(from) / file, to / file);
      if (!linked && linked.error().code != ErrorCode::kNotFound) return fail(linked.error());
    }
    const model::ModelStoreReader copy(to.string());
    done = verify_models(copy);
    if (done) return true;
  }
  if (const auto original = verify_models(source); !original) {
    // Not of the copying: a damaged version must not keep the rest from being backed up.
    base::log_warning("{}: copied as it is: {}", from, original.error().message);
    return true;
  }
  return fail(ErrorCode::kStorage, "{}: the models change faster than they can be copied{}{}", from,
              done ? "" : ": ", done ? "" : done.error().message);
}

base::Result<void> fill(const Settings& settings, const std::string& dir,
                        BackupManifest& manifest) {
  const std::string checkpoint = settings.trainer.checkpoint_file;
  if (fs::exists(checkpoint)) {
    SF_TRY(link_file(checkpoint, fs::path(dir) / "trainer/checkpoint"));
    manifest.parts.emplace_back("trainer");
  }
  SF_ASSIGN(const bool models, back_up_models(settings.models_dir(), fs::path(dir) / "models"));
  if (models) manifest.parts.emplace_back("models");
  if (const auto owner = find_running(settings.data_dir)) {
    base::log_info("process {} at {} writes its part", owner->pid, owner->url);
    SF_TRY(ask_owner(*owner, dir));
  } else if (fs::exists(settings.state_dir())) {
    SF_TRY(back_up_stopped(settings, dir));
  }
  if (fs::exists(fs::path(dir) / "state")) {
    features::StoreConfig store;
    store.dir = dir + "/state";
    SF_ASSIGN(const features::StoredState state, features::read_stored_state(store));
    manifest.parts.emplace_back("state");
    manifest.state_format = state.format.version;
    manifest.partitions = state.format.partitions;
    for (const auto& [source, at] : state.positions) {
      manifest.positions.push_back(
          {std::string(ingest::topic_name(source.topic)), source.partition, at.offset, at.time_ms});
    }
  }
  if (fs::exists(fs::path(dir) / "log")) manifest.parts.emplace_back("log");
  if (manifest.parts.empty()) {
    return fail(ErrorCode::kNotFound, "{}: there is nothing here to back up", settings.data_dir);
  }
  return {};
}

std::uint64_t bytes_below(const std::string& dir) {
  std::uint64_t sum = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->is_regular_file(error)) sum += entry->file_size(error);
  }
  return sum;
}

base::Result<void> finish(const std::string& dir, BackupManifest& manifest) {
  SF_TRY(sync_folders(dir));
  ProgressLine line("check-sums");
  SF_ASSIGN(manifest.files, sum_files(dir, line.bytes_of(bytes_below(dir))));
  line.finish();
  manifest.version = base::kVersion;
  manifest.commit = base::kCommit;
  manifest.build = base::kBuildType;
  manifest.created_ms = base::WallClock().now_ms();
  return model::replace_file(dir + "/manifest.json", manifest_to_json(manifest));
}

}  // namespace

base::Result<void> back_up_owned(const features::FeatureState& state, ingest::EventLog* log,
                                 const std::string& log_dir, const std::string& dir) {
  for (const char* part : {"/state", "/log"}) {
    if (fs::exists(dir + part)) return fail(ErrorCode::kAlreadyExists, "{}{}: exists", dir, part);
  }
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return fail(ErrorCode::kStorage, "{}: cannot be made: {}", dir, error.message());
  Extents extents;
  SF_TRY(state.backup_to(dir + "/state", [&]() -> base::Result<void> {
    return log == nullptr ? base::Result<void>() : add_extents(*log, kWritten, extents);
  }));
  if (log == nullptr) return {};
  SF_TRY(add_extents(*log, features::kInputTopics, extents));
  return copy_log(extents, log_dir, fs::path(dir) / "log");
}

base::Result<BackupManifest> make_backup(const Settings& settings, const std::string& dir) {
  if (!is_empty_folder(dir)) {
    return fail(ErrorCode::kAlreadyExists, "{}: is not empty; a backup needs a folder of its own",
                dir);
  }
  std::optional<DataUse> use;  // restore and rebuild wait for the end
  if (fs::exists(settings.data_dir)) {
    SF_ASSIGN(DataUse taken, DataUse::share(settings.data_dir));
    use.emplace(std::move(taken));
  }
  const bool existed = fs::exists(dir);
  std::error_code error;
  fs::create_directories(dir, error);
  if (error) return fail(ErrorCode::kStorage, "{}: cannot be made: {}", dir, error.message());
  BackupManifest manifest;
  base::Result<void> done = fill(settings, dir, manifest);
  if (done) done = finish(dir, manifest);
  if (done) return manifest;
  for (fs::directory_iterator entry(dir, error), end; !error && entry != end;
       entry.increment(error)) {
    std::error_code ignored;
    fs::remove_all(entry->path(), ignored);
  }
  if (!existed) fs::remove(dir, error);
  return fail(done.error());
}

}  // namespace sirenfeed::app
