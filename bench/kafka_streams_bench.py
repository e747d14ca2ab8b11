#!/usr/bin/env python3
"""Applied events a second through a real broker: `serve` against the same fold in Kafka Streams
(bench/peers/kafka_streams), one after the other on one core, the broker on another. First both must have counted the
same. Rates are of processor time, all threads of the process, which others on the machine do not change, and of the
clock. SIRENFEED names the binary, FOLD_EVENTS the number of impressions (default 300,000), FOLD_SECONDS how long
each side may take at most (default 600)."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests/e2e"))
from support import examples  # noqa: E402  pylint: disable=wrong-import-position
from support.binary import Node, run  # noqa: E402  pylint: disable=wrong-import-position
from support.kafka import KafkaBroker  # noqa: E402  pylint: disable=wrong-import-position
from support.waiting import wait_for  # noqa: E402  pylint: disable=wrong-import-position

IMPRESSIONS = int(os.environ.get("FOLD_EVENTS", "300000"))
SECONDS_MAX = int(os.environ.get("FOLD_SECONDS", "600"))
USERS, ITEMS, AUTHORS, SEED = 50_000, 10_000, 1_000, 1
START_MS, STEP_MS = 1_700_000_000_000, 40
APP_CORE, BROKER_CORE = "0", "1"
PREFIX = "bench."


def generate(path):
    """Impressions of one item, two fifths of them clicked, in time order; returns the number of events."""
    chance = random.Random(SEED)
    lines = [(START_MS, 0, {"topic": "items", "item_id": f"item-{i}", "timestamp": START_MS,
                            "author_id": f"author-{i % AUTHORS}"}) for i in range(ITEMS)]
    for n in range(IMPRESSIONS):
        at = START_MS + 1 + n * STEP_MS
        user, item = f"user-{int(chance.random() ** 2 * USERS)}", f"item-{int(chance.random() ** 2 * ITEMS)}"
        lines.append((at, 3, {"topic": "impressions", "impression_id": f"i{n}", "user_id": user, "timestamp": at,
                              "items": [item], "surface": "home"}))
        for kind, share in (("click", 0.4), ("long_view", 0.2)):
            if chance.random() < share:
                then = at + chance.randrange(500, 500_000)
                lines.append((then, 4, {"topic": "clicks", "user_id": user, "item_id": item, "timestamp": then,
                                        "type": kind, "impression_id": f"i{n}", "event_id": f"i{n}:{kind}"}))
    lines.sort(key=lambda line: line[:2])
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(event) + "\n" for _, _, event in lines)
    return len(lines)


def pin(pid, core):
    subprocess.run(["taskset", "-a", "-c", "-p", core, str(pid)], check=True, capture_output=True)


def build_peer():
    peer = ROOT / "build/kafka_streams_peer"
    subprocess.run([ROOT / "bench/peers/kafka_streams/build.sh", peer], check=True)
    return peer


def cpu_seconds(pid):
    """User and system time of all its threads so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run_peer(folder, broker, events, peer):
    done = subprocess.run(["taskset", "-c", APP_CORE, "java", "-Xms1g", "-Xmx2g", "-XX:+UseSerialGC", "-cp",
                           f"{peer}/classes:{peer}/libs/*", "Fold", broker.address, PREFIX, str(events),
                           folder / "streams", str(SECONDS_MAX)],
                          check=False, capture_output=True, text=True, timeout=2 * SECONDS_MAX + 60)
    if done.returncode != 0:
        sys.exit(f"kafka_streams_bench: the peer failed\n{done.stderr[-3000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def run_ours(folder, broker, settings, events):
    node = Node(folder, "serve", "serve", *settings, "--data", folder / "serve")
    try:
        pin(node.pid, APP_CORE)
        node.url()

        def records(outcome):
            return node.metrics().get(("sirenfeed_features_records_total", outcome), 0)

        wait_for(lambda: records("applied") > 0, "it has begun")
        begin, begin_cpu, before = time.monotonic(), cpu_seconds(node.pid), records("applied")
        while (applied := records("applied")) < events:
            refused = node.metric("sirenfeed_features_records_rejected_total") + records("duplicate")
            if refused or not node.running() or time.monotonic() - begin > SECONDS_MAX:
                sys.exit(f"kafka_streams_bench: {applied:.0f} of {events} events applied, {refused:.0f} not, after "
                         f"{time.monotonic() - begin:.0f} s\n{node.output()[-2000:]}")
            time.sleep(0.2)
        took, took_cpu = time.monotonic() - begin, cpu_seconds(node.pid) - begin_cpu
        wait_for(lambda: node.metric("sirenfeed_features_outbox_entries") == 0, "the outbox is empty", SECONDS_MAX)
        sent, sent_cpu = time.monotonic() - begin, cpu_seconds(node.pid) - begin_cpu
        wait_for(lambda: node.post("/v1/admin/close-windows", b"", timeout=60).status == 200, "closed", 300)
        wait_for(lambda: node.metric("sirenfeed_features_outbox_entries") == 0, "the outbox is empty", 300)
        # What was applied before the first look counts for nobody: as if it had taken the average time.
        whole = events / (events - before)
        return {"seconds": took * whole, "seconds_committed": sent * whole, "cpu_seconds": took_cpu * whole,
                "cpu_seconds_committed": sent_cpu * whole,
                "exposures": int(node.metric("sirenfeed_features_exposures_total")),
                "joined": int(node.metrics()[("sirenfeed_features_actions_total", "attributed")])}
    finally:
        node.kill()


def count_examples(folder, settings):
    raw = folder / "examples.raw"
    run("inspect", "log", "examples", "--limit", 10**9, "--raw", raw, *settings, "--data", folder / "inspect",
        timeout=600)
    values = [examples.decode(value) for value in examples.read_file(raw)]
    return {"examples": len(values), "click_labels": sum(bits & 1 for one in values for _, bits, _, _ in one.labels)}


def main():
    with tempfile.TemporaryDirectory(prefix="sirenfeed-bench-") as name:
        folder = pathlib.Path(name)
        events = generate(folder / "events.ndjson")
        peer_folder = build_peer()
        broker = KafkaBroker()
        try:
            pin((broker.folder / "broker.pid").read_text().strip(), BROKER_CORE)
            settings = ["--brokers", broker.address, "--kafka.topic_prefix", PREFIX, "--partitions", "1", "--clock",
                        "event", "--ingest.idle_flush_after_ms", "-1", "--ingest.merge_wait_max_ms", "600000",
                        "--features.lateness_max_ms", "0"]
            run("topics", "create", *settings)
            broker.create_topic(f"{PREFIX}streams-examples", 1)
            run("publish", folder / "events.ndjson", *settings, "--data", folder / "publish", timeout=600)
            ours = run_ours(folder, broker, settings, events)
            ours.update(count_examples(folder, settings))
            peer = run_peer(folder, broker, events, peer_folder)
            for what in ("exposures", "joined", "examples", "click_labels"):
                if ours[what] != peer[what]:
                    sys.exit(f"the two disagree on {what}: {ours[what]} and {peer[what]}\n{ours}\n{peer}")
            print(f"{events} events, {ours['examples']} examples, {ours['joined']} actions joined, "
                  f"{ours['click_labels']} click labels: both the same")
            columns = [("applied", "cpu_seconds"), ("sent and committed", "cpu_seconds_committed"),
                       ("applied, by the clock", "seconds"), ("committed, by the clock", "seconds_committed")]
            print(f"{'events/s':16}" + "".join(f"{title:>26}" for title, _ in columns))
            for who, result in (("sirenfeed serve", ours), ("Kafka Streams", peer)):
                print(f"{who:16}" + "".join(f"{events / result[name]:26,.0f}" for _, name in columns))
            print(f"{'ratio':16}" + "".join(f"{peer[name] / ours[name]:26.2f}" for _, name in columns))
            print(f"load {os.getloadavg()[0]:.1f}")
        finally:
            broker.close()


if __name__ == "__main__":
    main()
