// JSON lines as rows.
#include <simdjson.h>

#include <utility>

#include "ingest/replay_rows.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using Json = simdjson::dom::element;
using Type = simdjson::dom::element_type;

/// False where `value` has no text of its own.
bool append_text(Json value, std::string& out) {
  switch (value.type()) {
    case Type::STRING:
      out += std::string_view(value.get_string().value_unsafe());
      return true;
    case Type::INT64:
      fmt::format_to(std::back_inserter(out), "{}", value.get_int64().value_unsafe());
      return true;
    case Type::UINT64:
      fmt::format_to(std::back_inserter(out), "{}", value.get_uint64().value_unsafe());
      return true;
    case Type::DOUBLE:
      fmt::format_to(std::back_inserter(out), "{}", value.get_double().value_unsafe());
      return true;
    case Type::BOOL:
      out += value.get_bool().value_unsafe() ? '1' : '0';
      return true;
    case Type::NULL_VALUE:
      return true;
    default:
      return false;
  }
}

bool append_parts(Json value, std::string& out) {
  if (value.type() != Type::ARRAY) return append_text(value, out);
  bool first = true;
  const simdjson::dom::array parts = value.get_array().value_unsafe();
  for (const Json part : parts) {
    if (!std::exchange(first, false)) out += '|';
    if (!append_text(part, out)) return false;
  }
  return true;
}

class JsonRows final : public RowSource {
 public:
  JsonRows(ReplayInput input, std::size_t line_bytes_max, std::vector<RowColumn> columns)
      : lines_(std::move(input), line_bytes_max),
        columns_(std::move(columns)),
        texts_(columns_.size()) {
    fields_.resize(columns_.size());
  }

  base::Result<bool> next() override {
    while (true) {
      SF_ASSIGN(const auto line, lines_.next());
      if (!line) return false;
      std::string_view text = *line;
      if (lines_.number() == 1 && text.starts_with("\xEF\xBB\xBF")) text.remove_prefix(3);
      if (text.find_first_not_of(" \t") == std::string_view::npos) continue;
      SF_TRY(read(text));
      return true;
    }
  }
  bool has(std::size_t /*i*/) const override { return true; }
  std::uint64_t line() const override { return lines_.number(); }
  const ReplayInput& input() const override { return lines_.input(); }

 private:
  base::Result<void> read(std::string_view text) {
    Json root;
    auto error = parser_.parse(text.data(), text.size()).get(root);
    simdjson::dom::object object;
    if (!error) error = root.get_object().get(object);
    if (error) {
      return base::fail(ErrorCode::kDecode, "{}:{}: expected one JSON object a line: {}",
                        input().name(), line(), simdjson::error_message(error));
    }
    for (std::size_t i = 0; i < columns_.size(); ++i) {
      const std::string& name = columns_[i].name;
      std::string& out = texts_[i];
      out.clear();
      Json value;
      if (!name.empty()) {
        const auto found = name[0] == '/' ? object.at_pointer(name) : object.at_key(name);
        if (found.get(value) == simdjson::SUCCESS && !append_parts(value, out)) {
          return bad_field(name, "a text, number, flag or list of them", simdjson::minify(value));
        }
        if (out.find('\0') != std::string::npos) {
          return bad_field(name, "text without a NUL character", simdjson::minify(value));
        }
      }
      fields_[i] = out;
    }
    return {};
  }

  ReplayLines lines_;
  const std::vector<RowColumn> columns_;
  std::vector<std::string> texts_;
  simdjson::dom::parser parser_;
};

}  // namespace

base::Result<std::unique_ptr<RowSource>> open_jsonl(ReplayInput input, std::size_t line_bytes_max,
                                                    std::vector<RowColumn> columns) {
  return std::make_unique<JsonRows>(std::move(input), line_bytes_max, std::move(columns));
}

}  // namespace sirenfeed::ingest
