#include "ingest/dead_letter.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <boost/json.hpp>
#include <charconv>
#include <system_error>
#include <utility>

#include "ingest/base64.h"
#include "ingest/event_json.h"

namespace sirenfeed::ingest {
namespace {

namespace json = boost::json;
using base::ErrorCode;

/// Cuts at the limit, and where that is within a character of UTF-8, before it.
std::string beginning_of(std::string_view payload) {
  if (payload.size() <= kDeadLetterPayloadMax) return std::string(payload);
  const std::string_view cut = payload.substr(0, kDeadLetterPayloadMax);
  for (std::size_t less = 1; less <= 3; ++less) {
    const auto lead = static_cast<unsigned char>(cut[cut.size() - less]);
    if ((lead & 0xC0U) == 0x80U) continue;
    const std::string_view whole = cut.substr(0, cut.size() - less);
    const bool splits = lead >= 0xC0U && !simdjson::validate_utf8(cut.data(), cut.size());
    if (splits && simdjson::validate_utf8(whole.data(), whole.size())) return std::string(whole);
    break;
  }
  return std::string(cut);
}

/// Reads members one by one; the first that is missing or wrong is remembered.
class Members {
 public:
  explicit Members(const json::object& object) : object_(object) {}

  std::string_view text(std::string_view name) {
    const json::value* value = object_.if_contains(name);
    if (value != nullptr && value->is_string()) return value->get_string();
    fault(name, "a string");
    return {};
  }
  template <class Integer>
  Integer integer(std::string_view name) {
    const json::value* value = object_.if_contains(name);
    boost::system::error_code error;
    const auto number = value == nullptr ? Integer{} : value->to_number<Integer>(error);
    if (value == nullptr || error) fault(name, "an integer");
    return number;
  }
  void fault(std::string_view name, std::string_view expected) {
    if (fault_.empty()) fault_ = fmt::format("{}: expected {}", name, expected);
  }
  [[nodiscard]] const std::string& first_fault() const { return fault_; }

 private:
  const json::object& object_;
  std::string fault_;
};

void read_payload(const json::object& object, Members& members, DeadLetter& letter) {
  if (!object.contains("payload_base64")) {
    letter.payload = members.text("payload");
    return;
  }
  auto bytes = base64_decode(members.text("payload_base64"));
  if (!bytes) members.fault("payload_base64", "base64");
  letter.payload = std::move(bytes).value_or("");
}

}  // namespace

DeadLetter dead_letter_of(const InputRecord& record, const Rejection& rejection) {
  DeadLetter letter;
  letter.source = record.source;
  letter.offset = record.offset;
  letter.log_time_ms = record.log_time_ms;
  letter.rejection = rejection;
  letter.hash = record.hash;
  letter.payload_bytes = record.payload.size();
  letter.payload = beginning_of(record.payload);
  return letter;
}

std::string dead_letter_json(const DeadLetter& letter) {
  std::string out = fmt::format(
      R"({{"topic":"{}","partition":{},"offset":{},"log_time":{},"reason":"{}","detail":)",
      topic_name(letter.source.topic), letter.source.partition, letter.offset, letter.log_time_ms,
      reject_reason_name(letter.rejection.reason));
  append_json_string(letter.rejection.detail, out);
  out += fmt::format(R"(,"hash":"{:016x}","payload_bytes":{},)", letter.hash, letter.payload_bytes);
  if (simdjson::validate_utf8(letter.payload)) {
    out += R"("payload":)";
    append_json_string(letter.payload, out);
  } else {
    out += R"("payload_base64":")";
    out += base64_encode(letter.payload);
    out += '"';
  }
  out += '}';
  return out;
}

base::Result<DeadLetter> parse_dead_letter(std::string_view text) {
  boost::system::error_code error;
  const json::value root = json::parse(json::string_view(text.data(), text.size()), error);
  if (error || !root.is_object()) {
    return base::fail(ErrorCode::kDecode, "dead letter: expected a JSON object");
  }
  Members members(root.get_object());
  DeadLetter letter;
  const auto topic = topic_from_name(members.text("topic"));
  if (topic) {
    letter.source.topic = *topic;
  } else {
    members.fault("topic", "the name of a topic");
  }
  letter.source.partition = members.integer<Partition>("partition");
  letter.offset = members.integer<Offset>("offset");
  letter.log_time_ms = members.integer<base::UnixMs>("log_time");
  const auto reason = reject_reason_from_name(members.text("reason"));
  if (reason) {
    letter.rejection.reason = *reason;
  } else {
    members.fault("reason", "the name of a reason");
  }
  letter.rejection.detail = members.text("detail");
  const std::string_view hash = members.text("hash");
  const auto [end, bad] = std::from_chars(hash.data(), hash.data() + hash.size(), letter.hash, 16);
  if (bad != std::errc() || hash.size() != 16 || end != hash.data() + hash.size()) {
    members.fault("hash", "16 hex digits");
  }
  letter.payload_bytes = members.integer<std::uint64_t>("payload_bytes");
  read_payload(root.get_object(), members, letter);
  if (members.first_fault().empty()) return letter;
  return base::fail(ErrorCode::kDecode, "dead letter: {}", members.first_fault());
}

std::optional<RejectReason> reject_reason_from_name(std::string_view name) noexcept {
  for (auto i = 0U; i <= static_cast<unsigned>(RejectReason::kUndecodable); ++i) {
    const auto reason = static_cast<RejectReason>(i);
    if (reject_reason_name(reason) == name) return reason;
  }
  return std::nullopt;
}

}  // namespace sirenfeed::ingest
