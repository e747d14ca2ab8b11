#include "serving/selector.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <set>

namespace sirenfeed::serving {
namespace {

ScoredCandidate scored(const std::string& id, double utility, Key author = 0, Key tag = 0) {
  auto item = std::make_shared<features::CatalogItem>();
  item->id = id;
  item->known = true;
  item->author = author;
  if (tag != 0) item->tag_keys = {tag};
  ScoredCandidate candidate;
  candidate.candidate.info = std::move(item);
  candidate.utility = utility;
  return candidate;
}

std::vector<std::string> ids(const std::vector<ScoredCandidate>& scored,
                             const Selection& selection) {
  std::vector<std::string> out;
  for (const SelectedItem& item : selection.selected) {
    out.push_back(scored[item.index].candidate.info->id);
  }
  return out;
}

SelectorConfig greedy() {
  SelectorConfig config;
  config.exploration_share = 0;
  config.per_author_max = 0;
  config.per_topic_share = 1;
  return config;
}

TEST(Selector, OrdersByUtilityThenById) {
  const std::vector<ScoredCandidate> candidates = {scored("c", .5), scored("a", .5),
                                                   scored("b", .9)};
  const Selection selection = Selector(greedy()).run_selector(candidates, 3, 1);
  EXPECT_EQ(ids(candidates, selection), (std::vector<std::string>{"b", "a", "c"}));
}

TEST(Selector, NonFiniteUtilitiesSink) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<ScoredCandidate> candidates = {scored("nan", nan), scored("inf", infinity),
                                                   scored("low", -5)};
  const Selection selection = Selector(greedy()).run_selector(candidates, 3, 1);
  EXPECT_EQ(ids(candidates, selection), (std::vector<std::string>{"low", "inf", "nan"}));
}

TEST(Selector, CapsHoldForAuthorsAndTopicsAndNameTheCap) {
  SelectorConfig config = greedy();
  config.per_author_max = 2;
  config.per_topic_share = 0.5;
  std::vector<ScoredCandidate> candidates;
  for (int i = 0; i < 4; ++i) candidates.push_back(scored("a" + std::to_string(i), 9 - i, 7));
  for (int i = 0; i < 4; ++i) candidates.push_back(scored("t" + std::to_string(i), 4 - i, 0, 5));
  const Selection selection = Selector(config).run_selector(candidates, 4, 1);
  EXPECT_EQ(ids(candidates, selection), (std::vector<std::string>{"a0", "a1", "t0", "t1"}));
  EXPECT_EQ(selection.left_out[2], "author_cap");
  EXPECT_EQ(selection.left_out[7], "topic_cap");
}

TEST(Selector, ItemsWithoutAuthorOrTagAreNoGroup) {
  SelectorConfig config = greedy();
  config.per_author_max = 1;
  config.per_topic_share = 0.1;
  std::vector<ScoredCandidate> candidates;
  for (int i = 0; i < 5; ++i) candidates.push_back(scored("n" + std::to_string(i), i));
  EXPECT_EQ(Selector(config).run_selector(candidates, 5, 1).selected.size(), 5U);
}

TEST(Selector, EveryCandidateIsSelectedOrHasAReason) {
  std::vector<ScoredCandidate> candidates;
  for (int i = 0; i < 60; ++i) {
    candidates.push_back(scored("i" + std::to_string(i), i % 7, static_cast<Key>(1 + i % 5),
                                static_cast<Key>(1 + i % 3)));
  }
  SelectorConfig config;
  config.exploration_share = 0.3;
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    const Selection selection = Selector(config).run_selector(candidates, 12, seed);
    std::set<std::size_t> selected;
    for (const SelectedItem& item : selection.selected) selected.insert(item.index);
    ASSERT_EQ(selected.size(), selection.selected.size()) << "seed " << seed;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      ASSERT_EQ(selection.left_out[i].empty(), selected.contains(i)) << "seed " << seed;
    }
  }
}

TEST(Selector, PropensitiesAreTheChancesOfTheFirstSlot) {
  const std::vector<ScoredCandidate> candidates = {scored("a", 3), scored("b", 2), scored("c", 1)};
  SelectorConfig config = greedy();
  config.exploration_share = 0.3;
  std::map<std::size_t, int> shown;
  std::map<std::size_t, double> propensity;
  constexpr int kTrials = 20'000;
  for (int seed = 0; seed < kTrials; ++seed) {
    const Selection selection =
        Selector(config).run_selector(candidates, 1, static_cast<std::uint64_t>(seed));
    ++shown[selection.selected[0].index];
    propensity[selection.selected[0].index] = selection.selected[0].propensity;
  }
  EXPECT_DOUBLE_EQ(propensity[0], 0.7 + 0.1);
  for (const auto& [index, count] : shown) {
    EXPECT_NEAR(count / double{kTrials}, propensity[index], 0.01);
  }
}

TEST(Selector, TheSameSeedGivesTheSameSlots) {
  std::vector<ScoredCandidate> candidates;
  for (int i = 0; i < 30; ++i) candidates.push_back(scored("i" + std::to_string(i), i));
  SelectorConfig config;
  config.exploration_share = 0.5;
  const Selector selector(config);
  EXPECT_EQ(ids(candidates, selector.run_selector(candidates, 10, 42)),
            ids(candidates, selector.run_selector(candidates, 10, 42)));
}

}  // namespace
}  // namespace sirenfeed::serving
