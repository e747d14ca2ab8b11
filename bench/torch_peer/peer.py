"""Answers "train|score SIZE VARIANT TOKENS MODE SECONDS" lines with one line of JSON each, as throughput_bench --serve.

    OMP_NUM_THREADS=2 peer.py FOLDER
FOLDER is what throughput_bench --write made. MODE: eager or compile. Before anything is timed the answer is checked
against the expected one; what differs ends the process.
"""
import json
import os
import pathlib
import statistics
import sys
import time

import torch

import model as peer

TOLERANCE = 1e-4
# After sixteen steps: Adam's first steps go by the sign of a gradient, so rounding moves weights whose gradient is
# about nought. Without the moving statistics, or with a fifth more row rate, the loss is off by 6e-3 and more.
LAST_TOLERANCE = 1e-3


def require(held, what):
    if not held:
        sys.exit(f"torch_peer: {what}")


class Training:
    def __init__(self, folder, tokens, mode):
        ranker = peer.Ranker(folder / "model.safetensors")
        expected = json.loads((folder / "expected.json").read_text())[str(tokens)]
        examples = json.loads((folder / f"train_{tokens}.json").read_text())
        size = expected["batch"]
        self.batches = [peer.make_batch(ranker, examples[i:i + size]) for i in range(0, len(examples), size)]
        self.ranker = ranker
        self.exposures = self.batches[0]["label"].shape[0] * self.batches[0]["label"].shape[1]
        self.loss = peer.TrainingLoss(ranker)
        if mode == "compile":
            self.loss = torch.compile(self.loss, dynamic=False)
            # Distinct tag sets differ in number from batch to batch; one shape means one compilation.
            pad_batches(self.batches)
        self.optimizer = peer.Optimizer(ranker)
        self.next = 0
        self.difference = 0.0
        self.check("first", expected["loss"], expected["gradient_norm"], TOLERANCE)
        for means in expected["statistics"]:
            self.ranker.set_statistics(*means)
            if self.next < expected["steps"] - 1:
                self.run()
        self.check("last", expected["last_loss"], expected["last_gradient_norm"], LAST_TOLERANCE)

    def check(self, which, expected_loss, expected_norm, tolerance):
        """Takes a step: its loss and gradient must be ours, which came after the same steps."""
        loss = self.run()
        norm = float(self.optimizer.norm)
        difference = abs(loss - expected_loss)
        self.difference = max(self.difference, difference)
        require(difference <= tolerance, f"loss of the {which} step {loss}, ours {expected_loss}")
        require(abs(norm / expected_norm - 1) <= 10 * tolerance,
                f"gradient norm of the {which} step {norm}, ours {expected_norm}")

    def run(self):
        batch = self.batches[self.next % len(self.batches)]
        self.next += 1
        loss = self.loss(batch)
        loss.backward()
        self.optimizer.step()
        return float(loss.detach())


def pad_batches(batches):
    """Rows of zeros behind the distinct tag sets and meanings, so that every batch has one shape."""
    for name in ("set_tags", "meaning_tags", "meaning_segment"):
        if name not in batches[0]:
            continue
        longest = max(batch[name].shape[0] for batch in batches)
        for batch in batches:
            old = batch[name]
            batch[name] = old.new_zeros((longest, *old.shape[1:]))
            batch[name][:old.shape[0]] = old


class Scoring:
    def __init__(self, folder, tokens, mode):
        self.ranker = peer.Ranker(folder / "model.safetensors").eval()
        expected = json.loads((folder / "expected.json").read_text())[str(tokens)]
        examples = json.loads((folder / f"score_{tokens}.json").read_text())
        self.batch = peer.make_batch(self.ranker, examples)
        self.exposures = self.batch["label"].shape[1]
        if mode == "compile":
            self.ranker = torch.compile(self.ranker, dynamic=False)
        logits = self.run().flatten()
        self.difference = float((logits - torch.tensor(expected["logits"])).abs().max())
        require(self.difference <= TOLERANCE, f"a logit differs by {self.difference}")

    def run(self):
        with torch.inference_mode():
            return self.ranker(self.batch)


def serve(root):
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    torch.set_num_interop_threads(1)
    import torch._inductor.config as inductor
    inductor.freezing = True  # weights packed once, where no gradient is taken
    contenders = {}
    for line in sys.stdin:
        work, size, variant, tokens, mode, seconds = line.split()
        key = (work, size, variant, tokens, mode)
        if key not in contenders:
            kind = {"train": Training, "score": Scoring}[work]
            contenders[key] = kind(root / f"{size}-{variant}", int(tokens), mode)
            for _ in range(10):
                contenders[key].run()
        contender, took = contenders[key], []
        cpu_begin, end = time.process_time(), time.perf_counter() + float(seconds)
        while len(took) < 3 or time.perf_counter() < end:
            begin = time.perf_counter()
            contender.run()
            took.append((time.perf_counter() - begin) * 1e3)
        cpu_ms = (time.process_time() - cpu_begin) * 1e3 / len(took)
        print(json.dumps({"median_ms": statistics.median(took),
                          "best_ms": min(took), "cpu_ms": cpu_ms, "runs": len(took),
                          "exposures": contender.exposures, "difference": contender.difference}), flush=True)


if __name__ == "__main__":
    serve(pathlib.Path(sys.argv[1]))
