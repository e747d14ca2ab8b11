// Stored values that are damaged: refused, or at least harmless.
#include <example.pb.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "features/encode.h"
#include "features/outbox_value.h"
#include "features/partition_state.h"
#include "features/user_state.h"

namespace sirenfeed::features {
namespace {

std::string seen_section_of(std::initializer_list<Key> items) {
  std::string value;
  Encoder out(value);
  out.varint(items.size());
  for (const Key item : items) {
    out.fixed(item);
    out.zigzag(5);
  }
  return value;
}

TEST(StoredValue, ASeenSetOfAnotherSectionOrOrderIsRefused) {
  const Key one = 0x10, two = 0x20;  // both of the first bucket
  UserState state;
  EXPECT_TRUE(state.decode_section(seen_section(one), seen_section_of({one, two})));
  EXPECT_EQ(state.seen.size(), 2U);
  EXPECT_TRUE(state.seen_before(two, 6));
  EXPECT_FALSE(UserState().decode_section(seen_section(one), seen_section_of({two, one})));
  EXPECT_FALSE(UserState().decode_section(seen_section(one), seen_section_of({one, one})));
  EXPECT_FALSE(UserState().decode_section(seen_section(one) + 1, seen_section_of({one, two})));
}

TEST(StoredValue, CountersOfAnotherSectionAreRefused) {
  const auto section_of = [](std::initializer_list<Key> keys) {
    std::string value;
    Encoder out(value);
    out.varint(keys.size());
    for (const Key key : keys) {
      out.fixed(key);
      out.byte(0);
      UserCounter counter;
      counter.add(1'000, Count::kShown);
      counter.encode(out);
    }
    return value;
  };
  EXPECT_TRUE(UserState().decode_section(pair_section(1), section_of({1, 2})));
  EXPECT_FALSE(UserState().decode_section(pair_section(1), section_of({2, 1})));
  EXPECT_FALSE(UserState().decode_section(pair_section(1) + 1, section_of({1, 2})));
}

TEST(StoredValue, AnOutboxEntryIsWholeOrNone) {
  const std::string stored = OutboxValue{-5, "user-1", "an example"}.encode();
  const auto entry = OutboxValue::decode(stored);
  ASSERT_TRUE(entry);
  EXPECT_EQ(entry->time_ms, -5);
  EXPECT_EQ(entry->key, "user-1");
  EXPECT_EQ(entry->bytes, "an example");
  for (std::size_t bytes = 0; bytes < stored.size(); ++bytes) {
    EXPECT_FALSE(OutboxValue::decode(std::string_view(stored).substr(0, bytes))) << bytes;
  }
  EXPECT_FALSE(OutboxValue::decode(stored + "x"));
}

TEST(StoredValue, TimesThatWouldOverflowWrapAround) {
  std::string value;
  Encoder out(value);
  out.varint(2);
  for (int i = 0; i < 2; ++i) {  // twice the greatest difference
    out.fixed(Key{7});
    out.zigzag(std::numeric_limits<std::int64_t>::max());
    out.zigzag(std::numeric_limits<std::int64_t>::max());
    out.fixed(Key{0});
    out.varint(1);
  }
  UserState state;
  ASSERT_TRUE(state.decode_section(kSequenceSection, value));
  EXPECT_EQ(state.sequence[1].time_ms, -2);
  EXPECT_EQ(state.encode_section(kSequenceSection), value);
}

TEST(StoredValue, AHeldRecordOfATopicThatHoldsNoEventsIsRefused) {
  ingest::InputRecord record;
  record.source = {ingest::Topic::kClicks, 3};
  record.payload = R"({"user_id":"u","item_id":"a","timestamp":1650000000000})";
  std::string value = encode_held(record);
  const auto held = decode_held(value);
  ASSERT_TRUE(held) << held.error().message;
  EXPECT_EQ(held->time_ms, 1'650'000'000'000);
  for (const int topic : {2, 5, 6, 7, 200}) {
    value[1] = static_cast<char>(topic);
    EXPECT_FALSE(decode_held(value)) << topic;
  }
}

}  // namespace
}  // namespace sirenfeed::features
