#include "serving/http_message.h"

#include <gtest/gtest.h>

namespace sirenfeed::serving {
namespace {

TEST(ParseTarget, SplitsPathAndQueryAndKeepsValuesEncoded) {
  HttpRequest request;
  ASSERT_TRUE(parse_target("/v1/feed/u%201?exclude=a%2Cb,c&count=5&flag", request));
  EXPECT_EQ(request.path, (std::vector<std::string>{"v1", "feed", "u 1"}));
  ASSERT_EQ(request.query.size(), 3U);
  EXPECT_EQ(request.query[0].raw_value, "a%2Cb,c");
  EXPECT_EQ(request.query[2].name, "flag");
  EXPECT_EQ(request.query[2].raw_value, "");
}

TEST(PercentDecode, PlusIsASpaceOnlyInAQuery) {
  EXPECT_EQ(*percent_decode("a+b", true), "a b");
  EXPECT_EQ(*percent_decode("a+b", false), "a+b");
}

TEST(PercentDecode, RefusesBrokenEscapesControlCharactersAndWhatIsNoUtf8) {
  for (const char* text : {"%", "%1", "%g0", "%00", "%0a", "%7f", "%c3", "%ff"}) {
    EXPECT_FALSE(percent_decode(text, true)) << text;
  }
  EXPECT_EQ(*percent_decode("%c3%a9", true), "é");
}

TEST(Problem, TakesTheFieldFromAMessageThatBeginsWithIt) {
  const HttpResponse response =
      problem(base::Error{base::ErrorCode::kInvalidArgument, "count: 0 is not 1 to 200"});
  EXPECT_EQ(response.status, 400);
  EXPECT_EQ(response.content_type, "application/problem+json");
  EXPECT_NE(response.body.find(R"("field":"count")"), std::string::npos);
}

TEST(Problem, DamagedStateIsTheServersFault) {
  const HttpResponse response = problem(base::Error{
      base::ErrorCode::kCorrupt, "a stored user's head cannot be decoded; `sirenfeed rebuild` …"});
  EXPECT_EQ(response.status, 500);
  EXPECT_NE(response.body.find("sirenfeed rebuild"), std::string::npos);
}

TEST(Problem, IsUtf8WhateverItQuotes) {
  const HttpResponse response = problem(400, "user", "got \xff\xfe");
  EXPECT_NE(response.body.find("got ??"), std::string::npos);
}

TEST(Problem, BusyAnswersSayWhenToTryAgain) {
  for (const int status : {429, 503}) {
    const HttpResponse response = problem(status, "", "later");
    ASSERT_EQ(response.headers.size(), 1U);
    EXPECT_EQ(response.headers[0].first, "Retry-After");
  }
}

}  // namespace
}  // namespace sirenfeed::serving
