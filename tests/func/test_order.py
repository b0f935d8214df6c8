# SPDX-License-Identifier: MIT
"""Which test is next where several processes share them (order.py)."""
import pathlib

import pytest

pytest.importorskip("xdist", reason="python3-pytest-xdist is not here")
import order  # noqa: E402

LONG = order.LONG.split()


class Process:
    def __init__(self, tests):
        self.tests, self.got, self.shutting_down = tests, [], False
        self.gateway, self.id = self, "gw"

    def send_runtest_some(self, indices):
        self.got += [self.tests[i] for i in indices]

    def shutdown(self):
        self.shutting_down = True


@pytest.fixture
def sharing(pytestconfig):
    """make(tests, n): the scheduler and its n processes, which have got their first tests."""
    def make(tests, n):
        s = order.Sharing(type("Config", (), {"getvalue": lambda self, name: ["popen"] * n if name == "tx" else None,
                                              "option": pytestconfig.option, "hook": pytestconfig.hook})())
        s.numnodes = n
        processes = [Process(tests) for _ in range(n)]
        for p in processes:
            s.add_node(p)
        for p in processes:
            s.add_node_collection(p, tests)
        s.schedule()
        return s, processes
    return make


def run(s, p):
    """It has ended the first of its tests; what it gets then."""
    n = len(p.got)
    s.mark_test_complete(p, s.node2pending[p][0], 1)
    return p.got[n:]


def test_the_long_ones_come_first_to_every_second_process(sharing):
    long = [f"tests/func/{LONG[2]}[a/b-c::d]", f"tests/func/{LONG[1]}", f"tests/func/{LONG[0]}"]
    short = [f"tests/func/test_x.py::test_{i}" for i in range(9)]
    s, (a, b) = sharing(short + long, 2)
    assert a.got == [long[2], long[1]] and b.got == short[:2]
    assert run(s, b) == [short[2]]
    assert run(s, a) == [long[0]]


def test_a_process_stays_at_its_file_and_helps_where_most_is_left(sharing):
    x, y, z = ([f"{f}.py::test_{i}" for i in range(n)] for f, n in (("x", 4), ("y", 8), ("z", 3)))
    s, (a, b) = sharing(x + y + z, 2)
    assert a.got == x[:2] and b.got == y[:2]
    assert run(s, a) + run(s, a) == x[2:]
    assert run(s, a) == z[:1]  # nobody is there
    assert run(s, b) == y[2:3]
    assert run(s, a) + run(s, a) + run(s, a) == [*z[1:], y[3]]


def test_one_process_has_the_page_for_itself_and_others_help_only_at_the_end(sharing):
    x, page = [f"x.py::test_{i}" for i in range(5)], [f"tests/func/{order.ALONE}::test_{i}" for i in range(7)]
    s, (a, b) = sharing([*x, *page, f"tests/func/{LONG[0]}"], 2)
    assert a.got == [f"tests/func/{LONG[0]}", page[0]] and b.got == x[:2]
    assert run(s, b) + run(s, b) + run(s, b) == x[2:]
    assert run(s, a) + run(s, a) == page[1:3]
    assert run(s, b) == page[3:4]


def test_each_runs_once_and_all_end(sharing):
    tests = [f"tests/func/{order.ALONE}::test_{i}" for i in range(4)] + [f"{f}.py::test_{i}" for f in "xyzuv" for i in range(7)] + [f"tests/func/{name}" for name in LONG[:5]]
    s, processes = sharing(tests, 3)
    while s.pending:
        for p in processes:
            assert len(s.node2pending[p]) <= order.AHEAD
            run(s, p)
    for p in processes:
        while s.node2pending[p]:
            assert not run(s, p)
        assert p.shutting_down
    assert sorted(t for p in processes for t in p.got) == sorted(tests) and s.tests_finished


def test_the_long_ones_are_there():
    assert len(set(LONG)) == len(LONG) > 40
    for name in LONG:
        file, _, test = name.partition("::")
        assert f"\ndef {test}(" in (pathlib.Path(__file__).parent / file).read_text(), name
