#!/usr/bin/env python3
"""What happens to `serve` and `train` when Kafka is the one that fails: nothing lost and nothing twice, or a stop that
names `sirenfeed rebuild` where going on would be wrong."""
import json
import os
import time

from support import examples, inputs
from support.case import EndToEndTest, main
from support.kafka import KafkaBroker
from support.replay import Replay
from support.waiting import wait_for

ROWS = int(os.environ.get("SIRENFEED_TEST_ROWS", "6000"))
GONE_SECONDS = float(os.environ.get("SIRENFEED_TEST_GONE_SECONDS", "9"))
SETTINGS = [*inputs.KUAIRAND_SETTINGS, "--ingest.batch_records_max", "100", "--trainer.checkpoint_interval_ms", "100",
            "--kafka.session_timeout_ms", 6000]
STOP_SECONDS = 10
CO_PARTITIONED = ("impressions", "clicks", "users", "requests", "examples")


def events_file(path, name, count):
    """One visit a minute; `name` is in every id."""
    with open(path, "w") as file:
        for n in range(count):
            at = inputs.START_MS + n * 60_000
            for event in ({"topic": "items", "item_id": f"{name}-item-{n}", "timestamp": at, "published_at": at},
                          {"topic": "impressions", "impression_id": f"{name}-{n}", "user_id": f"user-{n % 7}",
                           "timestamp": at + 1, "items": [f"{name}-item-{n}"]},
                          {"topic": "clicks", "user_id": f"user-{n % 7}", "item_id": f"{name}-item-{n}",
                           "timestamp": at + 900, "impression_id": f"{name}-{n}"}):
                file.write(json.dumps(event) + "\n")
    return path


class BrokerCrashTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        cls.broker = KafkaBroker()
        cls.addClassCleanup(cls.broker.close)

    def stop_in_time(self, node):
        began = time.monotonic()
        self.assertEqual(node.stop(STOP_SECONDS + 5), 0, node.output())
        self.assertLess(time.monotonic() - began, STOP_SECONDS, "a stop that had to be forced")

    def stopped_reason(self, node):
        def reason():
            return [one for one in node.readiness()["reasons"] if "sirenfeed rebuild" in one]
        return wait_for(reason, "the node says what helps", 60, explain=node.output)[0]

    def test_a_broker_that_goes_and_comes_changes_nothing(self):
        file = inputs.cut_kuairand(self.folder / "cut.csv.gz", ROWS)
        quiet = Replay(self, self.broker, "quiet", SETTINGS)
        quiet.create_topics()
        quiet.publish(file, "kuairand")
        serve = quiet.serve()
        quiet.close_windows(serve)
        self.stop_in_time(serve)
        quiet.train_until_end()

        disturbed = Replay(self, self.broker, "disturbed", SETTINGS)
        disturbed.create_topics()
        disturbed.publish(file, "kuairand")
        serve, train = disturbed.serve(), disturbed.train()
        serve.url(), train.url()
        for end in (self.broker.kill, self.broker.stop):
            before = serve.metric("sirenfeed_features_records_total")
            wait_for(lambda: serve.metric("sirenfeed_features_records_total") > before or serve.caught_up(),
                     "serve works", explain=serve.output)
            end()
            wait_for(lambda: any("broker_lost" in one for one in serve.readiness()["reasons"]),
                     "serve misses the broker", 60, explain=serve.output)
            time.sleep(GONE_SECONDS)
            self.broker.start()
        disturbed.close_windows(serve)
        self.stop_in_time(serve)
        self.stop_in_time(train)
        disturbed.train_until_end()
        self.assertMultiLineEqual(disturbed.canonical_state(), quiet.canonical_state())
        self.assertTrue(examples.without_duplicates(disturbed.examples()) ==
                        examples.without_duplicates(quiet.examples()), "the examples differ")
        self.assertTrue(disturbed.model_bytes() == quiet.model_bytes(), "the final model's bytes differ")

    def test_a_stop_without_a_broker_ends_by_itself(self):
        replay = Replay(self, self.broker, "gone", [])
        replay.create_topics()
        replay.publish(events_file(self.folder / "some.ndjson", "some", 20), "events")
        serve, train = replay.serve(), replay.train()
        serve.wait_caught_up()
        train.url()
        self.broker.kill()
        self.addCleanup(self.broker.start)
        time.sleep(2)  # long enough for a question to the broker to be under way
        self.stop_in_time(serve)
        self.stop_in_time(train)

    def test_topics_made_anew_stop_the_node_and_a_rebuild_goes_on(self):
        replay = Replay(self, self.broker, "anew", ["--features.join_window_ms", 600_000])
        replay.create_topics()
        replay.publish(events_file(self.folder / "first.ndjson", "first", 40), "events")
        serve = replay.serve()
        replay.close_windows(serve)
        self.stop_in_time(serve)
        for topic in ("items", "impressions", "clicks"):
            self.broker.tool("org.apache.kafka.tools.TopicCommand", "--delete", "--topic", f"anew.{topic}")
        wait_for(lambda: not self.broker.has_topic("anew.impressions"), "the topics are gone", 60)
        replay.create_topics()
        replay.publish(events_file(self.folder / "second.ndjson", "second", 60), "events")
        serve = replay.serve()
        self.assertIn("is not the one that the state has applied", self.stopped_reason(serve))
        self.stop_in_time(serve)
        done = replay.run("rebuild")
        self.assertIn("nothing is missing", done.stdout)
        serve = replay.serve()
        replay.close_windows(serve)
        self.assertEqual(serve.readiness()["reasons"], ["no_model: no version was published yet"])
        self.stop_in_time(serve)
        state = replay.canonical_state()
        self.assertIn("item second-item-0", state)
        self.assertNotIn("first-item", state)
        self.assertIn("epoch=2", state)

    def test_more_partitions_stop_the_node_and_name_rebuild(self):
        replay = Replay(self, self.broker, "grown", [])
        replay.create_topics()
        replay.publish(events_file(self.folder / "few.ndjson", "few", 20), "events")
        serve = replay.serve()
        serve.wait_caught_up()
        for topic in CO_PARTITIONED:
            self.broker.tool("org.apache.kafka.tools.TopicCommand", "--alter", "--topic", f"grown.{topic}",
                             "--partitions", 2)
        self.assertIn("partitions", self.stopped_reason(serve))
        self.stop_in_time(serve)
        serve = replay.serve()
        self.assertEqual(serve.wait_end(60), 1, serve.output())
        self.assertIn("sirenfeed rebuild", serve.output())
        replay.run("rebuild")
        serve = replay.serve()
        serve.wait_caught_up()
        self.stop_in_time(serve)

    def test_what_is_put_back_from_a_backup_teaches_nothing_twice(self):
        replay = Replay(self, self.broker, "backed", [])
        replay.create_topics()
        replay.publish(events_file(self.folder / "early.ndjson", "early", 60), "events")
        serve, train = replay.serve(), replay.train()
        serve.wait_caught_up()
        done = replay.run("backup", self.folder / "backup")  # while it runs
        self.assertIn("parts: ", done.stdout)
        later = self.folder / "later.ndjson"
        text = events_file(later, "later", 120).read_text().splitlines()
        later.write_text("\n".join(text[180:]) + "\n")  # its second hour, after the other
        replay.publish(later, "events")
        wait_for(lambda: serve.metric("sirenfeed_features_examples_total") > 80, "windows close", 60,
                 explain=serve.output)
        wait_for(lambda: serve.metric("sirenfeed_features_outbox_entries") == 0, "examples leave", 60)
        self.stop_in_time(serve)
        self.stop_in_time(train)
        replay.run("restore", self.folder / "backup", "--replace")
        serve = replay.serve()
        replay.close_windows(serve)
        self.stop_in_time(serve)
        sent = [examples.decode(value) for value in replay.examples()]
        ids = [one.impression_id for one in sent]
        self.assertEqual(sorted(ids), sorted(set(ids)), "an impression was sent twice")
        self.assertEqual(len(ids), 120)
        self.assertEqual({one.epoch for one in sent}, {1, 2})
        self.assertIn("learned 120 examples", replay.train_until_end().output())


if __name__ == "__main__":
    main()
