#include "ingest/dead_letter.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "base/hash.h"
#include "ingest/base64.h"

namespace sirenfeed::ingest {
namespace {

InputRecord record_of(std::string payload) {
  InputRecord record;
  record.source = {Topic::kClicks, 3};
  record.offset = 17;
  record.log_time_ms = 1650812741436;
  record.hash = base::xxh3_64(payload);
  record.payload = std::move(payload);
  return record;
}

DeadLetter round_trip(const DeadLetter& letter) {
  const auto read = parse_dead_letter(dead_letter_json(letter));
  EXPECT_TRUE(read) << read.error().message;
  return read.value_or(DeadLetter{});
}

void expect_equal(const DeadLetter& a, const DeadLetter& b) {
  EXPECT_EQ(a.source, b.source);
  EXPECT_EQ(a.offset, b.offset);
  EXPECT_EQ(a.log_time_ms, b.log_time_ms);
  EXPECT_EQ(a.rejection.reason, b.rejection.reason);
  EXPECT_EQ(a.rejection.detail, b.rejection.detail);
  EXPECT_EQ(a.hash, b.hash);
  EXPECT_EQ(a.payload_bytes, b.payload_bytes);
  EXPECT_EQ(a.payload, b.payload);
}

TEST(DeadLetter, IsReadAsItWasWritten) {
  for (const std::string& payload :
       {std::string(), std::string("{\"user_id\": \"ü\"\n}"), std::string("\xff\x00\x01", 3),
        std::string("\0", 1), std::string(100, '\xf0')}) {
    const DeadLetter letter = dead_letter_of(
        record_of(payload), {RejectReason::kWrongPartition, "key: expected \"u\", got\tnothing"});
    EXPECT_EQ(letter.payload_bytes, payload.size());
    expect_equal(round_trip(letter), letter);
  }
}

TEST(DeadLetter, HasItsDocumentedForm) {
  const DeadLetter letter =
      dead_letter_of(record_of("{"), {RejectReason::kNotJson, "expected one JSON object"});
  EXPECT_EQ(dead_letter_json(letter),
            R"({"topic":"clicks","partition":3,"offset":17,"log_time":1650812741436,)"
            R"("reason":"not_json","detail":"expected one JSON object",)"
            R"("hash":"c2346e20f5a5dd1e","payload_bytes":1,"payload":"{"})");
  const DeadLetter binary = dead_letter_of(record_of("\xff\xfe"), {RejectReason::kNotJson, ""});
  EXPECT_NE(dead_letter_json(binary).find(R"("payload_base64":"//4=")"), std::string::npos);
}

TEST(DeadLetter, LongPayloadsAreCutBetweenCharacters) {
  std::string payload(kDeadLetterPayloadMax - 1, 'x');
  payload += "ü and more";
  const DeadLetter text = dead_letter_of(record_of(payload), {});
  EXPECT_EQ(text.payload, std::string(kDeadLetterPayloadMax - 1, 'x'));
  EXPECT_EQ(text.payload_bytes, payload.size());
  EXPECT_EQ(dead_letter_json(text).find("base64"), std::string::npos);
  const std::string binary(kDeadLetterPayloadMax + 5, '\xff');
  EXPECT_EQ(dead_letter_of(record_of(binary), {}).payload.size(), kDeadLetterPayloadMax);
  const std::string exact(kDeadLetterPayloadMax, 'x');
  EXPECT_EQ(dead_letter_of(record_of(exact), {}).payload, exact);
  EXPECT_EQ(dead_letter_of(record_of(exact + "ü"), {}).payload, exact);
}

TEST(DeadLetter, BadOnesNameTheMember) {
  const std::string good =
      dead_letter_json(dead_letter_of(record_of("x"), {RejectReason::kNotJson, ""}));
  const auto error = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    const auto read = parse_dead_letter(text);
    return read ? "none" : read.error().message;
  };
  EXPECT_EQ(error("clicks", "clacks"), "dead letter: topic: expected the name of a topic");
  EXPECT_EQ(error("not_json", "no_json"), "dead letter: reason: expected the name of a reason");
  EXPECT_EQ(error("\"offset\":17", "\"offset\":\"17\""),
            "dead letter: offset: expected an integer");
  EXPECT_EQ(error("\"offset\":17,", ""), "dead letter: offset: expected an integer");
  EXPECT_EQ(error("\"payload\":\"x\"", "\"payload_base64\":\"x\""),
            "dead letter: payload_base64: expected base64");
  EXPECT_EQ(error("\"hash\":\"", "\"hash\":\"z"), "dead letter: hash: expected 16 hex digits");
  EXPECT_EQ(parse_dead_letter("[]").error().message, "dead letter: expected a JSON object");
}

TEST(RejectReason, NamesMapBothWays) {
  EXPECT_EQ(reject_reason_from_name("tombstone"), RejectReason::kTombstone);
  EXPECT_EQ(reject_reason_from_name("undecodable"), RejectReason::kUndecodable);
  EXPECT_EQ(reject_reason_from_name(""), std::nullopt);
  EXPECT_EQ(reject_reason_from_name("unknown"), std::nullopt);
}

TEST(Base64, DecodesWhatItEncodes) {
  EXPECT_EQ(base64_encode("foobar"), "Zm9vYmFy");
  EXPECT_EQ(base64_encode("fooba"), "Zm9vYmE=");
  EXPECT_EQ(base64_encode("foob"), "Zm9vYg==");
  constexpr unsigned kSeed = 5;
  std::mt19937 random(kSeed);
  for (std::size_t size = 0; size < 100; ++size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes) << "seed " << kSeed << " size " << size;
  }
  EXPECT_EQ(base64_decode("Zm9"), std::nullopt);
  EXPECT_EQ(base64_decode("Zm9!"), std::nullopt);
}

}  // namespace
}  // namespace sirenfeed::ingest
