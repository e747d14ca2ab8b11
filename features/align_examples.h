#pragma once
#include "base/result.h"
#include "features/feature_state.h"
#include "ingest/event_log.h"

namespace sirenfeed::features {

/// Looks at the newest example of every examples partition, so that a state that was lost or
/// deleted does not send again what the trainer has learned (FeatureState::resume_examples). Call
/// it between opening the state and starting to ingest. kUnavailable when the log does not answer,
/// kDecode when the newest record is no example.
base::Result<void> align_examples(FeatureState& state, ingest::EventLog& log);

}  // namespace sirenfeed::features
