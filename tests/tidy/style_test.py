#!/usr/bin/env python3
"""The mechanical part of the house style: line, function and file lengths, #pragma once, tests that
are named *_test.cc, and no note of unfinished work without an issue."""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
COLUMNS, SCRIPT_COLUMNS, FUNCTION_LINES, FILE_LINES = 100, 120, 70, 600
TYPE = re.compile(r"^(namespace|class|struct|enum|union|extern|template <.*> (class|struct))\b")
UNFINISHED = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b(?!\(#\d+\))")


def functions(lines):
    """(first line, length) of every block that starts at column 0 and is no type or namespace."""
    start = None
    for number, line in enumerate(lines, 1):
        if start is None:
            if line.endswith("{") and line[:1] not in ("", " ", "}", "#", "/") and not TYPE.match(line):
                start = number
        elif line.startswith("}"):
            yield start, number - start + 1
            start = None


def faults_of(name, text):
    lines = text.splitlines()
    raw = False  # inside R"(…)", whose lines are data
    columns = COLUMNS if name.endswith((".h", ".cc")) else SCRIPT_COLUMNS
    for number, line in enumerate(lines, 1):
        raw = (raw or 'R"' in line) and ')"' not in line.rpartition('R"')[2]
        if len(line) > columns and not raw and 'R"' not in line and ')"' not in line:
            yield f"{name}:{number}: {len(line)} columns; {columns} are allowed"
        if UNFINISHED.search(line):
            yield f"{name}:{number}: unfinished work is noted with its issue: TODO(#12)"
    if not name.endswith((".h", ".cc")):
        return
    for start, length in functions(lines):
        if length > FUNCTION_LINES:
            yield f"{name}:{start}: a function of {length} lines; {FUNCTION_LINES} are allowed"
    if len(lines) > FILE_LINES:
        yield f"{name}: {len(lines)} lines; {FILE_LINES} are allowed: what is it really two of?"
    if name.endswith(".h") and "#pragma once" not in text:
        yield f"{name}: a header without #pragma once"
    if "TEST(" in text and "/unit/" in name and not name.endswith("_test.cc"):
        yield f"{name}: tests live in files named *_test.cc, or they would not be built"


def sources():
    listed = subprocess.run(["git", "-C", str(ROOT), "ls-files", "*.h", "*.cc", "*.py", "*.sh", "*.js"],
                            capture_output=True, text=True)
    names = listed.stdout.split() if listed.returncode == 0 else []
    if not names:  # an exported tree without git
        names = [str(p.relative_to(ROOT)) for p in ROOT.rglob("*") if p.suffix in (".h", ".cc", ".py", ".sh", ".js")
                 and "build" not in p.parts]
    return [n for n in names if not n.startswith("tests/tidy/")]


def main():
    faults = []
    names = sources()
    for name in names:
        if (ROOT / name).exists():
            faults += faults_of(name, (ROOT / name).read_text())
    print("\n".join(faults))
    return 1 if faults or not names else 0


if __name__ == "__main__":
    # The check must be able to fail.
    long_function = "void f() {\n" + "  g();\n" * 80 + "}\n"
    assert any("function of" in fault for fault in faults_of("a.cc", long_function))
    assert any("columns" in fault for fault in faults_of("a.cc", "x" * 101))
    assert any("pragma" in fault for fault in faults_of("a.h", "int x;"))
    assert any("issue" in fault for fault in faults_of("a.cc", "// TO" + "DO later"))
    sys.exit(main())
