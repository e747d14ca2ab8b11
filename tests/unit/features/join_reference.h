#pragma once
// The join once more, in memory and as plainly as it can be said: what features/ must give for any
// stream, batching, restart and rebalance (join_model_test.cc). Nothing of features/ but its
// configuration is used.
#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "features/features_config.h"

namespace sirenfeed::features::reference {

/// One event as it lies in its topic. `type` 0 click, 1 long_view, 2 like, 3 share.
struct Event {
  enum class Kind : std::uint8_t { kImpression, kAction, kRequest, kErase, kTakedown };
  Kind kind = Kind::kImpression;
  int user = 0;
  std::int64_t time = 0;
  std::string id;          // of the impression, the event ("": none) or the request
  std::vector<int> items;  // shown or served; the one that the action is about
  int type = 0;
  std::optional<std::string> names;  // the request, or the impression that the action answers
};

/// A rule told wrongly: the test must find it.
enum class Fault : std::uint8_t { kNone, kWindow, kRevision, kLateness, kErasure };

inline const std::vector<std::string> kTypes = {"click", "long_view", "like", "share"};

class Join {
 public:
  Join(const FeaturesConfig& config, Fault fault) : config_(config), fault_(fault) {}

  struct Counts {
    std::uint64_t in = 0, applied = 0, rejected = 0, duplicate = 0;
    std::uint64_t accepted = 0, left = 0, erased = 0;
  };
  Counts counts;
  struct Line {
    int user = 0;
    std::string identity, rest;
  };
  std::map<int, std::vector<Line>> examples;  // by partition, in order of sequence

  void apply(int partition, std::int64_t offset, const Event& event) {
    Part& part = parts_[partition];
    part.number = partition;
    ++counts.in;
    const char outcome = event.kind == Event::Kind::kImpression ? impression(part, offset, event)
                         : event.kind == Event::Kind::kAction   ? action(part, offset, event)
                         : event.kind == Event::Kind::kRequest  ? request(part, offset, event)
                         : event.kind == Event::Kind::kErase    ? erase(part, event)
                                                                : takedown(event);
    ++(outcome == 'a' ? counts.applied : outcome == 'd' ? counts.duplicate : counts.rejected);
  }
  void close_until(int partition, std::int64_t watermark) { close(parts_[partition], watermark); }
  [[nodiscard]] std::uint64_t pending() const {
    std::uint64_t open = 0;
    for (const auto& [number, part] : parts_) {
      for (const auto& [place, shown] : part.open) open += shown.left != kAll ? 1 : 0;
    }
    return open;
  }
  [[nodiscard]] std::string sequence(int user) const {
    std::string text;
    const auto it = users_.find(user);
    if (it == users_.end()) return text;
    for (const Entry& entry : it->second.sequence) {
      text += fmt::format(" {}@{}{}", entry.item, entry.time, entry.exposed ? "" : "!");
      for (const auto& [type, time] : entry.marks) text += fmt::format("+{}@{}", type, time);
    }
    return text;
  }

 private:
  using Time = std::int64_t;
  using Place = std::pair<Time, std::int64_t>;
  static constexpr std::uint32_t kAll = 7;

  struct Entry {
    int item = 0;
    Time time = 0;
    std::int64_t offset = 0;
    bool exposed = true;
    std::vector<std::pair<int, Time>> marks;
  };
  struct User {
    std::vector<Entry> sequence;
    std::optional<Time> erased;
  };
  struct Shown {
    Event event;
    std::vector<std::set<int>> types;  // of each item
    std::uint32_t left = 0;
    int revision = 0;
    std::string waits_for;  // a request
    std::string inputs;
    bool fake = false;
  };
  struct Request {
    int user = 0;
    std::vector<int> items;
    Time time = 0;
  };
  struct Part {
    int number = 0;
    std::optional<Time> newest;
    std::map<Place, Shown> open, closed;
    std::map<Place, std::pair<std::string, Request>> requests;
    std::map<std::string, Place> impression_ids, event_ids;
  };

  Time watermark(const Part& part) const {
    return part.newest ? *part.newest - config_.join.lateness_max_ms : INT64_MIN / 2;
  }
  Time window(int type) const {
    for (const ActionWindow& own : config_.join.action_windows) {
      if (own.action == kTypes[static_cast<std::size_t>(type)]) return own.window_ms;
    }
    return config_.join.window_ms;
  }
  Time longest() const { return std::max(window(2), config_.join.window_ms); }
  bool too_old(const Part& part, Time time) const {
    return time < watermark(part) - config_.join.dedup_horizon_ms;
  }
  bool within(int type, Time shown, Time acted) const {
    const Time extra = fault_ == Fault::kWindow ? 0 : 1;
    return shown <= acted && acted < shown + window(type) + extra;
  }
  std::optional<Place> known(const Part& part, const std::map<std::string, Place>& ids,
                             const std::string& id) const {
    const auto it = ids.find(id);
    if (it == ids.end() || too_old(part, it->second.first)) return std::nullopt;
    return it->second;
  }
  bool gone(const Event& event, int item) const {
    const auto it = taken_down_.find(item);
    return it != taken_down_.end() && event.time <= it->second;
  }

  char impression(Part& part, std::int64_t offset, const Event& event) {
    User& user = users_[event.user];
    if (too_old(part, event.time) || (user.erased && event.time <= *user.erased)) return 'r';
    const std::string id = fmt::format("{}/{}", event.user, event.id);
    if (known(part, part.impression_ids, id)) return 'd';
    Shown shown{event, {}, 0, 0, "", "", config_.join.fake_negatives};
    std::erase_if(shown.event.items, [&](int item) { return gone(event, item); });
    if (shown.event.items.empty()) return 'r';
    shown.types.resize(shown.event.items.size());
    shown.inputs = "history" + history(user, event.time);
    if (event.names) {
      shown.waits_for = *event.names;
      for (const auto& [place, held] : part.requests) {
        const auto& [name, request] = held;
        if (name != *event.names || request.user != event.user) continue;
        if (place.first < request_floor(part)) continue;
        shown.waits_for.clear();
        serve(shown, request);
      }
    }
    part.impression_ids[id] = {event.time, offset};
    for (const int item : shown.event.items) insert(user, {item, event.time, offset, true, {}});
    ++counts.accepted;
    const auto at = part.open.emplace(Place(event.time, offset), std::move(shown)).first;
    if (config_.join.fake_negatives) leave(part, *at, kAll, event.time);
    advance(part, event.time);
    return 'a';
  }

  char action(Part& part, std::int64_t offset, const Event& event) {
    User& user = users_[event.user];
    if (too_old(part, event.time) || (user.erased && event.time <= *user.erased)) return 'r';
    if (gone(event, event.items[0])) return 'r';
    const std::string id = event.id.empty() ? fmt::format("{}/{}/{}/{}", event.user, event.items[0],
                                                          event.type, event.time)
                                            : fmt::format("{}/{}", event.user, event.id);
    if (known(part, part.event_ids, id)) return 'd';
    part.event_ids[id] = {event.time, offset};
    answer(part, user, offset, event);
    advance(part, event.time);
    return 'a';
  }

  // Finds the exposure that the action answers, marks and corrects it.
  void answer(Part& part, User& user, std::int64_t offset, const Event& event) {
    const int item = event.items[0];
    std::optional<Place> place;
    if (event.names) {
      const std::string id = fmt::format("{}/{}", event.user, *event.names);
      for (const auto& [at, shown] : part.open) {
        if (shown.event.user == event.user && shown.event.id == *event.names) place = at;
      }
      if (!place) place = known(part, part.impression_ids, id);
      if (place && !within(event.type, place->first, event.time)) place.reset();
    } else {
      for (const Entry& entry : user.sequence) {  // the newest
        if (entry.exposed && entry.item == item && within(event.type, entry.time, event.time)) {
          place = Place(entry.time, entry.offset);
        }
      }
      std::optional<Place> open;
      for (const auto& [at, shown] : part.open) {
        const bool shows = shown.event.user == event.user && index(shown, item) >= 0;
        if (place || !shows) continue;
        if (within(event.type, at.first, event.time)) open = at;
      }
      if (!place) place = open;
    }
    Entry* entry = nullptr;
    for (Entry& e : user.sequence) {
      if (place && e.exposed && e.item == item && Place(e.time, e.offset) == *place) entry = &e;
    }
    Shown* shown = place ? find(part, *place) : nullptr;
    const int cell = shown != nullptr ? index(*shown, item) : -1;
    // An impression that did not show the item is not answered.
    if (shown != nullptr && cell < 0 && part.open.contains(*place)) entry = nullptr;
    const bool first =
        cell < 0 || shown->types[static_cast<std::size_t>(cell)].insert(event.type).second;
    if (entry != nullptr || cell < 0) mark(user, entry, offset, event);
    if (cell < 0 || !first || event.type > 2) return;
    const bool left = !part.open.contains(*place) || (shown->left >> event.type & 1U) != 0;
    if (left) correct(part, *place, *shown, cell, event);
  }

  void correct(Part& part, const Place& place, Shown& shown, int cell, const Event& event) {
    shown.revision += fault_ == Fault::kRevision && shown.revision == 1 ? 2 : 1;
    const Time end = config_.join.per_task_close ? window(event.type) : longest();
    const Time closed = config_.join.fake_negatives ? event.time : place.first + end + 1;
    send(part, place, shown, {shown.revision, 0, closed, 1U << event.type, cell});
  }

  char request(Part& part, std::int64_t offset, const Event& event) {
    const User& user = users_[event.user];
    if (user.erased && event.time <= *user.erased) return 'r';
    expire_requests(part);
    if (event.time < request_floor(part)) return 'a';
    const Request request{event.user, event.items, event.time};
    for (const auto& [place, held] : part.requests) {
      if (held.first == event.id && held.second.user == event.user) return 'd';
    }
    part.requests[{event.time, offset}] = {event.id, request};
    if (part.requests.size() > config_.join.requests_held_max) {
      part.requests.erase(part.requests.begin());
    }
    for (auto& [place, shown] : part.open) {
      if (shown.event.user != event.user || shown.waits_for != event.id) continue;
      shown.waits_for.clear();
      if (shown.left == 0) serve(shown, request);
    }
    return 'a';
  }

  char erase(Part& part, const Event& event) {
    User& user = users_[event.user];
    if (user.erased && event.time <= *user.erased) return 'd';
    user.erased = event.time;
    if (fault_ != Fault::kErasure) user.sequence.clear();
    for (auto* shown : {&part.open, &part.closed}) {
      std::erase_if(*shown, [&](const auto& entry) {
        if (entry.second.event.user != event.user) return false;
        counts.erased += shown == &part.open && entry.second.left != kAll ? 1 : 0;
        return true;
      });
    }
    std::erase_if(part.requests,
                  [&](const auto& held) { return held.second.second.user == event.user; });
    for (Line& line : examples[part.number]) {  // nothing has been sent: the outbox has them all
      if (line.user == event.user) line.rest = " erased";
    }
    return 'a';
  }
  char takedown(const Event& event) {
    const auto [it, made] = taken_down_.try_emplace(event.items[0], event.time);
    if (!made && event.time <= it->second) return 'd';
    it->second = event.time;
    return 'a';
  }

  void advance(Part& part, Time time) {
    part.newest = std::max(part.newest.value_or(time), time);
    close(part, watermark(part) + (fault_ == Fault::kLateness ? 1 : 0));
  }
  // The ends of windows before the watermark, in order of (end, T, offset).
  void close(Part& part, Time watermark) {
    while (true) {
      std::optional<std::tuple<Time, Place>> next;
      for (const auto& [place, shown] : part.open) {
        const std::tuple end(place.first + next_end(shown), place);
        if (std::get<0>(end) < watermark && (!next || end < *next)) next = end;
      }
      if (!next) return;
      const auto at = part.open.find(std::get<1>(*next));
      const Time end = next_end(at->second);
      std::uint32_t tasks = kAll;
      if (end < longest()) {
        for (int k = 0; k < 3; ++k) tasks &= window(k) > end ? ~(1U << k) : kAll;
      }
      if ((tasks & ~at->second.left) != 0) {
        leave(part, *at, tasks & ~at->second.left, at->first.first + end + 1);
      }
      if (end < longest()) continue;
      const Time floor = retention_floor(part);
      if (config_.corrections.enabled && at->first.first >= floor) {
        part.closed.insert(part.open.extract(at));
        std::erase_if(part.closed, [&](const auto& old) { return old.first.first < floor; });
        if (part.closed.size() > config_.corrections.retained_max) {
          part.closed.erase(part.closed.begin());
        }
      } else {
        part.open.erase(at);
      }
    }
  }
  Time next_end(const Shown& shown) const {
    Time end = longest();
    for (int k = 0; k < 3 && config_.join.per_task_close; ++k) {
      if ((shown.left >> k & 1U) == 0) end = std::min(end, window(k));
    }
    return end;
  }
  void leave(Part& part, std::pair<const Place, Shown>& at, std::uint32_t tasks, Time closed) {
    at.second.left |= tasks;
    counts.left += at.second.left == kAll ? 1 : 0;
    int group = 0;
    while (config_.join.per_task_close && (tasks >> group & 1U) == 0) ++group;
    send(part, at.first, at.second, {0, group, closed, tasks, -1});
  }
  struct Message {
    int revision = 0;
    int group = 0;
    Time closed = 0;
    std::uint32_t mask = 0;
    int cell = -1;  // -1: every one
  };
  void send(Part& part, const Place& place, const Shown& shown, const Message& message) {
    Line line{shown.event.user,
              fmt::format("impression {} revision {} part {} time {} closed {}", place.second,
                          message.revision, message.group, place.first, message.closed),
              fmt::format(" fake {} {}", shown.fake, shown.inputs)};
    for (std::size_t i = 0; i < shown.types.size(); ++i) {
      std::uint32_t labels = 0;
      for (const int type : shown.types[i]) labels |= type < 3 ? 1U << type : 0U;
      const bool unmasked = message.cell < 0 || message.cell == static_cast<int>(i);
      line.rest +=
          fmt::format(" {}:{}/{}", shown.event.items[i], labels, unmasked ? message.mask : 0U);
    }
    examples[part.number].push_back(line);
  }
  Time retention_floor(const Part& part) const {
    return watermark(part) - longest() - config_.corrections.retention_ms;
  }
  Time request_floor(const Part& part) const {
    return watermark(part) - longest() - config_.join.lateness_max_ms;
  }
  void expire_requests(Part& part) const {
    std::erase_if(part.requests,
                  [&](const auto& held) { return held.first.first < request_floor(part); });
  }
  Shown* find(Part& part, const Place& place) {
    if (const auto it = part.open.find(place); it != part.open.end()) return &it->second;
    const auto it = part.closed.find(place);
    return it == part.closed.end() || place.first < retention_floor(part) ? nullptr : &it->second;
  }
  static int index(const Shown& shown, int item) {
    const auto& items = shown.event.items;
    const auto it = std::find(items.begin(), items.end(), item);
    return it == items.end() ? -1 : static_cast<int>(it - items.begin());
  }
  static void serve(Shown& shown, const Request& request) {
    for (const int item : shown.event.items) {
      if (std::count(request.items.begin(), request.items.end(), item) == 0) return;
    }
    shown.inputs = fmt::format("served {}", request.time);
  }
  void insert(User& user, Entry entry) const {
    auto at = user.sequence.end();
    while (at != user.sequence.begin() && std::prev(at)->time > entry.time) --at;
    user.sequence.insert(at, std::move(entry));
    if (user.sequence.size() > config_.user.sequence_max) {
      user.sequence.erase(user.sequence.begin());
    }
  }
  void mark(User& user, Entry* entry, std::int64_t offset, const Event& event) const {
    if (entry == nullptr) {
      insert(user, {event.items[0], event.time, offset, false, {{event.type, event.time}}});
      return;
    }
    for (auto& [type, time] : entry->marks) {
      if (type != event.type) continue;
      time = std::min(time, event.time);
      return;
    }
    entry->marks.emplace_back(event.type, event.time);
  }
  std::string history(const User& user, Time before) const {
    std::vector<std::string> tokens;
    for (const Entry& entry : user.sequence) {
      if (!entry.exposed || entry.time >= before) continue;
      std::uint32_t bits = 0;
      for (const auto& [type, time] : entry.marks) {
        bits |= type < 3 && time < before ? 1U << type : 0U;
      }
      tokens.push_back(fmt::format(" {}@{}+{}", entry.item, entry.time, bits));
    }
    std::string text;
    const std::size_t most = config_.example.history_max;
    for (std::size_t i = tokens.size() > most ? tokens.size() - most : 0; i < tokens.size(); ++i) {
      text += tokens[i];
    }
    return text;
  }

  const FeaturesConfig config_;
  const Fault fault_;
  std::map<int, Part> parts_;
  std::map<int, User> users_;
  std::map<int, Time> taken_down_;
};

}  // namespace sirenfeed::features::reference
