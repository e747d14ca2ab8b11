#include "trainer/example_decoder.h"

#include <example.pb.h>

#include <cmath>
#include <limits>

#include "base/hash.h"
#include "features/example_format/context_schema.h"

namespace sirenfeed::trainer {

namespace {

constexpr std::int64_t kTimeMaxMs = 253'402'300'799'999;  // the last of the year 9999
constexpr std::int64_t kTimeNone = std::numeric_limits<std::int64_t>::min();  // has no |·|

using base::ErrorCode;
using base::fail;

model::Key key_of(const std::string& id) { return id.empty() ? model::kNoKey : base::xxh3_64(id); }

std::uint32_t append_tags(const google::protobuf::RepeatedField<std::uint64_t>& from, int begin,
                          int end, std::vector<model::Key>& tags) {
  tags.insert(tags.end(), from.begin() + begin, from.begin() + end);
  return static_cast<std::uint32_t>(tags.size());
}

base::Result<void> decode_history(const features::HistoryColumns& history, model::Slate& slate) {
  const int n = history.item_size();
  if (history.author_size() != n || history.time_delta_ms_size() != n ||
      history.action_bits_size() != n || history.tag_count_size() != n) {
    return fail(ErrorCode::kDecode,
                "history columns have {} items, {} authors, {} times, {} actions, {} tag counts, "
                "expected equal lengths",
                n, history.author_size(), history.time_delta_ms_size(), history.action_bits_size(),
                history.tag_count_size());
  }
  if (history.surface_size() != 0 && history.surface_size() != n) {
    return fail(ErrorCode::kDecode, "history has {} surfaces, expected none or {}",
                history.surface_size(), n);
  }
  slate.history.resize(static_cast<std::size_t>(n));
  std::uint64_t time = 0;  // unsigned: a damaged delta may overflow
  int tag = 0;
  for (int i = 0; i < n; ++i) {
    model::HistoryToken& token = slate.history[static_cast<std::size_t>(i)];
    const std::uint32_t tag_count = history.tag_count(i);
    if (tag_count > static_cast<std::uint32_t>(history.tags_size() - tag)) {
      return fail(ErrorCode::kDecode, "history token {} counts {} tags, only {} are left", i,
                  tag_count, history.tags_size() - tag);
    }
    time += static_cast<std::uint64_t>(history.time_delta_ms(i));
    token.time_ms = static_cast<std::int64_t>(time);
    token.action_bits = history.action_bits(i);
    token.item.item = history.item(i);
    token.item.author = history.author(i);
    token.item.tags_begin = static_cast<std::uint32_t>(slate.tags.size());
    token.item.tags_end =
        append_tags(history.tags(), tag, tag + static_cast<int>(tag_count), slate.tags);
    tag += static_cast<int>(tag_count);
    const std::uint32_t surface = history.surface_size() == 0 ? 0 : history.surface(i);
    if (surface > static_cast<std::uint32_t>(history.surfaces_size())) {
      return fail(ErrorCode::kDecode, "history token {} was shown on surface {} of {}", i, surface,
                  history.surfaces_size());
    }
    if (surface > 0) token.surface = history.surfaces(static_cast<int>(surface) - 1);
  }
  return {};
}

base::Result<void> decode_cells(const features::Candidate& candidate, std::size_t tasks,
                                std::uint32_t revision, model::SlateLabels& labels) {
  const int weights = candidate.weight_size();
  if (weights != 0 && static_cast<std::size_t>(weights) != tasks) {
    return fail(ErrorCode::kDecode, "candidate has {} weights, expected none or {}", weights,
                tasks);
  }
  for (std::size_t k = 0; k < tasks; ++k) {
    const float weight = weights == 0 ? 1.0F : candidate.weight(static_cast<int>(k));
    if (!std::isfinite(weight) || weight < 0) {
      return fail(ErrorCode::kDecode, "candidate has weight {} for task {}, expected at least 0",
                  weight, k);
    }
    const bool label = (candidate.label_bits() >> k & 1U) != 0;
    const bool unmasked = (candidate.mask_bits() >> k & 1U) != 0;
    if (revision > 0 && unmasked && !label) {
      return fail(ErrorCode::kDecode,
                  "revision {} takes the label of task {} back, which no late "
                  "action can",
                  revision, k);
    }
    labels.label.push_back(label ? 1.0F : 0.0F);
    labels.weight.push_back(unmasked ? weight : 0.0F);
  }
  return {};
}

base::Result<void> decode_candidate(const features::Candidate& candidate, std::size_t contexts,
                                    DecodedExample& to) {
  if (static_cast<std::size_t>(candidate.context_size()) != contexts) {
    return fail(ErrorCode::kDecode, "candidate has {} context features, expected {}",
                candidate.context_size(), contexts);
  }
  for (const float c : candidate.context()) {
    if (!std::isfinite(c)) {
      return fail(ErrorCode::kDecode, "candidate {} has a context feature that is not finite",
                  candidate.item_id());
    }
  }
  model::Slate& slate = to.slate;
  model::ItemRef& item = slate.candidates.emplace_back();
  item.item = candidate.item();
  item.author = candidate.author();
  item.tags_begin = static_cast<std::uint32_t>(slate.tags.size());
  item.tags_end = append_tags(candidate.tags(), 0, candidate.tags_size(), slate.tags);
  slate.context.insert(slate.context.end(), candidate.context().begin(), candidate.context().end());
  to.item_ids.push_back(candidate.item_id());
  return {};
}

base::Result<void> check_schema(const char* what, std::uint64_t got, std::uint64_t expected) {
  if (got == expected) return {};
  return fail(ErrorCode::kInvalidArgument,
              "the example was made for other {} ({:016x}) than this model has ({:016x}): use the "
              "configuration that serve uses, or train a new model",
              what, got, expected);
}

}  // namespace

ExampleSchema schema_of(const model::ModelConfig& config) {
  return {.context_names = config.context_row_names(),
          .actions = config.actions,
          .tasks = config.tasks};
}

ExampleDecoder::ExampleDecoder(const ExampleSchema& schema)
    : context_schema_(features::schema_hash(schema.context_names)),
      action_schema_(features::schema_hash(schema.actions)),
      task_schema_(features::schema_hash(schema.tasks)),
      contexts_(schema.context_names.size()),
      tasks_(schema.tasks.size()) {}

base::Result<DecodedExample> ExampleDecoder::decode_bytes(std::string_view bytes) const {
  features::Example example;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !example.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return fail(ErrorCode::kDecode, "{} bytes are no example", bytes.size());
  }
  return decode(example);
}

base::Result<DecodedExample> ExampleDecoder::decode(const features::Example& example) const {
  if (example.version() == 0) return fail(ErrorCode::kDecode, "example without a version");
  if (example.version() > kExampleVersion) {
    return fail(ErrorCode::kInvalidArgument,
                "the example has format version {}, this trainer knows up to {}: update it first",
                example.version(), kExampleVersion);
  }
  DecodedExample decoded;
  decoded.identity = {.impression_partition = example.impression_partition(),
                      .impression_offset = example.impression_offset(),
                      .part = example.part(),
                      .revision = example.revision()};
  decoded.partition = example.partition();
  decoded.epoch = example.epoch();
  decoded.sequence = example.sequence();
  decoded.erased = example.erased();
  if (decoded.erased) return decoded;
  SF_TRY(check_schema("context features", example.context_schema(), context_schema_));
  SF_TRY(check_schema("actions", example.action_schema(), action_schema_));
  SF_TRY(check_schema("tasks", example.task_schema(), task_schema_));

  // T_ref and the expiry of rows follow the newest time learned and never go back.
  for (const std::int64_t time : {example.time_ms(), example.served_ms()}) {
    if (time != kTimeNone && std::abs(time) <= kTimeMaxMs) continue;
    return fail(ErrorCode::kDecode, "example has the time {}, expected one before the year 10000",
                time);
  }

  decoded.user_id = example.user_id();
  decoded.closed_ms = example.closed_ms();
  decoded.slate.time_ms = example.served_ms() != 0 ? example.served_ms() : example.time_ms();
  decoded.labels.correction = example.revision() > 0;
  decoded.labels.fake_negatives = example.fake_negative();
  decoded.slate.segment = example.segment();
  decoded.slate.user = key_of(example.user_id());
  if (!example.surface().empty()) decoded.slate.surface = base::xxh3_64(example.surface());
  decoded.slate.tags.reserve(static_cast<std::size_t>(example.history().tags_size()) + 8);
  SF_TRY(decode_history(example.history(), decoded.slate));
  if (example.candidates_size() == 0) return fail(ErrorCode::kDecode, "example has no candidate");
  for (const features::Candidate& candidate : example.candidates()) {
    SF_TRY(decode_candidate(candidate, contexts_, decoded));
    SF_TRY(decode_cells(candidate, tasks_, example.revision(), decoded.labels));
  }
  return decoded;
}

}  // namespace sirenfeed::trainer
