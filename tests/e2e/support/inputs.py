"""Recorded inputs: the slice of KuaiRand, shorter cuts of it, and a generated one in the events format."""
import csv
import gzip
import json
import os
import pathlib
import random

from support.binary import ROOT

# KUAIRAND names the whole log where it is at hand.
SLICE = pathlib.Path(os.environ.get("KUAIRAND", ROOT / "tests/data/kuairand_pure/impressions_slice.csv.gz"))

# What `evaluate --format kuairand` sets by itself and a deployment has to be told (docs: the replay's convention).
KUAIRAND_SETTINGS = ["--features.context_surfaces", "0,1,2,4,6", "--features.duration_field", "duration_ms",
                     "--features.duration_unit_s", "0.001"]


def kuairand_rows():
    with gzip.open(SLICE, "rt", newline="") as file:
        return list(csv.DictReader(file))


def cut_kuairand(path, rows):
    """The slice's first rows as a file of its own; returns `path`."""
    with gzip.open(SLICE, "rt") as source, gzip.open(path, "wt") as target:
        for number, line in enumerate(source):
            if number > rows:
                break
            target.write(line)
    return path


def late_likes(cut, path):
    """Likes that come after everything of `cut` (its name without .csv.gz is in the ids), although their times lie
    within windows that closed during its last hour; returns (`path`, how many)."""
    with gzip.open(cut, "rt", newline="") as file:
        rows = list(csv.DictReader(file))
    minute = 60_000
    last = int(rows[-1]["time_ms"])
    events = {}
    for number, row in enumerate(rows, 1):
        time = int(row["time_ms"])
        if last - 45 * minute <= time <= last - 11 * minute and row["is_like"] == "0":
            event = {"topic": "clicks", "user_id": row["user_id"], "item_id": row["video_id"], "timestamp": time + 2000,
                     "type": "like", "impression_id": f"{cut.name.removesuffix('.csv.gz')}:{number}"}
            events[row["user_id"], row["video_id"], time] = event
    path.write_text("".join(json.dumps(event) + "\n" for event in events.values()))
    return path, len(events)


TOPIC_RANK = {"items": 0, "users": 1, "requests": 2, "impressions": 3, "clicks": 4}
START_MS = 1_700_000_000_000


def generated_events(seed, users=30, items=60, impressions=600):
    """A small world with what the slice does not have: slates of several items, profiles, unattributed actions,
    unknown items, repeated events, values, a takedown and an erasure. In merge order, each with its topic."""
    draw = random.Random(seed)
    events = []

    def add(topic, timestamp, **fields):
        events.append({"topic": topic, "timestamp": timestamp, **fields})

    for n in range(items):
        add("items", START_MS + draw.randrange(0, 20 * 60_000), item_id=f"item-{n}", author_id=f"author-{n % 7}",
            published_at=START_MS - draw.randrange(0, 5 * 86_400_000), title=f"Number {n}",
            tags=draw.sample(["sport", "news", "art", "cats"], 2), numeric={"duration_s": draw.randrange(5, 300)})
    for n in range(0, users, 3):
        add("users", START_MS + draw.randrange(0, 60 * 60_000), user_id=f"user-{n}", segment=f"segment-{n % 2}",
            blocked_tags=["cats"] if n % 2 else [])
    at = START_MS
    for n in range(impressions):
        at += draw.randrange(1, 40_000)
        user = f"user-{draw.randrange(users)}"
        shown = [f"item-{i}" for i in draw.sample(range(items + 3), draw.randrange(1, 6))]
        impression = dict(impression_id=f"i-{n}", user_id=user, items=shown, surface=draw.choice(["home", "search"]))
        add("impressions", at, **impression)
        if draw.random() < 0.03:
            add("impressions", at, **impression)
        for item in shown:
            if draw.random() < 0.4:
                event = dict(user_id=user, item_id=item, type=draw.choice(["click", "long_view", "like", "hide"]))
                if draw.random() < 0.5:
                    event["impression_id"] = f"i-{n}"
                if draw.random() < 0.3:
                    event |= {"event_id": f"e-{n}-{item}", "value": draw.randrange(100) / 4}
                when = at + draw.randrange(0, 500_000)
                for _ in range(2 if draw.random() < 0.05 else 1):
                    add("clicks", when, **event)
        if draw.random() < 0.05:
            add("clicks", at + 10, user_id=user, item_id=f"item-{draw.randrange(items)}", type="share")
    add("items", START_MS + 90 * 60_000, item_id="item-5", deleted=True)
    # With a window that is open: what had closed before and waits to be sent would leave without the user.
    for minute, number in ((99, 0), (101, 1)):
        add("impressions", START_MS + minute * 60_000, impression_id=f"erased-{number}", user_id="user-erased",
            items=["item-1", "item-2"], surface="home")
        add("clicks", START_MS + minute * 60_000 + 500, user_id="user-erased", item_id="item-1")
    add("users", START_MS + 100 * 60_000, user_id="user-erased", erase=True)
    events.sort(key=lambda event: (event["timestamp"], TOPIC_RANK[event["topic"]]))
    return events


def write_events(path, events):
    """As NDJSON; returns `path`."""
    with open(path, "w", encoding="utf-8") as file:
        for event in events:
            file.write(json.dumps(event) + "\n")
    return path
