// Any bytes as a dead letter: what is read can be written and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "ingest/dead_letter.h"

using namespace sirenfeed::ingest;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto letter =
      parse_dead_letter(std::string_view(reinterpret_cast<const char*>(data), size));
  if (!letter) return 0;
  const auto again = parse_dead_letter(dead_letter_json(*letter));
  SF_CHECK(again.has_value());
  SF_CHECK(again->payload == letter->payload && again->hash == letter->hash);
  SF_CHECK(again->offset == letter->offset && again->source == letter->source);
  return 0;
}
