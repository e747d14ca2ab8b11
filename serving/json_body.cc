#include "serving/json_body.h"

namespace sirenfeed::serving {

namespace json = boost::json;
using base::ErrorCode;
using base::fail;

base::Result<json::object> json_object(std::string_view body) {
  boost::system::error_code ec;
  json::value value = json::parse(body, ec);
  if (ec) return fail(ErrorCode::kInvalidArgument, "body: is not JSON: {}", ec.message());
  if (!value.is_object()) return fail(ErrorCode::kInvalidArgument, "body: expected an object");
  return std::move(value.as_object());
}

base::Result<std::string> json_id(std::string_view field, const json::value& value) {
  std::string id;
  if (value.is_int64()) {
    id = std::to_string(value.as_int64());
  } else if (value.is_uint64()) {
    id = std::to_string(value.as_uint64());
  } else if (value.is_string()) {
    id = std::string(value.as_string());
  } else {
    return fail(ErrorCode::kInvalidArgument, "{}: expected a string or an integer", field);
  }
  if (id.empty()) return fail(ErrorCode::kInvalidArgument, "{}: is empty", field);
  for (const char c : id) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      return fail(ErrorCode::kInvalidArgument, "{}: holds a control character", field);
    }
  }
  return id;
}

base::Result<std::vector<std::string>> json_ids(std::string_view field, const json::value& value) {
  if (!value.is_array()) {
    return fail(ErrorCode::kInvalidArgument, "{}: expected an array of ids", field);
  }
  std::vector<std::string> ids;
  ids.reserve(value.as_array().size());
  for (const json::value& element : value.as_array()) {
    SF_ASSIGN(std::string id, json_id(fmt::format("{}[{}]", field, ids.size()), element));
    ids.push_back(std::move(id));
  }
  return ids;
}

}  // namespace sirenfeed::serving
