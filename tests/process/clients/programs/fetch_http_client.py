"""Asks for each URL with Python's http.client, which knows of no proxy."""
import http.client
import sys
from urllib.parse import urlsplit

for url in sys.argv[1:]:
    parts = urlsplit(url)
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = kind(parts.netloc, timeout=20)
    connection.request("GET", parts.path)
    answer = connection.getresponse()
    print(f"HTTP/1.1 {answer.status}\nCourtesy-Record: \n\n{answer.read().decode()}")
