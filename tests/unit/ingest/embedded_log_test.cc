#include "ingest/embedded_log.h"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <random>

#include "ingest/embedded_format.h"
#include "tests/support/temp_dir.h"

namespace sirenfeed::ingest {
namespace {

using base::ErrorCode;
using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::HasSubstr;
namespace fs = std::filesystem;

constexpr TopicPartition kClicks0{Topic::kClicks, 0};
constexpr auto kPatience = std::chrono::seconds(20);

class EmbeddedLogTest : public testing::Test {
 protected:
  EmbeddedLogTest() {
    config_.dir = dir_.path() / "log";
    config_.partitions = 2;
  }

  std::unique_ptr<EventLog> open() {
    auto opened = EmbeddedLog::open(config_);
    EXPECT_TRUE(opened) << opened.error().message;
    return opened ? *std::move(opened) : nullptr;
  }
  base::Error open_error() {
    auto opened = EmbeddedLog::open(config_);
    EXPECT_FALSE(opened);
    return opened ? base::Error{} : opened.error();
  }
  /// Each value is durable before the next one is appended.
  static void append(EventLog& log, const std::vector<std::string>& values,
                     TopicPartition target = kClicks0) {
    auto writer = log.open_writer("w");
    ASSERT_TRUE(writer);
    for (const std::string& value : values) {
      ASSERT_TRUE((*writer)->append(target, "k", value, 1, {}));
      ASSERT_TRUE((*writer)->flush(kPatience));
    }
  }
  static std::vector<std::string> read_all(EventLog& log, TopicPartition source = kClicks0) {
    std::vector<std::string> values;
    auto reader = log.open_reader({});
    EXPECT_TRUE((*reader)->assign(source, std::nullopt));
    while (true) {
      const auto batch = (*reader)->poll(kPatience);
      EXPECT_TRUE(batch) << batch.error().message;
      if (!batch) return values;
      for (const LogRecord& record : batch->records) values.push_back(record.value.value_or(""));
      if (!batch->at_end.empty()) return values;
    }
  }
  std::vector<fs::path> segments(std::string_view folder = "clicks-0") const {
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(config_.dir / folder)) {
      files.push_back(entry.path());
    }
    std::ranges::sort(files);
    return files;
  }
  static void flip_byte(const fs::path& path, std::uint64_t at) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(static_cast<std::streamoff>(at));
    const char byte = static_cast<char>(file.get() ^ 0x40);
    file.seekp(static_cast<std::streamoff>(at));
    file.put(byte);
  }
  /// Makes every file of this process end at `bytes` (as a full disk would), or not any more.
  static void limit_files(std::optional<rlim_t> bytes) {
    std::signal(SIGXFSZ, SIG_IGN);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
    limit.rlim_cur = bytes.value_or(limit.rlim_max);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  }

  test_support::TempDir dir_;
  EmbeddedLogConfig config_;
};

TEST_F(EmbeddedLogTest, RecordsOutliveTheProcess) {
  append(*open(), {"a", "b"});
  const auto log = open();
  EXPECT_THAT(read_all(*log), ElementsAre("a", "b"));
  append(*log, {"c"});
  EXPECT_THAT(read_all(*log), ElementsAre("a", "b", "c"));
}

TEST_F(EmbeddedLogTest, ASecondOwnerIsRefusedByTheFoldersName) {
  const auto log = open();
  const base::Error error = open_error();
  EXPECT_EQ(error.code, ErrorCode::kLocked);
  EXPECT_THAT(error.message, HasSubstr(config_.dir.string()));
  EXPECT_THAT(error.message, HasSubstr(std::to_string(::getpid())));
}

TEST_F(EmbeddedLogTest, AnotherPartitionCountIsRefused) {
  open();
  config_.partitions = 3;
  const base::Error error = open_error();
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("2 partitions"));
}

TEST_F(EmbeddedLogTest, AFolderThatCannotBeMadeIsAStorageError) {
  std::ofstream(dir_.path() / "file") << "x";
  config_.dir = dir_.path() / "file" / "log";
  EXPECT_EQ(open_error().code, ErrorCode::kStorage);
}

TEST_F(EmbeddedLogTest, WrongConfigurationNamesTheField) {
  config_.retention_bytes = 10;
  const base::Error error = open_error();
  EXPECT_EQ(error.code, ErrorCode::kInvalidArgument);
  EXPECT_THAT(error.message, HasSubstr("retention_bytes"));
}

TEST_F(EmbeddedLogTest, ATornTailIsCutOffWhereverItTears) {
  append(*open(), {"a", "b"});
  const fs::path segment = segments().front();
  const auto intact = fs::file_size(segment);
  append(*open(), {"torn"});
  const auto whole = fs::file_size(segment);
  for (auto size = whole - 1; size > intact; --size) {
    fs::resize_file(segment, size);
    {
      const auto log = open();
      EXPECT_THAT(read_all(*log), ElementsAre("a", "b")) << size;
      append(*log, {"torn"});
    }
    ASSERT_EQ(fs::file_size(segment), whole);
  }
  EXPECT_THAT(read_all(*open()), ElementsAre("a", "b", "torn"));
}

TEST_F(EmbeddedLogTest, RubbishAfterTheLastRecordIsCutOff) {
  append(*open(), {"a"});
  std::ofstream(segments().front(), std::ios::app | std::ios::binary) << std::string(5'000, '\0');
  const auto log = open();
  EXPECT_THAT(read_all(*log), ElementsAre("a"));
  append(*log, {"b"});
  EXPECT_THAT(read_all(*log), ElementsAre("a", "b"));
}

// A frame is intact and says that the one before it had been durable when it was written.
TEST_F(EmbeddedLogTest, DamageToADurableRecordIsRefusedNamingFileAndByte) {
  append(*open(), {"a", "b", "c"});
  const fs::path segment = segments().front();
  const std::size_t frame = embedded::kFrameOverheadBytes + 2;
  const std::uint64_t second = embedded::kHeaderBytes + frame;
  for (std::uint64_t at = second; at < second + frame; ++at) {
    flip_byte(segment, at);
    const base::Error error = open_error();
    EXPECT_EQ(error.code, ErrorCode::kCorrupt) << at;
    EXPECT_THAT(error.message, HasSubstr(segment.string()));
    EXPECT_THAT(error.message, HasSubstr("byte " + std::to_string(second)));
    flip_byte(segment, at);
  }
  EXPECT_THAT(read_all(*open()), ElementsAre("a", "b", "c"));
}

TEST_F(EmbeddedLogTest, AHoleInWhatWasNeverReportedAsDurableIsATornTail) {
  config_.fsync_interval = std::chrono::seconds(2);
  {
    const auto log = open();
    append(*log, {"a"});
    auto writer = log->open_writer("w");
    for (const char* value : {"b", "c", "d"}) {  // one commit: its interval has just begun
      ASSERT_TRUE((*writer)->append(kClicks0, "k", value, 1, {}));
    }
  }
  const fs::path segment = segments().front();
  const std::size_t frame = embedded::kFrameOverheadBytes + 2;
  ASSERT_EQ(fs::file_size(segment), embedded::kHeaderBytes + 4 * frame);
  flip_byte(segment, embedded::kHeaderBytes + frame + 20);
  EXPECT_THAT(read_all(*open()), ElementsAre("a"));
}

TEST_F(EmbeddedLogTest, DamageInASealedSegmentIsMetByItsReader) {
  config_.segment_bytes = 1024;
  append(*open(), std::vector<std::string>(8, std::string(300, 'x')));
  ASSERT_GT(segments().size(), 2U);
  flip_byte(segments().front(), 100);
  const auto log = open();
  auto reader = log->open_reader({});
  ASSERT_TRUE((*reader)->assign(kClicks0, std::nullopt));
  const auto batch = (*reader)->poll(kPatience);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(batch.error().message, HasSubstr(segments().front().string()));
  EXPECT_THAT(batch.error().message, HasSubstr("byte 16"));
}

TEST_F(EmbeddedLogTest, AMissingSegmentInTheMiddleIsMetByItsReader) {
  config_.segment_bytes = 1024;
  append(*open(), std::vector<std::string>(12, std::string(300, 'x')));
  ASSERT_GT(segments().size(), 3U);
  fs::remove(segments()[1]);
  const auto log = open();
  auto reader = log->open_reader({});
  ASSERT_TRUE((*reader)->assign(kClicks0, std::nullopt));
  base::Result<PollBatch> batch = (*reader)->poll(kPatience);
  while (batch && batch->at_end.empty()) batch = (*reader)->poll(kPatience);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, ErrorCode::kCorrupt);
}

TEST_F(EmbeddedLogTest, ReadingStartsAnywhereInManySegments) {
  config_.segment_bytes = 2048;
  std::vector<std::string> values;
  for (int i = 0; i < 200; ++i) values.push_back(std::to_string(i) + std::string(50, '.'));
  append(*open(), values);
  const auto log = open();
  ASSERT_GT(segments().size(), 5U);
  for (Offset offset = 0; offset < 200; offset += 7) {
    auto reader = log->open_reader({});
    ASSERT_TRUE((*reader)->assign(kClicks0, offset));
    const auto batch = (*reader)->poll(kPatience);
    ASSERT_TRUE(batch) << batch.error().message;
    ASSERT_EQ(batch->records.size(), static_cast<std::size_t>(200 - offset));
    EXPECT_EQ(batch->records.front().offset, offset);
    EXPECT_EQ(batch->records.front().value, values[static_cast<std::size_t>(offset)]);
  }
}

TEST_F(EmbeddedLogTest, RetentionDropsWholeOldSegments) {
  config_.segment_bytes = 1024;
  config_.retention_bytes = 4096;
  const std::vector<std::string> values(30, std::string(300, 'x'));
  {
    const auto log = open();
    append(*log, values);
    append(*log, values, {Topic::kItems, 0});
  }
  const auto log = open();  // retention is looked at with the first commit
  append(*log, {"last"});
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (log->bounds(kClicks0)->first == 0 && std::chrono::steady_clock::now() < deadline) {
    append(*log, {}, kClicks0);
    ::usleep(1'000);
  }
  const auto bounds = *log->bounds(kClicks0);
  EXPECT_EQ(bounds.next, 31);
  EXPECT_GT(bounds.first, 10);
  EXPECT_LT(bounds.first, 25);
  EXPECT_EQ(log->bounds({Topic::kItems, 0})->first, 0) << "items are needed whole by a rebuild";
  auto reader = log->open_reader({});
  ASSERT_TRUE((*reader)->assign(kClicks0, 0));
  const auto batch = (*reader)->poll(kPatience);
  ASSERT_FALSE(batch);
  EXPECT_EQ(batch.error().code, ErrorCode::kCorrupt);
  EXPECT_THAT(batch.error().message, HasSubstr("clicks/0: offset 0 is not in the log"));
}

TEST_F(EmbeddedLogTest, RetentionDropsSegmentsThatWereLastWrittenLongAgo) {
  config_.segment_bytes = 1024;
  config_.retention_age = std::chrono::hours(24);
  append(*open(), std::vector<std::string>(6, std::string(600, 'x')));
  ASSERT_EQ(segments().size(), 6U);
  for (const std::size_t i : {0U, 1U}) {
    fs::last_write_time(segments()[i], fs::file_time_type::clock::now() - std::chrono::hours(25));
  }
  const auto log = open();
  append(*log, {"x"});
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  // The bound moves first, the files go after it, one by one. "x" went into the last one.
  while (segments().size() > 4U && std::chrono::steady_clock::now() < deadline) {
    ::usleep(1'000);
  }
  EXPECT_EQ(log->bounds(kClicks0)->first, 2);
  std::vector<std::string> left;
  for (const fs::path& file : segments()) left.push_back(file.stem().string());
  EXPECT_THAT(left, ElementsAre(HasSubstr("2"), HasSubstr("3"), HasSubstr("4"), HasSubstr("5")));
}

TEST_F(EmbeddedLogTest, AReaderGoesOnInASegmentThatRetentionDropped) {
  config_.segment_bytes = 4096;
  config_.retention_bytes = 4096;
  append(*open(), std::vector<std::string>(30, std::string(300, 'x')));
  const auto log = open();
  ReaderOptions options;
  options.poll_records_max = 1;
  auto reader = log->open_reader(std::move(options));
  ASSERT_TRUE((*reader)->assign(kClicks0, log->bounds(kClicks0)->first));
  ASSERT_EQ((*reader)->poll(kPatience)->records.front().offset, 0);
  for (int i = 0; i < 1'000 && log->bounds(kClicks0)->first == 0; ++i) {
    append(*log, {"x"});
  }
  ASSERT_GT(log->bounds(kClicks0)->first, 0);
  const auto batch = (*reader)->poll(kPatience);
  ASSERT_TRUE(batch) << batch.error().message;
  EXPECT_EQ(batch->records.front().offset, 1);
}

TEST_F(EmbeddedLogTest, AFullDiskFailsItsWritersAndNothingElse) {
  const auto log = open();
  append(*log, {"before"});
  const auto size = fs::file_size(segments().front());
  limit_files(size + 100);  // room for the beginning of the record only
  auto writer = log->open_writer("victim");
  std::vector<base::Error> errors;
  const auto note = [&](base::Result<Offset> delivered) {
    if (!delivered) errors.push_back(delivered.error());
  };
  ASSERT_TRUE((*writer)->append(kClicks0, "k", std::string(500, 'x'), 1, note));
  const auto flushed = (*writer)->flush(kPatience);
  EXPECT_FALSE(flushed);
  EXPECT_EQ(fs::file_size(segments().front()), size) << "the partial write was taken back";
  limit_files(std::nullopt);
  ASSERT_EQ(errors.size(), 1U);
  EXPECT_EQ(errors.front().code, ErrorCode::kStorage);
  EXPECT_THAT(errors.front().message, HasSubstr(segments().front().string()));
  const auto refused = (*writer)->append(kClicks0, "k", "later", 1, note);
  ASSERT_FALSE(refused) << "a later record must not overtake the failed one";
  EXPECT_EQ(refused.error().code, ErrorCode::kClosed);
  append(*log, {"after"});
  EXPECT_THAT(read_all(*log), ElementsAre("before", "after"));
}

TEST_F(EmbeddedLogTest, AFullDiskAtTheStartOfASegmentLosesNothingLater) {
  config_.segment_bytes = 1024;
  {
    const auto log = open();
    append(*log, {std::string(600, 'a')});
    limit_files(0);
    auto writer = log->open_writer("victim");
    ASSERT_TRUE((*writer)->append(kClicks0, "k", std::string(600, 'b'), 1, {}));
    EXPECT_FALSE((*writer)->flush(kPatience));
    limit_files(std::nullopt);
    append(*log, {"small", std::string(600, 'c')});
  }
  EXPECT_THAT(read_all(*open()),
              ElementsAre(std::string(600, 'a'), "small", std::string(600, 'c')));
}

TEST_F(EmbeddedLogTest, AFullQueueIsUnavailableNamingItsLimit) {
  config_.message_bytes_max = 100;
  config_.queue_bytes_max = 200;
  config_.queue_full_wait_max = milliseconds(20);
  const auto log = open();
  auto writer = log->open_writer("w");
  std::promise<void> release;
  const auto released = release.get_future().share();
  // The log's thread is kept busy in a callback, so that nothing leaves the queue.
  ASSERT_TRUE((*writer)->append(kClicks0, "k", "v", 1, [released](auto) { released.wait(); }));
  base::Result<void> appended;
  for (int i = 0; i < 10 && appended; ++i) {
    appended = (*writer)->append(kClicks0, "k", std::string(90, 'x'), 1, {});
  }
  release.set_value();
  ASSERT_FALSE(appended);
  EXPECT_EQ(appended.error().code, ErrorCode::kUnavailable);
  EXPECT_THAT(appended.error().message, HasSubstr("queue_bytes_max"));
}

/// A child process appends until it is killed; what it reported as durable must be there.
TEST_F(EmbeddedLogTest, NothingReportedAsDurableIsLostByAKill) {
  const std::uint32_t seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  Offset reported_before = -1;
  for (int round = 0; round < 5; ++round) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      auto log = EmbeddedLog::open(config_);
      auto writer = (*log)->open_writer("child");
      const int out = pipe_ends[1];
      while (true) {
        const auto report = [out](base::Result<Offset> offset) {
          if (offset && ::write(out, &*offset, sizeof *offset) != sizeof *offset) ::_exit(1);
        };
        if (!(*writer)->append(kClicks0, "k", std::string(100, 'x'), 1, report)) ::_exit(1);
      }
    }
    ::close(pipe_ends[1]);
    Offset reported = reported_before;
    const int wanted = 200 + static_cast<int>(random() % 2'000);
    for (int i = 0; i < wanted; ++i) {
      ASSERT_EQ(::read(pipe_ends[0], &reported, sizeof reported),
                static_cast<ssize_t>(sizeof reported));
    }
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    ASSERT_EQ(::waitpid(child, nullptr, 0), child);
    while (::read(pipe_ends[0], &reported, sizeof reported) > 0) {
    }
    ::close(pipe_ends[0]);
    const auto log = open();
    ASSERT_NE(log, nullptr);
    EXPECT_GT(log->bounds(kClicks0)->next, reported);
    EXPECT_EQ(read_all(*log).size(), static_cast<std::size_t>(log->bounds(kClicks0)->next));
    reported_before = log->bounds(kClicks0)->next - 1;
  }
}

}  // namespace
}  // namespace sirenfeed::ingest
