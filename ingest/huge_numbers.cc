#include "ingest/huge_numbers.h"

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <system_error>

namespace sirenfeed::ingest {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::size_t skip_digits(std::string_view text, std::size_t at) {
  while (at < text.size() && is_digit(text[at])) ++at;
  return at;
}

enum class Number { kNone, kInteger, kFraction };

/// What JSON's grammar calls `token`.
Number classify(std::string_view token) {
  std::size_t at = token.starts_with('-') ? 1 : 0;
  const std::size_t whole = skip_digits(token, at);
  if (whole == at || (token[at] == '0' && whole > at + 1)) return Number::kNone;
  at = whole;
  Number kind = Number::kInteger;
  if (at < token.size() && token[at] == '.') {
    kind = Number::kFraction;
    const std::size_t end = skip_digits(token, at + 1);
    if (end == at + 1) return Number::kNone;
    at = end;
  }
  if (at < token.size() && (token[at] == 'e' || token[at] == 'E')) {
    kind = Number::kFraction;
    ++at;
    if (at < token.size() && (token[at] == '+' || token[at] == '-')) ++at;
    const std::size_t end = skip_digits(token, at);
    if (end == at) return Number::kNone;
    at = end;
  }
  return at == token.size() ? kind : Number::kNone;
}

template <class T>
bool out_of_range(std::string_view token) {
  T value{};
  return std::from_chars(token.data(), token.data() + token.size(), value).ec ==
         std::errc::result_out_of_range;
}

bool too_large(std::string_view token, Number kind) {
  if (kind == Number::kFraction) return out_of_range<double>(token);
  return token.starts_with('-') ? out_of_range<std::int64_t>(token)
                                : out_of_range<std::uint64_t>(token);
}

std::size_t end_of_string(std::string_view json, std::size_t at) {
  for (++at; at < json.size(); ++at) {
    if (json[at] == '\\') {
      ++at;
    } else if (json[at] == '"') {
      return at + 1;
    }
  }
  return json.size();
}

}  // namespace

std::optional<std::string> quote_huge_numbers(std::string_view json) {
  std::string out;
  bool changed = false;
  std::size_t at = 0;
  while (at < json.size()) {
    const std::size_t begin = at;
    if (json[at] == '"') {
      at = end_of_string(json, at);
      out += json.substr(begin, at - begin);
      continue;
    }
    if (json[at] != '-' && !is_digit(json[at])) {
      out += json[at++];
      continue;
    }
    const std::size_t end = json.find_first_not_of("0123456789+-.eE", at);
    at = end == std::string_view::npos ? json.size() : end;
    const std::string_view token = json.substr(begin, at - begin);
    const Number kind = classify(token);
    if (kind == Number::kNone || !too_large(token, kind)) {
      out += token;
      continue;
    }
    changed = true;
    out += kind == Number::kInteger ? "\"" : "[\"";
    out += token;
    out += kind == Number::kInteger ? "\"" : "\"]";
  }
  if (!changed) return std::nullopt;
  return out;
}

}  // namespace sirenfeed::ingest
