#!/usr/bin/env python3
"""Makes starts.json: docs/FORMATS.md's "Model starts", written a second time. Needs xxhash (pip)."""
import json
import math
import struct

import xxhash

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15


def mix(z):
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def as_float(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def start(kind, scale, seed, name, key, count):
    state = mix(mix(mix((seed + GOLDEN) & MASK) ^ xxhash.xxh3_64_intdigest(name.encode())) ^ key)
    bits = [mix((state + (i + 1) * GOLDEN) & MASK) >> 11 for i in range(count + 1)]
    values = []
    for i in range(count):
        if kind == "uniform":
            value = 2 * (bits[i] * 2.0**-53) - 1
        else:
            even = i & ~1
            radius = math.sqrt(-2 * math.log((bits[even] + 1) * 2.0**-53))
            turn = 2 * math.pi * (bits[even + 1] * 2.0**-53)
            value = radius * (math.cos(turn) if i == even else math.sin(turn))
        values.append(as_float(scale * value))
    return values


CASES = [
    ("uniform", 1.0, 1, "rotary.semantic.tag", 1, 16),
    ("uniform", 1 / math.sqrt(32), 20260617, "layers.0.attention.query.weight", 0, 33),
    ("normal", 0.5, 20260617, "embedding.tag", 0x8000000000000001, 32),
    ("normal", 0.1, 0, "embedding.author", 0, 7),
    ("normal", 0.01, (1 << 63) - 1, "head.2.weight", 0, 12),
]
if __name__ == "__main__":
    print("[")
    lines = []
    for kind, scale, seed, name, key, count in CASES:
        lines.append(json.dumps({"kind": kind, "scale": scale, "seed": seed, "name": name, "key": key,
                                 "values": start(kind, scale, seed, name, key, count)}))
    print(",\n".join(lines))
    print("]")
