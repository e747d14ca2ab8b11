#!/usr/bin/env python3
"""Ours and the same model in PyTorch in one run: training exposures/s and the latency of scoring 500 candidates.

    bench/torch_peer/run.py [--build build/release] [--python INTERPRETER] [--rounds N] [--markdown]

Without --python it makes a virtual environment in BUILD/torch_peer and installs torch and numpy there with pip. Every
answer of PyTorch's is checked against ours first (logits and the first step's loss within 1e-4, the loss after
sixteen steps within 1e-3), on weights and inputs that throughput_bench --write made. Then every contender has its turn
in each round, and a figure is the median over the rounds. With one thread it is the processor time of a run: on an idle
machine the time it takes, on a busy one without the others' share. With two it is the fastest run of a turn. PyTorch's
best is the better one of eager and torch.compile. Exit code 1 when an answer differs; a missed bar is printed.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
BARS = {"train": 3.0, "score": 5.0}
CASES = [("train", "default", 128), ("train", "default", 7), ("train", "large", 128), ("train", "large", 7),
         ("score", "default", 128), ("score", "large", 128)]
SIZES = {"default": "d 32, H 2, N 1", "large": "d 64, H 4, N 2"}


class Process:
    """A server that answers a line with a line."""

    def __init__(self, arguments, environment=None):
        self.process = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env={**os.environ, **(environment or {})})

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if not answer:
            sys.exit(f"torch_peer: no answer to: {line}")
        return json.loads(answer)

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def interpreter(build):
    folder = build / "torch_peer" / "venv"
    python = folder / "bin" / "python"
    if not python.exists():
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "numpy"], check=True)
    return python


class Case:
    """One row of the table: ours against both modes of PyTorch."""

    def __init__(self, work, size, tokens, threads):
        self.work, self.size, self.tokens, self.threads = work, size, tokens, threads
        self.took = {"ours": [], "eager": [], "compile": []}
        self.difference, self.exposures = 0.0, 0

    def turn(self, ours, peer, modes, seconds):
        head = f"{self.work} {self.size} siren {self.tokens}"
        answer = ours.ask(f"{head} {self.threads} {seconds}")
        self.exposures = answer["exposures"]
        figure = "cpu_ms" if self.threads == 1 else "best_ms"
        self.took["ours"].append(answer[figure])
        for mode in modes:
            answer = peer.ask(f"{head} {mode} {seconds}")
            self.took[mode].append(answer[figure])
            self.difference = max(self.difference, answer["difference"])

    def median(self, name):
        return statistics.median(self.took[name]) if self.took[name] else None

    def row(self):
        best = min(m for m in (self.median("eager"), self.median("compile")) if m is not None)
        ratio, bar = best / self.median("ours"), BARS[self.work]
        return [self.work, SIZES[self.size], self.tokens, self.threads, self.figure("ours"), self.figure("eager"),
                self.figure("compile"), f"{ratio:.2f}", f"{bar:.0f}", "yes" if ratio >= bar else "no",
                f"{self.difference:.0e}"]

    def figure(self, name):
        median = self.median(name)
        if median is None:
            return "-"
        return f"{self.exposures / median * 1e3:,.0f}/s" if self.work == "train" else f"{median:.2f} ms"


def print_table(rows, markdown):
    header = ["work", "size", "history", "threads", "ours", "eager", "compile", "ratio to best", "bar", "met",
              "largest difference"]
    if markdown:
        for line in (header, ["---"] * len(header), *rows):
            print("| " + " | ".join(str(cell) for cell in line) + " |")
        return
    widths = [max(len(str(line[i])) for line in (header, *rows)) for i in range(len(header))]
    for line in (header, *rows):
        print("  ".join(str(cell).rjust(width) for cell, width in zip(line, widths)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build" / "release")
    parser.add_argument("--python", help="an interpreter that has torch and numpy")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0, help="of one turn")
    parser.add_argument("--modes", default="eager,compile")
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    python = options.python or interpreter(options.build)
    bench = options.build / "bench" / "throughput_bench"
    cases = options.build / "torch_peer" / "cases"
    cases.mkdir(parents=True, exist_ok=True)
    subprocess.run([bench, "--write", cases], check=True)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    torch = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True, text=True)
    print(f"commit {commit.stdout.strip()}, PyTorch {torch.stdout.strip()}, load {os.getloadavg()[0]:.1f}", flush=True)
    rows = []
    for threads in map(int, options.threads.split(",")):
        ours = Process([bench, "--serve"])
        peer = Process([python, HERE / "peer.py", cases], {"OMP_NUM_THREADS": str(threads)})
        table = [Case(*case, threads) for case in CASES]
        for number in range(options.rounds + 1):  # the first round compiles and warms up
            for case in table:
                case.turn(ours, peer, options.modes.split(","), options.seconds if number > 0 else 0.01)
                if number == 0:
                    case.took = {name: [] for name in case.took}
        rows += [case.row() for case in table]
        print(f"{threads} threads done, load {os.getloadavg()[0]:.1f}", file=sys.stderr)
        ours.close()
        peer.close()
    print_table(rows, options.markdown)
    print(f"load {os.getloadavg()[0]:.1f} at the end")


if __name__ == "__main__":
    main()
