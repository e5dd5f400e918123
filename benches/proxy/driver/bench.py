"""Runs the work, and keeps what was measured."""

import json
import os
import resource
import select
import subprocess
import sys
import time

from . import gauge, shares
from .peers import INTERCEPT, TUNNEL
from .processes import Failed, start, stop
from .workloads import takers
from .world import TUNNELLED, url

# What the generator is given beyond the time that the work takes.
GRACE_S = 60

# So long connections have done nothing when they are called idle: what a proxy gives back of them, and its
# allocator to the system, is given back by then.
IDLE_S = 12

# Where more goes wrong, something else is measured than the work.
ERRORS_MAX = 0.01


class Bench:
    """Everybody who is measured, in one world; `records` and `notes` are what came of it."""

    def __init__(self, world, settings, full, also):
        self.world, self.settings, self.full, self.also = world, settings, full, also
        self.everybody, self.records, self.notes, self.shares = [], [], [], {}
        self._began = time.monotonic()

    def say(self, text):
        print(f"[{time.monotonic() - self._began:5.0f} s] {text}", file=sys.stderr, flush=True)

    def note(self, text):
        self.notes.append(text)
        self.say(text)

    def start(self, peers):
        """Starts those who can be started, and sends each a request in each of its roles."""
        for peer in peers:
            try:
                peer.start(self.world)
                self.everybody.append(peer)
            except (Failed, OSError, LookupError, subprocess.CalledProcessError) as error:
                self.note(f"{peer.name} is left out: {error}")
        for peer in self.everybody:
            for role in peer.roles:
                self._try(role, peer)

    def stop(self):
        for peer in self.everybody:
            peer.stop()

    def _try(self, role, peer):
        more = {"host": TUNNELLED} if role == TUNNEL else {}
        target = url("1k", tls=role in (TUNNEL, INTERCEPT), **more)
        words = ["--target", target, "--connections", 1, "--requests", 2]
        try:
            told = self._generate(role, peer, words)
            if told["errors"]:
                raise Failed(f"{told['failures']} {told['statuses']}")
        except Failed as error:
            peer.failed[role] = str(error)
            self.note(f"{peer.name} cannot do {role}: {error}")

    def run(self, group):
        """All rounds of a group; each is the one before backwards, so that nobody is always first."""
        steps = [(work, peer) for work in group for peer in self._takers(work)]
        steps = [step for step in steps if self._prepare(*step)]
        for number in range(self.settings.rounds):
            for work, peer in steps if number % 2 == 0 else steps[::-1]:
                try:
                    self._revive(peer)
                    self.records.append(self._measure(work, peer, number))
                except Failed as error:
                    self.note(f"{work.name}: {peer.name}: {error}")

    def _takers(self, work):
        return takers(work, self.everybody, self.full, self.also)

    def _prepare(self, work, peer):
        """Does what comes before a work, and says whether it could be done."""
        try:
            if work.before:
                self._generate(work.role, peer, work.before(self.settings, peer))
            return True
        except Failed as error:
            self.note(f"{work.name}: {peer.name} is left out: {error}")
            return False

    def _revive(self, peer):
        if peer.process is not None and peer.process.poll() is not None:
            self.note(f"{peer.name} ended with status {peer.process.returncode}, and is started again")
            peer.start(self.world)

    def _measure(self, work, peer, number):
        root = peer.process.pid if peer.process else None
        origin = self.world.origin.pid
        began, busy, generator = time.monotonic(), gauge.machine_busy(), children()
        before, origin_before = gauge.processor(root), gauge.processor(origin)
        told = self._generate(work.role, peer, work.options(self.settings, peer))
        cpu = gauge.used(before, gauge.processor(root))
        ours = cpu + gauge.used(origin_before, gauge.processor(origin)) + children() - generator
        wall = time.monotonic() - began
        foreign = max(0.0, gauge.machine_busy() - busy - ours) / (wall * os.cpu_count())
        if told["errors"] > told["requests_all"] * ERRORS_MAX or not told["bytes_all"]:
            raise Failed(f"{told['errors']} errors to {told['requests_all']} answers: {told['failures']}")
        return {
            "work": work.name, "peer": peer.name, "round": number, "foreign": foreign, "cpu_s": cpu,
            "cpu_us": cpu * 1e6 / told["requests_all"], "cpu_s_per_gib": cpu / told["bytes_all"] * 2**30,
            "p50_us": told["latency_us"]["p50"], "generator": told,
        }

    def attribute(self, works):
        """Fills `shares`: where the processor's time of ours goes in each of these."""
        if not self.everybody:
            raise Failed("; ".join(self.notes))
        peer = self.everybody[0]
        for work in works:
            self.say(work.name)
            self._generate(work.role, peer, (work.before or work.options)(self.settings, peer))
            options = work.options(self.settings, peer)
            self.shares[work.name] = shares.measure(
                peer.process.pid, peer.program, lambda: self._generate(work.role, peer, options))

    def hold(self, work):
        """What a connection costs that does nothing: the memory of many less that of few, by their number."""
        for peer in self._takers(work):
            if peer.process is None:
                continue
            try:
                peer.restart(self.world)
                few, many = (self._hold(work, peer, count) for count in self.settings.idle)
            except Failed as error:
                self.note(f"{work.name}: {peer.name}: {error}")
                continue
            kib = (many["resident_kib"] - few["resident_kib"]) / (many["alive"] - few["alive"])
            self.records.append({
                "work": work.name, "peer": peer.name, "round": 0, "foreign": 0.0, "kib": max(0.0, kib),
                "held": [few, many],
            })

    def _hold(self, work, peer, count):
        words = [*work.options(self.settings, peer), "--connections", count, "--source-ips", 4]
        errors = self.world.run / "idle.errors"
        command = self._command("idle", work.role, peer, words)
        generator = start(command, errors, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        try:
            if not select.select([generator.stdout], [], [], GRACE_S)[0]:
                raise Failed(f"{count} idle connections did not stand within {GRACE_S} s")
            standing = generator.stdout.readline()
            time.sleep(IDLE_S)
            resident = gauge.resident_kib(peer.process.pid)
            generator.stdin.close()
            rest = generator.stdout.read()
        finally:
            stop(generator)
        if not standing or not rest:
            raise Failed(errors.read_text().strip())
        alive = json.loads(rest)["alive"]
        if alive < count * 0.95:
            raise Failed(f"of {count} idle connections {alive} were left: {json.loads(rest)['failures']}")
        return {"alive": alive, "resident_kib": resident}

    def _command(self, verb, role, peer, words):
        way = ["--proxy", f"127.0.0.1:{peer.port}"] if peer.command and not peer.enter else []
        entered = peer.enter(peer) if peer.enter else []
        # A tunnel ends at the origin.
        ca = peer.trusts(self.world) if role == INTERCEPT else self.world.run / "origin-ca.pem"
        return [str(word) for word in (*entered, self.world.loadgen, verb, *words, *way, "--ca", ca)]

    def _generate(self, role, peer, words):
        command = self._command("run", role, peer, words)
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=GRACE_S)
        except subprocess.TimeoutExpired:
            raise Failed(f"the generator did not end within {GRACE_S} s") from None
        if done.returncode:
            raise Failed(done.stderr.strip())
        return json.loads(done.stdout)


def children():
    """Processor seconds of the generators that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
