// Any bytes as an example: the decoder refuses them or gives columns that fit each other.
#include <example.pb.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/check.h"
#include "features/example_format/context_schema.h"
#include "trainer/example_decoder.h"

using namespace sirenfeed;
using namespace sirenfeed::trainer;

namespace {

void check_example(const DecodedExample& decoded, const ExampleSchema& schema) {
  const model::Slate& slate = decoded.slate;
  const std::size_t candidates = slate.candidates.size();
  if (decoded.erased) {  // identity and order alone
    SF_CHECK(candidates == 0 && slate.history.empty() && decoded.labels.label.empty());
    return;
  }
  SF_CHECK(candidates > 0 && decoded.item_ids.size() == candidates);
  SF_CHECK(slate.context.size() == candidates * schema.context_names.size());
  SF_CHECK(decoded.labels.label.size() == candidates * schema.tasks.size());
  SF_CHECK(decoded.labels.weight.size() == decoded.labels.label.size());
  for (const float c : slate.context) SF_CHECK(std::isfinite(c));
  for (const float weight : decoded.labels.weight) SF_CHECK(std::isfinite(weight) && weight >= 0);
  for (const model::HistoryToken& token : slate.history) {
    SF_CHECK(token.item.tags_begin <= token.item.tags_end &&
             token.item.tags_end <= slate.tags.size());
  }
  for (const model::ItemRef& item : slate.candidates) {
    SF_CHECK(item.tags_begin <= item.tags_end && item.tags_end <= slate.tags.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ExampleSchema schema = {{"c0", "c1"}, {"click", "like"}, {"click", "like"}};
  static const ExampleDecoder decoder(schema);
  if (size == 0) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const auto decoded = decoder.decode_bytes(bytes);
  if (decoded) check_example(*decoded, schema);
  // Three hashes stand before everything else: with an odd first byte they are made to fit.
  features::Example example;
  if (data[0] % 2 == 0 || !example.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return 0;
  }
  example.set_version(1);
  example.set_context_schema(features::schema_hash(schema.context_names));
  example.set_action_schema(features::schema_hash(schema.actions));
  example.set_task_schema(features::schema_hash(schema.tasks));
  const auto fitting = decoder.decode(example);
  if (fitting) check_example(*fitting, schema);
  return 0;
}
