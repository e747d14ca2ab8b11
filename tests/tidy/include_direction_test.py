#!/usr/bin/env python3
"""Every folder includes only the folders that docs/ARCHITECTURE.md allows it, and third-party
storage, Kafka and threading headers stay in the files that own them."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ALLOWED = {
    "base": {"base"},
    "ingest": {"base", "ingest"},
    "features": {"base", "ingest", "features"},
    "model": {"base", "model"},
    "trainer": {"base", "ingest", "model", "trainer", "features/example_format"},
    "serving": {"base", "ingest", "features", "model", "serving"},
    "app": {"base", "ingest", "features", "model", "trainer", "serving", "app"},
}
# header prefix -> files that may include it
OWNED = {
    "librdkafka/": lambda p: p.parts[0] == "ingest" and p.name.startswith("kafka_"),
    "rocksdb/": lambda p: (p.parts[0] == "features" or p.name.startswith("embedded_")) and p.suffix == ".cc",
    "tbb/": lambda p: p.suffix == ".cc",
    "oneapi/tbb": lambda p: p.suffix == ".cc",
}
INCLUDE = re.compile(r'^\s*#include\s+["<]([^">]+)[">]')


def allowed(folder, included):
    return any(included == a or included.startswith(a + "/") for a in ALLOWED[folder])


def main():
    faults = []
    for folder in ALLOWED:
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            relative = path.relative_to(ROOT)
            for number, line in enumerate(path.read_text().splitlines(), 1):
                match = INCLUDE.match(line)
                if not match:
                    continue
                target = match.group(1)
                if target.split("/")[0] in ALLOWED and not allowed(folder, target):
                    faults.append(f"{relative}:{number}: {folder} may not include {target}")
                for prefix, may in OWNED.items():
                    if target.startswith(prefix) and not may(relative):
                        faults.append(f"{relative}:{number}: {target} does not belong here")
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    # The check must be able to fail.
    assert not allowed("model", "features/x.h") and not allowed("trainer", "serving/x.h")
    sys.exit(main())
