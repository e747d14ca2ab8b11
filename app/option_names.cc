#include "app/option_names.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace sirenfeed::app {
namespace {

/// Fields whose option is not just the section and the field's last name.
constexpr std::array<std::pair<std::string_view, std::string_view>, 18> kOthers = {{
    {"model.poll_interval", "serving.model_poll_interval_ms"},
    {"feed.scorer.task_weights", "serving.task_weight"},
    {"features.join.window_ms", "features.join_window_ms"},
    {"features.join.action_window_ms", "features.action_window_ms"},
    {"features.context.surfaces", "features.context_surfaces"},
    {"features.index.items_max", "features.index_items_max"},
    {"features.example.actions", "features.actions"},
    {"history_max", "features.history_max"},
    {"poll_wait", "ingest.poll_wait_ms"},
    {"idle_flush_after", "ingest.idle_flush_after_ms"},
    {"retry_wait_max", "ingest.retry_wait_max_ms"},
    {"merge_wait_max", "ingest.merge_wait_max_ms"},
    {"timestamp_min", "ingest.timestamp_min_ms"},
    {"future_max", "ingest.future_max_ms"},
    {"brokers", "brokers"},
    {"connect_wait_max", "kafka.connect_wait_max_ms"},
    {"session_timeout", "kafka.session_timeout_ms"},
    {"pairwise_weight", "trainer.pairwise_alpha"},
}};

std::string option_of(std::string_view section, std::string_view field) {
  for (const auto& [name, option] : kOthers) {
    if (name == field) return std::string(option);
  }
  const std::size_t dot = field.rfind('.');
  return fmt::format("{}.{}", section,
                     dot == std::string_view::npos ? field : field.substr(dot + 1));
}

}  // namespace

base::Error named_as_option(base::Error error, std::string_view section) {
  constexpr std::string_view kModelPrefix = "model config: ";
  std::string_view text = error.message;
  if (text.starts_with(kModelPrefix)) text.remove_prefix(kModelPrefix.size());
  const auto end = std::find_if(text.begin(), text.end(), [](char c) {
    return !((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.');
  });
  const std::string_view field = text.substr(0, static_cast<std::size_t>(end - text.begin()));
  const std::string_view rest = text.substr(field.size());
  const bool is_field = !field.empty() && (field.find_first_of("._") != std::string_view::npos ||
                                           rest.starts_with(":") || rest.starts_with(" is "));
  if (!is_field) return error;
  error.message = fmt::format("--{}{}", option_of(section, field), rest);
  return error;
}

base::Result<void> named_as_option(base::Result<void> result, std::string_view section) {
  if (result || result.error().code != base::ErrorCode::kInvalidArgument) return result;
  return base::fail(named_as_option(result.error(), section));
}

}  // namespace sirenfeed::app
