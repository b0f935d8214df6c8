# SPDX-License-Identifier: MIT
"""A day that never was: the samples of devices and the yields that an agent finds when it starts."""
import datetime
import json
import pathlib
import random
import struct
import time

STATES = {"idle": 3, "held": 4, "task": 6, "foreign": 7, "left": 2, "fault": 8}
SAMPLE_S = 10


def sample(at, state, util, power, used, task=0):
    """Of src/agent/report/samples.h."""
    def pack(total):
        return struct.pack("<IHBBHBxIIIQ", at, total, STATES[state], util, power * 10, 41, used, used if state in ("held", "task") else 0, 0, task)
    a, b = 1, 0
    for byte in pack(0):
        a = (a + byte) % 255
        b = (b + a) % 255
    return pack(b << 8 | a)


def write_day(path, parts, now, rng):
    """parts: (hours ago when it begins, state, utilisation), each until the next; None: no agent ran."""
    n = 24 * 3600 // SAMPLE_S
    data = bytearray(struct.pack("<QIIIIQ", 0x736d706c6e746e31, 1, SAMPLE_S, 32, n, 0) + bytes(32 * n))
    end = int(now) // SAMPLE_S
    for i, (ago, state, util, *task) in enumerate(parts):
        until_ago = parts[i + 1][0] if i + 1 < len(parts) else 0
        level = util
        for at in range(max(end - n + 1, end - int(ago * 360)), end - int(until_ago * 360)):
            level += (util - level) * 0.04 + rng.gauss(0, 1.6 if util else 0)
            level = min(100, max(0, level))
            if state:
                data[32 + at % n * 32:64 + at % n * 32] = sample(at, state, round(level), round(75 + 5.8 * level), 120000 if util else 700, *task)
    path.write_bytes(data)
    path.chmod(0o600)


DAY = [  # a night of tasks, a day of people
    [(24, "task", 88, 31), (17.5, "held", 62), (15, "task", 91, 36), (6.2, "held", 63), (4.6, "foreign", 45), (3.1, "held", 62), (1.4, "task", 93, 41)],
    [(24, "task", 88, 31), (17.5, "held", 62), (15, "task", 90, 36), (6.2, "held", 61), (1.4, "task", 92, 41)],
    [(24, "held", 62), (20.2, "task", 71, 33), (12.4, "held", 62), (10.1, "foreign", 55), (7.7, "held", 62), (2.6, "task", 78, 40)],
    [(24, "foreign", 83), (16.6, "idle", 0), (16.4, "held", 62), (9.3, "foreign", 30), (8.8, "held", 62)],
    [(24, "held", 62), (19.1, "task", 64, 34), (18.6, None, 0), (18.3, "held", 62), (5.5, "task", 80, 39), (2.2, "held", 62)],
    [(24, "held", 62), (13.2, "foreign", 91), (11.9, "held", 62)],
    [(24, "idle", 0), (23.1, "held", 62), (14.4, "foreign", 76), (9.9, "held", 62)],
    [(24, "left", 0), (15.3, "foreign", 87), (7.1, "left", 0), (3.8, "foreign", 72), (1.2, "left", 0)],
]
GUESTS = [("alice", "python"), ("bob", "python3"), ("chen", "torchrun"), ("dana", "jupyter")]


def write_past(q, seed=7):
    """What the agent finds when it starts: the samples of a day, and the yields of it."""
    rng, now = random.Random(seed), time.time()
    state = pathlib.Path(q.home, ".local/state/tenure/default")
    samples, events = state / "run/samples", state / "events"
    for directory in (samples, events):
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    lines = []
    for gpu, device in enumerate(q.m.show()["devices"]):
        day = DAY[gpu % len(DAY)]
        write_day(samples / device["uuid"], day, now, rng)
        for before, (ago, kind, *_) in zip(day, day[1:]):
            if kind == "foreign" and before[1] == "held":
                user, command = GUESTS[(gpu + int(ago)) % len(GUESTS)]
                seen, freed = round(rng.uniform(28, 61), 1), round(rng.uniform(35, 90), 1)
                at = datetime.datetime.fromtimestamp(now - ago * 3600, datetime.timezone.utc).isoformat(timespec="milliseconds")
                lines.append({"time": at, "event": "yield", "instance": "default", "level": "info", "node": "vm", "gpu": gpu, "mig": None, "uuid": device["uuid"], "state": "busy",
                              "pid": 20000 + int(ago * 100), "user": user, "command": command, "bytes": 126 << 30, "hint_to_verdict_ms": seen, "verdict_to_freed_ms": freed,
                              "text": f"gpu {gpu}  yielded 126.0 GiB to PID {20000 + int(ago * 100)} ({user}, {command}): seen after {seen:.0f} ms, free after {freed:.0f} ms more"})
    lines.sort(key=lambda e: e["time"])
    for n, e in enumerate(lines):
        e["id"] = f"{int((now - 90000) * 1000)}.{n}"
    (events / "vm.jsonl").write_text("".join(json.dumps(e) + "\n" for e in lines))


