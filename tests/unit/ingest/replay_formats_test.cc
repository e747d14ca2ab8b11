// mind, movielens, csv and jsonl: what their rows become, and what is said of rows that are wrong.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/ingest/replay_files.h"

namespace sirenfeed::ingest {
namespace {

constexpr const char* kData = SIRENFEED_SOURCE_DIR "/tests/data/replay/";

class ReplayFormatsTest : public ReplayFilesTest {
 protected:
  /// A file of the test data, gzipped, in a folder without its companions.
  std::string gzipped(const std::string& name) {
    std::ifstream file(kData + name, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    EXPECT_FALSE(text.empty());
    return write_gzip(name + ".gz", text);
  }
  static ReplayOptions mapped(const std::string& text) {
    ReplayOptions options;
    const auto map = ReplayMapping::parse(text, "--map");
    EXPECT_TRUE(map) << map.error().message;
    if (map) options.map = *map;
    return options;
  }
};

TEST_F(ReplayFormatsTest, MindRowsAreSlatesInTimeOrder) {
  EXPECT_EQ(
      read(std::string(kData) + "behaviors.tsv", ReplayFormat::kMind),
      (Strings{
          R"(1573689600000 items N2 {"item_id":"N2","timestamp":1573689600000,"tags":["news","newsworld"],"title":"Two","url":"https://news.example/N2"})",
          R"(1573689600000 items N3 {"item_id":"N3","timestamp":1573689600000,"tags":["news","newsworld"],"title":"Three"})",
          R"(1573689600000 items N1 {"item_id":"N1","timestamp":1573689600000,"tags":["sports","soccer"],"title":"A \"quoted\" title","url":"https://news.example/N1"})",
          R"(1573689600000 impressions U8 {"impression_id":"behaviors:2","user_id":"U8","timestamp":1573689600000,"items":["N2","N3","N1"]})",
          R"(1573689601000 clicks U8 {"user_id":"U8","item_id":"N3","timestamp":1573689601000,"type":"click","impression_id":"behaviors:2","event_id":"behaviors:2:1:click"})",
          R"(1573689601000 clicks U8 {"user_id":"U8","item_id":"N1","timestamp":1573689601000,"type":"click","impression_id":"behaviors:2","event_id":"behaviors:2:2:click"})",
          R"(1573808758000 items N4 {"item_id":"N4","timestamp":1573808758000,"tags":["weather"],"title":"Four"})",
          R"(1573808758000 impressions U7 {"impression_id":"behaviors:1","user_id":"U7","timestamp":1573808758000,"items":["N3","N1","N4"]})",
          R"(1573808759000 clicks U7 {"user_id":"U7","item_id":"N1","timestamp":1573808759000,"type":"click","impression_id":"behaviors:1","event_id":"behaviors:1:1:click"})",
          R"(1573821000000 items N5 {"item_id":"N5","timestamp":1573821000000})",
          R"(1573821000000 impressions U7 {"impression_id":"behaviors:3","user_id":"U7","timestamp":1573821000000,"items":["N5"]})",
      }));
}

TEST_F(ReplayFormatsTest, WithoutNewsTheItemsHaveNoMetadata) {
  const Strings alone = read(gzipped("behaviors.tsv"), ReplayFormat::kMind);
  ASSERT_EQ(alone.size(), 11U);
  EXPECT_TRUE(alone[0].ends_with(R"({"item_id":"N2","timestamp":1573689600000})")) << alone[0];
  ReplayOptions options;
  options.items_file = "none";
  EXPECT_EQ(read(std::string(kData) + "behaviors.tsv", ReplayFormat::kMind, options), alone);
  options.items_file = gzipped("news.tsv");
  EXPECT_EQ(read(gzipped("behaviors.tsv"), ReplayFormat::kMind, options),
            read(std::string(kData) + "behaviors.tsv", ReplayFormat::kMind));
  options.items_file = (folder() / "gone.tsv").string();
  EXPECT_NE(read(gzipped("behaviors.tsv"), ReplayFormat::kMind, options).back().find("gone.tsv"),
            std::string::npos);
}

TEST_F(ReplayFormatsTest, MindErrorsNameFileLineAndColumn) {
  const auto error = [&](const std::string& row) {
    return read(write("b.tsv", "1\tU\t11/15/2019 9:05:58 AM\t\tN1-0\n" + row + "\n"),
                ReplayFormat::kMind)
        .back();
  };
  EXPECT_EQ(error("2\tU\t11/15/2019 9:05:58 AM\t\tN1-0 N2"),
            "b.tsv:2: impressions: expected items as ID-0 or ID-1 (the test set has no labels), "
            "got 'N2'");
  EXPECT_EQ(error("2\tU\t13/15/2019 9:05:58 AM\t\tN1-0"),
            "b.tsv:2: time: expected a time (Unix seconds or milliseconds, ISO-8601, or MM/DD/YYYY "
            "HH:MM:SS AM), got '13/15/2019 9:05:58 AM'");
  EXPECT_EQ(error("2\t\t11/15/2019 9:05:58 AM\t\tN1-0"), "b.tsv:2: user: expected an id, got ''");
  EXPECT_EQ(error("2\tU\t11/15/2019 9:05:58 AM\t\t"),
            "b.tsv:2: impressions: expected at least one item, got ''");
  EXPECT_TRUE(error("2\tU\t11/15/2019 9:05:58 AM\tN1-0").starts_with("b.tsv:2: "));
  EXPECT_TRUE(error("2\tU\t11/15/2019 9:05:58 AM\t\tN1-0\tmore").starts_with("b.tsv:2: "));
  EXPECT_EQ(error(std::string("2\tU\t11/15/2019 9:05:58 AM\t\tN1-0 ") + '\0' + "N2-1"),
            "b.tsv:2: expected text, got a NUL byte");
}

TEST_F(ReplayFormatsTest, RatingsAreExposuresAndGoodOnesClicks) {
  EXPECT_EQ(
      read(std::string(kData) + "ratings.csv", ReplayFormat::kMovielens),
      (Strings{
          R"x(1260759100000 items 31 {"item_id":"31","timestamp":1260759100000,"tags":["Action","Crime"],"title":"Thief, The (1995)"})x",
          R"(1260759100000 impressions 2 {"impression_id":"ratings:3","user_id":"2","timestamp":1260759100000,"items":["31"]})",
          R"(1260759101000 clicks 2 {"user_id":"2","item_id":"31","timestamp":1260759101000,"type":"click","value":5,"impression_id":"ratings:3","event_id":"ratings:3:click"})",
          R"x(1260759144000 items 10 {"item_id":"10","timestamp":1260759144000,"title":"GoldenCheese (1995)"})x",
          R"(1260759144000 impressions 1 {"impression_id":"ratings:1","user_id":"1","timestamp":1260759144000,"items":["31"]})",
          R"(1260759144000 impressions 1 {"impression_id":"ratings:2","user_id":"1","timestamp":1260759144000,"items":["10"]})",
          R"(1260759145000 clicks 1 {"user_id":"1","item_id":"10","timestamp":1260759145000,"type":"click","value":4,"impression_id":"ratings:2","event_id":"ratings:2:click"})",
      }));
  ReplayOptions strict;
  strict.click_min = 4.5;
  strict.click_delay_ms = 250;
  const Strings fewer = read(gzipped("ratings.csv"), ReplayFormat::kMovielens, strict);
  ASSERT_EQ(fewer.size(), 6U);
  EXPECT_TRUE(fewer[2].starts_with("1260759100250 clicks 2 ")) << fewer[2];
}

TEST_F(ReplayFormatsTest, InterFilesBringTheirItemFile) {
  EXPECT_EQ(
      read(std::string(kData) + "small.inter", ReplayFormat::kMovielens),
      (Strings{
          R"(881250948000 items 302 {"item_id":"302","timestamp":881250948000})",
          R"(881250948000 impressions 186 {"impression_id":"small:2","user_id":"186","timestamp":881250948000,"items":["302"]})",
          R"(881250949000 items 242 {"item_id":"242","timestamp":881250949000,"tags":["Comedy","Drama"],"title":"Kola Nut"})",
          R"(881250949000 impressions 196 {"impression_id":"small:1","user_id":"196","timestamp":881250949000,"items":["242"]})",
          R"(881250949000 clicks 186 {"user_id":"186","item_id":"302","timestamp":881250949000,"type":"click","impression_id":"small:2","event_id":"small:2:click"})",
      }));
  const std::string labels =
      write("x.inter",
            "timestamp:float\tuser_id:token\titem_id:token\tlabel:float\n881250949\tu\ti\t1\n");
  EXPECT_EQ(read(labels, ReplayFormat::kMovielens).size(), 3U);
  EXPECT_EQ(read(write("y.inter", "timestamp:float\tuser_id:token\titem_id:token\n"),
                 ReplayFormat::kMovielens),
            Strings{"y.inter:1: expected a column 'rating:float' or 'label:float'"});
  EXPECT_EQ(read(write("z.csv", "userId,movieId,rating\n"), ReplayFormat::kMovielens),
            Strings{"z.csv:1: expected a column 'timestamp'"});
}

TEST_F(ReplayFormatsTest, ATableIsReadByItsMapping) {
  ReplayOptions options = mapped(
      "user=who,item=what,time=when,type=kind,value=amount,surface=page,position=place,"
      "impression=group");
  options.items_map = *ReplayMapping::parse(
      "item=sku,author=shop,tags=labels,published=since,title=name", "--items-map");
  options.delimiter = ';';
  options.items_file = std::string(kData) + "goods.csv";
  EXPECT_EQ(
      read(std::string(kData) + "shop.csv", ReplayFormat::kCsv, options),
      (Strings{
          R"(1709287199000 items g1 {"item_id":"g1","timestamp":1709287199000,"published_at":1706745600000,"author_id":"s9","tags":["red","small"],"title":"One \"1\""})",
          R"(1709287199000 impressions bob {"impression_id":"shop:4","user_id":"bob","timestamp":1709287199000,"items":[{"item_id":"g1","position":0}],"surface":"se;arch"})",
          R"(1709287200000 items g2 {"item_id":"g2","timestamp":1709287200000})",
          R"(1709287200000 impressions ann {"impression_id":"g-1","user_id":"ann","timestamp":1709287200000,"items":[{"item_id":"g1","position":0},{"item_id":"g2","position":1}],"surface":"home"})",
          R"(1709287205000 clicks ann {"user_id":"ann","item_id":"g2","timestamp":1709287205000,"type":"add to cart","value":2,"impression_id":"g-1","event_id":"shop:3:add to cart"})",
      }));
}

TEST_F(ReplayFormatsTest, JsonLinesAreReadByNameOrPointer) {
  const ReplayOptions options =
      mapped("user=u,item=i,time=t,click=clicked,tags=/m/tags,author=/m/by");
  EXPECT_EQ(
      read(gzipped("visits.jsonl"), ReplayFormat::kJsonl, options),
      (Strings{
          R"(1709287200250 items b {"item_id":"b","timestamp":1709287200250})",
          R"(1709287200250 impressions 6 {"impression_id":"visits:2","user_id":"6","timestamp":1709287200250,"items":["b"]})",
          R"(1709287200500 items a {"item_id":"a","timestamp":1709287200500,"author_id":"me","tags":["x","y"]})",
          R"(1709287200500 impressions 5 {"impression_id":"visits:1","user_id":"5","timestamp":1709287200500,"items":["a"]})",
          R"(1709287201500 clicks 5 {"user_id":"5","item_id":"a","timestamp":1709287201500,"type":"click","impression_id":"visits:1","event_id":"visits:1:click"})",
      }));
  const auto error = [&](const std::string& line) {
    return read(write("v.jsonl", "\n" + line), ReplayFormat::kJsonl, options).back();
  };
  EXPECT_TRUE(error("[]").starts_with("v.jsonl:2: expected one JSON object a line"));
  EXPECT_EQ(error(R"({"u":{"x":1},"i":"a","t":1709287200})"),
            R"(v.jsonl:2: u: expected a text, number, flag or list of them, got '{"x":1}')");
  EXPECT_EQ(error(R"({"u":"u\u0000","i":"a","t":1709287200})"),
            R"(v.jsonl:2: u: expected text without a NUL character, got '"u\u0000"')");
  EXPECT_EQ(error(R"({"i":"a","t":1709287200})"), "v.jsonl:2: u: expected an id, got ''");
  EXPECT_EQ(error(R"({"u":1,"i":"a","t":1709287200,"clicked":"yes"})"),
            "v.jsonl:2: clicked: expected a number, got 'yes'");
}

TEST_F(ReplayFormatsTest, TableErrorsNameFileLineAndColumn) {
  const ReplayOptions options = mapped("user=u,item=i,time=t,type=k,position=p,published=b");
  const std::string header = "u,i,t,k,p,b\n";
  const auto error = [&](const std::string& row) {
    return read(write("t.csv", header + "u,i,1709287200,show,1,\n" + row + "\n"),
                ReplayFormat::kCsv, options)
        .back();
  };
  EXPECT_EQ(error("u,i,soon,show,1,"),
            "t.csv:3: t: expected a time (Unix seconds or milliseconds, ISO-8601, or MM/DD/YYYY "
            "HH:MM:SS AM), got 'soon'");
  EXPECT_EQ(error("u,i,12,show,1,"),
            "t.csv:3: t: expected at least 100000000000 ms (timestamp_min), got '12'");
  EXPECT_EQ(error("u,i,1709287200,,1,"), "t.csv:3: k: expected what the row is, got ''");
  EXPECT_EQ(error("u,i,1709287200,show,-1,"),
            "t.csv:3: p: expected an integer of at least 0, got '-1'");
  EXPECT_TRUE(error("u,i,1709287200,show,1,then").starts_with("t.csv:3: b: expected a time"));
  EXPECT_EQ(error("u,\xff,1709287200,show,1,"),
            "t.csv:3: i: expected UTF-8, got bytes that are not UTF-8");
  EXPECT_TRUE(error("u,\"i,1709287200,show,1,").starts_with("t.csv:3: "));
  EXPECT_EQ(read(write("t.csv", "u,i\n"), ReplayFormat::kCsv, options),
            Strings{"t.csv:1: expected a column 't'"});
  EXPECT_TRUE(read(write("t.csv", ""), ReplayFormat::kCsv, options)[0].starts_with("t.csv:"));
}

TEST_F(ReplayFormatsTest, AMappingThatCannotWorkIsRefused) {
  const auto message = [](const std::string& text) {
    const auto map = ReplayMapping::parse(text, "--map");
    if (!map) return map.error().message;
    const auto valid = map->validate("--map", false);
    return valid ? "" : valid.error().message;
  };
  EXPECT_EQ(message("user=u,item=i,time=t,click=c"), "");
  EXPECT_EQ(message("user=u,item=i,click=c"), "--map: time: missing, e.g. time=time_id");
  EXPECT_EQ(message("user=u,item=i,time=t"),
            "--map: expected click (a label of each exposure) or type (what each row is)");
  EXPECT_TRUE(message("user=u,item=i,time=t,color=c").starts_with("--map: unknown role 'color'"));
  EXPECT_EQ(message("user"), "--map: expected role=column, got 'user'");
  EXPECT_EQ(message("user=u,user=v"), "--map: user: given twice");
  EXPECT_EQ(message("user=,item=i,time=t,click=c"), "--map: user: expected a column");
}

TEST_F(ReplayFormatsTest, SortingThroughFilesChangesNothing) {
  std::string text = "userId,movieId,rating,timestamp\n";
  for (int i = 0; i < 3000; ++i) {
    const int time = 1'260'000'000 + (i * 7919) % 1009;
    text += std::to_string(i % 53) + "," + std::to_string(i * 31 % 97) + "," +
            std::to_string(i % 6) + "," + std::to_string(time) + "\n";
  }
  const std::string path = write("r.csv", text);
  ReplayOptions options;
  const Strings in_memory = read(path, ReplayFormat::kMovielens, options);
  EXPECT_EQ(in_memory.size(), 97U + 3000U + 1000U);
  options.sort_bytes_max = 4'000;
  EXPECT_EQ(read(path, ReplayFormat::kMovielens, options), in_memory);
}

TEST(ReplayRules, TellRunsApart) {
  ReplayOptions one;
  ReplayOptions two;
  EXPECT_EQ(one.rules(), two.rules());
  two.click_min = 3;
  EXPECT_NE(one.rules(), two.rules());
  two = one;
  two.map.columns["user"] = "u";
  EXPECT_NE(one.rules(), two.rules());
}

}  // namespace
}  // namespace sirenfeed::ingest
