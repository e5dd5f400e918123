"""The name server of the world: it knows site.example alone. The names that it is asked for become lines of
DIR/asked."""

import socket
import sys

A = b"\0\1"
HEADER_BYTES = 12
KNOWN = b"\4site\7example\0"

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
server.bind((sys.argv[1], 53))
while True:
    query, client = server.recvfrom(512)
    end = query.index(b"\0", HEADER_BYTES) + 1
    name, question = query[HEADER_BYTES:end], query[HEADER_BYTES : end + 4]
    with open(sys.argv[2] + "/asked", "a") as asked:
        asked.write(name.decode("latin-1") + "\n")
    # The address of the origin, with a reference to the name in the question, and a lifetime of a minute.
    address = b"\xc0\x0c\0\1\0\1\0\0\0\x3c\0\4" + socket.inet_aton("93.184.216.34")
    answers = [address] if name.lower() == KNOWN and query[end : end + 2] == A else []
    flags = b"\x81\x80" if name.lower() == KNOWN else b"\x81\x83"
    counts = b"\0\1\0" + bytes([len(answers)]) + b"\0\0\0\0"
    server.sendto(query[:2] + flags + counts + question + b"".join(answers), client)
