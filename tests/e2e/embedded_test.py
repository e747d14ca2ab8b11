#!/usr/bin/env python3
"""`up`, everything in one process on the embedded log: events in, feeds out, nothing lost over a crash."""
import json
import random
import subprocess
import time

from support.binary import BINARY, run
from support.case import EndToEndTest, main
from support.waiting import wait_for

# Windows that close while the test looks on.
QUICK = ["--features.join_window_ms", 1000, "--features.lateness_max_ms", 0, "--ingest.idle_flush_after_ms", 300,
         "--trainer.publish_interval_ms", 200, "--trainer.batch_linger_ms", 200, "--log.fsync_interval_ms", 2]


def now_ms():
    return int(time.time() * 1000)


class EmbeddedTest(EndToEndTest):
    def up(self, *more):
        return self.start("up", "up", "--data", self.folder / "data", *QUICK, *more)

    def items(self, count):
        return [{"topic": "items", "item_id": f"item-{n}", "timestamp": now_ms(), "published_at": now_ms() - n * 60_000,
                 "author_id": f"author-{n % 9}", "tags": [f"tag-{n % 5}"], "title": f"Number {n}"}
                for n in range(count)]

    def test_events_posted_become_feeds_of_a_model_that_learned_from_them(self):
        node = self.up()
        answer = node.post("/v1/events", self.items(60))
        self.assertEqual((answer.status, answer.json()["accepted"]), (200, 60), answer)
        cold = node.get("/v1/feed/u1?count=5").json()
        self.assertEqual(cold["history"], 0)
        impression = {"topic": "impressions", "impression_id": "i-1", "user_id": "u1", "timestamp": now_ms(),
                      "items": ["item-1", "item-2", "item-3"], "surface": "home"}
        click = {"topic": "clicks", "user_id": "u1", "item_id": "item-2", "timestamp": now_ms(), "impression_id": "i-1"}
        lines = "".join(f"{event}\n".replace("'", '"') for event in (impression, click))
        answer = node.post("/v1/events", lines, content_type="application/x-ndjson")
        self.assertEqual(answer.json()["accepted"], 2, answer)
        node.wait_ready(60)
        wait_for(lambda: node.metric("sirenfeed_trainer_examples_total") >= 1, "the example is learned", 30,
                 explain=node.output)
        feed = wait_for(lambda: (lambda one: one if one["model_version"] > 0 else None)(
            node.get("/v1/feed/u1?count=10&explain=true").json()), "a model is served", 20)
        shown = [item["item_id"] for item in feed["items"]]
        self.assertEqual(len(shown), 10)
        self.assertEqual(set(shown) & {"item-1", "item-2", "item-3"}, set())
        self.assertEqual(feed["history"], 3)
        sequence = {entry["item_id"]: [action["type"] for action in entry["actions"]]
                    for entry in node.get("/v1/users/u1").json()["history"]}
        self.assertEqual(sequence, {"item-1": [], "item-2": ["click"], "item-3": []})
        page = node.get("/")
        self.assertEqual(page.status, 200)
        self.assertIn("<html", page.text)
        self.assertEqual(node.stop(10), 0, node.output())

    def test_a_crash_loses_nothing_that_was_accepted(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", flush=True)
        draw = random.Random(seed)
        node = self.up()
        node.post("/v1/events", self.items(40))
        accepted = []
        for crash in range(3):
            until = time.monotonic() + draw.uniform(0.3, 1.5)
            while time.monotonic() < until:
                user = f"u{draw.randrange(5)}"
                event = {"topic": "clicks", "user_id": user, "item_id": f"crash-{crash}-{len(accepted)}",
                         "timestamp": now_ms(), "event_id": f"e-{len(accepted)}"}
                if node.post("/v1/events", event).status == 200:
                    accepted.append((user, event["item_id"]))
            node.kill()
            node = self.up()
            node.wait_caught_up()
        self.assertGreater(len(accepted), 20)
        texts = {user: node.get(f"/v1/users/{user}").json()["history"] for user in sorted({u for u, _ in accepted})}
        kept = [(user, entry["item_id"]) for user, entries in texts.items() for entry in entries]
        self.assertEqual(len(kept), len(set(kept)), "an event was applied twice")
        self.assertEqual(set(accepted) - set(kept), set())
        self.assertEqual(len(node.get("/v1/feed/u0?count=10").json()["items"]), 10)
        self.assertEqual(node.stop(10), 0, node.output())

    def test_simulated_users_move_the_metrics_and_sigterm_ends_the_process_in_time(self):
        node = self.start("up", "up", "--simulate", "--data", self.folder / "data", "--simulate.users", 50,
                          "--simulate.days", 1.5, "--simulate.items_per_day", 200, "--trainer.publish_interval_ms", 200)
        node.wait_ready(120)
        first = node.metrics()
        learned = ("sirenfeed_trainer_examples_total",)
        later = wait_for(lambda: (lambda now: now if now.get(learned, 0) > first.get(learned, 0) + 100 else None)(
            node.metrics()), "examples are learned", 120, explain=node.output)
        self.assertGreater(later[("sirenfeed_serving_feeds_total",)], first[("sirenfeed_serving_feeds_total",)])
        version = node.get("/v1/model").json()["version"]
        wait_for(lambda: node.get("/v1/model").json()["version"] > version, "versions follow", 30)
        node.wait_output("simulated users:", 120)
        series = node.get("/v1/metrics").json()
        self.assertGreater(len(series["versions"]), 1)
        self.assertTrue(any(sample["name"] == learned[0] for sample in series["samples"]))
        began = time.monotonic()
        self.assertEqual(node.stop(10), 0, node.output())
        self.assertLess(time.monotonic() - began, 10)

    def test_simulated_users_go_on_where_a_used_data_folder_ends(self):
        shown = []
        for name in ("first", "second"):
            node = self.start(name, "up", "--clock", "event", "--data", self.folder / "data")
            done = run("simulate", "--url", node.url(), "--simulate.users", 20, "--simulate.days", 0.4, "--json")
            report = json.loads(done.stdout)
            self.assertGreater(report["shown"], 100)
            self.assertGreater(len(report["hours"]), 3)
            self.assertLessEqual(report["share_of_optimum"], 1)
            shown.append(report)
            records = {key[1]: value for key, value in node.metrics().items()
                       if key[0] == "sirenfeed_features_records_total"}
            self.assertGreater(records["applied"], 100)
            self.assertEqual(records["duplicate"], 0, "an id was used twice")
            self.assertEqual(node.metric("sirenfeed_features_records_rejected_total"), 0, "behind the watermark")
            self.assertEqual(node.stop(20), 0, node.output())
        self.assertGreater(shown[1]["time_ms"], shown[0]["time_ms"] + 8 * 3600 * 1000)

    def test_simulate_says_what_it_waits_for(self):
        words = [BINARY, "simulate", "--url", "http://127.0.0.1:1"]
        with subprocess.Popen(words, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True) as process:
            self.assertIn("waiting for http://127.0.0.1:1", process.stderr.readline())
            process.terminate()


if __name__ == "__main__":
    main()
