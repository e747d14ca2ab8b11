#pragma once
#include "base/result.h"
#include "features/feature_state.h"
#include "ingest/event_log.h"

namespace sirenfeed::features {

/// Looks at the newest examples of every examples partition, so that a state that was lost, rebuilt
/// or put back from a backup does not send again what the trainer has learned
/// (FeatureState::resume_examples). Call it between opening the state and starting to ingest.
/// kUnavailable when the log does not answer.
base::Result<void> align_examples(FeatureState& state, ingest::EventLog& log);

}  // namespace sirenfeed::features
