# SPDX-License-Identifier: MIT
"""docs/json.md names every member that the commands of the queue print, with its type, and none that they do not."""
import json
import os
import pathlib
import re

from machine import until
from patience import must_come, wait_for

PAGE = pathlib.Path(__file__).parents[2] / "docs/json.md"
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+[+-]\d\d:\d\d")
TYPES = {"number": (int, float), "text": str, "bool": bool, "list": list, "object": dict, "time": str}


def documented():
    """By command: {key: (may be missing, type, meaning)}."""
    pages = {}
    for section in re.split(r"(?m)^### ", PAGE.read_text(encoding="utf-8"))[1:]:
        rows = re.findall(r"(?m)^\| `(\w+)`( \*)? \| (\w+) \| ?(.*?) ?\|$", section.split("\n## ")[0])
        pages[re.match(r"`tenure (\w+) --json`", section)[1]] = {k: (bool(o), t, m) for k, o, t, m in rows}
    return pages


def check_value(where, value, kind, meaning):
    if value is None:
        assert "`null`" in meaning, where
    elif not (value == "all" and "text `all`" in meaning):
        assert isinstance(value, TYPES[kind]) and isinstance(value, bool) == (kind == "bool"), (where, value)
        assert kind != "time" or TIME.fullmatch(value), (where, value)
        for inner in value if kind == "list" else []:
            for key in inner if isinstance(inner, dict) else []:
                assert f"`{key}`" in meaning or "`others`" in meaning, (where, key)


def check(command, page, objects):
    seen = set()
    for o in objects:
        assert {k for k, (optional, _, _) in page.items() if not optional} <= set(o), (command, o)
        for key, value in o.items():
            assert key in page, f"{command} prints {key}, of which the page says nothing"
            check_value(f"{command}: {key}", value, *page[key][1:])
            seen.add(key)
    page = set(page) - {"unfiled"}  # needs a full disk: test_badday.py
    assert seen == page, f"{command}: never printed here: {page - seen}"


def test_members_of_allocations(queue):
    q = queue(gpus=1)
    q.start("--no-hold")
    pages = documented()
    first = json.loads(q.run("alloc", "a", "--json").stdout)
    assert wait_for(lambda: q.run("start", "a", "--json", "--", "no-such-program", check=False))
    assert wait_for(lambda: json.loads(q.run("allocs", "--json").stdout)["allocations"][0]["error"])
    second = json.loads(q.run("alloc", "b", "--wait", "0", "--json").stdout)
    check("alloc", pages["alloc"], [first, second])
    check("allocs", pages["allocs"], [json.loads(q.run("allocs", "--json").stdout)])
    assert set(json.loads(q.run("start", "b", "--json", "--", "true").stdout)) == set(pages["alloc"]) - {"reason"} | {"taken"}


def forecast_of(rows, i):
    """When the queue of an agent that has just been started is known."""
    return rows if any("forecast" in r for r in rows if r["id"] == i) else None


def rank_that_waits(world, root):
    """What is listed and shown of a rank that has its GPU, and waits for one on a node that others use."""
    a, b = (world.node(name, gpus=1, root=root) for name in ("alpha", "beta"))
    a.start()
    b.start()
    must_come(lambda: "beta" in a.others() and "alpha" in b.others())
    newcomer = b.m.start("--take", "10G", "--stay", "600")
    must_come(lambda: [d["state"] for d in (b.status() or {}).get("devices", [])] == ["busy"])
    i = a.submit("--nodes", "2", "-g", "1", "--", "true")
    must_come(lambda: any(t["state"] == "mustered" for t in a.runs().values()), 30)
    found = a.rows("-s", "running"), json.loads(a.run("show", f"{i}.1", "--json").stdout)
    a.run("stop", str(i), "--now")
    newcomer.kill()
    return found


def test_members(queue, world, tmp_path):
    ranks, rank = rank_that_waits(world, tmp_path / "gang")
    q = queue(gpus=3)
    q.start("--no-hold")
    pages = documented()

    def lines(*cmd):
        return [json.loads(line) for line in q.m.run(q.m.tenure, *cmd, check=False).stdout.splitlines()]

    def doc(*cmd):
        return json.loads(q.m.run(q.m.tenure, *map(str, cmd)).stdout)
    end = tmp_path / "end"
    submitted = lines("submit", "--json", "-g", "1", "-n", "used", "--", "sh", "-c",
                      f"{q.newcomer} --take 60% --stay 600 & {until(end)}; kill $!; wait")
    used = submitted[0]["id"]
    runs = q.submit("-g", "1", "--gpus-max", "1", "-l", "week", "-n", "runs", "--timeout", "1h", "--", "sleep", "600")
    array = q.submit("-g", "0", "-n", "array", "--array", "3-5%1", "--", "sh", "-c",
                     "[ $TENURE_ARRAY_INDEX != 3 ] && sleep 600; exit 3")
    sweep = q.submit("-g", "0", "--sweep", "a=1,2", "--on-end", "echo over", "--", "true")
    commands = tmp_path / "commands"
    commands.write_text("sleep 0\nfalse\n")
    listed = q.submit("-g", "0", "--from", commands)
    left = q.submit("-g", "0", "-n", "left", "-o", tmp_path / "out", "-e", tmp_path / "err", "--", "sh", "-c", "sleep 600 & exit 3")
    again = q.submit("-g", "0", "-r", "2", "--retry-every", "1", "--backoff", "1h", "--", "false")
    never = q.submit("-g", "all", "-l", "week", "--", "true")
    q.m.run(q.m.tenure, "pause", "week")
    waits = q.submit("-g", "0", "-l", "week", "--", "true")
    q.m.run(q.m.tenure, "stop", str(never))
    absent = q.submit("-g", "0", "--", "/no/such/program")
    ending = q.submit("-g", "0", "--grace", "1h", "--", "sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done")
    must_come(lambda: "ready" in (q.log(ending) or ""))
    q.m.run(q.m.tenure, "stop", str(ending))
    auto = q.submit("-n", "used", "-m", "auto", "--paused", "--", "true")
    ran = lines("run", "--json", "-g", "0", "-l", "other", "--", "true")
    imported = tmp_path / "command.txt"
    imported.write_text("true\n1,2\n")
    # How busy it is is known of whole seconds, and not of the first one.
    must_come(lambda: any((d["use"] or "").endswith(f" task {used}") and d["state"] == "lent" and d["for_s"] > 4 for d in q.now()["devices"]), 30)
    end.touch()
    seen = {}  # what is told of a task that runs in a look may not be in the next one: its agent and its shim have little time for it

    def sees(i, member):
        seen[i] = doc("show", i, "--json")
        return member in seen[i]
    assert wait_for(lambda: q.task(used)["state"] == "done" and "not_before" in q.task(again) and
                    q.task(listed)["state"] == q.task(absent)["state"] == "failed" and
                    "ending_since" in doc("show", ending, "--json") and sees(left, "command_exit") and sees(runs, "scaling") and
                    "on_end_log" in doc("show", f"{sweep}.2", "--json") and
                    any(r.get("element") == 2 and r["id"] == array for r in q.rows("-s", "running"))), q.rows()
    rows, shown = q.rows(), [
        seen.get(i) or doc("show", i, "--json") for i in (used, runs, array, f"{array}.1", f"{array}.2", f"{sweep}.2", left, again,
                                           never, waits, listed, f"{listed}.2", auto, ending)]
    logs = pathlib.Path(q.spool, "logs")
    logs.rename(logs.with_name("logs-before"))
    logs.touch()
    away = q.submit("-g", "0", "--", "true")
    q.wait(away, "done")
    shown.append(doc("show", away, "--json"))
    pathlib.Path(shown[-1]["log"]).unlink()
    logs.unlink()
    logs.with_name("logs-before").rename(logs)
    q.kill()
    os.kill(must_come(lambda: doc("show", left, "--json").get("processes"))[0]["pid"], 9)
    assert wait_for(lambda: "left_exit" in doc("show", left, "--json")), json.dumps(doc("show", left, "--json"))
    rows, shown = rows + q.rows(), shown + [doc("show", left, "--json")]
    q.start("--no-hold")
    check("list", pages["list"], ranks + rows + must_come(lambda: forecast_of(lines("list", "--json", "--when"), array)))
    check("show", pages["show"], [rank, *shown])
    for o in shown:
        assert all(f"`{key}`" in pages["list"]["counts"][2] for key in o.get("elements", {}))
    whys = [doc("why", i, "--json") for i in (used, waits, f"{array}.2")]
    check("why", pages["why"], whys + [doc("why", i, "--json") for i in (auto, f"{array}.3")])
    reasons = [r for w in whys for r in w["reasons"]]
    assert [(r["code"], r["lane"]) for r in reasons] == [("lane-paused", "week")]
    assert not (set().union(*reasons, {r["code"] for r in reasons}) -
                set(re.findall(r"`([\w-]+)`", PAGE.read_text().partition("## Why a task waits")[2])))
    history = doc("history", "--json")
    assert set(history) == {"tasks", "gpu_hours_by_lane", "gpu_hours_by_name"}
    check("history", pages["history"], history["tasks"])
    check("submit", pages["submit"], submitted)
    check("run", pages["run"], ran)
    check("import", pages["import"], lines("import", "--json", str(imported)))
    check("instances", pages["instances"], lines("instances", "--json"))
    q.m.run(q.m.tenure, "stop", "all", "--now")
