#!/usr/bin/env python3
"""The extended context features are what their definitions give when they are summed over the raw log."""
import bisect
import collections
import csv
import gzip
import json
import math
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIRENFEED = os.environ.get("SIRENFEED", str(ROOT / "build/release/sirenfeed"))
SLICE = ROOT / "tests/data/kuairand_pure/impressions_slice.csv.gz"
BASE_FEATURES = 79
ZONE_MS = 19_800_000  # half an hour off, so that another zone gives other hours
HALVES = {"1h": 3.6e6, "1d": 8.64e7, "7d": 6.048e8}
SMOOTHING = {"item": 10, "author": 10, "tagset": 20, "surface": 20, "item_surface": 10, "bucket_surface": 20,
             "hour_surface": 20, "tag_surface": 20, "author_surface": 10, "user": 4, "user_surface": 4, "user_tag": 2,
             "user_bucket": 2}
USER_SIDE = ("user", "user_surface", "user_tag", "user_bucket")
# FEATURES.md's list, word for word but for the multiplication signs.
ORDER = """p0, p_joint, q0, surface_ctr1d, surface_lvr1d, surface_lvr7d, bucket*surface_ctr7d, bucket*surface_lvr7d,
author_ctr7d, user_ctr7d, user*surface_ctr7d, user_ctr_last20, user_lv_last20, bucket*surface_ctr1d,
hour*surface_ctr7d, user*surface_lvr7d, bucket*surface_lvr1d, surface_ctr7d, hour*surface_lvr7d, item_ctr7d,
user_lvr7d, author_res7d, user_ctr1d, item_res7d, mean_p0_last20, author_ctr1d, user_ctr_last5, item_lvr7d,
item_ctr1d, tag*surface_lvr7d, author_lvr7d, user_lvr1d, user*surface_res7d, tagset_lvr1d, user_res1d,
bucket*surface_res7d, bucket*surface_res1d, item*surface_ctr7d, tagset_res7d, user_res7d, tag*surface_ctr1d,
tagset_res1d, user*surface_ctr1d, tag*surface_lvr1d, logdur, tag*surface_ctr7d, tagset_lvr7d, skips_in_row,
user*surface_imp7d, author*surface_res1d, author*surface_ctr7d, user*surface_lvr1d, user*surface_imp1d, tagset_ctr7d,
surface_res1d, author_lvr1d, surface_imp1h, item*surface_res7d, user_imp7d, logdur_minus_user_clicked,
tag*surface_res7d, logdur_minus_user_lv, user*bucket2_ctr1d, user_ctr1h"""


class Series:
    """Values at times; sum(t, half) is what they have faded to strictly before t."""

    def __init__(self, start):
        self.start, self.times, self.prefix = start, [], {half: [0.0] for half in HALVES}

    def add(self, time, value=1.0):
        self.times.append(time)
        for half, sums in self.prefix.items():
            sums.append(sums[-1] + value * 2 ** ((time - self.start) / HALVES[half]))

    def sum(self, time, half):
        before = bisect.bisect_left(self.times, time)
        return self.prefix[half][before] * 2 ** (-(time - self.start) / HALVES[half])


def logit(p):
    return math.log(p / (1 - p))


def rate(p):
    return logit(min(max(p, 1e-4), 1 - 1e-4))


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


class Reference:
    def __init__(self, rows):
        self.start = int(rows[0]["time_ms"])
        self.series = {what: collections.defaultdict(lambda: Series(self.start)) for what in "NCVE"}
        self.users = collections.defaultdict(list)  # exposures so far
        self.rows = [self.exposure(row) for row in rows]
        # Actions can be told beforehand: sums look at what lies before a time only.
        for what, task in (("C", "click"), ("V", "view")):
            for x in sorted((x for x in self.rows if x[task] is not None), key=lambda x: x[task]):
                for key in x["keys"].items():
                    self.series[what][key].add(x[task])
                self.series[what]["all"].add(x[task])

    def exposure(self, row):
        time, play = int(row["time_ms"]), min(int(row["play_time_ms"]), 600_000)
        log_ms = math.log(max(float(row["duration_ms"]), 1)) if row["duration_ms"] else None
        bucket = None if log_ms is None else min(max(math.trunc((log_ms - math.log(5000)) / 0.4), 0), 14)
        tags = [tag for tag in row["tag"].split(",") if tag]
        hour = (time + ZONE_MS) % 86_400_000 // 3_600_000
        user, item, author, tab = row["user_id"], row["video_id"], row["author_id"], row["tab"]
        first_tag = tags[0] if tags else None
        keys = {"item": item, "author": author, "tagset": tuple(sorted(set(tags))), "surface": tab,
                "item_surface": (item, tab), "bucket_surface": (bucket, tab), "hour_surface": (hour, tab),
                "tag_surface": (first_tag, tab), "author_surface": (author, tab), "user": user,
                "user_surface": (user, tab), "user_tag": (user, first_tag),
                "user_bucket": (user, None if bucket is None else bucket // 2)}
        return {"time": time, "user": user, "keys": keys, "log_ms": log_ms,
                "click": time + 1000 if row["is_click"] == "1" else None,
                "view": time + play if row["long_view"] == "1" else None}

    def features(self, x):
        """The features of an exposure by FEATURES.md's names, and what it expects: p0 and q0."""
        t, keys = x["time"], x["keys"]
        total = {what: self.series[what]["all"].sum(t, "7d") for what in "NCV"}
        g, g_v = (total["C"] + 9) / (total["N"] + 20), (total["V"] + 6) / (total["N"] + 20)

        def count(what, entity, half):
            return self.series[what][entity, keys[entity]].sum(t, half)

        def ctr(entity, half="7d"):
            a = SMOOTHING[entity]
            return (count("C", entity, half) + a * g) / (count("N", entity, half) + a)

        def lvr(entity, half):
            a = SMOOTHING[entity]
            return (count("V", entity, half) + a * g_v) / (count("N", entity, half) + a)

        def res(entity, half="7d"):
            left = count("C", entity, half) - count("E", entity, half)
            return left / (count("N", entity, half) + SMOOTHING[entity])

        prior = sigmoid(logit(ctr("item")) + logit(ctr("surface")) - logit(g))
        p0 = (count("C", "item_surface", "7d") + 10 * prior) / (count("N", "item_surface", "7d") + 10)
        q0 = min(max(ctr("surface") + res("user"), .01), .99)
        p_joint = sigmoid(logit(p0) + 4.5 * res("user") + 2 * res("user_tag"))

        past = [e for e in self.users[x["user"]] if e["time"] < t][::-1]
        clicked = [e["click"] is not None and e["click"] < t for e in past]
        viewed = [e["view"] is not None and e["view"] < t for e in past]
        m = min(len(past), 20)
        c5, c20, v20 = sum(clicked[:5]), sum(clicked[:20]), sum(viewed[:20])
        of_clicked = [e["log_ms"] for e, yes in zip(past, clicked) if yes and e["log_ms"] is not None]
        of_viewed = [e["log_ms"] for e, yes in zip(past, viewed) if yes and e["log_ms"] is not None]
        known = x["log_ms"] is not None
        values = {
            "p0": rate(p0), "p_joint": rate(p_joint), "q0": rate(q0),
            "user_ctr_last5": rate(.98 * (c5 + g) / (min(m, 5) + 1) + .01),
            "user_ctr_last20": rate(.98 * (c20 + 2 * g) / (m + 2) + .01),
            "user_lv_last20": rate(.98 * (v20 + 2 * g_v) / (m + 2) + .01),
            "mean_p0_last20": rate(sum(e["p0"] for e in past[:20]) / m if m else g),
            "skips_in_row": math.log1p((clicked + [True]).index(True)),
            "logdur": x["log_ms"] if known else 0,
            "logdur_minus_user_clicked": x["log_ms"] - (sum(of_clicked) + 11) / (len(of_clicked) + 1) if known else 0,
            "logdur_minus_user_lv": x["log_ms"] - (sum(of_viewed) + 11) / (len(of_viewed) + 1) if known else 0,
        }
        for name in ORDER.replace("\n", " ").split(", "):
            if name in values:
                continue
            entity, stat = name.rsplit("_", 1)
            entity, half = entity.replace("bucket2", "bucket").replace("*", "_"), stat[3:]
            values[name] = {"ctr": lambda: rate(ctr(entity, half)), "lvr": lambda: rate(lvr(entity, half)),
                            "res": lambda: res(entity, half),
                            "imp": lambda: math.log1p(count("N", entity, half))}[stat[:3]]()
        return values, p0, q0

    def apply(self, x, p0, q0):
        x["p0"] = p0
        for key in x["keys"].items():
            self.series["N"][key].add(x["time"])
            self.series["E"][key].add(x["time"], p0 if key[0] in USER_SIDE else q0)
        self.series["N"]["all"].add(x["time"])
        self.users[x["user"]].append(x)


def metadata_of_first_exposure(rows):
    """An item's event comes before its first exposure: later rows do not change it."""
    first = {}
    for row in rows:
        known = first.setdefault(row["video_id"], row)
        for name in ("author_id", "tag", "duration_ms"):
            row[name] = known[name]
    return rows


class ExtendedFeatures(unittest.TestCase):
    def test_every_feature_is_what_summing_over_the_raw_log_gives(self):
        with gzip.open(SLICE, "rt", newline="") as file:
            rows = metadata_of_first_exposure(list(csv.DictReader(file)))
        with tempfile.TemporaryDirectory() as name:
            dump = pathlib.Path(name) / "examples.jsonl"
            subprocess.run([SIRENFEED, "evaluate", SLICE, "--format", "kuairand", "--features.extended", "true",
                            "--model.zone_offset_ms", str(ZONE_MS), "--dump-examples", dump,
                            "--limit", str(len(rows))], check=True, stdout=subprocess.DEVNULL)
            examples = [json.loads(line) for line in dump.read_text().splitlines()]
        self.assertEqual(len(examples), len(rows))
        names = ORDER.replace("\n", " ").split(", ")
        self.assertEqual(len(names), 64)
        reference = Reference(rows)
        seen = collections.defaultdict(set)
        for i, x in enumerate(reference.rows):
            expected, p0, q0 = reference.features(x)
            context = examples[i]["candidates"][0]["context"]
            self.assertEqual(examples[i]["time"], x["time"])
            self.assertEqual(len(context), BASE_FEATURES + len(names))
            for name, value in zip(names, context[BASE_FEATURES:]):
                if not abs(value - expected[name]) <= 1e-4:
                    self.fail(f"{name} of row {i + 1}: {value}, expected {expected[name]}")
                seen[name].add(round(value, 3))
            reference.apply(x, p0, q0)
        for name in names:  # the check can fail: no feature stands still
            self.assertGreater(len(seen[name]), 3, name)


if __name__ == "__main__":
    unittest.main()
