"""The test case that all end-to-end tests are made of: a folder of its own, nodes that do not outlive the
test, and the end of every log when it failed."""
import pathlib
import shutil
import sys
import tempfile
import unittest

from support.binary import Node

LOG_TAIL_LINES, LOG_LINE_CHARACTERS = 40, 1000


class EndToEndTest(unittest.TestCase):
    maxDiff = 4000
    class_folder = None

    @classmethod
    def make_class_folder(cls):
        """A folder for what all tests of a class share, gone after the last one."""
        cls.class_folder = pathlib.Path(tempfile.mkdtemp(prefix="sirenfeed-e2e-"))
        cls.addClassCleanup(shutil.rmtree, cls.class_folder, ignore_errors=True)
        return cls.class_folder

    @classmethod
    def start_for_class(cls, name, *arguments):
        """A node that is killed, at the latest, after the class's last test."""
        node = Node(cls.class_folder, name, *arguments)
        cls.addClassCleanup(node.kill)
        return node

    def run(self, result=None):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="sirenfeed-e2e-"))
        self.nodes = []
        result = result if result is not None else self.defaultTestResult()
        failed_before = len(result.failures) + len(result.errors)
        try:
            return super().run(result)
        finally:
            for node in self.nodes:
                node.kill()
            if len(result.failures) + len(result.errors) > failed_before:
                self._print_logs()
            shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, name, *arguments, env=None):
        """Starts a node that is killed, at the latest, when the test ends."""
        node = Node(self.folder, name, *arguments, env=env)
        self.nodes.append(node)
        return node

    def _print_logs(self):
        shared = sorted(self.class_folder.glob("*.log")) if self.class_folder else []
        for log in [*shared, *sorted(self.folder.glob("*.log"))]:
            lines = log.read_text("utf-8", "replace").splitlines()
            print(f"--- {self.id()}: the end of {log.name}", *(line[:LOG_LINE_CHARACTERS] for line in
                                                               lines[-LOG_TAIL_LINES:]), sep="\n", file=sys.stderr)


def main():
    unittest.main(verbosity=2)
