#!/usr/bin/env python3
"""Feeds after a replay on the embedded log: fresh, unseen, living items; takedown; hot swap of the model."""
import random
from urllib.parse import quote

from support import feeds, inputs
from support.binary import run
from support.case import EndToEndTest, main
from support.waiting import wait_for

AGE_MAX_MS = 30 * 86_400_000
USERS = 100
SETTINGS = [*inputs.KUAIRAND_SETTINGS, "--clock", "event", "--features.lateness_max_ms", "0",
            "--ingest.idle_flush_after_ms", "-1", "--partitions", "4", "--serving.age_max_ms", AGE_MAX_MS]


class FeedTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        cls.data = cls.make_class_folder() / "data"
        run("publish", inputs.SLICE, "--format", "kuairand", "--data", cls.data, "--partitions", "4")
        cls.shown = feeds.shown_items(inputs.kuairand_rows())
        cls.start_up()

    @classmethod
    def start_up(cls):
        cls.node = cls.start_for_class("up", "up", *SETTINGS, "--data", cls.data)
        cls.node.wait_ready(180)

    def some_users(self, count=USERS):
        return random.Random(7).sample(sorted(self.shown), count)

    def test_users_of_the_log_get_fresh_unseen_living_items(self):
        users = self.some_users()
        for user in users[:10]:
            self.assertEqual(feeds.history_of(self, self.node, user).keys(), self.shown[user])
        feeds.check_feeds(self, self.node, {user: self.shown[user] for user in users}, AGE_MAX_MS)

    def test_an_unknown_user_gets_a_feed_and_an_unknown_item_is_ranked_and_marked(self):
        feed = self.node.get("/v1/feed/nobody-has-seen-me?count=10&explain=true").json()
        self.assertEqual(len(feed["items"]), 10)
        self.assertEqual(feed["history"], 0)
        self.assertTrue(all(item["why"] for item in feed["items"]), feed)
        known = feed["items"][0]["item_id"]
        ranked = self.node.post("/v1/rank", {"user": self.some_users(1)[0], "items": [known, "never-heard-of"]}).json()
        marks = {item["item_id"]: item.get("unknown", False) for item in ranked["items"]}
        self.assertEqual(marks, {known: False, "never-heard-of": True})

    def test_a_caller_s_exclusions_are_kept_and_a_wrong_parameter_is_named(self):
        user = self.some_users(1)[0]
        first = [item["item_id"] for item in self.node.get(f"/v1/feed/{user}?count=5").json()["items"]]
        second = self.node.get(f"/v1/feed/{user}?count=20&exclude={','.join(first)}").json()["items"]
        self.assertEqual(set(first) & {item["item_id"] for item in second}, set())
        for query, field in [("count=x", "count"), ("count=100000", "count"), ("cuont=3", "cuont")]:
            answer = self.node.get(f"/v1/feed/{user}?{query}")
            self.assertEqual(answer.status, 400, answer)
            self.assertEqual(answer.json()["field"], field, answer)

    def test_an_item_that_was_taken_down_is_never_served_again(self):
        users = self.some_users(30)
        before = feeds.check_feeds(self, self.node, {user: self.shown[user] for user in users})
        by_api, by_command = sorted(before)[:2]
        answer = self.node.call("DELETE", f"/v1/items/{quote(by_api)}")
        self.assertEqual(answer.status, 200, answer)
        run("takedown", by_command, "--data", self.data)
        for item in (by_api, by_command):
            self.assertEqual(self.node.get(f"/v1/items/{item}").status, 404)
        after = feeds.check_feeds(self, self.node, {user: self.shown[user] for user in users})
        self.assertEqual(after & {by_api, by_command}, set())
        ranked = self.node.post("/v1/rank", {"user": users[0], "items": [by_api, *sorted(after)[:2]]}).json()
        self.assertNotIn(by_api, [item["item_id"] for item in ranked["items"]])

        # It stays down over a crash, and when an older version of its event comes again.
        self.node.kill()
        self.start_up()
        after = feeds.check_feeds(self, self.node, {user: self.shown[user] for user in users})
        self.assertEqual(after & {by_api, by_command}, set())

    def test_an_erased_user_starts_cold(self):
        user = self.shown.popitem()[0]  # the other tests do without
        self.assertGreater(self.node.get(f"/v1/feed/{user}").json()["history"], 0)
        run("erase", user, "--data", self.data)
        self.assertEqual(self.node.get(f"/v1/users/{user}").status, 404)
        self.assertEqual(self.node.get(f"/v1/feed/{user}").json()["history"], 0)

    def test_a_new_version_is_served_within_a_second_and_rollback_takes_the_old_one(self):
        version = self.node.get("/v1/model").json()["version"]
        self.assertGreater(version, 0)
        at = max(int(row["time_ms"]) for row in inputs.kuairand_rows())
        items = sorted({item for seen in self.shown.values() for item in seen})

        def teach():
            nonlocal at
            events = []
            for n in range(200):
                at += 10_000
                user = f"new-{n % 20}"
                events.append({"topic": "impressions", "impression_id": f"hot-{at}", "user_id": user, "timestamp": at,
                               "items": items[n:n + 1], "surface": "1"})
            answer = self.node.post("/v1/events", events)
            self.assertEqual(answer.status, 200, answer)
            return self.node.get("/v1/model").json()["version"] > version

        wait_for(teach, "a newer version is served", 60, every=0.5, explain=self.node.output)
        user = self.some_users(1)[0]
        newest = self.node.get("/v1/model").json()["version"]
        self.assertGreaterEqual(self.node.get(f"/v1/feed/{user}").json()["model_version"], newest)
        run("model", "pin", version, "--data", self.data)
        wait_for(lambda: self.node.get(f"/v1/feed/{user}").json()["model_version"] == version, "the pin is in force", 5)
        run("model", "unpin", "--data", self.data)
        wait_for(lambda: self.node.get(f"/v1/feed/{user}").json()["model_version"] >= newest, "the pin is gone", 5)


if __name__ == "__main__":
    main()
