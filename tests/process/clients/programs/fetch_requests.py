"""Asks for each URL with requests."""
import sys

import requests

for url in sys.argv[1:]:
    answer = requests.get(url, timeout=20)
    record = answer.headers.get("Courtesy-Record", "")
    print(f"HTTP/1.1 {answer.status_code}\nCourtesy-Record: {record}\n\n{answer.text}")
