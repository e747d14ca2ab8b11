#!/usr/bin/env python3
"""backup, restore, rebuild, erase and takedown of one process on the embedded log."""
import fcntl
import json
import shutil
import time

from support.binary import run
from support.case import EndToEndTest, main
from support.waiting import wait_for

QUICK = ["--features.join_window_ms", 1000, "--features.lateness_max_ms", 0, "--ingest.idle_flush_after_ms", 300,
         "--trainer.publish_interval_ms", 200, "--trainer.batch_linger_ms", 200,
         "--trainer.checkpoint_interval_ms", 200, "--log.fsync_interval_ms", 2]


def now_ms():
    return int(time.time() * 1000)


class KeepingDataTest(EndToEndTest):
    def setUp(self):
        self.data = self.folder / "data"

    def up(self, data=None):
        return self.start("up", "up", "--data", data or self.data, *QUICK)

    def items(self, count):
        return [{"topic": "items", "item_id": f"item-{n}", "timestamp": now_ms(), "published_at": now_ms()}
                for n in range(count)]

    def visit(self, node, name):
        """An impression and a click of user-NAME's; returns the item."""
        item = f"item-{len(name) % 5}"
        events = [{"topic": "impressions", "impression_id": f"i-{name}", "user_id": f"user-{name}",
                   "timestamp": now_ms(), "items": [item], "surface": "home"},
                  {"topic": "clicks", "user_id": f"user-{name}", "item_id": item, "timestamp": now_ms(),
                   "impression_id": f"i-{name}", "event_id": f"c-{name}"}]
        answer = node.post("/v1/events", events)
        self.assertEqual(answer.json()["accepted"], 2, answer)
        return item

    def learn(self, node, count):
        wait_for(lambda: node.metric("sirenfeed_trainer_examples_total") >= count, f"{count} examples are learned", 60,
                 explain=node.output)

    def history(self, node, name):
        answer = node.get(f"/v1/users/user-{name}")
        return [entry["item_id"] for entry in answer.json()["history"]] if answer.status == 200 else None

    def test_a_backup_of_a_running_node_is_put_back_and_goes_on(self):
        node = self.up()
        node.post("/v1/events", self.items(10))
        for n in range(20):
            self.visit(node, f"early-{n}")
        self.learn(node, 20)
        node.wait_ready()
        backup = self.folder / "backup"
        done = run("backup", backup, "--data", self.data)
        self.assertIn("parts: trainer, models, state, log", done.stdout)
        self.visit(node, "late")
        again = run("backup", backup, "--data", self.data, code=1)
        self.assertIn("is not empty", again.stderr)
        self.assertEqual(node.stop(), 0, node.output())
        refused = run("restore", backup, "--data", self.data, code=1)
        self.assertIn("--replace", refused.stderr)

        manifest = json.loads((backup / "manifest.json").read_text())
        self.assertEqual(manifest["parts"], ["trainer", "models", "state", "log"])
        self.assertGreater(len(manifest["positions"]), 3)
        other = self.folder / "other"
        run("restore", backup, "--data", other)
        node = self.up(other)
        node.wait_ready()
        self.assertEqual(len(self.history(node, "early-3")), 1)
        self.assertIsNone(self.history(node, "late"))
        self.assertGreater(node.get("/v1/model").json()["version"], 0)
        self.visit(node, "after")
        self.learn(node, 1)  # the metric counts what this process has learned
        time.sleep(1)
        self.assertEqual(node.metric("sirenfeed_trainer_examples_total"), 1, "the early ones were learned again")
        self.assertEqual(node.metric("sirenfeed_trainer_gaps_total"), 0)
        self.assertEqual(node.stop(), 0, node.output())

        victim = sorted(backup.glob("state/*.sst"))[0]
        damaged = bytearray(victim.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        victim.unlink()
        victim.write_bytes(damaged)
        broken = run("restore", backup, "--data", self.folder / "third", code=1)
        self.assertIn(victim.name, broken.stderr)
        self.assertFalse((self.folder / "third" / "state").exists())

    def test_no_process_starts_on_a_folder_that_is_being_put_back(self):
        node = self.up()
        node.wait_caught_up()
        backup = self.folder / "backup"
        run("backup", backup, "--data", self.data)
        for command in (["restore", backup, "--replace"], ["rebuild"]):
            self.assertIn("stop it first", run(*command, "--data", self.data, code=1).stderr)
        self.assertEqual(node.stop(), 0, node.output())

        starts = [["up"], ["serve", "--brokers", "127.0.0.1:1"], ["train", "--brokers", "127.0.0.1:1"]]
        with open(self.data / "LOCK", "rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # as restore and rebuild do
            for command in (*starts, ["backup", self.folder / "second"], ["erase", "user-1"],
                            ["inspect", "state"], ["inspect", "log", "items"]):
                refused = run(*command, "--data", self.data, code=1)
                self.assertIn("wait for its end", refused.stderr, command)
        (self.data / "restoring.json").write_bytes((backup / "manifest.json").read_bytes())
        for command in (*starts, ["rebuild"]):
            self.assertIn("run `sirenfeed restore`", run(*command, "--data", self.data, code=1).stderr, command)
        run("restore", backup, "--data", self.data)
        self.assertFalse((self.data / "restoring.json").exists())
        node = self.up()
        node.wait_caught_up()
        self.assertEqual(node.stop(), 0, node.output())

    def test_a_state_that_is_ahead_of_its_log_is_refused_and_rebuilt(self):
        node = self.up()
        node.post("/v1/events", self.items(10))
        self.visit(node, "kept")
        self.learn(node, 1)
        self.assertEqual(node.stop(), 0, node.output())
        shutil.copytree(self.data / "log", self.folder / "older-log")
        node = self.up()
        self.visit(node, "lost")
        self.learn(node, 1)
        wait_for(lambda: self.history(node, "lost"), "the visit is applied")
        self.assertEqual(node.stop(), 0, node.output())
        shutil.rmtree(self.data / "log")
        shutil.copytree(self.folder / "older-log", self.data / "log")
        node = self.up()
        self.assertEqual(node.wait_end(), 1)
        self.assertIn("is ahead of the log", node.output())
        self.assertIn("sirenfeed rebuild", node.output())
        done = run("rebuild", "--data", self.data)
        self.assertIn("nothing is missing", done.stdout)
        node = self.up()
        node.wait_caught_up()
        self.assertEqual(len(self.history(node, "kept")), 1)
        self.assertIsNone(self.history(node, "lost"))
        self.assertEqual(node.stop(), 0, node.output())

    def test_an_erasure_says_what_it_removed_and_a_rebuild_does_not_bring_it_back(self):
        node = self.up()
        node.post("/v1/events", self.items(10))
        for name in ("one", "two", "three"):
            self.visit(node, name)
        answer = json.loads(run("erase", "user-one", "--data", self.data).stdout)
        self.assertEqual(answer["status"], "erased")
        self.assertEqual(answer["removed"]["users"], 1)
        self.assertTrue(any("backups" in line for line in answer["copies_left"]))
        self.assertTrue(any("days" in line for line in answer["copies_left"]))
        self.assertIsNone(self.history(node, "one"))
        self.assertEqual(node.stop(), 0, node.output())

        answer = json.loads(run("erase", "user-two", "--data", self.data).stdout)  # nobody runs
        self.assertEqual((answer["status"], answer["removed"]["users"]), ("erased", 1))
        answer = json.loads(run("takedown", "item-3", "--data", self.data).stdout)
        self.assertEqual(answer["status"], "taken_down")
        self.assertEqual(answer["removed"]["catalog"], 1)
        done = run("rebuild", "--data", self.data)
        self.assertIn("3 erasures and takedowns", done.stdout)
        node = self.up()
        node.wait_caught_up()
        self.assertIsNone(self.history(node, "one"))
        self.assertIsNone(self.history(node, "two"))
        self.assertEqual(len(self.history(node, "three")), 1)
        self.assertEqual(node.get("/v1/items/item-3").status, 404)
        self.assertEqual(node.stop(), 0, node.output())


if __name__ == "__main__":
    main()
