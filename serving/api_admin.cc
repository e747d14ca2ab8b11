// POST /v1/admin/backup: for the command of that name, which knows the secret in run.json.
#include "serving/api_parts.h"
#include "serving/json_body.h"

namespace sirenfeed::serving {

namespace json = boost::json;

namespace {

constexpr std::chrono::minutes kBackupMax{30};

/// Takes as long whatever is equal.
bool same_secret(std::string_view given, std::string_view expected) {
  unsigned difference = given.size() == expected.size() && !expected.empty() ? 0 : 1;
  for (std::size_t i = 0; i < given.size() && i < expected.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^ static_cast<unsigned char>(expected[i]);
  }
  return difference == 0;
}

std::string_view text_of(const json::object& body, const char* name) {
  const json::value* member = body.if_contains(name);
  const json::string* text = member == nullptr ? nullptr : member->if_string();
  return text == nullptr ? std::string_view() : std::string_view(*text);
}

void back_up(const ApiShared& shared, const std::shared_ptr<Exchange>& exchange) {
  const auto body = json_object(exchange->request().body);
  if (!body) return exchange->respond(problem(body.error()));
  // It writes wherever it is told to: only who may read the data folder may ask.
  if (!same_secret(text_of(*body, "token"), shared.parts.owner_token)) {
    return exchange->respond(problem(403, "token", "token: is not the one of run.json"));
  }
  const std::string dir(text_of(*body, "dir"));
  if (!dir.starts_with('/')) {
    return exchange->respond(problem(400, "dir", "dir: expected an absolute path"));
  }
  exchange->respond_later(kBackupMax,
                          [] { return problem(503, "", "the backup is still being written"); });
  const auto done = shared.parts.backup(dir);
  exchange->respond(done ? json_answer({{"status", "written"}}) : problem(done.error()));
}

}  // namespace

void add_admin_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes) {
  if (!shared->parts.backup) return;
  routes.push_back(
      {"POST", "/v1/admin/backup",
       [shared](const std::shared_ptr<Exchange>& exchange) { back_up(*shared, exchange); },
       Scope::kAdmin});
}

}  // namespace sirenfeed::serving
