#pragma once
#include <optional>
#include <string>
#include <string_view>

namespace sirenfeed::ingest {

/// RFC 4648 with padding.
[[nodiscard]] std::string base64_encode(std::string_view bytes);
/// nullopt: not base64.
[[nodiscard]] std::optional<std::string> base64_decode(std::string_view text);

}  // namespace sirenfeed::ingest
