"""Asks for each URL with tornado's own client, which knows of no proxy."""
import asyncio
import sys

from tornado.httpclient import AsyncHTTPClient


async def main():
    for url in sys.argv[1:]:
        answer = await AsyncHTTPClient().fetch(url, raise_error=False)
        print(f"HTTP/1.1 {answer.code}\nCourtesy-Record: \n\n{(answer.body or b'').decode()}")


asyncio.run(main())
