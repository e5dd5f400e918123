"""Asks for each URL with Python's own urllib; with --strict, verifies as Python 3.13 does."""
import ssl
import sys
import urllib.error
import urllib.request

context = ssl.create_default_context()
urls = sys.argv[1:]
if urls[0] == "--strict":
    context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
    urls = urls[1:]
opener = urllib.request.build_opener(urllib.request.HTTPSHandler(context=context))
for url in urls:
    try:
        answer = opener.open(url, timeout=20)
    except urllib.error.HTTPError as error:
        answer = error
    record = answer.headers.get("Courtesy-Record", "")
    print(f"HTTP/1.1 {answer.status}\nCourtesy-Record: {record}\n\n{answer.read().decode()}")
