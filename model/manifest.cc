#include "model/manifest.h"

#include <boost/json.hpp>
#include <charconv>

namespace sirenfeed::model {
namespace {

namespace json = boost::json;
using base::ErrorCode;
using base::fail;

std::string hex(std::uint64_t hash) { return fmt::format("{:016x}", hash); }

/// Reads fields; the first one that is missing or malformed is kept.
class Fields {
 public:
  explicit Fields(const json::object& object) : object_(object) {}

  template <class T>
  void number(const char* key, T& out) {
    const json::value* value = find(key);
    if (value == nullptr) return;
    boost::system::error_code error;
    out = value->to_number<T>(error);
    if (error) refuse(key);
  }
  void hash(const char* key, std::uint64_t& out) {
    const json::value* value = find(key);
    if (value == nullptr) return;
    if (!value->is_string()) return refuse(key);
    const std::string_view digits(value->get_string());
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), out, 16);
    if (error != std::errc{} || end != digits.data() + digits.size()) refuse(key);
  }
  void file(StoredFile& out) {
    number("bytes", out.bytes);
    hash("xxh3_64", out.xxh3);
  }
  const json::value* find(const char* key) {
    const json::value* value = object_.if_contains(key);
    if (value == nullptr) refuse(key);
    return value;
  }
  void refuse(const char* key) {
    if (fault_.empty()) fault_ = key;
  }
  void refuse_from(const Fields& inner) {
    if (!inner.fault_.empty()) refuse(inner.fault_.c_str());
  }
  [[nodiscard]] const std::string& fault() const { return fault_; }

 private:
  const json::object& object_;
  std::string fault_;
};

void read_delta(const json::value& value, Fields& fields, Manifest& manifest) {
  const json::object* object = value.if_object();
  if (object == nullptr) return fields.refuse("delta");
  Fields inner(*object);
  StoredDelta delta;
  inner.number("base", delta.base);
  inner.hash("base_xxh3_64", delta.base_identity);
  inner.file(delta.file);
  fields.refuse_from(inner);
  manifest.delta = delta;
}

void read_optional(const json::object& object, Fields& fields, Manifest& manifest) {
  // A version without a delta is a full file, as every version was once.
  const json::value* delta = object.if_contains("delta");
  if (delta != nullptr) read_delta(*delta, fields, manifest);
  if (delta == nullptr || object.contains("xxh3_64")) {
    fields.file(manifest.full.emplace());
  }
  if (object.contains("first_arrival_ms")) {
    fields.number("first_arrival_ms", manifest.arrivals.first_ms);
    fields.number("last_arrival_ms", manifest.arrivals.last_ms);
  }
  if (const json::value* metrics = object.if_contains("metrics")) {
    manifest.metrics_json = json::serialize(*metrics);
  }
}

}  // namespace

std::string manifest_to_json(const Manifest& manifest) {
  json::object object;
  object["version"] = manifest.version;
  object["created_ms"] = manifest.created_ms;
  object["variant"] = manifest.variant;
  if (manifest.full) {
    object["bytes"] = manifest.full->bytes;
    object["xxh3_64"] = hex(manifest.full->xxh3);
  }
  if (manifest.delta) {
    const StoredDelta& delta = *manifest.delta;
    object["delta"] = {{"base", delta.base},
                       {"base_xxh3_64", hex(delta.base_identity)},
                       {"bytes", delta.file.bytes},
                       {"xxh3_64", hex(delta.file.xxh3)}};
  }
  object["canary_logits"] = json::value_from(manifest.canary_logits);
  if (manifest.arrivals.first_ms > 0) {
    object["first_arrival_ms"] = manifest.arrivals.first_ms;
    object["last_arrival_ms"] = manifest.arrivals.last_ms;
  }
  boost::system::error_code error;
  json::value metrics = json::parse(manifest.metrics_json, error);
  object["metrics"] = error ? json::value(json::object{}) : std::move(metrics);
  return json::serialize(object) + "\n";
}

base::Result<Manifest> manifest_from_json(const std::string& path, std::string_view text) {
  boost::system::error_code error;
  const json::value value = json::parse(json::string_view(text.data(), text.size()), error);
  const json::object* object = error ? nullptr : value.if_object();
  if (object == nullptr) return fail(ErrorCode::kCorrupt, "{}: not a JSON object", path);
  Manifest manifest;
  Fields fields(*object);
  fields.number("version", manifest.version);
  fields.number("created_ms", manifest.created_ms);
  if (const json::value* variant = fields.find("variant")) {
    if (variant->is_string()) manifest.variant = std::string_view(variant->get_string());
    if (!variant->is_string()) fields.refuse("variant");
  }
  if (const json::value* canary = fields.find("canary_logits")) {
    if (!canary->is_array()) {
      fields.refuse("canary_logits");
    } else {
      for (const json::value& logit : canary->get_array()) {
        boost::system::error_code failed;
        manifest.canary_logits.push_back(logit.to_number<double>(failed));
        if (failed) fields.refuse("canary_logits");
      }
    }
  }
  read_optional(*object, fields, manifest);
  if (!fields.fault().empty()) {
    return fail(ErrorCode::kCorrupt, "{}: '{}' is missing or malformed", path, fields.fault());
  }
  return manifest;
}

}  // namespace sirenfeed::model
