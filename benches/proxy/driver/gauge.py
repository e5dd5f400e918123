"""What a process and all below it have used: processor time and memory."""

import os
import time


def tree(root):
    """The process and all below it."""
    children = {}
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/stat") as file:
                # After the name in parentheses: state, parent.
                parent = int(file.read().rpartition(") ")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(name))
    found, todo = [], [root]
    while todo:
        pid = todo.pop()
        found.append(pid)
        todo += children.get(pid, [])
    return found


def processor_seconds(pid):
    """Of all threads of one process, ended ones too, to the nanosecond; nothing if it has ended."""
    try:
        # The clock of another process, as clock_getcpuclockid(3) names it.
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return 0.0


def processor(root):
    """By process, for `used`."""
    return {pid: processor_seconds(pid) for pid in tree(root)} if root else {}


def used(before, after):
    """Processor seconds between two readings."""
    return sum(seconds - before.get(pid, 0.0) for pid, seconds in after.items())


def resident_kib(root):
    """Memory in use, of all processes together."""
    total = 0
    for pid in tree(root):
        try:
            with open(f"/proc/{pid}/status") as file:
                total += sum(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))
        except OSError:
            continue
    return total


def machine_busy():
    """Processor seconds of the whole machine in which it was not idle, since it was started."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _wait, irq, softirq, steal = map(int, file.readline().split()[1:9])
    return (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
