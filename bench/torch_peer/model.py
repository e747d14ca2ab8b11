"""The ranker of Sirenfeed (variants `siren` and `ordinal`) in PyTorch, batched over slates of equal shape.

Written to be fast on a CPU: one call of the whole batch, distinct times of a slate's candidates and distinct tag sets
evaluated once, planes kept as two halves (rows of the query and key weights are reordered once) so that a rotation is
four products of whole halves, scaled_dot_product_attention in the blocks, dense gradients of the tables.
"""
import json
import pathlib
import struct

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

DTYPES = {"F32": np.float32, "I64": np.int64}


def read_safetensors(path):
    """(config, name -> array) of one of our model files."""
    data = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + size])
    config = json.loads(header.pop("__metadata__")["config"])
    tensors = {}
    for name, info in header.items():
        begin, end = info["data_offsets"]
        array = np.frombuffer(data[8 + size + begin:8 + size + end], DTYPES[info["dtype"]])
        tensors[name] = array.reshape(info["shape"]).copy()
    return config, tensors


def halves_first(weight, heads):
    """Rows of each head reordered: first elements of all planes, then second ones. q·k does not change."""
    rows = weight.shape[0] // heads
    order = [h * rows + r for h in range(heads) for r in (*range(0, rows, 2), *range(1, rows, 2))]
    return weight[order]


class Path(nn.Module):
    """One angle network: sine or ReLU layers, then a linear one."""

    def __init__(self, tensors, prefix, hidden, sine, omega0):
        super().__init__()
        self.weights = nn.ParameterList(nn.Parameter(tensors[f"{prefix}.{i}.weight"]) for i in range(hidden + 1))
        self.biases = nn.ParameterList(nn.Parameter(tensors[f"{prefix}.{i}.bias"]) for i in range(hidden + 1))
        self.sine, self.omega0 = sine, omega0

    def forward(self, x):
        last = len(self.weights) - 1
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases)):
            x = F.linear(x, weight, bias)
            if i < last:
                x = torch.sin(self.omega0 * x) if self.sine else torch.relu(x)
        return x


class Attention(nn.Module):
    def __init__(self, tensors, prefix, config):
        super().__init__()
        self.heads, self.scale = config["heads"], config["attention_scale"]
        self.query = nn.Parameter(halves_first(tensors[f"{prefix}.query.weight"], self.heads))
        self.key = nn.Parameter(halves_first(tensors[f"{prefix}.key.weight"], self.heads))
        self.value = nn.Parameter(tensors[f"{prefix}.value.weight"])
        self.output = nn.Parameter(tensors[f"{prefix}.output.weight"])
        self.empty = nn.Parameter(tensors[f"{prefix}.empty"])

    def split(self, x):  # [B, S, d] -> [B, H, S, d_k]
        batch, seq, width = x.shape
        return x.view(batch, seq, self.heads, width // self.heads).transpose(1, 2)

    @staticmethod
    def rotate(x, cos, sin):  # cos, sin [B, 1, S, P]
        first, second = x.chunk(2, -1)
        return torch.cat((first * cos - second * sin, first * sin + second * cos), -1)

    @staticmethod
    def join(x):
        return x.transpose(1, 2).flatten(2)


class Block(nn.Module):
    def __init__(self, tensors, prefix, config):
        super().__init__()
        d = config["d_model"]
        self.attention = Attention(tensors, f"{prefix}.attention", config)
        self.norm1, self.norm2 = load_norm(tensors, f"{prefix}.norm1", d), load_norm(tensors, f"{prefix}.norm2", d)
        self.wide, self.narrow = (nn.Linear(d, 4 * d), nn.Linear(4 * d, d))
        load_linear(self.wide, tensors, f"{prefix}.feed_forward.0")
        load_linear(self.narrow, tensors, f"{prefix}.feed_forward.1")
        self.r0, self.r1 = (float(r) for r in tensors[f"{prefix}.residual"])

    def forward(self, x, a, cos, sin):
        n, att = a.shape[1], self.attention
        u = self.norm1(x)
        q = att.rotate(att.split(F.linear(u, att.query)), cos, sin)
        k = att.rotate(att.split(F.linear(u[:, :n], att.key)), cos[:, :, :n], sin[:, :, :n])
        v = att.split(F.linear(self.norm1(x[:, :n] + a), att.value))
        # Token i sees tokens before i: tokens 1 … n − 1 over keys 0 … n − 2 are plainly causal.
        past = F.scaled_dot_product_attention(q[:, :, 1:n], k[:, :, :n - 1], v[:, :, :n - 1], is_causal=True,
                                              scale=att.scale)
        seen = F.scaled_dot_product_attention(q[:, :, n:], k, v, scale=att.scale)
        empty = att.empty.expand(x.shape[0], 1, -1)
        heads = torch.cat((empty, att.join(past), att.join(seen)), 1)
        x = x + self.r0 * F.linear(heads, att.output)
        return x + self.r1 * self.narrow(F.silu(self.wide(self.norm2(x))))


def load_norm(tensors, prefix, width):
    norm = nn.LayerNorm(width, eps=1e-5)
    norm.weight = nn.Parameter(tensors[f"{prefix}.weight"])
    norm.bias = nn.Parameter(tensors[f"{prefix}.bias"])
    return norm


def load_linear(linear, tensors, prefix):
    linear.weight = nn.Parameter(tensors[f"{prefix}.weight"])
    linear.bias = nn.Parameter(tensors[f"{prefix}.bias"])
    return linear


class Ranker(nn.Module):
    """forward(batch) -> z [B, C, K] before calibration (1 and 0 in these files)."""

    def __init__(self, path):
        super().__init__()
        config, arrays = read_safetensors(path)
        self.config = config
        tensors = {name: torch.from_numpy(array) for name, array in arrays.items() if array.dtype == np.float32}
        self.keys = {name[:-5]: {int(k): i for i, k in enumerate(array)}
                     for name, array in arrays.items() if name.endswith(".keys")}
        d, heads = config["d_model"], config["heads"]
        names = ["embedding.item", "embedding.tag", "embedding.author"]
        self.semantic = "rotary.semantic.tag" in self.keys
        if self.semantic:
            names += ["rotary.semantic.tag", "rotary.semantic.segment"]
        self.tables = nn.ParameterDict(
            {name.replace(".", "_"): nn.Parameter(tensors[f"{name}.weight"]) for name in names})
        self.action = nn.Parameter(tensors["embedding.action.weight"])
        self.token_norm = load_norm(tensors, "token_norm", d)
        self.lam = nn.Parameter(tensors["rotary.lambda"])
        if self.semantic:
            hidden, omega0 = config["angle_hidden_layers"], config["omega0"]
            self.omega = nn.Parameter(tensors["rotary.omega"])
            self.omega_semantic = nn.Parameter(tensors["rotary.omega_semantic"])
            self.sine = Path(tensors, "rotary.temporal.sine", hidden, True, omega0)
            self.relu = Path(tensors, "rotary.temporal.relu", hidden, False, omega0)
            self.semantic_sine = Path(tensors, "rotary.semantic.sine", hidden, True, omega0)
        self.blocks = nn.ModuleList(Block(tensors, f"layers.{i}", config) for i in range(config["layers"]))
        self.pooling = Attention(tensors, "pooling", config)
        self.norm_token = load_norm(tensors, "head.norm_token", d)
        self.norm_pooled = load_norm(tensors, "head.norm_pooled", d)
        shapes = [tensors[f"head.{i}.weight"].shape for i in range(3)]
        self.head = nn.ModuleList(
            load_linear(nn.Linear(s[1], s[0]), tensors, f"head.{i}") for i, s in enumerate(shapes))
        self.wide = nn.Parameter(torch.cat((tensors["head.wide.context_weight"],
                                            tensors["head.wide.action_weight"]), 1))
        planes = d // heads // 2
        rates = config["base"] ** (-2.0 * torch.arange(planes, dtype=torch.float64) / (d // heads))
        self.register_buffer("rates", rates.float())
        self.register_buffer("mean", tensors["context.mean"])
        self.register_buffer("std", tensors["context.std"].clamp(min=1e-3))
        self.register_buffer("action_mean", tensors["action.mean"])

    @torch.no_grad()
    def set_statistics(self, context_mean, context_std, action_mean):
        """Running statistics as our trainer has them after a step; they take no gradient."""
        self.mean.copy_(torch.tensor(context_mean))
        self.std.copy_(torch.tensor(context_std).clamp(min=1e-3))
        self.action_mean.copy_(torch.tensor(action_mean))

    def dense_parameters(self):
        tables = {id(p) for p in self.tables.parameters()}
        return [p for p in self.parameters() if id(p) not in tables]

    def angles(self, batch, n, count):
        theta = self.lam * batch["position"][:, None] * self.rates  # [S, P]
        if not self.semantic:
            return theta[None].expand(batch["item"].shape[0], -1, -1)
        f = self.sine(batch["time"]) + self.relu(batch["time"])  # [B, n + 1, P]: candidates share the last
        f = torch.cat((f[:, :n], f[:, n:].expand(-1, count, -1)), 1)
        s = (batch["meaning_tags"] @ self.tables["rotary_semantic_tag"]
             + F.embedding(batch["meaning_segment"], self.tables["rotary_semantic_segment"]))
        f_semantic = F.embedding(batch["meaning"], self.omega_semantic * self.semantic_sine(s))
        return theta + self.omega * f + f_semantic

    def forward(self, batch):
        bits = batch["bits"]  # [B, n, A + 1]
        n, seq = bits.shape[1], batch["item"].shape[1]
        tags = batch["set_tags"] @ self.tables["embedding_tag"]  # the mean row of each distinct tag set
        content = (F.embedding(batch["item"], self.tables["embedding_item"])
                   + F.embedding(batch["author"], self.tables["embedding_author"])
                   + F.embedding(batch["tag_set"], tags))
        x = self.token_norm(content)
        a = bits @ self.action
        theta = self.angles(batch, n, seq - n)[:, None]
        cos, sin = torch.cos(theta), torch.sin(theta)
        for block in self.blocks:
            x = block(x, a, cos, sin)
        pool = self.pooling
        q = pool.rotate(pool.split(F.linear(x[:, n:], pool.query)), cos[:, :, n:], sin[:, :, n:])
        k = pool.rotate(pool.split(F.linear(x[:, :n], pool.key)), cos[:, :, :n], sin[:, :, :n])
        v = pool.split(F.linear(a, pool.value))
        weights = torch.softmax(pool.scale * (q @ k.transpose(-1, -2)), -1)  # [B, H, C, n]
        pooled = F.linear(pool.join(weights @ v), pool.output)
        averages = pool.join(weights @ (bits - self.action_mean)[:, None])  # [B, C, H (A + 1)]
        context = ((batch["context"] - self.mean) / self.std).clamp(-4, 4)
        h = torch.cat((self.norm_token(x[:, n:]), self.norm_pooled(pooled), context, averages), -1)
        wide = F.linear(h[..., 2 * x.shape[-1]:], self.wide)
        h = F.silu(self.head[0](h))
        return self.head[2](F.silu(self.head[1](h))) + wide


TASK_WEIGHTS = (1.0, 0.5, 0.2)
PAIRWISE_WEIGHT = 0.1


class TrainingLoss(nn.Module):
    def __init__(self, ranker):
        super().__init__()
        self.ranker = ranker
        self.register_buffer("task_weights", torch.tensor(TASK_WEIGHTS))

    def forward(self, batch):
        z, label = self.ranker(batch), batch["label"]
        loss = (F.binary_cross_entropy_with_logits(z, label, reduction="none").mean((0, 1)) * self.task_weights).sum()
        margin = z[:, :, None, 0] - z[:, None, :, 0]
        return loss + PAIRWISE_WEIGHT * (F.softplus(-margin) * batch["pairs"]).sum()


class Optimizer:
    """Adam on the dense tensors after a global-norm clip, row-wise Adagrad on the tables."""

    def __init__(self, ranker):
        self.dense = ranker.dense_parameters()
        self.tables = list(ranker.tables.values())
        self.adam = torch.optim.Adam(self.dense, lr=1e-3, fused=True)
        self.squares = [torch.zeros(table.shape[0]) for table in self.tables]
        self.steps, self.norm = 0, 0.0

    @torch.no_grad()
    def step(self):
        self.steps += 1
        self.norm = torch.nn.utils.clip_grad_norm_(self.dense, 1.0, foreach=True)
        self.adam.param_groups[0]["lr"] = 1e-3 * min(1.0, self.steps / 100)
        self.adam.step()
        for table, square in zip(self.tables, self.squares):
            gradient = table.grad
            square.add_(gradient.square().mean(1))
            table.addcmul_(gradient, (square.sqrt().add_(1e-6).reciprocal_())[:, None], value=-0.05)
            table.grad = None
        for parameter in self.dense:
            parameter.grad = None


def floor_mod_turn(time_ms, period_ms):
    return 2 * np.pi * np.mod(time_ms, period_ms) / period_ms


def time_features(config, time_ms):
    time_ms = np.asarray(time_ms, np.int64)
    local = time_ms + config["zone_offset_ms"]
    day, week = floor_mod_turn(local, 86_400_000), floor_mod_turn(local, 604_800_000)
    age = np.clip((time_ms - config["time_reference_ms"]) / config["time_span_ms"], -1, 1)
    return np.stack((np.cos(day), np.sin(day), np.cos(week), np.sin(week), age), -1).astype(np.float32)


class Numbering(dict):
    def number(self, key):
        return self.setdefault(key, len(self))


def tag_shares(sets, keys):
    """[sets, rows]: the share of each row in a set's mean."""
    shares = np.zeros((len(sets), len(keys)), np.float32)
    for number, tags in enumerate(sets):
        for tag in tags:
            shares[number, keys[tag]] = 1 / len(tags)
    return torch.from_numpy(shares)


def make_batch(ranker, examples):
    """Index tensors of slates with equally many history tokens and candidates. Not timed."""
    config, keys = ranker.config, ranker.keys
    n_actions = len(config["actions"])
    sets, meanings = Numbering(), Numbering()
    columns = {name: [] for name in ("item", "author", "tag_set", "meaning", "time", "bits", "context", "label")}
    for example in examples:
        tokens = example["history"] + example["candidates"]
        columns["item"].append([keys["embedding.item"][t["item"]] for t in tokens])
        columns["author"].append([keys["embedding.author"][t["author"]] for t in tokens])
        tags = [tuple(sorted(set(t["tags"]))) for t in tokens]
        columns["tag_set"].append([sets.number(t) for t in tags])
        columns["meaning"].append([meanings.number((t, example["segment"])) for t in tags])
        columns["time"].append(time_features(config, [t["time_ms"] for t in example["history"]] + [example["time_ms"]]))
        bits = [t["action_bits"] or 1 << n_actions for t in example["history"]]
        columns["bits"].append([[float(b >> a & 1) for a in range(n_actions + 1)] for b in bits])
        columns["context"].append(np.reshape(example["context"], (-1, len(config["context_names"]))))
        columns["label"].append(np.reshape(example["label"], (-1, len(config["tasks"]))))
    batch = {}
    for name, column in columns.items():
        array = np.asarray(column)
        batch[name] = torch.from_numpy(array if array.dtype.kind == "i" else array.astype(np.float32))
    n = len(examples[0]["history"])
    positions = list(range(n, 0, -1)) + [0] * len(examples[0]["candidates"])
    batch["position"] = torch.tensor(positions, dtype=torch.float32)
    batch["set_tags"] = tag_shares(sets, keys["embedding.tag"])
    if ranker.semantic:
        batch["meaning_tags"] = tag_shares([m[0] for m in meanings], keys["rotary.semantic.tag"])
        batch["meaning_segment"] = torch.tensor([keys["rotary.semantic.segment"][m[1]] for m in meanings])
    click = batch["label"][..., 0]
    pairs = click[:, :, None] * (1 - click[:, None, :])
    batch["pairs"] = pairs / max(1.0, float(pairs.sum()))
    return batch
