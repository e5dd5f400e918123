"""Asks for each URL with aiohttp, which follows the variables only when it is told to."""
import asyncio
import sys

import aiohttp


async def main():
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(trust_env=True, timeout=timeout) as session:
        for url in sys.argv[1:]:
            async with session.get(url) as answer:
                record = answer.headers.get("Courtesy-Record", "")
                text = await answer.text()
                print(f"HTTP/1.1 {answer.status}\nCourtesy-Record: {record}\n\n{text}")


asyncio.run(main())
