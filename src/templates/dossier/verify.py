#!/usr/bin/env python3
"""Checks a dossier: what one log of courtesy has about one site.

    python3 verify.py                    in the unpacked dossier
    python3 verify.py dossier.tar        or as it was handed over
    python3 verify.py --key KEY          with the key that the log's owner has published

Needs Python 3.8 and nothing else: no courtesy, no network. Exit code 0: it holds. 1: it does not,
and what does not hold is named.
"""

import argparse
import base64
import collections
import gzip
import hashlib
import json
import os
import sys
import tarfile

HASH_MEMBER = b',"hash":"'


class Broken(Exception):
    """Something does not hold."""


def require(holds, what):
    if not holds:
        raise Broken(what)


def sha256(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


# Ed25519 (RFC 8032 section 5.1.7), after the equations there: slow, and enough for one signature.

P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT_OF_MINUS_ONE = pow(2, (P - 1) // 4, P)


def point_of(encoded):
    """The point that 32 bytes encode, as its affine coordinates."""
    y = int.from_bytes(encoded, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    require(y < P, "a point of the signature is no point")
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT_OF_MINUS_ONE % P
    require((x * x - square) % P == 0, "a point of the signature is no point")
    return (P - x if x & 1 != sign else x), y


def add(one, other):
    (x1, y1), (x2, y2) = one, other
    product = D * x1 * x2 * y1 * y2 % P
    x = (x1 * y2 + x2 * y1) * pow(1 + product, P - 2, P) % P
    y = (y1 * y2 + x1 * x2) * pow(1 - product, P - 2, P) % P
    return x, y


def times(number, point):
    result = (0, 1)
    while number:
        if number & 1:
            result = add(result, point)
        point = add(point, point)
        number >>= 1
    return result


BASE = point_of((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def is_signed(key, message, signature):
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    if s >= ORDER:
        return False
    k = int.from_bytes(hashlib.sha512(r + key + message).digest(), "little") % ORDER
    return times(s, BASE) == add(point_of(r), times(k, point_of(key)))


# A checkpoint is a signed note (C2SP signed-note, tlog-checkpoint).


class Key:
    """NAME+ID+KEY, as `courtesy audit key` prints it."""

    def __init__(self, text):
        self.text = text.strip()
        self.name, self.id, encoded = self.text.split("+", 2)
        decoded = base64.b64decode(encoded)
        require(decoded[:1] == b"\x01" and len(decoded) == 33, "the key is none of Ed25519")
        self.key = decoded[1:]
        made = self.id_under(self.name).hex()
        require(made == self.id, "the key does not have the identifier that it names")

    def id_under(self, name):
        """One key signs for each log of its proxy, under the name of that log."""
        return sha256(name.encode(), b"\n\x01", self.key)[:4]


class Checkpoint:
    def __init__(self, text):
        self.body, _, self.signatures = text.partition("\n\n")
        self.body += "\n"
        self.origin, size, root = self.body.split("\n")[:3]
        self.size, self.root = int(size), base64.b64decode(root)

    def check(self, key):
        for line in self.signatures.splitlines():
            _, name, encoded = line.split(" ")
            decoded = base64.b64decode(encoded)
            if decoded[:4] == key.id_under(name):
                signed = is_signed(key.key, self.body.encode(), decoded[4:])
                require(signed, "the checkpoint is not signed by " + key.text)
                return
        raise Broken("the checkpoint has no signature by " + key.text)


# The tree over the log (RFC 6962 section 2.1). The leaf of a line is made of its hash.


def leaf(line_hash):
    return sha256(b"\0", line_hash)


class Tree:
    """A tree of which some leaves are known, and of the others the nodes above them."""

    def __init__(self, leaves, nodes):
        self.leaves, self.nodes = leaves, nodes

    def root(self, start, end):
        known = self.nodes.get("%d-%d" % (start, end))
        if known is not None:
            return bytes.fromhex(known)
        if end - start == 1:
            require(start in self.leaves, "line %d is missing from the tree" % (start + 1))
            return self.leaves[start]
        split = 1
        while 2 * split < end - start:
            split *= 2
        return sha256(b"\1", self.root(start, start + split), self.root(start + split, end))


# The dossier.


class Dossier:
    def __init__(self, path):
        self.path = path
        self.tar = None if os.path.isdir(path) else tarfile.open(path)

    def read(self, name):
        try:
            if self.tar:
                return self.tar.extractfile(name).read()
            with open(os.path.join(self.path, *name.split("/")), "rb") as file:
                return file.read()
        except (OSError, KeyError):
            raise Broken(name + " is missing") from None

    def has(self, name):
        if self.tar:
            return name in self.tar.getnames()
        return os.path.exists(os.path.join(self.path, *name.split("/")))


def lines_of(dossier):
    """Each line, with its number and its hash. The hash of each is that of its text."""
    before = None
    for number, line in enumerate(dossier.read("lines.jsonl").splitlines(), 1):
        at = "line %d of lines.jsonl" % number
        text, member, rest = line.rpartition(HASH_MEMBER)
        require(member and rest.endswith(b'"}'), at + " has no hash")
        made = hashlib.sha256(text + b"}").hexdigest()
        require(made.encode() == rest[:-2], at + " is not the text its hash was made of")
        value = json.loads(line)
        if before:
            require(value["seq"] > before["seq"], at + " is not in its place")
            if value["seq"] == before["seq"] + 1:
                require(value["prev"] == before["hash"], at + " does not name the one before")
        before = value
        yield value


def names_of(value):
    """The evidence that a line names."""
    for part in (value.get("robots"), value.get("from"), value.get("to")):
        if part:
            if part.get("sha256"):
                yield part["sha256"], "txt"
            for member in ("capture", "failed_capture"):
                if part.get(member):
                    yield part[member], "json"


def check_evidence(dossier, lines, lacking):
    count = 0
    for sha256_hex, kind in sorted({name for value in lines for name in names_of(value)}):
        name = "evidence/%s/%s.%s.gz" % (sha256_hex[:2], sha256_hex, kind)
        if name in lacking and not dossier.has(name):
            continue
        content = gzip.decompress(dossier.read(name))
        made = hashlib.sha256(content).hexdigest()
        require(made == sha256_hex, name + " has another content")
        count += 1
    return count


def check(dossier, key_text):
    manifest = json.loads(dossier.read("dossier.json"))
    lines = list(lines_of(dossier))
    origin = manifest["origin"]
    for value in lines:
        of = value.get("origin")
        require(of in (None, origin), "line %d is of another site" % value["seq"])
    evidence = check_evidence(dossier, lines, manifest["lacking"])

    checkpoint = Checkpoint(dossier.read("checkpoint.txt").decode())
    leaves = {value["seq"] - 1: leaf(bytes.fromhex(value["hash"])) for value in lines}
    tree = Tree(leaves, manifest["nodes"])
    root = tree.root(0, checkpoint.size)
    require(root == checkpoint.root, "the lines are not those of the log that the checkpoint is of")
    behind = [value["seq"] for value in lines if value["seq"] > checkpoint.size]
    require(not behind, "line %d is behind the checkpoint" % (behind or [0])[0])

    key = Key(key_text or manifest["key"]) if key_text or manifest["key"] else None
    said = ["not signed"]
    if key:
        checkpoint.check(key)
        said = ["signed by the key that you gave" if key_text else "signed by the key in the dossier, " + key.text]
        if not key_text:
            said.append("ask the log's owner for that key by another way, and give it with --key")
    for text in manifest["published"]:
        earlier = Checkpoint(text)
        if key:
            earlier.check(key)
        require(earlier.size <= checkpoint.size, "a published checkpoint is of more lines")
        goes_on = tree.root(0, earlier.size) == earlier.root
        require(goes_on, "the log does not go on from the checkpoint of line %d" % earlier.size)
        said.append("it goes on from the checkpoint of line %d that was published" % earlier.size)
    report(lines, evidence, origin, checkpoint, said)


def report(lines, evidence, origin, checkpoint, said):
    kinds = collections.Counter(value["event"] for value in lines)
    sums = collections.Counter()
    for value in lines:
        if value["event"] == "counts" and value.get("origin") == origin:
            for name in ("allowed", "denied", "would_deny", "exempted", "tunnelled", "bytes"):
                sums[name] += value.get(name, 0)
    print("The dossier holds: %d lines about %s" % (len(lines), origin))
    print("of a log of %d lines, %s" % (checkpoint.size, checkpoint.origin))
    for words in said:
        print("  " + words)
    print("%d pieces of evidence have the content that they are named by" % evidence)
    print("lines: " + ", ".join("%d %s" % (count, kind) for kind, count in sorted(kinds.items())))
    if sums:
        counted = ["%d %s" % (count, name) for name, count in sums.items() if count]
        print("counted: " + ", ".join(counted))
        if sums["denied"] != kinds["denied"]:
            print("  not all of the denials that are counted have their line here, or the other way round:")
            print("  those of another time, of a process that was killed, or left out")


def main():
    parser = argparse.ArgumentParser(description="Checks a dossier.")
    parser.add_argument("dossier", nargs="?", default=os.path.dirname(os.path.abspath(__file__)))
    parser.add_argument("--key", help="the key of the log's owner: NAME+ID+KEY")
    arguments = parser.parse_args()
    try:
        check(Dossier(arguments.dossier), arguments.key)
    except (Broken, ValueError, KeyError, IndexError, RecursionError) as error:
        print("The dossier does not hold: %s" % error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
