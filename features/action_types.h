#pragma once
// The small numbers that sequence entries keep for the names of action types.
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/result.h"
#include "features/user_state.h"

namespace sirenfeed::features {

/// Types are publishers' free text, so their number is bounded: what comes after the limit shares
/// one number, "other". Configured names are there from the start. Threads: intern(), commit() and
/// rollback() from the applying thread; names from any.
class ActionTypes {
 public:
  static constexpr std::size_t kTypesMax = 64;  // a bit each in a pending cell

  /// `stored`: encode()'s bytes, empty for a new store.
  static base::Result<std::vector<std::string>> decode(std::string_view stored);

  explicit ActionTypes(std::vector<std::string> names) : names_(std::move(names)) {}

  ActionType intern(std::string_view name);
  [[nodiscard]] std::string name(ActionType type) const;
  [[nodiscard]] std::vector<std::string> names() const;

  [[nodiscard]] bool changed() const { return names_.size() != stored_; }
  [[nodiscard]] std::string encode() const;
  void commit() { stored_ = names_.size(); }
  void rollback();
  /// At open: what the store has, and that all names of now stay whatever is rolled back.
  void set_stored(std::size_t count) {
    stored_ = count;
    pinned_ = names_.size();
  }

 private:
  mutable base::Mutex mutex_;       // guards growth of names_; the applying thread reads without
  std::vector<std::string> names_;  // by type
  std::size_t stored_ = 0;
  std::size_t pinned_ = 0;
};

}  // namespace sirenfeed::features
