"""The command line: benches/proxy/run starts it in namespaces of its own."""

import argparse
import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from . import shares, workloads
from .bench import Bench
from .figures import Figures
from .musts import MUSTS, judge
from .peers import peers
from .processes import Failed
from .report import report
from .world import World


# So long a kind of work is looked at to see where its time goes.
SHARES_S = 6.0


def pairs(text):
    name, _, path = text.partition("=")
    if not path or not Path(path).is_file():
        raise argparse.ArgumentTypeError("NAME=BINARY, and the binary must be there")
    return name, Path(path).resolve()


def names(known):
    def read(text):
        found = text.split(",")
        for name in found:
            if name not in known:
                raise argparse.ArgumentTypeError(f"{name} is none of {', '.join(known)}")
        return found
    return read


def arguments():
    parser = argparse.ArgumentParser(prog="benches/proxy/run", description="Forward proxies side by side.")
    parser.add_argument("--full", action="store_true", help="all peers in all work, more and longer rounds")
    parser.add_argument("--quick", action="store_true",
                        help="what the table of musts needs, in under 5 minutes (default)")
    parser.add_argument("--check", action="store_true", help="end with 1 if a must is missed or not measured")
    parser.add_argument("--only", type=names(workloads.ALL), metavar="WORK,…", help="only this work: "
                        + ", ".join(workloads.ALL))
    parser.add_argument("--with", dest="also", type=lambda text: text.split(","), default=[],
                        metavar="PEER,…", help="these peers in all work they can do")
    parser.add_argument("--alone", action="store_true", help="without peers but those of --with: they need not be installed")
    parser.add_argument("--shares", action="store_true",
                        help="nothing is compared: where the processor's time of ours goes, of each work in --only")
    parser.add_argument("--rounds", type=int, help="how often each measurement is made")
    parser.add_argument("--seconds", type=float, help="how long one takes")
    parser.add_argument("--courtesy", type=Path, required=True, metavar="BINARY",
                        help="what is measured, instead of a build of this checkout")
    parser.add_argument("--beside", type=pairs, action="append", default=[], metavar="NAME=BINARY",
                        help="another build of courtesy, as a peer (may be repeated)")
    parser.add_argument("--tools", type=Path, required=True, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, required=True, help="where tables and measurements are written")
    chosen = parser.parse_args()
    if chosen.full and chosen.quick:
        parser.error("either --quick or --full")
    held = {work.name for work in workloads.IDLE}
    if chosen.shares and not (chosen.only and held.isdisjoint(chosen.only)):
        parser.error("--shares is of the work named by --only, which connections that do nothing are not")
    return chosen


def settings(chosen):
    given = {key: value for key in ("rounds", "seconds") if (value := getattr(chosen, key)) is not None}
    if chosen.shares:
        given = {"seconds": SHARES_S, **given}
    return dataclasses.replace(workloads.FULL if chosen.full else workloads.QUICK, **given)


def measure(chosen, world):
    """Does the work, and gives back the bench with what came of it."""
    bench = Bench(world, settings(chosen), chosen.full, chosen.also)
    wanted = chosen.only or list(workloads.ALL)
    everybody = peers(chosen.tools, chosen.courtesy.resolve(), dict(chosen.beside))
    if chosen.alone or chosen.shares:
        everybody = {name: peer for name, peer in everybody.items() if peer.is_ours or name in chosen.also}
    for name in chosen.also:
        if name not in everybody:
            raise Failed(f"--with {name}: none of {', '.join(everybody)}")
    try:
        bench.start(everybody.values())
        if chosen.shares:
            bench.attribute([workloads.ALL[name] for name in wanted])
            return bench
        for group in workloads.GROUPS:
            group = [work for work in group if work.name in wanted]
            if group:
                bench.say(", ".join(work.name for work in group))
                bench.run(group)
        for work in workloads.IDLE:
            if work.name in wanted:
                bench.say(work.name)
                bench.hold(work)
    finally:
        bench.stop()
    return bench


def machine():
    with open("/proc/cpuinfo") as file:
        models = [line.partition(": ")[2].strip() for line in file if line.startswith("model name")]
    return {"cpus": len(os.sched_getaffinity(0)), "processor": (models or ["processor"])[0],
            "kernel": os.uname().release}


def versions():
    """What the peers say of themselves."""
    said = {}
    for command in (["haproxy", "-v"], ["nginx", "-v"], ["squid", "-v"], ["traffic_server", "--version"]):
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=20)
            said[command[0]] = (done.stdout + done.stderr).strip().splitlines()[0]
        except (OSError, IndexError, subprocess.TimeoutExpired):
            said[command[0]] = None
    return said


def main():
    chosen = arguments()
    # As the first process of its namespace it would not hear them otherwise.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    began = time.monotonic()
    world = World(chosen.tools)
    try:
        bench = measure(chosen, world)
    finally:
        world.close()
    if chosen.shares:
        print(shares.table(bench.shares))
        return 0
    figures = Figures(bench.records)
    verdicts = [judge(must, figures) for must in MUSTS if not chosen.only or must.work in chosen.only]
    meta = {"mode": "full" if chosen.full else "quick", "took_s": time.monotonic() - began, **machine(),
            "settings": dataclasses.asdict(bench.settings), "versions": versions()}
    text = report(meta, figures, verdicts, bench.notes)
    chosen.out.mkdir(parents=True, exist_ok=True)
    measured = {"meta": meta, "verdicts": [dataclasses.asdict(verdict) for verdict in verdicts],
                "notes": bench.notes, "records": bench.records}
    (chosen.out / f"{meta['mode']}.json").write_text(json.dumps(measured, indent=1) + "\n")
    (chosen.out / f"{meta['mode']}.md").write_text(text + "\n")
    print(text)
    return 1 if chosen.check and not all(verdict.holds for verdict in verdicts) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except Failed as error:
        sys.exit(f"benches/proxy/run: {error}")
