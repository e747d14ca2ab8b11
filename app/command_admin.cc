// erase, takedown, close-windows, health: small calls to the API of a running process. Without one,
// erase and takedown open the data folder themselves.
#include <boost/json.hpp>
#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>

#include "app/command_line.h"
#include "app/copies_left.h"
#include "app/http_client.h"
#include "app/run_file.h"
#include "app/stopped_node.h"
#include "ingest/event_json.h"

namespace sirenfeed::app {
namespace {

using base::ErrorCode;
using base::fail;

struct AdminOptions {
  std::string url;
  std::string id;
  bool ready = false;
};

constexpr std::chrono::milliseconds kTimeout{60'000};

base::Result<std::string> find_url(const std::string& given, const Settings& settings) {
  if (!given.empty()) return given;
  if (const auto running = find_running(settings.data_dir)) return running->url;
  return fail(
      ErrorCode::kUnavailable,
      "no process runs on the data folder {} (see its run.json); give --url http://HOST:PORT",
      settings.data_dir);
}

/// Time of an order: the clock's, and not before what it is about.
base::UnixMs order_time(StoppedNode& node, const Settings& settings, const std::string& item) {
  const base::UnixMs now = node.clock().now_ms();
  const base::UnixMs time =
      now >= settings.ingest.parser.timestamp_min_ms ? now : base::WallClock().now_ms();
  const auto known = item.empty() ? nullptr : node.state().reader().item(std::string_view(item));
  return known && known->known ? std::max(time, known->updated_ms) : time;
}

/// Into the log, and applied with everything that lies before it there.
base::Result<void> order_stopped(const Settings& settings, bool user, const std::string& id) {
  SF_ASSIGN(const auto node, StoppedNode::open(settings, StoppedNode::Log::kAny));
  ingest::EventBody event;
  if (user) {
    ingest::UserUpdate erase;
    erase.user_id = id;
    erase.time_ms = order_time(*node, settings, "");
    erase.erase = true;
    event = std::move(erase);
  } else {
    ingest::ItemUpdate takedown;
    takedown.item_id = id;
    takedown.time_ms = order_time(*node, settings, id);
    takedown.deleted = true;
    event = std::move(takedown);
  }
  const ingest::Topic topic = ingest::event_topic(event);
  SF_ASSIGN(const ingest::Partition partitions, node->log().partitions(topic));
  const ingest::TopicPartition target{topic, ingest::partition_of(id, partitions)};
  ingest::Offset offset = 0;
  {
    SF_ASSIGN(const auto writer, node->log().open_writer("sirenfeed-order"));
    SF_TRY(writer->append(target, id, ingest::event_json(event), base::WallClock().now_ms(),
                          [&](base::Result<ingest::Offset> at) { offset = at.value_or(-1); }));
    SF_TRY(writer->flush(kTimeout));
  }
  ingest::IngestConfig config = settings.ingest;
  config.group.reset();
  config.member.reset();
  ingest::IngestLoop loop(config, node->loop_parts(node->state()));
  SF_TRY(loop.run_until_end(ingest::IngestLoop::AtEnd::kLeaveWindowsOpen));
  SF_TRY(node->state().sync());
  boost::json::object removed;
  if (const auto removal = node->state().removed_by(target, offset)) {
    for (const auto& [family, keys] : *removal) {
      if (keys > 0) removed[family] = keys;
    }
  }
  const boost::json::object body{
      {"status", user ? "erased" : "taken_down"},
      {"receipt",
       {{"topic", ingest::topic_name(topic)}, {"partition", target.partition}, {"offset", offset}}},
      {"removed", std::move(removed)},
      {"copies_left", boost::json::value_from(copies_left(settings))}};
  fmt::print("{}\n", boost::json::serialize(body));
  return {};
}

std::string path_segment(const std::string& id) {
  return boost::urls::encode(id, boost::urls::unreserved_chars);
}

base::Result<void> call(const std::string& url, std::string_view method,
                        const std::string& target) {
  SF_ASSIGN(HttpClient client, HttpClient::make(url, kTimeout));
  SF_ASSIGN(const HttpResponse response, client.request(method, target));
  fmt::print("{}\n", response.body);
  if (response.status >= 300) {
    return fail(ErrorCode::kUnavailable, "{} {}{} answered {}", method, url, target,
                response.status);
  }
  return {};
}

}  // namespace

void add_admin_commands(CommandLine& line) {
  auto options = std::make_shared<AdminOptions>();
  const auto add_url = [options](CLI::App& command) {
    command.add_option("--url", options->url, "The process (default: the one of the data folder)");
  };
  const auto order = [&line, options](bool user) {
    line.action = [&line, options, user]() -> base::Result<void> {
      const Settings& settings = line.settings;
      const bool stopped = options->url.empty() && !find_running(settings.data_dir) &&
                           std::filesystem::exists(settings.state_dir());
      if (stopped) return order_stopped(settings, user, options->id);
      SF_ASSIGN(const std::string url, find_url(options->url, settings));
      return call(url, "DELETE", (user ? "/v1/users/" : "/v1/items/") + path_segment(options->id));
    };
  };

  CLI::App& erase = add_command(line, "erase", "Erase everything about a user",
                                "  sirenfeed erase user-1 --url http://127.0.0.1:8080");
  erase.add_option("user", options->id, "The user's id")->required();
  add_url(erase);
  erase.callback([order] { order(/*user=*/true); });

  CLI::App& takedown = add_command(line, "takedown", "Take an item down: it is not served again",
                                   "  sirenfeed takedown item-1 --url http://127.0.0.1:8080");
  takedown.add_option("item", options->id, "The item's id")->required();
  add_url(takedown);
  takedown.callback([order] { order(/*user=*/false); });

  CLI::App& close =
      add_command(line, "close-windows", "The replayed input is complete: close every join window",
                  "  sirenfeed close-windows --url http://127.0.0.1:8080");
  add_url(close);
  close.callback([&line, options] {
    line.action = [&line, options]() -> base::Result<void> {
      SF_ASSIGN(const std::string url, find_url(options->url, line.settings));
      return call(url, "POST", "/v1/admin/close-windows");
    };
  });

  CLI::App& health = add_command(line, "health", "Exit code 0 when the process at --http answers",
                                 "  sirenfeed health --http 127.0.0.1:8080\n"
                                 "  sirenfeed health --http 127.0.0.1:8080 --ready");
  health.add_flag("--ready", options->ready, "Ask /readyz instead of /healthz");
  health.callback([&line, options] {
    line.action = [&line, options]() -> base::Result<void> {
      return call(line.settings.http, "GET", options->ready ? "/readyz" : "/healthz");
    };
  });
}

}  // namespace sirenfeed::app
