"""Where the processor's time for a kind of work goes: in whose code, and for whom.

A sample (perf(1)) counts for the kernel, or for the first of those that own something, from the function it was
taken in outward through all that called it, inlined calls as well: what the allocator, a copy or a map takes
counts for whoever asked for it.
"""

import json
import re
import subprocess
import tempfile
from collections import Counter
from pathlib import Path

from .processes import Failed

KERNEL, OURS, ENGINE, TLS, RUNTIME, UNKNOWN = (
    "kernel", "ours", "HTTP engine", "TLS and its cryptography", "runtime", "not known for whom")
OWNERS = (KERNEL, OURS, ENGINE, TLS, RUNTIME, UNKNOWN)

ENGINE_CRATES = {"hyper", "hyper-util", "httparse", "h2", "http-body", "http-body-util", "want"}
TLS_CRATES = {"rustls", "tokio-rustls", "rustls-webpki", "aws-lc-rs", "aws-lc-sys"}
RUNTIME_CRATES = {"tokio", "mio", "socket2"}
# Timers and channels belong to whoever waits for them.
USED_BY_OTHERS = re.compile(r"/tokio-[^/]+/src/(time|sync)/")
# The allocator is C.
OUR_SOURCE = re.compile(r"/src/.*\.rs$")
CRATE = re.compile(r"/([A-Za-z0-9_-]+?)-\d+\.\d+\.[^/]*/")

# Enough to find callers through the largest futures on the stack.
STACK_BYTES = 16_384
SAMPLES_PER_SECOND = 997


def owner_of(path):
    """Whose a source file is; nobody's if it only serves others."""
    if USED_BY_OTHERS.search(path):
        return None
    if "/aws-lc/" in path:
        return TLS
    crate = CRATE.search(path)
    if crate is None or crate[1] == "courtesy":
        # All that is in main.rs for longer than a start is the allocator, which is called for others.
        is_ours = OUR_SOURCE.search(path) and not path.startswith("/rustc/") and not path.endswith("/src/main.rs")
        return OURS if is_ours else None
    for crates, owner in ((ENGINE_CRATES, ENGINE), (TLS_CRATES, TLS), (RUNTIME_CRATES, RUNTIME)):
        if crate[1] in crates:
            return owner
    return None


def owner(frames, sources):
    """For whom a sample counts: `frames` outward as (address, object), `sources` the files of an address in the
    program, outward as well."""
    if frames and "kernel" in frames[0][1]:
        return KERNEL
    files = (path for address, _ in frames for path in sources.get(address, ()))
    return next(filter(None, map(owner_of, files)), UNKNOWN)


def samples(text):
    """What `perf script -F ip,sym,dso` printed, a list of (address, object) for each sample."""
    found = []
    for block in text.split("\n\n"):
        lines = (re.match(r"\s+([0-9a-f]+) .*\((.*)\)$", line) for line in block.splitlines())
        frames = [(int(line[1], 16), line[2]) for line in lines if line]
        if frames:
            found.append(frames)
    return found


def sources_of(program, addresses):
    """The source files of addresses in the program as perf counts them: in its file."""
    headers = run("readelf", "-lW", program)
    code = next((line.split() for line in headers.splitlines() if "LOAD" in line and " R E " in line), None)
    if code is None:
        raise Failed(f"{program} has no code that readelf finds")
    offset = int(code[2], 16) - int(code[1], 16)
    asked = "\n".join(hex(address + offset) for address in addresses)
    told = run("llvm-symbolizer", "--inlines", "--output-style=JSON", "-e", program, given=asked)
    symbols = [json.loads(line)["Symbol"] for line in told.splitlines()]
    return {address: [frame["FileName"] for frame in found] for address, found in zip(addresses, symbols)}


def run(*words, given=None):
    try:
        done = subprocess.run([str(word) for word in words], input=given, capture_output=True, text=True, check=True)
    except FileNotFoundError:
        raise Failed(f"{words[0]} is missing: apt-get install --no-install-recommends binutils linux-perf llvm") from None
    except subprocess.CalledProcessError as error:
        raise Failed(f"{words[0]}: {error.stderr.strip()}") from None
    return done.stdout


def measure(process, program, work):
    """Samples the process while `work` is done, and gives the shares by owner."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        data = Path(folder) / "perf.data"
        run("perf", "--version")
        recorder = subprocess.Popen(
            ["perf", "record", "-q", "-F", str(SAMPLES_PER_SECOND), "--call-graph", f"dwarf,{STACK_BYTES}",
             "-p", str(process), "-o", str(data)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            work()
        finally:
            recorder.terminate()
            recorder.wait()
        taken = samples(run("perf", "script", "-i", data, "--no-inline", "-F", "ip,sym,dso"))
    return shares(taken, Path(program))


def shares(taken, program):
    """The share of each owner in the samples, in hundredths."""
    if not taken:
        raise Failed("perf has taken no samples")
    # A caller goes on behind its call: what called is just before.
    inside = [[(address - (at > 0), object) for at, (address, object) in enumerate(frames)] for frames in taken]
    addresses = sorted({address for frames in inside for address, object in frames if object == str(program)})
    sources = sources_of(program, addresses)
    if not any(owner_of(path) for files in sources.values() for path in files):
        raise Failed(f"{program} does not tell its sources: leave --courtesy out")
    counted = Counter(owner([frame for frame in frames if frame[1] == str(program) or "kernel" in frame[1]], sources)
                      for frames in inside)
    return {name: 100 * counted[name] / len(taken) for name in OWNERS}


def table(by_work):
    """The shares of each kind of work, a column each."""
    works = list(by_work)
    rows = [["for whom", *works], ["---", *["---:" for _ in works]]]
    rows += [[name, *[f"{by_work[work][name]:.0f}" for work in works]] for name in OWNERS]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)
