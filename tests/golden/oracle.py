"""The ranker in PyTorch, double precision, one request at a time: written from the mathematics and docs/FORMATS.md,
not from the C++, so that the two can be compared. Used by generate.py."""
import json
import math
import struct

import torch
import xxhash

from starts import start

DAY, WEEK, HOUR, YEAR = 86_400_000, 604_800_000, 3_600_000, 31_556_952_000
SIGNALS = ["hour", "weekday", "age", "topic", "segment", "author", "surface"]
BOTH = ["siren", "siren_linear", "siren_time_bias", "siren_alibi_time", "siren_hierarchical", "siren_discovery"]
SINE = BOTH + ["siren_temporal", "siren_sine_only"]
RELU = BOTH + ["siren_temporal", "siren_relu_only"]
SEMANTIC = BOTH + ["siren_semantic"]
VARIANTS = ["none", "ordinal", "time_embedding", "torope", "time_bias", "alibi_time", "siren_temporal",
            "siren_sine_only", "siren_relu_only", "siren_semantic"] + BOTH
TABLE_STARTS = {"embedding.item": ("constant", 0.0), "embedding.tag": ("normal", 0.5),
                "embedding.author": ("normal", 0.1), "rotary.semantic.tag": ("uniform", 1.0),
                "rotary.semantic.segment": ("uniform", 1.0), "rotary.semantic.author": ("uniform", 1.0),
                "rotary.semantic.surface": ("uniform", 1.0)}
torch.set_default_dtype(torch.float64)


def key_of(name):
    return 0 if name is None else xxhash.xxh3_64_intdigest(name.encode())


def read_safetensors(path):
    """(metadata, name -> tensor): F32 becomes double, I64 becomes a list of unsigned keys."""
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    metadata = header.pop("__metadata__")
    tensors = {}
    for name, entry in header.items():
        begin, end = entry["data_offsets"]
        raw = bytearray(data[8 + size + begin:8 + size + end])
        if entry["dtype"] == "I64":
            tensors[name] = [k & (2**64 - 1) for k in struct.unpack(f"<{len(raw) // 8}q", bytes(raw))]
        elif raw:
            tensors[name] = torch.frombuffer(raw, dtype=torch.float32).double().reshape(entry["shape"])
        else:
            tensors[name] = torch.zeros(entry["shape"])
    return metadata, tensors


def write_safetensors(path, config, tensors):
    """I64 first, as docs/FORMATS.md says; values are lists of keys or tensors."""
    header, blobs, offset = {"__metadata__": {"config": json.dumps(config)}}, [], 0
    for name in sorted(tensors, key=lambda n: (not n.endswith(".keys"), n)):
        value = tensors[name]
        if name.endswith(".keys"):
            blob = struct.pack(f"<{len(value)}q", *[k - 2**64 if k >= 2**63 else k for k in value])
            entry = {"dtype": "I64", "shape": [len(value)]}
        else:
            flat = value.flatten().tolist()
            blob, entry = struct.pack(f"<{len(flat)}f", *flat), {"dtype": "F32", "shape": list(value.shape)}
        entry["data_offsets"] = [offset, offset + len(blob)]
        offset += len(blob)
        header[name] = entry
        blobs.append(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def as_float(values):
    return torch.tensor(values).float().double()


def wave(time, period):
    turn = 2 * math.pi * (time % period) / period
    return [math.cos(turn), math.sin(turn)]


def linear(x, weight, bias=None):
    y = x @ weight.T
    return y if bias is None else y + bias


def norm(x, weight, bias):
    mean = x.mean(-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + 1e-5) * weight + bias


def silu(x):
    return x * torch.sigmoid(x)


def calendar_periods(count):
    return [round(HOUR * 1440 ** (i / (count - 1))) if count > 1 else HOUR for i in range(count)]


def scale_groups(planes):
    groups = [(name, g * planes // 4, (g + 1) * planes // 4) for g, name in enumerate(["hour", "day", "week", "age"])]
    return [group for group in groups if group[2] > group[1]]


class Oracle:
    def __init__(self, path):
        metadata, self.tensors = read_safetensors(path)
        self.config = json.loads(metadata["config"])
        c = self.config
        self.variant, self.heads = c["variant"], c["heads"]
        self.width = c["d_model"] // c["heads"]
        self.planes = self.width // 2
        self.rows = {name: {key: i for i, key in enumerate(self.tensors[name + ".keys"])}
                     for name in TABLE_STARTS if name + ".keys" in self.tensors}

    def t(self, name):
        return self.tensors[name]

    def row(self, table, key):
        weight = self.t(table + ".weight")
        if key in self.rows[table]:
            return weight[self.rows[table][key]]
        kind, scale = TABLE_STARTS[table]
        width = weight.shape[1]
        if kind == "constant":
            return torch.zeros(width)
        return torch.tensor(start(kind, scale, self.config["seed"], table, key, width))

    # Tokens: dicts with item, tags, author, time, surface; history tokens with bits besides.

    def tokens(self, example):
        actions = self.config["actions"]
        history = []
        for token in example.get("history", []):
            known = sorted({actions.index(a) for a in token.get("actions", []) if a in actions})
            if self.config.get("history_kind", "exposures") == "actions" and not known:
                continue
            history.append(dict(token, bits=known or [len(actions)]))
        history = history[-self.config["history_max"]:]
        candidates = [dict(c, time=example.get("time"), surface=example.get("surface"))
                      for c in example["candidates"]]
        for place, token in enumerate(history):
            token["p"] = len(history) - place
        for token in candidates:
            token["p"] = 0
        return history, candidates

    def tag_mean(self, table, token, none):
        keys = list(dict.fromkeys(key_of(tag) for tag in token.get("tags") or []))
        if not keys and not none:
            return torch.zeros(self.t(table + ".weight").shape[1])
        return torch.stack([self.row(table, key) for key in keys or [0]]).mean(0)

    def content(self, token):
        x = self.row("embedding.item", key_of(token["item"])) + self.tag_mean("embedding.tag", token, True)
        x = norm(x + self.row("embedding.author", key_of(token.get("author"))), self.t("token_norm.weight"),
                 self.t("token_norm.bias"))
        if self.variant == "time_embedding":
            time = token.get("time")
            t = torch.zeros(5) if time is None else self.time_features(time)
            x = x + linear(t, self.t("time_embedding.weight"), self.t("time_embedding.bias"))
        return x

    # Time, in integers first.

    def age(self, time):
        return max(-1.0, min(1.0, (time - self.config["time_reference_ms"]) / self.config["time_span_ms"]))

    def time_features(self, time):
        local = time + self.config["zone_offset_ms"]
        return as_float(wave(local, DAY) + wave(local, WEEK) + [self.age(time)])

    def scale_features(self, scale, time):
        local = time + self.config["zone_offset_ms"]
        if scale == "age":
            return as_float([self.age(time)] + wave(time, YEAR))
        slow, fast = {"hour": (HOUR, 6 * HOUR), "day": (DAY, DAY // 2), "week": (WEEK, WEEK // 2)}[scale]
        return as_float(wave(local, slow) + wave(local, fast))

    def gate(self, signal):
        a = self.t("rotary.gate")[SIGNALS.index(signal)].item()
        return as_float(max(0.0, min(1.0, 1.2 / (1 + math.exp(-4 * a)) - 0.1)))

    # Angles.

    def path(self, name, x, sine):
        layers = self.config["angle_hidden_layers"]
        for i in range(layers):
            x = linear(x, self.t(f"{name}.{i}.weight"), self.t(f"{name}.{i}.bias"))
            x = torch.sin(self.config["omega0"] * x) if sine else torch.relu(x)
        return linear(x, self.t(f"{name}.{layers}.weight"), self.t(f"{name}.{layers}.bias"))

    def temporal(self, prefix, time):
        if time is None:
            return self.t(prefix + ".unknown_time")
        if self.variant == "siren_hierarchical":
            parts = []
            for scale, _, _ in scale_groups(self.planes):
                x, name = self.scale_features(scale, time), f"{prefix}.hierarchy.{scale}"
                parts.append(self.path(name + ".sine", x, True) + self.path(name + ".relu", x, False))
            return torch.cat(parts)
        t = self.time_features(time)
        if self.variant == "siren_discovery":
            t = t * torch.stack([self.gate(s) for s in ["hour", "hour", "weekday", "weekday", "age"]])
        f = torch.zeros(self.planes)
        if self.variant in SINE:
            f = f + self.path(prefix + ".temporal.sine", t, True)
        if self.variant in RELU:
            f = f + self.path(prefix + ".temporal.relu", t, False)
        return f

    def semantic(self, prefix, token, segment):
        gate = self.gate if self.variant == "siren_discovery" else lambda signal: 1.0
        s = gate("topic") * self.tag_mean("rotary.semantic.tag", token, False)
        if segment is not None:
            s = s + gate("segment") * self.row("rotary.semantic.segment", key_of(segment))
        if self.variant == "siren_discovery":
            for signal in ["author", "surface"]:
                if token.get(signal) is not None:
                    s = s + gate(signal) * self.row("rotary.semantic." + signal, key_of(token[signal]))
        return self.path(prefix + ".semantic.sine", s, True)

    def angle(self, prefix, token, segment):
        theta, planes = torch.zeros(self.planes), self.planes
        ordinal = planes // 2 if self.variant == "torope" else planes
        for j in range(ordinal):
            turn = self.t("rotary.lambda")[0].item() * token["p"] * self.config["base"] ** (-2 * j / self.width)
            theta[j] = turn - 2 * math.pi * round(turn / (2 * math.pi))
        time = token.get("time")
        if self.variant in SINE or self.variant in RELU:
            theta = theta + self.t(prefix + ".omega") * self.temporal(prefix, time)
        if self.variant in SEMANTIC:
            theta = theta + self.t(prefix + ".omega_semantic") * self.semantic(prefix, token, segment)
        count = {"torope": planes - planes // 2, "siren_linear": max(1, planes // 4)}.get(self.variant, 0)
        if time is not None:
            for j, period in enumerate(calendar_periods(count)):
                theta[planes - count + j] += 2 * math.pi * (time % period) / period
        return theta

    def rotate(self, x, theta):
        """x [rows, d], theta [rows, P]: adjacent pairs of every head."""
        if theta is None:
            return x
        pairs = x.reshape(len(x), self.heads, self.planes, 2)
        cos, sin = torch.cos(theta)[:, None], torch.sin(theta)[:, None]
        even, odd = pairs[..., 0], pairs[..., 1]
        return torch.stack([even * cos - odd * sin, even * sin + odd * cos], -1).reshape(x.shape)

    # Attention.

    def logit_bias(self, head, query, key):
        times = query.get("time"), key.get("time")
        seconds = None if None in times else (times[0] - times[1]) / 1000
        if self.variant in ["time_bias", "siren_time_bias"]:
            bias = self.t("bias.position")[head, min(key["p"] - query["p"], 127)]
            if seconds is not None:
                step = math.floor(math.log(max(seconds, 1.0)) / 0.301)
                bias = bias + self.t("bias.time")[head, max(0, min(63, step))]
            return bias
        if self.variant in ["alibi_time", "siren_alibi_time"]:
            distance = 0.0 if seconds is None else math.log(1 + max(seconds, 0.0))
            return -torch.nn.functional.softplus(self.t("alibi.slope")[head]) * distance
        return 0.0

    def attend(self, q, k, v, empty, queries, keys, visible):
        """(heads [queries, d], softmax weights [H][query][keys]); query i sees the first visible(i) keys."""
        out, weights = [], [[] for _ in range(self.heads)]
        for i, query in enumerate(queries):
            n = visible(i)
            if n == 0:
                out.append(empty)
                for head in range(self.heads):
                    weights[head].append(torch.zeros(len(keys)))
                continue
            row = []
            for head in range(self.heads):
                at = slice(head * self.width, (head + 1) * self.width)
                logits = self.config["attention_scale"] * (k[:n, at] @ q[i, at])
                logits = logits + torch.stack([torch.as_tensor(self.logit_bias(head, query, keys[j]))
                                               for j in range(n)])
                w = torch.softmax(logits, 0)
                row.append(w @ v[:n, at])
                weights[head].append(torch.cat([w, torch.zeros(len(keys) - n)]))
            out.append(torch.cat(row))
        return torch.stack(out), weights

    def thetas(self, prefix, tokens, segment):
        if self.variant in ["none", "time_bias"]:
            return None
        return torch.stack([self.angle(prefix, token, segment) for token in tokens])

    def prefix(self, place):
        return place + ".rotary" if self.config.get("per_layer_angles") else "rotary"

    def block(self, layer, x, a, history, candidates, segment):
        p, n = f"layers.{layer}", len(history)
        both = history + candidates
        theta = self.thetas(self.prefix(p), both, segment)
        norm1 = self.t(p + ".norm1.weight"), self.t(p + ".norm1.bias")
        u = norm(x, *norm1)
        project = {name: self.t(f"{p}.attention.{name}.weight") for name in ["query", "key", "value", "output"]}
        q = self.rotate(linear(u, project["query"]), theta)
        k = self.rotate(linear(u[:n], project["key"]), None if theta is None else theta[:n])
        v = linear(norm(x[:n] + a, *norm1), project["value"])
        heads, _ = self.attend(q, k, v, self.t(p + ".attention.empty"), both, history, lambda i: min(i, n))
        residual = self.t(p + ".residual")
        x = x + residual[0] * linear(heads, project["output"])
        hidden = linear(norm(x, self.t(p + ".norm2.weight"), self.t(p + ".norm2.bias")),
                        self.t(p + ".feed_forward.0.weight"), self.t(p + ".feed_forward.0.bias"))
        fed = linear(silu(hidden), self.t(p + ".feed_forward.1.weight"), self.t(p + ".feed_forward.1.bias"))
        return x + residual[1] * fed

    def pool(self, x, a, history, candidates, segment):
        n = len(history)
        theta = self.thetas(self.prefix("pooling"), history + candidates, segment)
        q = self.rotate(linear(x[n:], self.t("pooling.query.weight")), None if theta is None else theta[n:])
        k = self.rotate(linear(x[:n], self.t("pooling.key.weight")), None if theta is None else theta[:n])
        v = linear(a, self.t("pooling.value.weight"))
        heads, weights = self.attend(q, k, v, self.t("pooling.empty"), candidates, history, lambda i: n)
        bits = torch.zeros(n, len(self.config["actions"]) + 1)
        for i, token in enumerate(history):
            bits[i, token["bits"]] = 1.0
        bits = bits - self.t("action.mean")
        averaged = torch.cat([torch.stack(weights[head]) @ bits for head in range(self.heads)], 1)
        return linear(heads, self.t("pooling.output.weight")), averaged

    def head(self, x, b, averaged, candidates):
        c = as_float([candidate.get("context", []) for candidate in candidates])
        if self.config["context_examples"] < 128:
            c = torch.zeros_like(c)
        else:
            std = torch.clamp(self.t("context.std"), min=torch.tensor(1e-3).float().item())
            c = torch.clamp((c - self.t("context.mean")) / std, -4, 4)
        h = torch.cat([norm(x, self.t("head.norm_token.weight"), self.t("head.norm_token.bias")),
                       norm(b, self.t("head.norm_pooled.weight"), self.t("head.norm_pooled.bias")), c, averaged], 1)
        for i in range(3):
            h = linear(h, self.t(f"head.{i}.weight"), self.t(f"head.{i}.bias"))
            h = silu(h) if i < 2 else h
        z = h + linear(averaged, self.t("head.wide.action_weight")) + linear(c, self.t("head.wide.context_weight"))
        return self.t("calibration.scale") * z + self.t("calibration.bias")

    def logits(self, example):
        """[C][K], calibrated."""
        history, candidates = self.tokens(example)
        segment, d = example.get("segment"), self.config["d_model"]
        x = torch.stack([self.content(token) for token in history + candidates])
        action = self.t("embedding.action.weight")
        a = torch.zeros(len(history), d)
        for i, token in enumerate(history):
            a[i] = action[token["bits"]].sum(0)
        for layer in range(self.config["layers"]):
            x = self.block(layer, x, a, history, candidates, segment)
        b, averaged = self.pool(x, a, history, candidates, segment)
        return self.head(x[len(history):], b, averaged, candidates).tolist()
