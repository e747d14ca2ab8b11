#include "trainer/example_decoder.h"

#include <gtest/gtest.h>

#include <limits>

#include "tests/unit/trainer/synthetic_examples.h"

namespace sirenfeed::trainer {
namespace {

using base::ErrorCode;

features::Example example() {
  features::Example example = testing::make_examples({.examples = 1, .candidates = 2})[0];
  auto& history = *example.mutable_history();
  history.Clear();
  for (const std::uint64_t item : {11, 12}) history.add_item(item);
  for (const std::uint64_t author : {0, 5}) history.add_author(author);
  history.add_time_delta_ms(1'000);
  history.add_time_delta_ms(-300);
  history.add_action_bits(0);
  history.add_action_bits(5);
  history.add_tag_count(2);
  history.add_tag_count(0);
  history.add_tags(21);
  history.add_tags(22);
  return example;
}

base::Result<DecodedExample> decode(const features::Example& example) {
  return ExampleDecoder(testing::small_schema()).decode_bytes(example.SerializeAsString());
}

TEST(ExampleDecoder, GivesTheSlateAndItsLabels) {
  features::Example source = example();
  source.mutable_candidates(0)->set_label_bits(5);
  source.mutable_candidates(0)->set_mask_bits(3);
  for (const float weight : {2.0F, 0.5F, 1.0F}) source.mutable_candidates(0)->add_weight(weight);
  source.mutable_candidates(1)->set_label_bits(0);
  const auto decoded = decode(source);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  const model::Slate& slate = decoded->slate;
  EXPECT_EQ(slate.time_ms, source.time_ms());
  ASSERT_EQ(slate.history.size(), 2U);
  EXPECT_EQ(slate.history[0].time_ms, 1'000);
  EXPECT_EQ(slate.history[1].time_ms, 700);
  EXPECT_EQ(slate.history[1].action_bits, 5U);
  EXPECT_EQ(slate.tags_of(slate.history[0].item).size(), 2U);
  EXPECT_EQ(slate.tags_of(slate.history[0].item)[1], 22U);
  EXPECT_TRUE(slate.tags_of(slate.history[1].item).empty());
  ASSERT_EQ(slate.candidates.size(), 2U);
  EXPECT_EQ(slate.tags_of(slate.candidates[1])[0], source.candidates(1).tags(0));
  EXPECT_EQ(slate.context.size(), 6U);
  EXPECT_EQ(decoded->labels.label, (std::vector<float>{1, 0, 1, 0, 0, 0}));
  EXPECT_EQ(decoded->labels.weight, (std::vector<float>{2, 0.5, 0, 1, 1, 1}));
  EXPECT_FALSE(decoded->labels.correction);
}

TEST(ExampleDecoder, SurfacesOfTokensAreNumbersAmongTheHistorysOwn) {
  features::Example source = example();
  source.set_surface("home");
  auto& history = *source.mutable_history();
  history.add_surface(2);
  history.add_surface(0);
  history.add_surfaces(71);
  history.add_surfaces(72);
  const auto decoded = decode(source);
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->slate.surface, base::xxh3_64("home"));
  EXPECT_EQ(decoded->slate.history[0].surface, 72U);
  EXPECT_EQ(decoded->slate.history[1].surface, model::kNoKey);

  history.set_surface(1, 3);
  EXPECT_NE(decode(source).error().message.find("surface 3 of 2"), std::string::npos);
  history.mutable_surface()->RemoveLast();
  EXPECT_NE(decode(source).error().message.find("1 surfaces"), std::string::npos);
  history.clear_surface();  // as examples were written before
  EXPECT_EQ(decode(source)->slate.history[0].surface, model::kNoKey);
}

TEST(ExampleDecoder, BytesThatAreNoExampleAreUndecodable) {
  const ExampleDecoder decoder(testing::small_schema());
  EXPECT_EQ(decoder.decode_bytes("\xff\xff\xff").error().code, ErrorCode::kDecode);
  EXPECT_EQ(decoder.decode_bytes("").error().code, ErrorCode::kDecode);
}

TEST(ExampleDecoder, DamagedColumnsAreUndecodable) {
  features::Example source = example();
  source.mutable_history()->add_author(3);
  EXPECT_EQ(decode(source).error().code, ErrorCode::kDecode);
  source = example();
  source.mutable_history()->set_tag_count(1, 1);
  EXPECT_EQ(decode(source).error().code, ErrorCode::kDecode);
  source = example();
  source.mutable_history()->set_tag_count(0, std::numeric_limits<std::uint32_t>::max());
  EXPECT_EQ(decode(source).error().code, ErrorCode::kDecode);
  source = example();
  source.mutable_candidates(0)->add_context(0);
  EXPECT_EQ(decode(source).error().code, ErrorCode::kDecode);
  source = example();
  source.mutable_candidates(0)->add_weight(1);
  EXPECT_EQ(decode(source).error().code, ErrorCode::kDecode);
  source = example();
  source.clear_candidates();
  EXPECT_EQ(decode(source).error().code, ErrorCode::kDecode);
}

TEST(ExampleDecoder, AFeatureThatIsNotFiniteIsRefused) {
  for (const float bad :
       {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    features::Example source = example();
    source.mutable_candidates(1)->set_context(2, bad);
    EXPECT_EQ(decode(source).error().code, ErrorCode::kDecode);
  }
}

TEST(ExampleDecoder, ATimePastTheYear9999IsRefusedBeforeTheModelFollowsIt) {
  using Limits = std::numeric_limits<std::int64_t>;
  for (const std::int64_t time_ms : {std::int64_t{253'402'300'800'000}, Limits::max(),
                                     Limits::min(), std::int64_t{-253'402'300'800'000}}) {
    features::Example source = example();
    source.set_time_ms(time_ms);
    const auto decoded = decode(source);
    ASSERT_FALSE(decoded.has_value()) << time_ms;
    EXPECT_EQ(decoded.error().code, ErrorCode::kDecode);
  }
}

TEST(ExampleDecoder, ANewerVersionOrAnotherSchemaStopsTheTrainer) {
  features::Example source = example();
  source.set_version(kExampleVersion + 1);
  EXPECT_EQ(decode(source).error().code, ErrorCode::kInvalidArgument);
  source = example();
  source.set_context_schema(1);
  EXPECT_EQ(decode(source).error().code, ErrorCode::kInvalidArgument);
  EXPECT_NE(decode(source).error().message.find("context features"), std::string::npos);
  source = example();
  source.set_task_schema(1);
  EXPECT_EQ(decode(source).error().code, ErrorCode::kInvalidArgument);
  source = example();
  source.set_action_schema(1);
  EXPECT_EQ(decode(source).error().code, ErrorCode::kInvalidArgument);
}

TEST(ExampleDecoder, ALaterRevisionIsACorrection) {
  features::Example source = example();
  source.set_revision(1);
  source.mutable_candidates(0)->set_mask_bits(1);
  source.mutable_candidates(0)->set_label_bits(1);
  source.mutable_candidates(1)->set_mask_bits(0);
  const auto decoded = decode(source);
  ASSERT_TRUE(decoded.has_value()) << decoded.error().message;
  EXPECT_TRUE(decoded->labels.correction);
  source.mutable_candidates(0)->set_label_bits(0);
  EXPECT_EQ(decode(source).error().code, ErrorCode::kDecode);
}

}  // namespace
}  // namespace sirenfeed::trainer
