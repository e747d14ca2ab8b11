// The API over HTTP, on a real server and a real state.
#include <gtest/gtest.h>

#include <atomic>
#include <boost/json.hpp>
#include <random>
#include <set>
#include <thread>

#include "tests/support/http_client.h"
#include "tests/support/served_world.h"

namespace sirenfeed::serving {
namespace {

namespace json = boost::json;
using std::chrono::milliseconds;
using test::HttpClient;
using test::HttpReply;
using test::kWorldStart;
using test::ServedWorld;
using test::WorldOptions;

WorldOptions http_options() {
  WorldOptions options;
  options.http = true;
  options.serving.api.parser.check_future = false;
  return options;
}

json::object parsed(const HttpReply& reply) {
  boost::system::error_code ec;
  json::value value = json::parse(reply.body, ec);
  EXPECT_FALSE(ec) << reply.body;
  return value.is_object() ? value.as_object() : json::object();
}

std::string field_of(const HttpReply& reply) {
  EXPECT_EQ(reply.header("content-type"), "application/problem+json") << reply.body;
  const json::object body = parsed(reply);
  const json::value* field = body.if_contains("field");
  return field != nullptr ? std::string(field->as_string()) : "";
}

std::set<std::string> items_of(const HttpReply& reply) {
  std::set<std::string> out;
  const json::object body = parsed(reply);
  if (!body.contains("items")) return out;
  for (const json::value& item : body.at("items").as_array()) {
    out.insert(std::string(item.as_object().at("item_id").as_string()));
  }
  return out;
}

constexpr const char* kClick =
    R"({"topic":"clicks","user_id":"u1","item_id":"i1","timestamp":1700000000000})";

TEST(HttpApi, AFeedHasTheDocumentedForm) {
  ServedWorld world(http_options());
  world.publish_items(30);
  world.publish_model(1);
  HttpClient client(world.port());
  const HttpReply reply =
      client.get("/v1/feed/u%201?count=5&surface=home&exclude=i1,i2&explain=true&debug=true");
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json::object body = parsed(reply);
  EXPECT_EQ(body.at("user").as_string(), "u 1");
  EXPECT_EQ(body.at("model_version").as_int64(), 1);
  EXPECT_EQ(body.at("time").as_int64(), kWorldStart);
  ASSERT_EQ(body.at("items").as_array().size(), 5U);
  const json::object& item = body.at("items").as_array()[0].as_object();
  for (const char* key : {"score", "probabilities", "source", "explored", "propensity", "why"}) {
    EXPECT_TRUE(item.contains(key)) << key;
  }
  EXPECT_EQ(item.at("probabilities").as_object().size(), 3U);
  EXPECT_EQ(items_of(reply).count("i1"), 0U);
  const json::object& debug = body.at("debug").as_object();
  EXPECT_EQ(debug.at("candidates").to_number<std::size_t>(),
            debug.at("kept").as_array().size() + debug.at("removed").as_array().size());
}

TEST(HttpApi, ExcludedIdsLieBetweenCommasHoweverTheyAreEncoded) {
  ServedWorld world(http_options());
  world.publish_items(5);
  HttpClient client(world.port());
  for (const char* exclude : {"i1,i2", "i1%2Ci2", "i1,,i2,", "i2,i1,never%5C,heard"}) {
    const auto items = items_of(client.get(std::string("/v1/feed/u?exclude=") + exclude));
    EXPECT_EQ(items.count("i1") + items.count("i2"), 0U) << exclude;
    EXPECT_EQ(items.size(), 3U) << exclude;
  }
  // An id that holds the comma itself is another one.
  EXPECT_EQ(items_of(client.get("/v1/feed/u?exclude=i1%5C%2Ci2")).size(), 5U);
}

TEST(HttpApi, BadFeedRequestsAre400AndNameTheField) {
  ServedWorld world(http_options());
  HttpClient client(world.port());
  const std::pair<const char*, const char*> cases[] = {
      {"/v1/feed/u?count=0", "count"},
      {"/v1/feed/u?count=201", "count"},
      {"/v1/feed/u?count=-1", "count"},
      {"/v1/feed/u?count=five", "count"},
      {"/v1/feed/u?count=", "count"},
      {"/v1/feed/u?count=1e3", "count"},
      {"/v1/feed/u?explain=maybe", "explain"},
      {"/v1/feed/u?debug=2", "debug"},
      {"/v1/feed/u?surface=", "surface"},
      {"/v1/feed/u?surface=%zz", "surface"},
      {"/v1/feed/u?exclude=%zz", "exclude"},
      {"/v1/feed/u?cuont=5", "cuont"},
      {"/v1/feed/u?count=5&count=6", "count"},
      {"/v1/feed/%ff", "path"},
      {"/v1/metrics?points=0", "points"},
      {"/v1/models/none/pin", "n"},
      {"/v1/models/0/pin", "n"},
  };
  for (const auto& [target, field] : cases) {
    const bool pin = std::string_view(target).ends_with("pin");
    const HttpReply reply = client.request(pin ? "POST" : "GET", target);
    EXPECT_EQ(reply.status, 400) << target;
    EXPECT_EQ(field_of(reply), field) << target;
  }
  EXPECT_EQ(client.get("/v1/feed/" + std::string(129, 'u')).status, 400);
  EXPECT_EQ(client.get("/v1/feed/u?exclude=" + std::string(2000, ',') + "a").status, 200);
}

TEST(HttpApi, RankOrdersTheCallersItemsAndRefusesBadBodies) {
  ServedWorld world(http_options());
  world.publish_items(10);
  world.publish_model(1);
  HttpClient client(world.port());
  const HttpReply reply = client.post("/v1/rank", R"({"user":7,"items":["i1",2,"i3"]})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  EXPECT_EQ(items_of(reply), (std::set<std::string>{"2", "i1", "i3"}));
  EXPECT_EQ(parsed(reply).at("user").as_string(), "7");
  std::string many = R"({"user":"u","items":["a")";
  for (int i = 0; i < 1000; ++i) many += ",\"a\"";
  const std::tuple<std::string, int, std::string> cases[] = {
      {"", 400, "body"},
      {"[]", 400, "body"},
      {"{", 400, "body"},
      {R"({"user":"u"})", 400, "items"},
      {R"({"items":["a"]})", 400, "user"},
      {R"({"user":"","items":["a"]})", 400, "user"},
      {R"({"user":1.5,"items":["a"]})", 400, "user"},
      {R"({"user":"u","items":"a"})", 400, "items"},
      {R"({"user":"u","items":[]})", 400, "items"},
      {R"({"user":"u","items":["a",null]})", 400, "items[1]"},
      {R"({"user":"u","items":["a",""]})", 400, "items[1]"},
      {R"({"user":"u","items":["a\u0000"]})", 400, "items[0]"},
      {R"({"user":"u","items":["a"],"surface":{}})", 400, "surface"},
      {R"({"user":"u","items":["a"],"explain":"yes"})", 400, "explain"},
      {R"({"user":"u","items":["a"],"itmes":[]})", 400, "itmes"},
      {many + "]}", 413, "items"},
  };
  for (const auto& [body, status, field] : cases) {
    const HttpReply refused = client.post("/v1/rank", body);
    EXPECT_EQ(refused.status, status) << body.substr(0, 80);
    if (status == 400) {
      EXPECT_EQ(field_of(refused), field) << body.substr(0, 80);
    }
  }
}

TEST(HttpApi, AnEventIsAcceptedOnceItIsDurable) {
  ServedWorld world(http_options());
  HttpClient client(world.port());
  world.log.hold_deliveries(true);
  client.send(std::string("POST /v1/events HTTP/1.1\r\nHost: t\r\nContent-Length: ") +
              std::to_string(std::string_view(kClick).size()) + "\r\n\r\n" + kClick);
  EXPECT_EQ(client.read(false, milliseconds(100)).status, 0) << "no answer before it is durable";
  world.log.hold_deliveries(false);
  const HttpReply reply = client.read();
  ASSERT_EQ(reply.status, 200) << reply.body;
  const json::object result = parsed(reply).at("results").as_array()[0].as_object();
  EXPECT_EQ(result.at("status").as_string(), "accepted");
  EXPECT_EQ(result.at("topic").as_string(), "clicks");
  EXPECT_EQ(result.at("offset").as_int64(), 0);
}

TEST(HttpApi, EventsAreAnsweredOneByOne) {
  ServedWorld world(http_options());
  HttpClient client(world.port());
  const std::string mixed = std::string("[") + kClick +
                            R"(,{"topic":"clicks","user_id":"u1","timestamp":1},7,)" + kClick + "]";
  HttpReply reply = client.post("/v1/events", mixed);
  ASSERT_EQ(reply.status, 200) << reply.body;
  json::object body = parsed(reply);
  EXPECT_EQ(body.at("accepted").as_int64(), 2);
  EXPECT_EQ(body.at("refused").as_int64(), 2);
  EXPECT_EQ(body.at("results").as_array()[3].as_object().at("status").as_string(), "accepted");
  reply = client.post("/v1/events", std::string(kClick) + "\n{broken\n" + kClick + "\n",
                      "application/x-ndjson");
  ASSERT_EQ(reply.status, 200) << reply.body;
  body = parsed(reply);
  EXPECT_EQ(body.at("accepted").as_int64(), 2);
  EXPECT_EQ(body.at("results").as_array()[1].as_object().at("reason").as_string(), "not_json");
  world.wait_applied();
}

TEST(HttpApi, BadEventsAre400AndNameTheField) {
  ServedWorld world(http_options());
  HttpClient client(world.port());
  const std::pair<const char*, const char*> cases[] = {
      {"", "body"},
      {"[]", "body"},
      {"[{}", "body"},
      {R"({"topic":"clicks","item_id":"a","timestamp":1700000000000})", "user_id"},
      {R"({"topic":"clicks","user_id":"u","item_id":"a","timestamp":1650812741})", "timestamp"},
      {R"({"topic":"clicks","user_id":"u","item_id":{},"timestamp":1700000000000})", "item_id"},
      {R"({"topic":"impressions","impression_id":"i","user_id":"u","items":[],)"
       R"("timestamp":1700000000000})",
       "items"},
  };
  for (const auto& [body, field] : cases) {
    const HttpReply reply = client.post("/v1/events", body);
    EXPECT_EQ(reply.status, 400) << body;
    EXPECT_EQ(field_of(reply), field) << body << reply.body;
  }
  for (const char* body : {"nonsense", "{}", R"({"topic":"weather"})", "\"text\"", "null"}) {
    EXPECT_EQ(client.post("/v1/events", body).status, 400) << body;
  }
}

TEST(HttpApi, TooManyOrTooLargeEventsAre413WithTheLimitsName) {
  WorldOptions options = http_options();
  options.serving.api.events_per_request_max = 3;
  options.serving.api.parser.message_bytes_max = 1000;
  ServedWorld world(options);
  HttpClient client(world.port());
  std::string lines;
  for (int i = 0; i < 4; ++i) lines += std::string(kClick) + "\n";
  HttpReply reply = client.post("/v1/events", lines, "application/x-ndjson");
  EXPECT_EQ(reply.status, 413);
  EXPECT_NE(reply.body.find("events_per_request_max"), std::string::npos);
  reply = client.post("/v1/events", R"({"topic":"items","item_id":"a","timestamp":1700000000000,)"
                                    R"("title":")" +
                                        std::string(2000, 'x') + "\"}");
  EXPECT_EQ(reply.status, 413) << reply.body;
  EXPECT_NE(reply.body.find("message_bytes_max"), std::string::npos) << reply.body;
}

TEST(HttpApi, ALogThatIsBehindGives429WithTheIndexReached) {
  WorldOptions options = http_options();
  options.serving.api.events_per_request_max = 3;
  options.serving.api.events_in_flight_max = 3;
  options.serving.api.events_wait_max = milliseconds(300);
  ServedWorld world(options);
  HttpClient client(world.port());
  world.lag_events = options.serving.api.lag_events_max + 1;
  HttpReply reply = client.post("/v1/events", kClick);
  EXPECT_EQ(reply.status, 429);
  EXPECT_EQ(reply.header("retry-after"), "1");
  EXPECT_EQ(parsed(reply).at("index").as_int64(), 0);
  world.lag_events = 0;
  world.log.hold_deliveries(true);
  const std::string two = std::string(kClick) + "\n" + kClick + "\n";
  reply = client.post("/v1/events", two, "application/x-ndjson");
  EXPECT_EQ(reply.status, 503) << "not durable within events_wait_max: " << reply.body;
  EXPECT_NE(reply.body.find("unconfirmed"), std::string::npos);
  reply = client.post("/v1/events", two, "application/x-ndjson");
  EXPECT_EQ(reply.status, 429) << reply.body;
  EXPECT_EQ(parsed(reply).at("index").as_int64(), 1) << "one of the two had room";
  world.log.hold_deliveries(false);
  EXPECT_EQ(client.post("/v1/events", kClick).status, 200);
}

TEST(HttpApi, ErasingAUserIsInForceWhenItAnswers200) {
  ServedWorld world(http_options());
  world.publish_items(5);
  world.publish({ServedWorld::impression("u", {"i1"}, kWorldStart - 1000)});
  HttpClient client(world.port());
  EXPECT_EQ(client.get("/v1/users/u").status, 200);
  EXPECT_EQ(items_of(client.get("/v1/feed/u")).count("i1"), 0U);
  const HttpReply erased = client.request("DELETE", "/v1/users/u");
  ASSERT_EQ(erased.status, 200) << erased.body;
  EXPECT_EQ(parsed(erased).at("status").as_string(), "erased");
  EXPECT_TRUE(parsed(erased).contains("copies_left"));
  EXPECT_TRUE(parsed(erased).at("removed").is_object());
  EXPECT_EQ(client.get("/v1/users/u").status, 404);
  EXPECT_EQ(items_of(client.get("/v1/feed/u")).count("i1"), 1U) << "a cold start";
}

TEST(HttpApi, AnOrderThatIsDurableButNotAppliedIsA202WithAReceipt) {
  WorldOptions options = http_options();
  options.serving.api.apply_wait_max = milliseconds(50);
  ServedWorld world(options);
  world.loop->stop();
  HttpClient client(world.port());
  const HttpReply reply = client.request("DELETE", "/v1/items/i1");
  EXPECT_EQ(reply.status, 202);
  const json::object body = parsed(reply);
  EXPECT_EQ(body.at("status").as_string(), "accepted");
  EXPECT_EQ(body.at("receipt").as_object().at("topic").as_string(), "items");
}

TEST(HttpApi, AnOrderAboutAnItemCountsWhateverTheClocksSay) {
  ServedWorld world(http_options());
  HttpClient client(world.port());
  const auto status_after = [&](const char* method, const std::string& body) {
    const HttpReply reply = client.request(method, "/v1/items/i", body);
    EXPECT_EQ(reply.status, 200) << reply.body;
    return client.get("/v1/items/i").status;
  };
  EXPECT_EQ(status_after("PUT", "{}"), 200);
  EXPECT_EQ(status_after("DELETE", ""), 404);
  EXPECT_EQ(status_after("PUT", "{}"), 200) << "the clock has not moved since the takedown";
  const std::string ahead = fmt::format(R"({{"timestamp":{}}})", kWorldStart + 60'000);
  EXPECT_EQ(status_after("PUT", ahead), 200);
  EXPECT_EQ(status_after("DELETE", ""), 404) << "the publisher's clock is ahead";
}

TEST(HttpApi, ItemsArePutReadAndTakenDown) {
  ServedWorld world(http_options());
  HttpClient client(world.port());
  EXPECT_EQ(client.get("/v1/items/new").status, 404);
  HttpReply reply =
      client.request("PUT", "/v1/items/new", R"({"author_id":"p","tags":["sport"],"title":"T"})");
  ASSERT_EQ(reply.status, 200) << reply.body;
  reply = client.get("/v1/items/new");
  ASSERT_EQ(reply.status, 200);
  EXPECT_EQ(parsed(reply).at("title").as_string(), "T");
  EXPECT_EQ(items_of(client.get("/v1/feed/u")), (std::set<std::string>{"new"}));
  world.clock.advance_to(kWorldStart + 10);
  EXPECT_EQ(client.request("DELETE", "/v1/items/new").status, 200);
  EXPECT_EQ(client.get("/v1/items/new").status, 404);
  EXPECT_TRUE(items_of(client.get("/v1/feed/u")).empty());
  const std::pair<const char*, const char*> cases[] = {
      {"[]", "body"},
      {R"({"item_id":"other"})", "item_id"},
      {R"({"deleted":true})", "deleted"},
      {R"({"tags":"sport"})", "tags"},
      {R"({"timestamp":12})", "timestamp"},
  };
  for (const auto& [body, field] : cases) {
    const HttpReply refused = client.request("PUT", "/v1/items/x", body);
    EXPECT_EQ(refused.status, 400) << body;
    EXPECT_EQ(field_of(refused), field) << body;
  }
}

TEST(HttpApi, ATakenDownItemIsInNoAnswerToARequestThatBeginsAfterTheAcknowledgement) {
  WorldOptions options = http_options();
  options.serving.feed.filters.seen = false;
  ServedWorld world(options);
  world.publish_items(40);
  world.publish_model(1);
  std::atomic<int> taken_down = -1;  // items i0 … i<n> were acknowledged
  std::atomic<bool> done = false;
  std::atomic<int> served_after = 0;
  std::atomic<int> answers = 0;
  std::vector<std::jthread> readers;
  for (int r = 0; r < 2; ++r) {
    readers.emplace_back([&, r] {
      HttpClient client(world.port());
      for (int n = 0; !done; ++n) {
        const int before = taken_down;
        const auto shown = items_of(client.get("/v1/feed/u" + std::to_string(r) + "?count=40"));
        for (int i = 0; i <= before; ++i) {
          if (shown.contains("i" + std::to_string(i))) ++served_after;
        }
        ++answers;
      }
    });
  }
  HttpClient client(world.port());
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(client.request("DELETE", "/v1/items/i" + std::to_string(i)).status, 200);
    taken_down = i;
  }
  const int enough = answers + 4;
  while (answers < enough) std::this_thread::sleep_for(milliseconds(1));
  done = true;
  readers.clear();
  EXPECT_EQ(served_after, 0);
}

TEST(HttpApi, NoRequestFailsWhileModelsAreSwapped) {
  ServedWorld world(http_options());
  world.publish_items(40);
  world.publish_model(1);
  std::atomic<bool> done = false;
  std::atomic<int> failed = 0;
  std::set<std::int64_t> versions;
  std::vector<std::jthread> readers;
  base::Mutex mutex;
  for (int r = 0; r < 3; ++r) {
    readers.emplace_back([&, r] {
      HttpClient client(world.port());
      while (!done) {
        const HttpReply reply = client.get("/v1/feed/u" + std::to_string(r) + "?count=10");
        if (reply.status != 200) {
          ++failed;
          continue;
        }
        const json::object body = parsed(reply);
        if (body.contains("degraded")) ++failed;
        base::MutexLock lock(mutex);
        versions.insert(body.at("model_version").as_int64());
      }
    });
  }
  for (std::uint64_t seed = 2; seed < 7; ++seed) {
    world.publish_model(seed);
    std::this_thread::sleep_for(milliseconds(10));
  }
  done = true;
  readers.clear();
  EXPECT_EQ(failed, 0);
  EXPECT_GE(versions.size(), 2U);
}

TEST(HttpApi, RandomBodiesNeverGiveA5xx) {
  WorldOptions options = http_options();
  options.serving.api.apply_wait_max = milliseconds(1);
  ServedWorld world(options);
  world.publish_items(5);
  const std::uint64_t seed = std::random_device()();
  RecordProperty("seed", std::to_string(seed));
  std::cout << "seed " << seed << "\n";
  std::mt19937_64 random(seed);
  const auto pick = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  const std::string templates[] = {
      kClick, R"({"user":"u1","items":["i1","i2",3],"surface":"home","explain":true})",
      R"([{"topic":"impressions","impression_id":"x","user_id":"u","items":["a"],)"
      R"("timestamp":1700000000000},{"topic":"users","user_id":"u","timestamp":1700000000000}])",
      R"({"author_id":"p","tags":["sport"],"numeric":{"duration_s":4.5},"title":"T"})"};
  const std::pair<const char*, const char*> targets[] = {
      {"POST", "/v1/rank"}, {"POST", "/v1/events"}, {"PUT", "/v1/items/x"}};
  const std::string alphabet = "{}[]\",:\\0123456789eE+-.truefalsn \n\t\xff\xc3\xa9";
  HttpClient client(world.port());
  for (int n = 0; n < 2000; ++n) {
    std::string body = templates[pick(4)];
    const std::size_t edits = pick(6);
    for (std::size_t e = 0; e < edits && !body.empty(); ++e) {
      const std::size_t at = pick(body.size());
      if (pick(3) == 0) {
        body.erase(at, 1 + pick(8));
      } else if (pick(2) == 0) {
        body[at] = alphabet[pick(alphabet.size())];
      } else {
        body.insert(at, 1, alphabet[pick(alphabet.size())]);
      }
    }
    if (pick(20) == 0) {
      body.clear();
      for (std::size_t i = pick(300); i > 0; --i) body += static_cast<char>(random());
    }
    const auto& [method, target] = targets[pick(3)];
    const HttpReply reply = client.request(method, target, body);
    ASSERT_GE(reply.status, 200) << "seed " << seed << ", body " << n << ": " << body;
    ASSERT_LT(reply.status, 500) << "seed " << seed << ": " << method << " " << target << " "
                                 << body << " → " << reply.body;
  }
}

TEST(HttpApi, ModelsAreListedPinnedRolledBackAndFollowedAgain) {
  ServedWorld world(http_options());
  HttpClient client(world.port());
  EXPECT_EQ(parsed(client.get("/v1/model")).at("version").as_int64(), 0);
  EXPECT_EQ(client.request("POST", "/v1/models/rollback").status, 409);
  world.publish_model(1);
  world.publish_model(2);
  EXPECT_EQ(parsed(client.get("/v1/models")).at("versions").as_array().size(), 2U);
  EXPECT_EQ(parsed(client.request("POST", "/v1/models/rollback")).at("version").as_int64(), 1);
  EXPECT_EQ(parsed(client.get("/v1/model")).at("pinned").as_int64(), 1);
  EXPECT_EQ(parsed(client.request("POST", "/v1/models/unpin")).at("version").as_int64(), 2);
  EXPECT_EQ(parsed(client.request("POST", "/v1/models/1/pin")).at("version").as_int64(), 1);
  EXPECT_EQ(client.request("POST", "/v1/models/77/pin").status, 404);
  const json::object metrics = parsed(client.get("/v1/metrics"));
  const json::array& versions = metrics.at("versions").as_array();
  ASSERT_EQ(versions.size(), 2U);
  EXPECT_EQ(versions[0].as_object().at("metrics").as_object().at("click").as_object().at("ne"),
            json::value(0.9));
  EXPECT_NE(client.get("/metrics").body.find("sirenfeed_serving_model_version 1"),
            std::string::npos);
}

TEST(HttpApi, ReadinessSaysWhy) {
  ServedWorld world(http_options());
  HttpClient client(world.port());
  EXPECT_EQ(parsed(client.get("/readyz")).at("status").as_string(), "ready");
  world.readiness = {.ready = false, .reasons = {"no_model"}, .lag_events = 3};
  const HttpReply reply = client.get("/readyz");
  EXPECT_EQ(reply.status, 503);
  EXPECT_EQ(parsed(reply).at("reasons").as_array()[0].as_string(), "no_model");
  world.readiness = {.ready = true, .reasons = {"broker_lost"}, .lag_events = 3};
  EXPECT_EQ(parsed(client.get("/readyz")).at("status").as_string(), "degraded");
  EXPECT_EQ(parsed(client.get("/healthz")).at("status").as_string(), "ok");
}

TEST(HttpApi, ThePageNeedsNothingFromTheInternet) {
  ServedWorld world(http_options());
  HttpClient client(world.port());
  const HttpReply page = client.get("/");
  ASSERT_EQ(page.status, 200);
  EXPECT_EQ(page.header("content-type"), "text/html; charset=utf-8");
  EXPECT_NE(page.header("content-security-policy").find("default-src 'self'"), std::string::npos);
  EXPECT_EQ(page.body.find("http://"), std::string::npos);
  EXPECT_EQ(page.body.find("https://"), std::string::npos);
  for (const char* file : {"/page.js", "/page.css", "/charts.js", "/chart.min.js"}) {
    EXPECT_NE(page.body.find(file), std::string::npos) << file;
    EXPECT_GT(client.get(file).body.size(), 500U) << file;
  }
}

TEST(HttpApi, AProcessWithoutFeedsServesMetricsAndHealthOnly) {
  base::MetricsRegistry registry;
  ServingProbe probe(registry);
  ApiParts parts{registry, probe};
  parts.role = "train";
  Api api({}, std::move(parts));
  HttpConfig config;
  config.port = 0;
  auto server = *HttpServer::start(config, api.router(), probe);
  HttpClient client(server->port());
  EXPECT_EQ(client.get("/metrics").status, 200);
  EXPECT_EQ(client.get("/v1/metrics").status, 200);
  EXPECT_EQ(client.get("/readyz").status, 200);
  EXPECT_EQ(parsed(client.get("/healthz")).at("role").as_string(), "train");
  for (const char* target : {"/", "/v1/feed/u", "/v1/users/u", "/v1/model"}) {
    EXPECT_EQ(client.get(target).status, 404) << target;
  }
}

}  // namespace
}  // namespace sirenfeed::serving
