# SPDX-License-Identifier: MIT
"""Error reports of the driver (XIDs): whose business they are, and what is not used any more."""
import os
import pathlib
import re
import signal

from holdlib import machine  # noqa: F401  (a fixture)
from machine import AS_A_JOB
from patience import HANG, must_come

BUS = "XID 79 (GPU has fallen off the bus)"


def test_trouble_and_what_is_none(machine):  # noqa: F811
    m = machine()
    h = m.hold()
    h.held(0, 1)
    other = m.device(1)["holder_pid"]
    m.ctl("xid", 0, 31)
    e = h.next("note", gpu=0)
    assert e["text"].startswith("gpu 0  XID 31 (GPU memory page fault): the doing of a program"), e
    assert m.device(0)["state"] == "held" and m.device(0)["xid"] is None
    m.ctl("xid", 0, 79)
    said = h.next("note", gpu=0)["text"]
    assert said.startswith(f"gpu 0  {BUS}: not used until")
    assert said.endswith("a reset needs tenure off --stop-tasks of every user of this machine first"), said
    assert h.next("release", gpu=0)["text"] == "gpu 0  released: " + BUS
    d = m.wait_state(0, "busy", reason="^XID 79")
    assert d["xid"] == 79
    must_come(lambda: not m.used()[0])  # the context goes a moment after the memory
    assert BUS in m.cmd("status").stdout
    assert m.device(1)["holder_pid"] == other and not h.seen("yield")
    # As it goes on: the card is gone, and after a reset it is back.
    m.ctl("lose", 0)
    m.wait_state(0, "busy", reason="cannot be seen: ")
    assert m.device(0)["reason"].endswith("; " + BUS)
    m.ctl("restore", 0)
    assert "counts no more: it was away and is back" in h.next("note", gpu=0)["text"]
    h.held(0)
    assert m.device(0)["xid"] is None


def test_a_pause_forgets_nothing(machine):  # noqa: F811
    """Ctrl-Z and fg are no word of the owner that it is to be used all the same."""
    m = machine()
    h = m.hold(prefix=AS_A_JOB)
    h.held(0, 1)
    m.ctl("xid", 0, 48)
    h.next("release", gpu=0)
    os.kill(h.pid, signal.SIGTSTP)
    must_come(lambda: pathlib.Path(f"/proc/{h.pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T")
    os.kill(h.pid, signal.SIGCONT)
    h.held(1)
    m.wait_state(0, "busy", reason="^XID 48")
    assert not [e for e in h.seen("note") if "counts no more" in e["text"]]


def test_driver_that_does_not_tell(machine):  # noqa: F811
    m = machine(gpus=1)
    assert re.search(r"ok +XIDs +the driver tells of the errors of 1 card$", m.cmd("doctor").stdout, re.M)
    m.ctl("fail", "nvmlDeviceRegisterEvents", "all")
    assert re.search(r"note +XIDs +the driver does not tell", m.cmd("doctor").stdout)
    h = m.hold()
    h.held(0)
    m.ctl("xid", 0, 79)
    m.ctl("lose", 0)
    m.wait_state(0, "busy", reason="cannot be seen")


def test_trouble_of_a_card_is_that_of_its_instances(machine):  # noqa: F811
    m = machine(gpus=1, options=("--mig", "1g.18gb:2"))
    h = m.hold()
    h.next("held")
    h.next("held")
    m.ctl("xid", 0, 95)
    assert {h.next("release")["mig"], h.next("release")["mig"]} == {0, 1}
    must_come(lambda: not m.holders())


def test_no_task_comes_there(queue):
    """Until `off` and `on` say that it is to be used all the same; what runs there runs on."""
    q = queue(gpus=2)
    q.start("--no-hold")
    first = q.submit("-g", "2", "--", q.newcomer, "--all-devices", "--take", "10%", "--stay", "600")
    q.begun(first)
    q.m.ctl("xid", "1", "48")
    told = must_come(lambda: (d := q.device(1))["xid"] == 48 and d)
    assert told["state"] == "lent" and "lent to task 1; XID 48" in told["reason"], told
    one, two = q.submit("--", "sleep", "600"), q.submit("-g", "2", "--", "true")
    q.m.run(q.m.tenure, "stop", str(first), "--now")
    q.wait(one, "running")
    assert "GPU 1 with an error (XID 48)" in q.why(two), q.why(two)
    q.m.run(q.m.tenure, "off")
    assert q.agent.wait(HANG) == 0
    q.start("--no-hold")
    assert must_come(lambda: q.device(1)["xid"] is None)
    assert "with an error" not in q.why(two)
