#!/usr/bin/env python3
"""model/ as a package: installed, found by a program outside the tree, and its rotation pays there."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SIRENFEED = pathlib.Path(os.environ.get("SIRENFEED", ROOT / "build/release/sirenfeed"))


def run(*command, **options):
    done = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, **options)
    if done.returncode != 0:
        raise AssertionError(f"{command[0]} failed with {done.returncode}:\n{done.stdout}")
    return done.stdout


class ModelPackage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        base = pathlib.Path(cls.folder.name)
        cls.prefix = base / "prefix"
        cls.program = base / "sensor_readings"
        run("cmake", "--install", SIRENFEED.parent, "--component", "model", "--prefix", cls.prefix)
        shutil.copytree(ROOT / "examples/sensor_readings", cls.program)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def configure(self, *options):
        return subprocess.run(["cmake", "-S", self.program, "-B", self.program / "build", "-DCMAKE_BUILD_TYPE=Release",
                               f"-DCMAKE_PREFIX_PATH={self.prefix}", *options], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True)

    def test_a_program_outside_the_tree_builds_and_siren_rope_explains_more_than_plain_rope(self):
        configured = self.configure()
        self.assertEqual(configured.returncode, 0, configured.stdout)
        run("cmake", "--build", self.program / "build")
        text = run(self.program / "build/sensor_readings", "--quiet")
        found = re.search(r"plain RoPE (-?[\d.]+), SIREN-RoPE (-?[\d.]+)", text)
        self.assertIsNotNone(found, text)
        plain, siren = float(found[1]), float(found[2])
        self.assertGreater(siren, plain + 0.2, text)
        self.assertGreater(siren, 0.7, text)

    def test_the_installed_headers_hold_the_model_and_nothing_of_the_feed(self):
        folders = {path.name for path in (self.prefix / "include/sirenfeed").iterdir()}
        self.assertEqual(folders, {"base", "model"})

    def test_another_minor_version_is_refused(self):
        text = (self.program / "CMakeLists.txt").read_text()
        other = self.program / "other"
        other.mkdir()
        (other / "CMakeLists.txt").write_text(text.replace("find_package(sirenfeed 0.1", "find_package(sirenfeed 0.9"))
        done = subprocess.run(["cmake", "-S", other, "-B", other / "build", f"-DCMAKE_PREFIX_PATH={self.prefix}"],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("0.9", done.stdout)


if __name__ == "__main__":
    unittest.main()
