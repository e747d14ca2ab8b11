#include "features/pending_set.h"

#include <example.pb.h>

#include <algorithm>

namespace sirenfeed::features {

Pending::Pending() = default;
Pending::~Pending() = default;
Pending::Pending(Pending&&) noexcept = default;
Pending& Pending::operator=(Pending&&) noexcept = default;

PendingSet::PendingSet() = default;
PendingSet::~PendingSet() = default;
PendingSet::PendingSet(PendingSet&&) noexcept = default;
PendingSet& PendingSet::operator=(PendingSet&&) noexcept = default;

Pending& PendingSet::add(Pending pending) {
  const Place place(pending.time_ms, pending.offset);
  example_bytes_ += pending.example_bytes;
  waiting_ += pending.complete ? 0 : 1;
  by_user_[pending.user_id].push_back(place);
  if (!by_stage_.empty()) by_stage_.at(pending.stage).insert(place);
  return by_place_.insert_or_assign(place, std::move(pending)).first->second;
}

Pending* PendingSet::at(Place place) {
  const auto it = by_place_.find(place);
  return it == by_place_.end() ? nullptr : &it->second;
}

std::vector<Pending*> PendingSet::of_user(std::string_view user_id) {
  std::vector<Pending*> result;
  const auto it = by_user_.find(std::string(user_id));
  if (it == by_user_.end()) return result;
  for (const Place& place : it->second) result.push_back(at(place));
  return result;
}

Pending* PendingSet::find(std::string_view user_id, const IdHash& id) {
  for (Pending* pending : of_user(user_id)) {
    if (pending->id == id) return pending;
  }
  return nullptr;
}

Pending* PendingSet::newest_within(std::string_view user_id, Key item, base::UnixMs action,
                                   base::UnixMs window) {
  Pending* newest = nullptr;
  for (Pending* pending : of_user(user_id)) {
    const bool within = pending->time_ms <= action && action - pending->time_ms <= window;
    if (!within || pending->find(item) == nullptr) continue;
    if (newest == nullptr ||
        Place(newest->time_ms, newest->offset) < Place(pending->time_ms, pending->offset)) {
      newest = pending;
    }
  }
  return newest;
}

void PendingSet::set_stages(std::size_t stages) {
  if (stages > 1) by_stage_.resize(stages);
}

Pending* PendingSet::first(std::size_t stage) {
  if (by_stage_.empty()) return by_place_.empty() ? nullptr : &by_place_.begin()->second;
  const std::set<Place>& places = by_stage_.at(stage);
  return places.empty() ? nullptr : at(*places.begin());
}

void PendingSet::complete(Pending& pending) {
  waiting_ -= pending.complete ? 0 : 1;
  pending.complete = true;
}

void PendingSet::to_next_stage(Pending& pending) {
  const Place place(pending.time_ms, pending.offset);
  by_stage_.at(pending.stage).erase(place);
  by_stage_.at(++pending.stage).insert(place);
}

void PendingSet::remove(Pending& pending) {
  const Place place(pending.time_ms, pending.offset);
  example_bytes_ -= pending.example_bytes;
  waiting_ -= pending.complete ? 0 : 1;
  if (!by_stage_.empty()) by_stage_.at(pending.stage).erase(place);
  const auto user = by_user_.find(pending.user_id);
  std::erase(user->second, place);
  if (user->second.empty()) by_user_.erase(user);
  by_place_.erase(place);
}

void PendingSet::drop_stored_examples() {
  for (auto& [place, pending] : by_place_) {
    if (!pending.stored || pending.example_dirty || pending.example == nullptr) continue;
    example_bytes_ -= pending.example_bytes;
    pending.example_bytes = 0;
    pending.example.reset();
  }
}

}  // namespace sirenfeed::features
