"""Executes a command under a seccomp filter: "unshare=refuse" has the call fail with EPERM, as containers
do, and "unshare=kill" kills the process that makes it.

    forbid.py CALL=refuse|kill COMMAND..."""

import ctypes
import os
import platform
import struct
import sys

NUMBERS = {
    "x86_64": {"unshare": 272, "mount": 165, "capset": 126, "setpgid": 109, "listen": 50},
    "aarch64": {"unshare": 97, "mount": 40, "capset": 91, "setpgid": 154, "listen": 201},
}[platform.machine()]
name, action = sys.argv[1].split("=")
result = {"refuse": 0x00050001, "kill": 0x80000000}[action]
libc = ctypes.CDLL(None, use_errno=True)
# Load the number of the call; return the result for this one, and allow others.
filters = [(0x20, 0, 0, 0), (0x15, 0, 1, NUMBERS[name]), (6, 0, 0, result), (6, 0, 0, 0x7FFF0000)]
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *it) for it in filters))
program = struct.pack("HxxxxxxP", len(filters), ctypes.addressof(code))
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, program, 0, 0) == 0, ctypes.get_errno()
os.execvp(sys.argv[2], sys.argv[2:])
