// The page at / and what it needs, out of the binary.
#include "serving/api_parts.h"
#include "serving/web_assets.h"

namespace sirenfeed::serving {

void add_page_routes(const std::shared_ptr<ApiShared>& shared, std::vector<Route>& routes) {
  if (shared->parts.feeds == nullptr) return;  // `train` has nothing to show
  for (const WebAsset& asset : web_assets()) {
    routes.push_back(
        {"GET", std::string(asset.path), answer_with([asset](const HttpRequest&) {
           return HttpResponse{
               .status = 200,
               .content_type = std::string(asset.content_type) + "; charset=utf-8",
               .body = std::string(asset.bytes),
               .headers = {{"Cache-Control", "no-cache"},
                           {"Content-Security-Policy",
                            "default-src 'self'; img-src 'self' data:; base-uri 'none'; "
                            "frame-ancestors 'none'"}}};
         }),
         Scope::kPublic, /*inline_on_io=*/true});
  }
}

}  // namespace sirenfeed::serving
