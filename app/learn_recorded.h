#pragma once
#include <cstdint>
#include <functional>

#include "app/recorded_pass.h"
#include "app/settings.h"
#include "base/result.h"

namespace sirenfeed::app {

/// `train --from-log`: learns the input as `evaluate` would and leaves the trainer's checkpoint,
/// from which TrainNode goes on (trainer/warm_start.h). Where a checkpoint is there already nothing
/// is read: a restart with the same command line goes on. Holds the trainer's folder meanwhile; a
/// run that was killed leaves nothing and begins anew.
[[nodiscard]] base::Result<void> learn_recorded(
    const RecordedInput& input, const Settings& settings,
    const std::function<void(double share, std::uint64_t examples)>& on_progress);

}  // namespace sirenfeed::app
