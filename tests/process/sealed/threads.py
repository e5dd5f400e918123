"""Asks for one name by a thousand threads at once, and then for ten thousand names, each of which has an
address of its own."""

import socket
import struct
import threading

SERVER = ("127.0.0.53", 53)
found = []


def query(number, *labels):
    name = b"".join(bytes([len(it)]) + it.encode() for it in labels) + b"\0"
    return struct.pack(">6H", number, 0x100, 1, 0, 0, 0) + name + struct.pack(">2H", 1, 1)


def ask(number):
    # As a resolver has it: three attempts, with five seconds each (resolv.conf(5)).
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        udp.settimeout(5)
        udp.connect(SERVER)
        for _ in range(3):
            udp.send(query(number, "site", "example"))
            try:
                found.append(udp.recv(1500)[-4:])
                return
            except TimeoutError:
                pass


threads = [threading.Thread(target=ask, args=[number]) for number in range(1000)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print("threads", len(found), len(set(found)))


def receive(stream, count):
    data = b""
    while len(data) < count:
        data += stream.recv(count - len(data)) or exit("closed")
    return data


addresses = set()
with socket.create_connection(SERVER, 30) as stream:
    for number in range(10_000):
        message = query(number, f"n{number}", "many", "example")
        stream.sendall(struct.pack(">H", len(message)) + message)
        answer = receive(stream, *struct.unpack(">H", receive(stream, 2)))
        addresses.add(answer[-4:])
print("names", len(addresses))
