"""Processes that tests start: which workers a parent has, and whether one is alive."""

from __future__ import annotations

import subprocess


def workers_of(parent: int) -> list[int]:
    """The worker processes of a parent, oldest first (not the resource tracker that Python starts beside them)."""
    listed = subprocess.run(["ps", "-wweo", "pid=,ppid=,args="], capture_output=True, text=True, check=True).stdout
    entries = [line.split(None, 2) for line in listed.splitlines()]
    return [int(entry[0]) for entry in entries if int(entry[1]) == parent and "spawn_main" in entry[2]]


def is_alive(pid: int) -> bool:
    """Whether a process is there and not a zombie that nobody has waited for yet."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return bool(state.strip()) and not state.startswith("Z")
