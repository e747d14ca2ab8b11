#!/usr/bin/env python3
"""Whatever is wrong with an event, it becomes a dead letter with its reason, or a 400 that names the field; the
stream goes on."""
import json
import re
import time

from support.binary import run
from support.case import EndToEndTest, main
from support.kafka import KafkaBroker
from support.partitioner import partition_of
from support.waiting import wait_for

DAY_MS = 86_400_000
PARTITIONS = 3


def now_ms():
    return int(time.time() * 1000)


def click(**changes):
    """A click with some fields changed, or gone where the change is None."""
    event = {"user_id": "u1", "item_id": "a", "timestamp": now_ms(), "event_id": f"e-{time.monotonic_ns()}"}
    return {name: value for name, value in (event | changes).items() if value is not None}


def impression(**changes):
    event = {"impression_id": f"i-{time.monotonic_ns()}", "user_id": "u1", "items": ["a"], "timestamp": now_ms()}
    return {name: value for name, value in (event | changes).items() if value is not None}


def bad_events():
    """(what is wrong, topic, event, reason, field)"""
    return [
        ("an item id that is a list", "clicks", click(item_id=["a"]), "wrong_type", "item_id"),
        ("a time that is a truth value", "clicks", click(timestamp=True), "wrong_type", "timestamp"),
        ("no item id", "clicks", click(item_id=None), "missing_field", "item_id"),
        ("no timestamp", "impressions", impression(timestamp=None), "missing_field", "timestamp"),
        ("no impression id", "impressions", impression(impression_id=None), "missing_field", "impression_id"),
        ("a time in seconds", "clicks", click(timestamp=now_ms() // 1000), "time_too_small", "timestamp"),
        ("a time far in the future", "clicks", click(timestamp=now_ms() + DAY_MS), "time_in_future", "timestamp"),
        ("a time that is no time", "clicks", click(timestamp="yesterday"), "invalid_value", "timestamp"),
        ("a local time without zone", "clicks", click(timestamp="2026-01-01T00:00:00"), "invalid_value", "timestamp"),
        ("an item id that is too long", "clicks", click(item_id="x" * 129), "id_too_long", "item_id"),
        ("no items", "impressions", impression(items=[]), "empty_items", "items"),
        ("too many items", "impressions", impression(items=[str(n) for n in range(501)]), "too_many_items", "items"),
        ("an item of an impression without id", "impressions", impression(items=["a", {"position": 1}]),
         "missing_field", "items[1].item_id"),
        ("tags that are no list", "items", {"item_id": "a", "timestamp": now_ms(), "tags": "sport"}, "wrong_type",
         "tags"),
        ("an empty user id", "users", {"user_id": "", "timestamp": now_ms()}, "invalid_value", "user_id"),
    ]


class KafkaBadInputTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        cls.broker = KafkaBroker()
        cls.addClassCleanup(cls.broker.close)
        folder = cls.make_class_folder()
        cls.settings = ["--brokers", cls.broker.address, "--models", folder / "models",
                        "--partitions", PARTITIONS, "--features.join_window_ms", 1000,
                        "--features.lateness_max_ms", 0, "--ingest.idle_flush_after_ms", 500]
        run("topics", "create", *cls.settings)
        cls.serve = cls.start_for_class("serve", "serve", *cls.settings, "--data", folder / "serve")
        cls.train = cls.start_for_class("train", "train", *cls.settings, "--data", folder / "train")
        cls.serve.wait_caught_up()

    def letters(self, reason=None):
        words = ["dead-letters", "list", *self.settings] + (["--reason", reason] if reason else [])
        return [json.loads(line) for line in run(*words).stdout.splitlines()]

    def wait_letter(self, matches, what):
        return wait_for(lambda: [letter for letter in self.letters() if matches(letter)], f"a dead letter for {what}",
                        30, every=0.3, explain=lambda: f"{self.letters()}")

    def produce(self, topic, event, key="u1"):
        partition = 0 if topic == "items" else partition_of(key, PARTITIONS)
        self.broker.produce(topic, event if isinstance(event, (str, bytes)) else json.dumps(event), key, partition)

    def assert_the_stream_goes_on(self):
        item = f"after-{time.monotonic_ns()}"
        self.produce("clicks", click(item_id=item))
        wait_for(lambda: item in self.serve.get("/v1/users/u1").text, "a good click after bad ones is applied", 30,
                 explain=self.serve.output)
        values = self.serve.metrics()
        counts = {name: values[("sirenfeed_features_records_total", name)] for name in ("in", "applied", "duplicate")}
        counts["rejected"] = self.serve.metric("sirenfeed_features_records_rejected_total")
        self.assertEqual(counts["in"], counts["applied"] + counts["duplicate"] + counts["rejected"], counts)

    def test_every_bad_event_is_a_dead_letter_with_its_reason_and_the_stream_goes_on(self):
        sent = {}
        for what, topic, event, reason, field in bad_events():
            event["note"] = what  # an unknown field: to find the letter again
            key = event["item_id"] if topic == "items" else "u1"
            self.produce(topic, event, key)
            sent[what] = (topic, reason, field)
        found = {}

        def all_found():
            for letter in self.letters():
                note = re.search(r'"note": "([^"]*)"', letter.get("payload", ""))
                if note:
                    found[note.group(1)] = letter
            return found.keys() >= sent.keys()

        wait_for(all_found, "every bad event has become a dead letter", 30, every=0.5, explain=self.serve.output)
        for what, (topic, reason, field) in sent.items():
            with self.subTest(what):
                letter = found[what]
                self.assertEqual((letter["topic"], letter["reason"]), (topic, reason), letter)
                self.assertTrue(letter["detail"].startswith(f"{field}:"), letter)
                self.assertGreaterEqual(letter["offset"], 0)
        self.assert_the_stream_goes_on()

    def test_broken_bytes_are_dead_letters_and_keep_their_payload(self):
        self.produce("clicks", '{"user_id":"u1", broken')
        letter, = self.wait_letter(lambda one: "broken" in one.get("payload", ""), "broken JSON")
        self.assertEqual((letter["reason"], letter["topic"]), ("not_json", "clicks"), letter)
        self.produce("clicks", b"\xff\xfe\x00not text")
        letter, = self.wait_letter(lambda one: "payload_base64" in one and one["topic"] == "clicks", "no UTF-8")
        self.assertEqual(letter["reason"], "not_json", letter)
        self.produce("impressions", json.dumps(impression(note="x" * 920_000)))
        letter, = self.wait_letter(lambda one: one["reason"] == "too_large", "a message over the limit")
        self.assertIn("message_bytes_max", letter["detail"])
        self.assertLessEqual(len(letter["payload"]), 64 << 10)
        self.assertGreater(letter["payload_bytes"], 920_000)
        self.assert_the_stream_goes_on()

    def test_a_record_in_a_wrong_partition_is_a_dead_letter_that_can_be_republished(self):
        right = partition_of("u2", PARTITIONS)
        event = click(user_id="u2", item_id="from-the-wrong-partition")
        self.broker.produce("clicks", json.dumps(event), "u2", (right + 1) % PARTITIONS)
        self.broker.produce("clicks", json.dumps(click(user_id="u2", item_id="no-key")), None, right)
        self.broker.produce("clicks", json.dumps(click(user_id="u3", item_id="other-key")), "u2", right)
        for item in ("from-the-wrong-partition", "no-key", "other-key"):
            letter, = self.wait_letter(lambda one, item=item: item in one.get("payload", ""), item)
            self.assertEqual(letter["reason"], "wrong_partition", letter)
        self.assertEqual(self.serve.get("/v1/users/u2").status, 404)
        would = run("dead-letters", "republish", "--dry-run", "--reason", "wrong_partition", *self.settings).stdout
        self.assertIn("3 would be republished", would)
        run("dead-letters", "republish", "--reason", "wrong_partition", *self.settings)
        wait_for(lambda: "from-the-wrong-partition" in self.serve.get("/v1/users/u2").text,
                 "the republished record is applied", 30, explain=self.serve.output)
        self.assert_the_stream_goes_on()

    def test_an_undecodable_example_is_a_dead_letter_and_the_trainer_goes_on(self):
        self.broker.produce("examples", b"\xff\xff\xffthis is no example", "u1", 0)
        letter, = self.wait_letter(lambda one: one["topic"] == "examples", "an undecodable example")
        self.assertEqual(letter["reason"], "undecodable", letter)
        learned = self.train.metric("sirenfeed_trainer_examples_total")
        for n in range(5):
            self.produce("impressions", impression(user_id=f"v{n}"), f"v{n}")
        wait_for(lambda: self.train.metric("sirenfeed_trainer_examples_total") >= learned + 5,
                 "examples after it are learned", 60, explain=self.train.output)
        self.assertTrue(self.train.running())


class PostedBadInputTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        folder = cls.make_class_folder()
        cls.node = cls.start_for_class("up", "up", "--data", folder / "data")
        cls.node.url()

    def test_a_bad_event_is_answered_with_400_and_the_field(self):
        for what, topic, event, reason, field in bad_events():
            with self.subTest(what):
                answer = self.node.post("/v1/events", event | {"topic": topic})
                self.assertEqual(answer.status, 400, answer)
                self.assertEqual(answer.json()["field"], field, answer)
                self.assertEqual(answer.json()["results"][0]["reason"], reason, answer)
        for what, body, field in [("no JSON", '{"topic":"clicks",', "body"), ("nothing", "", "body"),
                                  ("no topic", json.dumps(click()), "topic"),
                                  ("a topic that there is not", json.dumps(click(topic="likes")), "topic"),
                                  ("an array that does not end", '[{"topic":"clicks"}', "body")]:
            with self.subTest(what):
                answer = self.node.post("/v1/events", body)
                self.assertEqual(answer.status, 400, answer)
                self.assertEqual(answer.json()["field"], field, answer)

    def test_good_events_among_bad_ones_are_accepted(self):
        good = click(topic="clicks", user_id="mixed", item_id="good")
        answer = self.node.post("/v1/events", [click(topic="clicks", item_id=None), good, {"topic": "clicks"}])
        self.assertEqual(answer.status, 200, answer)
        results = answer.json()["results"]
        self.assertEqual([one["status"] for one in results], ["refused", "accepted", "refused"])
        wait_for(lambda: '"good"' in self.node.get("/v1/users/mixed").text, "the good one is applied", 20)

    def test_what_is_over_a_limit_is_refused_with_the_limit_s_name(self):
        large = impression(topic="impressions", note="x" * 950_000)
        answer = self.node.post("/v1/events", large)
        self.assertEqual(answer.status, 413, answer)
        self.assertIn("message_bytes_max", answer.text)
        answer = self.node.post("/v1/events", b" " * (5 << 20))
        self.assertEqual(answer.status, 413, answer)
        self.assertIn("body_bytes_max", answer.text)
        answer = self.node.post("/v1/events", [click(topic="clicks")] * 10_001)
        self.assertEqual(answer.status, 413, answer)
        self.assertIn("events_per_request_max", answer.text)
        self.assertEqual(self.node.post("/v1/events", click(topic="clicks")).status, 200)

    def test_publish_refuses_what_is_over_a_limit_naming_line_and_limit(self):
        file = self.folder / "large.ndjson"
        lines = [click(topic="clicks"), impression(topic="impressions", items=[f"item-{n:0100}" for n in range(20)])]
        file.write_text("".join(json.dumps(line) + "\n" for line in lines))
        done = run("publish", file, "--data", self.folder / "data", "--ingest.message_bytes_max", 1000, code=1)
        self.assertIn("large.ndjson:2", done.stderr)
        self.assertIn("message_bytes_max", done.stderr)

    def test_publish_names_the_line_that_is_wrong(self):
        file = self.folder / "wrong.ndjson"
        file.write_text(json.dumps(click(topic="clicks")) + "\n" + '{"topic":"clicks","user_id":7}' + "\n")
        done = run("publish", file, "--data", self.folder / "data", code=1)
        self.assertIn("wrong.ndjson:2", done.stderr)
        self.assertIn("item_id", done.stderr)


if __name__ == "__main__":
    main()
