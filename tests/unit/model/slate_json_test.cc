#include "model/slate_json.h"

#include "base/hash.h"
#include "tests/unit/model/support.h"

namespace sirenfeed::model {
namespace {

ModelConfig two_features() {
  ModelConfig config;
  config.context_names = {"a", "b"};
  return config;
}

TEST(SlateJson, ReadsEveryFieldAndItsAbsence) {
  const auto slate = slate_from_json(
      two_features(), R"({"time":1650812741436,"segment":"de",)"
                      R"("history":[{"item":"i","tags":["x","y"],"author":null,)"
                      R"("time":null,"actions":["like","hide","click"]}],)"
                      R"("candidates":[{"item":"c","tags":[],"author":"p","context":[1,-2.5]}]})");
  ASSERT_TRUE(slate) << slate.error().message;
  EXPECT_EQ(slate->time_ms, 1650812741436);
  EXPECT_EQ(slate->segment, base::xxh3_64("de"));
  ASSERT_EQ(slate->history.size(), 1U);
  EXPECT_EQ(slate->history[0].time_ms, kUnknownTime);
  EXPECT_EQ(slate->history[0].action_bits, 0b101U);
  EXPECT_EQ(slate->history[0].item.author, kNoKey);
  EXPECT_EQ(slate->tags_of(slate->history[0].item).size(), 2U);
  ASSERT_EQ(slate->candidates.size(), 1U);
  EXPECT_EQ(slate->candidates[0].author, base::xxh3_64("p"));
  EXPECT_EQ(slate->context, (std::vector<float>{1.0F, -2.5F}));
}

TEST(SlateJson, SurfacesAreThoseOfTheRequestAndOfEachToken) {
  const auto slate = slate_from_json(
      two_features(), R"({"surface":"home","history":[{"item":"i","surface":"search"},)"
                      R"({"item":"i"}],"candidates":[{"item":"c","context":[1,2]}]})");
  ASSERT_TRUE(slate) << slate.error().message;
  EXPECT_EQ(slate->surface, base::xxh3_64("home"));
  EXPECT_EQ(slate->history[0].surface, base::xxh3_64("search"));
  EXPECT_EQ(slate->history[1].surface, kNoKey);
}

TEST(SlateJson, NamesTheFieldThatIsWrong) {
  const auto fault = [](const char* line) {
    const auto slate = slate_from_json(two_features(), line);
    return slate ? std::string("accepted") : slate.error().message;
  };
  EXPECT_NE(fault("{").find("not JSON"), std::string::npos);
  EXPECT_NE(fault("[]").find("not a JSON object"), std::string::npos);
  EXPECT_NE(fault(R"({"time":"x"})").find("time is not"), std::string::npos);
  EXPECT_NE(fault(R"({"candidates":[]})").find("candidates"), std::string::npos);
  EXPECT_NE(
      fault(R"({"candidates":[{"item":"a","context":[1]}]})").find("candidates[0].context has 1"),
      std::string::npos);
  EXPECT_NE(fault(R"({"candidates":[{"item":"a","context":[1,1e300]}]})").find("finite"),
            std::string::npos);
  EXPECT_NE(fault(R"({"history":[{"item":7}]})").find("history[0].item"), std::string::npos);
}

TEST(SlateJson, WritesOneRowACandidate) {
  const std::vector<float> logits = {0.5F, -1.0F, 0.1F, 3.0F};
  EXPECT_EQ(logits_to_json(logits, 2), R"({"logits":[[0.5,-1],[0.100000001,3]]})");
}

}  // namespace
}  // namespace sirenfeed::model
