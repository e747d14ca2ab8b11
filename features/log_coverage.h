#pragma once
#include <array>

#include "base/result.h"
#include "features/feature_state.h"
#include "ingest/event_log.h"
#include "ingest/topic.h"

namespace sirenfeed::features {

/// What a state is made from.
inline constexpr std::array kInputTopics = {ingest::Topic::kItems, ingest::Topic::kUsers,
                                            ingest::Topic::kRequests, ingest::Topic::kImpressions,
                                            ingest::Topic::kClicks};

/// The embedded log is durable before the state that covers it: one that ends before what the state
/// has applied is another log, or an older copy of it. kCorrupt names the input and what helps.
/// Call before records are applied.
base::Result<void> check_log_covers(FeatureState& state, ingest::EventLog& log);

}  // namespace sirenfeed::features
