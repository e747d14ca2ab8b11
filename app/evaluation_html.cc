#include "app/evaluation_output.h"

namespace sirenfeed::app {

std::string report_html(const std::string& json) { return json; }

}  // namespace sirenfeed::app
