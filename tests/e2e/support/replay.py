"""The replay through Kafka: an input published to topics of its own, `serve` and `train` as two processes that
consume it, and what they leave behind."""
import pathlib

from support import examples
from support.binary import run
from support.waiting import wait_for

# Closing by event time alone, batches cut by sequence number alone: what makes a run repeatable.
REPLAY_SETTINGS = ["--clock", "event", "--ingest.idle_flush_after_ms", "-1", "--trainer.batch_linger_ms", "-1",
                   "--partitions", "1"]
UNLIMITED_MS = 600_000
APPLY_SECONDS = 180




class Replay:
    """Everything of one run has `name` in it: topics, consumer group, folders."""

    def __init__(self, case, broker, name, settings, lateness_ms=0, merge_wait_ms=UNLIMITED_MS):
        self.case = case
        self.broker = broker
        self.name = name
        self.folder = pathlib.Path(case.folder) / name
        self.settings = [*REPLAY_SETTINGS, "--brokers", broker.address, "--kafka.topic_prefix", f"{name}.",
                         "--kafka.group", name, "--models", self.folder / "models",
                         "--features.lateness_max_ms", lateness_ms, "--ingest.merge_wait_max_ms", merge_wait_ms,
                         *settings]

    def run(self, *words, **more):
        return run(*words, *self.settings, "--data", self.folder / "serve", **more)

    def create_topics(self):
        self.run("topics", "create")

    def publish(self, file, file_format):
        self.run("publish", file, "--format", file_format, timeout=APPLY_SECONDS)

    def serve(self, *more):
        return self.case.start(f"{self.name}-serve", "serve", *self.settings, *more, "--data", self.folder / "serve")

    def train(self, *more):
        return self.case.start(f"{self.name}-train", "train", *self.settings, *more, "--data", self.folder / "train")

    def close_windows(self, node):
        """The end of the replayed input; afterwards every example is in the log."""
        node.wait_caught_up(APPLY_SECONDS)

        def closed():
            answer = node.post("/v1/admin/close-windows", b"", timeout=60)
            if answer.status not in (200, 503):
                raise AssertionError(f"close-windows answered {answer}")
            return answer.status == 200  # 503: a long input is still being applied

        wait_for(closed, "every window is closed", APPLY_SECONDS, explain=node.output)
        wait_for(lambda: node.metric("sirenfeed_features_outbox_entries") == 0, "the outbox is empty", APPLY_SECONDS,
                 explain=node.output)

    def train_until_end(self, *more):
        """Learns the rest, the incomplete last batch included."""
        node = self.train("--until-end", *more)
        code = node.wait_end(APPLY_SECONDS)
        if code != 0:
            raise AssertionError(f"train --until-end ended with {code}\n{node.output()[-4000:]}")
        return node

    def examples(self):
        """The values of topic examples, in order."""
        path = self.folder / "examples.raw"
        self.run("inspect", "log", "examples", "--limit", 10_000_000, "--raw", path, timeout=APPLY_SECONDS)
        return examples.read_file(path)

    def model_bytes(self):
        """Of the newest published version, as one full file."""
        out = self.folder / "exported"
        self.run("model", "export", out)
        return (out / "model.safetensors").read_bytes()

    def canonical_state(self):
        """Only while no process owns the folder."""
        return self.run("inspect", "state", "--canonical", timeout=APPLY_SECONDS).stdout


def evaluate(folder, file, file_format, *settings):
    """The same input in one pass without a broker: (values of its examples, bytes of its model)."""
    folder = pathlib.Path(folder) / "evaluate"
    folder.mkdir(parents=True)
    run("evaluate", file, "--format", file_format, "--save-examples", folder / "examples.raw", "--save-model",
        folder / "model", *settings, timeout=APPLY_SECONDS)
    return examples.read_file(folder / "examples.raw"), (folder / "model/model.safetensors").read_bytes()
