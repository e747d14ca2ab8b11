#pragma once
#include <cstdint>
#include <vector>

namespace sirenfeed::model {

/// Numbers distinct 64-bit keys 0, 1, … in order of first use. clear() is cheap and keeps memory.
class KeyIndex {
 public:
  void clear() {
    keys_.clear();
    ++generation_;
  }

  /// The key's number, given on first use.
  std::uint32_t find_or_add(std::uint64_t key) {
    if (keys_.size() * 2 >= slots_.size()) grow();
    const std::size_t mask = slots_.size() - 1;
    std::size_t at = home(key, mask);
    while (slots_[at].generation == generation_) {
      if (keys_[slots_[at].number] == key) return slots_[at].number;
      at = (at + 1) & mask;
    }
    const auto number = static_cast<std::uint32_t>(keys_.size());
    slots_[at] = {generation_, number};
    keys_.push_back(key);
    return number;
  }

  [[nodiscard]] std::size_t size() const { return keys_.size(); }
  [[nodiscard]] const std::vector<std::uint64_t>& keys() const { return keys_; }

 private:
  struct Slot {
    std::uint64_t generation = 0;
    std::uint32_t number = 0;
  };

  static std::size_t home(std::uint64_t key, std::size_t mask) {
    return ((key * 0x9E3779B97F4A7C15ULL) >> 20U) & mask;
  }

  void grow() {
    const std::size_t size = slots_.empty() ? 64 : slots_.size() * 2;
    slots_.assign(size, Slot{});
    ++generation_;
    for (std::uint32_t number = 0; number < keys_.size(); ++number) {
      std::size_t at = home(keys_[number], size - 1);
      while (slots_[at].generation == generation_) at = (at + 1) & (size - 1);
      slots_[at] = {generation_, number};
    }
  }

  std::vector<std::uint64_t> keys_;
  std::vector<Slot> slots_;
  std::uint64_t generation_ = 1;
};

}  // namespace sirenfeed::model
