# SPDX-License-Identifier: MIT
"""How a test waits (patience.py)."""
import pytest

from patience import must_come, wait_for


def test_what_goes_while_it_is_looked_at_is_no_answer_yet(tmp_path):
    looks = []

    def look():
        looks.append(1)
        if len(looks) == 1:
            return (tmp_path / "gone").stat()
        return len(looks) == 3
    assert wait_for(look) is True and len(looks) == 3


def test_what_is_never_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="gone"):
        wait_for((tmp_path / "gone").stat, 0.05)


def test_what_does_not_come_is_told_with_the_last_answer():
    assert wait_for(list, 0.05) == []
    with pytest.raises(AssertionError, match=r"not within 0.05 s; the last answer was \[\]"):
        must_come(list, 0.05)
