# SPDX-License-Identifier: MIT
"""`tenure burn` on simulated machines: every verdict, and what it does to newcomers, tasks and holds."""
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import xml.etree.ElementTree

import pytest

import patience
from holdlib import GIB, in_time, machine  # noqa: F401  (machine is a fixture)
from machine import kill_at_once, proc_exists
from patience import HANG, Stopwatch, must_come, slowness, wait_for
from test_list import Terminal, plain


def lasting(s, most=5):
    """A burn of so many seconds, and of more where its machine has no time for it, so that it comes to as much."""
    return f"{s * min(slowness(), most):.0f}s"


def burn(m, *args, seconds="2s"):
    """Exit code, document and the devices by number."""
    done = m.cmd("burn", "--json", "--for", seconds, *args)
    doc = json.loads(done.stdout) if done.stdout else None
    return done, doc, {d["gpu"]: d for d in doc["devices"]} if doc else {}


def start(m, *args, seconds="60s"):
    """One in the background, when it tests its devices."""
    p = subprocess.Popen([m.tenure, "burn", "--json", "--for", seconds, *args], env=m.env, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    m.others.append(p)
    must_come(lambda: min(m.used()) > 100 * GIB)
    return p


def watched(m, *args, errors="0", seconds="60s"):
    """One of products on a terminal, when it tells what it has computed, with so many wrong results (an expression). At
    first there is a speed before anything was compared: a product is compared while the next ones are computed."""
    t = Terminal([m.tenure, "burn", "--for", seconds, "--load", "tensor", *map(str, args)], m.env, 24, 110)
    try:
        must_come(lambda: re.search(rf"[1-9]\d* of \d+ s +\d+\.\d +- +\d+ +\d+ C +{errors} +testing", plain(t.read())), 30)
    except AssertionError:
        t.close()
        raise
    return t


def ended(t):
    """Exit code of a watched one, and all that it has said."""
    try:
        must_come(lambda: t.p.poll() is not None, HANG)
        return t.p.returncode, plain(t.read())
    finally:
        t.close()


def until_somebody_comes():
    """How long a burn has to last for somebody, or a task, to come meanwhile: longer where the machine has much to do, of which
    it makes more."""
    return f"{8 * min(slowness(), 3):.0f}s"


def somebody_comes(m):
    """A newcomer to GPU 0, whose first allocation succeeds."""
    new = m.newcomer("--device", 0, "--take", "90%", "--stay", "1")
    assert new["result"] == 0 and new["retries"] == 0
    return new


def end(p):
    out, errors = patience.communicate(p)
    devices = json.loads(out)["devices"]
    print(*[(d["verdict"], d["reasons"], d["notes"]) for d in devices], sep="\n")  # where a test fails, it says why
    return p.returncode, devices, errors


def test_good_cards(machine, tmp_path):  # noqa: F811
    m = machine()
    done, doc, gpus = burn(m, "--junit", tmp_path / "burn.xml", seconds=lasting(8))  # each part twice, long enough for a speed
    assert done.returncode == 0 == doc["exit_code"] and sorted(gpus) == [0, 1]
    for d in gpus.values():
        assert d["verdict"] == "good" and d["reasons"] == []
        assert d["products"]["precision"] == "bf16" and d["products"]["kernel"] == "9.0"
        assert 500 < d["products"]["tflops"] < 800 and d["products"]["of_its_like"] == pytest.approx(1, abs=0.09)
        assert d["products"]["compared"] > 1e8 and d["products"]["wrong"] == d["products"]["nan"] == 0
        assert d["memory"]["words"] > 1e9 and d["memory"]["passes"] >= 2 and d["memory"]["gb_per_s"] > 1000
        assert d["copies"]["words"] >= 1 << 19 and d["copies"]["wrong_to"] == d["copies"]["wrong_from"] == 0
        assert d["tested_s"] >= 2 and d["power_most_w"] > 121 and d["temperature_most_c"] > 30
    suite = xml.etree.ElementTree.parse(tmp_path / "burn.xml").getroot()
    assert suite.attrib["tests"] == "2" and suite.attrib["failures"] == suite.attrib["skipped"] == "0"
    assert float(suite.attrib["time"]) == pytest.approx(max(d["tested_s"] for d in gpus.values()), abs=0.01)
    # Nothing is left of it, neither memory nor a guard.
    assert wait_for(lambda: m.used() == [0, 0]) and wait_for(lambda: not m.pids("tenure"))
    text = m.cmd("burn", "--for", "1s", "--gpus", "0").stdout
    assert "gpu 0  good" in text and "its speed is not judged" not in text  # an H200's is known


@pytest.mark.parametrize("load, precision, parts", [
    ("tensor", "fp16", ["products"]), ("tensor", "tf32", ["products"]), ("tensor", "fp8", ["products"]), ("fp32", "fp32", ["products"]),
    ("fp64", "fp64", ["products"]), ("memory", "bf16", ["memory"]), ("copies", "bf16", ["copies"])])
def test_loads(machine, load, precision, parts):  # noqa: F811
    chosen = ["--precision", precision] if load == "tensor" else []
    _, doc, gpus = burn(machine(gpus=1), "--load", load, *chosen, seconds=lasting(1, 10) if "products" in parts else "1s")
    assert doc["load"] == load and doc["exit_code"] == 0
    assert [part for part in ("products", "memory", "copies") if gpus[0][part] is not None] == parts
    assert "products" not in parts or gpus[0]["products"]["precision"] == precision


@pytest.mark.parametrize("figure, n, load, reason", [
    ("wrong-results", 3, "tensor", "results are wrong"), ("nan-results", 1, "tensor", "no numbers (NaN)"),
    ("inf-results", 1, "tensor", "are infinite"), ("wrong-reference", 1, "tensor", "words that results are compared with have changed"),
    ("wrong-words", 1, "memory", "words of memory were not what was written"),
    ("wrong-copies-in", 2, "copies", "words were copied to it wrong"), ("wrong-copies-out", 2, "copies", "words were copied from it wrong"),
    ("pcie-slowness", 80, "copies", "% of the median of its model"), ("slowness", 30, "tensor", "70 % of the median of its model"),
    ("heat", 60, "tensor", "slowed down for"), ("rows-failed", 1, "tensor", "the card is to be exchanged")])
def test_bad_card(machine, tmp_path, figure, n, load, reason):  # noqa: F811
    m = machine(gpus=3)
    m.ctl("health", 1, figure, n)
    seconds = {"heat": "5s", "slowness": lasting(3), "pcie-slowness": lasting(3)}.get(figure) or (lasting(1, 10) if load == "tensor" else "1s")
    done, doc, gpus = burn(m, "--load", load, "--junit", tmp_path / "burn.xml", seconds=seconds)
    assert done.returncode == 1 == doc["exit_code"]
    assert [gpus[i]["verdict"] for i in range(3)] == ["good", "bad", "good"], gpus
    assert any(reason in r for r in gpus[1]["reasons"]), gpus[1]["reasons"]
    [failure] = xml.etree.ElementTree.parse(tmp_path / "burn.xml").getroot().iter("failure")
    assert reason in failure.attrib["message"] and failure.text.splitlines() == gpus[1]["reasons"]


def test_copies_are_as_fast_as_their_link(machine):  # noqa: F811
    m = machine(gpus=1, options=("--model", "a10"))
    _, doc, gpus = burn(m, "--load", "copies", seconds=lasting(3))
    assert doc["exit_code"] == 0 and gpus[0]["reasons"] == []
    c = gpus[0]["copies"]
    # 0.875 of 16 lanes of the fourth generation, and as much at once on the way back.
    assert c["to_gb_per_s"] == pytest.approx(27.6, rel=0.2) and c["from_gb_per_s"] == pytest.approx(27.6, rel=0.2)
    assert c["both_gb_per_s"] == pytest.approx(55.2, rel=0.2)
    m.ctl("health", 0, "pcie-slowness", 70)
    done, _, gpus = burn(m, "--load", "copies", seconds=lasting(3))
    assert done.returncode == 1 and any("% of what its link carries (31.5)" in r for r in gpus[0]["reasons"]), gpus[0]


def test_copies_without_memory_of_the_host(machine):  # noqa: F811
    """Where nothing can be pinned the other tests go on."""
    m = machine(gpus=1)
    m.ctl("timing", "pinned-bytes", 1 << 19)
    done, _, gpus = burn(m, seconds=lasting(3))
    assert done.returncode == 0 and gpus[0]["copies"] is None and gpus[0]["memory"] is not None
    assert any("no memory of the host could be pinned" in t for t in gpus[0]["notes"]), gpus[0]
    done, _, gpus = burn(m, "--load", "copies", seconds="1s")
    assert done.returncode == 3 and any("pinned memory of the host" in r for r in gpus[0]["reasons"]), gpus[0]


def pairs(gpus):
    return {(g, p["gpu"]): p for g, d in gpus.items() for p in d["peers"]}


def test_copies_between_devices(machine):  # noqa: F811
    """Each copies to each, over windows in the memory of other processes."""
    m = machine(gpus=3)
    done, _, gpus = burn(m, "--load", "copies", seconds=lasting(6))
    found = pairs(gpus)
    assert done.returncode == 0 and sorted(found) == [(a, b) for a in range(3) for b in range(3) if a != b], gpus
    for p in found.values():
        assert p["nvlink"] and p["reached"] and p["wrong"] == 0 and p["words"] > 1e5
        for way, speed in (("to", 394), ("from", 394), ("both", 787)):
            assert p[f"{way}_gb_per_s"] in (None, pytest.approx(speed, rel=0.1)), p  # None: too few on a busy machine
    # The simulator forgets no file of a process that was killed, as one is that takes too long to let go.
    must_come(lambda: not any(proc_exists(int(path.name.split(".")[1]))
                              for path in pathlib.Path(m.env["TENURE_SIM"]).parent.glob("ipc.*")))
    text = m.cmd("burn", "--load", "copies", "--for", "1s").stdout
    assert "PEER GB/s" in text


@pytest.mark.parametrize("figure, n, reason", [("wrong-copies-peer", 2, "words went wrong on the way to GPU"), ("link-slowness", 80, "% of the median of such links here")])
def test_bad_link(machine, figure, n, reason):  # noqa: F811
    m = machine(gpus=3)
    m.ctl("health", 1, figure, n)
    done, _, gpus = burn(m, "--load", "copies", seconds=lasting(8))
    assert done.returncode == 1 and [gpus[i]["verdict"] for i in range(3)] == ["good", "bad", "good"], gpus
    assert any(reason in r for r in gpus[1]["reasons"]), gpus[1]["reasons"]


def test_devices_that_do_not_reach_each_other(machine):  # noqa: F811
    done, _, gpus = burn(machine(options=("--model", "l40s")), "--load", "copies", seconds=lasting(3))
    assert done.returncode == 0 and not any(p["reached"] for p in pairs(gpus).values())
    assert all(any("no copies to 1 other GPU were tested" in t for t in d["notes"]) for d in gpus.values()), gpus


def test_a_peer_that_goes(machine):  # noqa: F811
    """A newcomer has its device at once, though its window is open elsewhere; that one is as good as before."""
    def attempt(m):
        p = start(m, "--load", "copies", seconds=until_somebody_comes())
        somebody_comes(m)
        code, devices, errors = end(p)
        assert [d["verdict"] for d in devices] == ["yielded", "good", "good"], (errors, [(d["verdict"], d["reasons"]) for d in devices])
        assert code == 4 and all(p["wrong"] == 0 for d in devices for p in d["peers"])
    in_time(machine, {"gpus": 3, "speed": 1}, attempt)


def test_a_peer_whose_holder_dies(machine):  # noqa: F811
    m = machine()
    p = start(m, "--load", "copies", seconds=lasting(6))
    holders = m.holders()
    os.kill(holders[0], signal.SIGKILL)
    code, devices, errors = end(p)
    assert code == 3 and sorted(d["verdict"] for d in devices) == ["good", "not-tested"], (devices, errors)


def test_repeated_wrong_result_is_told(machine):  # noqa: F811
    m = machine(gpus=1)
    m.ctl("health", 0, "wrong-results", 1)
    _, _, gpus = burn(m, "--load", "tensor", seconds=lasting(2))
    p = gpus[0]["products"]
    assert p["wrong"] > p["repeated"] > 0 and p["nan"] == p["inf"] == p["reference_wrong"] == 0
    assert any("at row 0, column 0 of" in t for t in gpus[0]["notes"]) and any("came again" in t for t in gpus[0]["notes"])


@pytest.mark.parametrize("what, args, reason", [
    ("xid", (1, 79), "XID"), ("health", (1, "ecc-uncorrected", 5), "5 uncorrected ECC errors"),
    ("lose", (1,), "")])
def test_what_happens_meanwhile(machine, what, args, reason):  # noqa: F811
    m = machine()
    p = start(m, seconds=lasting(6))
    m.ctl(what, *args)
    code, devices, _ = end(p)
    assert code == 1 and devices[1]["verdict"] == "bad" and devices[0]["verdict"] == "good", devices
    assert any(reason in r for r in devices[1]["reasons"])
    # What is let go for it is not tested on.
    assert what != "xid" or devices[1]["tested_s"] < devices[0]["tested_s"] and any("XID" in t for t in devices[1]["notes"])


def test_speed_of_a_model_that_nobody_knows(machine):  # noqa: F811
    _, doc, gpus = burn(machine(gpus=1, options=("--model", "a10")), "--load", "tensor", seconds="4s")
    assert doc["exit_code"] == 0 and gpus[0]["products"]["kernel"] == "8.0" and gpus[0]["products"]["of_its_like"] is None
    assert any("its speed is not judged: it is the only NVIDIA A10 here" in t for t in gpus[0]["notes"])


@pytest.mark.parametrize("model, kernel", [("a100-80", "8.0"), ("v100", "7.0"), ("rtx4090", "8.0")])
def test_double_precision_of_other_cards(machine, model, kernel):  # noqa: F811
    """On tensor cores from 8.0 on; what is compared there is wrong as elsewhere, and told by its bits."""
    m = machine(gpus=1, options=("--model", model))
    m.ctl("health", "0", "wrong-results", "1")
    done, _, gpus = burn(m, "--load", "fp64", seconds=lasting(1, 10))
    assert done.returncode == 1 and gpus[0]["products"]["kernel"] == kernel and gpus[0]["products"]["wrong"] >= 1
    assert any("the first: bits " in n for n in gpus[0]["notes"])


def test_cards_without_bf16(machine):  # noqa: F811
    """They are tested in fp16, unless somebody asks for bf16 by name."""
    m = machine(gpus=1, options=("--model", "v100"))
    done, _, gpus = burn(m, "--load", "tensor", seconds=lasting(1, 10))
    assert done.returncode == 0 and gpus[0]["products"]["precision"] == "fp16", gpus[0]
    done, _, gpus = burn(m, "--load", "tensor", "--precision", "bf16", seconds="1s")
    assert done.returncode == 3 and any("no products in bf16 (compute capability 7.0)" in r for r in gpus[0]["reasons"]), gpus[0]


def library(m, build, **more):
    """NVIDIA's library is on the path of whoever burns, and so on that of the guard."""
    m.env.update(more, LD_LIBRARY_PATH=f"{m.env['LD_LIBRARY_PATH']}:{build / 'sim' / 'cublas'}")
    return m


@pytest.mark.parametrize("model, args, kernel, tflops", [
    ("a10", ["--load", "tensor"], "cuBLASLt 13.1", (60, 90)), ("a10", ["--load", "tensor", "--kernel", "own"], "8.0", (60, 90)),
    ("a100-80", ["--load", "tensor", "--precision", "tf32"], "cuBLASLt 13.1", (90, 160)),
    ("a10", ["--load", "tensor", "--precision", "fp8"], None, None), ("rtx4090", ["--load", "fp32"], "cuBLASLt 13.1", (10, 60)),
    ("h200", ["--load", "tensor"], "9.0", (600, 750)), ("h200", ["--load", "tensor", "--kernel", "cublas"], "cuBLASLt 13.1", (600, 750)),
    ("h200", ["--load", "fp64"], "9.0", (40, 70))])
def test_products_of_the_library(machine, build, model, args, kernel, tflops):  # noqa: F811
    """Where it is there it computes those products for which no kernel of ours is as fast, in bands of some milliseconds."""
    m = library(machine(gpus=1, options=("--model", model)), build)
    done, _, gpus = burn(m, *args, seconds=lasting(3))
    if not kernel:
        assert done.returncode == 3 and any("no products in fp8" in r for r in gpus[0]["reasons"]), gpus[0]
        return
    p = gpus[0]["products"]
    assert done.returncode == 0 and p["kernel"] == kernel and tflops[0] < p["tflops"] < tflops[1]
    assert p["compared"] > 1e8 and p["wrong"] == 0
    m.ctl("health", "0", "wrong-results", "2")
    done, doc, _ = burn(m, *args, seconds=lasting(1, 10))
    assert done.returncode == 1, doc


def test_library_that_cannot_be_used(machine, build, tmp_path):  # noqa: F811
    """One that has no algorithm, one that is no library, and none: the kernels of tenure, if it is not asked for by name."""
    m = library(machine(gpus=1, options=("--model", "a10")), build, TENURE_SIM_CUBLASLT="refuse")
    assert burn(m, "--load", "tensor", seconds="1s")[2][0]["products"]["kernel"] == "8.0"
    done, _, gpus = burn(m, "--load", "tensor", "--kernel", "cublas", seconds="1s")
    assert done.returncode == 3 and "cuBLASLt 13.1 has no products in bf16 for this card (status 15)" in gpus[0]["reasons"][0]
    m = machine(gpus=1, options=("--model", "a10"))
    (tmp_path / "libcublasLt.so.13").write_text("rubbish")
    for path in m.env["LD_LIBRARY_PATH"], f"{m.env['LD_LIBRARY_PATH']}:{tmp_path}":
        m.env["LD_LIBRARY_PATH"] = path
        assert burn(m, "--load", "tensor", seconds="1s")[2][0]["products"]["kernel"] == "8.0"
        done, _, gpus = burn(m, "--load", "tensor", "--kernel", "cublas", seconds="1s")
        # Where the machine has a real one, that finds no real driver.
        assert done.returncode == 3 and re.search("no libcublasLt.so.11, 12 or 13 is on|makes no handle", gpus[0]["reasons"][0])


def test_a_newcomer_ends_a_product_of_the_library(machine, build):  # noqa: F811
    def attempt(m):
        p = start(library(m, build), "--load", "tensor", "--kernel", "cublas")
        must_come(lambda: any(d["power_mw"] > 300000 for d in m.show()["devices"]))  # it computes
        somebody_comes(m)
        code, devices, _ = end(p)
        assert code == 4 and devices[0]["verdict"] == "yielded" and devices[0]["products"]["kernel"] == "cuBLASLt 13.1"
    in_time(machine, {"gpus": 1}, attempt)


def test_what_a_card_cannot(machine):  # noqa: F811
    """fp8 on an Ampere card, and a card whose driver gives no memory: not tested, with the reason."""
    m = machine(gpus=1, options=("--model", "a100-80"))
    done, doc, gpus = burn(m, "--load", "tensor", "--precision", "fp8", seconds="1s")
    assert done.returncode == 3 and gpus[0]["verdict"] == "not-tested"
    assert any("no products in fp8 (compute capability 8.0)" in r for r in gpus[0]["reasons"]), gpus[0]
    # Of that nothing is left for the next one.
    m.ctl("fail", "cuMemAlloc", "all", "CUDA_ERROR_OUT_OF_MEMORY")
    done, doc, gpus = burn(m, seconds="1s")
    assert done.returncode == 3 and gpus[0]["reasons"] == ["not held: no memory to be had"], gpus[0]


SVG = "{http://www.w3.org/2000/svg}"


def picture(path):
    """Its text, the root, and the lines in it: [(class, path)]."""
    text = path.read_text(encoding="utf-8")
    root = xml.etree.ElementTree.fromstring(text)
    assert root.tag == SVG + "svg" and not re.search(r"<script|href|on[a-z]+=|url\(|@import", text)
    return text, root, [(p.attrib["class"], p.attrib["d"]) for p in root.iter(SVG + "path") if "L" in p.attrib["d"]]


def test_curve_and_picture(machine, tmp_path):  # noqa: F811
    m = machine()
    done, doc, gpus = burn(m, "--load", "tensor", "--svg", tmp_path / "burn.svg", seconds="6s")
    assert done.returncode == 0
    for d in gpus.values():
        c = d["curve"]
        # One a second, for as long as it took: a guard that is kept from its looks is waited for.
        assert 2 <= len(c) <= d["tested_s"] + 1 and d["tested_s"] >= 6 and c[-1]["at_s"] < d["tested_s"] + 0.1
        assert [s["at_s"] for s in c] == sorted(s["at_s"] for s in c)
        assert max(s["power_w"] for s in c) <= d["power_most_w"] + 1 and all(30 <= s["temperature_c"] < 100 for s in c)
        assert any(s["clock_sm_mhz"] == 1980 for s in c) and any(500 < (s["tflops"] or 0) < 800 for s in c) and all(s["gb_per_s"] is None for s in c)
        assert d["temperature_slope_c_per_min"] is None  # of so short a time nothing is said
    text, root, lines = picture(tmp_path / "burn.svg")
    said = [t.text for t in root.iter(SVG + "text")]
    assert {"Power, W", "Clock of the multiprocessors, MHz", "Temperature, \u00b0C", "GPU 0, NVIDIA H200", "GPU 1, NVIDIA H200"} <= set(said)
    assert not any(t.startswith("Memory") for t in said) and "prefers-color-scheme: dark" in text
    assert re.match(r"tenure burn of \S+, \d{4}-\d\d-\d\d \d\d:\d\d:\d\d, tensor for 6 s$", root.find(SVG + "title").text)
    assert {c for c, _ in lines} == {"line c0", "line c1"}
    assert len(lines) >= 8 or min(len(d["curve"]) for d in gpus.values()) < 4  # a line is of two figures that follow each other


def test_reports_that_cannot_be_written(machine, tmp_path):  # noqa: F811
    """It is found before anything is tested; where only the disk is full the rest is told, and 1 is for bad cards."""
    m = machine(gpus=1)
    for args, why in ((["--svg", "/nonexistent/burn.svg"], "--svg: create /nonexistent/burn.svg"), (["--junit", tmp_path], "--junit: write "), (["--junit="], "name of a file is empty"),
                      (["--junit", tmp_path / "x", "--svg", tmp_path / "x"], "name the same file"), (["--junit", f"{tmp_path}/new/"], "Is a directory")):
        done = m.cmd("burn", *args)
        assert done.returncode == 2 and why in done.stderr and not done.stdout, done
    assert not list(tmp_path.glob("x*")) + list(tmp_path.glob("new*"))
    done, doc, _ = burn(m, "--junit", "/dev/full", "--svg", tmp_path / "burn.svg", "--load", "memory", seconds="1s")
    assert done.returncode == 3 == doc["exit_code"] and doc["devices"][0]["verdict"] == "good" and "/dev/full" in done.stderr
    assert (tmp_path / "burn.svg").read_text().startswith("<?xml")
    with open("/dev/full", "w", encoding="ascii") as full:
        done = subprocess.run([m.tenure, "burn", "--for", "1s", "--load", "memory", "--junit", tmp_path / "burn.xml"], env=m.env, text=True, stdout=full, stderr=subprocess.PIPE, timeout=HANG)
    assert done.returncode == 3 and "output" in done.stderr and (tmp_path / "burn.xml").read_text().startswith("<?xml"), done
    m.ctl("health", 0, "wrong-words", 1)
    done, doc, _ = burn(m, "--junit", "/dev/full", "--load", "memory", seconds="1s")
    assert done.returncode == 1 == doc["exit_code"]


def test_reports_go_where_they_are_said_to_go(machine, tmp_path):  # noqa: F811
    """A link stays a link, and a pipe and a device are no files to be replaced."""
    m = machine(gpus=1)
    (tmp_path / "target.svg").write_text("old")
    (tmp_path / "link").symlink_to("target.svg")
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    done, _, _ = burn(m, "--junit", tmp_path / "pipe", "--svg", tmp_path / "link", "--load", "memory", seconds="1s")
    assert done.returncode == 0, done
    assert xml.etree.ElementTree.fromstring(os.read(reader, 1 << 16)).attrib["tests"] == "1"
    os.close(reader)
    assert (tmp_path / "pipe").is_fifo() and (tmp_path / "link").is_symlink() and "<svg" in (tmp_path / "target.svg").read_text()
    done, _, _ = burn(m, "--junit", "/dev/null", "--load", "memory", seconds="1s")
    assert done.returncode == 0 and pathlib.Path("/dev/null").is_char_device()


@pytest.mark.parametrize("figure, code", [("wrong-results", 1), (None, 3)])
def test_the_guard_dies(machine, tmp_path, figure, code):  # noqa: F811
    """What was found until then is told."""
    m = machine(gpus=1)
    if figure:
        m.ctl("health", 0, figure, 2)
    t = watched(m, "--junit", tmp_path / "burn.xml", errors="[1-9][0-9]*" if figure else "0")
    for pid in m.pids("tenure.guard"):
        os.kill(pid, signal.SIGKILL)
    found, said = ended(t)
    # What was compared until then, "2e+09" as well; "-": the first product had not been compared yet.
    assert found == code and re.search(r"NVIDIA H200 +(bad|not tested) .* (-|\d(\.\d+)?e\+\d+)\s*\n", said), said
    assert re.search(r"gpu 0  bad: \d+ of \d+ results are wrong" if figure else "gpu 0  not tested: the guard is gone", said), said
    assert "the guard is gone" in said and (tmp_path / "burn.xml").exists()


def test_the_driver_hangs_after_it(machine):  # noqa: F811
    """Whoever waits for the verdict is told that there is none, and what was found."""
    m = machine(gpus=1)
    p = start(m, "--load", "memory", seconds=lasting(8))
    time.sleep(2)
    m.ctl("hang", "nvmlDeviceGetPcieReplayCounter")
    out, errors = patience.communicate(p)
    [d] = json.loads(out)["devices"]
    assert p.returncode == 3 and d["memory"]["words"] > 0 and re.search("after its test the driver cannot be asked|NVML does not answer", d["reasons"][0]), (d, errors)
    m.ctl("unhang")


def test_the_driver_hangs_before_it(machine):  # noqa: F811
    m = machine(gpus=1)
    m.ctl("hang", "nvmlInit_v2")
    done = m.cmd("burn", "--for", "1s")
    m.ctl("unhang")
    assert done.returncode == 3 and "the driver cannot be asked" in done.stderr and "tenure health" in done.stderr


@pytest.mark.parametrize("function, code", [("cuStreamSynchronize", 1), ("cuLaunchKernel", 3)])
def test_a_kernel_fails_meanwhile(machine, function, code):  # noqa: F811
    """The driver reports it as an error of the program, which has worked until then. That it takes no launch is another matter."""
    m = machine(gpus=1)
    t = watched(m, seconds="20s")
    m.ctl("fail", function, 1, "CUDA_ERROR_ILLEGAL_ADDRESS")
    found, said = ended(t)
    assert found == code and ("gpu 0  bad: " if code == 1 else "gpu 0  not tested: ") in said, said
    assert (code == 1) == ("a kernel that had worked before has ended with an illegal memory access (CUDA error 700)" in said), said
    assert any("(700)" in line and "held again" not in line for line in said.splitlines()), said


def test_interrupted_at_once(machine, tmp_path):  # noqa: F811
    """Before a device is known there is none to be told of, and that it was left for others is not the reason."""
    m = machine(gpus=1)
    p = subprocess.Popen([m.tenure, "burn", "--json", "--junit", tmp_path / "burn.xml"], env=m.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    must_come(lambda: m.pids("tenure.guard"))
    p.send_signal(signal.SIGINT)
    out, errors = patience.communicate(p)
    assert p.returncode == 3 and "interrupted" in errors + out and "leave" not in errors, (out, errors)
    assert (tmp_path / "burn.xml").exists()


def test_nohup(machine):  # noqa: F811
    """Who logs out does not end what he has started so."""
    m = machine(gpus=1)
    p = subprocess.Popen(["nohup", m.tenure, "burn", "--json", "--for", lasting(4), "--load", "memory"], env=m.env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    m.others.append(p)
    must_come(lambda: min(m.used()) > 100 * GIB)
    p.send_signal(signal.SIGHUP)
    code, devices, _ = end(p)
    assert code == 0 and devices[0]["verdict"] == "good", devices


def test_more_devices_than_lines(machine):  # noqa: F811
    """The table is cut at the height, since what has scrolled away cannot be drawn over."""
    m = machine(gpus=8)
    t = Terminal([m.tenure, "burn", "--for", "3s", "--load", "memory"], m.env, 6, 100)
    try:
        must_come(lambda: "VERDICT" in t.read(), 30)
        frames = re.split(r"\r\033\[\d+A\033\[J", t.read())[:-1]
        assert any(".. 5 more lines" in f for f in frames) and max(f.count("\n") for f in frames) == 5, frames
    finally:
        t.close()


def test_a_newcomer_ends_it_on_that_device(machine):  # noqa: F811
    def attempt(m):
        p = start(m, seconds=until_somebody_comes())
        new = somebody_comes(m)
        code, devices, _ = end(p)
        assert code == 4 and [d["verdict"] for d in devices] == ["yielded", "good"], devices
        assert devices[0]["reasons"][0].startswith(f"to PID {new['pid']}") and devices[1]["tested_s"] >= 8
    in_time(machine, {"speed": 1}, attempt)


def test_what_others_use_is_not_tested(machine):  # noqa: F811
    """Nor waited for much longer than the others are tested."""
    m = machine()
    new = m.start("--device", 1, "--take", "10%", "--stay", "60")
    assert wait_for(lambda: m.used()[1] > 0)
    began = Stopwatch()
    done, doc, gpus = burn(m, seconds="1s")
    assert began.took() < 10
    assert done.returncode == 3 and gpus[0]["verdict"] == "good" and gpus[1]["verdict"] == "not-tested"
    assert f"PID {new.pid}" in gpus[1]["reasons"][0]


@pytest.mark.parametrize("leave, named, code", [(1, [], 0), (1, ["--gpus", "1"], 3), (2, [], 3)])
def test_what_is_left_for_others_is_not_touched(machine, leave, named, code):  # noqa: F811
    """Whatever is asked for, and by whom: the setting of the machine is a promise to others."""
    m = machine()
    done = m.cmd("burn", "--json", "--for", "1s", *named, TENURE_LEAVE=str(leave))
    assert done.returncode == code and [d["gpu"] for d in json.loads(done.stdout)["devices"]] == ([] if code else [0])
    assert not code or "left for others (setting leave)" in done.stderr


def test_what_an_agent_holds_is_tested_and_goes_back(queue):
    q = queue()
    q.start("--memory", "50%", "--load", "light")
    assert wait_for(lambda: q.held() == [0, 1])
    done = q.m.cmd("burn", "--json", "--for", "2s")
    gpus = json.loads(done.stdout)["devices"]
    assert done.returncode == 0 and [d["verdict"] for d in gpus] == ["good", "good"]
    must_come(lambda: q.held() == [0, 1] and max(q.m.used()) < 90 * GIB)
    must_come(lambda: {d["load"] for d in q.now()["devices"]} == {"light"})
    # It was never let go, so nobody could have come in between.
    events = q.m.run(q.m.tenure, "events", "--json").stdout
    assert not [e for e in map(json.loads, events.splitlines()) if e["event"] in ("yield", "release", "released", "gone")], events


@pytest.mark.parametrize("held", [False, True])
def test_the_last_look_is_told(machine, queue, held):  # noqa: F811
    """What is found once nothing is computed any more, whether the device is let go then or goes on as a hold of an agent."""
    def start_it():
        if not held:
            return machine()
        q = queue()
        q.start("--memory", "50%", "--load", "light")
        must_come(lambda: q.held() == [0, 1])
        return q.m

    def attempt(m):
        # The table is read back with the first slice, and then once a second: this spoils it in between.
        m.ctl("health", 1, "wrong-reference", 1)
        done, _, gpus = burn(m, "--load", "tensor", seconds="1s")
        assert done.returncode == 1 and gpus[1]["products"]["reference_wrong"] > 0, gpus[1]
        for d in (gpus[0], gpus[1]):
            p = d["products"]  # all that was computed was compared, but for the one that was in the making
            computed = (p["tflops"] or 0) * 1e12 * p["product_s"] / (2 * p["n"] ** 3)
            assert p["compared"] >= (int(computed + 0.01) - 1) * p["n"] ** 2, p
    in_time(start_it, {}, attempt)


def test_an_agent_holds_again_where_a_holder_was_killed_in_a_burn(queue):
    """By its own rule, and not by that of the burn, which would never come back."""
    q = queue()
    q.start("--memory", "50%", "--rehold-after", "1s")
    assert wait_for(lambda: q.held() == [0, 1])
    p = start(q.m, seconds=lasting(6))
    os.kill(q.m.holders()[0], signal.SIGKILL)
    code, devices, _ = end(p)
    assert code == 3 and sorted(d["verdict"] for d in devices) == ["good", "not-tested"], devices
    must_come(lambda: q.held() == [0, 1], 20)


def test_a_task_goes_before_it(queue):
    q = queue()
    q.start("--memory", "95%")
    assert wait_for(lambda: q.held() == [0, 1])
    p = start(q.m, seconds=until_somebody_comes())
    i = q.submit("-g", "1", "--", q.newcomer, "--take", "60%", "--stay", "1")
    q.wait(i, "done")
    code, devices, _ = end(p)
    assert code == 4 and sorted(d["verdict"] for d in devices) == ["good", "yielded"], devices
    assert f"to task {i}" in next(d for d in devices if d["verdict"] == "yielded")["reasons"][0]


def test_a_host_that_is_late_makes_no_card_bad(machine):
    """The time between the events of a launch has in it how late the host was to ask for the launch, and one card was
    slower than another by it."""
    def attempt(m):
        p = start(m, "--load", "memory", seconds="4s")
        m.ctl("hang", "cuLaunchKernel")
        time.sleep(0.3)
        late = m.holders()[0]
        os.kill(late, signal.SIGSTOP)
        m.ctl("unhang", "cuLaunchKernel")
        time.sleep(1)  # of the four, in one launch
        kill_at_once([late], signal.SIGCONT)
        out, _ = p.communicate(timeout=HANG)
        for d in json.loads(out)["devices"]:
            assert (d["verdict"], d["reasons"]) == ("good", []) and d["memory"] is not None
        assert p.returncode == 0
    in_time(machine, {"gpus": 2}, attempt)


def test_exclusive_has_tasks_wait(queue):
    """For as long as it takes, and with the reason; then they run."""
    q = queue()
    q.start("--memory", "95%")
    assert wait_for(lambda: q.held() == [0, 1])
    p = start(q.m, "--exclusive", seconds=until_somebody_comes())
    must_come(lambda: {(d["load"], d["reason"]) for d in q.now()["devices"]} == {("burn", "held for tenure burn")})
    i = q.submit("-g", "1", "--", q.newcomer, "--take", "60%", "--stay", "1")
    must_come(lambda: "tested by tenure burn --exclusive" in q.why(i))
    code, devices, _ = end(p)
    assert code == 0 and {d["verdict"] for d in devices} == {"good"} and min(d["tested_s"] for d in devices) >= 5, devices
    q.wait(i, "done")
    must_come(lambda: q.log(i, attempt=1))


def test_exclusive_yields_to_newcomers(machine):  # noqa: F811
    """He is never kept waiting; and who wanted the GPU for the test alone is told that it was not tested so."""
    def attempt(m):
        p = start(m, "--exclusive", seconds=until_somebody_comes())
        new = somebody_comes(m)
        code, devices, _ = end(p)
        assert code == 3 and [d["verdict"] for d in devices] == ["not-tested", "good"], devices
        assert devices[0]["reasons"][0].startswith(f"it was not left alone: yielded to PID {new['pid']}")
    in_time(machine, {"speed": 1}, attempt)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_interrupted(machine, how):  # noqa: F811
    m = machine()
    p = start(m)
    p.send_signal(how)
    out, _ = patience.communicate(p)
    if how != signal.SIGKILL:
        doc = json.loads(out)
        assert p.returncode == 3 and {d["verdict"] for d in doc["devices"]} == {"not-tested"}
        assert all("interrupted" in d["reasons"][0] for d in doc["devices"])
    assert wait_for(lambda: m.used() == [0, 0], 20)


def test_a_terminal_that_is_stopped(machine):  # noqa: F811
    """Who looks at it with Ctrl-S, or marks something, does not end the test by that."""
    m = machine(gpus=1)
    t = Terminal([m.tenure, "burn", "--for", "8s", "--load", "memory"], m.env, 24, 80)
    try:
        must_come(lambda: " of 8 s" in t.read(), 30)
        t.type("\x13")
        time.sleep(6.5)
        t.type("\x11")
        must_come(lambda: t.p.poll() is not None, HANG)
        assert t.p.returncode == 0
        assert "gpu 0  good" in t.read()
    finally:
        t.close()


def test_stopped_for_a_while(machine):  # noqa: F811
    """By Ctrl-Z, say: the GPU is given back meanwhile, and why it was not tested to the end is told."""
    m = machine(gpus=1)
    p = start(m, "--load", "memory")
    p.send_signal(signal.SIGSTOP)
    must_come(lambda: m.used() == [0], 20)
    p.send_signal(signal.SIGCONT)
    code, devices, errors = end(p)
    assert code == 3 and devices[0]["reasons"][0].startswith("this command stood still"), (devices, errors)


def test_it_ends_when_all_is_free(machine):  # noqa: F811
    """So the next one finds nothing of it: neither its memory nor what it has counted."""
    m = machine(speed=1)
    for _ in range(3):
        done, _, gpus = burn(m, "--load", "memory", seconds="1s")
        assert m.used() == [0, 0]
        assert done.returncode == 0 and all(d["tested_s"] >= 1 for d in gpus.values()), gpus


def test_one_at_a_time(machine):  # noqa: F811
    m = machine()
    start(m)
    done = m.cmd("burn", "--for", "1s")
    assert done.returncode == 3 and "an agent of tenure burn runs already" in done.stderr


def test_what_the_burn_before_has_found(machine):  # noqa: F811
    """The next one begins with nothing, also on a hold that it takes over from one that was killed."""
    m = machine(gpus=1)
    for how in signal.SIGKILL, signal.SIGINT:
        m.ctl("health", "0", "wrong-results", "2")
        t = watched(m, errors="[1-9][0-9]*")
        m.ctl("health", "0", "wrong-results", "0")
        t.p.send_signal(how)
        ended(t)
        done, doc, gpus = burn(m, "--load", "tensor", seconds="2s")
        assert done.returncode == 0 and gpus[0]["products"]["wrong"] == 0, doc
        assert gpus[0]["products"]["product_s"] < gpus[0]["tested_s"] + 1


@pytest.mark.parametrize("args, why", [
    (["--for", "1ms"], "--for"), (["--load", "tensr"], "did you mean tensor"), (["--precision", "int4"], "precision"),
    (["--load", "fp32", "--precision", "tf32"], "--load fp32 has none to choose"), (["--yield", "--exclusive"], "one of them"),
    (["--load", "fp64", "--kernel", "cublas"], "--load fp64 is not computed with it"), (["--load", "copies", "--kernel", "cublas"], "--load copies"),
    (["--gpus", "7"], "7"), (["--memory", "200%"], "memory"), (["--junit"], "junit"), (["--idle-for", "5m"], "unknown option --idle-for"), (["0"], "unexpected argument")])
def test_mistakes(machine, args, why):  # noqa: F811
    done = machine().cmd("burn", *args)
    assert done.returncode == 2 and why in done.stderr, done
