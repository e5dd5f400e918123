"""Asks for each URL with aiohttp, which follows the variables only when it is told to: with --as-it-comes, it is
not."""
import asyncio
import sys

import aiohttp


async def main():
    urls = sys.argv[1:]
    follows = urls[0] != "--as-it-comes"
    timeout = aiohttp.ClientTimeout(total=20)
    async with aiohttp.ClientSession(trust_env=follows, timeout=timeout) as session:
        for url in urls if follows else urls[1:]:
            async with session.get(url) as answer:
                record = answer.headers.get("Courtesy-Record", "")
                text = await answer.text()
                print(f"HTTP/1.1 {answer.status}\nCourtesy-Record: {record}\n\n{text}")


asyncio.run(main())
