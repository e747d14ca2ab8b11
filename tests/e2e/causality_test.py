#!/usr/bin/env python3
"""No prediction knows the future: flipping every label after a time T changes no prediction up to T."""
import csv
import gzip
import os
import pathlib
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIRENFEED = os.environ.get("SIRENFEED", str(ROOT / "build/release/sirenfeed"))
SLICE = ROOT / "tests/data/kuairand_pure/impressions_slice.csv.gz"
LABELS = ("is_click", "long_view", "is_like")
ROWS = 12000


def evaluate(folder, name, rows):
    path = folder / f"{name}.csv"
    with open(path, "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)
    predictions = folder / f"{name}.predictions.csv"
    subprocess.run([SIRENFEED, "evaluate", path, "--format", "kuairand", "--predictions", predictions],
                   check=True, stdout=subprocess.DEVNULL)
    with open(predictions, newline="") as file:
        return [(int(r["time_ms"]), r["user_id"], r["item_id"], r["task"], r["label"], r["probability"])
                for r in csv.DictReader(file)]


class Causality(unittest.TestCase):
    def test_flipping_every_label_after_a_time_changes_no_prediction_up_to_it(self):
        with gzip.open(SLICE, "rt", newline="") as file:
            rows = list(csv.DictReader(file))[:ROWS]
        split = int(rows[len(rows) * 2 // 3]["time_ms"])
        flipped = [dict(row) for row in rows]
        for row in flipped:
            if int(row["time_ms"]) > split:
                for label in LABELS:
                    row[label] = "1" if row[label] == "0" else "0"
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            before = evaluate(folder, "as_recorded", rows)
            after = evaluate(folder, "flipped", flipped)
        self.assertEqual(len(before), len(after))
        past = [i for i, row in enumerate(before) if row[0] <= split]
        future = [i for i, row in enumerate(before) if row[0] > split]
        self.assertGreater(len(past), ROWS)  # three tasks an exposure
        for i in past:
            self.assertEqual(before[i], after[i])
        # The check can fail: later predictions do change.
        changed = sum(before[i][5] != after[i][5] for i in future)
        self.assertGreater(changed, len(future) // 2)


if __name__ == "__main__":
    unittest.main()
