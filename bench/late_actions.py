#!/usr/bin/env python3
"""What corrections are worth: KuaiRand with a share of its actions arriving after their window has closed, learned with
and without features.corrections, measured against all labels, the late ones included.
  bench/late_actions.py KUAIRAND.csv.gz [SIRENFEED] [SHARE]"""
import csv
import gzip
import json
import math
import pathlib
import random
import subprocess
import sys
import tempfile

MINUTE_MS = 60_000
DELAY_MINUTES = (15, 50)  # the window is 10, the retention 60 more
WINDOW_MS = (1651334400000, 1651680000000)  # 2022-04-30T16:00Z to 2022-05-04T16:00Z
TASKS = {"click": "is_click", "long_view": "long_view", "like": "is_like"}
SETTINGS = ["--format", "events", "--as-it-came", "--features.context_surfaces", "0,1,2,4,6", "--bootstrap", "0",
            "--features.duration_field", "duration_ms", "--features.duration_unit_s", "0.001"]


def arrivals(rows, share):
    """(arrival, rank, event) of everything in `rows`."""
    draw, known = random.Random(1), set()
    for number, row in enumerate(rows):
        time, play = int(row["time_ms"]), min(int(row["play_time_ms"]), 600_000)
        item, user = row["video_id"], row["user_id"]
        if item not in known:
            known.add(item)
            yield time, 0, {"topic": "items", "item_id": item, "timestamp": time, "author_id": row["author_id"],
                            "published_at": row["upload_dt"] + "T00:00:00Z", "tags": row["tag"].split(","),
                            "numeric": {"duration_ms": float(row["duration_ms"])}}
        yield time, 1, {"topic": "impressions", "impression_id": f"{number}", "user_id": user, "timestamp": time,
                        "items": [item], "surface": row["tab"]}
        for action, column in TASKS.items():
            if row[column] != "1":
                continue
            at = time + (1000 if action == "click" else play)
            late = draw.uniform(*DELAY_MINUTES) * MINUTE_MS if draw.random() < share else 0
            yield at + late, 2, {"topic": "clicks", "user_id": user, "item_id": item, "timestamp": at, "type": action,
                                 "impression_id": f"{number}", "event_id": f"{number}:{action}"}


def measure(pairs):
    """(NE, AUC) of (probability, label)."""
    rate = sum(label for _, label in pairs) / len(pairs)
    entropy = -(rate * math.log(rate) + (1 - rate) * math.log(1 - rate))
    loss = -sum(math.log(p if label else 1 - p) for p, label in pairs) / len(pairs)
    positives = rank_sum = 0
    for rank, (_, label) in enumerate(sorted(pairs), 1):  # ties are of no account here
        positives += label
        rank_sum += rank * label
    auc = (rank_sum - positives * (positives + 1) / 2) / (positives * (len(pairs) - positives))
    return loss / entropy, auc


def main():
    source, binary, share = (sys.argv[1:] + ["build/release/sirenfeed", ".3"][len(sys.argv) - 2:])[:3]
    with gzip.open(source, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    events = sorted(((at, rank, n, event) for n, (at, rank, event) in enumerate(arrivals(rows, float(share)))),
                    key=lambda one: one[:3])
    with tempfile.TemporaryDirectory() as name:
        log, out = pathlib.Path(name) / "arrivals.ndjson", pathlib.Path(name) / "predictions.csv"
        with open(log, "w") as file:
            file.writelines(json.dumps(event) + "\n" for *_, event in events)
        for corrections in ("true", "false"):
            subprocess.run([binary, "evaluate", log, *SETTINGS, "--features.corrections", corrections,
                            "--predictions", out], check=True, stdout=subprocess.DEVNULL)
            with open(out, newline="") as file:
                predicted = list(csv.DictReader(file))
            assert len(predicted) == len(TASKS) * len(rows)
            for k, (task, column) in enumerate(TASKS.items()):
                pairs = []
                for row, prediction in zip(rows, predicted[k::len(TASKS)]):
                    assert (row["user_id"], row["video_id"]) == (prediction["user_id"], prediction["item_id"])
                    if WINDOW_MS[0] <= int(row["time_ms"]) < WINDOW_MS[1]:
                        pairs.append((float(prediction["probability"]), int(row[column])))
                ne, auc = measure(pairs)
                print(f"corrections {corrections:5}  {task:9}  AUC {auc:.4f}  NE {ne:.4f}", flush=True)


if __name__ == "__main__":
    main()
