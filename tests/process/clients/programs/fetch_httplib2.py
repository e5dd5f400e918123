"""Asks for each URL with httplib2."""
import sys

import httplib2

for url in sys.argv[1:]:
    answer, body = httplib2.Http(timeout=20).request(url)
    print(f"HTTP/1.1 {answer.status}\nCourtesy-Record: {answer.get('courtesy-record', '')}\n\n{body.decode()}")
