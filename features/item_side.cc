#include "features/item_side.h"

#include "base/hash.h"
#include "base/log.h"
#include "features/encode.h"

namespace sirenfeed::features {
namespace {

constexpr std::uint8_t kCatalogVersion = 1;
constexpr std::uint8_t kCounterVersion = 1;
constexpr std::uint8_t kKnown = 1;
constexpr std::uint8_t kHidden = 2;

template <class Counter>
std::string encode_counter(const Counter& counter) {
  std::string value;
  Encoder out(value);
  out.byte(kCounterVersion);
  counter.encode(out);
  return value;
}

}  // namespace

std::string encode_catalog_item(const CatalogItem& item) {
  std::string value;
  Encoder out(value);
  out.byte(kCatalogVersion);
  out.byte(static_cast<std::uint8_t>((item.known ? kKnown : 0U) | (item.hidden ? kHidden : 0U)));
  out.bytes(item.id);
  out.zigzag(item.updated_ms);
  out.optional_time(item.taken_down_ms);
  out.optional_time(item.first_shown_ms);
  out.optional_time(item.published_ms);
  out.optional_time(item.expires_ms);
  out.optional_bytes(item.author_id);
  out.varint(item.tags.size());
  for (const std::string& tag : item.tags) out.bytes(tag);
  out.varint(item.numeric.size());
  for (const auto& [name, number] : item.numeric) {
    out.bytes(name);
    out.fixed(number);
  }
  for (const auto* text : {&item.title, &item.url, &item.image_url, &item.language}) {
    out.optional_bytes(*text);
  }
  return value;
}

base::Result<CatalogItem> decode_catalog_item(std::string_view value) {
  Decoder in(value);
  CatalogItem item;
  const std::uint8_t version = in.byte();
  const std::uint8_t flags = in.byte();
  item.known = (flags & kKnown) != 0;
  item.hidden = (flags & kHidden) != 0;
  item.id = in.bytes();
  item.hash = base::xxh3_64(item.id);
  item.updated_ms = in.zigzag();
  item.taken_down_ms = in.optional_time();
  item.first_shown_ms = in.optional_time();
  item.published_ms = in.optional_time();
  item.expires_ms = in.optional_time();
  item.author_id = in.optional_bytes();
  if (item.author_id) item.author = base::xxh3_64(*item.author_id);
  item.tags.resize(in.count());
  for (std::string& tag : item.tags) {
    tag = in.bytes();
    item.tag_keys.push_back(base::xxh3_64(tag));
  }
  item.numeric.resize(in.count(9));
  for (auto& [name, number] : item.numeric) {
    name = in.bytes();
    number = in.fixed<double>();
  }
  for (auto* text : {&item.title, &item.url, &item.image_url, &item.language}) {
    *text = in.optional_bytes();
  }
  if (version != kCatalogVersion || !in.finished()) {
    return base::fail(base::ErrorCode::kCorrupt,
                      "a catalog entry (version {}) cannot be decoded; `sirenfeed rebuild` makes "
                      "it anew",
                      version);
  }
  return item;
}

bool catalog_forgotten(std::string_view value, base::UnixMs floor) {
  const bool known = value.size() < 2 || (static_cast<std::uint8_t>(value[1]) & kKnown) != 0;
  if (known) return false;  // nearly all: not decoded
  const auto item = decode_catalog_item(value);
  return item && item->forgotten(floor);
}

template <class Counter>
std::optional<Counter> ItemSide::load_counter(const std::string& key) const {
  Counter counter;
  auto value = store_.get(Family::kState, key);
  if (!value) return remember(value.error()), std::nullopt;
  if (!value->has_value()) return counter;
  Decoder in(**value);
  const bool known = in.byte() == kCounterVersion;
  counter.decode(in);
  if (known && in.finished()) return counter;
  remember({base::ErrorCode::kCorrupt, "a stored counter cannot be decoded"});
  return std::nullopt;
}

ItemSide::ItemSide(const Store& store, const StoreConfig& config)
    : store_(store),
      counters_(
          config.item_entries_max,
          [this](const CounterKey& key) { return load_counter<ItemCounter>(counter_key(key)); }),
      residuals_(config.item_entries_max,
                 [this](const CounterKey& key) {
                   return load_counter<ItemResiduals>(residuals_key(key));
                 }),
      catalog_(config.catalog_entries_max, [this](Key hash) -> std::optional<CatalogItemPtr> {
        auto value = store_.get(Family::kState, catalog_key(hash));
        if (!value) return remember(value.error()), std::nullopt;
        if (!value->has_value()) return CatalogItemPtr();
        auto item = decode_catalog_item(**value);
        if (!item) return remember(item.error()), std::nullopt;
        return std::make_shared<const CatalogItem>(*std::move(item));
      }) {}

void ItemSide::set_item(CatalogItem item) {
  const Key hash = item.hash;
  auto next = std::make_shared<const CatalogItem>(std::move(item));
  catalog_.update(hash, [&](CatalogItemPtr& current) { current = std::move(next); });
}

void ItemSide::write_to(WriteBatch& batch) const {
  const auto write = [&batch](const std::string& key, const auto& counter) {
    if (counter.empty()) {
      batch.erase(Family::kState, key);
    } else {
      batch.put(Family::kState, key, encode_counter(counter));
    }
  };
  counters_.for_dirty(
      [&](const CounterKey& key, const ItemCounter& counter) { write(counter_key(key), counter); });
  residuals_.for_dirty([&](const CounterKey& key, const ItemResiduals& counter) {
    write(residuals_key(key), counter);
  });
  catalog_.for_dirty([&](Key hash, const CatalogItemPtr& item) {
    batch.put(Family::kState, catalog_key(hash), encode_catalog_item(*item));
  });
}

void ItemSide::commit() {
  counters_.commit();
  residuals_.commit();
  catalog_.commit();
}
void ItemSide::rollback() {
  counters_.rollback();
  residuals_.rollback();
  catalog_.rollback();
}

void ItemSide::remember(base::Error error) const {
  base::log_error("item-side state: {}", error.message);
  base::MutexLock lock(error_mutex_);
  if (!error_) error_ = std::move(error);
  failed_.store(true, std::memory_order_release);
}

std::optional<base::Error> ItemSide::take_error() const {
  if (!failed_.load(std::memory_order_acquire)) return std::nullopt;
  base::MutexLock lock(error_mutex_);
  failed_.store(false, std::memory_order_release);
  return std::exchange(error_, std::nullopt);
}

}  // namespace sirenfeed::features
