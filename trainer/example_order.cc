#include "trainer/example_order.h"

#include <fmt/format.h>

namespace sirenfeed::trainer {

namespace {
constexpr std::uint64_t kFirstSequenceMax = 1;  // an epoch begins with 0 or 1
}

ExampleOrder::ExampleOrder(std::optional<PartitionPosition> last) {
  if (last) last_ = Last{last->epoch, last->sequence};
}

ExampleOrder::Verdict ExampleOrder::check(std::uint64_t epoch, std::uint64_t sequence,
                                          std::string& reason) {
  if (last_) {
    const bool next_epoch = epoch == last_->epoch + 1;
    if (epoch < last_->epoch) {
      reason = fmt::format(
          "epoch {} comes after epoch {}: an old state is writing examples again; stop that serve, "
          "or rebuild its state",
          epoch, last_->epoch);
      return Verdict::kStop;
    }
    if (epoch == last_->epoch && sequence <= last_->sequence) return Verdict::kDuplicate;
    const std::uint64_t expected = next_epoch ? kFirstSequenceMax : last_->sequence + 1;
    if (epoch > last_->epoch + 1 || sequence > expected + undecodable_) {
      reason = fmt::format(
          "gap: expected epoch {} sequence {}, found epoch {} sequence {}: examples are missing "
          "from the log",
          next_epoch ? epoch : last_->epoch, expected, epoch, sequence);
      return Verdict::kStop;
    }
  }
  last_ = Last{epoch, sequence};
  undecodable_ = 0;
  return Verdict::kAccept;
}

}  // namespace sirenfeed::trainer
