#include "trainer/model_publisher.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>

#include "model/model_store.h"
#include "trainer/online_trainer.h"

namespace sirenfeed::trainer {

namespace {

std::vector<WindowFigures> figures_of(const std::vector<MetricWindow>& windows) {
  std::vector<WindowFigures> figures;
  for (const MetricWindow& window : windows) figures.push_back(window.figures());
  return figures;
}

}  // namespace

void ModelPublisher::note_learned(base::UnixMs arrived_ms) {
  unpublished_.first_ms =
      unpublished_.first_ms == 0 ? arrived_ms : std::min(unpublished_.first_ms, arrived_ms);
  unpublished_.last_ms = std::max(unpublished_.last_ms, arrived_ms);
}

// The snapshot shares the tables with the model that goes on learning.
void ModelPublisher::start(const OnlineTrainer& trainer, base::UnixMs newest_closed_ms) {
  version_ = Version{.model = trainer.model(),
                     .windows = trainer.windows(),
                     .counter_windows = trainer.counter_windows(),
                     .examples = trainer.examples(),
                     .batches = trainer.batches(),
                     .batches_skipped = trainer.batches_skipped(),
                     .newest_closed_ms = newest_closed_ms,
                     .arrivals = std::exchange(unpublished_, {})};
  task_.start([this] { return publish(*version_); });
}

base::Result<void> ModelPublisher::publish(Version& version) {
  const auto begin = std::chrono::steady_clock::now();
  version.figures = figures_of(version.windows);
  version.counter_figures = figures_of(version.counter_windows);
  const std::vector<std::string>& tasks = version.model.config.tasks;
  const std::string metrics = fmt::format(
      R"({{"examples":{},"batches":{},"batches_skipped":{},"progressive_at_close":{}{}}})",
      version.examples, version.batches, version.batches_skipped,
      figures_json(tasks, version.figures),
      version.counter_figures.empty()
          ? ""
          : ",\"counter_at_close\":" + figures_json(tasks, version.counter_figures));
  SF_TRY(store_.publish(version.model, clock_.now_ms(), metrics, version.arrivals));
  version.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return {};
}

std::optional<base::Result<void>> ModelPublisher::take_result() {
  const auto result = task_.take_result();
  if (!result) return std::nullopt;
  Version done = *std::exchange(version_, std::nullopt);
  if (!*result) {
    probe_.publish_errors.add();
    if (done.arrivals.first_ms > 0) {  // the next version brings them
      note_learned(done.arrivals.first_ms);
      note_learned(done.arrivals.last_ms);
    }
    return result;
  }
  probe_.publish_seconds.observe(done.seconds);
  probe_.published.add();
  probe_.set_model(done.model);
  probe_.set_progressive(done.figures);
  probe_.set_counter(done.counter_figures);
  const base::UnixMs now = clock_.now_ms();
  if (done.newest_closed_ms > 0) {
    probe_.closed_to_published_seconds.observe(static_cast<double>(now - done.newest_closed_ms) /
                                               1000.0);
  }
  published_examples_ = done.examples;
  figures_ = std::move(done.figures);
  if (full_task_.idle() && store_.full_due(now)) {
    full_task_.start([this] { return store_.write_full(clock_.now_ms()); });
  }
  return result;
}

}  // namespace sirenfeed::trainer
