#include "app/recorded_pass.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/metrics.h"
#include "features/probe.h"
#include "ingest/ingest_loop.h"
#include "ingest/replay_log_reader.h"

namespace sirenfeed::app {
namespace {

using base::ErrorCode;
using base::fail;

/// A folder that goes with the object.
class TemporaryFolder {
 public:
  static base::Result<TemporaryFolder> make() {
    std::error_code error;
    std::string pattern = std::filesystem::temp_directory_path(error) / "sirenfeed-XXXXXX";
    if (error || mkdtemp(pattern.data()) == nullptr) {
      return fail(ErrorCode::kStorage, "{}: no temporary folder can be made (TMPDIR chooses where)",
                  pattern);
    }
    return TemporaryFolder(pattern);
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

features::FeaturesConfig pass_features(const RecordedInput& input, const Settings& settings,
                                       const std::string& dir) {
  features::FeaturesConfig config = settings.features;
  config.partitions = 1;
  config.outbox = false;
  config.index.enabled = false;
  config.store.dir = dir;
  config.store.wal = false;
  config.corrections.enabled = config.corrections.enabled && !input.replay.order_required;
  return config;
}

ingest::IngestConfig pass_ingest(const Settings& settings) {
  ingest::IngestConfig config = settings.ingest;
  config.group.reset();
  config.member.reset();
  config.parser.check_future = false;
  config.idle_flush_after.reset();
  config.requests = false;  // nobody was served by this process
  return config;
}

}  // namespace

struct RecordedPass::Impl {
  Impl(std::unique_ptr<ingest::ReplayReader> replay, const Settings& settings,
       TemporaryFolder folder_in)
      : log(std::move(replay)),
        ingest_config(pass_ingest(settings)),
        folder(std::move(folder_in)) {}

  ingest::ReplayLog log;
  const ingest::IngestConfig ingest_config;
  TemporaryFolder folder;
  base::MetricsRegistry registry;
  features::FeaturesProbe features_probe{registry};
  const ingest::IngestProbe ingest_probe{registry};
  base::EventClock event_clock;
  const base::SteadyClock steady_clock;
  std::unique_ptr<features::FeatureState> state;
};

RecordedPass::RecordedPass(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
RecordedPass::~RecordedPass() = default;

base::Result<std::unique_ptr<RecordedPass>> RecordedPass::open(
    const RecordedInput& input, const Settings& settings, features::ExampleObserver& observer) {
  ingest::ReplayOptions options = input.replay;
  options.parser = settings.ingest.parser;
  SF_ASSIGN(auto replay, ingest::open_replay(input.file, input.format, options));
  SF_ASSIGN(TemporaryFolder folder, TemporaryFolder::make());
  auto impl = std::make_unique<Impl>(std::move(replay), settings, std::move(folder));
  features::StateWiring wiring;
  wiring.event_clock = &impl->event_clock;
  wiring.clock = &impl->event_clock;
  wiring.observer = &observer;
  SF_ASSIGN(impl->state,
            features::FeatureState::open(pass_features(input, settings, impl->folder.path()),
                                         impl->features_probe, wiring));
  return std::unique_ptr<RecordedPass>(new RecordedPass(std::move(impl)));
}

base::Result<void> RecordedPass::run() {
  Impl& impl = *impl_;
  ingest::IngestLoop loop(impl.ingest_config, {impl.log, *impl.state, impl.event_clock,
                                               impl.steady_clock, impl.ingest_probe});
  return loop.run_until_end();
}

double RecordedPass::share_read() const {
  const ingest::ReplayReader& replay = impl_->log.replay();
  const auto total = static_cast<double>(replay.bytes_total());
  return total > 0 ? static_cast<double>(replay.bytes_read()) / total : 0;
}

std::uint64_t RecordedPass::records_rejected() const {
  return impl_->features_probe.rejected_total();
}
const features::FeatureReader& RecordedPass::reader() const { return impl_->state->reader(); }

}  // namespace sirenfeed::app
