#include "serving/model_slot.h"

#include <cmath>

#include "base/log.h"

namespace sirenfeed::serving {

using base::ErrorCode;
using base::fail;
using base::MutexLock;

ModelSlot::ModelSlot(const ModelSlotConfig& config, std::string store_dir,
                     const base::Clock& wall_clock, ServingProbe& probe)
    : config_(config), wall_clock_(wall_clock), probe_(probe), store_(std::move(store_dir)) {
  MutexLock store_lock(store_mutex_);
  const auto manifests = store_.list();
  if (!manifests) return;  // an empty or missing store; poll_once() says so
  MutexLock lock(mutex_);
  for (const model::Manifest& manifest : *manifests) append_history(manifest);
}

ModelSlot::~ModelSlot() { stop(); }

void ModelSlot::start() {
  if (thread_.joinable()) return;
  thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
}

void ModelSlot::stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  wake_.notify_all();
  thread_.join();
}

void ModelSlot::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    (void)poll_once();  // it has logged and counted what went wrong
    MutexLock lock(wake_mutex_);
    if (!stop.stop_requested()) lock.wait_for(wake_, config_.poll_interval);
  }
}

base::Result<bool> ModelSlot::poll_once() {
  // Held until the swap: of two lookers the later one must not put the older answer in.
  MutexLock store_lock(store_mutex_);
  base::Result<Snapshot> polled = store_.poll();
  std::optional<std::uint64_t> wanted;
  if (auto version = store_.wanted()) wanted = *version;
  if (polled && *polled) {
    if (auto checked = check_canaries(**polled); !checked) polled = fail(checked.error());
  }
  MutexLock lock(mutex_);
  if (!polled) {
    // poll() reports a refused version once; a store that cannot be read, every time.
    if (status_.last_error != polled.error().message) {
      probe_.model_refused.add();
      base::log_warning("model: version {} is not served: {}; version {} stays", wanted.value_or(0),
                        polled.error().message, status_.version);
    }
    status_.refused_version = wanted.value_or(0);
    status_.last_error = polled.error().message;
  }
  const base::UnixMs now = wall_clock_.now_ms();
  const bool swapped = polled && *polled;
  if (swapped) {
    current_ = *std::move(polled);
    status_ = {.version = current_->manifest.version,
               .created_ms = current_->manifest.created_ms,
               .loaded_ms = now,
               .refused_version = 0,
               .last_error = ""};
    append_history(current_->manifest);
    if (const std::int64_t arrival = current_->first_arrival_ms; arrival > 0) {
      probe_.example_to_served.observe(static_cast<double>(now - arrival) / 1000.0);
    }
    probe_.model_swaps.add();
    probe_.model_version.set(static_cast<double>(status_.version));
    base::log_debug("model: version {} is served", status_.version);
  }
  if (current_) probe_.model_age.set(static_cast<double>(now - status_.created_ms) / 1000.0);
  if (!polled) return fail(polled.error());
  return swapped;
}

/// The store compares a version's canary logits with its manifest; here they must also be such that
/// a feed can be ordered by them.
base::Result<void> ModelSlot::check_canaries(const model::ModelSnapshot& snapshot) const {
  model::Workspace workspace;
  std::vector<float> logits;
  for (const model::Slate& slate : model::canary_slates(snapshot.model)) {
    logits.resize(slate.candidates.size() * snapshot.model.config.n_tasks());
    SF_TRY(model::score(*snapshot.ranker, snapshot.model, slate, workspace, logits));
    for (const float logit : logits) {
      if (!(std::abs(static_cast<double>(logit)) <= config_.canary_logit_abs_max)) {
        return fail(ErrorCode::kCorrupt, "version {}: canary scoring gave the logit {}",
                    snapshot.manifest.version, logit);
      }
    }
  }
  return {};
}

void ModelSlot::append_history(const model::Manifest& manifest) {
  for (const model::Manifest& known : history_) {
    if (known.version == manifest.version) return;  // an older version that was pinned
  }
  history_.push_back(manifest);
  while (history_.size() > config_.history_versions_max) history_.pop_front();
}

ModelSlot::Snapshot ModelSlot::current() const {
  MutexLock lock(mutex_);
  return current_;
}

ModelStatus ModelSlot::status() const {
  MutexLock lock(mutex_);
  return status_;
}

std::vector<model::Manifest> ModelSlot::history() const {
  MutexLock lock(mutex_);
  return {history_.begin(), history_.end()};
}

base::Result<std::vector<model::Manifest>> ModelSlot::list() {
  MutexLock lock(store_mutex_);
  return store_.list();
}

base::Result<std::optional<std::uint64_t>> ModelSlot::pinned() {
  MutexLock lock(store_mutex_);
  return store_.pinned();
}

base::Result<void> ModelSlot::pin(std::uint64_t version) {
  {
    MutexLock lock(store_mutex_);
    SF_TRY(store_.pin(version));
  }
  SF_TRY(poll_once());
  return {};
}

base::Result<void> ModelSlot::unpin() {
  {
    MutexLock lock(store_mutex_);
    SF_TRY(store_.unpin());
  }
  SF_TRY(poll_once());
  return {};
}

base::Result<std::uint64_t> ModelSlot::rollback() {
  model::ModelStoreReader::Rollback done;
  {
    MutexLock lock(store_mutex_);
    SF_ASSIGN(done, store_.rollback());
  }
  for (const std::string& skipped : done.skipped) {
    probe_.model_refused.add();
    base::log_warning("model: the rollback passes over a version: {}", skipped);
  }
  SF_TRY(poll_once());
  return done.version;
}

}  // namespace sirenfeed::serving
