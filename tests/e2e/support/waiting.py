"""Waiting for something that another process does, never longer than a limit."""
import os
import time

# A sanitizer build or a busy machine: SIRENFEED_TEST_PATIENCE=4 waits four times as long.
PATIENCE = float(os.environ.get("SIRENFEED_TEST_PATIENCE", "1"))


def wait_for(condition, what, seconds=60, every=0.05, explain=None):
    """The first true value of condition(); AssertionError naming `what` (and explain()) when there is none."""
    deadline = time.monotonic() + seconds * PATIENCE
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= deadline:
            more = f": {explain()}" if explain else ""
            raise AssertionError(f"{what}: did not happen within {seconds * PATIENCE:g} s{more}")
        time.sleep(every)
