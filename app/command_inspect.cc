#include <boost/json.hpp>
#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <iostream>
#include <memory>
#include <optional>

#include "app/command_line.h"
#include "app/example_file.h"
#include "app/http_client.h"
#include "app/open_log.h"
#include "app/run_file.h"
#include "features/feature_state.h"
#include "model/discovery.h"
#include "model/model_file.h"
#include "model/model_store.h"

namespace sirenfeed::app {
namespace {

namespace json = boost::json;
using base::ErrorCode;
using base::fail;

struct InspectOptions {
  std::string id;
  std::uint64_t version = 0;
  std::string topic;
  std::int64_t limit = 20;
  std::string raw_file;
  bool canonical = false;
};

/// The state of a stopped process, opened here.
class StoppedState {
 public:
  static base::Result<std::unique_ptr<StoppedState>> open(const Settings& settings) {
    features::FeaturesConfig config = settings.features;
    if (!std::filesystem::exists(config.store.dir)) {  // looking makes nothing
      return fail(ErrorCode::kNotFound, "{}: there is no state here", config.store.dir);
    }
    SF_ASSIGN(DataUse use, DataUse::share(settings.data_dir));
    auto opened = std::unique_ptr<StoppedState>(new StoppedState(std::move(use)));
    // A store knows its own number of partitions, whatever the topics of this run would have.
    SF_ASSIGN(const auto stored, features::FeatureState::stored_partitions(config.store));
    config.partitions = stored.value_or(settings.partitions);
    SF_ASSIGN(opened->state_, features::FeatureState::open(config, opened->probe_));
    return opened;
  }
  [[nodiscard]] features::FeatureState& state() { return *state_; }

 private:
  explicit StoppedState(DataUse use) : use_(std::move(use)), probe_(registry_) {}
  const DataUse use_;
  base::MetricsRegistry registry_;
  features::FeaturesProbe probe_;
  std::unique_ptr<features::FeatureState> state_;
};

base::Result<void> inspect_entity(const Settings& settings, const std::string& kind,
                                  const std::string& id) {
  if (const auto running = find_running(settings.data_dir)) {
    SF_ASSIGN(HttpClient client, HttpClient::make(running->url, std::chrono::seconds(10)));
    SF_ASSIGN(const HttpResponse response,
              client.request("GET", "/v1/" + kind + "s/" +
                                        boost::urls::encode(id, boost::urls::unreserved_chars)));
    fmt::print("{}\n", response.body);
    if (response.status >= 300) {
      return fail(ErrorCode::kNotFound, "{} {}: answered {}", kind, id, response.status);
    }
    return {};
  }
  SF_ASSIGN(const auto stopped, StoppedState::open(settings));
  SF_ASSIGN(const std::string text,
            kind == "user" ? stopped->state().inspect_user(id) : stopped->state().inspect_item(id));
  fmt::print("{}\n", text);
  return {};
}

base::Result<void> inspect_state(const Settings& settings, bool canonical) {
  if (const auto running = find_running(settings.data_dir)) {
    return fail(ErrorCode::kLocked,
                "{}: process {} owns this folder; stop it first (its /metrics has the sizes)",
                settings.data_dir, running->pid);
  }
  SF_ASSIGN(const auto stopped, StoppedState::open(settings));
  if (canonical) {
    SF_TRY(stopped->state().dump_canonical(std::cout));
    std::cout.flush();
    return {};
  }
  SF_ASSIGN(const auto families, stopped->state().families());
  fmt::print("{:<16} {:>12} {:>14}\n", "family", "keys", "bytes");
  for (const features::FamilySize& family : families) {
    fmt::print("{:<16} {:>12} {:>14}\n", family.family, family.keys, family.bytes);
  }
  SF_ASSIGN(const features::Conservation counts, stopped->state().conservation());
  fmt::print("in {} = applied {} + rejected {} + duplicate {}\n", counts.in, counts.applied,
             counts.rejected, counts.duplicate);
  return {};
}

base::Result<void> inspect_model(const Settings& settings, std::uint64_t version) {
  const model::ModelStoreReader store(settings.models_dir());
  if (version == 0) {
    SF_ASSIGN(const auto wanted, store.wanted());
    if (!wanted) {
      return fail(ErrorCode::kNotFound, "{}: no version yet", settings.models_dir());
    }
    version = *wanted;
  }
  SF_ASSIGN(const auto snapshot, store.load(version));
  const model::Model& model = snapshot->model;
  json::object out =
      json::parse(model::config_to_json(model.config, model.statistics.context_examples))
          .as_object();
  out["version"] = version;
  out["dense_parameters"] = model.dense.size();
  for (std::size_t i = 0; i < model::kTableCount; ++i) {
    out[std::string(model::kTableNames[i]) + "_rows"] = model.tables[i].size();
  }
  const std::vector<model::DiscoveredSignal> signals = model::discovered_signals(model);
  if (!signals.empty()) {
    json::object& gates = out["signals"].emplace_object();
    for (const model::DiscoveredSignal& signal : signals) {
      gates[signal.name] = json::object{{"gate", signal.gate}, {"kept", signal.kept}};
    }
  }
  out["metrics"] = json::parse(snapshot->manifest.metrics_json);
  fmt::print("{}\n", json::serialize(out));
  return {};
}

void print_record(ingest::Topic topic, const ingest::LogRecord& record) {
  const std::string value = record.value.value_or("null");
  fmt::print("{} {} {} {}\n", record.offset, record.log_time_ms, record.key.value_or("-"),
             topic == ingest::Topic::kExamples ? fmt::format("({} bytes of protobuf)", value.size())
                                               : value);
}

/// The newest `limit` records of a partition.
base::Result<void> read_newest(ingest::EventLog& log, ingest::LogReader& reader,
                               ingest::TopicPartition source, std::int64_t limit,
                               const std::function<void(const ingest::LogRecord&)>& each) {
  SF_ASSIGN(const ingest::EventLog::Bounds bounds, log.bounds(source));
  ingest::Offset from = std::max(bounds.first, bounds.next - limit);
  if (from >= bounds.next) return {};
  SF_TRY(reader.assign(source, from));
  while (from < bounds.next) {
    SF_ASSIGN(const ingest::PollBatch batch, reader.poll(std::chrono::milliseconds(1000)));
    if (batch.broker_lost) return fail(ErrorCode::kUnavailable, "no broker answers");
    for (const ingest::LogRecord& record : batch.records) {
      each(record);
      from = record.offset + 1;
    }
    if (batch.records.empty() && !batch.at_end.empty()) break;
  }
  return reader.unassign(source);
}

base::Result<void> inspect_log(const Settings& settings, const InspectOptions& options) {
  const auto topic = ingest::topic_from_name(options.topic);
  if (!topic) {
    return fail(ErrorCode::kInvalidArgument,
                "topic: expected items, users, requests, impressions, clicks, examples or "
                "dead-letters, got '{}'",
                options.topic);
  }
  SF_ASSIGN(const DataUse use, DataUse::share_log(settings));
  SF_ASSIGN(const auto log, open_log(settings, use));
  SF_ASSIGN(const ingest::Partition partitions, log->partitions(*topic));
  SF_ASSIGN(const auto reader, log->open_reader({.name = "sirenfeed-inspect"}));
  std::optional<ExampleFile> raw;
  if (!options.raw_file.empty()) {
    SF_ASSIGN(ExampleFile file, ExampleFile::create(options.raw_file));
    raw.emplace(std::move(file));
  }
  for (ingest::Partition partition = 0; partition < partitions; ++partition) {
    SF_TRY(read_newest(*log, *reader, {*topic, partition}, options.limit,
                       [&](const ingest::LogRecord& record) {
                         if (raw) {
                           raw->append(record.value.value_or(""));
                         } else {
                           print_record(*topic, record);
                         }
                       }));
  }
  return raw ? raw->close() : base::Result<void>();
}

}  // namespace

void add_inspect_command(CommandLine& line) {
  auto options = std::make_shared<InspectOptions>();
  CLI::App& command =
      add_command(line, "inspect", "Look at a user, an item, a model, a topic, the state",
                  "  sirenfeed inspect user user-1 --data data\n"
                  "  sirenfeed inspect model --data data\n"
                  "  sirenfeed inspect log dead-letters --brokers 127.0.0.1:9092\n"
                  "  sirenfeed inspect state --canonical --data data");
  command.require_subcommand(1);
  for (const char* kind : {"user", "item"}) {
    CLI::App* entity =
        command.add_subcommand(kind, std::string("What the state knows of a ") + kind);
    entity->add_option("id", options->id, "Its id")->required();
    entity->fallthrough();
    entity->callback([&line, options, kind] {
      line.action = [&line, options, kind] {
        return inspect_entity(line.settings, kind, options->id);
      };
    });
  }
  CLI::App* model = command.add_subcommand("model", "Configuration and sizes of a version");
  model->add_option("version", options->version, "Its number (default: the served one)");
  model->callback([&line, options] {
    line.action = [&line, options] { return inspect_model(line.settings, options->version); };
  });
  CLI::App* log = command.add_subcommand("log", "The newest records of a topic");
  log->add_option("topic", options->topic, "The topic")->required();
  log->add_option("--limit", options->limit, "Records of each partition")->capture_default_str();
  log->add_option("--raw", options->raw_file,
                  "Write the values to this file instead (each a u32 length and its bytes)");
  log->callback([&line, options] {
    line.action = [&line, options] { return inspect_log(line.settings, *options); };
  });
  CLI::App* state = command.add_subcommand("state", "Keys and bytes of each family");
  state->add_flag("--canonical", options->canonical, "Every key and value, decoded, in order");
  state->callback([&line, options] {
    line.action = [&line, options] { return inspect_state(line.settings, options->canonical); };
  });
  for (CLI::App* each : {model, log, state}) each->fallthrough();
}

}  // namespace sirenfeed::app
