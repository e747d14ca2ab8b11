// docs/openapi.yaml is the truth: every path and method of it answers as documented, and what it
// does not name is not there.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <set>

#include "tests/support/http_client.h"
#include "tests/support/served_world.h"

namespace sirenfeed::serving {
namespace {

using test::HttpClient;
using test::HttpReply;
using test::ServedWorld;
using test::WorldOptions;

struct Operation {
  std::string path;
  std::string method;   // in capitals
  std::string example;  // of its body
  std::set<std::string> statuses;
};

std::string trimmed(const std::string& line) {
  const std::size_t begin = line.find_first_not_of(' ');
  return begin == line.npos ? "" : line.substr(begin);
}

/// The file's own layout is enough to read it: paths at two spaces, methods at four.
std::vector<Operation> operations() {
  std::ifstream file(std::string(SIRENFEED_SOURCE_DIR) + "/docs/openapi.yaml");
  EXPECT_TRUE(file.is_open());
  std::vector<Operation> found;
  std::string path;
  for (std::string line; std::getline(file, line);) {
    if (line == "components:") break;
    const std::size_t indent = line.find_first_not_of(' ');
    const std::string text = trimmed(line);
    if (indent == 2 && text.starts_with("/")) {
      path = text.substr(0, text.size() - 1);
    } else if (indent == 4 &&
               std::set<std::string>{"get:", "post:", "put:", "delete:"}.contains(text)) {
      std::string method = text.substr(0, text.size() - 1);
      for (char& c : method) c = static_cast<char>(c - 32);
      found.push_back({path, method, "", {}});
    } else if (text.starts_with("example: ") && found.back().example.empty()) {
      found.back().example = text.substr(9);
    } else if (indent == 8 && text.size() > 5 && text[0] == '\'') {
      found.back().statuses.insert(text.substr(1, 3));
    }
  }
  return found;
}

std::string filled(std::string path) {
  for (const auto& [name, value] :
       std::map<std::string, std::string>{{"{user}", "u1"}, {"{item}", "i1"}, {"{n}", "1"}}) {
    const std::size_t at = path.find(name);
    if (at != path.npos) path.replace(at, name.size(), value);
  }
  return path;
}

TEST(OpenApi, EveryDocumentedOperationAnswersWithADocumentedStatus) {
  WorldOptions options;
  options.http = true;
  options.serving.api.parser.check_future = false;
  ServedWorld world(options);
  world.publish_items(5);
  world.publish_model(1);
  HttpClient client(world.port());
  const auto all = operations();
  EXPECT_GE(all.size(), 20U);
  for (const Operation& operation : all) {
    const HttpReply reply =
        client.request(operation.method, filled(operation.path), operation.example);
    EXPECT_TRUE(operation.statuses.contains(std::to_string(reply.status)))
        << operation.method << " " << operation.path << " answered " << reply.status << ": "
        << reply.body.substr(0, 200);
    EXPECT_LT(reply.status, 500) << operation.path;
  }
}

TEST(OpenApi, TheServerHasNoOtherRoutes) {
  WorldOptions options;
  options.http = true;
  ServedWorld world(options);
  std::set<std::pair<std::string, std::string>> documented;
  for (const Operation& operation : operations()) {
    documented.emplace(operation.method, operation.path);
  }
  std::set<std::pair<std::string, std::string>> routed;
  const Router router = world.api->router();
  for (const Route& route : router.routes()) {
    routed.emplace(route.method, route.pattern);
  }
  EXPECT_EQ(routed, documented);
}

TEST(OpenApi, OtherMethodsAre405WithWhatIsAllowedAndOtherPaths404) {
  WorldOptions options;
  options.http = true;
  ServedWorld world(options);
  HttpClient client(world.port());
  std::map<std::string, std::set<std::string>> methods;
  for (const Operation& operation : operations()) {
    methods[operation.path].insert(operation.method);
  }
  for (const auto& [path, known] : methods) {
    for (const char* method : {"GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS"}) {
      if (known.contains(method)) continue;
      const HttpReply reply = client.request(method, filled(path));
      EXPECT_EQ(reply.status, 405) << method << " " << path;
      for (const std::string& each : known) {
        EXPECT_NE(reply.header("allow").find(each), std::string::npos) << path;
      }
    }
  }
  for (const char* path : {"/v1", "/v1/", "/v1/feed", "/v1/feed/", "/v1/feed/a/b", "/v2/feed/a",
                           "//", "/metrics/", "/healthz/x", "/V1/feed/a"}) {
    EXPECT_EQ(client.get(path).status, 404) << path;
  }
}

}  // namespace
}  // namespace sirenfeed::serving
