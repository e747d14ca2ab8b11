#!/usr/bin/env python3
"""The Python client: installed with pip, type-checked, and run against a real node."""
import os
import subprocess
import sys
import unittest

from support.binary import ROOT
from support.case import EndToEndTest, main
from support.python_environment import make_environment

PACKAGE = ROOT / "clients/python"


class PythonClientTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        folder = cls.make_class_folder()
        # A copy, so that the build leaves nothing in the tree.
        subprocess.run(["cp", "-r", PACKAGE, folder / "client"], check=True)
        cls.client = folder / "client"
        cls.python = make_environment(folder, f"{cls.client}[test]") / "python"
        cls.node = cls.start_for_class("up", "up", "--data", folder / "data")
        cls.node.wait_caught_up()

    def check(self, *words, env=None):
        done = subprocess.run([self.python, *map(str, words)], capture_output=True, text=True, check=False,
                              cwd=self.client, env={**os.environ, **(env or {})})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stderr

    def test_its_types_hold(self):
        self.check("-m", "mypy", "src/sirenfeed_client")

    def test_its_tests_pass_against_a_running_node(self):
        output = self.check("-m", "unittest", "discover", "-s", "tests", env={"SIRENFEED_URL": self.node.url()})
        sys.stderr.write(output)
        self.assertIn("OK", output)
        self.assertNotIn("skipped", output)


if __name__ == "__main__":
    main()
