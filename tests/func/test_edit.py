# SPDX-License-Identifier: MIT
"""`tenure edit` and `priority`: of what waits, also while a batch of it runs."""
import json
import os
import signal
import subprocess

import pytest

from machine import skip_under_asan
from patience import Stopwatch, wait_for


def test_retry_edit_history(queue):
    q = queue()
    mark = os.path.join(q.home, "mark")
    i = q.submit("-g", "0", "-n", "second", "-l", "week", "--", "sh", "-c", f"sleep 1; [ -e {mark} ]")
    edited = q.submit("-g", "7", "-n", "edited", "--", "sh", "-c", "sleep 0.2")
    q.m.run(q.m.tenure, "edit", str(edited), "gpus=1", "memory=1G", "timeout=10m", "name=other")
    shown = json.loads(q.m.run(q.m.tenure, "show", str(edited), "--json").stdout)["task"]
    assert shown["name"] == "other" and shown["memory"] in (1 << 30, "1G") and q.task(edited)["gpus"] == 1
    for bad, words in (("nokey=3", "nokey"), ("memory=lots", "memory"), ("gpus", "KEY=VALUE"),
                       ("memory=20", "has no unit"), ("shared=perhaps", "true or false")):
        failed = q.m.run(q.m.tenure, "edit", str(edited), bad, check=False)
        assert failed.returncode == 2 and words in failed.stderr, failed
    q.m.run(q.m.tenure, "edit", str(edited), "priority=3", "begin=2099-01-01", "paused=yes")
    row = q.task(edited)
    assert (row["priority"], row["state"], row["not_before"][:10]) == (3, "paused", "2099-01-01"), row
    q.m.run(q.m.tenure, "edit", "other", "paused=no", "begin=now")
    assert q.task(edited)["state"] == "pending" and "not_before" not in q.task(edited)
    assert "has not ended" in q.m.run(q.m.tenure, "retry", str(i), check=False).stderr
    watch = Stopwatch()
    q.start("--no-hold")
    q.wait(i, "failed")
    q.wait(edited, "done")
    late = q.m.run(q.m.tenure, "edit", "other", "gpus=2", check=False)
    assert late.returncode == 1 and "only a task that waits" in late.stderr
    open(mark, "w", encoding="utf-8").close()
    assert q.m.run(q.m.tenure, "retry", str(i)).stdout == f"{i} second is requeued\n"
    q.wait(i, "done")
    doc = json.loads(q.m.run(q.m.tenure, "history", "--json").stdout)
    rows = {t["id"]: t for t in doc["tasks"]}
    assert 2 <= rows[i]["ran_s"] < 4 * watch.stretch() and rows[i]["gpu_hours"] == 0 and rows[i]["lane"] == "week"
    assert 0.2 / 3600 <= rows[edited]["gpu_hours"] < 2 / 3600 * watch.stretch()
    assert doc["gpu_hours_by_name"]["other"] == pytest.approx(rows[edited]["gpu_hours"])
    assert set(doc["gpu_hours_by_lane"]) == {"week", "-"}
    text = q.m.run(q.m.tenure, "history", "--since", "1h").stdout
    assert "GPU-H" in text and "other" in text


def test_batch_changed_while_it_runs(queue, tmp_path):
    """A batch that is renamed and edited goes on with the rest, each of it once."""
    q = queue()
    q.start("--no-hold")
    mark, go = tmp_path / "mark", tmp_path / "go"
    i = q.submit("-g", "0", "--array", "1-40%4", "--", "sh", "-c",
                 f"echo $TENURE_ARRAY_INDEX >> {mark}; "
                 f"[ $TENURE_ARRAY_INDEX -lt 20 ] || until [ -e {go} ]; do sleep 0.02; done")
    for n in range(8):
        q.m.run(q.m.tenure, "priority", str(n), str(i))
        q.m.run(q.m.tenure, "pause", str(i))
        q.m.run(q.m.tenure, "resume", str(i))
    assert q.task(i)["state"] != "done"
    q.m.run(q.m.tenure, "edit", str(i), "memory=3G")
    go.touch()
    q.wait(i, "done")
    assert sorted(mark.read_text().split(), key=int) == [str(n) for n in range(1, 41)]


def test_batch_edited_before_a_retry(queue, tmp_path):
    """What runs keeps what it has; its next attempt is as the batch is by then."""
    q = queue()
    q.start("--no-hold")
    go, mark = tmp_path / "go", tmp_path / "mark"
    i = q.submit("-g", "1", "-r", "1", "--array", "1-2", "--", "sh", "-c",
                 f"echo $TENURE_ATTEMPT $CUDA_VISIBLE_DEVICES >> {mark}; "
                 f"while [ ! -e {go} ]; do sleep 0.05; done; [ $TENURE_ATTEMPT = 2 ]")
    assert wait_for(lambda: mark.exists() and len(mark.read_text().splitlines()) == 2)
    q.m.run(q.m.tenure, "edit", str(i), "gpus=2", "lane=week", "memory=1G", "timeout=10m")
    q.wait(q.submit("-g", "0", "--", "true"), "done")  # what was written before is known by then
    go.touch()
    q.wait(i, "done")
    assert sorted(mark.read_text().splitlines()) == ["1 0", "1 1", "2 0,1", "2 0,1"]


def test_edit_between_two_looks_of_an_agent(queue):
    """Who sees neither of an edit's renames sees that the file says something else all the same."""
    q = queue()
    q.start("--no-hold")
    hours = q.submit("-g", "0", "--", "sleep", "3600")
    after = q.submit("-g", "0", "--after", str(hours), "--", "true")
    assert wait_for(lambda: f"until task {hours} has ended" in q.m.run(q.m.tenure, "why", str(after)).stdout)
    os.kill(q.agent.pid, signal.SIGSTOP)
    other = q.submit("-g", "0", "--paused", "--", "true")
    q.m.run(q.m.tenure, "edit", str(after), f"after={other}")
    q.m.run(q.m.tenure, "edit", str(after), f"after={hours}")
    q.m.run(q.m.tenure, "edit", str(after), f"after={other}")
    os.kill(q.agent.pid, signal.SIGCONT)
    assert wait_for(lambda: f"until task {other} has ended" in q.m.run(q.m.tenure, "why", str(after)).stdout)
    q.m.run(q.m.tenure, "resume", str(other))
    q.wait(after, "done")


# Each of the first opens of a task's file, as many as $MOVES has lines, comes after the next line was run.
MOVED = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
long syscall(long number, ...)
{
	static char *moves;
	long (*real)(long, ...) = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
	long a[6];
	va_list list;

	va_start(list, number);
	for (int i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	if (!moves) {
		moves = strdup(getenv("MOVES"));
		unsetenv("LD_PRELOAD");
	}
	if (number == SYS_openat2 && strchr((const char *)a[1], ',') && *moves) {
		char *move = moves;

		moves += strcspn(moves, "\n");
		if (*moves)
			*moves++ = '\0';
		if (system(move))
			abort();
	}
	return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
"""


@pytest.mark.parametrize("words", [("show", "--json", "1"), ("why", "--json", "1"), ("show", "job"), ("why", "job")], ids=" ".join)
@pytest.mark.parametrize("moves", [1, 3])
def test_a_task_that_moves_while_it_is_looked_at(queue, build, tmp_path, words, moves):
    """Its file was not there for who had just found it, so that it was said not to be there at all."""
    skip_under_asan(build)
    (tmp_path / "moved.c").write_text(MOVED)
    subprocess.run(["cc", "-shared", "-fPIC", "-o", tmp_path / "moved.so", tmp_path / "moved.c", "-ldl"], check=True)
    q = queue()
    q.submit("-g", "0", "-n", "job", "--", "true")
    edits = "\n".join(f"{q.m.tenure} edit 1 priority={100 + n} >/dev/null" for n in range(moves))
    q.m.run(q.m.tenure, *words, env={**q.m.env, "LD_PRELOAD": str(tmp_path / "moved.so"), "MOVES": edits})
    assert q.task(1)["priority"] < 500  # it has moved
