// Topic requests: what was served waits for the impression that names it. The two may come in
// either order: an impression that came first, and has not been learned yet, gets it afterwards.
#include "features/applier.h"
#include "features/served_inputs.h"

namespace sirenfeed::features {

using ingest::RejectReason;

// Requests before it are no longer held: an impression that names one of them is late for its own
// window.
base::UnixMs Applier::request_floor(const PartitionState& state) const {
  return watermark(state) - windows_.longest() - config_.join.lateness_max_ms;
}

base::Result<Applier::Outcome> Applier::apply_request(const ingest::InputRecord& record,
                                                      const ingest::ServedRequest& event) {
  PartitionState& state = partition(record.source.partition);
  SF_ASSIGN(CachedUser * user, users_.get(state.partition, event.user_id));
  if (user->erased_ms && event.time_ms <= *user->erased_ms) {
    return Outcome(ingest::Rejection{RejectReason::kTombstone, "the user was erased afterwards"});
  }
  expire_requests(state);
  if (event.time_ms < request_floor(state)) {  // nothing can name it any more
    ++counts_.requests_late;
    return Outcome(Applied{});
  }
  const IdHash id = id_hash(event.user_id, event.request_id);
  if (state.requests.find(id)) return Outcome(Duplicate{});
  if (event.inputs.empty()) return Outcome(Applied{});  // no model answered
  const auto served = decode_served_inputs(event.inputs);
  if (!served) {
    return Outcome(ingest::Rejection{RejectReason::kUndecodable, served.error().message});
  }
  const HeldRequests::Place place(event.time_ms, record.offset);
  state.requests.add(place, id);
  state.requests.fresh.insert_or_assign(place, HeldRequests::Fresh{event.user_id, event.inputs});
  batch_.put(Family::kState,
             pending_key(state.partition, kRequestLetter, place.first, place.second),
             HeldRequest{id, event.user_id}.encode());
  batch_.put(Family::kState, pending_key(state.partition, kInputsLetter, place.first, place.second),
             event.inputs);
  if (state.requests.size() > config_.join.requests_held_max) {
    forget_request(state, *state.requests.oldest());
    ++counts_.requests_evicted;
  }
  SF_TRY(serve_pending(state, event, id, *served));
  return Outcome(Applied{});
}

// Impressions that came before the request that they name.
base::Result<void> Applier::serve_pending(PartitionState& state, const ingest::ServedRequest& event,
                                          const IdHash& id, const Example& served) {
  for (Pending* pending : state.pending.of_user(event.user_id)) {
    if (pending->request != id) continue;
    pending->request = {};
    labels_changed(state, *pending);
    if (pending->left != 0) continue;  // learned: every revision has the same inputs
    SF_ASSIGN(pending->example, example_of(state, *pending, /*take=*/true));
    note_served(use_served_inputs(served, config_.example.history_max, *pending->example));
    pending->example_dirty = true;
  }
  return {};
}

// The inputs of the request that the impression names, if it is held.
base::Result<void> Applier::serve_impression(PartitionState& state, const ingest::Impression& event,
                                             Pending& pending) {
  if (!event.request_id) return {};
  const IdHash id = id_hash(event.user_id, *event.request_id);
  const auto place = state.requests.find(id);
  if (!place || place->first < request_floor(state)) {
    pending.request = id;
    return {};
  }
  std::string inputs;
  const auto fresh = state.requests.fresh.find(*place);
  if (fresh != state.requests.fresh.end()) {
    inputs = fresh->second.inputs;
  } else {
    SF_ASSIGN(const auto value,
              store_.get(Family::kState,
                         pending_key(state.partition, kInputsLetter, place->first, place->second)));
    inputs = value.value_or("");
  }
  const auto served = decode_served_inputs(inputs);
  note_served(served ? use_served_inputs(*served, config_.example.history_max, *pending.example)
                     : std::nullopt);
  return {};
}

void Applier::note_served(const std::optional<ServedDifference>& difference) {
  if (!difference) {
    ++counts_.requests_unfit;
    return;
  }
  counts_.served_differences.push_back(difference->context_mean);
  counts_.served_histories += difference->history ? 1 : 0;
}

void Applier::forget_request(PartitionState& state, HeldRequests::Place place) {
  for (const char letter : {kRequestLetter, kInputsLetter}) {
    batch_.erase(Family::kState, pending_key(state.partition, letter, place.first, place.second));
  }
  state.requests.remove(place);
}

void Applier::expire_requests(PartitionState& state) {
  const base::UnixMs floor = request_floor(state);
  while (const auto oldest = state.requests.oldest()) {
    if (oldest->first >= floor) break;
    forget_request(state, *oldest);
  }
}

// Of those that the store holds.
base::Result<void> Applier::each_request(
    const PartitionState& state,
    const std::function<void(HeldRequests::Place, const HeldRequest&)>& visit) const {
  base::Result<void> decoded;
  SF_TRY(store_.scan(Family::kState, partition_prefix(state.partition, kRequestLetter),
                     [&](std::string_view key, std::string_view value) {
                       const auto request = HeldRequest::decode(value);
                       if (!request) {
                         decoded = base::fail(request.error());
                         return false;
                       }
                       visit(pending_place(key), *request);
                       return true;
                     }));
  return decoded;
}

// An erasure is rare: the store is searched, instead of an index in memory.
base::Result<void> Applier::forget_requests_of(PartitionState& state, std::string_view user_id) {
  std::vector<HeldRequests::Place> gone;
  SF_TRY(each_request(state, [&](HeldRequests::Place place, const HeldRequest& request) {
    if (request.user_id == user_id) gone.push_back(place);
  }));
  for (const HeldRequests::Place& place : gone) forget_request(state, place);
  // And what this batch has brought, which the store does not have yet.
  for (const HeldRequests::Place& place : state.requests.fresh_of(user_id)) {
    forget_request(state, place);
  }
  return {};
}

base::Result<void> Applier::load_requests(PartitionState& state) {
  return each_request(state, [&](HeldRequests::Place place, const HeldRequest& request) {
    state.requests.add(place, request.id);
  });
}

}  // namespace sirenfeed::features
