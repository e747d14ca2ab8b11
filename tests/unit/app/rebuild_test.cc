#include "app/rebuild.h"

#include <example.pb.h>

#include <map>
#include <set>

#include "features/log_coverage.h"
#include "node_fixture.h"

namespace sirenfeed::app {
namespace {

class RebuildTest : public NodeFixture {
 protected:
  static base::Result<RebuildReport> rebuild(const Settings& settings,
                                             const RebuildOptions& options = {}) {
    return rebuild_state(settings, options, [](std::uint64_t, std::uint64_t) {});
  }
  /// Impression ids in topic examples, and how often each is there.
  static std::map<std::string, int> sent(const Settings& settings) {
    const auto log = open_log(settings);
    std::map<std::string, int> ids;
    for (ingest::Partition p = 0; p < 2; ++p) {
      const auto bounds = log->bounds({ingest::Topic::kExamples, p});
      const auto reader = log->open_reader({});
      EXPECT_TRUE((*reader)->assign({ingest::Topic::kExamples, p}, std::nullopt));
      for (ingest::Offset read = bounds->first; read < bounds->next;) {
        const auto batch = (*reader)->poll(std::chrono::milliseconds(100));
        for (const ingest::LogRecord& record : batch->records) {
          features::Example example;
          EXPECT_TRUE(example.ParseFromString(*record.value));
          ++ids[example.impression_id()];
          read = record.offset + 1;
        }
      }
    }
    return ids;
  }
};

TEST_F(RebuildTest, FromACompleteLogTheStateIsWhatItWas) {
  append(settings_, visits(0, 60));
  catch_up(settings_);
  const std::string before = canonical(settings_);
  ASSERT_GT(before.size(), 5'000U);
  const auto report = rebuild(settings_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->missing, std::vector<std::string>());
  EXPECT_EQ(report->counts.in, report->counts.applied);
  EXPECT_EQ(without_epochs(canonical(settings_)), without_epochs(before));
}

TEST_F(RebuildTest, NothingIsSentTwiceAndNothingIsLeftOut) {
  append(settings_, visits(0, 60));
  catch_up(settings_);
  // Closed windows that the old state knew of, and had not sent.
  append(settings_, visits(60, 90));
  catch_up(settings_, /*send=*/false);
  ASSERT_TRUE(rebuild(settings_));
  append(settings_, visits(90, 130));
  catch_up(settings_);
  const auto ids = sent(settings_);
  for (const auto& [id, count] : ids) EXPECT_EQ(count, 1) << id;
  for (int i = 0; i < 115; ++i) EXPECT_EQ(ids.count("i" + std::to_string(i)), 1U) << i;
}

TEST_F(RebuildTest, WhatAnErasureMadeVoidIsNeitherAppliedNorSent) {
  append(settings_, visits(0, 30));
  append(settings_, {erasure("user-1", kStart + 31 * 60'000)});
  append(settings_, visits(30, 60));
  const auto report = rebuild(settings_);  // of a state that never was
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->tombstones, 1U);
  EXPECT_GT(report->counts.rejected, 0U);
  catch_up(settings_);
  const std::string text = canonical(settings_);
  EXPECT_NE(text.find("user user-1"), std::string::npos) << "what came later counts";
  const auto ids = sent(settings_);
  EXPECT_EQ(ids.count("i1"), 0U);
  EXPECT_EQ(ids.count("i6"), 0U);
  EXPECT_EQ(ids.count("i0"), 1U);
}

TEST_F(RebuildTest, FromATimeEverythingYoungerIsAsItWasAndTheRestIsNamed) {
  append(settings_, visits(0, 120));
  catch_up(settings_);
  const std::string before = canonical(settings_);
  const base::UnixMs from = kStart + 60 * 60'000;
  const auto report = rebuild(settings_, {.from = from});
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->left_out, 90U);  // 60 impressions, 30 clicks
  ASSERT_EQ(report->missing.size(), 1U);
  EXPECT_NE(report->missing[0].find("90 impressions and clicks before 2022-"), std::string::npos);
  // Sequence entries, ids and open windows; the counters lack what is missing.
  const std::string after = canonical(settings_);
  std::istringstream in(before);
  std::size_t younger = 0;
  for (std::string line; std::getline(in, line);) {
    const auto at = line.find(" sequence: ");
    if (at == std::string::npos) continue;
    const base::UnixMs time = std::stoll(line.substr(at + 11 + 17));
    const bool there = after.find(line + "\n") != std::string::npos;
    EXPECT_EQ(there, time >= from) << line;
    younger += there ? 1 : 0;
  }
  EXPECT_EQ(younger, 60U);
  // A start goes on from here: what was left out does not come back.
  catch_up(settings_);
  EXPECT_EQ(canonical(settings_), after);
}

TEST_F(RebuildTest, ALogThatRetentionHasCutIsNamed) {
  append(settings_, visits(0, 400));
  for (const auto& entry : std::filesystem::directory_iterator(settings_.log_dir())) {
    if (!entry.path().filename().string().starts_with("impressions-")) continue;
    std::set<std::filesystem::path> segments;
    for (const auto& file : std::filesystem::directory_iterator(entry.path())) {
      segments.insert(file.path());
    }
    ASSERT_GT(segments.size(), 1U);
    std::filesystem::remove(*segments.begin());
  }
  const auto report = rebuild(settings_);
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_EQ(report->missing.size(), 2U);
  EXPECT_NE(report->missing[0].find("impressions/0: offsets 0 to "), std::string::npos);
}

TEST_F(RebuildTest, AStateThatIsAheadOfItsLogIsRebuilt) {
  append(settings_, visits(0, 60));
  catch_up(settings_);
  std::filesystem::remove_all(settings_.log_dir());
  append(settings_, visits(0, 20));
  {
    const auto node = StoppedNode::open(settings_, StoppedNode::Log::kEmbedded);
    ASSERT_TRUE(node);
    const auto covers = features::check_log_covers((*node)->state(), (*node)->log());
    ASSERT_FALSE(covers);
    EXPECT_EQ(covers.error().code, base::ErrorCode::kCorrupt);
    EXPECT_NE(covers.error().message.find("sirenfeed rebuild"), std::string::npos);
  }
  const auto report = rebuild(settings_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_EQ(report->counts.in, 50U);
  catch_up(settings_);
}

TEST_F(RebuildTest, AFailureLeavesTheOldState) {
  append(settings_, visits(0, 60));
  catch_up(settings_);
  const std::string before = canonical(settings_);
  {
    const auto log = open_log(settings_);  // another process
    const auto report = rebuild(settings_);
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, base::ErrorCode::kLocked) << report.error().message;
  }
  EXPECT_EQ(canonical(settings_), before);
  std::filesystem::create_directories(settings_.state_dir() + ".rebuilding/left");
  ASSERT_TRUE(rebuild(settings_));
  EXPECT_FALSE(std::filesystem::exists(settings_.state_dir() + ".rebuilding"));
}

TEST_F(RebuildTest, NoProcessOpensTheFolderWhileItWorks) {
  append(settings_, visits(0, 60));
  catch_up(settings_);
  int told = 0;
  const auto report = rebuild_state(settings_, {}, [&](std::uint64_t, std::uint64_t) {
    ++told;
    const auto node = StoppedNode::open(settings_, StoppedNode::Log::kNone);
    ASSERT_FALSE(node);
    EXPECT_EQ(node.error().code, base::ErrorCode::kLocked);
    EXPECT_NE(node.error().message.find("sirenfeed rebuild"), std::string::npos);
  });
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_GT(told, 0);
  EXPECT_TRUE(StoppedNode::open(settings_, StoppedNode::Log::kNone));
}

TEST_F(RebuildTest, WithoutALogItSaysWhatToGive) {
  const auto report = rebuild(settings_);
  ASSERT_FALSE(report);
  EXPECT_EQ(report.error().code, base::ErrorCode::kNotFound);
  EXPECT_NE(report.error().message.find("--brokers"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::app
