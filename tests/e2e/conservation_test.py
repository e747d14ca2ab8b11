#!/usr/bin/env python3
"""Nothing is lost between the stages: the equations of /metrics on a running node, over a kill and a restart."""
import random
import time

from support import examples
from support.binary import run
from support.case import EndToEndTest, main
from support.waiting import wait_for

QUICK = ["--features.join_window_ms", 1500, "--features.lateness_max_ms", 0, "--ingest.idle_flush_after_ms", 300,
         "--trainer.publish_interval_ms", 200, "--trainer.batch_linger_ms", 200, "--log.fsync_interval_ms", 2,
         "--partitions", 2]


def now_ms():
    return int(time.time() * 1000)


class Metrics:
    """One scrape."""

    def __init__(self, node):
        self.values = node.metrics()

    def of(self, name, *labels):
        return self.values[(f"sirenfeed_{name}", *labels)]

    def total(self, name):
        return sum(value for key, value in self.values.items() if key[0] == f"sirenfeed_{name}")


class ConservationTest(EndToEndTest):
    def up(self, *more):
        return self.start("up", "up", "--data", self.folder / "data", *QUICK, *more)

    def scrape(self, node, impressions):
        """Once everything that was posted is applied, and what was to leave has left."""
        node.wait_caught_up()

        def quiet():
            metrics = Metrics(node)
            taken = metrics.of("features_records_total", "in") + metrics.of("features_records_replayed_total")
            read = metrics.total("ingest_records_total")
            # What ingest has handed on is what the state has taken, but for what it holds.
            settled = read == taken + metrics.of("features_held_records")
            accepted = metrics.of("features_state_impressions", "accepted")
            sent = metrics.of("features_outbox_entries") == 0
            return metrics if settled and sent and accepted == impressions else None
        return wait_for(quiet, f"{impressions} impressions are accepted and the outbox is empty", 30,
                        explain=lambda: f"{node.metrics()}\n{node.output()[-2000:]}")

    def check_since_the_beginning(self, metrics):
        records = {outcome: metrics.of("features_state_records", outcome)
                   for outcome in ("in", "applied", "rejected", "duplicate")}
        self.assertEqual(records["in"], records["applied"] + records["rejected"] + records["duplicate"], records)
        impressions = {stage: metrics.of("features_state_impressions", stage)
                       for stage in ("accepted", "left", "pending", "erased")}
        self.assertEqual(impressions["accepted"], impressions["left"] + impressions["pending"] + impressions["erased"],
                         impressions)
        return records, impressions

    def check_this_process(self, metrics):
        outcome = {name: metrics.of("features_records_total", name)
                   for name in ("in", "applied", "duplicate")}
        rejected = metrics.total("features_records_rejected_total")
        self.assertEqual(outcome["in"], outcome["applied"] + outcome["duplicate"] + rejected, outcome)
        sources = metrics.total("features_example_inputs_total")
        self.assertEqual(sources, metrics.of("features_examples_total") + metrics.of("features_examples_muted_total"))

    def post(self, node, draw, count, first):
        events = []
        for n in range(first, first + count):
            user = f"u{draw.randrange(6)}"
            shown = [f"item-{i}" for i in draw.sample(range(20), 3)]
            events.append({"topic": "impressions", "impression_id": f"i{n}", "user_id": user, "timestamp": now_ms(),
                           "items": shown, "surface": "home"})
            if draw.random() < 0.6:
                events.append({"topic": "clicks", "user_id": user, "item_id": draw.choice(shown),
                               "timestamp": now_ms(), "impression_id": f"i{n}", "event_id": f"e{n}"})
            if draw.random() < 0.3:
                events.append(dict(draw.choice(events)))  # once more
        answer = node.post("/v1/events", events)
        self.assertEqual(answer.status, 200, answer)

    def examples(self):
        """Impressions whose revision 0 lies in topic examples."""
        file = self.folder / "examples"
        run("inspect", "log", "examples", "--data", self.folder / "data", "--partitions", 2, "--limit", 10**9,
            "--raw", file)
        messages = (dict(examples.fields(value)) for value in examples.read_file(file))
        # impression_partition, impression_offset and revision: of an erased user there is no more.
        return {(one.get(2, 0), one.get(3, 0)) for one in messages if one.get(4, 0) == 0}

    def test_the_equations_hold_over_a_kill_and_a_restart(self):
        seed = random.randrange(1 << 32)
        print(f"seed {seed}", flush=True)
        draw = random.Random(seed)
        node = self.up()
        node.post("/v1/events", [{"topic": "items", "item_id": f"item-{n}", "timestamp": now_ms()} for n in range(20)])
        self.post(node, draw, 40, 0)
        first = self.scrape(node, 40)
        before, _ = self.check_since_the_beginning(first)
        self.check_this_process(first)
        self.assertGreater(before["duplicate"], 0)
        self.post(node, draw, 40, 40)
        node.kill()  # with open windows, and perhaps before all is applied
        node = self.up()
        records, _ = self.check_since_the_beginning(self.scrape(node, 80))
        self.assertGreater(records["in"], before["in"], "the counts began anew")
        self.post(node, draw, 40, 80)
        self.scrape(node, 120)
        self.assertIn(node.call("DELETE", "/v1/users/u1").status, (200, 202))
        metrics = self.scrape(node, 120)
        self.check_this_process(metrics)
        _, impressions = self.check_since_the_beginning(metrics)
        self.assertGreater(impressions["erased"], 0, "u1 had open windows")
        done = wait_for(lambda: (lambda m: m if m.of("features_state_impressions", "pending") == 0 else None)(
            self.scrape(node, 120)), "idle windows close", 30, explain=node.output)
        _, impressions = self.check_since_the_beginning(self.scrape(node, 120))
        self.check_this_process(done)
        self.assertEqual(node.stop(20), 0, node.output())
        self.assertEqual(len(self.examples()), impressions["left"])

    def test_requests_of_feeds_become_the_inputs_of_examples(self):
        node = self.up("--simulate")
        wait_for(lambda: Metrics(node).of("features_example_inputs_total", "served") > 5,
                 "an example has what the model saw", 60, explain=node.output)
        metrics = Metrics(node)
        self.assertGreater(metrics.of("features_served_difference_count"), 0)
        self.assertEqual(metrics.of("features_requests_unfit_total"), 0)
        self.assertEqual(node.stop(20), 0, node.output())


if __name__ == "__main__":
    main()
