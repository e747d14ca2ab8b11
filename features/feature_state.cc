#include "features/feature_state.h"

#include <condition_variable>

#include "features/applier.h"
#include "features/encode.h"
#include "features/state_dump.h"
#include "features/state_reader.h"
#include "features/store_format.h"
#include "features/store_outbox.h"

namespace sirenfeed::features {
namespace {

base::Result<std::vector<std::string>> stored_types(const Store& store) {
  SF_ASSIGN(const auto value, store.get(Family::kState, node_prefix(kTypesLetter)));
  return ActionTypes::decode(value.value_or(""));
}

// Configured names come first in a new store, so that their numbers do not depend on the events.
void intern_configured(ActionTypes& types, const FeaturesConfig& config) {
  types.intern(config.context.click_action);
  types.intern(config.context.long_view_action);
  for (const std::string& action : config.example.actions) types.intern(action);
  for (const TaskConfig& task : config.example.tasks) types.intern(task.action);
  for (const ActionWindow& own : config.join.action_windows) types.intern(own.action);
}

base::Result<void> fill_index(const Store& store, CandidateIndex& index) {
  std::optional<base::Error> error;
  SF_TRY(store.scan(Family::kState, node_prefix(kCatalogLetter),
                    [&](std::string_view, std::string_view value) {
                      auto item = decode_catalog_item(value);
                      if (!item) {
                        error = item.error();
                        return false;
                      }
                      index.update(*item);
                      return true;
                    }));
  if (error) return base::fail(*std::move(error));
  std::string items = node_prefix(kCounterLetter);
  items.push_back(static_cast<char>(CounterKind::kItem));
  return store.scan(Family::kState, items, [&](std::string_view key, std::string_view value) {
    Decoder in(value.substr(1));
    ItemCounter counter;
    counter.decode(in);
    index.set_clicks(parse_counter_key(key).a, counter);
    return true;
  });
}

}  // namespace

struct FeatureState::Impl {
  FeaturesConfig config;
  const FeaturesProbe& probe;
  StateWiring wiring;
  std::unique_ptr<Store> store;
  ActionTypes types;
  ItemSide item_side;
  CandidateIndex index;
  ContextComputer computer;
  StateReader reader;
  StoreOutbox outbox;
  RemovalLog removals;
  Applier applier;

  Impl(FeaturesConfig config_in, const FeaturesProbe& probe_in, StateWiring wiring_in,
       std::unique_ptr<Store> store_in, std::vector<std::string> type_names)
      : config(std::move(config_in)),
        probe(probe_in),
        wiring(wiring_in),
        store(std::move(store_in)),
        types(std::move(type_names)),
        item_side(*store, config.store),
        index(config.index),
        computer(config.context, item_side, types.intern(config.context.click_action),
                 types.intern(config.context.long_view_action)),
        reader(config, *store, item_side, types, index, computer),
        outbox(*store, probe),
        applier({config, probe, wiring, *store, item_side, types, index, computer, removals}) {}

  base::Result<void> finish(base::Result<void> done) {
    if (done && !applier.outbox_written().empty()) outbox.notify(applier.outbox_written());
    return done;
  }
};

FeatureState::FeatureState(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
FeatureState::~FeatureState() = default;

base::Result<std::unique_ptr<FeatureState>> FeatureState::open(FeaturesConfig config,
                                                               FeaturesProbe& probe,
                                                               StateWiring wiring) {
  SF_TRY(config.validate());
  SF_ASSIGN(auto store, Store::open(config.store));
  SF_TRY(open_store_format(*store, config));
  SF_ASSIGN(auto names, stored_types(*store));
  const std::size_t stored = names.size();
  auto impl =
      std::make_unique<Impl>(std::move(config), probe, wiring, std::move(store), std::move(names));
  intern_configured(impl->types, impl->config);
  impl->types.set_stored(stored);
  SF_TRY(impl->applier.load());
  if (impl->config.index.enabled) SF_TRY(fill_index(*impl->store, impl->index));
  SF_TRY(impl->outbox.load());
  return std::unique_ptr<FeatureState>(new FeatureState(std::move(impl)));
}

base::Result<std::optional<ingest::Partition>> FeatureState::stored_partitions(
    const StoreConfig& config) {
  SF_ASSIGN(const auto store, Store::open(config));
  SF_ASSIGN(const auto format, read_store_format(*store));
  if (!format) return std::nullopt;
  return format->partitions;
}

base::Result<void> FeatureState::apply(std::span<const ingest::InputRecord> records) {
  return impl_->finish(impl_->applier.apply(records));
}
base::Result<std::optional<ingest::AppliedPosition>> FeatureState::position(
    ingest::TopicPartition source) {
  return impl_->applier.position(source);
}
base::Result<void> FeatureState::idle(ingest::Partition partition) {
  return impl_->finish(impl_->applier.idle(partition));
}
base::Result<void> FeatureState::close_windows(ingest::Partition partition) {
  return impl_->finish(impl_->applier.close_windows(partition));
}

base::Result<bool> FeatureState::resume_examples(ingest::Partition partition,
                                                 const SentExamples& sent) {
  SF_ASSIGN(const bool resumed, impl_->applier.resume_examples(partition, sent));
  if (resumed) SF_TRY(impl_->outbox.begin_anew());
  return resumed;
}
SentExamples FeatureState::written_examples(ingest::Partition partition) const {
  return impl_->applier.written_examples(partition);
}
base::Result<void> FeatureState::seed_tombstones(std::span<const Tombstone> tombstones) {
  return impl_->applier.seed_tombstones(tombstones);
}
std::optional<Removal> FeatureState::removed_by(ingest::TopicPartition source,
                                                ingest::Offset offset) const {
  return impl_->removals.find(source, offset);
}

const FeatureReader& FeatureState::reader() const { return impl_->reader; }
Outbox& FeatureState::outbox() { return impl_->outbox; }
const FeaturesConfig& FeatureState::config() const { return impl_->config; }

base::Result<void> FeatureState::dump_canonical(std::ostream& out) const {
  return features::dump_canonical(*impl_->store, impl_->config, impl_->types, out);
}
base::Result<std::vector<FamilySize>> FeatureState::families() const {
  return family_sizes(*impl_->store);
}
base::Result<Conservation> FeatureState::conservation() const {
  return read_conservation(*impl_->store);
}
ImpressionCounts FeatureState::impressions() const { return impl_->applier.impressions(); }
base::Result<std::string> FeatureState::inspect_user(std::string_view user_id) const {
  return impl_->reader.inspect_user(user_id);
}
base::Result<std::string> FeatureState::inspect_item(std::string_view item_id) const {
  return impl_->reader.inspect_item(item_id);
}
base::Result<void> FeatureState::backup_to(const std::string& dir,
                                           const std::function<base::Result<void>()>& first) const {
  return impl_->outbox.keep_during([&]() -> base::Result<void> {
    SF_TRY(first());
    return impl_->store->backup_to(dir);
  });
}
base::Result<void> FeatureState::sync() { return impl_->store->sync(); }
base::Result<void> FeatureState::compact() { return impl_->store->compact(); }

}  // namespace sirenfeed::features
