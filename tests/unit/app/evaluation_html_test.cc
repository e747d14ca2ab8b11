#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "app/evaluation_output.h"

namespace sirenfeed::app {
namespace {

TEST(ReportHtml, HoldsItsDataStyleScriptAndChartLibrary) {
  const std::string page = report_html(R"({"file":"a"})");
  for (const char* part :
       {"{\"file\":\"a\"}", "prefers-color-scheme", "drawForest", "Chart.js v"}) {
    EXPECT_NE(page.find(part), std::string::npos) << part;
  }
}

TEST(ReportHtml, FetchesNothing) {
  const std::string page = report_html("{}");
  EXPECT_EQ(page.find("<script src"), std::string::npos);
  EXPECT_EQ(page.find("<link rel=\"stylesheet\""), std::string::npos);
  EXPECT_EQ(page.find("@import"), std::string::npos);
}

TEST(ReportHtml, AFileNameCannotEndTheScript) {
  const std::string json =
      boost::json::serialize(boost::json::object{{"file", "</script><script>alert(1)</script>"}});
  const std::string page = report_html(json);
  EXPECT_EQ(page.find("alert(1)</script>"), std::string::npos);
  const std::size_t begin = page.find("id=\"report\">") + 12;
  const std::string data = page.substr(begin, page.find("</script>", begin) - begin);
  EXPECT_EQ(boost::json::parse(data), boost::json::parse(json));
}

}  // namespace
}  // namespace sirenfeed::app
