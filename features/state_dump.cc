#include "features/state_dump.h"

#include <algorithm>
#include <map>
#include <ostream>

#include "base/hash.h"
#include "features/encode.h"
#include "features/item_side.h"
#include "features/partition_state.h"
#include "features/user_cache.h"

namespace sirenfeed::features {
namespace {

using base::Result;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(c));
  return text;
}

std::string time_text(const std::optional<base::UnixMs>& time) {
  return time ? fmt::format("{}", *time) : "-";
}

// Bits, not digits: equal states are equal to the last one.
template <class Real>
std::string counter_text(const DecayedCounter<Real>& counter) {
  std::string bytes;
  Encoder out(bytes);
  counter.encode(out);
  const CountValues values = counter.at(counter.empty() ? 0 : counter.last_ms() + 1);
  return fmt::format("{} shown={:.6g} clicks={:.6g} long_views={:.6g}", hex(bytes),
                     values.of(Count::kShown, HalfLife::kMonth),
                     values.of(Count::kClicks, HalfLife::kMonth),
                     values.of(Count::kLongViews, HalfLife::kMonth));
}

template <class Real>
std::string residuals_text(const ResidualCounter<Real>& counter) {
  std::string bytes;
  Encoder out(bytes);
  counter.encode(out);
  const ResidualValues values = counter.at(counter.empty() ? 0 : counter.last_ms() + 1);
  return fmt::format("{} shown={:.6g} residual={:.6g}", hex(bytes),
                     values.of(Count::kShown, ResidualHalf::kWeek),
                     values.residual(ResidualHalf::kWeek));
}

class Dump {
 public:
  Dump(const Store& store, const FeaturesConfig& config, const ActionTypes& types,
       std::ostream& out)
      : store_(store), config_(config), types_(types), out_(out) {}

  Result<void> run() {
    SF_TRY(node());
    for (ingest::Partition p = 0; p < config_.partitions; ++p) SF_TRY(partition(p));
    return {};
  }

 private:
  template <class... Args>
  void line(fmt::format_string<Args...> format, Args&&... args) {
    out_ << fmt::format(format, std::forward<Args>(args)...) << '\n';
  }

  Result<void> node() {
    for (const std::string& name : types_.names()) line("action_type {}", name);
    std::optional<base::Error> error;
    SF_ASSIGN(const base::UnixMs floor, tombstone_floor());
    SF_TRY(store_.scan(Family::kState, node_prefix(kCatalogLetter),
                       [&](std::string_view, std::string_view value) {
                         auto item = decode_catalog_item(value);
                         if (!item) return error = item.error(), false;
                         if (item->forgotten(floor)) return true;
                         line("item {}: {} known={} taken_down={} first_shown={} {}", item->id,
                              item->updated_ms, item->known, time_text(item->taken_down_ms),
                              time_text(item->first_shown_ms), hex(value));
                         return true;
                       }));
    if (error) return base::fail(*std::move(error));
    SF_TRY(counters(kCounterLetter, "counter", [](Decoder& in) {
      ItemCounter counter;
      counter.decode(in);
      return counter_text(counter);
    }));
    SF_TRY(counters(kResidualsLetter, "residuals", [](Decoder& in) {
      ItemResiduals counter;
      counter.decode(in);
      return residuals_text(counter);
    }));
    return store_.scan(Family::kState, node_prefix(kItemsPositionLetter),
                       [&](std::string_view key, std::string_view value) {
                         position(fmt::format("items/{}", read_be32(key.data() + 2)), value);
                         return true;
                       });
  }

  // As the applier has it.
  Result<base::UnixMs> tombstone_floor() const {
    base::UnixMs oldest = INT64_MAX;
    for (ingest::Partition p = 0; p < config_.partitions; ++p) {
      PartitionState meta;
      SF_ASSIGN(const auto stored, store_.get(Family::kState, partition_prefix(p, kMetaLetter)));
      if (stored) SF_TRY(meta.decode_meta(*stored));
      if (meta.newest_ms) oldest = std::min(oldest, *meta.newest_ms - config_.join.lateness_max_ms);
    }
    return oldest == INT64_MAX ? INT64_MIN : oldest - config_.join.tombstone_age_max_ms;
  }

  template <class Text>
  Result<void> counters(char letter, const char* name, const Text& text) {
    return store_.scan(
        Family::kState, node_prefix(letter), [&](std::string_view key, std::string_view value) {
          const CounterKey id = parse_counter_key(key);
          Decoder in(value.substr(1));
          line("{} {} {:016x} {:016x}: {}", name, static_cast<int>(id.kind), id.a, id.b, text(in));
          return true;
        });
  }

  void position(const std::string& name, std::string_view value) {
    const auto decoded = InputPosition::decode(value);
    if (!decoded || !decoded->applied) return;
    const Conservation& counts = decoded->counts;
    line("position {}: offset={} time={} hash={:016x} in={} applied={} rejected={} duplicate={}",
         name, decoded->applied->offset, decoded->applied->time_ms, decoded->applied->hash,
         counts.in, counts.applied, counts.rejected, counts.duplicate);
  }

  Result<void> partition(ingest::Partition p) {
    PartitionState meta;
    SF_ASSIGN(const auto stored, store_.get(Family::kState, partition_prefix(p, kMetaLetter)));
    if (stored) SF_TRY(meta.decode_meta(*stored));
    line("partition {}: newest={} epoch={} last_sequence={} mute={}", p, time_text(meta.newest_ms),
         meta.epoch, meta.last_sequence, meta.mute_until.has_value());
    SF_TRY(store_.scan(Family::kState, partition_prefix(p, kPositionLetter),
                       [&](std::string_view key, std::string_view value) {
                         const auto topic = static_cast<ingest::Topic>(key[6]);
                         position(fmt::format("{}/{}", ingest::topic_name(topic), p), value);
                         return true;
                       }));
    for (const char letter : {kPendingLetter, kLabelsLetter, kRetainedLetter, kHeldLetter,
                              kRequestLetter, kInputsLetter}) {
      SF_TRY(store_.scan(Family::kState, partition_prefix(p, letter),
                         [&](std::string_view key, std::string_view value) {
                           line("{}{} {}: {}", letter, p, hex(key.substr(6)), hex(value));
                           return true;
                         }));
    }
    SF_TRY(users(p));
    return expiring(p, meta);
  }

  Result<void> users(ingest::Partition p) {
    std::optional<base::Error> error;
    SF_TRY(store_.scan(Family::kState, partition_prefix(p, kUserLetter),
                       [&](std::string_view key, std::string_view) {
                         bool known = false;
                         auto user = read_user_state(store_, p, key.substr(7), known);
                         if (!user) return error = user.error(), false;
                         dump_user(std::string(key.substr(7)), *user);
                         return true;
                       }));
    if (error) return base::fail(*std::move(error));
    return {};
  }

  void dump_user(const std::string& id, const UserState& user) {
    line("user {}: {}", id, counter_text(user.total));
    if (user.profile) {
      line("user {} profile: {} {} authors={} tags={}", id, user.profile->time_ms,
           user.profile->segment.value_or("-"), fmt::join(user.profile->blocked_authors, ","),
           fmt::join(user.profile->blocked_tags, ","));
    }
    for (const SequenceEntry& entry : user.sequence) {
      std::string actions;
      for (const ActionMark& mark : entry.actions) {
        actions += fmt::format(" {}@{}", types_.name(mark.type), mark.time_ms);
        if (mark.value) actions += fmt::format("={}", *mark.value);
      }
      if (entry.p0 != 0) actions += fmt::format(" p0={}", entry.p0);
      line("user {} sequence: {:016x} {} offset={} surface={:016x} exposed={}{}", id, entry.item,
           entry.time_ms, entry.offset, entry.surface, entry.exposed, actions);
    }
    for (const SeenItem& seen : user.seen)
      line("user {} seen: {:016x} {}", id, seen.item, seen.first_ms);
    for (const PairCounter& pair : user.pairs) {
      line("user {} pair {} {:016x}: {}", id, static_cast<int>(pair.kind), pair.key,
           counter_text(pair.counter));
    }
    if (!user.residuals.empty()) line("user {} residuals: {}", id, residuals_text(user.residuals));
    for (const ResidualPair& pair : user.residual_pairs) {
      line("user {} residuals {} {:016x}: {}", id, static_cast<int>(pair.kind), pair.key,
           residuals_text(pair.counter));
    }
  }

  // Without what a compaction may have dropped already.
  Result<void> expiring(ingest::Partition p, const PartitionState& meta) {
    const base::UnixMs watermark =
        meta.newest_ms ? *meta.newest_ms - config_.join.lateness_max_ms : INT64_MIN / 2;
    return store_.scan(
        Family::kExpiring, partition_prefix(p), [&](std::string_view key, std::string_view value) {
          const auto time = Decoder(value).fixed<base::UnixMs>();
          const bool tombstone = key[5] == kErasedLetter;
          const base::UnixMs age =
              tombstone ? config_.join.tombstone_age_max_ms : config_.join.dedup_horizon_ms;
          if (time < watermark - age) return true;
          line("{}{} {}: {}", key[5], p, hex(key.substr(6)), hex(value));
          return true;
        });
  }

  const Store& store_;
  const FeaturesConfig& config_;
  const ActionTypes& types_;
  std::ostream& out_;
};

std::string family_name(Family family, std::string_view key) {
  if (family == Family::kOutbox) return key[5] == kExamplesLetter ? "outbox" : "dead_letters";
  if (family == Family::kExpiring) {
    if (key[5] == kErasedLetter) return "erased";
    return key[5] == kImpressionIdLetter ? "impression_ids" : "event_ids";
  }
  const bool node = key[0] == 0;
  switch (node ? key[1] : key[5]) {
    case kCatalogLetter:
      return "catalog";
    case kCounterLetter:
      return "counters";
    case kResidualsLetter:
      return "residuals";
    case kUserLetter:
      return "users";
    case kSectionLetter:
      return "user_sections";
    case kPendingLetter:
      return "pending_examples";
    case kLabelsLetter:
      return "pending_labels";
    case kRetainedLetter:
      return "retained";
    case kRequestLetter:
    case kInputsLetter:
      return "requests";
    case kHeldLetter:
      return "held";
    case kPositionLetter:
      return "positions";
    default:
      return "other";
  }
}

}  // namespace

Result<void> dump_canonical(const Store& store, const FeaturesConfig& config,
                            const ActionTypes& types, std::ostream& out) {
  return Dump(store, config, types, out).run();
}

Result<std::vector<FamilySize>> family_sizes(const Store& store) {
  std::map<std::string, FamilySize> sizes;
  for (const Family family : {Family::kState, Family::kExpiring, Family::kOutbox}) {
    SF_TRY(store.scan(family, "", [&](std::string_view key, std::string_view value) {
      FamilySize& size = sizes[family_name(family, key)];
      ++size.keys;
      size.bytes += key.size() + value.size();
      return true;
    }));
  }
  std::vector<FamilySize> result;
  for (auto& [name, size] : sizes) {
    size.family = name;
    result.push_back(size);
  }
  return result;
}

Result<Conservation> read_conservation(const Store& store) {
  Conservation total;
  const auto add = [&](std::string_view value) {
    const auto position = InputPosition::decode(value);
    if (!position) return;
    total.in += position->counts.in;
    total.applied += position->counts.applied;
    total.rejected += position->counts.rejected;
    total.duplicate += position->counts.duplicate;
  };
  SF_TRY(store.scan(Family::kState, node_prefix(kItemsPositionLetter),
                    [&](std::string_view, std::string_view value) { return add(value), true; }));
  std::string from(1, '\x01');
  // A partition at a time: its positions, then past all its keys.
  for (bool more = true; more;) {
    more = false;
    ingest::Partition partition = 0;
    SF_TRY(store.scan(Family::kState, "\x01", from, [&](std::string_view key, std::string_view) {
      partition = static_cast<ingest::Partition>(read_be32(key.data() + 1));
      more = true;
      return false;
    }));
    if (!more) break;
    SF_TRY(store.scan(Family::kState, partition_prefix(partition, kPositionLetter),
                      [&](std::string_view, std::string_view value) { return add(value), true; }));
    from = partition_prefix(partition + 1);
  }
  return total;
}

}  // namespace sirenfeed::features
