#!/usr/bin/env python3
"""publish and evaluate read every format from the command line; a publish that is killed goes on without a record
lost or sent twice, and says where from."""
import json
import random
import signal
import subprocess
import sys
import time

from support import inputs
from support.binary import BINARY, ROOT, environment, run
from support.case import EndToEndTest, main
from support.waiting import wait_for

DATA = ROOT / "tests/data/replay"
SHOP = ["--format", "csv", "--delimiter", ";", "--items", DATA / "goods.csv",
        "--map", "user=who,item=what,time=when,type=kind,value=amount,surface=page,position=place,impression=group",
        "--items-map", "item=sku,author=shop,tags=labels,published=since,title=name"]


class PublishFormats(EndToEndTest):
    def test_every_format_is_published_and_evaluated(self):
        for name, file, options, records in [("mind", "behaviors.tsv", ["--format", "mind"], 11),
                                             ("ratings", "ratings.csv", ["--format", "movielens"], 7),
                                             ("inter", "small.inter", ["--format", "movielens"], 5),
                                             ("shop", "shop.csv", SHOP, 5)]:
            with self.subTest(name):
                said = run("publish", DATA / file, *options, "--data", self.folder / name).stdout
                self.assertEqual(said, f"published {records} events\n")
                report = json.loads(run("evaluate", DATA / file, *options, "--json", "-").stdout)
                self.assertTrue(report)

    def test_a_mapping_may_be_a_toml_file(self):
        table = self.folder / "map.toml"
        table.write_text('user = "u"\nitem = "i"\ntime = "t"\nclick = "clicked"\ntags = "/m/tags"\n'
                         '[items]\nitem = "id"\n')
        said = run("publish", DATA / "visits.jsonl", "--format", "jsonl", "--map", table, "--data", self.folder / "d")
        self.assertEqual(said.stdout, "published 5 events\n")
        table.write_text('user = "u"\nitem = "i"\ncolor = "c"\n')
        said = run("publish", DATA / "visits.jsonl", "--format", "jsonl", "--map", table, "--data", self.folder / "d",
                   code=2)
        self.assertIn("--map: unknown role 'color'", said.stderr)

    def test_a_wrong_row_is_named_before_anything_is_published(self):
        file = self.folder / "ratings.csv"
        file.write_text("userId,movieId,rating,timestamp\n1,2,3,1260759144\n1,2,good,1260759144\n")
        said = run("publish", file, "--format", "movielens", "--data", self.folder / "d", code=1)
        self.assertIn("ratings.csv:3: rating: expected a number, got 'good'", said.stderr)
        self.assertEqual(run("inspect", "log", "impressions", "--data", self.folder / "d").stdout, "")

    def test_a_killed_publish_goes_on_without_loss_or_duplicate(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", file=sys.stderr)
        chance = random.Random(seed)
        data, resume = self.folder / "killed", self.folder / "resume.json"
        words = ["publish", inputs.SLICE, "--format", "kuairand", "--data", data,
                 "--resume", resume]
        kills = 0
        for _ in range(4):
            process = subprocess.Popen([BINARY, *map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                       env=environment())
            wait_for(lambda: resume.exists() or process.poll() is not None, "it has begun")
            time.sleep(chance.uniform(0, 0.05))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            kills += resume.exists()
            if not resume.exists():
                break
        self.assertGreater(kills, 0, "every run had ended before it was killed")
        last = run(*words)
        if kills == 4:
            self.assertIn(f"going on from {resume}", last.stderr)
            self.assertRegex(last.stdout, "published 37467 events, [0-9]+ of them by earlier runs")
        run("publish", inputs.SLICE, "--format", "kuairand", "--data", self.folder / "whole")
        for topic in ["items", "impressions", "clicks"]:
            raw = [self.folder / f"{topic}.{name}" for name in ("killed", "whole")]
            for where, file in zip([data, self.folder / "whole"], raw):
                run("inspect", "log", topic, "--data", where, "--limit", 10**9, "--raw", file)
            self.assertTrue(raw[0].read_bytes() == raw[1].read_bytes(), f"{topic} differs")


if __name__ == "__main__":
    main()
