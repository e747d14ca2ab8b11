#pragma once
// Exactly once: which examples of a partition are new, seen before, or out of order.
#include <cstdint>
#include <optional>
#include <string>

#include "trainer/checkpoint.h"

namespace sirenfeed::trainer {

/// The order of one partition of topic examples, as it is read. Threads: one.
class ExampleOrder {
 public:
  enum class Verdict { kAccept, kDuplicate, kStop };

  /// `last`: the last example that was learned; nullopt begins with whatever comes first.
  explicit ExampleOrder(std::optional<PartitionPosition> last);

  /// kAccept: the example after the last accepted one, or the next epoch's first (its sequence 0 or
  /// 1), and becomes the last. kDuplicate: at or before the last. kStop: see `reason`; the order is
  /// left as it was.
  Verdict check(std::uint64_t epoch, std::uint64_t sequence, std::string& reason);
  /// An example was accepted, or there was a last one to begin with.
  [[nodiscard]] bool begun() const { return last_.has_value(); }
  /// A record that is no example: it may stand for one sequence number, which is then not missing.
  void note_undecodable() { ++undecodable_; }

 private:
  struct Last {
    std::uint64_t epoch = 0;
    std::uint64_t sequence = 0;
  };
  std::optional<Last> last_;
  std::uint64_t undecodable_ = 0;  // since the last accepted example
};

}  // namespace sirenfeed::trainer
