import unittest

from driver.processes import Failed
from driver.shares import ENGINE, KERNEL, OURS, RUNTIME, TLS, UNKNOWN, owner, owner_of, samples, shares, table

CRATES = "/cargo/registry/src/index.crates.io-1949cf8c6b5b557f"
STD = "/rustc/59807616e1/library/core/src/ptr/mod.rs"
MAP = f"{CRATES}/http-1.4.0/src/header/map.rs"
PROGRAM = "/build/courtesy"


class Owner(unittest.TestCase):
    def test_a_file_belongs_to_who_decides_or_to_nobody(self):
        for path, expected in {
            "/home/me/courtesy-0.1.0/src/proxy/decision/gate.rs": OURS,
            "/work/main/src/lib.rs": OURS,
            "/work/main/src/main.rs": None,
            "/work/main/target/release/build/tikv-jemalloc-sys-612d41af/out/build/src/jemalloc.c": None,
            f"{CRATES}/hyper-1.8.1/src/proto/h1/role.rs": ENGINE,
            f"{CRATES}/httparse-1.10.1/src/lib.rs": ENGINE,
            f"{CRATES}/rustls-0.23.46/src/conn.rs": TLS,
            f"{CRATES}/aws-lc-sys-0.32.0/aws-lc/crypto/fipsmodule/aes.c": TLS,
            "/aws-lc/generated-src/linux-x86_64/crypto/fipsmodule/aesni-gcm-avx512.S": TLS,
            f"{CRATES}/tokio-1.54.1/src/runtime/io/driver.rs": RUNTIME,
            f"{CRATES}/tokio-1.54.1/src/time/sleep.rs": None,
            f"{CRATES}/bytes-1.11.0/src/bytes_mut.rs": None,
            MAP: None, STD: None, "": None,
        }.items():
            self.assertEqual(owner_of(path), expected, path)

    def test_a_sample_counts_for_the_first_owner_outward(self):
        sources = {1: [STD, MAP], 2: [STD, f"{CRATES}/hyper-1.8.1/src/a.rs", "/main/src/b.rs"], 3: ["/main/src/c.rs"]}
        frames = lambda *addresses: [(address, PROGRAM) for address in addresses]
        self.assertEqual(owner(frames(1, 2, 3), sources), ENGINE)
        self.assertEqual(owner(frames(1, 3, 2), sources), OURS)
        self.assertEqual(owner(frames(1), sources), UNKNOWN)
        self.assertEqual(owner([(9, "[kernel.kallsyms]"), *frames(3)], sources), KERNEL)


class Samples(unittest.TestCase):
    TEXT = """
\tffffffff821fe80d mutex_lock ([kernel.kallsyms])
\t          108f36 epoll_wait (/usr/lib/libc.so.6)

\t          16d9f6 __memmove (/usr/lib/libc.so.6)
\t          96d383 <a as b>::send::{{closure}} (/build/courtesy)
\tffffffffffffffff [unknown] ([unknown])

"""

    def test_each_has_its_frames_outward(self):
        self.assertEqual(samples(self.TEXT), [
            [(0xffffffff821fe80d, "[kernel.kallsyms]"), (0x108f36, "/usr/lib/libc.so.6")],
            [(0x16d9f6, "/usr/lib/libc.so.6"), (0x96d383, PROGRAM), (2**64 - 1, "[unknown]")],
        ])

    def test_none_are_no_shares(self):
        with self.assertRaises(Failed):
            shares([], PROGRAM)

    def test_a_table_has_a_column_for_each_kind_of_work(self):
        figures = {name: 0 for name in (KERNEL, OURS, ENGINE, TLS, RUNTIME, UNKNOWN)}
        text = table({"one": {**figures, KERNEL: 41.6}, "two": {**figures, OURS: 100}})
        self.assertIn("| for whom | one | two |", text)
        self.assertIn("| kernel | 42 | 0 |", text)
