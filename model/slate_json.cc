#include "model/slate_json.h"

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>

#include "base/hash.h"

namespace sirenfeed::model {
namespace {

namespace json = boost::json;
using base::ErrorCode;
using base::fail;

const json::value* find(const json::object& object, const char* key) {
  const json::value* value = object.if_contains(key);
  return value == nullptr || value->is_null() ? nullptr : value;
}

base::Result<Key> parse_id(const json::object& object, const char* key, const std::string& where) {
  const json::value* value = find(object, key);
  if (value == nullptr) return kNoKey;
  if (!value->is_string()) return fail(ErrorCode::kDecode, "{}{} is not a string", where, key);
  return base::xxh3_64(std::string_view(value->get_string()));
}

base::Result<std::int64_t> parse_time(const json::object& object, const std::string& where) {
  const json::value* value = find(object, "time");
  if (value == nullptr) return kUnknownTime;
  boost::system::error_code error;
  const auto time_ms = value->to_number<std::int64_t>(error);
  if (error) return fail(ErrorCode::kDecode, "{}time is not an integer of milliseconds", where);
  return time_ms;
}

base::Result<const json::array*> parse_list(const json::object& object, const char* key,
                                            const std::string& where) {
  static const json::array kEmpty;
  const json::value* value = find(object, key);
  if (value == nullptr) return &kEmpty;
  if (!value->is_array()) return fail(ErrorCode::kDecode, "{}{} is not a list", where, key);
  return &value->get_array();
}

base::Result<ItemRef> parse_item(const json::object& object, const std::string& where,
                                 Slate& slate) {
  ItemRef item;
  SF_ASSIGN(item.item, parse_id(object, "item", where));
  if (item.item == kNoKey) return fail(ErrorCode::kDecode, "{}item is missing", where);
  SF_ASSIGN(item.author, parse_id(object, "author", where));
  SF_ASSIGN(const json::array* tags, parse_list(object, "tags", where));
  item.tags_begin = static_cast<std::uint32_t>(slate.tags.size());
  for (const json::value& tag : *tags) {
    if (!tag.is_string()) return fail(ErrorCode::kDecode, "{}tags has no string", where);
    slate.tags.push_back(base::xxh3_64(std::string_view(tag.get_string())));
  }
  item.tags_end = static_cast<std::uint32_t>(slate.tags.size());
  return item;
}

base::Result<void> parse_history(const ModelConfig& config, const json::array& history,
                                 Slate& slate) {
  for (std::size_t i = 0; i < history.size(); ++i) {
    const std::string where = fmt::format("history[{}].", i);
    const json::object* object = history[i].if_object();
    if (object == nullptr) return fail(ErrorCode::kDecode, "history[{}] is not an object", i);
    HistoryToken token;
    SF_ASSIGN(token.item, parse_item(*object, where, slate));
    SF_ASSIGN(token.time_ms, parse_time(*object, where));
    SF_ASSIGN(token.surface, parse_id(*object, "surface", where));
    SF_ASSIGN(const json::array* actions, parse_list(*object, "actions", where));
    for (const json::value& action : *actions) {
      if (!action.is_string()) return fail(ErrorCode::kDecode, "{}actions has no string", where);
      const std::string_view name(action.get_string());
      const auto found = std::find(config.actions.begin(), config.actions.end(), name);
      if (found == config.actions.end()) continue;
      token.action_bits |= 1U << static_cast<unsigned>(found - config.actions.begin());
    }
    slate.history.push_back(token);
  }
  return {};
}

base::Result<void> parse_candidates(const ModelConfig& config, const json::array& candidates,
                                    Slate& slate) {
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const std::string where = fmt::format("candidates[{}].", i);
    const json::object* object = candidates[i].if_object();
    if (object == nullptr) return fail(ErrorCode::kDecode, "candidates[{}] is not an object", i);
    SF_ASSIGN(const ItemRef item, parse_item(*object, where, slate));
    SF_ASSIGN(const json::array* context, parse_list(*object, "context", where));
    if (context->size() != config.context_row_width()) {
      return fail(ErrorCode::kInvalidArgument,
                  "{}context has {} numbers, the model has {} features", where, context->size(),
                  config.context_row_width());
    }
    for (const json::value& number : *context) {
      boost::system::error_code error;
      const auto value = static_cast<float>(number.to_number<double>(error));
      if (error || !std::isfinite(value)) {
        return fail(ErrorCode::kDecode, "{}context has an element that is no finite number", where);
      }
      slate.context.push_back(value);
    }
    slate.candidates.push_back(item);
  }
  return {};
}

}  // namespace

base::Result<Slate> slate_from_json(const ModelConfig& config, std::string_view line) {
  boost::system::error_code error;
  const json::value value = json::parse(json::string_view(line.data(), line.size()), error);
  if (error) return fail(ErrorCode::kDecode, "not JSON: {}", error.message());
  const json::object* object = value.if_object();
  if (object == nullptr) return fail(ErrorCode::kDecode, "not a JSON object");
  Slate slate;
  SF_ASSIGN(slate.time_ms, parse_time(*object, ""));
  SF_ASSIGN(slate.segment, parse_id(*object, "segment", ""));
  SF_ASSIGN(slate.user, parse_id(*object, "user", ""));
  SF_ASSIGN(slate.surface, parse_id(*object, "surface", ""));
  SF_ASSIGN(const json::array* history, parse_list(*object, "history", ""));
  SF_TRY(parse_history(config, *history, slate));
  SF_ASSIGN(const json::array* candidates, parse_list(*object, "candidates", ""));
  if (candidates->empty()) return fail(ErrorCode::kDecode, "candidates is missing or empty");
  SF_TRY(parse_candidates(config, *candidates, slate));
  return slate;
}

std::string logits_to_json(std::span<const float> logits, std::size_t n_tasks) {
  std::string text = "{\"logits\":[";
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (i % n_tasks == 0) text += i == 0 ? "[" : "],[";
    fmt::format_to(std::back_inserter(text), "{}{:.9g}", i % n_tasks == 0 ? "" : ",",
                   static_cast<double>(logits[i]));
  }
  text += logits.empty() ? "]}" : "]]}";
  return text;
}

}  // namespace sirenfeed::model
