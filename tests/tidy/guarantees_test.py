#!/usr/bin/env python3
"""Every test that docs/GUARANTEES.md names exists."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
NAMED = re.compile(r"`(\w+\.\w+|test_\w+)`")
CPP = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.MULTILINE)
PYTHON = re.compile(r"^    def (test_\w+)\(", re.MULTILINE)


def existing():
    found = set()
    for path in (ROOT / "tests").rglob("*.cc"):
        found.update(f"{suite}.{name}" for suite, name in CPP.findall(path.read_text()))
    for path in (ROOT / "tests/e2e").glob("*_test.py"):
        found.update(PYTHON.findall(path.read_text()))
    return found


def main():
    named = set(NAMED.findall((ROOT / "docs/GUARANTEES.md").read_text()))
    missing = sorted(named - existing())
    for name in missing:
        print(f"docs/GUARANTEES.md names {name}, which is no test")
    if len(named) < 50:
        print(f"docs/GUARANTEES.md names only {len(named)} tests: is it still written as this test reads it?")
        return 1
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
