#include <boost/json.hpp>
#include <cstdio>
#include <memory>

#include "app/command_line.h"
#include "ingest/topics_admin.h"

namespace sirenfeed::app {
namespace {

namespace json = boost::json;

base::Result<void> print_topics(const base::Result<std::vector<ingest::TopicDescription>>& topics,
                                bool json_output) {
  if (!topics) return base::fail(topics.error());
  for (const ingest::TopicDescription& topic : *topics) {
    if (json_output) {
      const json::object line{{"topic", topic.name},
                              {"exists", topic.partitions > 0},
                              {"partitions", topic.partitions},
                              {"replication_factor", topic.replication_factor},
                              {"created", topic.created}};
      fmt::print("{}\n", json::serialize(line));
    } else if (topic.partitions == 0) {
      fmt::print("{:<24} does not exist; `sirenfeed topics create` makes it\n", topic.name);
    } else {
      fmt::print("{:<24} {:>3} partitions, {} replica(s){}\n", topic.name, topic.partitions,
                 topic.replication_factor, topic.created ? ", created" : "");
    }
  }
  return {};
}

}  // namespace

void add_topics_command(CommandLine& line) {
  auto json_output = std::make_shared<bool>(false);
  CLI::App& command =
      add_command(line, "topics", "Make or describe the Kafka topics",
                  "  sirenfeed topics create --brokers 127.0.0.1:9092 --partitions 8\n"
                  "  sirenfeed topics describe --brokers kafka:9092 --json");
  command.require_subcommand(1);
  CLI::App* create =
      command.add_subcommand("create", "Make those that do not exist; others stay as they are");
  create->callback([&line, json_output] {
    line.action = [&line, json_output]() -> base::Result<void> {
      SF_TRY(line.settings.kafka_required());
      return print_topics(ingest::create_topics(line.settings.kafka, line.settings.topics_config()),
                          *json_output);
    };
  });
  CLI::App* describe = command.add_subcommand("describe", "What is there");
  describe->callback([&line, json_output] {
    line.action = [&line, json_output]() -> base::Result<void> {
      SF_TRY(line.settings.kafka_required());
      return print_topics(ingest::describe_topics(line.settings.kafka), *json_output);
    };
  });
  for (CLI::App* each : {create, describe}) {
    each->add_flag("--json", *json_output, "One JSON object a line");
    each->fallthrough();
  }
}

}  // namespace sirenfeed::app
