#!/usr/bin/env python3
"""Makes model_towers_small: the PyTorch fixture model_siren_small with random counter and cross towers, tower
features and an isotonic layer beside it. The towers are docs/FORMATS.md's, written a second time in numpy.

    pip install numpy xxhash && python3 tests/golden/towers.py
"""
import json
import math
import os
import struct

import numpy as np
import xxhash

HERE = os.path.dirname(os.path.abspath(__file__))
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
DAY, HOUR = 86_400_000, 3_600_000
(CONSTANT, TAG, SURFACE, TAG_USER, TAG_SURFACE, AUTHOR_USER, AUTHOR_SURFACE, AUTHOR_TAG, ITEM_SURFACE, ITEM_TAG,
 SURFACE_USER, BUCKET_USER, BUCKET_SURFACE, BUCKET_TAG, HOUR_USER, HOUR_SURFACE, HOUR_TAG, BIN) = range(18)


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def cross(kind, a, b):
    return mix(mix((a + (kind + 1) * GOLDEN) & MASK) ^ b) >> 44


def key_of(name):
    return 0 if name is None else xxhash.xxh3_64_intdigest(name.encode())


def crosses(config, edges, slate, candidate):
    """The keys of one candidate's weights."""
    user, surface = key_of(slate.get("user")), key_of(slate.get("surface"))
    item, author = key_of(candidate["item"]), key_of(candidate["author"])
    tag = key_of(candidate["tags"][0]) if candidate["tags"] else 0
    c = np.asarray(candidate["context"], np.float64).astype(np.float32)
    keys = [cross(CONSTANT, 0, 0), cross(TAG, tag, 0), cross(SURFACE, surface, 0), cross(TAG_SURFACE, tag, surface),
            cross(AUTHOR_SURFACE, author, surface), cross(AUTHOR_TAG, author, tag), cross(ITEM_SURFACE, item, surface),
            cross(ITEM_TAG, item, tag)]
    if user:
        keys += [cross(TAG_USER, tag, user), cross(AUTHOR_USER, author, user), cross(SURFACE_USER, surface, user)]
    ln_seconds = 2 * (float(c[config["context_names"].index("item.duration")]) + 1.5)
    bucket = int(min(max(math.trunc((ln_seconds - math.log(5)) / 0.4 + 1e-5), 0), 14))
    keys += [cross(BUCKET_SURFACE, bucket, surface), cross(BUCKET_TAG, bucket, tag)]
    if user:
        keys.append(cross(BUCKET_USER, bucket, user))
    if slate["time"] is not None:
        hour = (slate["time"] + config["zone_offset_ms"]) % DAY // HOUR
        keys += [cross(HOUR_SURFACE, hour, surface), cross(HOUR_TAG, hour, tag)]
        if user:
            keys.append(cross(HOUR_USER, hour, user))
    return keys + [cross(BIN, f, int((c[f] >= edges[f]).sum())) for f in range(len(c))]


def read_file(path):
    with open(path, "rb") as file:
        data = file.read()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + size])
    tensors = {}
    for name, entry in header.items():
        if name != "__metadata__":
            begin, end = entry["data_offsets"]
            dtype = {"F32": "<f4", "I64": "<i8"}[entry["dtype"]]
            tensors[name] = np.frombuffer(data[8 + size + begin : 8 + size + end], dtype).reshape(entry["shape"])
    return json.loads(header["__metadata__"]["config"]), tensors


def write_file(path, config, tensors):
    header, body = {"__metadata__": {"config": json.dumps(config)}}, b""
    for name in sorted(tensors, key=lambda n: (tensors[n].dtype.kind != "i", n)):
        value = tensors[name]
        header[name] = {"dtype": "I64" if value.dtype.kind == "i" else "F32", "shape": list(value.shape),
                        "data_offsets": [len(body), len(body) + value.nbytes]}
        body += value.tobytes()
    text = json.dumps(header, ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + body)


def silu(x):
    return x / (1 + np.exp(-x))


def counter(tensors, c):
    mean, std = (tensors["context." + name].astype(np.float64) for name in ("mean", "std"))
    x = np.clip((c.astype(np.float64) - mean) / np.maximum(std, np.float64(np.float32(1e-3))), -4, 4)
    for layer in range(3):
        x = x @ tensors[f"counter.{layer}.weight"].astype(np.float64).T + tensors[f"counter.{layer}.bias"]
        x = silu(x) if layer < 2 else x
    return x


def isotonic(x, y, z):
    if z < x[0] or z >= x[-1]:
        return z + (y[0] - x[0] if z < x[0] else y[-1] - x[-1])
    return np.interp(z, x, y)


def main():
    random = np.random.default_rng(20260618)
    normal = lambda *shape: random.normal(size=shape).astype(np.float32)  # noqa: E731
    source, target = os.path.join(HERE, "model_siren_small"), os.path.join(HERE, "model_towers_small")
    config, tensors = read_file(os.path.join(source, "model.safetensors"))
    config["context_names"] = ["item.duration"] + config["context_names"][1:]
    config |= {"towers": ["counter", "cross"], "tower_context_names": ["t0", "t1"], "isotonic_knots": 4}
    config["zone_offset_ms"] = 0
    width, tasks = len(config["context_names"]) + 2, len(config["tasks"])
    tensors["context.mean"] = np.concatenate([tensors["context.mean"], normal(2)])
    tensors["context.std"] = np.concatenate([tensors["context.std"], np.float32([0.7, 1.9])])
    for layer, (out, size) in enumerate([(64, width), (64, 64), (tasks, 64)]):
        tensors[f"counter.{layer}.weight"] = normal(out, size) / np.float32(math.sqrt(size))
        tensors[f"counter.{layer}.bias"] = normal(out) * np.float32(0.3)
    edges = np.sort(normal(width, 19), axis=1)
    tensors["cross.edges"] = edges
    tensors["calibration.knots.x"] = np.cumsum(np.abs(normal(tasks, 4)) + np.float32(0.2), axis=1) - np.float32(2)
    tensors["calibration.knots.y"] = np.cumsum(np.abs(normal(tasks, 4)) + np.float32(0.2), axis=1) - np.float32(1)

    with open(os.path.join(source, "examples.jsonl"), encoding="utf-8") as file:
        slates = [json.loads(line) for line in file]
    with open(os.path.join(source, "expected.jsonl"), encoding="utf-8") as file:
        expected = [json.loads(line) for line in file]
    for i, slate in enumerate(slates):
        slate["user"] = None if i % 5 == 3 else f"u{i % 4}"
        slate["surface"] = None if i % 3 == 2 else ["home", "größe"][i % 2]
        for candidate in slate["candidates"]:
            candidate["context"] += [round(float(v), 4) for v in normal(2)]
    keys = sorted({k for s in slates for c in s["candidates"] for k in crosses(config, edges, s, c)})
    kept = [key for i, key in enumerate(keys) if i % 7 != 6]  # a key without a row adds nothing
    tensors["cross.keys"] = np.array(kept, "<i8")
    tensors["cross.weight"] = normal(len(kept), tasks) * np.float32(0.4)
    weights = {key: tensors["cross.weight"][i].astype(np.float64) for i, key in enumerate(kept)}

    os.makedirs(target, exist_ok=True)
    write_file(os.path.join(target, "model.safetensors"), config, tensors)
    knots_x, knots_y = (tensors["calibration.knots." + axis].astype(np.float64) for axis in "xy")
    scale, bias = tensors["calibration.scale"].astype(np.float64), tensors["calibration.bias"].astype(np.float64)
    with open(os.path.join(target, "examples.jsonl"), "w", encoding="utf-8") as examples, \
            open(os.path.join(target, "expected.jsonl"), "w", encoding="utf-8") as results:
        for slate, line in zip(slates, expected):
            transformer = (np.array(line["logits"]) - bias) / scale
            logits = []
            for candidate, z in zip(slate["candidates"], transformer):
                c = np.asarray(candidate["context"], np.float64).astype(np.float32)
                linear = sum((weights.get(k, 0.0) for k in crosses(config, edges, slate, candidate)), np.zeros(tasks))
                mean = scale * (z + counter(tensors, c) + linear) / 3 + bias
                served = [isotonic(knots_x[k], knots_y[k], mean[k]) for k in range(tasks)]
                logits.append([float(f"{logit:.9g}") for logit in served])
            examples.write(json.dumps(slate, ensure_ascii=False) + "\n")
            results.write(json.dumps({"case": line["case"], "logits": logits}) + "\n")


if __name__ == "__main__":
    main()
