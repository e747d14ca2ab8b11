#pragma once
// std::mutex with clang's thread-safety annotations (libstdc++'s own is not annotated).
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define SF_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define SF_THREAD_ATTRIBUTE(x)
#endif
#define SF_CAPABILITY SF_THREAD_ATTRIBUTE(capability("mutex"))
#define SF_SCOPED_CAPABILITY SF_THREAD_ATTRIBUTE(scoped_lockable)
#define SF_GUARDED_BY(m) SF_THREAD_ATTRIBUTE(guarded_by(m))
#define SF_ACQUIRE(...) SF_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define SF_RELEASE(...) SF_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
#define SF_REQUIRES(...) SF_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define SF_EXCLUDES(...) SF_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))

namespace sirenfeed::base {

class SF_CAPABILITY Mutex {
 public:
  void lock() SF_ACQUIRE() { mutex_.lock(); }
  void unlock() SF_RELEASE() { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

/// Holds a Mutex for its own lifetime; `wait` releases it while waiting on a condition variable.
class SF_SCOPED_CAPABILITY MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) SF_ACQUIRE(mutex) : lock_(mutex.mutex_) {}
  ~MutexLock() SF_RELEASE() = default;
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;
  void wait(std::condition_variable& condition) { condition.wait(lock_); }
  /// False when `timeout` passed without a notification.
  template <class Rep, class Period>
  bool wait_for(std::condition_variable& condition,
                const std::chrono::duration<Rep, Period>& timeout) {
    return condition.wait_for(lock_, timeout) == std::cv_status::no_timeout;
  }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace sirenfeed::base
