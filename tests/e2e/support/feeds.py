"""What a feed promises: fresh, unseen, living items."""
from collections import defaultdict
from urllib.parse import quote

FEED_COUNT = 20


def shown_items(rows):
    """{user: items that the rows of a KuaiRand file show them}"""
    shown = defaultdict(set)
    for row in rows:
        shown[row["user_id"]].add(row["video_id"])
    return dict(shown)


def check_feeds(test, node, shown, age_max_ms=None):
    """Asks for the feed of each user in `shown` ({user: items they have seen}); returns what was served."""
    served, living = set(), {}
    for user, seen in shown.items():
        answer = node.get(f"/v1/feed/{quote(user, safe='')}?count={FEED_COUNT}")
        test.assertEqual(answer.status, 200, f"{user}: {answer}")
        feed = answer.json()
        items = [item["item_id"] for item in feed["items"]]
        test.assertEqual(len(items), FEED_COUNT, f"{user}: {feed}")
        test.assertEqual(len(set(items)), len(items), f"{user}: an item twice in one feed")
        test.assertGreater(feed["model_version"], 0, user)
        test.assertNotIn("degraded", feed, user)
        test.assertEqual(set(items) & seen, set(), f"{user}: was shown these before")
        for item in feed["items"]:
            test.assertTrue(0 < item["probabilities"]["click"] < 1, f"{user}: {item}")
            if item["item_id"] not in living:
                living[item["item_id"]] = node.get(f"/v1/items/{quote(item['item_id'], safe='')}")
            known = living[item["item_id"]]
            test.assertEqual(known.status, 200, f"{user}: {item['item_id']}: {known}")
            catalog = known.json()
            test.assertTrue(catalog["known"], catalog)
            test.assertFalse(catalog["hidden"], catalog)
            test.assertGreater(catalog.get("expires_at", feed["time"] + 1), feed["time"], catalog)
            test.assertLessEqual(catalog["published_at"], feed["time"], catalog)
            if age_max_ms is not None:
                test.assertGreaterEqual(catalog["published_at"], feed["time"] - age_max_ms, catalog)
        served.update(items)
    return served


def history_of(test, node, user):
    """{item: times} of what the state says was shown to the user."""
    answer = node.get(f"/v1/users/{quote(user, safe='')}")
    test.assertEqual(answer.status, 200, f"{user}: {answer}")
    history = defaultdict(list)
    for entry in answer.json()["history"]:
        if entry["exposed"]:
            history[entry["item_id"]].append(entry["time"])
    return dict(history)
