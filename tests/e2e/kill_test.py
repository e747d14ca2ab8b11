#!/usr/bin/env python3
"""kill -9 of `serve` and of `train` at random moments of a replay that ends with late actions, ten times in total:
afterwards state, examples (each correction once) and model are those of a run that nobody disturbed."""
import os
import random
import time

from support import examples, inputs
from support.case import EndToEndTest, main
from support.kafka import KafkaBroker
from support.replay import Replay
from support.waiting import wait_for

ROWS = int(os.environ.get("SIRENFEED_TEST_ROWS", "12000"))
KILLS = 5  # of each of the two processes
# Small batches, checkpoints and versions at short intervals: many boundaries for a kill to fall between.
SETTINGS = [*inputs.KUAIRAND_SETTINGS, "--ingest.batch_records_max", "100", "--features.wal_sync", "false",
            "--trainer.checkpoint_interval_ms", "50", "--trainer.publish_interval_ms", "100"]
APPLIED, LEARNED = ("sirenfeed_features_records_total", "in"), ("sirenfeed_trainer_examples_total",)


class KillTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        cls.broker = KafkaBroker()
        cls.addClassCleanup(cls.broker.close)

    def undisturbed(self, file, late):
        """((state, examples, model), records applied)."""
        replay = Replay(self, self.broker, "undisturbed", SETTINGS)
        replay.create_topics()
        replay.publish(file, "kuairand")
        replay.publish(late, "events")
        serve = replay.serve()
        replay.close_windows(serve)
        applied = serve.metrics()[APPLIED]
        self.assertEqual(serve.stop(), 0, serve.output())
        replay.train_until_end()
        outcome = (replay.canonical_state(), examples.without_duplicates(replay.examples()), replay.model_bytes())
        return outcome, applied

    def kill_again_and_again(self, draw, start, metric, total, what):
        """Starts, kills once a random part of what is left was worked off, and so on; returns the survivor."""
        done = 0
        for number in range(KILLS):
            node = start()
            node.url()
            before = node.metrics()[metric]  # the trainer's goes on from its checkpoint
            share = draw.uniform(0, 1.5 / KILLS) * (total - done)
            after = draw.uniform(0, 0.02)
            wait_for(lambda: node.metrics()[metric] - before >= share or node.caught_up(), f"{what} works", every=0.002,
                     explain=node.output)
            progress = node.metrics()[metric] - before
            time.sleep(after)
            self.assertTrue(node.running(), node.output())
            node.kill()
            done += progress
            print(f"{what} killed after {progress:.0f} more of {total:.0f} ({number + 1} of {KILLS})", flush=True)
        self.assertLess(done, total, "no kill came in the middle of the work")
        return start()

    def test_ten_kills_change_neither_state_nor_examples_nor_model(self):
        seed = int(os.environ.get("SIRENFEED_TEST_SEED", random.randrange(1 << 32)))
        print(f"seed {seed} (SIRENFEED_TEST_SEED repeats it)", flush=True)
        draw = random.Random(seed)
        file = inputs.cut_kuairand(self.folder / "cut.csv.gz", ROWS)
        late, late_count = inputs.late_likes(file, self.folder / "late.ndjson")
        (state, values, model), records = self.undisturbed(file, late)
        revisions = [examples.decode(value).revision for value in values]
        self.assertEqual(revisions.count(0), ROWS)
        self.assertEqual(revisions.count(1), late_count)
        self.assertGreater(late_count, 0)

        replay = Replay(self, self.broker, "disturbed", SETTINGS)
        replay.create_topics()
        replay.publish(file, "kuairand")
        replay.publish(late, "events")
        serve = self.kill_again_and_again(draw, replay.serve, APPLIED, records, "serve")
        replay.close_windows(serve)
        self.assertEqual(serve.stop(), 0, serve.output())
        train = self.kill_again_and_again(draw, replay.train, LEARNED, len(values), "train")
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
