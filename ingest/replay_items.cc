#include "ingest/replay_items.h"

#include <simdjson.h>

#include <algorithm>
#include <utility>

#include "ingest/replay_time.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;

base::Result<std::string_view> text_of(const RowSource& rows, int column, std::string_view name) {
  if (column < 0) return std::string_view();
  const std::string_view text = rows.field(static_cast<std::size_t>(column));
  if (!simdjson::validate_utf8(text.data(), text.size())) {
    return rows.bad_field(name, "UTF-8", text);
  }
  return text;
}

base::Result<ItemUpdate> read_item(const RowSource& rows, const ItemTable::Columns& columns) {
  ItemUpdate item;
  SF_ASSIGN(const std::string_view id, text_of(rows, columns.id, "item"));
  if (id.empty()) return rows.bad_field("item", "an id", id);
  item.item_id = id;
  SF_ASSIGN(const std::string_view author, text_of(rows, columns.author, "author"));
  if (!author.empty()) item.author_id.emplace(author);
  SF_ASSIGN(const std::string_view title, text_of(rows, columns.title, "title"));
  if (!title.empty()) item.title.emplace(title);
  SF_ASSIGN(const std::string_view url, text_of(rows, columns.url, "url"));
  if (!url.empty()) item.url.emplace(url);
  SF_ASSIGN(const std::string_view published, text_of(rows, columns.published, "published"));
  if (!published.empty()) {
    item.published_at_ms = parse_replay_time(published);
    if (!item.published_at_ms) return rows.bad_field("published", kReplayTimes, published);
  }
  for (const int column : columns.tags) {
    SF_ASSIGN(const std::string_view tags, text_of(rows, column, "tags"));
    append_tags(tags, columns.tag_separators, item.tags);
  }
  return item;
}

}  // namespace

base::Result<ItemTable> ItemTable::read(RowSource& rows, const Columns& columns) {
  ItemTable table;
  while (true) {
    SF_ASSIGN(const bool more, rows.next());
    if (!more) return table;
    SF_ASSIGN(ItemUpdate item, read_item(rows, columns));
    if (table.items_.size() == kItemRowsMax) {
      return base::fail(ErrorCode::kTooLarge, "{}:{}: expected at most {} items",
                        rows.input().name(), rows.line(), kItemRowsMax);
    }
    std::string id = item.item_id;
    table.items_.insert_or_assign(std::move(id), std::move(item));
  }
}

const ItemUpdate* ItemTable::find(std::string_view item_id) const {
  const auto found = items_.find(std::string(item_id));
  return found == items_.end() ? nullptr : &found->second;
}

void append_tags(std::string_view text, std::string_view separators,
                 std::vector<std::string>& tags) {
  if (text == "(no genres listed)") return;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(separators);
    const std::string_view tag = text.substr(0, end);
    if (!tag.empty() && std::find(tags.begin(), tags.end(), tag) == tags.end()) {
      tags.emplace_back(tag);
    }
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
}

}  // namespace sirenfeed::ingest
