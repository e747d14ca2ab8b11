// The context features against FEATURES.md, written down a second time over a plain list of events.
#include <cmath>
#include <numbers>
#include <random>
#include <set>

#include "state_fixture.h"

namespace sirenfeed::features {
namespace {

struct Exposure {
  base::UnixMs time = 0;
  std::string user, item, author, tag, surface;
  std::optional<base::UnixMs> click, long_view;
};

double logit(double p) { return std::log(p / (1 - p)); }
double clamped(double p) { return std::min(std::max(p, 1e-3), 1 - 1e-3); }

// Every feature by summing over all exposures strictly before.
class Oracle {
 public:
  std::vector<Exposure> log;

  double sum(base::UnixMs t, double half_ms, char what, const auto& matches) const {
    double total = 0;
    for (const Exposure& e : log) {
      if (!matches(e)) continue;
      std::optional<base::UnixMs> at = e.time;
      if (what == 'C') at = e.click;
      if (what == 'V') at = e.long_view;
      if (at && *at < t) total += std::exp2(-static_cast<double>(t - *at) / half_ms);
    }
    return total;
  }

  std::map<std::string, double> features(const Exposure& x) const {
    std::map<std::string, double> f;
    const base::UnixMs t = x.time;
    const double hour = 3.6e6, day = 8.64e7, month = 30 * day;
    const auto all = [](const Exposure&) { return true; };
    const double shown = sum(t, day, 'N', all);
    const double g = (sum(t, day, 'C', all) + 9) / (shown + 20);
    const double gv = (sum(t, day, 'V', all) + 6) / (shown + 20);
    const auto entity = [&](const std::string& name, double a, const auto& matches) {
      const std::vector<std::pair<std::string, double>> halves = {
          {"1h", hour}, {"1d", day}, {"30d", month}};
      for (const auto& [suffix, half] : halves) {
        const double n = sum(t, half, 'N', matches);
        const double c = sum(t, half, 'C', matches);
        f[name + ".ctr_" + suffix] = n == 0 ? 0 : logit(clamped((c + a * g) / (n + a))) - logit(g);
        f[name + ".shown_" + suffix] = std::log1p(n) / 3;
      }
    };
    const auto item = [&](const Exposure& e) { return e.item == x.item; };
    const auto user = [&](const Exposure& e) { return e.user == x.user; };
    const auto surface = [&](const Exposure& e) { return e.surface == x.surface; };
    entity("item", 10, item);
    entity("author", 10, [&](const Exposure& e) { return e.author == x.author; });
    entity("tag", 20, [&](const Exposure& e) { return e.tag == x.tag; });
    entity("surface", 20, surface);
    entity("item_surface", 10, [&](const Exposure& e) { return item(e) && surface(e); });
    entity("user", 4, user);
    entity("user_surface", 4, [&](const Exposure& e) { return user(e) && surface(e); });
    entity("user_tag", 2, [&](const Exposure& e) { return user(e) && e.tag == x.tag; });
    entity("user_author", 2, [&](const Exposure& e) { return user(e) && e.author == x.author; });
    f["global.ctr"] = logit(g);
    const auto long_view = [&](const std::string& name, double a, const auto& matches) {
      const double n = sum(t, month, 'N', matches);
      const double v = sum(t, month, 'V', matches);
      f[name] = n == 0 ? 0 : logit(clamped((v + a * gv) / (n + a))) - logit(gv);
    };
    long_view("item.long_view_30d", 10, item);
    long_view("user.long_view_30d", 4, user);
    recent(x, g, gv, f);
    return f;
  }

  void recent(const Exposure& x, double g, double gv, std::map<std::string, double>& f) const {
    const base::UnixMs t = x.time;
    std::vector<Exposure> last;  // newest first
    std::optional<base::UnixMs> last_click;
    std::optional<base::UnixMs> first_shown;
    bool seen = false;
    for (auto e = log.rbegin(); e != log.rend(); ++e) {
      if (e->time >= t) continue;
      if (e->item == x.item) first_shown = e->time;
      if (e->user != x.user) continue;
      seen = seen || e->item == x.item;
      if (last.size() < 20) last.push_back(*e);
      if (e->click && *e->click < t) last_click = std::max(last_click.value_or(0), *e->click);
    }
    const auto clicked = [&](const Exposure& e) { return e.click && *e.click < t ? 1.0 : 0.0; };
    double c5 = 0, c20 = 0, v20 = 0, k = 0, k_clicks = 0;
    for (std::size_t i = 0; i < last.size(); ++i) {
      c20 += clicked(last[i]);
      if (i < 5) c5 += clicked(last[i]);
      v20 += last[i].long_view && *last[i].long_view < t ? 1 : 0;
      if (last[i].tag != x.tag) continue;
      k += 1;
      k_clicks += clicked(last[i]);
    }
    const auto m = static_cast<double>(last.size());
    f["user.ctr_last5"] = logit(.98 * (c5 + g) / (std::min(m, 5.0) + 1) + .01) - logit(g);
    f["user.ctr_last20"] = logit(.98 * (c20 + 2 * g) / (m + 2) + .01) - logit(g);
    f["user.long_view_last20"] = logit(.98 * (v20 + 2 * gv) / (m + 2) + .01) - logit(gv);
    f["user_tag.shown_last20"] = std::log1p(k);
    f["user_tag.ctr_last20"] = logit(.98 * (k_clicks + g) / (k + 1) + .01) - logit(g);
    f["user.last_clicked"] = last.empty() ? 0 : 2 * clicked(last[0]) - 1;
    const auto since = [&](base::UnixMs then) {
      return std::log1p(static_cast<double>(t - then) / 1000) / 6 - 1;
    };
    f["user.since_exposure"] = last.empty() ? 1.5 : since(last[0].time);
    f["user.since_click"] = last_click ? since(*last_click) : 1.5;
    f["item.since_first_shown"] =
        first_shown ? std::log1p(static_cast<double>(t - *first_shown) / 3.6e6) / 3 - 1 : -1;
    f["user_item.seen"] = seen ? 1 : 0;
    const double pi = std::numbers::pi;
    const double s = static_cast<double>(t % 86'400'000) / 8.64e7;
    const double w = static_cast<double>(t % 604'800'000) / 6.048e8;
    f["time.hour_sin"] = std::sin(2 * pi * s);
    f["time.hour_cos"] = std::cos(2 * pi * s);
    f["time.weekday_sin"] = std::sin(2 * pi * w);
    f["time.weekday_cos"] = std::cos(2 * pi * w);
  }
};

TEST(Context, TheBaseSetHasSeventyNineDistinctNames) {
  const auto names = context_feature_names(ContextConfig());
  EXPECT_EQ(names.size(), 79U);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 79U);
}

TEST(Context, EveryFeatureIsWhatSummingOverTheLogGives) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  const auto pick = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  StateUnderTest s;
  Oracle oracle;
  std::map<std::string, std::pair<std::string, std::string>> items;  // author, tag
  for (int i = 0; i < 12; ++i) {
    const std::string id = "item-" + std::to_string(i);
    const std::string author = i % 4 == 0 ? "" : "author-" + std::to_string(i % 4);
    const std::string tag = i % 3 == 0 ? "" : "tag-" + std::to_string(i % 3);
    items[id] = {author, tag};
    s.apply(item_event(
        id, kStart - 1,
        tag.empty() ? std::vector<std::string>{} : std::vector<std::string>{tag, "second"},
        author.empty() ? std::nullopt : std::optional(author)));
  }
  base::UnixMs now = kStart;
  std::multimap<base::UnixMs, std::tuple<std::size_t, std::string>> due;  // actions to come
  for (int i = 0; i < 300; ++i) {
    now += pick(4) == 0 ? 0 : pick(1'200'000);
    Exposure x;
    x.time = now;
    x.user = "user-" + std::to_string(pick(3));
    x.item = "item-" + std::to_string(pick(12));
    std::tie(x.author, x.tag) = items[x.item];
    x.surface = pick(5) == 0 ? "" : "surface-" + std::to_string(pick(3));
    // Merge order: impressions of a millisecond come before its clicks.
    while (!due.empty() && due.begin()->first < now) {
      const auto [of, type] = due.begin()->second;
      const Exposure& e = oracle.log[of];
      s.apply(action_event(e.user, e.item, due.begin()->first, type, "i" + std::to_string(of)));
      due.erase(due.begin());
    }
    if (pick(2) == 0) x.click = now + 1 + pick(500'000);
    if (pick(3) == 0) x.long_view = now + 1 + pick(500'000);
    if (x.click) due.emplace(*x.click, std::tuple(oracle.log.size(), "click"));
    if (x.long_view) due.emplace(*x.long_view, std::tuple(oracle.log.size(), "long_view"));
    const auto expected = oracle.features(x);
    s.apply(impression_event("i" + std::to_string(i), x.user, now, {x.item},
                             x.surface.empty() ? std::nullopt : std::optional(x.surface)));
    oracle.log.push_back(x);
    const Example& example = s.seen.exposures.back();
    for (const auto& [name, value] : expected) {
      ASSERT_NEAR(s.feature(example, name), value, 2e-5) << name << " of exposure " << i;
    }
  }
  EXPECT_EQ(s.probe->actions_unattributed.value(), 0U);
}

TEST(Context, ItemMetadataGivesAgeDurationAndSurface) {
  FeaturesConfig config = StateUnderTest::default_config();
  config.context.surfaces = {"0", "1", "2", "4", "6"};
  config.context.duration_field = "duration_ms";
  config.context.duration_unit_s = 0.001;
  StateUnderTest s(config);
  ingest::ItemUpdate item = item_event("a", kStart);
  item.published_at_ms = kStart - 10 * base::kMsPerHour;
  item.numeric = {{"duration_ms", 49'866}};
  s.apply(item);
  s.apply(item_event("future", kStart));
  ingest::ItemUpdate bare = item_event("bare", kStart);
  bare.published_at_ms.reset();
  s.apply(bare);
  s.apply(impression_event("i", "u", kStart, {"a", "bare", "stub", "future"}, "4"));
  const Example& example = s.seen.exposures.at(0);
  EXPECT_NEAR(s.feature(example, "item.age"), std::log1p(10.0) / 3 - 1.5, 1e-6);
  EXPECT_NEAR(s.feature(example, "item.duration"), std::log(49.866) / 2 - 1.5, 1e-6);
  EXPECT_EQ(s.feature(example, "item.age", 1), 0);
  EXPECT_EQ(s.feature(example, "item.duration", 1), 0);
  EXPECT_EQ(s.feature(example, "item.age", 2), 0);
  EXPECT_EQ(s.feature(example, "item.age", 3), -1.5);
  EXPECT_EQ(s.feature(example, "surface.is_4"), 1);
  EXPECT_EQ(s.feature(example, "surface.is_other"), 0);
  s.apply(impression_event("j", "u", kStart + 1, {"a"}, "3"));
  EXPECT_EQ(s.feature(s.seen.exposures.at(1), "surface.is_4"), 0);
  EXPECT_EQ(s.feature(s.seen.exposures.at(1), "surface.is_other"), 1);
}

TEST(Context, CandidatesOfOneImpressionDoNotSeeEachOther) {
  StateUnderTest s;
  s.apply(item_event("a", kStart - 1, {"t"}, "p"));
  s.apply(item_event("b", kStart - 1, {"t"}, "p"));
  s.apply(impression_event("i", "u", kStart, {"a", "b"}));
  const Example& example = s.seen.exposures.at(0);
  for (const char* name : {"author.shown_1h", "tag.shown_1d", "user.shown_30d", "surface.shown_1h",
                           "user_tag.shown_last20"}) {
    EXPECT_EQ(s.feature(example, name, 1), 0) << name;
  }
  s.apply(impression_event("j", "u", kStart + 1, {"a"}));
  EXPECT_NEAR(s.feature(s.seen.exposures.at(1), "user.shown_30d"), std::log1p(2.0) / 3, 1e-6);
}

TEST(Context, AnActionsOwnMillisecondDoesNotSeeIt) {
  StateUnderTest s;
  s.apply(impression_event("i1", "u", kStart, {"a"}));
  s.apply(action_event("u", "a", kStart + 5, "click", "i1"));
  s.apply(impression_event("i2", "v", kStart + 5, {"a"}));
  s.apply(impression_event("i3", "v", kStart + 6, {"a"}));
  const double at = s.feature(s.seen.exposures.at(1), "item.ctr_30d");
  const double after = s.feature(s.seen.exposures.at(2), "item.ctr_30d");
  EXPECT_LT(at, 0);
  EXPECT_GT(after, at);
}

TEST(Context, ServingComputesTheVeryFloatsOfTheExample) {
  StateUnderTest s;
  s.apply(item_event("a", kStart - 1, {"t"}, "p"));
  s.apply(item_event("b", kStart - 1, {"t", "w"}, "q"));
  s.apply(impression_event("i1", "u", kStart, {"a", "b"}, "home"));
  s.apply(action_event("u", "a", kStart + 1'000, "click", "i1"));
  s.apply(action_event("u", "a", kStart + 2'000, "long_view", "i1"));
  const base::UnixMs now = kStart + 50'000;
  const auto user = s.reader().read_user("u", now);
  ASSERT_TRUE(user);
  const std::vector<Key> items = {base::xxh3_64("b"), base::xxh3_64("a")};
  const std::size_t count = s.reader().feature_names().size();
  std::vector<float> served(2 * count);
  s.reader().context(*user, items, "home", served);
  s.apply(impression_event("i2", "u", now, {"b", "a"}, "home"));
  const Example& example = s.seen.exposures.at(1);
  for (int c = 0; c < 2; ++c) {
    for (std::size_t f = 0; f < count; ++f) {
      EXPECT_EQ(served[static_cast<std::size_t>(c) * count + f],
                example.candidates(c).context(static_cast<int>(f)))
          << s.reader().feature_names()[f] << " of candidate " << c;
    }
  }
  ASSERT_EQ(static_cast<int>(user->history.tokens.size()), example.history().item_size());
  EXPECT_EQ(user->history.tokens[0].action_bits, example.history().action_bits(0));
}

}  // namespace
}  // namespace sirenfeed::features
