#include <string_view>

#include "app/evaluation_output.h"
#include "app/report_assets.h"
#include "base/check.h"

namespace sirenfeed::app {
namespace {

std::string_view asset(std::span<const WebAsset> assets, std::string_view path) {
  for (const WebAsset& one : assets) {
    if (one.path == path) return one.bytes;
  }
  SF_CHECK(false);  // it was linked in
  return {};
}

/// JSON inside a script element: no "<" that could end it.
std::string without_tags(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

void append_filled(std::string& page, std::string_view text, const std::string& json) {
  const auto files = report_assets();
  while (true) {
    const std::size_t begin = text.find("{{");
    page += text.substr(0, begin);
    if (begin == std::string_view::npos) return;
    const std::size_t end = text.find("}}", begin);
    SF_CHECK(end != std::string_view::npos);
    const std::string_view name = text.substr(begin + 2, end - begin - 2);
    if (name == "style") page += asset(files, "report.css");
    if (name == "script") page += asset(files, "report.js");
    if (name == "chart") page += asset(serving::web_assets(), "/chart.min.js");
    if (name == "data") page += without_tags(json);
    text.remove_prefix(end + 2);
  }
}

}  // namespace

std::string report_html(const std::string& json) {
  std::string page;
  append_filled(page, asset(report_assets(), "report.html"), json);
  return page;
}

}  // namespace sirenfeed::app
