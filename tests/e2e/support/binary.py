"""The binary under test, run to its end (run) or as a process that serves (Node)."""
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request

from support.waiting import PATIENCE, wait_for

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = os.path.abspath(os.environ.get("SIRENFEED", ROOT / "build/release/sirenfeed"))
if not os.access(BINARY, os.X_OK):
    sys.exit(f"{BINARY}: no such program; set SIRENFEED to the binary under test")

URL = re.compile(r"http://127\.0\.0\.1:\d+")


def environment(extra=None):
    """The caller's environment without settings of Sirenfeed: a test says itself what it wants."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("SIRENFEED")}
    clean.update(extra or {})
    return clean


def run(*arguments, code=0, timeout=120, stdin=None, env=None, cwd=None):
    """Runs a command to its end and checks its exit code; code=None takes any."""
    words = [BINARY, *map(str, arguments)]
    done = subprocess.run(words, input=stdin, capture_output=True, text=True, timeout=timeout * PATIENCE,
                          env=environment(env), cwd=cwd, check=False)
    if code is not None and done.returncode != code:
        raise AssertionError(f"{' '.join(words)}\nended with {done.returncode}, expected {code}\n"
                             f"{done.stdout[-2000:]}\n{done.stderr[-4000:]}")
    return done


class Answer:
    """Status and body of an HTTP call."""

    def __init__(self, status, body):
        self.status = status
        self.text = body.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.text)

    def __repr__(self):
        return f"{self.status} {self.text[:2000]}"


class Node:
    """One running `up`, `serve` or `train`; ended by its own pid. Its output is in `log`."""

    def __init__(self, folder, name, *arguments, env=None):
        self.name = name
        self.log = pathlib.Path(folder) / f"{name}.log"
        words = [BINARY, *map(str, arguments), "--http", "127.0.0.1:0"]
        self._began_at = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as output:
            self.process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT,
                                            stdin=subprocess.DEVNULL, env=environment(env))
        self._url = None

    @property
    def pid(self):
        return self.process.pid

    def output(self):
        """What this process has printed; not what an earlier one of the same name did."""
        with open(self.log, "rb") as file:
            file.seek(self._began_at)
            return file.read().decode("utf-8", "replace")

    def running(self):
        return self.process.poll() is None

    def url(self, seconds=60):
        def look():
            if not self.running():
                raise AssertionError(f"{self.name} ended with {self.process.returncode}\n{self.output()[-4000:]}")
            return URL.search(self.output())
        if self._url is None:
            self._url = wait_for(look, f"{self.name} prints its address", seconds, explain=self.output).group()
        return self._url

    def call(self, method, target, body=None, timeout=30, content_type="application/json"):
        data = body if body is None or isinstance(body, bytes) else \
            body.encode() if isinstance(body, str) else json.dumps(body).encode()
        request = urllib.request.Request(self.url() + target, data=data, method=method,
                                         headers={"Content-Type": content_type})
        try:
            with urllib.request.urlopen(request, timeout=timeout * PATIENCE) as response:
                return Answer(response.status, response.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read())

    def get(self, target, **more):
        return self.call("GET", target, **more)

    def post(self, target, body, **more):
        return self.call("POST", target, body, **more)

    def readiness(self):
        """The body of /readyz, whatever its status."""
        return self.get("/readyz").json()

    def metrics(self):
        """{(name, label values…): value} of /metrics, histograms' buckets left out."""
        values = {}
        for line in self.get("/metrics").text.splitlines():
            if line.startswith("#") or "_bucket{" in line or not line.strip():
                continue
            name, value = line.rsplit(" ", 1)
            labels = re.findall(r'="([^"]*)"', name)
            values[(name.split("{")[0], *labels)] = float(value)
        return values

    def metric(self, name):
        """The sum of a metric over its labels; 0 when it is not there."""
        return sum(value for key, value in self.metrics().items() if key[0] == name)

    def wait_ready(self, seconds=60):
        self.url()
        return wait_for(lambda: self.get("/readyz").status == 200, f"{self.name} is ready", seconds,
                        explain=lambda: f"{self.readiness()}\n{self.output()[-3000:]}")

    def caught_up(self):
        """The input was read to its end once; a model need not be there."""
        return not any("catching_up" in reason for reason in self.readiness()["reasons"])

    def wait_caught_up(self, seconds=120):
        self.url()
        return wait_for(self.caught_up, f"{self.name} has caught up", seconds,
                        explain=lambda: f"{self.readiness()}\n{self.output()[-3000:]}")

    def wait_output(self, text, seconds=60):
        return wait_for(lambda: text in self.output(), f"{self.name} prints {text!r}", seconds, explain=self.output)

    def wait_end(self, seconds=60):
        """The exit code of a process that ends by itself."""
        try:
            return self.process.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{self.name} did not end within {seconds * PATIENCE:g} s\n"
                                 f"{self.output()[-4000:]}") from None

    def stop(self, seconds=20):
        """SIGTERM; the exit code."""
        if self.running():
            self.process.send_signal(signal.SIGTERM)
        return self.wait_end(seconds)

    def kill(self):
        """SIGKILL, as a crash; does nothing to one that has ended."""
        if self.running():
            self.process.kill()
        self.process.wait()
