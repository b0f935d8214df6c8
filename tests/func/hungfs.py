# SPDX-License-Identifier: MIT
"""A mount whose file server can be made to hang."""
from fusefs import Mount


class HungFs(Mount):
    """`mnt` shows the directory `below`."""

    def __init__(self, tmp, name, below):
        super().__init__(tmp, below, tmp / name)
        self.mnt = self.path

    def hang(self, operations):
        """"stopped": the server reads nothing any more; else names of operations that do not end, or "all"."""
        if operations == "stopped":
            self.stop()
        else:
            self.rule(*(f"{'*' if op == 'all' else op} * hang" for op in operations.split()))
