#include "app/run_file.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "app/folder_lock.h"

namespace sirenfeed::app {
namespace {

class RunFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = std::filesystem::temp_directory_path() / "sirenfeed-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    dir_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(dir_); }
  std::string dir_;
};

TEST_F(RunFileTest, NamesTheProcessWhileItLives) {
  EXPECT_FALSE(find_running(dir_));
  {
    const auto file = RunFile::write(dir_, "http://127.0.0.1:1", "secret");
    ASSERT_TRUE(file);
    const auto permissions = std::filesystem::status(dir_ + "/run.json").permissions();
    EXPECT_EQ(permissions & std::filesystem::perms(077), std::filesystem::perms::none);
    const auto running = find_running(dir_);
    ASSERT_TRUE(running);
    EXPECT_EQ(running->pid, getpid());
    EXPECT_EQ(running->url, "http://127.0.0.1:1");
    EXPECT_EQ(running->token, "secret");
  }
  EXPECT_FALSE(find_running(dir_));
}

TEST_F(RunFileTest, AFileThatACrashLeftBehindCountsAsNone) {
  const pid_t child = fork();
  if (child == 0) {
    const auto file = RunFile::write(dir_, "http://x:1");
    _exit(file ? 0 : 1);  // as a kill: nothing is destroyed
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  EXPECT_TRUE(std::filesystem::exists(dir_ + "/run.json"));
  EXPECT_FALSE(find_running(dir_));
  // Nor when its number is that of a living process, as in a container where every node is 1.
  std::ofstream(dir_ + "/run.json") << R"({"pid":)" << getpid() << R"(,"url":"http://x:1"})";
  EXPECT_FALSE(find_running(dir_));
}

TEST_F(RunFileTest, AFileThatIsNoneCountsAsNone) {
  std::ofstream(dir_ + "/run.json") << "{ not json";
  EXPECT_FALSE(find_running(dir_));
}

TEST_F(RunFileTest, AFolderThatCannotBeWrittenIsAnError) {
  EXPECT_FALSE(RunFile::write(dir_ + "/missing", "http://x:1"));
}

TEST_F(RunFileTest, ASecondProcessIsKeptOutOfALockedFolder) {
  auto first = FolderLock::take(dir_ + "/trainer");
  ASSERT_TRUE(first);
  const auto second = FolderLock::take(dir_ + "/trainer");
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, base::ErrorCode::kLocked);
  EXPECT_NE(second.error().message.find("trainer"), std::string::npos);
}

}  // namespace
}  // namespace sirenfeed::app
