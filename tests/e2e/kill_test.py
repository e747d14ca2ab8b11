#!/usr/bin/env python3
"""kill -9 of `serve` and of `train` at random moments of a replay, ten times in total: afterwards state, examples
and model are those of a run that nobody disturbed."""
import os
import random
import time

from support import examples, inputs
from support.case import EndToEndTest, main
from support.kafka import KafkaBroker
from support.replay import Replay
from support.waiting import wait_for

ROWS = 12_000
KILLS = 5  # of each of the two processes
# Small batches, checkpoints and versions at short intervals: many boundaries for a kill to fall between.
SETTINGS = [*inputs.KUAIRAND_SETTINGS, "--ingest.batch_records_max", "100", "--features.wal_sync", "false",
            "--trainer.checkpoint_interval_ms", "200", "--trainer.publish_interval_ms", "200"]


class KillTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        cls.broker = KafkaBroker()
        cls.addClassCleanup(cls.broker.close)

    def undisturbed(self, file):
        """(state, examples, model) and how long each process was at work, its start included."""
        replay = Replay(self, self.broker, "undisturbed", SETTINGS)
        replay.create_topics()
        replay.publish(file, "kuairand")
        began = time.monotonic()
        serve = replay.serve()
        replay.close_windows(serve)
        applied = time.monotonic()
        self.assertEqual(serve.stop(), 0, serve.output())
        learning = time.monotonic()
        replay.train_until_end()
        learned = time.monotonic()
        outcome = (replay.canonical_state(), examples.without_duplicates(replay.examples()), replay.model_bytes())
        return outcome, applied - began, learned - learning

    def kill_again_and_again(self, draw, start, seconds, what):
        """Starts, kills after a random part of what is left to do, and so on; returns the survivor."""
        for number in range(KILLS):
            node = start()
            delay = draw.uniform(0, 1.6 * seconds / KILLS)
            time.sleep(delay)
            self.assertTrue(node.running(), node.output())
            node.kill()
            print(f"{what} killed after {delay:.2f} s ({number + 1} of {KILLS})", flush=True)
        return start()

    def test_ten_kills_change_neither_state_nor_examples_nor_model(self):
        seed = int(os.environ.get("SIRENFEED_TEST_SEED", random.randrange(1 << 32)))
        print(f"seed {seed} (SIRENFEED_TEST_SEED repeats it)", flush=True)
        draw = random.Random(seed)
        file = inputs.cut_kuairand(self.folder / "cut.csv.gz", ROWS)
        (state, values, model), serve_seconds, train_seconds = self.undisturbed(file)
        print(f"undisturbed: serve {serve_seconds:.1f} s, train {train_seconds:.1f} s, {len(values)} examples")
        self.assertEqual(len(values), ROWS)

        replay = Replay(self, self.broker, "disturbed", SETTINGS)
        replay.create_topics()
        replay.publish(file, "kuairand")
        serve = self.kill_again_and_again(draw, replay.serve, serve_seconds, "serve")
        replay.close_windows(serve)
        self.assertEqual(serve.stop(), 0, serve.output())
        train = self.kill_again_and_again(draw, replay.train, train_seconds, "train")
        wait_for(lambda: train.get("/readyz").status == 200, "the trainer has caught up", explain=train.output)
        self.assertEqual(train.stop(), 0, train.output())
        replay.train_until_end()

        got = replay.examples()
        unique = examples.without_duplicates(got)
        print(f"{len(got)} examples in the topic, {len(got) - len(unique)} of them sent twice")
        self.assertEqual(len(unique), len(values))
        self.assertTrue(unique == values, "the examples differ")
        self.assertMultiLineEqual(replay.canonical_state(), state)
        self.assertTrue(replay.model_bytes() == model, "the final model's bytes differ")


if __name__ == "__main__":
    main()
