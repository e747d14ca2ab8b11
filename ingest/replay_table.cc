// Formats `csv` and `jsonl`: any table with a mapping of its columns; and `movielens`, which is
// such a table whose mapping is known. By the convention in replay_reader.h.
#include <algorithm>
#include <charconv>
#include <utility>

#include "ingest/replay_formats.h"
#include "ingest/replay_sorted.h"
#include "ingest/replay_time.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;

enum Field : std::size_t {
  kUser,
  kItem,
  kTime,
  kClick,
  kType,
  kValue,
  kSurface,
  kPosition,
  kImpression,
  kAuthor,
  kTags,
  kPublished,
  kTitle,
  kOtherClick,  // movielens: a label where there is no rating
  kFields
};
constexpr std::string_view kRoleNames[] = {"user",  "item",      "time",     "click",      "type",
                                           "value", "surface",   "position", "impression", "author",
                                           "tags",  "published", "title",    "click"};
static_assert(std::size(kRoleNames) == kFields && kFields <= kCsvColumnsMax);

class TableReader final : public SortedReader {
 public:
  /// What a table's rows mean; `columns` are those of the RowSource, in the order of Field.
  struct Rules {
    std::vector<RowColumn> columns;
    double click_min = kLabelClickMin;
    std::size_t click_field = kClick;
  };
  TableReader(std::unique_ptr<RowSource> rows, ItemTable items, const ReplayOptions& options,
              Rules rules)
      : SortedReader(std::move(rows), std::move(items), options), rules_(std::move(rules)) {}

 private:
  [[nodiscard]] std::string_view name(std::size_t field) const {
    const std::string& column = rules_.columns[field].name;
    return column.empty() ? kRoleNames[field] : std::string_view(column);
  }

  base::Result<PackedRow> check_row() override {
    PackedRow row;
    SF_TRY(check_id(kUser, name(kUser)));
    SF_TRY(check_id(kItem, name(kItem)));
    SF_ASSIGN(row.time_ms, check_time(kTime, name(kTime)));
    SF_TRY(check_number(rules_.click_field, name(rules_.click_field)));
    SF_TRY(check_number(kValue, name(kValue)));
    for (const std::size_t field : {kType, kSurface, kImpression, kAuthor, kTags, kTitle}) {
      SF_TRY(check_text(field, name(field)));
    }
    const std::string_view position = rows().field(kPosition);
    if (!position.empty() && !parse_position(position)) {
      return rows().bad_field(name(kPosition), "an integer of at least 0", position);
    }
    const std::string_view published = rows().field(kPublished);
    if (!published.empty() && !parse_replay_time(published)) {
      return rows().bad_field(name(kPublished), kReplayTimes, published);
    }
    if (!rules_.columns[kType].name.empty() && rows().field(kType).empty()) {
      return rows().bad_field(name(kType), "what the row is", "");
    }
    std::string_view fields[kFields];
    for (std::size_t i = 0; i < kFields; ++i) fields[i] = rows().field(i);
    row.packed = pack_fields(fields);
    return row;
  }

  static std::optional<std::int32_t> parse_position(std::string_view text) {
    std::int32_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = error == std::errc() && end == text.data() + text.size();
    return whole && value >= 0 ? std::optional(value) : std::nullopt;
  }

  void hand_out(std::span<const SortedRow> sorted) override {
    slates_.clear();
    actions_.clear();
    for (const SortedRow& row : sorted) {
      unpack_fields(row.packed, fields_);
      push_item(fields_[kItem], row.time_ms, item_of_row());
      const std::string id = fmt::format("{}:{}", file(), row.row);
      const std::string_view type = fields_[kType];
      const auto& shown = options().exposure_types;
      if (type.empty() || std::find(shown.begin(), shown.end(), type) != shown.end()) {
        hand_out_exposure(row.time_ms, id);
      } else {
        const std::string slate(fields_[kImpression]);
        add_action(row.time_ms, id, slate.empty() ? std::nullopt : std::optional(slate), type);
      }
    }
    for (Impression& slate : slates_) push(std::move(slate));
    for (Action& action : actions_) push(std::move(action));
  }

  const ItemUpdate* item_of_row() {
    row_item_ = {};
    if (!fields_[kAuthor].empty()) row_item_.author_id.emplace(fields_[kAuthor]);
    if (!fields_[kTitle].empty()) row_item_.title.emplace(fields_[kTitle]);
    if (!fields_[kPublished].empty()) {
      row_item_.published_at_ms = parse_replay_time(fields_[kPublished]);
    }
    append_tags(fields_[kTags], "|,", row_item_.tags);
    return &row_item_;
  }

  void hand_out_exposure(base::UnixMs time_ms, const std::string& id) {
    const std::string_view named = fields_[kImpression];
    Impression* slate = nullptr;
    for (Impression& open : slates_) {
      const bool same = open.user_id == fields_[kUser] && open.impression_id == named;
      if (same && !named.empty()) slate = &open;
    }
    if (slate == nullptr) {
      slate = &slates_.emplace_back();
      slate->impression_id = named.empty() ? id : std::string(named);
      slate->user_id = fields_[kUser];
      slate->time_ms = time_ms;
      if (!fields_[kSurface].empty()) slate->surface.emplace(fields_[kSurface]);
    }
    ShownItem& item = slate->items.emplace_back();
    item.item_id = fields_[kItem];
    if (!fields_[kPosition].empty()) item.position = parse_position(fields_[kPosition]);
    const auto click = parse_replay_number(fields_[rules_.click_field]);
    if (click && *click >= rules_.click_min) {
      add_action(time_ms + options().click_delay_ms, id, slate->impression_id, "click");
    }
  }

  void add_action(base::UnixMs time_ms, const std::string& id, std::optional<std::string> slate,
                  std::string_view type) {
    Action& action = actions_.emplace_back();
    action.user_id = fields_[kUser];
    action.item_id = fields_[kItem];
    action.time_ms = time_ms;
    action.type = type;
    action.value = parse_replay_number(fields_[kValue]);
    action.impression_id = std::move(slate);
    action.event_id = fmt::format("{}:{}", id, type);
  }

  const Rules rules_;
  std::vector<std::string_view> fields_;
  std::vector<Impression> slates_;
  std::vector<Action> actions_;
  ItemUpdate row_item_;
};

RowColumn mapped(const ReplayMapping& map, std::string_view role) {
  const std::string column = map.column(role);
  return {column, !column.empty()};
}

std::vector<RowColumn> table_columns(const ReplayMapping& map) {
  std::vector<RowColumn> columns;
  for (const std::string_view role : kRoleNames) columns.push_back(mapped(map, role));
  columns[kOtherClick] = {};
  return columns;
}

base::Result<ItemTable> read_items(std::unique_ptr<RowSource> rows) {
  ItemTable::Columns columns;
  columns.author = 1;
  columns.published = 2;
  columns.title = 3;
  columns.tags[0] = 4;
  return ItemTable::read(*rows, columns);
}

base::Result<std::unique_ptr<RowSource>> open_rows(ReplayInput input, ReplayFormat format,
                                                   const ReplayOptions& options,
                                                   std::vector<RowColumn> columns) {
  if (format == ReplayFormat::kJsonl) {
    return open_jsonl(std::move(input), options.line_bytes_max, std::move(columns));
  }
  return open_csv(std::move(input), options.delimiter, true, std::move(columns));
}

/// RecBole's atomic files: tabs, no quotes, `name:type` in the header, lists split at spaces.
base::Result<ItemTable> read_recbole_items(ReplayInput input) {
  const std::vector<RowColumn> wanted = {{"item_id:token", true},
                                         {"movie_title:token_seq", false},
                                         {"class:token_seq", false},
                                         {"genre:token_seq", false}};
  SF_ASSIGN(const auto rows, open_csv(std::move(input), '\t', false, wanted));
  ItemTable::Columns columns;
  columns.title = 1;
  columns.tags = {2, 3};
  columns.tag_separators = " ";
  return ItemTable::read(*rows, columns);
}

base::Result<std::unique_ptr<ReplayReader>> open_recbole(ReplayInput input,
                                                         std::optional<ReplayInput> items,
                                                         const ReplayOptions& options) {
  TableReader::Rules rules;
  rules.columns.resize(kFields);
  rules.columns[kUser] = {"user_id:token", true};
  rules.columns[kItem] = {"item_id:token", true};
  rules.columns[kTime] = {"timestamp:float", true};
  rules.columns[kClick] = {"rating:float", false};
  rules.columns[kOtherClick] = {"label:float", false};
  ItemTable table;
  if (items) {
    SF_ASSIGN(table, read_recbole_items(std::move(*items)));
  }
  SF_ASSIGN(auto rows, open_csv(std::move(input), '\t', false, rules.columns));
  if (!rows->has(kClick) && !rows->has(kOtherClick)) {
    return base::fail(ErrorCode::kDecode, "{}:1: expected a column 'rating:float' or 'label:float'",
                      rows->input().name());
  }
  rules.click_field = rows->has(kClick) ? kClick : kOtherClick;
  rules.click_min =
      options.click_min.value_or(rows->has(kClick) ? kRatingClickMin : kLabelClickMin);
  return std::make_unique<TableReader>(std::move(rows), std::move(table), options,
                                       std::move(rules));
}

}  // namespace

base::Result<std::unique_ptr<ReplayReader>> open_table(ReplayInput input,
                                                       std::optional<ReplayInput> items,
                                                       ReplayFormat format,
                                                       const ReplayOptions& options) {
  SF_TRY(options.map.validate("map", false));
  ItemTable table;
  if (items) {
    SF_TRY(options.items_map.validate("items_map", true));
    std::vector<RowColumn> columns;
    for (const std::string_view role : {"item", "author", "published", "title", "tags"}) {
      columns.push_back(mapped(options.items_map, role));
    }
    SF_ASSIGN(auto rows, open_rows(std::move(*items), format, options, std::move(columns)));
    SF_ASSIGN(table, read_items(std::move(rows)));
  }
  TableReader::Rules rules;
  rules.columns = table_columns(options.map);
  rules.click_min = options.click_min.value_or(kLabelClickMin);
  SF_ASSIGN(auto rows, open_rows(std::move(input), format, options, rules.columns));
  return std::make_unique<TableReader>(std::move(rows), std::move(table), options,
                                       std::move(rules));
}

base::Result<std::unique_ptr<ReplayReader>> open_movielens(ReplayInput input,
                                                           std::optional<ReplayInput> items,
                                                           ReplayOptions options) {
  const std::string& name = input.name();
  if (name.ends_with(".inter") || name.ends_with(".inter.gz")) {
    return open_recbole(std::move(input), std::move(items), options);
  }
  options.map.columns = {{"user", "userId"},
                         {"item", "movieId"},
                         {"time", "timestamp"},
                         {"click", "rating"},
                         {"value", "rating"}};
  options.items_map.columns = {{"item", "movieId"}, {"title", "title"}, {"tags", "genres"}};
  options.delimiter = ',';
  options.click_min = options.click_min.value_or(kRatingClickMin);
  return open_table(std::move(input), std::move(items), ReplayFormat::kCsv, options);
}

}  // namespace sirenfeed::ingest
