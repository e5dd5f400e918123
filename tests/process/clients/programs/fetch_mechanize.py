"""Asks for each URL with mechanize, which is not to read robots.txt itself."""
import sys

import mechanize

browser = mechanize.Browser()
browser.set_handle_robots(False)
for url in sys.argv[1:]:
    try:
        answer = browser.open(url, timeout=20)
    except mechanize.HTTPError as error:
        answer = error
    record = answer.info().get("Courtesy-Record", "")
    print(f"HTTP/1.1 {answer.code}\nCourtesy-Record: {record}\n\n{answer.read().decode()}")
