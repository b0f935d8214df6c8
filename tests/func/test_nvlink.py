# SPDX-License-Identifier: MIT
"""GPUs that NVLink joins are given together, and pairs are not broken where it can be helped."""
import pytest

from patience import wait_for


def links(q):
    return [d["nvlink"] for d in q.now()["devices"]]


def gpus_of(q, i):
    return next((t["gpus"] for t in q.now()["queue"]["tasks"] if t["id"] == i), None)


def runs_on(q, gpus, *args):
    i = q.submit(*args, "--", "sleep", "100")
    assert wait_for(lambda: gpus_of(q, i)) == gpus
    return i


def test_pairs_stay_whole(queue):
    q = queue(gpus=6, options=["--nvlink", "0-1,2-3,4-5"])
    q.start("--no-hold")
    assert wait_for(lambda: links(q) == [[1], [0], [3], [2], [5], [4]]), links(q)
    first = runs_on(q, [0])
    pair = runs_on(q, [2, 3], "-g", "2")
    runs_on(q, [1])  # beside the first one, so that the last pair stays whole
    runs_on(q, [4, 5], "-g", "2")
    q.m.run(q.m.tenure, "stop", str(first), str(pair), "--now")
    assert wait_for(lambda: all(q.device(i)["state"] == "idle" for i in (0, 2, 3)))
    runs_on(q, [2, 3], "-g", "2")


@pytest.mark.parametrize("options, want", [
    ((), [[1], [0], []]),  # as on the board: H100s by a switch, and an A10 without
    (("--nvlink", "none"), [[], [], []]),
    (("--nvlink", "1-2"), [[], [2], [1]]),
    (("--mig", "1/1g.10gb:2"), None),
])
def test_what_nvml_tells(queue, options, want):
    q = queue(gpus=3, options=["--model", "h100,h100,a10", *options])
    q.start("--no-hold")
    assert wait_for(lambda: len(q.now()["devices"]) >= 3)
    if want is None:  # instances are joined with nobody
        assert wait_for(lambda: len(q.now()["devices"]) == 5)
        assert links(q) == [[]] * 5
    else:
        assert wait_for(lambda: links(q) == want), links(q)
