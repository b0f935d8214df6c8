#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""resource-manager.md's `python scripts/gpu_resource_manager.py` and `system_monitor.py`: the program of that name.

It is looked for beside this file (and where this file is a link to), in ../../bin from there, and on PATH.
"""
import os
import shutil
import sys

PROGRAMS = {"gpu_resource_manager.py": "gpu-resource-manager", "system_monitor.py": "system_monitor"}


def find(program):
    here = os.path.dirname(os.path.realpath(__file__))
    for place in (os.path.dirname(os.path.abspath(__file__)), here, os.path.join(here, "../../bin")):
        path = os.path.join(place, program)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return shutil.which(program)


def main():
    name = os.path.basename(__file__)
    program = PROGRAMS.get(name, "gpu-resource-manager")
    path = find(program)
    if path is None:
        sys.exit(f"{name}: {program} is neither beside it nor on PATH")
    try:  # under this name, by which people look for it in lists of processes
        os.execv(path, [name, *sys.argv[1:]])
    except OSError as e:
        sys.exit(f"{name}: cannot run {path}: {e.strerror}")


main()
