// How fast events come in on one core: parsing with validation, the merge, and reading a recorded
// file. Before anything is timed, the parser's result is checked against a naive reading with
// Boost.JSON.
#include <benchmark/benchmark.h>
#include <simdjson.h>

#include <boost/json.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/clock.h"
#include "ingest/event_json.h"
#include "ingest/event_merge.h"
#include "ingest/event_parser.h"
#include "ingest/replay_reader.h"

namespace sirenfeed::ingest {
namespace {

constexpr base::UnixMs kStart = 1'650'812'741'436;

/// Impressions of one item and clicks, as a feed of short videos sends them.
std::vector<LogRecord> make_records(std::size_t count) {
  std::vector<LogRecord> records;
  for (std::size_t i = 0; i < count; ++i) {
    const auto time = kStart + static_cast<base::UnixMs>(i);
    const std::string user = "user-" + std::to_string(i * 7919 % 20'000);
    const std::string item = "item-" + std::to_string(i * 104'729 % 6'000);
    EventBody body;
    if (i % 2 == 0) {
      auto& shown = body.emplace<Impression>();
      shown.impression_id = "impressions:" + std::to_string(i);
      shown.user_id = user;
      shown.time_ms = time;
      shown.items.emplace_back().item_id = item;
      shown.surface = "home";
    } else {
      auto& click = body.emplace<Action>();
      click.user_id = user;
      click.item_id = item;
      click.time_ms = time;
      click.type = "click";
      click.impression_id = "impressions:" + std::to_string(i - 1);
      click.event_id = "impressions:" + std::to_string(i - 1) + ":click";
    }
    LogRecord record;
    record.source.topic = event_topic(body);
    record.offset = static_cast<Offset>(i / 2);
    record.log_time_ms = time;
    record.key = user;
    record.value = event_json(body);
    records.push_back(std::move(record));
  }
  return records;
}

void check_against_naive(EventParser& parser, const std::vector<LogRecord>& records) {
  for (const LogRecord& record : records) {
    const InputRecord parsed = parser.parse(record, 1);
    const auto* body = std::get_if<EventBody>(&parsed.content);
    SF_CHECK(body != nullptr);
    const boost::json::object naive = boost::json::parse(*record.value).as_object();
    SF_CHECK(naive.at("user_id").as_string() == event_key(*body).c_str());
    SF_CHECK(naive.at("timestamp").as_int64() == event_time_ms(*body));
    if (const auto* shown = std::get_if<Impression>(body)) {
      SF_CHECK(naive.at("items").as_array().at(0).as_string() == shown->items[0].item_id.c_str());
    } else {
      SF_CHECK(naive.at("item_id").as_string() == std::get<Action>(*body).item_id.c_str());
    }
  }
}

void parse_and_validate(benchmark::State& state) {
  const base::EventClock clock(kStart + base::kMsPerDay);
  EventParser parser(ParserConfig{}, clock);
  const std::vector<LogRecord> records = make_records(20'000);
  check_against_naive(parser, records);
  std::int64_t bytes = 0;
  std::int64_t events = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<LogRecord> batch = records;  // the parser takes the value away
    state.ResumeTiming();
    for (LogRecord& record : batch) {
      bytes += static_cast<std::int64_t>(record.value->size());
      benchmark::DoNotOptimize(parser.parse(std::move(record), 1));
    }
    events += static_cast<std::int64_t>(batch.size());
  }
  state.SetItemsProcessed(events);
  state.SetBytesProcessed(bytes);
}
BENCHMARK(parse_and_validate)->Unit(benchmark::kMillisecond);

/// The least that anybody has to do with the same bytes: simdjson alone, on demand, over the same
/// fields as views into them. No limit is checked, nothing is copied, and no event comes of it.
std::size_t read_on_demand(simdjson::ondemand::parser& parser,
                           const simdjson::padded_string& text) {
  std::size_t bytes = 0;
  simdjson::ondemand::document document;
  SF_CHECK(parser.iterate(text).get(document) == simdjson::SUCCESS);
  simdjson::ondemand::object object;
  SF_CHECK(document.get_object().get(object) == simdjson::SUCCESS);
  for (auto member : object) {
    std::string_view key;
    SF_CHECK(member.unescaped_key().get(key) == simdjson::SUCCESS);
    simdjson::ondemand::value value;
    SF_CHECK(member.value().get(value) == simdjson::SUCCESS);
    if (key == "timestamp") {
      std::int64_t time = 0;
      SF_CHECK(value.get_int64().get(time) == simdjson::SUCCESS);
      bytes += static_cast<std::size_t>(time) & 1U;
    } else if (key == "items") {
      simdjson::ondemand::array items;
      SF_CHECK(value.get_array().get(items) == simdjson::SUCCESS);
      for (auto item : items) {
        std::string_view id;
        SF_CHECK(item.get_string().get(id) == simdjson::SUCCESS);
        bytes += id.size();
      }
    } else {
      std::string_view id;
      SF_CHECK(value.get_string().get(id) == simdjson::SUCCESS);
      bytes += id.size();
    }
  }
  return bytes;
}

void simdjson_alone(benchmark::State& state) {
  std::vector<simdjson::padded_string> texts;
  std::int64_t bytes_each = 0;
  for (const LogRecord& record : make_records(20'000)) {
    texts.emplace_back(*record.value);
    bytes_each += static_cast<std::int64_t>(record.value->size());
  }
  simdjson::ondemand::parser parser;
  for (auto _ : state) {
    for (const simdjson::padded_string& text : texts) {
      benchmark::DoNotOptimize(read_on_demand(parser, text));
    }
  }
  state.SetItemsProcessed(state.iterations() * static_cast<std::int64_t>(texts.size()));
  state.SetBytesProcessed(state.iterations() * bytes_each);
}
BENCHMARK(simdjson_alone)->Unit(benchmark::kMillisecond);

void merge_in_event_time(benchmark::State& state) {
  const base::EventClock clock(kStart + base::kMsPerDay);
  const base::SteadyClock steady;
  EventParser parser(ParserConfig{}, clock);
  std::vector<InputRecord> parsed;
  for (LogRecord& record : make_records(20'000)) parsed.push_back(parser.parse(record, 1));
  std::int64_t events = 0;
  for (auto _ : state) {
    state.PauseTiming();
    std::vector<InputRecord> batch = parsed;
    EventMerge merge({.merge_wait_max = std::nullopt}, steady);
    for (const Topic topic : {Topic::kItems, Topic::kUsers, Topic::kImpressions, Topic::kClicks}) {
      merge.add({topic, 0});
    }
    std::vector<InputRecord> out;
    out.reserve(batch.size());
    state.ResumeTiming();
    for (InputRecord& record : batch) merge.push(std::move(record));
    for (const Topic topic : {Topic::kItems, Topic::kUsers, Topic::kImpressions, Topic::kClicks}) {
      merge.at_end({topic, 0});
    }
    merge.take(batch.size(), ~std::size_t{0}, out);
    SF_CHECK(out.size() == batch.size() && merge.out_of_order() == 0);
    events += static_cast<std::int64_t>(out.size());
  }
  state.SetItemsProcessed(events);
}
BENCHMARK(merge_in_event_time)->Unit(benchmark::kMillisecond);

/// KUAIRAND: the path of KuaiRand-Pure's impressions.csv.gz, or the slice of the tests.
std::string kuairand_path() {
  const char* given = std::getenv("KUAIRAND");
  return given != nullptr ? given : "tests/data/kuairand_pure/impressions_slice.csv.gz";
}

void read_and_parse_kuairand(benchmark::State& state) {
  const std::string path = kuairand_path();
  if (!std::filesystem::exists(path)) return state.SkipWithError("no input: set KUAIRAND");
  const base::EventClock clock(kStart);
  ParserConfig config;
  config.check_future = false;
  EventParser parser(config, clock);
  std::int64_t events = 0;
  for (auto _ : state) {
    auto replay = open_replay(path, ReplayFormat::kKuairand, {});
    SF_CHECK(replay.has_value());
    while (true) {
      auto record = (*replay)->next();
      SF_CHECK(record.has_value());
      if (!*record) break;
      LogRecord entry;
      entry.source.topic = (*record)->topic;
      entry.key = std::move((*record)->key);
      entry.value = std::move((*record)->value);
      const InputRecord parsed = parser.parse(std::move(entry), 1);
      SF_CHECK(std::holds_alternative<EventBody>(parsed.content));
      ++events;
    }
  }
  state.SetItemsProcessed(events);
}
BENCHMARK(read_and_parse_kuairand)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace sirenfeed::ingest

BENCHMARK_MAIN();
