#!/usr/bin/env python3
"""docs/openapi.yaml against the running server: requests made from it and against it, in all their kinds, get the
answers that it describes and never an error of the server's own."""
import os
import subprocess
import sys

from support.binary import ROOT
from support.case import EndToEndTest, main
from support.python_environment import make_environment

VERSION = "4.32.5"
EXAMPLES = os.environ.get("SIRENFEED_TEST_SCHEMATHESIS_EXAMPLES", "10")
SEED = os.environ.get("SIRENFEED_TEST_SEED", "1")


class SchemathesisTest(EndToEndTest):
    @classmethod
    def setUpClass(cls):
        folder = cls.make_class_folder()
        cls.program = make_environment(folder, f"schemathesis=={VERSION}") / "schemathesis"
        cls.node = cls.start_for_class("up", "up", "--data", folder / "data")
        cls.node.wait_caught_up()

    def test_finds_nothing(self):
        print(f"seed {SEED}, {EXAMPLES} examples an operation", file=sys.stderr)
        # Ids are limited in bytes, which a schema counts in characters: ASCII makes them the same.
        done = subprocess.run(
            [self.program, "--config-file", ROOT / "tests/schemathesis/schemathesis.toml", "run",
             ROOT / "docs/openapi.yaml", "--url", self.node.url(), "--seed", SEED, "--max-examples", EXAMPLES,
             "--generation-codec", "ascii", "--no-color"],
            capture_output=True, text=True, check=False, cwd=self.folder,
            env={**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(ROOT / "tests/schemathesis")})
        self.assertEqual(done.returncode, 0, done.stdout[-8000:] + done.stderr[-2000:])
        self.assertTrue(self.node.running())


if __name__ == "__main__":
    main()
