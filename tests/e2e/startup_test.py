#!/usr/bin/env python3
"""What goes wrong at the start, or on the disk, is said plainly: a message and an exit code, or a retry that shows
in the log and in /readyz."""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import time

from support.binary import run
from support.case import EndToEndTest, main
from support.kafka import KafkaBroker, skip
from support.ports import free_port_pair
from support.waiting import wait_for


# Logs and stores allocate ahead; these stay small enough for a tiny file system.
SMALL_FILES = ["--partitions", 1, "--log.segment_bytes", 1 << 20, "--features.memtable_bytes", 4 << 20,
               "--features.wal_sync", "true"]


class Mounted:
    """A tiny file system in memory, gone after the test."""

    def __init__(self, test, size):
        if os.geteuid() != 0:
            skip("only root may mount the tiny file system that this test fills")
        self.path = pathlib.Path(test.folder) / "tiny"
        self.path.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", self.path], capture_output=True,
                              text=True, check=False)
        if done.returncode != 0:
            skip(f"no file system can be mounted here: {done.stderr.strip()}")
        test.addCleanup(self._unmount, test)

    def _unmount(self, test):
        for node in test.nodes:
            node.kill()
        subprocess.run(["umount", "--lazy", self.path], check=True)

    def read_only(self):
        subprocess.run(["mount", "-o", "remount,ro", self.path], check=True)

    def fill(self):
        """Takes all the room there is; returns the file that holds it."""
        ballast = self.path / "ballast"
        with open(ballast, "wb", buffering=0) as file:
            for size in (1 << 16, 1 << 12, 1):
                try:
                    while True:
                        file.write(b"x" * size)
                except OSError:
                    pass
        return ballast


def click(item):
    return {"topic": "clicks", "user_id": "u1", "item_id": item, "timestamp": int(time.time() * 1000)}


class StartTest(EndToEndTest):
    def up(self, name, *more):
        return self.start(name, "up", "--data", self.folder / "data", *more)

    def test_a_second_process_on_the_same_folder_is_refused(self):
        first = self.up("first")
        first.url()
        second = self.up("second")
        self.assertEqual(second.wait_end(30), 1)
        self.assertIn(str(self.folder / "data"), second.output())
        self.assertIn(f"in use by process {first.pid}", second.output())
        done = run("inspect", "state", "--data", self.folder / "data", code=1)
        self.assertIn(str(first.pid), done.stderr)
        self.assertEqual(first.get("/healthz").status, 200)

    def test_a_port_in_use_ends_the_start_and_is_named(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            done = run("up", "--data", self.folder / "data", "--http", f"127.0.0.1:{port}", code=1, timeout=60)
        self.assertIn(f"127.0.0.1:{port}", done.stderr)
        self.assertIn("in use", done.stderr)

    def test_a_folder_that_cannot_be_written_ends_the_start_and_is_named(self):
        tiny = Mounted(self, "1m")
        tiny.read_only()
        done = run("up", "--data", tiny.path / "data", "--http", "127.0.0.1:0", code=1, timeout=60)
        self.assertIn(str(tiny.path / "data"), done.stderr)
        self.assertIn("Read-only file system", done.stderr)

    def test_a_state_of_garbage_is_not_taken_for_an_empty_one(self):
        node = self.up("first")
        node.url()
        self.assertEqual(node.post("/v1/events", click("a")).status, 200)
        self.assertEqual(node.stop(), 0)
        current = self.folder / "data/state/CURRENT"
        current.write_text("no such manifest\n")
        again = self.up("again")
        self.assertEqual(again.wait_end(30), 1)
        self.assertIn(str(self.folder / "data/state"), again.output())

    def test_a_full_disk_is_told_to_who_posts_and_is_over_when_there_is_room(self):
        tiny = Mounted(self, "48m")
        node = self.start("full", "up", "--data", tiny.path / "data", "--models", self.folder / "models",
                          *SMALL_FILES)
        node.url()
        self.assertEqual(node.post("/v1/events", click("before")).status, 200)
        wait_for(lambda: '"before"' in node.get("/v1/users/u1").text, "the first click is applied", 20)
        ballast = tiny.fill()

        def refused():
            answer = node.post("/v1/events", [click(f"full-{n}-{'x' * 100}") for n in range(1000)])
            if answer.status == 200:
                return False
            self.assertIn(answer.status, (503, 507), answer)
            return "No space left on device" in answer.text + node.output()

        wait_for(refused, "an event is refused because the disk is full", 60, explain=node.output)
        self.assertTrue(node.running(), node.output())
        ballast.unlink()
        wait_for(lambda: node.post("/v1/events", click("after")).status == 200, "events are taken again", 60,
                 explain=node.output)
        wait_for(lambda: '"after"' in node.get("/v1/users/u1").text, "they are applied again", 60,
                 explain=lambda: f"{node.readiness()} {node.output()}")
        self.assertEqual(node.stop(), 0, node.output())

    def test_a_corrupt_model_is_refused_and_the_old_one_stays(self):
        settings = ["--features.join_window_ms", 1000, "--features.lateness_max_ms", 0,
                    "--ingest.idle_flush_after_ms", 300, "--trainer.publish_interval_ms", 200]
        node = self.up("up", *settings)
        node.url()
        node.post("/v1/events", [{"topic": "impressions", "impression_id": f"i{n}", "user_id": f"u{n}", "items": ["a"],
                                  "timestamp": int(time.time() * 1000)} for n in range(10)])
        version = wait_for(lambda: node.get("/v1/model").json()["version"], "a first version is served", 30,
                           explain=node.output)
        models = self.folder / "data/models"
        good, bad = models / "versions" / str(version), models / "versions" / str(version + 1000)
        shutil.copytree(good, bad)
        whole = bytearray((bad / "model.safetensors").read_bytes())
        whole[len(whole) // 2] ^= 0x40
        (bad / "model.safetensors").write_bytes(whole)
        manifest = json.loads((bad / "manifest.json").read_text())
        (bad / "manifest.json").write_text(json.dumps(manifest | {"version": version + 1000}))
        (models / "PINNED").write_text(f"{version + 1000}\n")
        refused = wait_for(lambda: node.get("/v1/model").json().get("refused"), "the corrupt version is refused", 10,
                           explain=node.output)
        self.assertEqual(refused["version"], version + 1000, refused)
        self.assertIn("sum", refused["reason"])
        self.assertEqual(node.get("/v1/feed/u1").json()["model_version"], version)
        self.assertEqual(node.metric("sirenfeed_serving_model_refused_total"), 1)
        self.assertIn(refused["reason"], node.output())
        self.assertEqual(node.stop(), 0, node.output())

        # Without an old one the node answers, says why it is not ready, and recovers with a good version.
        node = self.up("again", *settings)
        node.url()
        wait_for(lambda: node.get("/v1/model").json().get("refused"), "the corrupt version is refused", 10,
                 explain=node.output)
        self.assertEqual(node.get("/readyz").status, 503)
        self.assertTrue(any("no_model" in reason for reason in node.readiness()["reasons"]), node.readiness())
        (models / "PINNED").unlink()
        wait_for(lambda: node.get("/v1/model").json()["version"], "a good version is served", 10, explain=node.output)

    def test_settings_that_make_no_sense_are_wrong_use_and_named(self):
        for words, name in [(["--features.join_window_ms", "-5"], "window_ms"), (["--clock", "sun"], "clock"),
                            (["--model.heads", "7"], "heads"), (["--http", "nowhere"], "http"),
                            (["--log.fsync", "perhaps"], "fsync")]:
            with self.subTest(words):
                done = run("up", "--data", self.folder / "data", "--http", "127.0.0.1:0", *words, code=2, timeout=30)
                self.assertIn(name, done.stderr)


class BrokerTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        cls.broker = KafkaBroker()
        cls.addClassCleanup(cls.broker.close)

    def settings(self, prefix):
        return ["--brokers", self.broker.address, "--kafka.topic_prefix", f"{prefix}.", "--kafka.group", prefix,
                "--models", self.folder / "models"]

    def test_a_missing_broker_ends_the_start_and_is_named(self):
        nobody = f"127.0.0.1:{free_port_pair()}"
        for command in ("serve", "train"):
            done = run(command, "--brokers", nobody, "--kafka.connect_wait_max_ms", 1500, "--data",
                       self.folder / command, "--http", "127.0.0.1:0", code=1, timeout=60)
            self.assertIn(nobody, done.stderr)
        self.assertEqual(run("serve", "--data", self.folder / "x", code=2).stdout, "")

    def test_missing_topics_and_unequal_partition_counts_end_the_start_and_are_named(self):
        settings = self.settings("unequal")
        done = run("serve", *settings, "--data", self.folder / "serve", "--http", "127.0.0.1:0", code=1, timeout=60)
        self.assertIn("topics create", done.stderr)
        self.broker.create_topic("unequal.clicks", 2)
        run("topics", "create", *settings, "--partitions", 3)
        done = run("serve", *settings, "--data", self.folder / "serve", "--http", "127.0.0.1:0", code=1, timeout=60)
        for word in ("clicks", "impressions", "2", "3"):
            self.assertIn(word, done.stderr)

    def test_a_broker_that_goes_away_is_said_in_readyz_and_reading_goes_on_when_it_is_back(self):
        settings = [*self.settings("away"), "--features.join_window_ms", 500, "--features.lateness_max_ms", 0,
                    "--ingest.idle_flush_after_ms", 300]
        run("topics", "create", *settings, "--partitions", 1)
        serve = self.start("serve", "serve", *settings, "--data", self.folder / "serve")
        train = self.start("train", "train", *settings, "--data", self.folder / "train")
        serve.wait_caught_up()
        post = {"topic": "impressions", "impression_id": "i1", "user_id": "u1", "items": ["a"],
                "timestamp": int(time.time() * 1000)}
        self.assertEqual(serve.post("/v1/events", post).status, 200)
        serve.wait_ready()
        self.broker.kill()
        wait_for(lambda: any("broker_lost" in reason for reason in serve.readiness()["reasons"]),
                 "/readyz says that the broker is lost", 30, explain=lambda: f"{serve.readiness()}\n{serve.output()}")
        self.assertIn(serve.readiness()["status"], ("degraded", "not_ready"))
        self.assertEqual(serve.get("/v1/feed/u1").status, 200)
        self.broker.start()
        wait_for(lambda: serve.readiness()["status"] == "ready", "the broker is found again", 60,
                 explain=lambda: f"{serve.readiness()}\n{serve.output()}")

        def applied():
            answer = serve.post("/v1/events", click("after-the-crash"))
            return answer.status == 200 and "after-the-crash" in serve.get("/v1/users/u1").text

        wait_for(applied, "events go through again", 60, every=0.5, explain=serve.output)
        self.assertTrue(train.running(), train.output())
        self.assertEqual(serve.stop(), 0, serve.output())
        self.assertEqual(train.stop(), 0, train.output())


if __name__ == "__main__":
    main()
