// Any bytes as a recorded input, in every format: the reader refuses it with file and line, or
// hands out events in merge order that the parser takes or rejects; reading it again gives the
// same.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "base/check.h"
#include "base/clock.h"
#include "base/hash.h"
#include "ingest/event_parser.h"
#include "ingest/replay_reader.h"

using namespace sirenfeed;
using namespace sirenfeed::ingest;

namespace {

/// A file in memory under a name of its own: a real one would be forced to the disk by every
/// rewriting.
class MemoryFile {
 public:
  explicit MemoryFile(const char* name) : descriptor_(memfd_create(name, MFD_CLOEXEC)) {
    SF_CHECK(descriptor_ >= 0);
    std::string pattern = "/tmp/sirenfeed-fuzz-XXXXXX";
    SF_CHECK(mkdtemp(pattern.data()) != nullptr);
    folder_ = pattern;
    path_ = folder_ + "/" + name;
    const std::string target = "/proc/self/fd/" + std::to_string(descriptor_);
    SF_CHECK(symlink(target.c_str(), path_.c_str()) == 0);
  }
  ~MemoryFile() {
    (void)unlink(path_.c_str());
    (void)rmdir(folder_.c_str());
    (void)close(descriptor_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  const std::string& write(std::string_view bytes) {
    SF_CHECK(ftruncate(descriptor_, 0) == 0);
    const ssize_t written = pwrite(descriptor_, bytes.data(), bytes.size(), 0);
    SF_CHECK(written == static_cast<ssize_t>(bytes.size()));
    return path_;
  }

 private:
  const int descriptor_;
  std::string folder_;
  std::string path_;
};

void check_record(EventParser& parser, const ReplayRecord& record) {
  LogRecord entry;
  entry.source.topic = record.topic;
  entry.log_time_ms = record.time_ms;
  entry.key = record.key;
  entry.value = record.value;
  const InputRecord parsed = parser.parse(std::move(entry), 1);
  if (const auto* rejection = std::get_if<Rejection>(&parsed.content)) {
    // What a reader writes is an event; only its ids and texts may be over a limit.
    SF_CHECK(rejection->reason != RejectReason::kNotJson &&
             rejection->reason != RejectReason::kMissingField &&
             rejection->reason != RejectReason::kWrongPartition);
  }
}

std::uint64_t read_all(const std::string& path, ReplayFormat format, const ReplayOptions& options) {
  static const base::EventClock clock;
  ParserConfig config;
  config.check_future = false;
  EventParser parser(config, clock);
  const auto reader = open_replay(path, format, options);
  if (!reader) return base::xxh3_64(reader.error().message);
  std::pair<base::UnixMs, Topic> last{0, Topic::kItems};
  std::uint64_t hash = 0;
  while (true) {
    const auto record = (*reader)->next();
    if (!record) {
      SF_CHECK(!record.error().message.empty());
      const auto after = (*reader)->next();
      SF_CHECK(after.has_value() && !after->has_value());
      return hash ^ base::xxh3_64(record.error().message);
    }
    if (!*record) return hash;
    const std::pair key((*record)->time_ms, (*record)->topic);
    SF_CHECK(last <= key || !options.order_required);
    last = key;
    check_record(parser, **record);
    hash = hash * 31 + base::xxh3_64((*record)->key + (*record)->value.value_or(""));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static MemoryFile csv("in.csv");
  static MemoryFile inter("in.inter");
  static MemoryFile items("items.csv");
  if (size == 0) return 0;
  constexpr ReplayFormat kFormats[] = {ReplayFormat::kEvents,    ReplayFormat::kKuairand,
                                       ReplayFormat::kMind,      ReplayFormat::kMovielens,
                                       ReplayFormat::kMovielens, ReplayFormat::kCsv,
                                       ReplayFormat::kJsonl};
  const std::size_t choice = data[0] % std::size(kFormats);
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  ReplayOptions options;
  options.items_file = "none";
  options.order_required = data[0] < 128;
  options.map.columns = {{"user", "u"},      {"item", "i"},       {"time", "t"},
                         {"click", "c"},     {"surface", "s"},    {"position", "p"},
                         {"author", "a"},    {"tags", "/m/tags"}, {"published", "b"},
                         {"impression", "g"}};
  if (kFormats[choice] == ReplayFormat::kCsv) options.map.columns["tags"] = "x";
  options.items_map.columns = {{"item", "i"}, {"tags", "x"}, {"title", "n"}};
  // Bytes 0x00 0x00 part the events from the file of items.
  const std::size_t cut = bytes.find(std::string_view("\0\0", 2));
  if (cut != std::string_view::npos) {
    options.items_file = items.write(bytes.substr(cut + 2));
    bytes = bytes.substr(0, cut);
  }
  const std::string& path = (choice == 4 ? inter : csv).write(bytes);
  const std::uint64_t hash = read_all(path, kFormats[choice], options);
  if (data[0] % 2 == 0)
    return 0;                   // the CSV library's buffer of 48 MB makes every reading slow here
  options.sort_bytes_max = 64;  // through temporary files
  SF_CHECK(read_all(path, kFormats[choice], options) == hash);
  return 0;
}
