"""A site by HTTPS, on port 443 of every address: three pages, one of which nobody may fetch. Writes a line for
each request into "asked" of the directory that it is given, where its certificate is."""

import http.server
import json
import pathlib
import ssl
import sys

DIRECTORY = pathlib.Path(sys.argv[1])
PAGES = {
    "/robots.txt": "User-agent: *\nDisallow: /private/\n",
    "/": '<a href="/a">a</a> <a href="/private/b">b</a>',
    "/a": "a",
    "/private/b": "b",
}


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(DIRECTORY / "asked", "a") as asked:
            asked.write(json.dumps({"path": self.path, "from": self.client_address[0]}) + "\n")
        body = PAGES.get(self.path, "").encode()
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/plain" if self.path == "/robots.txt" else "text/html")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(DIRECTORY / "site.pem", DIRECTORY / "site.key")
server = http.server.ThreadingHTTPServer(("", 443), Site)
server.socket = context.wrap_socket(server.socket, server_side=True)
server.serve_forever()
