"""A real Kafka broker for a test (tests/support/kafka_broker.sh), and records as any client may send them."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

from support.binary import ROOT
from support.ports import free_port_pair
from support.waiting import PATIENCE

SCRIPT = ROOT / "tests/support/kafka_broker.sh"
INSTALL_SECONDS, START_SECONDS, TOOL_SECONDS = 600, 120, 60


def skip(reason):
    print(f"skipped: {reason}", flush=True)
    raise unittest.SkipTest(reason)


def _script(*arguments, timeout, check=True):
    done = subprocess.run(["bash", SCRIPT, *map(str, arguments)], capture_output=True, text=True, check=False,
                          timeout=timeout * PATIENCE)
    if check and done.returncode != 0:
        raise AssertionError(f"kafka_broker.sh {' '.join(map(str, arguments))}: {done.stderr[-3000:]}")
    return done


class KafkaBroker:
    """A broker of its own; close() ends it and removes its data. Skips the test where there is no Java or Maven."""

    def __init__(self):
        for command, package in (("java", "openjdk-17-jre-headless"), ("mvn", "maven")):
            if shutil.which(command) is None:
                skip(f"a real Kafka broker needs {command} (Debian: {package})")
        installed = _script("install", timeout=INSTALL_SECONDS, check=False)
        if installed.returncode != 0:
            last = (installed.stderr.strip().splitlines() or ["no reason given"])[-1]
            skip(f"a real Kafka broker cannot be had here: {last}")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sirenfeed-kafka-"))
        self.port = free_port_pair()
        self.address = f"127.0.0.1:{self.port}"
        self.start()

    def start(self):
        _script("start", self.folder, self.port, timeout=START_SECONDS)

    def kill(self):
        _script("kill", self.folder, timeout=TOOL_SECONDS)

    def stop(self):
        _script("stop", self.folder, timeout=TOOL_SECONDS)

    def close(self):
        """Its data is of no use to anybody, so it need not end cleanly."""
        self.kill()
        shutil.rmtree(self.folder, ignore_errors=True)

    def tool(self, name, *arguments):
        """One of Kafka's own tools against this broker; what it printed."""
        return _script("tool", name, "--bootstrap-server", self.address, *arguments, timeout=TOOL_SECONDS).stdout

    def create_topic(self, topic, partitions):
        self.tool("org.apache.kafka.tools.TopicCommand", "--create", "--topic", topic, "--partitions", partitions,
                  "--replication-factor", 1)

    def has_topic(self, topic):
        return topic in self.tool("org.apache.kafka.tools.TopicCommand", "--list").split()

    def produce(self, topic, value, key=None, partition=0):
        """One record exactly as given: bytes or text; value None is a null."""
        if shutil.which("kcat") is None:
            skip("kcat is not installed")
        command = ["kcat", "-P", "-b", self.address, "-t", topic, "-p", str(partition)]
        command += ["-k", key] if key is not None else []
        data = value.encode() if isinstance(value, str) else value
        with tempfile.NamedTemporaryFile(dir=self.folder) as file:
            file.write(data or b"")
            file.flush()
            command += ["-Z"] if value is None else []
            # A file is one message, whatever bytes it holds.
            subprocess.run([*command, file.name], check=True, timeout=TOOL_SECONDS * PATIENCE,
                           capture_output=True, env=os.environ)
