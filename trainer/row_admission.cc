#include "trainer/row_admission.h"

#include <algorithm>

namespace sirenfeed::trainer {

namespace {

using model::TableId;

constexpr std::size_t kCells = std::size_t{1} << 20U;

std::size_t number(TableId id) { return static_cast<std::size_t>(id); }

// One sketch for all tables: a tag's key in two of them is two keys.
std::uint64_t in_table(std::size_t table, model::Key key) {
  return key ^ (static_cast<std::uint64_t>(table) * 0x9E3779B97F4A7C15ULL);
}

}  // namespace

RowAdmission::RowAdmission(std::uint32_t examples_min, const model::ModelConfig& config)
    : examples_min_(examples_min),
      sketch_(examples_min > 1 ? kCells : 0, config.seed),
      seen_(model::kTableCount) {}

bool RowAdmission::admits(std::size_t table, model::Key key) const {
  return examples_min_ <= 1 || sketch_.estimate(in_table(table, key)) >= examples_min_;
}

void RowAdmission::count(const model::Model& model, std::span<const DecodedExample* const> batch) {
  if (examples_min_ <= 1) return;
  for (const DecodedExample* example : batch) {
    // A correction is an example that was seen before.
    if (!example->labels.correction) count(model, example->slate);
  }
}

void RowAdmission::add_item(const model::Slate& slate, const model::ItemRef& item) {
  if (item.item != model::kNoKey) seen_[number(TableId::kItem)].push_back(item.item);
  seen_[number(TableId::kAuthor)].push_back(item.author);
  if (item.author != model::kNoKey) {
    seen_[number(TableId::kSemanticAuthor)].push_back(item.author);
  }
  const std::span<const model::Key> tags = slate.tags_of(item);
  if (tags.empty()) seen_[number(TableId::kTag)].push_back(model::kNoKey);
  for (const model::Key tag : tags) {
    seen_[number(TableId::kTag)].push_back(tag);
    if (tag != model::kNoKey) seen_[number(TableId::kSemanticTag)].push_back(tag);
  }
}

void RowAdmission::add_surface(model::Key surface) {
  if (surface == model::kNoKey) return;
  seen_[number(TableId::kSemanticSurface)].push_back(surface);
}

void RowAdmission::count(const model::Model& model, const model::Slate& slate) {
  for (std::vector<model::Key>& keys : seen_) keys.clear();
  const model::HistoryWindow window = model::history_window(model.config, slate);
  for (std::size_t i = window.begin; i < slate.history.size(); ++i) {
    if (!model::is_history_token(model.config, slate.history[i])) continue;
    add_item(slate, slate.history[i].item);
    add_surface(slate.history[i].surface);
  }
  for (const model::ItemRef& candidate : slate.candidates) add_item(slate, candidate);
  add_surface(slate.surface);
  if (slate.segment != model::kNoKey) {
    seen_[number(TableId::kSemanticSegment)].push_back(slate.segment);
  }
  for (std::size_t t = 0; t < model::kTableCount; ++t) {
    if (model.tables[t].width() == 0) continue;
    std::vector<model::Key>& keys = seen_[t];
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    for (const model::Key key : keys) {
      if (model.tables[t].index_of(key) == model::kNoRow) sketch_.add(in_table(t, key));
    }
  }
}

}  // namespace sirenfeed::trainer
