"""Asks for each URL with urllib3, given the proxy; with --as-it-comes, given nothing."""
import os
import sys

import urllib3

urls = sys.argv[1:]
if urls[0] == "--as-it-comes":
    urls = urls[1:]
    pool = urllib3.PoolManager()
else:
    pool = urllib3.ProxyManager(os.environ["HTTPS_PROXY"], ca_certs=os.environ.get("SSL_CERT_FILE"))
for url in urls:
    answer = pool.request("GET", url, timeout=20, retries=False)
    record = answer.headers.get("Courtesy-Record", "")
    print(f"HTTP/1.1 {answer.status}\nCourtesy-Record: {record}\n\n{answer.data.decode()}")
