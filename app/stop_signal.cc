#include "app/stop_signal.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <thread>

#include "base/log.h"

namespace sirenfeed::app {

namespace {

constexpr int kStopWaitMaxSeconds = 10;

}  // namespace

std::stop_token stop_on_signals() {
  // Blocked in every thread, taken by one that may do more than a handler could.
  static std::stop_source source;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  signal(SIGPIPE, SIG_IGN);
  std::thread([signals] {
    int signal_number = 0;
    sigwait(&signals, &signal_number);
    source.request_stop();
    // A client of a broker that went away may not come back from closing. State, outbox and
    // checkpoint survive a kill at any moment, so ending here costs only time.
    const timespec patience{kStopWaitMaxSeconds, 0};
    const int second = sigtimedwait(&signals, nullptr, &patience);
    if (second < 0) base::log_warning("not stopped within {} s: ending now", kStopWaitMaxSeconds);
    _exit(second < 0 ? 1 : 128 + second);
  }).detach();
  return source.get_token();
}

}  // namespace sirenfeed::app
