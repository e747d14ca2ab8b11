#!/usr/bin/env python3
"""A recorded input through a real Kafka broker, `serve` and `train` gives the very examples and the very model of
`evaluate`; published while they run it gives the same impressions and labels."""
import os
import time

from support import examples, feeds, inputs
from support.case import EndToEndTest, main
from support.kafka import KafkaBroker
from support.replay import Replay, evaluate

# Published at full speed, ten days pass within a second and the topics' heads lie hours of event time apart: late is
# what is later than that.
DAY_MS = 86_400_000
LATENESS_MS = 2 * DAY_MS
LIVE_SETTINGS = ["--features.event_jump_max_ms", 3 * DAY_MS]
FEED_USERS = int(os.environ.get("SIRENFEED_TEST_USERS", "100"))


class KafkaReplayTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        cls.broker = KafkaBroker()
        cls.addClassCleanup(cls.broker.close)

    def replay_as_two_processes(self, replay, file, file_format):
        """Publishes everything, then consumes it; returns the `serve` node, still running."""
        replay.create_topics()
        began = time.monotonic()
        replay.publish(file, file_format)
        published = time.monotonic()
        serve = replay.serve()
        train = replay.train()
        replay.close_windows(serve)
        applied = time.monotonic()
        self.assertEqual(train.stop(), 0, train.output())
        replay.train_until_end()
        print(f"{replay.name}: published in {published - began:.1f} s, applied in {applied - published:.1f} s, "
              f"learned to the end {time.monotonic() - applied:.1f} s later", flush=True)
        return serve

    def assert_equals_evaluate(self, replay, expected):
        expected_examples, expected_model = expected
        got = replay.examples()
        names, expected_names = ([examples.decode(value).identity for value in values]
                                 for values in (got, expected_examples))
        self.assertEqual(set(expected_names) ^ set(names), set(), "examples of only one of the two")
        self.assertEqual(len(got), len(expected_examples))
        different = [n for n, pair in enumerate(zip(got, expected_examples)) if pair[0] != pair[1]]
        if different:
            first = different[0]
            self.fail(f"{len(different)} examples differ, first the one at {first}:\n"
                      f"{examples.decode(got[first])}\n{examples.decode(expected_examples[first])}")
        self.assertGreater(len(got), 0)
        self.assertTrue(replay.model_bytes() == expected_model, "the final model's bytes differ")

    def test_kuairand_through_two_processes_equals_evaluate_byte_by_byte(self):
        replay = Replay(self, self.broker, "kuairand", inputs.KUAIRAND_SETTINGS)
        serve = self.replay_as_two_processes(replay, inputs.SLICE, "kuairand")
        self.assert_equals_evaluate(replay, evaluate(self.folder, inputs.SLICE, "kuairand"))

        shown = feeds.shown_items(inputs.kuairand_rows())
        users = sorted(shown)[:: max(1, len(shown) // FEED_USERS)][:FEED_USERS]
        serve.wait_ready()
        feeds.check_feeds(self, serve, {user: shown[user] for user in users})

    def test_a_recorded_log_before_the_topic_is_not_learned_again_from_it(self):
        replay = Replay(self, self.broker, "recorded", inputs.KUAIRAND_SETTINGS)
        replay.create_topics()
        replay.publish(inputs.SLICE, "kuairand")
        serve = replay.serve()
        replay.close_windows(serve)
        self.assertEqual(serve.stop(), 0, serve.output())
        replay.train_until_end("--from-log", inputs.SLICE, "--format", "kuairand")
        values, model = evaluate(self.folder, inputs.SLICE, "kuairand")
        self.assertEqual(len(replay.examples()), len(values))
        self.assertTrue(replay.model_bytes() == model, "the model's bytes differ")

    def test_events_through_two_processes_equal_evaluate_byte_by_byte(self):
        seed = 20261130
        print(f"seed {seed}")
        file = inputs.write_events(self.folder / "events.ndjson", inputs.generated_events(seed))
        replay = Replay(self, self.broker, "events", [])
        self.replay_as_two_processes(replay, file, "events")
        self.assert_equals_evaluate(replay, evaluate(self.folder, file, "events"))

    def test_published_live_at_full_speed_gives_the_same_impressions_and_labels(self):
        replay = Replay(self, self.broker, "live", [*inputs.KUAIRAND_SETTINGS, *LIVE_SETTINGS],
                        lateness_ms=LATENESS_MS, merge_wait_ms=50)
        replay.create_topics()
        serve, train = replay.serve(), replay.train()
        serve.wait_caught_up()
        train.url()
        replay.publish(inputs.SLICE, "kuairand")
        replay.close_windows(serve)
        self.assertEqual(train.stop(), 0, train.output())
        live = {}
        for one in map(examples.decode, examples.without_duplicates(replay.examples())):
            if one.revision == 0:
                live[one.identity] = one
        self.assertEqual(serve.stop(), 0, serve.output())

        values, _ = evaluate(self.folder, inputs.SLICE, "kuairand")
        alone = {one.identity: one for one in map(examples.decode, values)}
        self.assertEqual(live.keys(), alone.keys())
        labels_differ = [key for key in alone if live[key].labels != alone[key].labels]
        def share(*parts):
            differ = sum(any(live[key].features[part] != alone[key].features[part] for part in parts) for key in alone)
            return f"{100 * differ / len(alone):.2f} %"

        print(f"published live: {len(live)} examples; {share(*range(len(examples.FEATURES)))} of them with other "
              f"features (" + ", ".join(f"{name} {share(part)}" for part, name in enumerate(examples.FEATURES)) + ")",
              flush=True)
        self.assertEqual(len(labels_differ), 0, f"{labels_differ[:10]}…")


if __name__ == "__main__":
    main()
