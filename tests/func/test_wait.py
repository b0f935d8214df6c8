# SPDX-License-Identifier: MIT
"""`tenure wait`: for what never comes by itself, and for what the agent does not know."""
import os
import re
import subprocess

from patience import HANG, must_come


def test_wait_for_what_the_agent_does_not_know(queue):
    """It has not seen it yet; or its queue was moved away, and this is another one."""
    q = queue()
    q.start("--no-hold")
    os.rename(q.spool, q.spool + ".moved")
    i = q.submit("-g", "0", "--", "true")
    waits = subprocess.Popen([q.m.tenure, "wait", "--timeout", "1m", str(i)], env={**q.m.env, "COLUMNS": "400"}, text=True,
                             stderr=subprocess.PIPE)
    # An agent that has not looked within a second and a half says so.
    assert re.search("not in the queue|has not seen it yet", waits.stderr.readline())
    waits.kill()
    waits.communicate()
    must_come(lambda: "not in the queue" in q.why(i))


def test_wait_says_what_never_comes_by_itself(queue):
    q = queue()
    q.start("--no-hold")
    paused = q.submit("-g", "0", "--paused", "--", "true")
    failed = q.submit("-g", "0", "--", "false")
    q.wait(failed, "failed")
    after = q.submit("-g", "0", "--after-any", str(paused), "--", "true")
    never = q.submit("-g", "0", "--after", str(paused), "--", "true")
    q.m.run(q.m.tenure, "edit", str(never), f"after={failed}", check=False)
    for i, said in ((paused, "is paused"), (after, f"waits until task {paused} has ended"), (never, "can never run")):
        p = subprocess.Popen([q.m.tenure, "wait", "--timeout", "1m", str(i)], env=q.m.env, text=True,
                             stderr=subprocess.PIPE)
        assert p.stderr.readline().startswith(f"tenure: note: task {i} {said}"), (i, said)
        p.kill()
        p.communicate()
    quiet = subprocess.Popen([q.m.tenure, "wait", "-q", str(paused)], env=q.m.env, text=True, stderr=subprocess.PIPE)
    p = subprocess.Popen([q.m.tenure, "wait", str(paused)], env=q.m.env, text=True, stderr=subprocess.PIPE)
    assert p.stderr.readline()
    q.m.run(q.m.tenure, "resume", str(paused))
    assert p.communicate(timeout=HANG)[1] == "" and quiet.communicate(timeout=HANG)[1] == ""
    assert (p.returncode, quiet.returncode) == (0, 0)
