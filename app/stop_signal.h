#pragma once
#include <stop_token>

namespace sirenfeed::app {

/// SIGINT and SIGTERM ask the process to stop: the first sets the token, a second one ends the
/// process at once, and so does the tenth second after the first. Call once, in main's thread,
/// before other threads start.
std::stop_token stop_on_signals();

}  // namespace sirenfeed::app
