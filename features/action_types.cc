#include "features/action_types.h"

#include <algorithm>

#include "features/encode.h"

namespace sirenfeed::features {
namespace {
constexpr std::uint8_t kTypesVersion = 1;
constexpr std::string_view kOther = "other";
}  // namespace

base::Result<std::vector<std::string>> ActionTypes::decode(std::string_view stored) {
  std::vector<std::string> names;
  if (stored.empty()) return names;
  Decoder in(stored);
  const std::uint8_t version = in.byte();
  names.resize(in.count());
  for (std::string& name : names) name = in.bytes();
  if (version != kTypesVersion || !in.finished() || names.size() > kTypesMax) {
    return base::fail(base::ErrorCode::kCorrupt, "the stored list of action types is damaged");
  }
  return names;
}

ActionType ActionTypes::intern(std::string_view name) {
  for (std::size_t i = 0; i < names_.size(); ++i) {
    if (names_[i] == name) return static_cast<ActionType>(i);
  }
  base::MutexLock lock(mutex_);
  if (names_.size() + 1 < kTypesMax) {
    names_.emplace_back(name);
  } else if (names_.size() < kTypesMax) {
    names_.emplace_back(kOther);
  }
  return static_cast<ActionType>(names_.size() - 1);
}

std::string ActionTypes::name(ActionType type) const {
  base::MutexLock lock(mutex_);
  return type < names_.size() ? names_[type] : std::string(kOther);
}
std::vector<std::string> ActionTypes::names() const {
  base::MutexLock lock(mutex_);
  return names_;
}

std::string ActionTypes::encode() const {
  std::string value;
  Encoder out(value);
  out.byte(kTypesVersion);
  out.varint(names_.size());
  for (const std::string& name : names_) out.bytes(name);
  return value;
}

void ActionTypes::rollback() {
  base::MutexLock lock(mutex_);
  names_.resize(std::max(stored_, pinned_));
}

}  // namespace sirenfeed::features
