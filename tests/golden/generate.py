#!/usr/bin/env python3
"""Makes and checks whole-model fixtures with PyTorch (oracle.py).

  tests/golden/generate.py check                    every fixture here against PyTorch
  tests/golden/generate.py make                     the fixtures of random weights that this script owns
  tests/golden/generate.py trained SIRENFEED        the fixtures of models that SIRENFEED trains, remade
  tests/golden/generate.py score SIRENFEED [LOG]    every variant: SIRENFEED trains it on LOG (default: the slice of
                                                    tests/data), PyTorch and `SIRENFEED score` score it

Without torch, numpy and xxhash it makes a virtual environment with them (about 1 GB, once) in build/golden-venv.
"""
import gzip
import json
import math
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
TOLERANCE = 1e-4
# name -> configuration beside BASE; the examples are examples_surfaces.jsonl for all
MADE = {
    "siren_hierarchical_small": {"variant": "siren_hierarchical", "d_model": 16, "zone_offset_ms": 19_800_000},
    "siren_hierarchical_planes": {"variant": "siren_hierarchical", "layers": 0, "d_model": 20, "heads": 1},
    "siren_discovery_small": {"variant": "siren_discovery"},
    "siren_per_layer_small": {"variant": "siren", "layers": 2, "per_layer_angles": True},
    "siren_actions_small": {"variant": "siren", "history_kind": "actions", "history_max": 3},
    "siren_options_small": {"variant": "siren", "attention_scale": 0.025, "omega0": 10.0, "angle_hidden_layers": 1,
                            "base": 10_000.0, "residual_learned": True, "lambda_learned": False},
}
BASE = {"format": 1, "d_model": 8, "heads": 2, "layers": 1, "history_max": 5, "angle_width": 4,
        "angle_hidden_layers": 2, "semantic_width": 16, "omega0": 2.5, "base": 1234.0, "attention_scale": 0.45,
        "time_reference_ms": 1_650_000_000_000, "time_span_ms": 2_592_000_000, "zone_offset_ms": 0,
        "context_examples": 1000, "seed": 20260617, "actions": ["click", "long_view", "like"],
        "tasks": ["click", "long_view", "like"], "context_names": ["c0", "c1", "c2", "c3"], "context_surfaces": [],
        "residual_learned": False}
# name -> options of `evaluate`; small and fast-learning, so that f is far from its start
TRAINED = {
    "trained_siren": ["--variant", "siren"],
    "trained_siren_hierarchical": ["--variant", "siren_hierarchical", "--model.heads", "1"],
    "trained_siren_discovery": ["--variant", "siren_discovery", "--trainer.gate_weight", "0.01"],
    "trained_siren_time_bias": ["--variant", "siren_time_bias", "--model.per_layer_angles", "true"],
}
SMALL = ["--model.d_model", "8", "--model.angle_width", "4", "--features.history_max", "12",
         "--trainer.batch_examples", "4", "--trainer.dense_rate", "0.02"]


def with_torch():
    """Starts this script again where torch can be imported."""
    try:
        import torch  # noqa: F401
        import xxhash  # noqa: F401
        return
    except ImportError:
        pass
    venv = os.path.join(ROOT, "build", "golden-venv")
    python = os.path.join(venv, "bin", "python")
    if os.environ.get("SIRENFEED_GOLDEN_VENV"):
        sys.exit(f"{venv}: torch, numpy or xxhash is missing after installing them")
    if not os.path.exists(python):
        subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", "torch", "numpy", "xxhash"], check=True)
    os.execve(python, [python, *sys.argv], dict(os.environ, SIRENFEED_GOLDEN_VENV="1"))


def lines(path):
    with open(path, encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def examples_of(folder):
    """The folder's own examples, or those that the made fixtures share."""
    own = os.path.join(folder, "examples.jsonl")
    return lines(own if os.path.exists(own) else os.path.join(HERE, "examples_surfaces.jsonl"))


def far(actual, expected):
    """The largest difference of two [C][K]; infinite where they differ in shape."""
    if [len(row) for row in actual] != [len(row) for row in expected]:
        return math.inf
    return max(abs(a - b) for r, s in zip(actual, expected) for a, b in zip(r, s))


def check():
    """PyTorch gives the logits of every fixture, whoever made it."""
    from oracle import Oracle
    worst = 0.0
    for name in sorted(os.listdir(HERE)):
        folder = os.path.join(HERE, name)
        if not name.startswith("model_"):
            continue
        oracle, examples = Oracle(os.path.join(folder, "model.safetensors")), examples_of(folder)
        expected = lines(os.path.join(folder, "expected.jsonl"))
        assert len(examples) == len(expected) >= 10, name
        difference = max(far(oracle.logits(e), x["logits"]) for e, x in zip(examples, expected))
        print(f"{name:40} {len(examples):3} examples, largest difference {difference:.1e}")
        worst = max(worst, difference)
    if not worst <= 5e-6:  # the float that t passes through
        sys.exit(f"PyTorch and the fixtures differ by {worst}")


def write_expected(folder, examples):
    from oracle import Oracle
    oracle = Oracle(os.path.join(folder, "model.safetensors"))
    with open(os.path.join(folder, "expected.jsonl"), "w", encoding="utf-8") as file:
        for place, example in enumerate(examples):
            logits = [[float(f"{z:.9g}") for z in row] for row in oracle.logits(example)]
            file.write(json.dumps({"case": example.get("case", str(place)), "logits": logits},
                                  separators=(",", ":")) + "\n")


def shared_examples():
    """model_siren_small's examples, its cases, with surfaces and the cases that only these variants have."""
    folder = os.path.join(HERE, "model_siren_small")
    draw = random.Random(4)
    surfaces = ["home", "search", "größe", None]
    examples = lines(os.path.join(folder, "examples.jsonl"))
    for example, expected in zip(examples, lines(os.path.join(folder, "expected.jsonl"))):
        example["case"] = expected["case"]
        for token in [example, *example["history"]]:
            surface = draw.choice(surfaces)
            if surface is not None:
                token["surface"] = surface
    return examples


def ids_of(examples):
    """Every id that the examples name, by table; the items called unseen-… have no row."""
    ids = {"item": set(), "tag": set(), "author": set(), "segment": set(), "surface": set()}
    for example in examples:
        ids["segment"].add(example.get("segment"))
        for token in [example, *example["history"]]:
            ids["surface"].add(token.get("surface"))
        for token in example["history"] + example["candidates"]:
            if not token["item"].startswith("unseen-"):
                ids["item"].add(token["item"])
            ids["tag"].update(token.get("tags") or [])
            ids["author"].add(token.get("author"))
    return {name: sorted(i for i in group if i is not None) for name, group in ids.items()}


def path_shapes(prefix, config, features, planes):
    widths = [features] + [config["angle_width"]] * config["angle_hidden_layers"] + [planes]
    shapes = {}
    for i, (fan_in, fan_out) in enumerate(zip(widths, widths[1:])):
        shapes[f"{prefix}.{i}.weight"], shapes[f"{prefix}.{i}.bias"] = [fan_out, fan_in], [fan_out]
    return shapes


def angle_shapes(config):
    from oracle import scale_groups
    planes = config["d_model"] // config["heads"] // 2
    shapes = {"rotary.lambda": [1]}
    if config["variant"] == "siren_discovery":
        shapes["rotary.gate"] = [7]
    prefixes = ["rotary"]
    if config.get("per_layer_angles"):
        prefixes = [f"layers.{i}.rotary" for i in range(config["layers"])] + ["pooling.rotary"]
    for prefix in prefixes:
        shapes.update({f"{prefix}.{name}": [planes] for name in ["omega", "unknown_time", "omega_semantic"]})
        shapes.update(path_shapes(prefix + ".semantic.sine", config, config["semantic_width"], planes))
        for path in ["sine", "relu"]:
            if config["variant"] == "siren_hierarchical":
                for scale, first, end in scale_groups(planes):
                    features = 3 if scale == "age" else 4
                    shapes.update(path_shapes(f"{prefix}.hierarchy.{scale}.{path}", config, features, end - first))
            else:
                shapes.update(path_shapes(f"{prefix}.temporal.{path}", config, 5, planes))
    return shapes


def attention_shapes(prefix, d):
    shapes = {f"{prefix}.{name}.weight": [d, d] for name in ["query", "key", "value", "output"]}
    return dict(shapes, **{prefix + ".empty": [d]})


def dense_shapes(config):
    d, tasks, features = config["d_model"], len(config["tasks"]), len(config["context_names"])
    bits = config["heads"] * (len(config["actions"]) + 1)
    shapes = {"embedding.action.weight": [len(config["actions"]) + 1, d], "pooling.empty": [d],
              "action.mean": [len(config["actions"]) + 1], "context.mean": [features], "context.std": [features],
              "calibration.scale": [tasks], "calibration.bias": [tasks],
              "head.0.weight": [64, 2 * d + features + bits], "head.0.bias": [64], "head.1.weight": [64, 64],
              "head.1.bias": [64], "head.2.weight": [tasks, 64], "head.2.bias": [tasks],
              "head.wide.action_weight": [tasks, bits], "head.wide.context_weight": [tasks, features]}
    norms = ["token_norm", "head.norm_token", "head.norm_pooled"]
    shapes.update(attention_shapes("pooling", d))
    for i in range(config["layers"]):
        norms += [f"layers.{i}.norm1", f"layers.{i}.norm2"]
        shapes.update(attention_shapes(f"layers.{i}.attention", d))
        shapes.update({f"layers.{i}.feed_forward.0.weight": [4 * d, d], f"layers.{i}.feed_forward.0.bias": [4 * d],
                       f"layers.{i}.feed_forward.1.weight": [d, 4 * d], f"layers.{i}.feed_forward.1.bias": [d],
                       f"layers.{i}.residual": [2]})
    for norm in norms:
        shapes.update({norm + ".weight": [d], norm + ".bias": [d]})
    return dict(shapes, **angle_shapes(config))


def random_tensor(name, shape, generator):
    """No zero and no start, a steep softmax, angles of more than a turn."""
    import torch
    values = torch.randn(shape, generator=generator)
    if name.endswith(("query.weight", "key.weight")):
        return 1.5 * values / math.sqrt(shape[1]) * 2
    if name.endswith(".weight") and len(shape) == 2:
        return values / math.sqrt(shape[1]) * 1.3
    if "norm" in name and name.endswith(".weight"):
        return 1 + 0.2 * values
    if name == "context.std":
        return torch.tensor([1.3, 0.7, 2.1, 4e-4])
    if name == "rotary.gate":
        return torch.tensor([0.31, -0.22, 0.9, 0.12, -0.41, 0.25, 0.05])
    centre = {"rotary.lambda": 0.83, "residual": 0.4, "calibration.scale": 1.1}
    middle = next((c for end, c in centre.items() if name.endswith(end)), 0.0)
    return middle + (2.5 if "omega" in name else 0.3) * values


def make():
    import torch

    from oracle import key_of, write_safetensors
    examples = shared_examples()
    with open(os.path.join(HERE, "examples_surfaces.jsonl"), "w", encoding="utf-8") as file:
        for example in examples:
            file.write(json.dumps(example, ensure_ascii=False, separators=(",", ":")) + "\n")
    ids = ids_of(examples)
    tables = {"embedding.item": "item", "embedding.tag": "tag", "embedding.author": "author",
              "rotary.semantic.tag": "tag", "rotary.semantic.segment": "segment",
              "rotary.semantic.author": "author", "rotary.semantic.surface": "surface"}
    for name, changes in MADE.items():
        config = dict(BASE, **changes)
        generator = torch.Generator().manual_seed(7)
        tensors = {tensor: random_tensor(tensor, shape, generator)
                   for tensor, shape in sorted(dense_shapes(config).items())}
        for table, kind in tables.items():
            if table in ["rotary.semantic.author", "rotary.semantic.surface"] \
                    and config["variant"] != "siren_discovery":
                continue
            keys = [key_of(i) for i in ids[kind][:-1]]  # one id of each kind has only its start
            keys += [0] if table in ["embedding.tag", "embedding.author"] else []
            keys.sort(key=lambda k: k - 2**64 if k >= 2**63 else k)
            width = config["d_model"] if table.startswith("embedding") else config["semantic_width"]
            tensors[table + ".keys"] = keys
            tensors[table + ".weight"] = 0.8 * torch.randn([len(keys), width], generator=generator)
        folder = os.path.join(HERE, "model_" + name)
        os.makedirs(folder, exist_ok=True)
        write_safetensors(os.path.join(folder, "model.safetensors"), config, tensors)
        write_expected(folder, examples)
        print(f"made model_{name}")


def train(binary, log, options, folder, limit):
    """`evaluate` writes model.safetensors and examples.jsonl into the folder."""
    os.makedirs(folder, exist_ok=True)
    examples = os.path.join(folder, "examples.jsonl")
    subprocess.run([binary, "evaluate", log, "--format", "kuairand", *SMALL, *options, "--save-model", folder,
                    "--dump-examples", examples, "--limit", str(limit)], check=True, stdout=subprocess.DEVNULL)
    return lines(examples)


def slice_of(rows, folder):
    """The first rows of the slice of tests/data, as a log of its own."""
    path = os.path.join(folder, "log.csv")
    with gzip.open(os.path.join(ROOT, "tests/data/kuairand_pure/impressions_slice.csv.gz"), "rt") as whole, \
            open(path, "w", encoding="utf-8") as part:
        part.writelines(line for _, line in zip(range(rows + 1), whole))
    return path


def trained(binary):
    with tempfile.TemporaryDirectory() as scratch:
        log = slice_of(400, scratch)
        for name, options in TRAINED.items():
            folder = os.path.join(HERE, "model_" + name)
            write_expected(folder, train(binary, log, options, folder, 12))
            print(f"made model_{name}")


def score(binary, log):
    from oracle import VARIANTS, Oracle
    worst = 0.0
    with tempfile.TemporaryDirectory() as scratch:
        log = log or slice_of(800, scratch)
        for variant in VARIANTS:
            folder = os.path.join(scratch, variant)
            examples = train(binary, log, ["--variant", variant], folder, 60)
            model = os.path.join(folder, "model.safetensors")
            scored = subprocess.run([binary, "score", "--model", model, "--examples",
                                     os.path.join(folder, "examples.jsonl")], check=True, capture_output=True)
            oracle = Oracle(model)
            logits = [json.loads(line)["logits"] for line in scored.stdout.splitlines()]
            assert len(logits) == len(examples) > 0, variant
            difference = max(far(line, oracle.logits(e)) for line, e in zip(logits, examples))
            print(f"{variant:20} {len(examples):3} examples, largest difference {difference:.1e}")
            worst = max(worst, difference)
    if not worst <= TOLERANCE:
        sys.exit(f"score and PyTorch differ by {worst}")


def main():
    commands = {"check": (check, 0, 0), "make": (make, 0, 0), "trained": (trained, 1, 1), "score": (score, 1, 2)}
    name, arguments = (sys.argv[1:2] or [""])[0], sys.argv[2:]
    if name not in commands or not commands[name][1] <= len(arguments) <= commands[name][2]:
        sys.exit(__doc__)
    with_torch()
    sys.path.insert(0, HERE)
    if name == "score" and len(arguments) == 1:
        arguments.append("")
    commands[name][0](*arguments)


if __name__ == "__main__":
    main()
