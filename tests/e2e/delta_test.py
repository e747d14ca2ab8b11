#!/usr/bin/env python3
"""Model versions that are deltas: serving follows the trainer across them, operators move among them, and damage is
refused until the next full file."""
import json
import time

from support import inputs
from support.binary import run
from support.case import EndToEndTest, main
from support.waiting import wait_for

# A version a batch, and once the tables are large enough no full file by itself.
SETTINGS = [*inputs.KUAIRAND_SETTINGS, "--clock", "event", "--trainer.publish_examples", 64,
            "--trainer.batch_linger_ms", -1, "--model.full_interval_ms", 3_600_000, "--model.full_share", 1000]


class DeltaTest(EndToEndTest):
    def setUp(self):
        self.data = self.folder / "data"
        self.models = self.data / "models"

    def up(self, name):
        return self.start(name, "up", "--data", self.data, *SETTINGS)

    def current(self):
        return int((self.models / "CURRENT").read_text())

    def rests(self, node):
        before = node.metric("sirenfeed_trainer_examples_total")
        time.sleep(2)
        return node.metric("sirenfeed_trainer_examples_total") == before

    def test_serving_follows_the_trainer_across_deltas(self):
        run("publish", inputs.SLICE, "--format", "kuairand", "--data", self.data)
        node = self.up("up")
        node.wait_caught_up(180)
        wait_for(lambda: node.metric("sirenfeed_trainer_examples_total") > 10_000 and self.rests(node),
                 "the slice is learned", 180, explain=node.output)
        wait_for(lambda: node.get("/v1/model").json()["version"] == self.current(), "the newest version is served", 30,
                 explain=node.output)
        versions = {one["version"]: one for one in node.get("/v1/models").json()["versions"]}
        newest = max(versions)
        self.assertEqual(versions[newest].get("delta_of"), newest - 1, versions[newest])
        self.assertFalse(versions[newest]["full"])
        self.assertGreater(node.metric("sirenfeed_serving_example_to_served_seconds_count"), 0)
        self.assertEqual(node.metric("sirenfeed_serving_model_refused_total"), 0)

        self.assertEqual(node.post("/v1/models/rollback", b"").json()["version"], newest - 1)
        self.assertEqual(node.get("/v1/feed/16276?count=3").json()["model_version"], newest - 1)
        self.assertEqual(node.post("/v1/models/unpin", b"").json()["version"], newest)
        node.kill()

        run("model", "export", self.folder / "out", "--data", self.data)
        manifest = json.loads((self.folder / "out/manifest.json").read_text())
        self.assertEqual(manifest["version"], newest)
        self.assertEqual(manifest["bytes"], (self.folder / "out/model.safetensors").stat().st_size)
        self.assertNotIn("delta", manifest)

        damaged = self.models / "versions" / str(newest) / "delta.safetensors"
        whole = bytearray(damaged.read_bytes())
        whole[len(whole) // 2] ^= 0x40
        damaged.write_bytes(whole)
        refused = run("model", "export", self.folder / "none", "--data", self.data, code=1).stderr
        self.assertIn(f"model version {newest} refused: version {newest}: the check-sum", refused)
        self.assertIn(f"pinned at version {newest - 1}", run("model", "rollback", "--data", self.data).stdout)
        run("model", "unpin", "--data", self.data)

        node = self.up("again")  # begins with a full file
        node.wait_ready(60)
        wait_for(lambda: node.get("/v1/model").json()["version"] > newest, "a later version is served", 30,
                 explain=node.output)
        self.assertEqual(node.stop(), 0, node.output())


if __name__ == "__main__":
    main()
