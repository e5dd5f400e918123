"""An origin on ports 80 and 443, an echo on 5432, and a name server that knows *.many.example. Each
request becomes a line of DIR/served: the path, and "via" if a proxy has sent it. The second argument
is the address of the origin, :: for IPv6 and IPv4; without one, all of IPv4."""

import http.server
import socket
import socketserver
import ssl
import sys
import threading

directory, address = (*sys.argv[1:], "")[:2]


class Origin(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = b"the page\n"
        if self.path == "/robots.txt":
            body = b"User-agent: *\nDisallow: /private/\n"
        with open(directory + "/served", "a") as served:
            served.write(self.path + (" via" if self.headers["Via"] else "") + "\n")
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Echo(socketserver.BaseRequestHandler):
    def handle(self):
        self.request.sendall(self.request.recv(100))


def serve_names():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
        # A test may have another one at one address.
        udp.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        udp.bind(("", 53))
        while True:
            query, client = udp.recvfrom(1500)
            end = query.index(b"\0", 12) + 5
            question, is_known = query[12:end], b"\x04many\x07example\0" in query
            is_address = is_known and question[-4:] == b"\0\x01\0\x01"
            head = query[:2] + (b"\x81\x80" if is_known else b"\x81\x83")
            answer = b"\xc0\x0c\0\x01\0\x01\0\0\0\x3c\0\x04\xc0\0\x02\x01" if is_address else b""
            counts = b"\0\x01\0" + bytes([is_address]) + bytes(4)
            udp.sendto(head + counts + question + answer, client)


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 100
    address_family = socket.AF_INET6 if ":" in address else socket.AF_INET


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(directory + "/origin.pem", directory + "/key.pem")
secure = Server((address, 443), Origin)
secure.socket = context.wrap_socket(secure.socket, server_side=True)
abstract = socket.socket(socket.AF_UNIX)
abstract.bind("\0courtesy-test-outside")
abstract.listen()
for server in [secure, socketserver.ThreadingTCPServer(("", 5432), Echo)]:
    threading.Thread(target=server.serve_forever, daemon=True).start()
threading.Thread(target=serve_names, daemon=True).start()
Server((address, 80), Origin).serve_forever()
