"""Tries to get out of a sealed run. Each line says what was tried, and how it ended."""

import ctypes
import errno
import fcntl
import os
import socket
import struct
import sys
import time
import urllib.error
import urllib.request

libc = ctypes.CDLL(None, use_errno=True)
first = os.getppid()


def tried(what, attempt):
    begun = time.monotonic()
    try:
        outcome = attempt()
    except OSError as error:
        outcome = errno.errorcode.get(error.errno, str(error))
    slow = " SLOW" if time.monotonic() - begun > 3 else ""
    print(f"{what}: {outcome}{slow}", flush=True)


def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as stream:
        stream.settimeout(5)
        stream.connect(address)
    return "REACHED"


def datagram(family, address):
    with socket.socket(family, socket.SOCK_DGRAM) as udp:
        udp.settimeout(5)
        udp.connect(address)
        udp.send(b"x")
        udp.recv(1)
    return "REACHED"


def raw():
    socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    return "MADE"


def status(url):
    try:
        return urllib.request.urlopen(url, timeout=10).status
    except urllib.error.HTTPError as error:
        return error.code


def call(name, *arguments):
    if getattr(libc, name)(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "")
    return "DONE"


def enter_network():
    with open(f"/proc/{first}/ns/net") as network:
        return call("setns", network.fileno(), 0x40000000)


def memory():
    with open(f"/proc/{first}/mem", "rb"):
        return "OPENED"


def unhide():
    # As root of a namespace of its own below this one.
    if os.fork() == 0:
        try:
            call("unshare", 0x10000000 | 0x00020000)
            call("umount2", b"/etc/resolv.conf", 2)
            os._exit(1)
        except OSError:
            os._exit(0)
    return "refused" if os.wait()[1] == 0 else "UNMOUNTED"


def bind():
    # What is covered, by a mount of the directory without what is mounted in it.
    if os.fork() == 0:
        try:
            call("unshare", 0x10000000 | 0x00020000)
            call("mount", b"/etc", b"/mnt", None, 0x1000, None)
            os._exit(1)
        except OSError:
            os._exit(0)
    return "refused" if os.wait()[1] == 0 else "MOUNTED"


def descriptor(number):
    return "THERE" if os.path.exists(f"/proc/self/fd/{number}") else "closed"


def standard_input():
    return "empty" if os.read(0, 1) == b"" else "READ"


def opened(path):
    # To be written: by root it could act outside.
    try:
        os.close(os.open(path, os.O_WRONLY))
        return "OPENED"
    except OSError:
        return "refused"


def take_descriptor():
    process = call_number(434, first, 0)
    return call_number(438, process, 0, 0) and "TAKEN"


def call_number(*arguments):
    value = libc.syscall(*arguments)
    if value < 0:
        raise OSError(ctypes.get_errno(), "")
    return value


def end_first():
    os.kill(first, 9)
    os.kill(first, 15)
    return "it goes on" if os.path.exists(f"/proc/{first}") else "ENDED"


def outside():
    mine = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    return "none" if len(mine) <= 4 else f"SEEN {mine}"


def interface():
    with socket.socket() as stream:
        fcntl.ioctl(stream, 0x8914, struct.pack("16sh22x", b"lo", 0))
    return "CHANGED"


def add_interface():
    # RTM_NEWLINK of kind "dummy".
    kind = struct.pack("HH8s", 10, 1, b"dummy")
    body = struct.pack("BxHiII", 0, 0, 0, 0, 0) + struct.pack("HH", 4 + len(kind), 18) + kind
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0) as netlink:
        netlink.send(struct.pack("IHHII", 16 + len(body), 16, 0x605, 1, 0) + body)
        number = -struct.unpack_from("i", netlink.recv(4096), 16)[0]
    if number:
        raise OSError(number, "")
    return "MADE"


def keep_rights():
    # A program of root with the bit of another user gives no right (no_new_privs).
    import subprocess

    said = subprocess.run(["unshare", "--net", "true"], capture_output=True)
    return "refused" if said.returncode else "DONE"


v4, v6 = socket.AF_INET, socket.AF_INET6
tried("raw socket", raw)
tried("other port", lambda: connect(v4, ("93.184.216.34", 22)))
tried("other port by name", lambda: connect(v4, ("site.example", 5432)))
tried("other port of IPv6", lambda: connect(v6, ("2606:2800::1", 22)))
tried("name server", lambda: datagram(v4, ("8.8.8.8", 53)))
tried("name server by TCP", lambda: connect(v4, ("8.8.8.8", 53)))
tried("HTTP/3", lambda: datagram(v4, ("93.184.216.34", 443)))
tried("UDP of IPv6", lambda: datagram(v6, ("2606:2800::1", 443)))
tried("private address", lambda: status("http://10.1.2.3/"))
tried("private address of IPv6", lambda: status("http://[fd12::1]/"))
tried("link-local address", lambda: status("http://169.254.169.254/"))
tried("virtual address without a name", lambda: status("http://198.18.200.1/"))
tried("abstract socket", lambda: connect(socket.AF_UNIX, "\0courtesy-test-outside"))
tried("network of the first process", enter_network)
tried("trace of the first process", lambda: call("ptrace", 16, first, 0, 0))
tried("memory of the first process", memory)
tried("files of the first process", lambda: os.listdir(f"/proc/{first}/root"))
tried("descriptors of the first process", lambda: os.stat(f"/proc/{first}/fd/3"))
tried("a descriptor of the first process", take_descriptor)
tried("end of the first process", end_first)
tried("processes outside", outside)
tried("inherited socket", lambda: descriptor(7))
tried("inherited directory", lambda: descriptor(8))
tried("inherited namespace", lambda: descriptor(9))
tried("inherited path of a socket", lambda: descriptor(6))
tried("inherited file", lambda: descriptor(5))
tried("inherited memory of a process", lambda: descriptor(10))
tried("inherited setting of the kernel", lambda: descriptor(11))
tried("standard input that is memory", standard_input)
tried("settings of the kernel", lambda: opened("/proc/sys/kernel/core_pattern"))
tried("settings of devices", lambda: opened("/sys/kernel/uevent_helper"))
tried("log of the kernel", lambda: opened("/dev/kmsg"))
tried("keys of the kernel", lambda: opened("/proc/sysrq-trigger"))
tried("mount", unhide)
tried("mount of what is covered", bind)
tried("interface", interface)
tried("another interface", add_interface)
tried("network by a program", keep_rights)
tried("new network", lambda: call("unshare", 0x40000000))
tried("host name", lambda: call("sethostname", b"x", 1))
