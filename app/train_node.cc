#include "app/train_node.h"

#include "app/folder_lock.h"
#include "base/clock.h"
#include "model/model.h"
#include "model/model_store.h"
#include "trainer/probe.h"

namespace sirenfeed::app {

struct TrainNode::Impl {
  Impl(FolderLock lock_in, model::ModelStoreWriter store_in, base::MetricsRegistry& registry,
       const std::vector<std::string>& tasks)
      : lock(std::move(lock_in)), store(std::move(store_in)), probe(registry, tasks) {}

  FolderLock lock;
  model::ModelStoreWriter store;
  trainer::TrainerProbe probe;
  base::WallClock wall_clock;
  base::SteadyClock steady_clock;
  std::unique_ptr<trainer::TrainLoop> loop;
};

base::Result<std::unique_ptr<TrainNode>> TrainNode::open(const Settings& settings,
                                                         ingest::EventLog& log,
                                                         base::MetricsRegistry& registry) {
  SF_ASSIGN(FolderLock lock, FolderLock::take(settings.trainer_dir()));
  SF_ASSIGN(model::ModelStoreWriter store, model::ModelStoreWriter::open(settings.model_store()));
  SF_ASSIGN(const model::Model start, model::make_model(settings.model));
  auto impl =
      std::make_unique<Impl>(std::move(lock), std::move(store), registry, settings.model.tasks);
  SF_ASSIGN(impl->loop, trainer::TrainLoop::create(
                            settings.trainer, start,
                            {log, impl->store, impl->probe, impl->wall_clock, impl->steady_clock}));
  return std::unique_ptr<TrainNode>(new TrainNode(std::move(impl)));
}

TrainNode::TrainNode(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TrainNode::~TrainNode() { stop(); }
void TrainNode::start() { impl_->loop->start(); }
void TrainNode::stop() { impl_->loop->stop(); }
base::Result<void> TrainNode::run() { return impl_->loop->run(); }
trainer::TrainStatus TrainNode::status() const { return impl_->loop->status(); }

}  // namespace sirenfeed::app
