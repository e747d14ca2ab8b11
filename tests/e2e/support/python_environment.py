"""A Python environment of a test's own, with the packages that it names."""

import subprocess
import unittest
import venv


def make_environment(folder, *packages):
    """The bin folder of a new environment under `folder`. Skips the test where Python cannot make environments or
    no package index can be reached; fails where a package does not install."""
    try:
        venv.create(folder / "venv", with_pip=True)
    except subprocess.CalledProcessError as error:
        raise unittest.SkipTest("Python cannot make environments (Debian's package python3-venv)") from error
    programs = folder / "venv/bin"
    done = subprocess.run([programs / "python", "-m", "pip", "install", "-q", *map(str, packages)],
                          capture_output=True, text=True, check=False)
    if done.returncode != 0 and "No matching distribution" in done.stderr:
        raise unittest.SkipTest(f"no package index can be reached: {done.stderr.strip().splitlines()[-1]}")
    if done.returncode != 0:
        raise AssertionError(f"pip install {' '.join(map(str, packages))}: {done.stderr}")
    return programs
