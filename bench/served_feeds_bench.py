#!/usr/bin/env python3
"""After a replay: the feeds of 1,000 users over HTTP, each checked to hold fresh, unseen, living items, then timed.
    SIRENFEED=build/release/sirenfeed bench/served_feeds_bench.py
KUAIRAND names the log (impressions.csv.gz); without it the slice of tests/data is replayed."""
import csv
import gzip
import pathlib
import random
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from support import feeds, inputs  # noqa: E402
from support.binary import run  # noqa: E402
from support.case import EndToEndTest  # noqa: E402

USERS = 1000
SETTINGS = [*inputs.KUAIRAND_SETTINGS, "--clock", "event", "--features.lateness_max_ms", "0",
            "--ingest.idle_flush_after_ms", "-1", "--partitions", "4"]


class ServedFeeds(EndToEndTest):
    def test_feeds_of_a_thousand_users(self):
        with gzip.open(inputs.SLICE, "rt", newline="") as file:
            shown = feeds.shown_items(csv.DictReader(file))
        users = random.Random(7).sample(sorted(shown), USERS)
        data = self.folder / "data"
        run("publish", inputs.SLICE, "--format", "kuairand", "--data", data, "--partitions", "4")
        node = self.start("up", "up", *SETTINGS, "--data", data)
        node.wait_ready(300)
        served = feeds.check_feeds(self, node, {user: shown[user] for user in users})
        took = []
        for user in users:
            begin = time.perf_counter()
            answer = node.get(f"/v1/feed/{user}?count={feeds.FEED_COUNT}")
            took.append((time.perf_counter() - begin) * 1000)
            self.assertEqual(answer.status, 200)
        node.stop()
        took.sort()
        print(f"log {inputs.SLICE.name}: {USERS} users, "
              f"{len(served)} distinct items served, all fresh, unseen and living")
        print(f"GET /v1/feed over HTTP: p50 {took[USERS // 2]:.2f} ms, p99 {took[USERS * 99 // 100]:.2f} ms, "
              f"max {took[-1]:.2f} ms")


if __name__ == "__main__":
    unittest.main()
