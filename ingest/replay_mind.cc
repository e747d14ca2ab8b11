// Format `mind`: behaviors.tsv and news.tsv of the MIND news data set, by the convention in
// replay_reader.h.
#include <utility>

#include "ingest/replay_formats.h"
#include "ingest/replay_sorted.h"

namespace sirenfeed::ingest {
namespace {

// behaviors.tsv: impression id, user, time, history, impressions
constexpr std::size_t kBehaviorColumns = 5;
constexpr std::size_t kUser = 1, kTime = 2, kImpressions = 4;
// news.tsv: id, category, subcategory, title, abstract, url, entities of title and of abstract
constexpr std::size_t kNewsColumns = 8;

/// Takes the next of the items that spaces separate, e.g. "N55528-1"; false at the end.
bool take_shown(std::string_view& rest, std::string_view& shown) {
  const std::size_t begin = rest.find_first_not_of(' ');
  if (begin == std::string_view::npos) return false;
  rest.remove_prefix(begin);
  shown = rest.substr(0, rest.find(' '));
  rest.remove_prefix(shown.size());
  return true;
}

class MindReader final : public SortedReader {
 public:
  using SortedReader::SortedReader;

 private:
  base::Result<PackedRow> check_row() override {
    PackedRow row;
    SF_TRY(check_id(kUser, "user"));
    SF_ASSIGN(row.time_ms, check_time(kTime, "time"));
    SF_TRY(check_text(kImpressions, "impressions"));
    std::string_view rest = rows().field(kImpressions);
    std::string_view shown;
    std::size_t items = 0;
    for (; take_shown(rest, shown); ++items) {
      if (shown.size() < 3 || !(shown.ends_with("-0") || shown.ends_with("-1"))) {
        return rows().bad_field("impressions", "items as ID-0 or ID-1 (the test set has no labels)",
                                shown);
      }
    }
    if (items == 0) return rows().bad_field("impressions", "at least one item", "");
    const std::string_view fields[] = {rows().field(kUser), rows().field(kImpressions)};
    row.packed = pack_fields(fields);
    return row;
  }

  void hand_out(std::span<const SortedRow> sorted) override {
    for (const SortedRow& row : sorted) {
      unpack_fields(row.packed, fields_);
      Impression shown;
      shown.impression_id = fmt::format("{}:{}", file(), row.row);
      shown.user_id = fields_[0];
      shown.time_ms = row.time_ms;
      std::vector<Action> clicks;
      std::string_view rest = fields_[1];
      std::string_view entry;
      for (std::size_t at = 0; take_shown(rest, entry); ++at) {
        const std::string_view item = entry.substr(0, entry.size() - 2);
        push_item(item, row.time_ms, nullptr);
        shown.items.emplace_back().item_id = item;
        if (!entry.ends_with('1')) continue;
        Action& click = clicks.emplace_back();
        click.user_id = shown.user_id;
        click.item_id = item;
        click.time_ms = row.time_ms + options().click_delay_ms;
        click.type = "click";
        click.impression_id = shown.impression_id;
        click.event_id = fmt::format("{}:{}:click", shown.impression_id, at);
      }
      push(std::move(shown));
      for (Action& click : clicks) push(std::move(click));
    }
  }

  std::vector<std::string_view> fields_;
};

base::Result<ItemTable> read_news(std::optional<ReplayInput> news) {
  if (!news) return ItemTable();
  SF_ASSIGN(const auto rows, open_tsv(std::move(*news), kNewsColumns));
  ItemTable::Columns columns;
  columns.tags = {1, 2};
  columns.tag_separators = "";  // a category is one tag, whatever it is called
  columns.title = 3;
  columns.url = 5;
  return ItemTable::read(*rows, columns);
}

}  // namespace

base::Result<std::unique_ptr<ReplayReader>> open_mind(ReplayInput input,
                                                      std::optional<ReplayInput> news,
                                                      const ReplayOptions& options) {
  SF_ASSIGN(ItemTable items, read_news(std::move(news)));
  SF_ASSIGN(auto rows, open_tsv(std::move(input), kBehaviorColumns));
  return std::make_unique<MindReader>(std::move(rows), std::move(items), options);
}

}  // namespace sirenfeed::ingest
