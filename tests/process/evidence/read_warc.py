"""Prints each record of a WARC file as one line of JSON, as warcio reads it."""
import json
import sys

from warcio.archiveiterator import ArchiveIterator

FIELDS = {
    "concurrent": "WARC-Concurrent-To",
    "date": "WARC-Date",
    "id": "WARC-Record-ID",
    "ip": "WARC-IP-Address",
    "protocol": "WARC-Protocol",
    "truncated": "WARC-Truncated",
    "uri": "WARC-Target-URI",
}

with open(sys.argv[1], "rb") as archive:
    for record in ArchiveIterator(archive, verify_http=True, check_digests="raise"):
        line = {name: record.rec_headers.get_header(field) for name, field in FIELDS.items()}
        line["type"] = record.rec_type
        head = record.http_headers
        is_response = head and record.rec_type != "request"
        line["status"] = head.get_statuscode() if is_response else None
        line["line"] = f"{head.protocol} {head.statusline}" if head else None
        line["fields"] = dict(head.headers) if head else None
        line["payload"] = record.content_stream().read().decode("iso-8859-1")
        print(json.dumps(line))
