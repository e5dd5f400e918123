"""Asks for each URL with httpx."""
import sys

import httpx

for url in sys.argv[1:]:
    answer = httpx.get(url, timeout=20)
    record = answer.headers.get("Courtesy-Record", "")
    print(f"{answer.http_version} {answer.status_code}\nCourtesy-Record: {record}\n\n{answer.text}")
