# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Backends of the soak that misbehave by script: each request gets one of KINDS by chance."""
import asyncio
import collections
import random
import socket
import struct
import threading

METRICS = b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc 0\n"
JSON = b'{"id":"x","object":"chat.completion","choices":[]}'
BUSY = b'{"error":{"message":"The engine is currently busy","type":"Service Unavailable","param":null,"code":503}}'
SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = b'data: {"id":"x","choices":[{"index":0,"delta":{"content":"word"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
PORTS = 3

KINDS = ("json", "stream", "slow stream", "hang", "die at once", "die in the head", "die after the head", "die in the stream",
         "pings only", "silent after the first token", "garbage", "busy", "busy after 200", "500", "early answer",
         "surplus bytes", "huge")


def chunk(data):
    return b"%x\r\n%s\r\n" % (len(data), data)


def plain(body, status=b"200 OK", more=b""):
    return b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n%s\r\n%s" % (status, len(body), more, body)


class Peers:
    """PORTS listeners in a thread of their own."""

    def __init__(self, port, seed):
        self.ports = [port + i for i in range(PORTS)]
        self.rnd = random.Random(seed)
        self.played = collections.Counter()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.ready = threading.Event()

    def __enter__(self):
        self.thread.start()
        if not self.ready.wait(10):
            raise SystemExit("the scripted peers did not start")
        return self

    def __exit__(self, *exc):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(10)

    def _run(self):
        asyncio.set_event_loop(self.loop)
        for p in self.ports:
            self.loop.run_until_complete(asyncio.start_server(self._serve, "127.0.0.1", p, limit=1 << 22, backlog=512))
        self.ready.set()
        self.loop.run_forever()

    async def _serve(self, reader, writer):
        try:
            while await self._one(reader, writer):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, asyncio.TimeoutError):
            pass
        writer.close()

    async def _one(self, reader, writer):
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        if head.startswith(b"get "):
            writer.write(plain(METRICS, more=b"Connection: close\r\n"))
            return False
        kind = self.rnd.choice(KINDS)
        self.played[kind] += 1
        if kind != "early answer":
            await self._body(reader, head)
        return await self._play(kind, reader, writer)

    @staticmethod
    async def _body(reader, head):
        if b"transfer-encoding: chunked" in head:
            while True:
                size = int(await reader.readline(), 16)
                await reader.readexactly(size + 2)
                if not size:
                    return
        at = head.find(b"content-length:")
        if at >= 0:
            await reader.readexactly(int(head[at:].split(b"\r\n", 1)[0].split(b":")[1]))

    def _leave(self, writer):
        if self.rnd.random() < .5:
            sock = writer.get_extra_info("socket")
            if sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        return False

    async def _play(self, kind, reader, writer):
        """True to go on with the connection."""
        send, rnd = writer.write, self.rnd
        if kind == "json":
            await asyncio.sleep(rnd.random() * .05)
            send(plain(JSON))
        elif kind in ("stream", "slow stream"):
            send(SSE)
            for _ in range(rnd.randrange(1, 30)):
                send(chunk(EVENT))
                await writer.drain()
                await asyncio.sleep(rnd.random() * (.2 if kind == "slow stream" else .01))
            send(chunk(DONE) + b"0\r\n\r\n")
        elif kind == "hang":
            await asyncio.wait_for(reader.read(1), 20)
            return False
        elif kind == "die at once":
            return self._leave(writer)
        elif kind == "die in the head":
            send(SSE[:rnd.randrange(1, len(SSE) - 1)])
            await writer.drain()
            return self._leave(writer)
        elif kind == "die after the head":
            send(SSE)
            await asyncio.sleep(rnd.random() * .05)
            return self._leave(writer)
        elif kind == "die in the stream":
            send(SSE + chunk(EVENT) * rnd.randrange(1, 4) + chunk(EVENT)[:rnd.randrange(0, len(EVENT))])
            await writer.drain()
            await asyncio.sleep(rnd.random() * .05)
            return self._leave(writer)
        elif kind == "pings only":
            send(SSE)
            while not reader.at_eof():
                send(chunk(b": ping\n\n"))
                await writer.drain()
                await asyncio.sleep(.1)
            return False
        elif kind == "silent after the first token":
            send(SSE + chunk(EVENT))
            await asyncio.wait_for(reader.read(1), 20)
            return False
        elif kind == "garbage":
            send(rnd.choice((b"nonsense\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nx",
                             SSE + b"zz\r\n", SSE + chunk(EVENT) + b"-1\r\n")))
            await writer.drain()
            await asyncio.wait_for(reader.read(1), 20)
            return False
        elif kind == "busy":
            send(plain(BUSY, b"503 Service Unavailable"))
        elif kind == "busy after 200":
            send(SSE + chunk(b"data: " + BUSY + b"\n\n") + chunk(DONE) + b"0\r\n\r\n")
        elif kind == "500":
            send(plain(b'{"error":{"message":"boom"}}', b"500 Internal Server Error"))
        elif kind == "early answer":
            send(plain(b'{"error":{"message":"too long"}}', b"400 Bad Request", b"Connection: close\r\n"))
            await writer.drain()
            return False
        elif kind == "surplus bytes":
            send(plain(JSON) + plain(JSON))
            await asyncio.wait_for(reader.read(1), 20)
            return False
        elif kind == "huge":
            send(SSE)
            for _ in range(40):
                send(chunk(b"data: {" + b"x" * 60000 + b"}\n\n"))
                await writer.drain()
            send(chunk(DONE) + b"0\r\n\r\n")
        await writer.drain()
        return True
