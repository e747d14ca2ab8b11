#pragma once
// A queue between two stages, bounded in entries and in bytes: a full queue makes the producer
// wait.
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "base/mutex.h"

namespace sirenfeed::base {

/// Threads: any number of producers and consumers. After close(), push() refuses and pop() drains.
template <class T>
class BoundedQueue {
 public:
  struct Limits {
    std::size_t entries_max = 1024;
    std::size_t bytes_max = 64U << 20U;  // soft: an empty queue takes one oversize entry
  };

  explicit BoundedQueue(Limits limits) : limits_(limits) {}

  /// Waits for room; false when the queue was closed (the value is dropped by the caller).
  bool push(T value, std::size_t bytes = 1) SF_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      while (!closed_ && !has_room(bytes)) lock.wait(room_);
      if (closed_) return false;
      entries_.emplace_back(std::move(value), bytes);
      bytes_ += bytes;
    }
    filled_.notify_one();
    return true;
  }

  /// Waits for an entry; nullopt when the queue is closed and empty.
  std::optional<T> pop() SF_EXCLUDES(mutex_) {
    std::optional<T> value;
    {
      MutexLock lock(mutex_);
      while (entries_.empty() && !closed_) lock.wait(filled_);
      value = take();
    }
    room_.notify_one();
    return value;
  }

  /// As pop(), but nullopt also when nothing came within `timeout`.
  std::optional<T> pop_for(std::chrono::milliseconds timeout) SF_EXCLUDES(mutex_) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    std::optional<T> value;
    {
      MutexLock lock(mutex_);
      while (entries_.empty() && !closed_) {
        const auto left = deadline - std::chrono::steady_clock::now();
        if (left <= left.zero() || !lock.wait_for(filled_, left)) break;
      }
      value = take();
    }
    room_.notify_one();
    return value;
  }

  void close() SF_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    room_.notify_all();
    filled_.notify_all();
  }

  [[nodiscard]] std::size_t size() const SF_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return entries_.size();
  }
  [[nodiscard]] std::size_t bytes() const SF_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return bytes_;
  }

 private:
  bool has_room(std::size_t bytes) const SF_REQUIRES(mutex_) {
    return entries_.empty() ||
           (entries_.size() < limits_.entries_max && bytes_ + bytes <= limits_.bytes_max);
  }
  std::optional<T> take() SF_REQUIRES(mutex_) {
    if (entries_.empty()) return std::nullopt;
    std::optional<T> value(std::move(entries_.front().first));
    bytes_ -= entries_.front().second;
    entries_.pop_front();
    return value;
  }

  const Limits limits_;
  mutable Mutex mutex_;
  std::condition_variable room_;
  std::condition_variable filled_;
  std::deque<std::pair<T, std::size_t>> entries_ SF_GUARDED_BY(mutex_);
  std::size_t bytes_ SF_GUARDED_BY(mutex_) = 0;
  bool closed_ SF_GUARDED_BY(mutex_) = false;
};

}  // namespace sirenfeed::base
