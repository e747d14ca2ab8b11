#!/usr/bin/env python3
"""Writes metrics.json: random and degenerate inputs with the values of scikit-learn and of numpy formulas.

    pip install numpy scikit-learn && tests/golden/generate_metrics.py
"""
import json
import math
import pathlib

import numpy as np
from sklearn.metrics import average_precision_score, label_ranking_average_precision_score, log_loss, ndcg_score
from sklearn.metrics import roc_auc_score

FLOOR = 1e-7
BINS = 20


def defined(value):
    return None if value is None or math.isnan(value) else float(value)


def auc(y, p):
    return roc_auc_score(y, p) if 0 < np.sum(y) < len(y) else None


def entropy_ratio(y, p):
    rate = np.mean(y) if len(y) else 0
    if not 0 < rate < 1:
        return None
    return log_loss(y, np.clip(p, FLOOR, 1 - FLOOR)) / -(rate * np.log(rate) + (1 - rate) * np.log(1 - rate))


def calibration_error(y, p):
    if not len(y):
        return None
    bins = np.minimum((np.clip(p, 0, 1) * BINS).astype(int), BINS - 1)
    return np.abs(np.bincount(bins, weights=p - y, minlength=BINS)).sum() / len(y)


def grouped_auc(y, p, group):
    values, weights = [], []
    for one in np.unique(group):
        inside = group == one
        if (value := auc(y[inside], p[inside])) is not None:
            values.append(value)
            weights.append(inside.sum())
    return np.average(values, weights=weights) if values else None


def ranking(y, p, group):
    """Over groups of several cells with a positive; the inputs have no ties within a group."""
    ndcg, precision, reciprocal = [], [], []
    for one in np.unique(group):
        labels, scores = y[group == one], p[group == one]
        if len(labels) < 2 or not labels.any():
            continue
        ndcg.append(ndcg_score([labels], [scores], k=10))
        precision.append(average_precision_score(labels, scores))
        first = np.zeros_like(labels)
        first[np.flatnonzero(labels)[np.argmax(scores[labels == 1])]] = 1
        reciprocal.append(label_ranking_average_precision_score([first], [scores]))
    return [np.mean(values) if values else None for values in (ndcg, precision, reciprocal)]


def case(name, y, p, user, impression):
    y, p, user, impression = (np.asarray(column) for column in (y, p, user, impression))
    ndcg, mean_precision, reciprocal = ranking(y, p, impression)
    loss = log_loss(y, np.clip(p, FLOOR, 1 - FLOOR), labels=[0, 1]) if len(y) else None
    expected = {"auc": auc(y, p), "log_loss": loss, "ne": entropy_ratio(y, p), "ece": calibration_error(y, p),
                "gauc": grouped_auc(y, p, user), "impression_auc": grouped_auc(y, p, impression), "ndcg10": ndcg,
                "map": mean_precision, "mrr": reciprocal}
    return {"name": name, "label": y.tolist(), "probability": p.tolist(), "user": user.tolist(),
            "impression": impression.tolist(), "expected": {key: defined(value) for key, value in expected.items()}}


def main():
    random = np.random.default_rng(20220422)
    cases = []
    for rows, slate in [(40, 4), (200, 15), (500, 1), (300, 25)]:
        y = random.integers(0, 2, rows)
        p = np.clip(0.3 * y + random.random(rows) * 0.7, 0, 1)
        impression = np.arange(rows) // slate
        cases.append(case(f"random, {rows} rows, {slate} an impression", y, p, impression % 7, impression))
    y = (random.random(400) < 0.02).astype(int)
    p = random.random(400) ** 6
    cases.append(case("rare positives", y, p, random.integers(0, 30, 400), np.arange(400) // 8))
    ties = np.round(random.random(120) * 4) / 4
    cases.append(case("tied scores", random.integers(0, 2, 120), ties, np.arange(120) % 5, np.arange(120)))
    cases.append(case("one score for all", [0, 1, 0, 1, 1], [0.5] * 5, [0, 0, 0, 1, 1], range(5)))
    cases.append(case("certain and wrong", [0, 1, 1, 0], [1.0, 0.0, 1.0, 0.0], [0, 0, 1, 1], range(4)))
    cases.append(case("only positives", [1, 1, 1], [0.2, 0.4, 0.9], [0, 1, 1], [0, 0, 0]))
    cases.append(case("only negatives", [0, 0], [0.2, 0.4], [0, 0], [0, 0]))
    cases.append(case("one row", [1], [0.7], [0], [0]))
    cases.append(case("no row", [], [], [], []))
    path = pathlib.Path(__file__).with_name("metrics.json")
    path.write_text(json.dumps(cases) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
