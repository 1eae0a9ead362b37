"""Which process holds a reservation, and whether it is known to have ended."""

from __future__ import annotations

import os
import socket
from functools import cache
from pathlib import Path

_FIRST_NAMESPACE = "pid:[4026531836]"
"""Of processes outside of containers, on every Linux machine: its numbers are the machine's own."""


def this_process() -> str:
    """Name this process so that others on the same machine can tell whether it has ended.

    Empty where nobody could tell: Linux's ``/proc`` says it.
    """
    here = _here()
    started = _start_of(os.getpid())
    return f"{here} {os.getpid()} {started}" if here and started else ""


def has_ended(holder: str | None) -> bool:
    """Whether a process is known to have ended; False wherever that cannot be told from here."""
    boot, _, rest = (holder or "").partition(" ")
    here, _, ours = _here().partition(" ")
    if not here or len(parts := rest.split(" ")) != 4:
        return False
    machine, namespace, number, started = parts
    if f"{machine} {namespace}" != ours:
        return False
    if boot != here:  # of one machine: containers may share a name
        return namespace == _FIRST_NAMESPACE
    return number.isdecimal() and _start_of(int(number)) != started


@cache
def _here() -> str:
    """Name boot, machine and namespace of process numbers; empty where they are not known."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
        namespace = str(Path("/proc/self/ns/pid").readlink())
        Path("/proc/1/stat").read_bytes()
    except OSError:
        return ""
    return f"{boot} {socket.gethostname()} {namespace}"


def _start_of(process: int) -> str:
    """When a process began, in the kernel's ticks; empty if there is none."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text("ascii", "replace")
    except OSError:
        return ""
    state, *fields = stat.rpartition(")")[2].split()
    return "" if state in "ZX" else fields[18]
