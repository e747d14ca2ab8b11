#include <boost/json.hpp>
#include <cstdio>
#include <memory>

#include "app/command_line.h"
#include "app/http_log_writer.h"
#include "app/open_log.h"
#include "app/progress_line.h"
#include "app/replay_arguments.h"
#include "app/stop_signal.h"
#include "ingest/publisher.h"
#include "ingest/replay_reader.h"

namespace sirenfeed::app {
namespace {

using base::ErrorCode;
using base::fail;

struct PublishOptions {
  std::string file;
  ReplayArguments replay;
  std::string speed = "max";
  std::string resume_file;
  std::string http_url;
  bool json_output = false;
};

constexpr std::chrono::milliseconds kHttpTimeout{30'000};

/// Where the events go: a log that outlives its writer, or a server.
struct Target {
  std::optional<DataUse> use;  // of the embedded log's folder
  std::unique_ptr<ingest::EventLog> log;
  std::unique_ptr<ingest::LogWriter> writer;
  std::string name;
};

base::Result<Target> open_target(const PublishOptions& options, const Settings& settings,
                                 ingest::PublisherConfig& config) {
  Target target;
  if (!options.http_url.empty()) {
    SF_ASSIGN(HttpClient client, HttpClient::make(options.http_url, kHttpTimeout));
    auto shared = std::make_shared<HttpClient>(std::move(client));
    target.writer =
        std::make_unique<HttpLogWriter>(HttpLogWriterConfig{}, [shared](std::string body) {
          return shared->request("POST", "/v1/events", std::move(body), "application/x-ndjson");
        });
    target.name = options.http_url;
    return target;
  }
  SF_ASSIGN(DataUse use, DataUse::share_log(settings));
  target.use.emplace(std::move(use));
  SF_ASSIGN(target.log, open_log(settings, *target.use));
  SF_ASSIGN(config.partitions, target.log->partitions(ingest::Topic::kImpressions));
  SF_ASSIGN(config.item_partitions, target.log->partitions(ingest::Topic::kItems));
  SF_ASSIGN(target.writer, target.log->open_writer("sirenfeed-publish"));
  target.name = settings.brokers.empty() ? settings.log_dir() : settings.brokers;
  return target;
}

/// What a resume file belongs to: the input, how it is read, and where it goes.
base::Result<std::string> identity(const PublishOptions& options, const ReplayChoice& choice,
                                   const std::string& target) {
  SF_ASSIGN(std::string text, ingest::file_fingerprint(options.file));
  const auto items = ingest::replay_items_file(options.file, choice.format, choice.options);
  if (items) {
    SF_ASSIGN(const std::string fingerprint, ingest::file_fingerprint(*items));
    text += " with " + fingerprint;
  }
  return fmt::format("{} as {} ({}) to {}", text, ingest::replay_format_name(choice.format),
                     choice.options.rules(), target);
}

base::Result<std::optional<double>> parse_speed(const std::string& text) {
  if (text == "max") return std::optional<double>();
  double speed = 0;
  if (std::sscanf(text.c_str(), "%lf", &speed) != 1 || !(speed > 0)) {
    return fail(ErrorCode::kInvalidArgument, "--speed: expected max or a number above 0, got '{}'",
                text);
  }
  return std::optional<double>(speed);
}

base::Result<void> run_publish(const PublishOptions& options, const Settings& settings) {
  SF_ASSIGN(const ReplayChoice choice, replay_choice(options.replay, settings));
  const std::stop_token stop = stop_on_signals();
  ingest::PublisherConfig config;
  SF_ASSIGN(config.speed, parse_speed(options.speed));
  if (!options.resume_file.empty() && options.file == "-") {
    return fail(ErrorCode::kInvalidArgument, "--resume: standard input cannot be resumed");
  }
  SF_ASSIGN(const auto replay, ingest::open_replay(options.file, choice.format, choice.options));
  SF_ASSIGN(const Target target, open_target(options, settings, config));
  config.message_bytes_max = settings.ingest.parser.message_bytes_max;
  if (!options.resume_file.empty()) {
    config.resume_file = options.resume_file;
    SF_ASSIGN(config.identity, identity(options, choice, target.name));
  }
  ProgressLine progress("publishing " + options.file);
  SF_ASSIGN(const ingest::PublishProgress done,
            ingest::publish(
                *replay, {*target.writer, target.log.get()}, config,
                [&](const ingest::PublishProgress& now) {
                  const double share = now.bytes_total == 0
                                           ? 0
                                           : static_cast<double>(now.bytes_read) /
                                                 static_cast<double>(now.bytes_total);
                  progress.update(share, now.acknowledged, "events");
                },
                stop));
  progress.finish();
  if (options.json_output) {
    fmt::print("{}\n",
               boost::json::serialize(boost::json::object{{"records", done.records},
                                                          {"acknowledged", done.acknowledged},
                                                          {"resumed", done.resumed},
                                                          {"found", done.found}}));
  } else if (done.resumed + done.found > 0) {
    fmt::print("published {} events, {} of them by earlier runs ({} by {}, {} found in the log)\n",
               done.acknowledged, done.resumed + done.found, done.resumed, options.resume_file,
               done.found);
  } else {
    fmt::print("published {} events\n", done.acknowledged);
  }
  return {};
}

}  // namespace

void add_publish_command(CommandLine& line) {
  auto options = std::make_shared<PublishOptions>();
  CLI::App& command = add_command(
      line, "publish", "Publish a recorded input to the log",
      "  sirenfeed publish impressions.csv.gz --format kuairand --brokers 127.0.0.1:9092\n"
      "  sirenfeed publish MINDsmall_train/behaviors.tsv --format mind --resume mind.json\n"
      "  sirenfeed publish ml-25m/ratings.csv --format movielens --click-min 3.5 --speed 86400\n"
      "  sirenfeed publish shop.csv.gz --format csv --map user=uid,item=sku,time=ts,click=bought\n"
      "  sirenfeed publish events.ndjson.gz --speed 60 --resume publish.json --brokers kafka:9092\n"
      "  sirenfeed publish events.ndjson --http http://127.0.0.1:8080\n"
      "  sirenfeed publish - --data data < events.ndjson      (embedded log, not while `up` runs)");
  command.add_option("file", options->file, "The input, may be gzipped; - is standard input")
      ->required();
  add_replay_arguments(command, options->replay);
  command
      .add_option("--speed", options->speed,
                  "max, or event seconds a second: how fast event time passes")
      ->capture_default_str();
  command.add_option("--resume", options->resume_file,
                     "Keep the position here: an interrupted publish, even a killed one, goes on "
                     "without sending anything twice");
  command.add_option("--http", options->http_url,
                     "Send them to POST /v1/events of this server instead, e.g. "
                     "http://127.0.0.1:8080");
  command.add_flag("--json", options->json_output, "The result as one JSON object");
  command.callback([&line, options] {
    line.action = [&line, options] { return run_publish(*options, line.settings); };
  });
}

}  // namespace sirenfeed::app
