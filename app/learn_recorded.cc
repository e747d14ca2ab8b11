#include "app/learn_recorded.h"

#include <filesystem>

#include "app/folder_lock.h"
#include "base/log.h"
#include "model/model.h"
#include "trainer/warm_start.h"

namespace sirenfeed::app {
namespace {

class Learner final : public features::ExampleObserver {
 public:
  Learner(trainer::WarmStart& start, std::function<void(std::uint64_t)> on_progress)
      : start_(start), on_progress_(std::move(on_progress)) {}

  void on_exposure(const features::Example& /*example*/) override {}
  void on_closed(const features::Example& example) override {
    if (!status_) return;
    status_ = start_.learn(example);
    if (++examples_ % kProgressEvery == 0) on_progress_(examples_);
  }
  [[nodiscard]] const base::Result<void>& status() const { return status_; }

 private:
  static constexpr std::uint64_t kProgressEvery = 1000;
  trainer::WarmStart& start_;
  const std::function<void(std::uint64_t)> on_progress_;
  std::uint64_t examples_ = 0;
  base::Result<void> status_;
};

}  // namespace

base::Result<void> learn_recorded(const RecordedInput& input, const Settings& settings,
                                  const std::function<void(double, std::uint64_t)>& on_progress) {
  const std::string& checkpoint = settings.trainer.checkpoint_file;
  SF_ASSIGN(const FolderLock lock, FolderLock::take(settings.trainer_dir()));
  std::error_code ignored;
  if (std::filesystem::exists(checkpoint, ignored)) {
    base::log_info("{} is there: {} is not read again", checkpoint, input.file);
    return {};
  }
  SF_ASSIGN(const model::Model start, model::make_model(settings.model));
  SF_ASSIGN(const auto warm, trainer::WarmStart::create(start, settings.trainer.step));
  const RecordedPass* reading = nullptr;
  Learner learner(*warm, [&](std::uint64_t examples) {
    if (on_progress && reading != nullptr) on_progress(reading->share_read(), examples);
  });
  SF_ASSIGN(const auto recorded, RecordedPass::open(input, settings, learner));
  reading = recorded.get();
  SF_TRY(recorded->run());
  SF_TRY(learner.status());
  SF_TRY(warm->finish(checkpoint));
  base::log_info("{}: {} examples learned, {} records rejected", input.file,
                 warm->trainer().examples(), recorded->records_rejected());
  return {};
}

}  // namespace sirenfeed::app
