"""Times that the schema allows and the clock does not: the server refuses what lies ahead of it, which no schema
can say. They are put back to a day ago; what the schema itself forbids stays as it was generated."""
import time

import schemathesis

TIMES = {"timestamp"}
TIME_MIN_MS, TIME_MAX_MS = 100_000_000_000, 253_402_300_799_999
DAY_MS = 86_400_000


def moved_back(value):
    if isinstance(value, list):
        return [moved_back(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    now_ms = time.time_ns() // 1_000_000
    moved = {name: moved_back(entry) for name, entry in value.items()}
    for name in TIMES & moved.keys():
        allowed = isinstance(moved[name], (int, float)) and TIME_MIN_MS <= moved[name] <= TIME_MAX_MS
        if allowed and moved[name] > now_ms - DAY_MS:
            moved[name] = now_ms - DAY_MS
    return moved


@schemathesis.hook
def before_call(context, case, kwargs):
    if isinstance(case.body, (dict, list)):
        case.body = moved_back(case.body)
