#include "serving/http_server.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <thread>

#include "tests/support/http_client.h"

namespace sirenfeed::serving {
namespace {

using std::chrono::milliseconds;
using test::HttpClient;
using test::HttpReply;

HttpResponse text(std::string body) {
  return {.status = 200, .content_type = "text/plain", .body = std::move(body), .headers = {}};
}

class HttpServerTest : public testing::Test {
 protected:
  HttpServerTest() : probe_(registry_) {
    config_.port = 0;
    config_.worker_threads = 2;
  }
  void start(std::vector<Route> more = {}) {
    std::vector<Route> routes;
    routes.push_back({"GET", "/hello/{name}", answer_with([](const HttpRequest& request) {
                        return text("hello " + request.path_parameter("name"));
                      })});
    routes.push_back({"POST", "/echo",
                      answer_with([](const HttpRequest& request) { return text(request.body); })});
    for (Route& route : more) routes.push_back(std::move(route));
    auto server = HttpServer::start(config_, Router(std::move(routes)), probe_);
    ASSERT_TRUE(server) << server.error().message;
    server_ = *std::move(server);
  }
  HttpClient client() const { return HttpClient(server_->port()); }

  base::MetricsRegistry registry_;
  ServingProbe probe_;
  HttpConfig config_;
  std::unique_ptr<HttpServer> server_;
};

TEST_F(HttpServerTest, OneConnectionCarriesManyRequests) {
  start();
  HttpClient client(server_->port());
  for (int i = 0; i < 50; ++i) {
    const HttpReply reply = client.get("/hello/" + std::to_string(i));
    ASSERT_EQ(reply.status, 200);
    ASSERT_EQ(reply.body, "hello " + std::to_string(i));
  }
  EXPECT_EQ(probe_.connections.value(), 1U);
  EXPECT_EQ(probe_.responses_2xx.value(), 50U);
}

TEST_F(HttpServerTest, PipelinedRequestsAreAnsweredInOrder) {
  start();
  HttpClient client(server_->port());
  client.send("GET /hello/a HTTP/1.1\r\nHost: t\r\n\r\nGET /hello/b HTTP/1.1\r\nHost: t\r\n\r\n");
  EXPECT_EQ(client.read().body, "hello a");
  EXPECT_EQ(client.read().body, "hello b");
}

TEST_F(HttpServerTest, PathParametersArePercentDecodedAndBrokenEscapesNameThePath) {
  start();
  HttpClient client(server_->port());
  EXPECT_EQ(client.get("/hello/a%20b%2Fc").body, "hello a b/c");
  for (const char* target : {"/hello/%", "/hello/%4", "/hello/%zz", "/hello/%ff", "/hello/%00"}) {
    const HttpReply reply = client.get(target);
    EXPECT_EQ(reply.status, 400) << target;
    EXPECT_EQ(reply.header("content-type"), "application/problem+json");
    EXPECT_NE(reply.body.find(R"("field":"path")"), std::string::npos) << reply.body;
  }
}

TEST_F(HttpServerTest, UnknownPathsAre404AndOtherMethods405WithAllow) {
  start();
  HttpClient client(server_->port());
  EXPECT_EQ(client.get("/nothing").status, 404);
  EXPECT_EQ(client.get("/hello/").status, 404);
  const HttpReply reply = client.request("DELETE", "/hello/a");
  EXPECT_EQ(reply.status, 405);
  EXPECT_EQ(reply.header("allow"), "GET, HEAD");
  EXPECT_EQ(client.request("BREW", "/echo").status, 405);
}

TEST_F(HttpServerTest, PagesOfOtherSitesMayOnlyRead) {
  start();
  HttpClient client(server_->port());
  const std::string foreign = "Sec-Fetch-Site: cross-site\r\n";
  EXPECT_EQ(client.request("POST", "/echo", "x", "text/plain", foreign).status, 403);
  EXPECT_EQ(client.request("GET", "/hello/a", "", "", foreign).status, 200);
  EXPECT_EQ(
      client.request("POST", "/echo", "x", "text/plain", "Sec-Fetch-Site: same-origin\r\n").body,
      "x");
}

TEST_F(HttpServerTest, HeadGivesTheHeaderOfGet) {
  start();
  HttpClient client(server_->port());
  const HttpReply reply = client.request("HEAD", "/hello/you");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.header("content-length"), "9");
  EXPECT_EQ(client.get("/hello/me").body, "hello me") << "the body was not sent";
}

TEST_F(HttpServerTest, ABodyOverItsLimitIs413WhetherAnnouncedOrChunked) {
  config_.body_bytes_max = 1000;
  start();
  {
    HttpClient client(server_->port());
    const HttpReply reply = client.post("/echo", std::string(1001, 'x'));
    EXPECT_EQ(reply.status, 413);
    EXPECT_NE(reply.body.find("body_bytes_max"), std::string::npos);
  }
  {
    HttpClient client(server_->port());
    client.send("POST /echo HTTP/1.1\r\nHost: t\r\nTransfer-Encoding: chunked\r\n\r\n");
    for (int i = 0; i < 3; ++i) client.send("190\r\n" + std::string(400, 'x') + "\r\n");
    EXPECT_EQ(client.read().status, 413);
  }
  HttpClient client(server_->port());
  EXPECT_EQ(client.post("/echo", std::string(1000, 'x')).body.size(), 1000U);
}

TEST_F(HttpServerTest, ALargeRefusedBodyStillGetsItsAnswer) {
  start();
  HttpClient client(server_->port());
  const std::string body(config_.body_bytes_max + (8U << 20U), 'x');
  EXPECT_EQ(client.post("/echo", body).status, 413);
}

TEST_F(HttpServerTest, AHeaderOverItsLimitIs431AndALongTarget414) {
  config_.header_bytes_max = 2000;
  config_.target_bytes_max = 500;
  start();
  {
    HttpClient client(server_->port());
    EXPECT_EQ(
        client.request("GET", "/hello/a", "", "", "X: " + std::string(3000, 'y') + "\r\n").status,
        431);
  }
  HttpClient client(server_->port());
  EXPECT_EQ(client.get("/hello/" + std::string(600, 'z')).status, 414);
}

TEST_F(HttpServerTest, WhatIsNoHttpIs400AndTheConnectionEnds) {
  start();
  HttpClient client(server_->port());
  client.send("this is not http\r\n\r\n");
  EXPECT_EQ(client.read().status, 400);
  EXPECT_TRUE(client.closed_within(milliseconds(5000)));
}

TEST_F(HttpServerTest, AnExpectedContinueIsGiven) {
  start();
  HttpClient client(server_->port());
  client.send(
      "POST /echo HTTP/1.1\r\nHost: t\r\nExpect: 100-continue\r\nContent-Length: 2\r\n\r\n");
  EXPECT_EQ(client.read().status, 100);
  client.send("ok");
  EXPECT_EQ(client.read().body, "ok");
}

TEST_F(HttpServerTest, SlowClientsAreDisconnected) {
  config_.header_timeout = milliseconds(100);
  config_.body_timeout = milliseconds(100);
  config_.keep_alive_timeout = milliseconds(100);
  start();
  HttpClient silent(server_->port());
  HttpClient slow_header(server_->port());
  slow_header.send("GET /hello/a HTT");
  HttpClient slow_body(server_->port());
  slow_body.send("POST /echo HTTP/1.1\r\nHost: t\r\nContent-Length: 10\r\n\r\nabc");
  EXPECT_TRUE(silent.closed_within(milliseconds(5000)));
  EXPECT_TRUE(slow_header.closed_within(milliseconds(5000)));
  EXPECT_TRUE(slow_body.closed_within(milliseconds(5000)));
  server_->stop();
  EXPECT_EQ(probe_.timed_out.value(), 2U);
}

TEST_F(HttpServerTest, AFullQueueGets503WithRetryAfterAndHealthStillAnswers) {
  config_.worker_threads = 1;
  config_.request_queue_max = 2;
  std::promise<void> open;
  const std::shared_future<void> gate = open.get_future().share();
  std::atomic<int> entered = 0;
  start({{"GET", "/slow", answer_with([&, gate](const HttpRequest&) {
            ++entered;
            gate.wait();
            return text("done");
          })},
         {"GET", "/health", answer_with([](const HttpRequest&) { return text("ok"); }),
          Scope::kPublic, true}});
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<HttpClient>(server_->port()));
    clients.back()->send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
    // The first is taken by the worker before the others queue up.
    while (entered == 0) std::this_thread::sleep_for(milliseconds(1));
  }
  HttpClient extra(server_->port());
  HttpReply refused;
  for (int i = 0; i < 200 && refused.status != 503; ++i) {
    // The two that wait may still be on their way to the queue.
    std::this_thread::sleep_for(milliseconds(5));
    extra.send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
    refused = extra.read(false, milliseconds(200));
  }
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("retry-after"), "1");
  EXPECT_NE(refused.body.find("request_queue_max"), std::string::npos);
  HttpClient health(server_->port());
  EXPECT_EQ(health.get("/health").body, "ok");
  open.set_value();
  for (auto& client : clients) EXPECT_EQ(client->read().status, 200);
}

TEST_F(HttpServerTest, ConnectionsOverTheLimitGet503) {
  config_.connections_max = 2;
  start();
  HttpClient a(server_->port());
  HttpClient b(server_->port());
  EXPECT_EQ(a.get("/hello/a").status, 200);
  EXPECT_EQ(b.get("/hello/b").status, 200);
  HttpClient c(server_->port());
  const HttpReply reply = c.read();
  EXPECT_EQ(reply.status, 503);
  EXPECT_NE(reply.body.find("connections_max"), std::string::npos);
  EXPECT_EQ(a.get("/hello/again").status, 200);
}

TEST_F(HttpServerTest, AHandlerThatNeverAnswersIsAnsweredAtTheDeadline) {
  config_.request_deadline = milliseconds(50);
  std::shared_ptr<Exchange> kept;
  start({{"GET", "/never", [&](std::shared_ptr<Exchange> exchange) { kept = std::move(exchange); }},
         {"GET", "/later", [](const std::shared_ptr<Exchange>& exchange) {
            exchange->respond_later(milliseconds(100), [] { return text("by now"); });
          }}});
  HttpClient client(server_->port());
  EXPECT_EQ(client.get("/never").status, 503);
  EXPECT_EQ(client.get("/later").body, "by now");
  kept->respond(text("too late"));
  EXPECT_EQ(client.get("/hello/x").body, "hello x") << "the late answer is dropped";
}

TEST_F(HttpServerTest, AnAnswerFromAnotherThreadAfterTheServerIsGoneIsHarmless) {
  std::shared_ptr<Exchange> kept;
  std::atomic<bool> has = false;
  start({{"GET", "/never", [&](std::shared_ptr<Exchange> exchange) {
            kept = std::move(exchange);
            has = true;
          }}});
  HttpClient client(server_->port());
  client.send("GET /never HTTP/1.1\r\nHost: t\r\n\r\n");
  while (!has) std::this_thread::sleep_for(milliseconds(1));
  server_->stop(milliseconds(10));
  server_.reset();
  kept->respond(text("nobody listens"));
}

TEST_F(HttpServerTest, StoppingFinishesTheRequestUnderWay) {
  std::promise<void> entered;
  start({{"GET", "/slow", answer_with([&](const HttpRequest&) {
            entered.set_value();
            std::this_thread::sleep_for(milliseconds(100));
            return text("finished");
          })}});
  HttpClient client(server_->port());
  HttpClient idle(server_->port());
  client.send("GET /slow HTTP/1.1\r\nHost: t\r\n\r\n");
  entered.get_future().wait();
  server_->stop();
  server_->stop();
  EXPECT_EQ(client.read().body, "finished");
  EXPECT_FALSE(HttpClient(server_->port()).connected());
}

TEST_F(HttpServerTest, APortInUseNamesAddressAndRemedy) {
  start();
  HttpConfig second = config_;
  second.port = server_->port();
  const auto refused = HttpServer::start(second, Router({}), probe_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kUnavailable);
  EXPECT_NE(refused.error().message.find("127.0.0.1:" + std::to_string(second.port)),
            std::string::npos);
  EXPECT_NE(refused.error().message.find("--http"), std::string::npos);
}

TEST_F(HttpServerTest, ListensOnIpv6Loopback) {
  config_.address = "[::1]";
  auto started = HttpServer::start(
      config_, Router({{"GET", "/", answer_with([](const HttpRequest&) { return text("six"); })}}),
      probe_);
  if (!started && started.error().message.find("Cannot assign") != std::string::npos) {
    GTEST_SKIP() << "this machine has no IPv6: " << started.error().message;
  }
  ASSERT_TRUE(started) << started.error().message;
  HttpClient client((*started)->port(), /*ipv6=*/true);
  EXPECT_EQ(client.get("/").body, "six");
  EXPECT_EQ((*started)->url(), "http://[::1]:" + std::to_string((*started)->port()));
}

TEST_F(HttpServerTest, ABadAddressIsWrongUse) {
  config_.address = "not-an-address";
  const auto refused = HttpServer::start(config_, Router({}), probe_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, base::ErrorCode::kInvalidArgument);
}

TEST(HttpConfig, NamesTheBadField) {
  HttpConfig config;
  EXPECT_TRUE(config.validate());
  config.header_bytes_max = 1;
  ASSERT_FALSE(config.validate());
  EXPECT_NE(config.validate().error().message.find("header_bytes_max"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::serving
