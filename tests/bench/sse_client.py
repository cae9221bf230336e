"""A chat-stream client on aiohttp as Python benchmark tools have it: a stamp per event, json.loads of each, the text
put together. Usage: sse_client.py URL STREAMS REQUESTS; each stream reads REQUESTS replies one after the other.
Prints {"events"}."""
import asyncio
import json
import sys
import time

import aiohttp


async def read_stream(response):
    pending, text, stamps, events = b"", [], [], 0
    async for piece in response.content.iter_any():
        now = time.perf_counter()
        pending += piece
        *lines, pending = pending.split(b"\n\n")
        for line in lines:
            if not line.startswith(b"data: ") or line == b"data: [DONE]":
                continue
            value = json.loads(line[6:])
            events += 1
            if value["choices"] and value["choices"][0]["delta"].get("content"):
                stamps.append(now)
                text.append(value["choices"][0]["delta"]["content"])
    assert "".join(text)
    return events


async def user(session, url, requests):
    events = 0
    for _ in range(requests):
        async with session.post(url, json={"model": "bench", "stream": True, "messages": []}) as response:
            assert response.status == 200
            events += await read_stream(response)
    return events


async def main(url, streams, requests):
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=None)) as session:
        counts = await asyncio.gather(*(user(session, url, requests) for _ in range(streams)))
    print(json.dumps({"events": sum(counts)}))


asyncio.run(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
