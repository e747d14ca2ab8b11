#pragma once
// Whether a static member that its group has fenced may join again.
//
// A member that was away for longer than its session is somebody else for its group: its partitions
// are lost, and the first request in its old name fences it. The same happens to one whose name
// another process has taken meanwhile, and it looks the same from here: joining again would then
// fence that one in turn, and so on. So a member joins again once; who is fenced again before a
// session has passed since, which no absence of its own explains, is not alone with its name.
#include <chrono>
#include <optional>

namespace sirenfeed::ingest {

/// Threads: one.
class KafkaRejoin {
 public:
  using Time = std::chrono::steady_clock::time_point;

  explicit KafkaRejoin(std::chrono::milliseconds session) : session_(session) {}

  /// The group has given partitions, or taken them: `lost`, because the session had ended.
  void assigned() { away_ = false; }
  void taken(bool lost) { away_ = away_ || lost; }

  /// The member was fenced at `now`. True: join again, once.
  bool fenced(Time now) {
    const bool just_joined = joined_again_ && now - *joined_again_ < session_;
    const bool again = away_ && !just_joined;
    away_ = false;
    if (again) joined_again_ = now;
    return again;
  }

 private:
  const std::chrono::milliseconds session_;
  bool away_ = false;  // the session ended, and the group has given nothing since
  std::optional<Time> joined_again_;
};

}  // namespace sirenfeed::ingest
