#include "features/user_state.h"

#include <algorithm>

#include "features/encode.h"

namespace sirenfeed::features {
namespace {

constexpr std::uint8_t kUserVersion = 1;
constexpr std::uint8_t kExternal = 1;
constexpr std::uint8_t kHasProfile = 2;
constexpr std::uint8_t kHasTotal = 4;
constexpr std::uint8_t kHasResiduals = 8;

struct BySeen {
  bool operator()(const SeenItem& a, Key b) const { return a.item < b; }
};
struct ByPair {
  using Id = std::pair<Key, PairKind>;
  template <class Pair>
  bool operator()(const Pair& a, const Id& b) const {
    return Id(a.key, a.kind) < b;
  }
};

// The part of `sorted` whose keys are in `bucket`.
template <class T, class KeyOf>
std::span<const T> bucket_range(const std::vector<T>& sorted, std::size_t bucket, KeyOf key_of) {
  const auto before = [&](const T& entry, std::size_t b) { return bucket_of(key_of(entry)) < b; };
  const auto begin = std::lower_bound(sorted.begin(), sorted.end(), bucket, before);
  const auto end = std::lower_bound(begin, sorted.end(), bucket + 1, before);
  return {begin, end};
}

// Differences wrap around: of damaged bytes any time may come.
std::int64_t plus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t minus(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}

// `with_p0`: the user has residuals of the extended set.
void encode_entry(Encoder& out, const SequenceEntry& entry, bool with_p0, base::UnixMs& time,
                  ingest::Offset& offset) {
  out.fixed(entry.item);
  out.zigzag(minus(entry.time_ms, time));
  out.zigzag(minus(entry.offset, offset));
  out.fixed(entry.surface);
  out.varint(entry.actions.size() * 2 + (entry.exposed ? 1 : 0));
  for (const ActionMark& mark : entry.actions) {
    out.byte(static_cast<std::uint8_t>(2U * mark.type + (mark.value ? 1U : 0U)));
    out.zigzag(minus(mark.time_ms, entry.time_ms));
    if (mark.value) out.fixed(*mark.value);
  }
  if (with_p0 && entry.exposed) out.fixed(entry.p0);
  time = entry.time_ms;
  offset = entry.offset;
}

SequenceEntry decode_entry(Decoder& in, bool with_p0, base::UnixMs& time, ingest::Offset& offset) {
  SequenceEntry entry;
  entry.item = in.fixed<Key>();
  entry.time_ms = time = plus(time, in.zigzag());
  entry.offset = offset = plus(offset, in.zigzag());
  entry.surface = in.fixed<Key>();
  const std::uint64_t actions = in.varint();
  entry.exposed = (actions & 1U) != 0;
  for (std::uint64_t i = 0; i < actions / 2 && in.ok(); ++i) {
    ActionMark mark;
    const std::uint8_t type = in.byte();
    mark.type = static_cast<ActionType>(type >> 1U);
    mark.time_ms = plus(entry.time_ms, in.zigzag());
    if ((type & 1U) != 0) mark.value = in.fixed<float>();
    entry.actions.push_back(mark);
  }
  if (with_p0 && entry.exposed) entry.p0 = in.fixed<float>();
  return entry;
}

template <class Pair>
void encode_pairs(Encoder& out, std::span<const Pair> pairs) {
  out.varint(pairs.size());
  for (const Pair& pair : pairs) {
    out.fixed(pair.key);
    out.byte(static_cast<std::uint8_t>(pair.kind));
    pair.counter.encode(out);
  }
}
// False: not in their order, or of another bucket. They would be looked for in vain.
template <class Pair>
bool decode_pairs(Decoder& in, std::size_t bucket, std::vector<Pair>& pairs) {
  const std::size_t count = in.count(15);
  for (std::size_t i = 0; i < count; ++i) {
    Pair pair;
    pair.key = in.fixed<Key>();
    pair.kind = static_cast<PairKind>(in.byte());
    pair.counter.decode(in);
    if (bucket_of(pair.key) != bucket) return false;
    if (!pairs.empty() && !ByPair()(pairs.back(), ByPair::Id(pair.key, pair.kind))) return false;
    pairs.push_back(pair);
  }
  return true;
}

template <class Pair>
auto find_pair(const std::vector<Pair>& pairs, PairKind kind, Key key)
    -> decltype(&pairs.front().counter) {
  const auto it = std::lower_bound(pairs.begin(), pairs.end(), ByPair::Id(key, kind), ByPair());
  return it != pairs.end() && it->key == key && it->kind == kind ? &it->counter : nullptr;
}

// The lightest leave: all below pair_min_weight, and a sixteenth in any case.
template <class Pair, class Weight>
void make_room(std::vector<Pair>& pairs, const UserLimits& limits, SectionSet& dirty,
               const Weight& weight_of) {
  std::vector<std::pair<double, ByPair::Id>> weights;
  weights.reserve(pairs.size());
  for (const Pair& pair : pairs) {
    weights.emplace_back(weight_of(pair.counter), ByPair::Id(pair.key, pair.kind));
  }
  std::sort(weights.begin(), weights.end());
  std::size_t drop = limits.pairs_max / 16 + 1;
  while (drop < weights.size() && weights[drop].first < limits.pair_min_weight) ++drop;
  weights.resize(std::min(drop, weights.size()));
  std::sort(weights.begin(), weights.end(),
            [](const auto& a, const auto& b) { return a.second < b.second; });
  auto next = weights.begin();
  std::erase_if(pairs, [&](const Pair& pair) {
    if (next == weights.end() || ByPair::Id(pair.key, pair.kind) != next->second) return false;
    ++next;
    dirty.set(pair_section(pair.key));
    return true;
  });
}

template <class Pair, class Weight>
auto& find_or_add_pair(std::vector<Pair>& pairs, const ByPair::Id& id, const UserLimits& limits,
                       SectionSet& dirty, const Weight& weight_of) {
  auto it = std::lower_bound(pairs.begin(), pairs.end(), id, ByPair());
  dirty.set(pair_section(id.first));
  if (it != pairs.end() && ByPair::Id(it->key, it->kind) == id) return it->counter;
  if (pairs.size() >= limits.pairs_max) {
    make_room(pairs, limits, dirty, weight_of);
    it = std::lower_bound(pairs.begin(), pairs.end(), id, ByPair());
  }
  return pairs.insert(it, {id.first, id.second, {}})->counter;
}

void encode_strings(Encoder& out, const std::vector<std::string>& strings) {
  out.varint(strings.size());
  for (const std::string& text : strings) out.bytes(text);
}
std::vector<std::string> decode_strings(Decoder& in) {
  std::vector<std::string> strings(in.count());
  for (std::string& text : strings) text = in.bytes();
  return strings;
}

tl::unexpected<base::Error> corrupt(const char* what) {
  return base::fail(base::ErrorCode::kCorrupt,
                    "a stored user's {} cannot be decoded; `sirenfeed rebuild` makes it anew",
                    what);
}

}  // namespace

const ActionMark* SequenceEntry::find(ActionType type) const {
  for (const ActionMark& mark : actions) {
    if (mark.type == type) return &mark;
  }
  return nullptr;
}

const UserCounter* UserState::pair(PairKind kind, Key key) const {
  return find_pair(pairs, kind, key);
}
const UserResiduals* UserState::residual_pair(PairKind kind, Key key) const {
  return find_pair(residual_pairs, kind, key);
}

bool UserState::seen_before(Key item, base::UnixMs t) const {
  const auto it = std::lower_bound(seen.begin(), seen.end(), item, BySeen());
  return it != seen.end() && it->item == item && it->first_ms < t;
}

std::size_t UserState::memory_bytes() const {
  std::size_t bytes = sizeof *this + sequence.capacity() * sizeof(SequenceEntry) +
                      seen.capacity() * sizeof(SeenItem) + pairs.capacity() * sizeof(PairCounter) +
                      residual_pairs.capacity() * sizeof(ResidualPair);
  for (const SequenceEntry& entry : sequence)
    bytes += entry.actions.capacity() * sizeof(ActionMark);
  if (profile) {
    for (const std::string& text : profile->blocked_authors) bytes += sizeof text + text.capacity();
    for (const std::string& text : profile->blocked_tags) bytes += sizeof text + text.capacity();
  }
  return bytes;
}

void UserState::insert(SequenceEntry entry, std::size_t sequence_max) {
  auto at = sequence.end();
  while (at != sequence.begin() && std::prev(at)->time_ms > entry.time_ms) --at;
  sequence.insert(at, std::move(entry));
  if (sequence.size() > sequence_max) sequence.erase(sequence.begin());
}

SequenceEntry* UserState::exposure(Key item, base::UnixMs time, ingest::Offset offset) {
  for (auto it = sequence.rbegin(); it != sequence.rend() && it->time_ms >= time; ++it) {
    if (it->time_ms == time && it->offset == offset && it->item == item && it->exposed) return &*it;
  }
  return nullptr;
}

SequenceEntry* UserState::exposure_within(Key item, base::UnixMs action, base::UnixMs window) {
  for (auto it = sequence.rbegin(); it != sequence.rend() && it->time_ms >= action - window; ++it) {
    if (it->time_ms <= action && it->item == item && it->exposed) return &*it;
  }
  return nullptr;
}

void UserState::see(Key item, base::UnixMs t, const UserLimits& limits, SectionSet& dirty) {
  const auto it = std::lower_bound(seen.begin(), seen.end(), item, BySeen());
  if (it != seen.end() && it->item == item) {
    if (t < it->first_ms) {
      it->first_ms = t;
      dirty.set(seen_section(item));
    }
    return;
  }
  seen.insert(it, {item, t});
  dirty.set(seen_section(item));
  if (seen.size() <= limits.seen_max) return;
  // A sixteenth at once, so that a heavy user does not pay for a search at every exposure.
  std::vector<std::pair<base::UnixMs, Key>> ages;
  ages.reserve(seen.size());
  for (const SeenItem& entry : seen) ages.emplace_back(entry.first_ms, entry.item);
  const std::size_t drop = limits.seen_max / 16 + 1;
  std::nth_element(ages.begin(), ages.begin() + static_cast<std::ptrdiff_t>(drop), ages.end());
  const auto oldest_kept = ages[drop];
  std::erase_if(seen, [&](const SeenItem& entry) {
    const bool old = std::pair(entry.first_ms, entry.item) < oldest_kept;
    if (old) dirty.set(seen_section(entry.item));
    return old;
  });
}

UserCounter& UserState::pair_for(PairKind kind, Key key, base::UnixMs t, const UserLimits& limits,
                                 SectionSet& dirty) {
  return find_or_add_pair(pairs, {key, kind}, limits, dirty, [t](const UserCounter& counter) {
    return counter.at(t + 1).of(Count::kShown, HalfLife::kMonth);
  });
}
UserResiduals& UserState::residual_pair_for(PairKind kind, Key key, base::UnixMs t,
                                            const UserLimits& limits, SectionSet& dirty) {
  return find_or_add_pair(residual_pairs, {key, kind}, limits, dirty,
                          [t](const UserResiduals& counter) {
                            return counter.at(t + 1).of(Count::kShown, ResidualHalf::kWeek);
                          });
}

std::string UserState::encode_section(std::size_t section) const {
  std::string value;
  Encoder out(value);
  if (section == kSequenceSection) {
    if (sequence.empty()) return value;
    out.varint(sequence.size());
    base::UnixMs time = 0;
    ingest::Offset offset = 0;
    for (const SequenceEntry& entry : sequence) {
      encode_entry(out, entry, !residuals.empty(), time, offset);
    }
  } else if (section <= kUserBuckets) {
    const auto range = bucket_range(seen, section - 1, [](const SeenItem& s) { return s.item; });
    if (range.empty()) return value;
    out.varint(range.size());
    for (const SeenItem& entry : range) {
      out.fixed(entry.item);
      out.zigzag(entry.first_ms);
    }
  } else {
    const std::size_t bucket = section - 1 - kUserBuckets;
    const auto key_of = [](const auto& pair) { return pair.key; };
    const auto range = bucket_range(pairs, bucket, key_of);
    const auto residual_range = bucket_range(residual_pairs, bucket, key_of);
    if (range.empty() && residual_range.empty()) return value;
    encode_pairs(out, range);
    if (!residuals.empty()) encode_pairs(out, residual_range);
  }
  return value;
}

std::string UserState::encode_head(bool external) const {
  std::string value;
  Encoder out(value);
  out.byte(kUserVersion);
  out.byte(static_cast<std::uint8_t>((external ? kExternal : 0U) | (profile ? kHasProfile : 0U) |
                                     (total.empty() ? 0U : kHasTotal) |
                                     (residuals.empty() ? 0U : kHasResiduals)));
  if (profile) {
    out.zigzag(profile->time_ms);
    out.optional_bytes(profile->segment);
    encode_strings(out, profile->blocked_authors);
    encode_strings(out, profile->blocked_tags);
  }
  if (!total.empty()) total.encode(out);
  if (!residuals.empty()) residuals.encode(out);
  if (external) return value;
  for (std::size_t section = 0; section < kUserSections; ++section) {
    const std::string bytes = encode_section(section);
    if (bytes.empty()) continue;
    out.byte(static_cast<std::uint8_t>(section));
    out.bytes(bytes);
  }
  return value;
}

base::Result<void> UserState::decode_head(std::string_view value, bool& external) {
  Decoder in(value);
  const std::uint8_t version = in.byte();
  const std::uint8_t flags = in.byte();
  if (!in.ok() || version != kUserVersion) return corrupt("head");
  external = (flags & kExternal) != 0;
  if ((flags & kHasProfile) != 0) {
    profile.emplace();
    profile->time_ms = in.zigzag();
    profile->segment = in.optional_bytes();
    profile->blocked_authors = decode_strings(in);
    profile->blocked_tags = decode_strings(in);
  }
  if ((flags & kHasTotal) != 0) total.decode(in);
  if ((flags & kHasResiduals) != 0) residuals.decode(in);
  while (in.ok() && !in.at_end()) {
    const std::size_t section = in.byte();
    const std::string_view bytes = in.bytes();
    if (!in.ok() || section >= kUserSections) return corrupt("head");
    SF_TRY(decode_section(section, bytes));
  }
  if (!in.finished()) return corrupt("head");
  return {};
}

base::Result<void> UserState::decode_section(std::size_t section, std::string_view value) {
  Decoder in(value);
  if (section == kSequenceSection) {
    sequence.resize(in.count(18));
    base::UnixMs time = 0;
    ingest::Offset offset = 0;
    for (SequenceEntry& entry : sequence) {
      entry = decode_entry(in, !residuals.empty(), time, offset);
    }
    if (!in.finished()) return corrupt("sequence");
  } else if (section <= kUserBuckets) {
    const std::size_t count = in.count(9);
    for (std::size_t i = 0; i < count; ++i) {
      SeenItem entry;
      entry.item = in.fixed<Key>();
      entry.first_ms = in.zigzag();
      const bool in_order = seen.empty() || seen.back().item < entry.item;
      if (!in_order || seen_section(entry.item) != section) return corrupt("seen set");
      seen.push_back(entry);
    }
    if (!in.finished()) return corrupt("seen set");
  } else {
    const std::size_t bucket = section - 1 - kUserBuckets;
    const bool in_order = decode_pairs(in, bucket, pairs) &&
                          (residuals.empty() || decode_pairs(in, bucket, residual_pairs));
    if (!in_order || !in.finished()) return corrupt("counters");
  }
  return {};
}

}  // namespace sirenfeed::features
