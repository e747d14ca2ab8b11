#include "app/settings_options.h"

#include <algorithm>
#include <cctype>
#include <chrono>

namespace sirenfeed::app {

std::string environment_name(const std::string& option) {
  std::string name = "SIRENFEED_" + option;
  for (char& c : name) {
    c = c == '.' || c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name;
}

namespace {

/// The options of one folder, listed under a heading of --help-all.
class Section {
 public:
  Section(CLI::App& root, std::string name, std::string heading)
      : root_(root),
        prefix_(name.empty() ? "" : std::move(name) + "."),
        heading_(std::move(heading)) {}

  template <class T>
  CLI::Option* add(const std::string& name, T& field, const std::string& help) {
    return finish(root_.add_option("--" + prefix_ + name, field, help)->capture_default_str(),
                  name);
  }
  CLI::Option* add(const std::string& name, bool& field, const std::string& help) {
    return finish(root_.add_option("--" + prefix_ + name, field, help + " (true or false)")
                      ->capture_default_str(),
                  name);
  }
  template <class Period>
  CLI::Option* add(const std::string& name, std::chrono::duration<std::int64_t, Period>& field,
                   const std::string& help) {
    const auto set = [&field](const std::int64_t& count) {
      field = std::chrono::duration<std::int64_t, Period>(count);
    };
    return finish(root_.add_option_function<std::int64_t>("--" + prefix_ + name, set, help)
                      ->default_str(std::to_string(field.count())),
                  name);
  }

 private:
  CLI::Option* finish(CLI::Option* option, const std::string& name) {
    return option->envname(environment_name(prefix_ + name))->group(heading_);
  }

  CLI::App& root_;
  const std::string prefix_;
  const std::string heading_;
};

void add_common(CLI::App& root, Settings& s) {
  Section section(root, "", "Common settings");
  section.add("data", s.data_dir, "Data folder: state, embedded log, trainer's checkpoint");
  section.add("models", s.models, "Folder of the model store (default: models in the data folder)");
  section.add("http", s.http, "Address to serve on, ADDRESS:PORT; port 0 takes any");
  section.add("brokers", s.brokers, "Kafka, HOST:PORT,…; without it the embedded log is used");
  section.add("clock", s.clock, "wall, or event: now is the greatest event time applied");
  section.add("partitions", s.partitions, "Partitions of a new log");
  section.add("seed", s.seed, "Seed of the model's start");
  section.add("variant", s.variant, "Model variant: siren, ordinal, …");
  section.add("log_level", s.log_level, "debug, info, warning or error");
  section.add("log_json", s.log_json, "One JSON object a log line");
}

void add_ingest(CLI::App& root, Settings& s) {
  Section section(root, "ingest", "Ingest");
  section.add("batch_records_max", s.ingest.batch_records_max, "Most records of one state batch");
  section.add("batch_bytes_max", s.ingest.batch_bytes_max, "Most bytes of one state batch");
  section.add("requests", s.ingest.requests,
              "Read topic requests, so that examples carry what the model saw when it served");
  section.add("poll_wait_ms", s.ingest.poll_wait, "Wait for records");
  section.add("idle_flush_after_ms", s.idle_flush_after_ms,
              "A quiet stream closes windows by the clock after this long; -1: never");
  section.add("retry_wait_max_ms", s.ingest.retry_wait_max, "Longest pause between retries");
  section.add("buffer_records_max", s.ingest.merge.buffer_records_max,
              "Records of one input that wait in the merge");
  section.add("buffer_bytes_max", s.ingest.merge.buffer_bytes_max,
              "Bytes of one input that wait in the merge");
  section.add("merge_wait_max_ms", *s.ingest.merge.merge_wait_max,
              "How long a record waits for earlier ones of other inputs");
  section.add("message_bytes_max", s.ingest.parser.message_bytes_max, "Bytes of one event");
  section.add("id_bytes_max", s.ingest.parser.id_bytes_max, "Bytes of an id or name");
  section.add("items_max", s.ingest.parser.items_max, "Items of one impression");
  section.add("tags_max", s.ingest.parser.tags_max, "Tags of one item");
  section.add("text_bytes_max", s.ingest.parser.text_bytes_max, "Bytes of a title or url");
  section.add("timestamp_min_ms", s.ingest.parser.timestamp_min_ms,
              "Earlier times are rejected: probably seconds");
  section.add("future_max_ms", s.ingest.parser.future_max_ms,
              "How far ahead of the wall clock an event may be");
  Section log(root, "log", "Embedded log");
  log.add("fsync", s.fsync, "always, interval or never");
  log.add("fsync_interval_ms", s.embedded.fsync_interval, "Between two fsyncs");
  log.add("segment_bytes", s.embedded.segment_bytes, "A segment file's size");
  log.add("retention_bytes", s.embedded.retention_bytes, "Kept bytes of a partition");
  log.add("retention_age_h", s.embedded.retention_age, "Kept hours of a partition");
  log.add("queue_bytes_max", s.embedded.queue_bytes_max, "Appended, not yet durable bytes");
  Section kafka(root, "kafka", "Kafka");
  kafka.add("topic_prefix", s.kafka.topic_prefix, "Put before every topic's name");
  kafka.add("client_id", s.kafka.client_id, "As brokers see this process");
  kafka.add("property", s.kafka_properties,
            "NAME=VALUE of librdkafka, e.g. SASL and TLS; repeatable");
  kafka.add("session_timeout_ms", s.kafka.session_timeout, "Of a group's member");
  kafka.add("connect_wait_max_ms", s.kafka.connect_wait_max, "For a first answer of a broker");
  kafka.add("queue_bytes_max", s.kafka.queue_bytes_max, "Of one reader or writer");
  kafka.add("group", *s.ingest.group, "Consumer group of the feed nodes");
  kafka.add("member", *s.ingest.member, "This node's name in the group (static membership)");
  kafka.add("replication_factor", s.topics.replication_factor, "Of topics that are created");
  kafka.add("retention_h", s.topics.retention, "Of topics that are created, in hours");
}

void add_features(CLI::App& root, Settings& s) {
  features::FeaturesConfig& f = s.features;
  Section section(root, "features", "Features and state");
  section.add("join_window_ms", f.join.window_ms, "Join window of impressions and actions");
  section.add("action_window_ms", s.action_windows,
              "ACTION=MS: the join window of one action type; repeatable");
  section.add("per_task_close", f.join.per_task_close,
              "A task's examples leave at the end of its own window, not of the longest");
  section.add(
      "fake_negatives", f.join.fake_negatives,
      "Learn an impression at once as if nobody would react, and correct it by each action");
  section.add("requests_held_max", f.join.requests_held_max,
              "Served requests of a partition that wait for their impressions");
  section.add("lateness_max_ms", f.join.lateness_max_ms, "Allowed lateness of events");
  section.add("dedup_horizon_ms", f.join.dedup_horizon_ms, "How long ids are remembered");
  section.add("tombstone_age_max_ms", f.join.tombstone_age_max_ms,
              "How long takedowns and erasures are remembered");
  section.add("event_jump_max_ms", f.join.event_jump_max_ms,
              "A record further ahead of the watermark is held");
  section.add("event_jump_hold_ms", f.join.event_jump_hold_ms, "How long it is held");
  section.add("event_jump_held_max", f.join.event_jump_held_max, "Held records");
  section.add("corrections", f.corrections.enabled,
              "A late action corrects the example of its impression");
  section.add("corrections_retention_ms", f.corrections.retention_ms,
              "How long past its window an impression can be corrected, in event time");
  section.add("corrections_retained_max", f.corrections.retained_max,
              "Closed impressions of a partition that can be corrected");
  section
      .add("context_surfaces", f.context.surfaces,
           "Surfaces with a feature of their own, at most 5")
      ->delimiter(',');
  section.add("duration_field", f.context.duration_field, "Numeric item field with the duration");
  section.add("duration_unit_s", f.context.duration_unit_s, "Seconds in one unit of it");
  section.add("click_action", f.context.click_action, "Action type that counts as click");
  section.add("long_view_action", f.context.long_view_action,
              "Action type that counts as long view");
  section.add("extended", f.context.extended,
              "The extended context features too; a state folder keeps what it was made with");
  section.add("history_max", f.example.history_max, "Tokens of history that the model sees (L)");
  section.add("sequence_max", f.user.sequence_max, "Newest entries kept of a user's sequence");
  section.add("seen_max", f.user.seen_max, "Items remembered as shown to a user");
  section.add("example_bytes_max", f.example.example_bytes_max, "A larger example leaves in parts");
  section.add("wal_sync", f.store.wal_sync, "Every state batch waits for the disk");
  section.add("block_cache_bytes", f.store.block_cache_bytes, "RocksDB's cache");
  section.add("memtable_bytes", f.store.memtable_bytes, "RocksDB's write buffers");
  section.add("user_cache_bytes", f.store.user_cache_bytes, "Decoded users in memory");
  section.add("item_entries_max", f.store.item_entries_max, "Decoded item counters in memory");
  section.add("catalog_entries_max", f.store.catalog_entries_max, "Decoded catalog in memory");
  section.add("index_items_max", f.index.items_max, "Living items in the candidate indexes");
}

void add_model(CLI::App& root, Settings& s) {
  Section section(root, "model", "Model");
  section.add("d_model", s.model.d_model, "Width d");
  section.add("heads", s.model.heads, "Attention heads H");
  section.add("layers", s.model.layers, "Blocks N");
  section.add("angle_width", s.model.angle_width, "Width of the angle networks");
  section.add("angle_hidden_layers", s.model.angle_hidden_layers, "Their hidden layers");
  section.add("semantic_width", s.model.semantic_width, "Width of tags' and segments' angle rows");
  section.add("omega0", s.model.omega0, "Frequency scale of the sine paths");
  section.add("base", s.model.base, "Base of the rotary frequencies");
  section.add("paper_init", s.model.paper_init, "Angle networks' last layers do not start at 0");
  section.add("per_layer_angles", s.model.per_layer_angles,
              "Each block and the pooling have angle networks of their own");
  section.add("lambda_learned", s.model.lambda_learned, "Train the weight of the position");
  section.add("omega_learned", s.model.omega_learned, "Train the weights of the angle networks");
  section.add("attention_scale", s.attention_scale, "Factor on q·k; 0: 1/sqrt(d/H)");
  section.add("history", s.model_history,
              "exposures, or actions: only what was acted on is history");
  section.add("time_span_ms", s.model.time_span_ms, "S of the age feature");
  section.add("zone_offset_ms", s.model.zone_offset_ms, "Local time for hour and weekday");
  section.add("residual_start", s.model.residual_start, "Start r of the residual scales");
  section.add("residual_learned", s.model.residual_learned, "Train the residual scales");
  section.add("towers", s.towers,
              "Averaged with the transformer: counter, cross, both with a comma, or none");
  section
      .add("tower_tasks", s.tower_tasks,
           "Tasks whose logit is averaged with the towers'; the others are the transformer's alone")
      ->delimiter(',');
  section.add("keep_max", s.models_keep_max, "Versions kept in the store");
  section.add("full_interval_ms", s.models_full_interval,
              "A full file is added to a version this often; the others are deltas");
  section.add("full_share", s.models_full_share,
              "Or when the deltas since the last full file have this share of its size");
}

void add_trainer(CLI::App& root, Settings& s) {
  trainer::TrainLoopConfig& t = s.trainer;
  Section section(root, "trainer", "Trainer");
  section.add("batch_examples", t.step.batch_examples, "Examples a step");
  section.add("threads", t.step.threads, "0: all cores; never changes a byte");
  section.add("dense_rate", t.step.optimizer.dense_rate, "Adam's rate");
  section.add("gradient_norm_max", t.step.optimizer.gradient_norm_max,
              "A batch whose gradient is above it has exploded and is skipped");
  section.add("calibration_rate", t.step.optimizer.calibration_rate,
              "Adagrad's, of scale and bias");
  section.add("calibration_g0", t.step.optimizer.calibration_g0, "Start of its squared gradients");
  section.add("dense_rate_schedule", s.dense_rate_schedule,
              "constant, warmup_cosine or inverse_sqrt");
  section.add("dense_rate_steps", t.step.optimizer.dense_rate_steps,
              "Steps of the cosine, or at the full rate before the inverse root");
  section.add("dense_rate_floor", t.step.optimizer.dense_rate_floor,
              "Share of the rate that a schedule never leaves");
  section.add("calibration", s.calibration, "scale_bias, isotonic or none");
  section.add("isotonic_batches", t.step.optimizer.isotonic_batches, "Batches between two fits");
  section.add("isotonic_half_life_cells", t.step.optimizer.isotonic_half_life_cells,
              "Of scored cells in the fit's histogram");
  section.add("counter_rate", t.step.towers.counter_rate, "Adam's rate of the counter tower");
  section.add("replay_batches", t.step.towers.replay_batches,
              "Batches of past rows the counter tower learns after each new one");
  section.add("replay_bytes_max", t.step.towers.replay_bytes_max,
              "Past rows in memory and in the checkpoint");
  section.add("replay_admit_min", t.step.towers.replay_admit_min,
              "Lowest probability that a new row enters the full buffer");
  section.add("cross_rate", t.step.towers.cross_rate, "Adagrad's rate of the cross tower");
  section.add("cross_g0", t.step.towers.cross_g0, "Start of its squared gradients");
  section.add("row_rate", t.step.optimizer.row_rate, "Adagrad's rate of the tables");
  section.add("pairwise_alpha", t.step.loss.pairwise_weight, "Weight of the pairwise term");
  section.add("gate_weight", t.step.loss.gate_weight,
              "Penalty on each open gate of siren_discovery");
  section.add("metric_window_cells", t.step.metric_window_cells,
              "Window of the progressive metrics");
  section.add("row_admission_examples", t.step.row_admission_examples,
              "Examples in which an item, tag, author or segment is seen before it gets a row");
  section.add("rows_max", t.step.rows_max,
              "Rows of each table; a full one evicts those unseen longest");
  section.add("row_expiry_days", t.step.row_expiry_days,
              "Rows unseen for this long return to their start (event time; 0: never)");
  section.add("publish_interval_ms", t.publish_interval, "Between two model versions");
  section.add("publish_examples", t.publish_examples, "Publish every N examples instead (0: off)");
  section.add("checkpoint_interval_ms", t.checkpoint_interval, "Between two checkpoints");
  section.add("checkpoint_examples", t.checkpoint_examples, "Checkpoint every N examples instead");
  section.add("batch_linger_ms", s.batch_linger_ms,
              "Learn an incomplete batch after this long; -1: never");
}

void add_serving(CLI::App& root, Settings& s) {
  serving::ServingConfig& c = s.serving;
  Section section(root, "serving", "Serving");
  section.add("count_default", c.feed.count_default, "Items of a feed");
  section.add("count_max", c.feed.count_max, "Most items of a feed");
  section.add("rank_items_max", c.feed.rank_items_max, "Most items of POST /v1/rank");
  section.add("fresh_max", c.feed.sources.fresh_max, "Candidates from freshness");
  section.add("popular_max", c.feed.sources.popular_max, "Candidates from popularity");
  section.add("topics_max", c.feed.sources.topics_max, "Candidates from the user's topics");
  section.add("authors_max", c.feed.sources.authors_max, "Candidates from the user's authors");
  section.add("exploration_max", c.feed.sources.exploration_max, "Candidates from exploration");
  section.add("candidates_max", c.feed.sources.candidates_max, "Candidates that are scored");
  section.add("age_max_ms", c.feed.filters.age_max_ms, "Older items are not served; 0: any age");
  section.add("per_author_max", c.feed.selector.per_author_max, "Items of one author in a feed");
  section.add("per_topic_share", c.feed.selector.per_topic_share, "Share of one topic in a feed");
  section.add("exploration_share", c.feed.selector.exploration_share, "Slots that explore");
  section.add("task_weight", s.task_weights, "TASK=WEIGHT of the utility; repeatable");
  section.add("model_poll_interval_ms", c.model.poll_interval, "Look for a new version");
  section.add("worker_threads", c.http.worker_threads, "Threads that answer requests");
  section.add("connections_max", c.http.connections_max, "Open connections");
  section.add("request_queue_max", c.http.request_queue_max, "Waiting requests; more get 503");
  section.add("body_bytes_max", c.http.body_bytes_max, "Bytes of a request's body; more get 413");
  section.add("header_bytes_max", c.http.header_bytes_max, "Bytes of its header; more get 431");
  section.add("events_per_request_max", c.api.events_per_request_max, "Events of one POST");
  section.add("events_in_flight_max", c.api.events_in_flight_max, "Not yet durable; more get 429");
  section.add("lag_events_max", c.api.lag_events_max, "Behind the log's head; more get 429");
  section.add("ready_lag_events_max", s.ready_lag_events_max, "Further behind: /readyz says no");
  section.add("request_log_entries_max", s.requests.queue_entries_max,
              "Served requests waiting to be logged");
}

void add_simulate(CLI::App& root, Settings& s) {
  Section section(root, "simulate", "Simulated users");
  section.add("seed", s.world.seed, "Seed of the world");
  section.add("users", s.world.users, "Users");
  section.add("topics", s.world.topics, "Topics");
  section.add("authors", s.world.authors, "Authors; 0: items have none");
  section.add("items_per_day", s.world.items_per_day, "New items a day");
  section.add("items_at_start", s.world.items_at_start, "Items that live at the start");
  section.add("visits_per_day_max", s.world.visits_per_day_max, "Visits of the busiest user");
  section.add("daily_amplitude", s.world.daily_amplitude, "Of the daily habits, logits");
  section.add("weekly_amplitude", s.world.weekly_amplitude, "Of the weekly habits, logits");
  section.add("phase_drift_h_per_day", s.world.phase_drift_h_per_day,
              "How fast habits move, standard deviation over users and topics");
  section.add("quality_drift_per_day", s.world.quality_drift_per_day,
              "How fast items' quality moves, standard deviation, logits");
  section.add("start_ms", s.world.start_ms, "Event time of the world's start");
  section.add("days", s.simulator.days, "Days of event time");
  section.add("speed", s.simulator.speed, "Event seconds a second; 0: as fast as it is served");
  section.add("feed_count", s.simulator.feed_count, "Items shown at a visit");
}

}  // namespace

void add_settings(CLI::App& root, Settings& settings) {
  root.allow_config_extras(CLI::config_extras_mode::error);  // a misspelt key is no setting
  settings.ingest.group = "sirenfeed";
  settings.ingest.member = "feed-0";
  add_common(root, settings);
  add_ingest(root, settings);
  add_features(root, settings);
  add_model(root, settings);
  add_trainer(root, settings);
  add_serving(root, settings);
  add_simulate(root, settings);
  refuse_negative_counts(root);
}

void refuse_negative_counts(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    if (option->get_type_name() == "UINT") option->check(CLI::NonNegativeNumber);
  }
  for (CLI::App* command : app.get_subcommands({})) refuse_negative_counts(*command);
}

}  // namespace sirenfeed::app
