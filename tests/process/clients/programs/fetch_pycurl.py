"""Asks for each URL with pycurl, told of the authorities; with --as-it-comes, told nothing."""
import os
import sys
from io import BytesIO

import pycurl

urls = sys.argv[1:]
bundle = os.environ.get("CURL_CA_BUNDLE")
if urls[0] == "--as-it-comes":
    urls, bundle = urls[1:], None
for url in urls:
    body, fields = BytesIO(), {}

    def field(line):
        name, _, value = line.decode("latin-1").partition(":")
        fields[name.lower()] = value.strip()

    curl = pycurl.Curl()
    curl.setopt(pycurl.URL, url)
    curl.setopt(pycurl.TIMEOUT, 20)
    curl.setopt(pycurl.WRITEDATA, body)
    curl.setopt(pycurl.HEADERFUNCTION, field)
    if bundle:
        curl.setopt(pycurl.CAINFO, bundle)
    curl.perform()
    status, record = curl.getinfo(pycurl.RESPONSE_CODE), fields.get("courtesy-record", "")
    print(f"HTTP/1.1 {status}\nCourtesy-Record: {record}\n\n{body.getvalue().decode()}")
