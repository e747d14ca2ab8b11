#include "app/settings.h"

#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <sstream>

#include "app/flat_toml.h"
#include "app/settings_options.h"

namespace sirenfeed::app {
namespace {

Settings parsed(const std::string& arguments, const std::string& toml = "") {
  Settings settings;
  CLI::App root;
  root.config_formatter(std::make_shared<FlatToml>());
  add_settings(root, settings);
  if (!toml.empty()) {
    std::istringstream input(toml);
    root.parse_from_stream(input);
  }
  root.parse(arguments);
  return settings;
}

std::string error_of(Settings settings) {
  const auto resolved = settings.resolve();
  return resolved ? "" : resolved.error().message;
}

TEST(Settings, TheDefaultsAreValid) { EXPECT_EQ(error_of(parsed("")), ""); }

TEST(Settings, AnOptionOfASectionIsSetByItsDottedName) {
  EXPECT_EQ(parsed("--features.join_window_ms 1234").features.join.window_ms, 1234);
}

TEST(Settings, ATomlSectionIsAPrefix) {
  const Settings settings = parsed("", "data = \"/x\"\n[features]\njoin_window_ms = 77\n");
  EXPECT_EQ(settings.data_dir, "/x");
  EXPECT_EQ(settings.features.join.window_ms, 77);
}

TEST(Settings, AnUnknownTomlKeyIsAnError) {
  EXPECT_THROW(parsed("", "[features]\nno_such_key = 1\n"), CLI::ConfigError);
}

TEST(Settings, TheEnvironmentFillsWhatTheCommandLineLeavesOut) {
  setenv("SIRENFEED_FEATURES_JOIN_WINDOW_MS", "55", 1);
  EXPECT_EQ(parsed("").features.join.window_ms, 55);
  EXPECT_EQ(parsed("--features.join_window_ms 66").features.join.window_ms, 66);
  unsetenv("SIRENFEED_FEATURES_JOIN_WINDOW_MS");
}

TEST(Settings, ResolvingGivesTheModelItsNamesAndScale) {
  Settings settings = parsed("--model.d_model 64 --model.heads 4");
  ASSERT_TRUE(settings.resolve());
  EXPECT_EQ(settings.model.context_names.size(), 79U);
  EXPECT_EQ(settings.model.tasks, (std::vector<std::string>{"click", "long_view", "like"}));
  EXPECT_DOUBLE_EQ(settings.model.attention_scale, 0.25);
}

TEST(Settings, ModelOptionsReachTheModelAndTheHistory) {
  Settings plain = parsed("");
  ASSERT_TRUE(plain.resolve());
  EXPECT_FALSE(plain.features.example.history_actions_only);
  EXPECT_TRUE(plain.model.lambda_learned && plain.model.omega_learned);
  Settings settings = parsed(
      "--variant siren_discovery --model.history actions --model.attention_scale 0.025 "
      "--model.paper_init true --model.per_layer_angles true --model.lambda_learned false "
      "--model.omega_learned false --model.residual_start 0.5 --model.residual_learned true "
      "--model.omega0 10 --trainer.gate_weight 0.5 --trainer.pairwise_alpha 0.25");
  ASSERT_TRUE(settings.resolve());
  EXPECT_EQ(settings.model.variant, model::Variant::kSirenDiscovery);
  EXPECT_EQ(settings.model.history_kind, model::HistoryKind::kActions);
  EXPECT_TRUE(settings.features.example.history_actions_only);
  EXPECT_EQ(settings.model.attention_scale, 0.025);
  EXPECT_TRUE(settings.model.paper_init && settings.model.per_layer_angles);
  EXPECT_FALSE(settings.model.lambda_learned || settings.model.omega_learned);
  EXPECT_EQ(settings.model.residual_start, 0.5);
  EXPECT_TRUE(settings.model.residual_learned);
  EXPECT_EQ(settings.model.omega0, 10);
  EXPECT_EQ(settings.trainer.step.loss.gate_weight, 0.5);
  EXPECT_EQ(settings.trainer.step.loss.pairwise_weight, 0.25);
}

TEST(Settings, ErrorsNameTheOption) {
  EXPECT_NE(error_of(parsed("--model.history clicks")).find("--model.history"), std::string::npos);
  EXPECT_NE(error_of(parsed("--clock sundial")).find("--clock"), std::string::npos);
  EXPECT_NE(error_of(parsed("--http nowhere")).find("--http"), std::string::npos);
  EXPECT_NE(error_of(parsed("--http 127.0.0.1:99999")).find("--http"), std::string::npos);
  EXPECT_NE(error_of(parsed("--log.fsync perhaps")).find("--log.fsync"), std::string::npos);
  EXPECT_NE(error_of(parsed("--serving.task_weight click")).find("task_weight"), std::string::npos);
  EXPECT_NE(error_of(parsed("--variant squirrel")).find("squirrel"), std::string::npos);
}

TEST(Settings, AValueOutOfBoundsIsReportedAsTheOptionThatWasWritten) {
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"serving.request_queue_max", "0"},
      {"serving.worker_threads", "0"},
      {"serving.candidates_max", "0"},
      {"serving.age_max_ms", "-1"},
      {"serving.per_topic_share", "0"},
      {"serving.exploration_share", "1"},
      {"serving.model_poll_interval_ms", "0"},
      {"serving.count_default", "0"},
      {"serving.lag_events_max", "0"},
      {"features.join_window_ms", "0"},
      {"features.lateness_max_ms", "-1"},
      {"features.history_max", "5000"},
      {"features.sequence_max", "3"},
      {"features.duration_unit_s", "0"},
      {"features.memtable_bytes", "5"},
      {"features.index_items_max", "0"},
      {"ingest.poll_wait_ms", "0"},
      {"ingest.poll_wait_ms", "700"},
      {"ingest.merge_wait_max_ms", "-1"},
      {"ingest.timestamp_min_ms", "-1"},
      {"ingest.id_bytes_max", "0"},
      {"ingest.batch_records_max", "0"},
      {"model.heads", "0"},
      {"model.heads", "5"},
      {"model.omega0", "0"},
      {"trainer.batch_examples", "0"},
      {"trainer.row_rate", "-1"},
      {"trainer.pairwise_alpha", "-1"},
      {"simulate.users", "0"},
      {"simulate.days", "0"},
      {"simulate.weekly_amplitude", "-1"}};
  for (const auto& [option, value] : wrong) {
    const std::string message = error_of(parsed("--" + option + " " + value));
    EXPECT_NE(message.find(option == "model.heads" && value == "5" ? "--model." : "--" + option),
              std::string::npos)
        << option << ": " << message;
  }
}

TEST(Settings, AWeightOfAnUnknownTaskIsRefused) {
  EXPECT_EQ(error_of(parsed("--serving.task_weight click=2")), "");
  const std::string message = error_of(parsed("--serving.task_weight clicks=2"));
  EXPECT_NE(message.find("--serving.task_weight"), std::string::npos);
  EXPECT_NE(message.find("clicks"), std::string::npos);
  EXPECT_NE(message.find("long_view"), std::string::npos);  // what there is
}

TEST(Settings, MinusOneTurnsAWaitOff) {
  Settings settings = parsed("--trainer.batch_linger_ms -1 --ingest.idle_flush_after_ms -1");
  ASSERT_TRUE(settings.resolve());
  EXPECT_EQ(settings.trainer.batch_linger, std::nullopt);
  EXPECT_EQ(settings.ingest.idle_flush_after, std::nullopt);
}

TEST(Settings, KafkaPropertiesAreNameAndValue) {
  Settings settings = parsed(
      "--brokers 127.0.0.1:9 --kafka.property security.protocol=SASL_SSL "
      "--kafka.property sasl.mechanism=SCRAM-SHA-512");
  ASSERT_TRUE(settings.resolve());
  EXPECT_EQ(settings.kafka.properties.at("security.protocol"), "SASL_SSL");
  EXPECT_EQ(settings.kafka.properties.at("sasl.mechanism"), "SCRAM-SHA-512");
}

TEST(Settings, AnUnsignedOptionRefusesAMinus) {
  EXPECT_THROW(parsed("--ingest.items_max -1"), CLI::ValidationError);
  EXPECT_THROW(parsed("--model.keep_max -1"), CLI::ValidationError);
  EXPECT_THROW(parsed("", "[trainer]\npublish_examples = -1\n"), CLI::ValidationError);
  EXPECT_EQ(error_of(parsed("--trainer.threads 0")), "");
}

TEST(Settings, ModelsThatOverflowAreRefused) {
  for (const char* wrong : {"--model.omega0 1e308", "--model.omega0 1e-308", "--model.base 1e-300",
                            "--model.attention_scale 1e300", "--model.residual_start 1e300",
                            "--model.time_span_ms 1"}) {
    const std::string option = std::string(wrong).substr(0, std::string(wrong).find(' '));
    EXPECT_NE(error_of(parsed(wrong)).find(option), std::string::npos) << wrong;
  }
}

TEST(Settings, TowersAndTheirTasksAreChecked) {
  EXPECT_EQ(error_of(parsed("--model.towers none")), "");
  EXPECT_EQ(error_of(parsed("--model.towers counter,cross")), "");
  EXPECT_NE(error_of(parsed("--model.towers bogus")).find("--model.towers"), std::string::npos);
  const std::string task = error_of(parsed("--model.towers counter --model.tower_tasks bogus"));
  EXPECT_NE(task.find("--model.tower_tasks"), std::string::npos) << task;
  EXPECT_NE(task.find("long_view"), std::string::npos) << task;  // what there is
}

}  // namespace
}  // namespace sirenfeed::app
