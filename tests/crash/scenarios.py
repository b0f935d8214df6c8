# SPDX-License-Identifier: MIT
"""The scenarios of the campaign. Each is a function of a World; what it draws comes from the world's seed alone."""
import contextlib
import errno
import os
import random
import re
import shutil
import signal
import subprocess
import time

from world import Phases, Site, Skip, World, wait_for

SCENARIOS = {}
KILLED = 137
# What a client held while it changed a task, and died, is freed after a minute (docs/spool.md).
FORGOTTEN_S = 90


class Scenario:
    """run(world): world.long is true in the long form, in which it may take minutes."""

    def __init__(self, name, run, long_only, slow):
        self.name, self.run, self.long_only, self.slow = name, run, long_only, slow
        self.what = run.__doc__


def scenario(name, long_only=False, slow=False):
    """slow: it mostly waits, and begins before the others."""
    def register(run):
        SCENARIOS[name] = Scenario(name, run, long_only, slow)
        return run
    return register


# --- several nodes, tasks of each kind -------------------------------------------------------------

def queue_of_nodes(w, nodes, tasks, kinds=World.KINDS, faults=lambda: None):
    w.begin(nodes)
    w.mix(tasks, kinds, faults)
    for n in w.nodes:
        w.wait_for_all(n)
    w.settle()


@scenario("two-nodes")
def two_nodes(w):
    """tasks of each kind on two nodes"""
    queue_of_nodes(w, 2, 20)


@scenario("three-nodes", long_only=True)
def three_nodes(w):
    """tasks of each kind on three nodes"""
    queue_of_nodes(w, 3, 60)


@scenario("arrays")
def arrays(w):
    """arrays and batches on two nodes, and what depends on them"""
    queue_of_nodes(w, 2, 24, ("array", "array-gpu", "from", "sweep", "after"))


def restart(w, *roles):
    """Kills a process of one of these roles on one node; who is its agent is followed by another at once."""
    node, role = w.rng.choice(w.nodes), w.rng.choice(roles)
    if role == "agent":
        w.agents_killed += 1
        node.kill_agent()
        node.start()
    elif role in ("shim", "shims"):
        w.shims_killed += node.signal(signal.SIGKILL, role)
    else:
        node.signal(signal.SIGKILL, role)
    w.points += 1


def killing(name, nodes, tasks, roles, doc, **more):
    def run(w):
        def faults():
            time.sleep(w.rng.uniform(0, 0.4))
            if w.rng.random() < 0.4:
                restart(w, *roles)
        queue_of_nodes(w, nodes, tasks, World.KINDS, faults)
    run.__doc__ = doc
    scenario(name, **more)(run)


killing("kill-agents", 2, 20, ("agent", "guard"), "agents and guards of two nodes are killed while they work")
killing("kill-shims", 2, 20, ("shim", "shims", "agent"),
        "what starts and supervises tasks is killed, and agents with it")
killing("kill-three", 3, 60, ("agent", "guard"), "agents and guards of three nodes are killed", long_only=True)


# --- the spool on a network file system that has its bad days ----------------------------------------

def on_mounts(w, tasks, kinds, fault, *options, kills=(), on=(0.05, 0.8)):
    """Two nodes with a mount each; fault(mount, rng) is in force on one of them, or both, for moments."""
    w.begin(2, *options, mounted=True)

    def set_one(rng):
        for m in rng.sample(w.mounts, rng.randint(1, 2)):
            fault(m, rng)

    def clear():
        for m in w.mounts:
            m.clear()

    def kill():
        time.sleep(w.rng.uniform(0, 0.3))
        if kills and w.rng.random() < 0.3:
            restart(w, *kills)

    with Phases(random.Random(w.rng.random()), set_one, clear, on=on):
        w.mix(tasks, kinds, kill)
        end = time.monotonic() + 5
        while w.names("pending", "running") and time.monotonic() < end:
            time.sleep(0.1)
    w.points += sum(m.met() for m in w.mounts)
    for n in w.nodes:
        w.wait_for_all(n)
    w.settle()


ERRORS = (errno.EIO, errno.ESTALE, errno.EINTR)
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE, errno.EINTR)


def permille(rng):
    return rng.choice([100, 300, 1000])


def remembering(name, *options, **more):
    def run(w):
        on_mounts(w, 20, World.KINDS, lambda m, rng: None, *options)
    run.__doc__ = f"two clients of a file server that remember for 3 s: {', '.join(options)}"
    scenario(name, **more)(run)


remembering("cache-negative", "negative=3")
remembering("cache-entry", "entry=3")
remembering("cache-attr", "attr=3", "dirs")
CACHES = ("negative=3", "entry=3", "attr=3", "dirs")
remembering("cache-all", *CACHES)


def reads_that_fail(w, errors):
    on_mounts(w, 20, World.KINDS, lambda m, rng: m.rule(
        rng.choice(["reads", "open", "read", "getattr", "readdir"]), f"error={rng.choice(errors)}", permille(rng)),
        kills=("agent",))


@scenario("read-faults")
def read_faults(w):
    """reads fail in short phases, also where an agent starts that was just killed"""
    reads_that_fail(w, ERRORS)


@scenario("read-absent")
def read_absent(w):
    """in short phases files that are there are not found, also where an agent starts that was just killed"""
    reads_that_fail(w, (errno.ENOENT,))


def writes_that_fail(w, *caches):
    on_mounts(w, 20, World.KINDS, lambda m, rng: m.rule(
        rng.choice(["writes", "create", "write", "fsync", "rename", "unlink", "mkdir", "flush"]),
        f"error={rng.choice(FULL)}", permille(rng)), *caches, kills=("agent",))


@scenario("write-faults")
def write_faults(w):
    """writes fail in short phases, also where an agent starts that was just killed"""
    writes_that_fail(w)


@scenario("write-faults-cache", long_only=True)
def write_faults_cache(w):
    """the same by two clients of a file server that remember for 3 s"""
    writes_that_fail(w, *CACHES)


def answers_that_lie(w, calls, *caches):
    def lie(m, rng):
        m.rule(rng.choice([*calls, ",".join(calls)]),
               rng.choice(["again", "again", f"lie={errno.EIO}", f"lie={errno.ETIMEDOUT}"]), permille(rng))
    on_mounts(w, 20, World.KINDS, lie, *caches)


@scenario("lies")
def lies(w):
    """calls that were made are answered with an error, or as if they had been sent twice"""
    answers_that_lie(w, ["rename", "unlink", "create", "mkdir", "link"])


@scenario("lies-cache", long_only=True)
def lies_cache(w):
    """the same by two clients of a file server that remember for 3 s

    Not where a file is created: an empty claim of an element may be anybody's, and is left alone for `expire`, which on
    such mounts is a minute at least.
    """
    answers_that_lie(w, ["rename", "unlink", "mkdir", "link"], *CACHES)


@scenario("slow-calls")
def slow_calls(w):
    """each call of some kind takes up to half a second"""
    on_mounts(w, 20, World.KINDS, lambda m, rng: m.rule(
        rng.choice(["all", "reads", "writes", "rename", "create", "fsync"]), f"delay={rng.randint(5, 500)}",
        permille(rng)), kills=("agent",))


@scenario("hangs", slow=True)
def hangs(w):
    """a mount, or one kind of call on it, hangs for longer than a claim lasts"""
    w.shims_killed = len(World.KINDS) * 12  # ends that nobody could be told of in time
    on_mounts(w, 12, World.KINDS, lambda m, rng: m.rule(
        rng.choice(["all", "all", "reads", "writes", "write", "getattr", "rename"]), "hang"), on=(1, 9))


# --- clients that are killed, and pairs of them ------------------------------------------------------

class Clients:
    """Tasks that wait for a first one, which is paused, and commands about them."""

    def __init__(self, w):
        self.w, self.rng = w, w.rng
        w.begin(2)
        self.node = w.nodes[0]
        self.first = w.submit(self.node, "first", ["-g", "0", "--paused"], ["--", *w.witness("{TAG}", 0)])

    # What is done to a task, and what its name says when that was acknowledged.
    COMMANDS = {
        "edit": (["edit", "{ID}", "gpus=2"], r",g2,"),
        "priority": (["priority", "77", "{ID}"], r"/00077,"),
        "pause": (["pause", "{ID}"], r",f[a-z]*p"),
        "resume": (["resume", "{ID}"], r",f(?![a-z]*p)"),
        "stop": (["stop", "{ID}"], r"^cancelled/"),
    }

    def task(self, command):
        """One that waits, for this command."""
        w = self.w
        return w.submit(self.node, command, ["-g", "0", "--after-any", self.first.id,
                                             *(["--paused"] if command == "resume" else [])],
                        ["--", *w.witness("{TAG}", 0)], expect=("done", "cancelled") if command == "stop" else "done")

    def failed(self):
        """One that has failed, and does so each time."""
        w = self.w
        t = w.submit(self.node, "fails", ["-g", "0"], ["--", *w.witness("{TAG}", 0, -1)], expect="failed")
        if self.node.run("wait", "-q", t.id).returncode != 1:
            w.violation(f"`tenure wait` for {t}, which fails")
        return t

    def args(self, command, task):
        return [a.replace("{ID}", str(task.id)) for a in self.COMMANDS[command][0]]

    def has(self, task, command):
        return bool(re.search(self.COMMANDS[command][1], self.w.where(task.id)))

    def end(self):
        """Everything is let go on, and has to come to its end."""
        w = self.w
        for t in list(w.tasks):
            def goes_on(i=t.id):
                paused = re.search(r"^pending/.*,f[a-z]*p", w.where(i))
                if paused:
                    self.node.run("resume", i)
                return not paused
            if not wait_for(goes_on, FORGOTTEN_S, 1):
                w.violation(f"{t} cannot be resumed: {w.where(t.id)}: {self.node.run('resume', t.id).stderr}")
        w.settle(quiet=FORGOTTEN_S)


def killed_at_each_call(c, run, step):
    """run(n) -> what became of the client that was to be killed at its n-th call."""
    n = c.rng.randint(1, step)
    while run(n).returncode == KILLED:
        c.w.points += 1
        n += step


@scenario("client-kills", slow=True)
def client_kills(w):
    """submit, edit, priority, pause, resume, stop and retry are killed at each of their system calls"""
    c = Clients(w)
    step = 1 if w.long else 3

    for command in c.COMMANDS:
        def about_a_task(n, command=command):
            return c.node.run(*c.args(command, c.task(command)), through=w.stepper("kill", n))
        killed_at_each_call(c, about_a_task, step)

    def retry(n):
        return c.node.run("retry", c.failed().id, through=w.stepper("kill", n))

    killed_at_each_call(c, retry, step)
    lines = w.tmp / "lines"
    lines.write_text("true\n" * 5)
    for how in (["-g", "0", "--", "true"], ["-g", "0", "--array", "1-4", "--", "true"], ["-g", "0", "--from", lines]):
        def submit(n, how=how):
            done = c.node.run("submit", *how, through=w.stepper("kill", n))
            if done.stdout.strip() and not w.where(int(done.stdout)):
                w.violation(f"submit {how}, killed at call {n}, said {done.stdout.strip()}, and it is nowhere")
            return done
        killed_at_each_call(c, submit, step)
    c.end()


@scenario("pool-kills", slow=True)
def pool_kills(w):
    """`up` and `tick`, and the engine's commands under them, are killed at each of their system calls: no job is asked for twice"""
    step, n = (1 if w.long else 5), 0
    codes = [KILLED]
    while KILLED in codes:
        n += w.rng.randint(1, step) if n == 0 else step
        where = w.tmp / f"pool-{n}"
        where.mkdir()
        site = Site(w.build, w.env, where, name=f"exp{n}")
        codes = [site.up("-g", "1", check=False, through=w.stepper("kill", n)).returncode]
        site.later(1000)
        codes += [site.run("tick", site.name, check=False, through=w.stepper("kill", n)).returncode]
        w.points += codes.count(KILLED)
        if not (site.root / site.name / "pools/main.json").exists():
            site.up("-g", "1")
        for _ in range(3):
            site.later(1000)
            site.run("tick", site.name)
        jobs = site.jobs()
        recorded = [j["id"] for j in site.pool()["jobs"] if not j["ended"]]
        if len(jobs) != 1 or recorded != [jobs[0].split()[0]]:
            w.violation(f"killed at call {n}: Slurm has {jobs}, and the records say {site.pool()}")
            return


@scenario("client-pairs", slow=True)
def client_pairs(w):
    """two commands about one task, the second between any two system calls of the first"""
    c = Clients(w)
    pairs = [(a, b) for a in c.COMMANDS for b in c.COMMANDS if a != b and {a, b} != {"pause", "resume"}]
    w.rng.shuffle(pairs)
    held = w.tmp / "held"
    for a, b in pairs if w.long else pairs[:5]:
        n = w.rng.randint(1, 6)
        while True:
            t = c.task("resume" if "resume" in (a, b) else a)
            if "stop" in (a, b):
                t.expect = ("done", "cancelled")
            p = c.node.popen(*c.args(a, t), through=w.stepper("hold", n, held))
            wait_for(lambda p=p: held.exists() or p.poll() is not None, 30, 0.005)
            was_held = held.exists()
            second = c.node.run(*c.args(b, t)).returncode if was_held else 1
            held.unlink(missing_ok=True)
            first = p.wait(60)
            p.communicate()
            w.points += was_held
            stopped = c.has(t, "stop")
            for command, code in ((a, first), (b, second)):
                if code == 0 and was_held and not c.has(t, command) and not stopped:
                    w.violation(f"{a}, held at call {n}, and {b} (exit codes {first} and {second}) of task {t.id}: "
                                f"{command} was acknowledged, and it is {w.where(t.id)}")
            if not was_held:
                break
            n += 2 if w.long else 7
    c.end()


# --- commands about what waits, while nodes run it ----------------------------------------------------

def boot_ms():
    return time.clock_gettime(time.CLOCK_BOOTTIME) * 1000


class Wanted:
    """A task, and what was acknowledged last of what it is to be."""

    def __init__(self, task, gate, gpus):
        self.task, self.gate, self.gpus = task, gate, gpus
        self.paused = []  # [from, until] in which it was acknowledged to be paused


class Storm:
    """Gates, which are paused, tasks that wait for one of them, and commands about all of them from each node."""

    def __init__(self, w):
        self.w, self.rng = w, w.rng
        self.gates = [self.submit("gate", ["-g", "0", "--paused"]) for _ in range(3)]
        self.singles = []
        for _ in range(12):
            gate, gpus = self.rng.choice(self.gates), self.rng.choice([1, 2])
            self.singles.append(Wanted(self.submit("single", ["-g", gpus, "--after", gate.id]), gate, gpus))
        self.arrays = [self.submit("array", ["-g", "0", "-r", "forever", "--backoff", "1s", "--array", "1-8"], 8, fails=1)
                       for _ in range(3)]
        self.failed = []
        for _ in range(3):
            tag = f"t{w.count + 1}"
            first = self.submit("retried", ["-g", "0"], ok=w.tmp / f"ok-{tag}")
            after = self.submit("after-retried", ["-g", "0", "--after", first.id])
            self.failed.append((first, w.tmp / f"ok-{tag}", after))

    def node(self):
        return self.rng.choice(self.w.nodes)

    def submit(self, kind, options, elements=0, fails=0, ok=None):
        """It says which devices it was given. ok: it fails until that file is there."""
        command = f'[ -z "{ok or ""}" ] || [ -e "{ok}" ] || exit 3; echo "$CUDA_VISIBLE_DEVICES" > {self.w.tmp}/devices-{{TAG}}; ' \
                  'exec "$@"'
        seconds = self.rng.choice([0, 0.1, 0.4])
        return self.w.submit(self.node(), kind, options, ["--", "sh", "-c", command, "sh",
                                                          *self.w.witness("{TAG}", seconds, fails)],
                             elements, ends=fails + 1)

    def about_single(self, s):
        i = s.task.id
        what = self.rng.choice(["gate", "gpus", "both", "memory", "priority", "pause", "resume"])
        gate, gpus = self.rng.choice(self.gates), self.rng.choice([1, 2])
        args = {"gate": ["edit", i, f"after={gate.id}"], "gpus": ["edit", i, f"gpus={gpus}"],
                "both": ["edit", i, f"after={gate.id}", f"gpus={gpus}"],
                "memory": ["edit", i, f"memory={self.rng.randint(1, 9)}G"],
                "priority": ["priority", self.rng.randint(1, 999), i]}.get(what, [what, i])
        begun = boot_ms()
        if self.node().run(*args).returncode:
            return
        s.gate = gate if what in ("gate", "both") else s.gate
        s.gpus = gpus if what in ("gpus", "both") else s.gpus
        if what == "pause":
            s.paused.append([boot_ms(), None])
        elif what == "resume":
            self.resumed(s, begun)

    def resumed(self, s, begun):
        for p in s.paused:
            p[1] = p[1] or begun

    def about_array(self, t):
        for args in (["pause", t.id], ["resume", t.id], ["priority", self.rng.randint(1, 999), t.id],
                     ["edit", t.id, f"memory={self.rng.randint(1, 9)}G"]):
            self.node().run(*args)
            time.sleep(self.rng.uniform(0, 0.1))
        self.node().run("resume", t.id)

    def about_failed(self, first, ok, after):
        if not ok.exists() and self.w.where(first.id).startswith("failed/"):
            ok.touch()
            if self.node().run("retry", first.id).returncode:
                ok.unlink()

    def one_command(self):
        chosen = self.rng.random()
        if chosen < 0.7:
            self.about_single(self.rng.choice(self.singles))
        elif chosen < 0.85:
            self.about_array(self.rng.choice(self.arrays))
        else:
            self.about_failed(*self.rng.choice(self.failed))
        self.w.points += 1

    def go_on(self):
        """What was acknowledged as paused is resumed, and what has failed is retried, until all of it was."""
        def done():
            for f in self.failed:
                self.about_failed(*f)
            return all(ok.exists() for _, ok, _ in self.failed)
        for s in self.singles:
            begun = boot_ms()
            self.node().run("resume", s.task.id)
            self.resumed(s, begun)
        if not wait_for(done, 60, 0.3):
            self.w.violation(f"cannot be retried: {[str(f[0]) for f in self.failed if not f[1].exists()]}")

    def check(self):
        """Each has started as it was acknowledged last."""
        lines = {(line.tag, line.event): line for line in self.w.ledger()}
        for s in self.singles:
            start, gate_end = lines.get((s.task.tag, "start")), lines.get((s.gate.tag, "end"))
            if not start or not gate_end:
                continue  # which settle() has said
            if start.ms < gate_end.ms:
                self.w.violation(f"{s.task} began {gate_end.ms - start.ms} ms before {s.gate} ended, which it is after")
            devices = (self.w.tmp / f"devices-{s.task.tag}").read_text().strip().split(",")
            if len(devices) != s.gpus:
                self.w.violation(f"{s.task} was given {devices}, and was to have {s.gpus}")
            for begun, until in s.paused:
                if begun < start.ms < (until or start.ms + 1):
                    self.w.violation(f"{s.task} began although it was paused, {start.ms - begun:.0f} ms after that was said")


def storm(w, n):
    s = Storm(w)
    for i in range(n):
        s.one_command()
        if i % (n // len(s.gates)) == n // len(s.gates) // 2:
            s.node().run("resume", s.gates[i * len(s.gates) // n].id)
    s.go_on()
    for n in w.nodes:
        w.wait_for_all(n)
    w.settle()
    s.check()


@scenario("commands")
def commands(w):
    """what waits is edited, paused, put in front and retried from two nodes while they run it"""
    w.begin(2)
    storm(w, 300 if w.long else 90)


@scenario("commands-cache", long_only=True)
def commands_cache(w):
    """the same by two clients of a file server that remember for 3 s"""
    w.begin(2, *CACHES, mounted=True)
    storm(w, 90)


# --- power loss --------------------------------------------------------------------------------------

class Disk:
    """An ext4 in a file, which is mounted; what is not in the file when it is copied is lost with the power."""

    SIZE = 96 << 20

    def __init__(self, w):
        self.w, self.number = w, 0
        self.image = w.tmp / "0.img"
        with open(self.image, "wb") as f:
            f.truncate(self.SIZE)
        if os.getuid() != 0 or not shutil.which("mkfs.ext4") or subprocess.run(
                ["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,nodiscard", self.image], capture_output=True,
                check=False).returncode:
            raise Skip("needs root and mkfs.ext4")
        self.at = w.root
        self.at.mkdir()
        self.mount()

    def mount(self):
        # Nothing is written but what somebody asks for.
        done = subprocess.run(["mount", "-o", "loop,commit=300", self.image, self.at], capture_output=True, text=True,
                              check=False)
        if done.returncode:
            raise Skip(f"needs loop devices: {done.stderr.strip()}")

    def lose_power(self):
        """What is in the file at this moment is what the next mount finds."""
        self.number += 1
        after = self.w.tmp / f"{self.number}.img"
        subprocess.run(["cp", "--sparse=always", self.image, after], check=True)
        subprocess.run(["umount", "-l", self.at], check=True)
        self.image.unlink()
        self.image = after
        self.mount()

    def close(self):
        subprocess.run(["umount", "-l", self.at], check=False, capture_output=True)


@scenario("power-loss", slow=True)
def power_loss(w):
    """the power fails after each single command: what was acknowledged is there"""
    disk = Disk(w)
    w.mounts.append(disk)
    boot = w.tmp / "boot"
    boot.write_text(f"{w.rng.getrandbits(64):016x}\n")
    node = w.node("node1")
    node.env["OTHER_BOOT"] = str(boot)
    node.start()
    w.ready()
    c = Clients.__new__(Clients)
    c.w, c.rng, c.node = w, w.rng, node
    c.first = w.submit(node, "first", ["-g", "0", "--paused"], ["--", *w.witness("{TAG}", 0)])
    facts = {}  # id -> the command that was acknowledged last

    def check(when):
        for t in w.tasks:
            if not w.where(t.id):
                w.violation(f"{t} is gone after a power loss after {when}")
            elif t.id in facts and not c.has(t, facts[t.id]):
                w.violation(f"{facts[t.id]} of {t} is undone by a power loss after {when}: {w.where(t.id)}")

    def reboot(*tasks):
        """tasks: PIDs of what runs and would not end by itself."""
        node.signal(signal.SIGSTOP)
        disk.lose_power()
        node.signal(signal.SIGKILL)
        for pid in tasks:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        node.agent.wait()
        boot.write_text(f"{w.rng.getrandbits(64):016x}\n")
        node.start()
        w.ready()
        w.points += 1

    def stop_what_runs(element):
        """It takes its grace, and is lost meanwhile."""
        began = w.tmp / f"began-{disk.number}"
        run = ["--", "sh", "-c", f"trap '' TERM; echo $$ >> {began}; sleep 600 & wait; wait"]
        options = ["-g", "0", "--grace", "5m", "-r", "3", *(["--array", "1-1"] if element else [])]
        i = int(node.run("submit", *options, *run).stdout)
        if not wait_for(began.exists, 20):
            w.violation(f"task {i} does not start")
        told = node.run("stop", f"{i}.1" if element else i)
        if told.returncode or "not on disk" in told.stderr:
            w.violation(f"`stop` of a task that runs: {told.stdout}{told.stderr}")
        reboot(int(began.read_text()))
        if not wait_for(lambda: w.where(i).startswith("cancelled/"), 20) or len(began.read_text().split()) != 1:
            w.violation(f"a power loss undoes the stop of task {i}, which ran: {w.where(i)}, {began.read_text()!r}")

    commands = [*c.COMMANDS, "submit", "array", "retry", "stop-runs", "stop-element"] * (3 if w.long else 1)
    w.rng.shuffle(commands)
    for command in commands:
        if command == "array":
            w.submit(node, command, ["-g", "0", "--array", "1-5", "--after-any", c.first.id],
                     ["--", *w.witness("{TAG}", 0)], 5)
        elif command == "submit":
            c.task(command)
        elif command.startswith("stop-"):
            stop_what_runs(command == "stop-element")
            continue
        elif command == "retry":
            t = w.submit(node, command, ["-g", "0"], ["--", *w.witness("{TAG}", 0, -1)], expect="failed")
            node.run("wait", "-q", t.id)
            subprocess.run(["sync", "-f", disk.at], check=True)  # its end is not what is asked here
            node.kill_agent()
            if node.run("retry", t.id).returncode == 0 and not w.where(t.id).startswith("pending/"):
                w.violation(f"retry was acknowledged, and {t} is {w.where(t.id)}")
            node.signal(signal.SIGSTOP)
            disk.lose_power()
            if not w.where(t.id).startswith("pending/"):
                w.violation(f"retry of {t} is undone by a power loss: {w.where(t.id)}")
            node.signal(signal.SIGKILL)
            boot.write_text(f"{w.rng.getrandbits(64):016x}\n")
            node.start()
            w.ready()
            w.points += 1
            continue
        else:
            t = c.task(command)
            if node.run(*c.args(command, t)).returncode == 0:
                facts[t.id] = command
                if not c.has(t, command):
                    w.violation(f"{command} of {t} was acknowledged: {w.where(t.id)}")
        reboot()
        check(command)
    w.shims_killed = len(w.tasks)  # ends that were not on disk yet
    c.end()


# --- delays between any two system calls -------------------------------------------------------------

def delayed(w, *how, asking=False):
    """A node all of whose processes are delayed, from its start to the end of tasks of some kinds."""
    node = w.node(f"node{len(w.nodes) + 1}")
    node.prefix = w.stepper(*how)
    node.agent_args = [["--no-hold"], ["--idle-for", "0", "--load", "none"]][w.rng.random() < 0.5]
    node.start()
    if not wait_for(node.serves, 60, 0.1):
        w.violation(f"{how}: no agent that serves after 60 s: {node.output()[-400:]}")
        return
    for kind in ("cpu", "plain", "array", "preemptible"):
        before = len(w.tasks)
        w.submit_kind(kind, node)
        for t in w.tasks[before:] if asking else ():
            why = node.run("why", t.id)
            if "not in the queue" in why.stdout + why.stderr and w.where(t.id).startswith("pending/"):
                w.violation(f"{how}: `why` straight after `submit`: {why.stdout}{why.stderr}")
    w.wait_for_all(node)
    w.settle()
    node.run("off")
    w.points += 1


@scenario("delays-nth")
def delays_nth(w):
    """each process waits before its n-th system call since it was forked, and since it executed a program"""
    for n in range(1, 40) if w.long else w.rng.sample(range(1, 25), 3):
        delayed(w, "nth", n, 150)
        if w.violations:
            return


@scenario("delays-on")
def delays_on(w):
    """`tenure on` and `off` while each process that they start waits before its n-th system call"""
    node = w.node("node1")
    for n in range(1, 40) if w.long else w.rng.sample(range(1, 25), 3):
        how = ("nth", n, 150)
        on = node.popen("on", "--idle-for", "0", "--load", "none", through=w.stepper(*how))
        if not wait_for(node.serves, 60, 0.1):
            w.violation(f"{how}: `on` leaves no agent that serves after 60 s")
        node.run("off")
        try:
            said = "".join(on.communicate(timeout=60))
            if on.returncode:
                w.violation(f"{how}: `on` ended with {on.returncode}: {said}")
        except subprocess.TimeoutExpired:
            w.violation(f"{how}: after `off` processes are left that `on` has started")
            on.kill()
        w.points += 1
        if w.violations:
            return


@scenario("why-at-once")
def why_at_once(w):
    """`tenure why` straight after `tenure submit`, on a slow node"""
    delayed(w, "nth", w.rng.randint(14, 22), 150, asking=True)


@scenario("delays-random")
def delays_random(w):
    """system calls of all processes wait for a moment, at random"""
    for _ in range(10 if w.long else 1):
        delayed(w, "random", w.rng.randrange(1 << 30), w.rng.choice([20, 100, 300]), w.rng.choice([5, 30, 100]))
        if w.violations:
            return
