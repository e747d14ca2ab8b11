// erase, takedown, close-windows, health: small calls to the API of a running process.
#include <boost/url/encode.hpp>
#include <boost/url/rfc/unreserved_chars.hpp>
#include <cstdio>
#include <memory>

#include "app/command_line.h"
#include "app/http_client.h"
#include "app/run_file.h"

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
  const auto call_with_id = [&line, options](std::string_view method, const std::string& prefix) {
    line.action = [&line, options, method, prefix]() -> base::Result<void> {
      SF_ASSIGN(const std::string url, find_url(options->url, line.settings));
      return call(url, method, prefix + path_segment(options->id));
    };
  };

  CLI::App& erase = add_command(line, "erase", "Erase everything about a user",
                                "  sirenfeed erase user-1 --url http://127.0.0.1:8080");
  erase.add_option("user", options->id, "The user's id")->required();
  add_url(erase);
  erase.callback([call_with_id] { call_with_id("DELETE", "/v1/users/"); });

  CLI::App& takedown = add_command(line, "takedown", "Take an item down: it is not served again",
                                   "  sirenfeed takedown item-1 --url http://127.0.0.1:8080");
  takedown.add_option("item", options->id, "The item's id")->required();
  add_url(takedown);
  takedown.callback([call_with_id] { call_with_id("DELETE", "/v1/items/"); });

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
