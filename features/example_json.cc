#include "features/example_json.h"

#include <example.pb.h>
#include <fmt/format.h>

#include "base/hash.h"
#include "ingest/event_json.h"

namespace sirenfeed::features {
namespace {

class ExampleWriter {
 public:
  ExampleWriter(const FeatureReader& reader, const ExampleNames& names)
      : reader_(reader), actions_(names.actions) {
    for (const std::string& surface : names.surfaces) {
      surfaces_.emplace_back(base::xxh3_64(surface), surface);
    }
  }

  base::Result<std::string> write(const Example& example) {
    SF_ASSIGN(const UserSnapshot user, reader_.read_user(example.user_id(), example.time_ms()));
    out_ = fmt::format("{{\"time\":{},\"segment\":", example.time_ms());
    if (example.segment() == kNoKey) {
      out_ += "null";
    } else {
      name(example.segment(), user.segment_key == example.segment() ? user.segment : std::nullopt);
    }
    out_ += ",\"user\":";
    ingest::append_json_string(example.user_id(), out_);
    if (!example.surface().empty()) {
      surfaces_.emplace_back(base::xxh3_64(example.surface()), example.surface());
      out_ += ",\"surface\":";
      ingest::append_json_string(example.surface(), out_);
    }
    out_ += ",\"history\":[";
    history(example.history());
    out_ += "],\"candidates\":[";
    for (int c = 0; c < example.candidates_size(); ++c) {
      if (c > 0) out_ += ',';
      const Candidate& candidate = example.candidates(c);
      item(candidate.item(), candidate.author(), candidate.tags().begin(), candidate.tags().end());
      out_ += ",\"context\":[";
      for (int f = 0; f < candidate.context_size(); ++f) {
        // The shortest digits that give back the same float.
        fmt::format_to(std::back_inserter(out_), "{}{}", f > 0 ? "," : "", candidate.context(f));
      }
      out_ += "]}";
    }
    out_ += "]}";
    return std::move(out_);
  }

 private:
  void name(Key key, const std::optional<std::string>& known) {
    ingest::append_json_string(known.value_or(fmt::format("#{:016x}", key)), out_);
  }

  template <class Tags>
  void item(Key key, Key author, Tags tags_begin, Tags tags_end) {
    const CatalogItemPtr meta = reader_.item(key);
    out_ += "{\"item\":";
    name(key, meta != nullptr ? std::optional(meta->id) : std::nullopt);
    out_ += ",\"tags\":[";
    for (auto tag = tags_begin; tag != tags_end; ++tag) {
      std::optional<std::string> known;
      for (std::size_t i = 0; meta != nullptr && i < meta->tags.size(); ++i) {
        if (meta->tag_keys[i] == *tag) known = meta->tags[i];
      }
      if (tag != tags_begin) out_ += ',';
      name(*tag, known);
    }
    out_ += "],\"author\":";
    if (author == kNoKey) {
      out_ += "null";
    } else {
      name(author, meta != nullptr && meta->author == author ? meta->author_id : std::nullopt);
    }
  }

  void history(const HistoryColumns& history) {
    std::int64_t time = 0;
    auto tag = history.tags().begin();
    for (int i = 0; i < history.item_size(); ++i) {
      if (i > 0) out_ += ',';
      const auto tags_end = tag + static_cast<std::ptrdiff_t>(history.tag_count(i));
      item(history.item(i), history.author(i), tag, tags_end);
      tag = tags_end;
      time += history.time_delta_ms(i);
      fmt::format_to(std::back_inserter(out_), ",\"time\":{},\"actions\":[", time);
      bool first = true;
      for (std::size_t a = 0; a < actions_.size(); ++a) {
        if ((history.action_bits(i) >> a & 1U) == 0) continue;
        if (!first) out_ += ',';
        first = false;
        ingest::append_json_string(actions_[a], out_);
      }
      out_ += ']';
      surface(history, i);
      out_ += '}';
    }
  }

  /// Examples have only hashes of their history's surfaces.
  void surface(const HistoryColumns& history, int token) {
    if (history.surface_size() == 0 || history.surface(token) == 0) return;
    const Key key = history.surfaces(static_cast<int>(history.surface(token)) - 1);
    std::optional<std::string> known;
    for (const auto& [hash, name] : surfaces_) {
      if (hash == key) known = name;
    }
    out_ += ",\"surface\":";
    name(key, known);
  }

  const FeatureReader& reader_;
  const std::span<const std::string> actions_;
  std::vector<std::pair<Key, std::string>> surfaces_;
  std::string out_;
};

}  // namespace

base::Result<std::string> example_to_json(const Example& example, const FeatureReader& reader,
                                          const ExampleNames& names) {
  return ExampleWriter(reader, names).write(example);
}

}  // namespace sirenfeed::features
