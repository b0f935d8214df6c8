# SPDX-License-Identifier: MIT
"""What a scenario of the campaign works with: simulated nodes that serve one queue, tasks that bear witness to having
run, and the oracles that say afterwards whether everything that was promised was kept.

Nothing here looks into the program: it is started from outside, as its users do it, and judged by the files of the
spool (docs/spool.md), by its commands, and by what the tasks themselves have written on a disk of the machine.
"""
import collections
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess
import sys
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "func"))
import queuelib  # noqa: E402
from fusefs import CannotMount, Mount  # noqa: E402
from machine import Machine  # noqa: E402
from patience import wait_for  # noqa: E402
from poolsite import Site  # noqa: E402, F401

# A queue in which nothing has moved for so long, although nothing runs, does not move any more.
QUIET_S = 25
EMPTY_S = 60  # more for a claim that says nothing: on a network file system it is left alone for so long at least (docs/spool.md)
# A task that is stuck is waited for so long, whatever moves beside it.
LIMIT_S = 240
COMMAND_S = 60
ENDED = ("done", "failed", "cancelled")


class Skip(Exception):
    """What this scenario needs is not on this machine."""


def processes():
    """All of this machine, or of the campaign's PID namespace where it has one."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def argv_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return [b""]


def role_of(pid):
    """agent, guard, holder, shims (what starts them), shim; None: something else."""
    argv = argv_of(pid)
    name = argv[0].rpartition(b"/")[2].decode(errors="replace")
    for prefix, role in (("tenure-hold", "holder"), ("tenure-shims", "shims"), ("tenure-shim", "shim")):
        if name.startswith(prefix):
            return role
    return {b"agent": "agent", b"guard": "guard"}.get(argv[1]) if name == "tenure" and len(argv) > 1 else None


def environment_has(pid, text):
    try:
        return text in pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False


class Node(queuelib.Node):
    """A simulated machine of its own, and processes that believe to be on another host (tests/func/othernode.c)."""
    options = ("--refresh", "300ms")

    def __init__(self, world, name, number, gpus, root):
        super().__init__(Machine(world.build, world.env, world.tmp, gpus, 0.1), world.tmp / f"{name}.out")
        self.world, self.name, self.root = world, name, root
        # What its processes have in their environment, and no process of another world.
        self.mark = f"TENURE_STATE_DIR={world.tmp}/state-{name}\0".encode()
        self.env = {**self.m.env, "LD_PRELOAD": str(world.build / "tests/othernode.so"),
                    "OTHER_NODE": f"{name},{number}", "OTHER_FS": "local",
                    "TENURE_BEAT": world.beat, "TENURE_EXPIRE": world.expire,
                    "TENURE_ROOT": str(root), "TENURE_STATE_DIR": str(world.tmp / f"state-{name}")}
        self.agent_args = ["--no-hold"]

    def run(self, *args, timeout=COMMAND_S, through=(), check=False, **more):
        """A command of the user; never raises for what it says, whatever `check` is, because faults may be on."""
        try:
            return subprocess.run([*map(str, through), self.m.tenure, *map(str, args)], env={**self.env, **more}, text=True,
                                  stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired as e:
            return subprocess.CompletedProcess(e.cmd, 124, "", f"no answer in {timeout} s")

    def popen(self, *args, through=()):
        return subprocess.Popen([*map(str, through), self.m.tenure, *map(str, args)], env=self.env, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def start(self, *args):
        """Whether it serves is seen by World.ready(): that it does not is a violation."""
        return self.start_unready(*self.agent_args, *args)

    def serves(self):
        return self.status() is not None

    def processes(self, *roles):
        """Those of this node that are agent, guard, ...; without roles all."""
        found = []
        for pid in processes():
            role = role_of(pid)
            if (role in roles or (not roles and role)) and environment_has(pid, self.mark):
                found.append(pid)
        return found

    def signal(self, signum, *roles):
        pids = self.processes(*roles)
        for pid in pids:
            try:
                os.kill(pid, signum)
            except ProcessLookupError:
                pass
        return len(pids)

    def kill_agent(self):
        if self.agent and self.prefix:
            self.signal(signal.SIGKILL, "agent")  # who traces it goes on for the sake of the others
        elif self.agent:
            self.agent.kill()
            self.agent.wait()

    def output(self):
        return self.out.read_text(errors="replace") if self.out.exists() else ""


class Phases(threading.Thread):
    """While the block runs, `fault(rng)` sets a fault, for a short time, and clears it again, over and over."""

    def __init__(self, rng, fault, clear, on=(0.05, 0.8), off=(0.05, 0.8)):
        super().__init__(daemon=True)
        self.rng, self.fault, self.clear, self.on, self.off = rng, fault, clear, on, off
        self.over = threading.Event()
        self.broken = None

    def run(self):
        try:
            while not self.over.wait(self.rng.uniform(*self.off)):
                self.fault(self.rng)
                self.over.wait(self.rng.uniform(*self.on))
                self.clear()
        except Exception as e:  # told by who waits for it
            self.broken = e

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join()
        self.clear()
        if self.broken:
            raise self.broken


class Task:
    """What was promised to whom submitted it."""

    def __init__(self, tag, kind, names, expect="done", ends=1, parent=None):
        self.tag, self.kind, self.names, self.expect, self.ends = tag, kind, names, expect, ends
        self.id = None  # the number that was acknowledged; None: none was (a raw file)
        self.parent = parent
        self.may_fail = False  # a fault may have failed it, and that was asked for (no_requeue)

    def __repr__(self):
        return f"{self.kind} {self.tag} (id {self.id})"


Line = collections.namedtuple("Line", "event tag id attempt ms pid node code")


class World:
    """A directory with a spool, nodes that serve it, and what was submitted."""

    beat, expire = "200ms", "5s"

    def __init__(self, build, env, tmp, rng, say):
        self.build, self.tmp, self.rng, self.say = build, tmp, rng, say
        tmp.mkdir(mode=0o700)
        home = tmp / "home"
        home.mkdir(mode=0o700)
        (tmp / "locks").mkdir()
        self.env = {**env, "HOME": str(home), "TENURE_SITE_CONFIG": str(home / "site.yaml")}
        self.root = tmp / "spool"
        self.spool = self.root / "default"
        self.nodes, self.tasks, self.violations, self.points = [], [], [], 0
        self.refused = 0  # submissions that were answered with an error: what became of them is nobody's promise
        self.shims_killed = 0
        self.agents_killed = 0
        self.waiting = []
        self.mounts = []
        self.count = 0

    # --- nodes ---

    def node(self, name, gpus=2, root=None):
        self.nodes.append(Node(self, name, 4026540001 + len(self.nodes), gpus, root or self.root))
        return self.nodes[-1]

    def stepper(self, *how):
        return [str(self.build / "tests/stepper"), *map(str, how)]

    def mount(self, name, *options):
        try:
            self.mounts.append(Mount(self.build, self.root, self.tmp / f"mnt-{name}", *options))
        except CannotMount as e:
            raise Skip(str(e)) from e
        return self.mounts[-1]

    def begin(self, number, *mount_options, mounted=False, **more):
        for i in range(number):
            root = None
            if mounted:
                self.root.mkdir(mode=0o700, exist_ok=True)
                root = self.mount(f"node{i + 1}", f"seed={self.rng.randrange(1 << 32)}", *mount_options).path
            node = self.node(f"node{i + 1}", root=root, **more)
            if mount_options:  # that remember: what nobody's disk does
                del node.env["OTHER_FS"]
        for n in self.nodes:
            n.start()
        self.ready()

    def ready(self):
        for n in self.nodes:
            if not wait_for(n.serves, COMMAND_S, 0.1):
                self.violation(f"the agent of {n.name} does not serve the queue {COMMAND_S} s after its start: "
                               f"{n.output()[-400:]}")

    def violation(self, text):
        self.violations.append(text)
        self.say(f"violation: {text}")

    # --- tasks ---

    def witness(self, tag, seconds, *more):
        return [str(self.build / "tests/witness"), str(self.tmp), tag, f"{seconds:.2f}", *map(str, more)]

    def tag(self):
        self.count += 1
        return f"t{self.count}"

    def submit(self, node, kind, options, command, elements=0, **more):
        """elements: 0, or how many; `command` bears witness with the tag {TAG}."""
        tag = self.tag()
        names = [None] if not elements else list(range(1, elements + 1))
        task = Task(tag, kind, names, **more)
        done = node.run("submit", *options, *[c.replace("{TAG}", tag) for c in command])
        if done.returncode == 0:
            assert done.stdout.split(), done
            task.id = int(done.stdout.split()[0])
            self.tasks.append(task)
            return task
        self.refused += 1
        return None

    def after_of(self):
        known = [t for t in self.tasks if t.id and t.expect == "done" and not t.may_fail]
        return self.rng.choice(known) if known else None

    def submit_kind(self, kind, node):
        """One task of a kind, or a few where one makes no sense; what could be acknowledged of it is in self.tasks."""
        rng = self.rng
        seconds = rng.choice([0, 0.05, 0.3, 0.8])
        run = ["--", *self.witness("{TAG}", seconds)]
        cheap = ["-g", "0"]
        n = rng.randint(3, 12)
        if kind == "plain":
            self.submit(node, kind, [], run)
        elif kind == "cpu":
            self.submit(node, kind, cheap, run)
        elif kind == "multi":
            self.submit(node, kind, ["-g", "2"], run)
        elif kind == "shared":
            self.submit(node, kind, ["-m", "10G", "--shared", "--env", "WITNESS_SHARES=1"], run)
        elif kind == "from":
            tag = f"t{self.count + 1}"
            lines = self.tmp / f"lines-{tag}"
            lines.write_text(f"{shlex.join(self.witness(tag, seconds))}\n" * n)
            self.submit(node, kind, [*cheap, "--from", lines], [], n)
        elif kind == "array":
            self.submit(node, kind, [*cheap, "--array", f"0-{n - 1}"], run, n)
        elif kind == "array-gpu":
            self.submit(node, kind, ["--array", f"1-{n}"], run, n)
        elif kind == "array-limit":
            self.submit(node, kind, [*cheap, "--array", f"1-{n}%2"], run, n)
        elif kind == "sweep":
            self.submit(node, kind, [*cheap, "--sweep", "a=1..3", "--sweep", "b=x,y"], run, 6)
        elif kind == "lane":
            for _ in range(3):
                self.submit(node, kind, [*cheap, "-l", "one"], run)
        elif kind == "after":
            other = self.after_of()
            if other:
                self.submit(node, kind, [*cheap, rng.choice(["--after", "--after-any"]), other.id], run, parent=other)
        elif kind == "retries":
            self.submit(node, kind, [*cheap, "-r", "3", "--backoff", "1s"],
                        ["--", *self.witness("{TAG}", seconds, 2)], ends=3)
        elif kind == "fails":
            self.submit(node, kind, cheap, ["--", *self.witness("{TAG}", seconds, -1)], expect="failed")
        elif kind == "array-retries":
            self.submit(node, kind, [*cheap, "-r", "forever", "--backoff", "1s", "--array", f"1-{n}"],
                        ["--", *self.witness("{TAG}", 0.05, 1)], n, ends=2)
        elif kind == "preemptible":
            self.submit(node, kind, ["--preemptible"], run)
        elif kind == "no-requeue":
            t = self.submit(node, kind, [*cheap, "--no-requeue"], run)
            if t:
                t.may_fail = True
        elif kind == "daemon":
            self.submit(node, kind, cheap, ["--", *self.witness("{TAG}", 0.05, 0, 0.6)])
        elif kind == "raw":
            self.drop_raw(seconds)
        else:
            raise KeyError(kind)

    SINGLE = ("plain", "cpu", "multi", "shared", "array-limit", "lane", "after", "retries", "fails", "preemptible",
              "no-requeue", "daemon", "raw")
    BATCHES = ("from", "array", "array-gpu", "array-retries", "sweep")
    KINDS = SINGLE + BATCHES

    def drop_raw(self, seconds):
        """A file that is moved into pending/, as any other program may do it."""
        tag = self.tag()
        made = self.tmp / f"raw-{tag}"
        command = shlex.join(self.witness(tag, seconds))
        if self.rng.random() < 0.5:
            name = f"{tag}.json"
            made.write_text(json.dumps({"script": f"#!/bin/sh\n{command}\n", "name": tag, "gpus": 0}))
        else:
            name = f"{self.rng.randint(1, 900):03d}_{tag}.sh"
            made.write_text(f"#!/bin/sh\n{command}\n")
        task = Task(tag, "raw", [None])
        (self.tmp / f"raw-{tag}").rename(self.spool / "pending" / name)
        self.tasks.append(task)

    def mix(self, n, kinds=KINDS, faults=lambda: None):
        """n tasks of kinds in turn, each by a node that is chosen at random, with what may happen in between."""
        order = list(kinds) * (n // len(kinds) + 1)
        self.rng.shuffle(order)
        for kind in order[:n]:
            self.submit_kind(kind, self.rng.choice(self.nodes))
            faults()
        self.points += n

    def where(self, i):
        """DIRECTORY/NAME of a task in the spool, or ''; one that is just being moved is in the other place."""
        for _ in range(20):
            for d in ("pending", "running"):
                for name in self.names(d):
                    if re.match(rf"{d}/\d{{5}},{i},", name):
                        return name
            for state in ENDED:
                for path in (self.spool / state).glob(f"**/*,{i},*"):
                    if re.match(rf"\d{{5}},{i},", path.name):
                        return f"{state}/{path.name}"
            time.sleep(0.02)
        return ""

    def wait_for_all(self, node):
        """`tenure wait` for what there is now; checked by settle()."""
        ids = [t.id for t in self.tasks if t.id]
        if ids:
            self.waiting.append((node, node.popen("wait", "-q", *ids)))

    # --- oracles ---

    def ledger(self):
        path = self.tmp / "ledger"
        lines = []
        for text in path.read_text().splitlines() if path.exists() else []:
            w = text.split()
            lines.append(Line(w[0], w[1], w[2], int(w[3]), int(w[4]), int(w[5]), w[6], int(w[7])))
        return lines

    def names(self, *dirs):
        """What lies in these directories of the spool."""
        found = []
        for d in dirs:
            try:
                found += [f"{d}/{n}" for n in os.listdir(self.spool / d) if not n.startswith(".")]
            except FileNotFoundError:
                pass
        return found

    def ended(self):
        """id -> done, failed or cancelled."""
        found = {}
        for state in ENDED:
            for path in (self.spool / state).glob("**/*,*"):
                match = re.match(r"\d{5},(\d+),", path.name)
                if match:
                    found[int(match[1])] = state
        return found

    def settle(self, quiet=QUIET_S, limit=LIMIT_S):
        """Everything is filed: pending/ and running/ are empty. What is not, although nothing moves any more, is a
        violation, unless `tenure why` says a reason that is true."""
        begun = moved = looked = time.monotonic()
        last = None
        while True:
            # A bare file of somebody's is on its way through tmp/.
            open_ = self.names("pending", "running") + [n for n in self.names("tmp") if n.startswith("tmp/raw,")]
            if not open_:
                break
            now = time.monotonic()
            size = os.path.getsize(self.tmp / "ledger") if (self.tmp / "ledger").exists() else 0
            state = (sorted(open_), size)
            if state != last or now - looked > 5:  # who does not get to look cannot say that nothing moved
                last, moved = state, now
            looked = now
            if now - moved > quiet + (EMPTY_S if self.has_empty_claim() else 0) or now - begun > limit:
                self.stuck(open_)
                break
            time.sleep(0.2)
        self.check_waits()
        self.check_ledger()
        self.check_rest()

    def has_empty_claim(self):
        """Of an element, whose agent could neither write it nor remove it: it may be anybody's who is just writing it."""
        for name in self.names("running"):
            try:
                if (self.spool / name).stat().st_size == 0:
                    return True
            except FileNotFoundError:
                pass
        return False

    def stuck(self, open_):
        for name in open_:
            match = re.match(r"(?:pending|running)/(?:\d{5},)?(\d+)", name)
            why = " ".join(self.nodes[0].run("why", match[1]).stdout.split()) if match else "not a task's name"
            if name.startswith("pending/") and match and self.is_true(name, why):
                continue
            self.violation(f"{name} goes no further, and nothing runs that could end; why: {why!r}")

    def is_true(self, name, why):
        """Whether a reason that holds while nothing runs anywhere is given, and holds."""
        flags = re.search(r",f([a-z]+)", name)
        if "is paused" in why and "lane" not in why:
            return bool(flags) and "p" in flags[1]
        lane = re.search(r",l([^,]+),n", name)
        if "lane" in why and "paused" in why:
            return bool(lane) and (self.spool / "lanes" / lane[1]).exists()
        never = re.search(r"can never run.* task (\d+) (has not ended well|is not there any more)", why)
        if never:
            is_now = self.ended().get(int(never[1]))
            return is_now in ("failed", "cancelled") if never[2].startswith("has") else not is_now
        return False

    def check_waits(self):
        """Whoever waits for a task is told when it is filed; there is nothing to wait for where one is stuck."""
        end = time.monotonic() + (1 if self.violations else 20)
        for node, p in self.waiting:
            try:
                p.communicate(timeout=max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.violation(f"on {node.name} `{shlex.join(p.args[1:])}` has not returned")
                p.kill()
                p.communicate()
        self.waiting = []

    def check_ledger(self):
        """Nothing twice, nothing lost, each attempt counted."""
        ended = self.ended()
        by_element = collections.defaultdict(list)
        for line in self.ledger():
            if line.event in ("twice", "device-twice"):
                self.violation(f"{line.event}: task {line.id} attempt {line.attempt} on {line.node}, PID {line.pid}")
                continue
            by_element[line.tag, line.id].append(line)
        again = 0
        preemptible = {t.tag for t in self.tasks if t.kind == "preemptible"}  # it may be stopped as it ends
        for (tag, i), lines in by_element.items():
            good = [n for n, line in enumerate(lines) if line.event == "end" and not line.code]
            if good and tag not in preemptible and any(line.event == "start" for line in lines[good[0]:]):
                again += 1
                if again > self.shims_killed:
                    self.violation(f"task {i} ({tag}) ran again after it had ended well: "
                                   f"{[(x.event, x.attempt, x.node, x.ms) for x in lines]}")
        for task in self.tasks:
            self.check_task(task, ended, by_element)

    def check_task(self, task, ended, by_element):
        def lines_of(event):
            return [line for (tag, _), lines in by_element.items() if tag == task.tag
                    for line in lines if line.event == event]
        if task.id is None:
            if not lines_of("end"):
                self.violation(f"{task} has never run")
            return
        state = ended.get(task.id)
        if state == "failed" and task.may_fail and (self.shims_killed or (self.agents_killed and not lines_of("start"))):
            return  # an agent that goes between the claim and the start leaves nothing to tell whether it began
        if state not in ([task.expect] if isinstance(task.expect, str) else task.expect):
            where = [n for n in self.names("pending", "running") if re.search(rf"[/,]{task.id}[.,]", n)]
            self.violation(f"{task} was acknowledged and is {state or f'not filed ({where})'}, not {task.expect}")
            return
        for n in task.names if state != "cancelled" else ():
            name = f"{task.id}.{n}" if n else str(task.id)
            ends = [line for line in by_element[task.tag, name] if line.event == "end"]
            if not ends:
                self.violation(f"{task}, element {n}: filed as {state}, and it has not run to its end")
            elif len(ends) < task.ends and not self.shims_killed:
                self.violation(f"{task}, element {n}: {len(ends)} ends of {task.ends} attempts")

    def check_rest(self):
        """Commands agree that nothing is left, and nothing is left of what ran."""
        for node in self.nodes:
            done = node.run("list", "-s", "running", "--json")
            if done.returncode == 0 and done.stdout.strip() and not self.names("running"):
                self.violation(f"`tenure list` on {node.name} shows as running: {done.stdout.strip()[:300]}")
            if self.names("running") or not node.agent or node.agent.poll() is not None:
                continue
            if not wait_for(lambda n=node: not n.processes("shim"), 20, 0.2):
                self.violation(f"shims are left on {node.name}: {node.processes('shim')}")

    # --- the end ---

    def close(self):
        for m in self.mounts:
            m.close()
        for p in [p for _, p in self.waiting] + [n.agent for n in self.nodes if n.agent]:
            if p.poll() is None:
                p.kill()
        mine = b"HOME=" + str(self.tmp / "home").encode() + b"\0"
        ours = f"{self.tmp}/".encode()

        def left():
            return [p for p in processes() if p != os.getpid() and
                    (environment_has(p, mine) or any(ours in a for a in argv_of(p)))]

        def end_them():
            for pid in left():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            return not left()

        wait_for(end_them, 10, 0.05)
        for p in [p for _, p in self.waiting] + [n.agent for n in self.nodes if n.agent] + \
                [n.m.p for n in self.nodes]:
            try:
                p.wait(5)
            except subprocess.TimeoutExpired:
                pass
