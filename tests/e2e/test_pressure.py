# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Answers that come early, uploads that must wait, ends that come in the middle: where two
directions of one request, or two requests of one connection, could get into each other's way."""
import socket
import threading
import time

import pytest

from harness import SLOW, chat_body, fetch, pool, wait_until
from peer import LAST_CHUNK, SSE_DONE, SSE_HEAD, Client, Gate, chunk, head, json_answer, sse_event


def test_early_answer_does_not_share_its_connection(router, backend):
    """The backend begins to answer while it has read a part of the body only. The router forgot
    the rest of the body as soon as the answer had begun, took the request for sent, and gave the
    connection to the next request, which the backend read as the rest of this one's body."""
    seen = Gate()
    big, small = chat_body("x" * 6000000), chat_body("second")

    def begin(p, q):
        if int(q.get("content-length")) == len(big):
            p.send(head(Content_Type="application/json", Content_Length=10) + b"01234")
            seen.wait()
            part = p.exactly(3000000)
            time.sleep(0.2)
            p.send(b"56789")
            p.buf = part + p.buf

    b = backend(lambda p, q: len(q.body) < 1000000 and p.send(json_answer()), on_head=begin)
    b.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16384)
    r = router([b.url], workers=1)
    c = Client(r.port)
    sender = threading.Thread(target=c.post, args=(big,))
    sender.start()
    assert c.response_head().status == 200 and c.exactly(5) == b"01234"
    seen.open()
    assert c.exactly(5) == b"56789"
    sender.join()
    other = Client(r.port)
    other.post(small)
    assert other.response().status == 200
    assert [q.body for q in b.requests if q.cut is None and q.body != big] == [small]


def test_upload_in_the_queue_is_not_late(router, backend):
    """A body beyond limits.scan waits in the queue; the router stops reading it. The client was
    then told 408, for not sending what nobody read."""
    go = Gate()

    def play(p, q):
        if len(q.body) < 1000:
            go.wait()
        p.send(json_answer())

    b = backend(play)
    r = router([pool([b.url], concurrency_threshold=1, queue={"timeout": "20s"})], limits={"scan": "64KiB"},
               timeouts={"head": "400ms"})
    first = Client(r.port)
    first.post(chat_body())
    b.wait_request()
    big = chat_body("y" * 6000000)
    c = Client(r.port)
    sender = threading.Thread(target=c.post, args=(big,))
    sender.start()
    wait_until(lambda: r.metrics().sum("kvsteer_queue_length") == 1, what="one waits")
    time.sleep(1.0)
    go.open()
    assert first.response().status == 200
    sender.join(20)
    assert c.response().status == 200
    assert b.wait_request(2).body == big


def test_upload_that_stops_is_late(router, backend):
    """The other side of it: a client that is listened to and says nothing gets its 408."""
    b = backend()
    r = router([b.url], timeouts={"head": "300ms"})
    c = Client(r.port)
    c.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\n{")
    assert c.response().status == 408
    assert not b.requests


def test_many_pipelined_local_answers(router, backend):
    """Hundreds of requests in one read that are all answered at once: in order, and the stack
    does not grow with them."""
    r = router([pool([backend().url], models=["m"])])
    c = Client(r.port)
    n = 450
    c.send(b"".join(b"GET /v1/models/%d HTTP/1.1\r\nHost: a\r\nX-Request-Id: r%d\r\n\r\n" % (i, i) if i % 2 else
                    b"GET /nowhere HTTP/1.1\r\nHost: a\r\nX-Request-Id: r%d\r\n\r\n" % i for i in range(n)))
    for i in range(n):
        got = c.response(method="GET")
        assert got.status == (404 if i % 2 else 403)
        assert got.get("x-request-id") == "r%d" % i


def test_drain_serves_who_has_connected(router, backend):
    """A client has connected, its request is on its way, and SIGTERM comes between: it is served."""
    b = backend()
    r = router([b.url])
    clients = [Client(r.port) for _ in range(8)]
    wait_until(lambda: r.metrics().sum("kvsteer_client_connections_total") >= 8, what="connected")
    r.terminate()
    r.stopped = True
    wait_until(lambda: fetch(r.admin_port, "/readyz")[0] == 503, what="not ready")
    for c in clients:
        c.post(chat_body())
    for c in clients:
        got = c.response()
        assert got.status == 200 and got.get("connection") == "close"
    assert r.wait(10) == 0


@pytest.mark.parametrize("fields", [(), ("Connection: close",)], ids=["idle", "lingering"])
def test_end_of_the_process_keeps_the_tail_of_an_answer(router, backend, fields):
    """The whole answer is in the kernel, the client has read little of it, and the process ends:
    the rest still arrives. A reset of the idle or lingering connection threw it away."""
    body = bytes(i * 7 % 251 for i in range(300000))
    b = backend(lambda p, q: p.send(json_answer(body)))
    r = router([b.url], timeouts={"drain": "100ms"})
    c = Client(r.port, rcvbuf=4096)
    c.post(chat_body(), fields=fields)
    r.wait_access("status=200")
    r.terminate()
    r.stopped = True
    assert r.wait(10) == 0
    got = c.response()
    assert got.cut is None and got.body == body


def test_nobody_waits_for_a_dead_pool(router, backend):
    """The only backend dies while many wait for it: all of them hear of it at once, not ten a second."""
    b = backend(lambda p, q: Gate().wait(30))
    r = router([pool([b.url], concurrency_threshold=1, queue={"timeout": "60s"})])
    clients = [Client(r.port) for _ in range(61)]
    clients[0].post(chat_body())
    b.wait_request()
    for c in clients[1:]:
        c.post(chat_body())
    wait_until(lambda: r.metrics().sum("kvsteer_queue_length") == 60, what="sixty wait")
    t0 = time.monotonic()
    b.close()
    for c in clients:
        assert c.response(timeout=20).status in (502, 503)
    assert time.monotonic() - t0 < 3 * SLOW


def test_stream_before_the_end_of_the_request(router, backend):
    """A backend that streams before it has read all of a long upload: its first token was due
    before it could be asked for, by a clock that had not been set."""
    done = Gate()

    def early(p, q):
        p.send(SSE_HEAD + chunk(b": ping\n\n") * 3)
        done.wait()
        p.send(chunk(sse_event("word")) + chunk(SSE_DONE) + LAST_CHUNK)

    b = backend(on_head=early)
    r = router([b.url], limits={"scan": "64KiB"}, timeouts={"head_hold": "200ms"})
    c = Client(r.port)
    body = chat_body("x" * 300000, stream=True)
    c.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:200000])
    assert c.response_head().status == 200
    c.until(b"ping")
    time.sleep(0.3)
    done.open()
    assert c.until(LAST_CHUNK).count(b"word") == 1


def test_interim_and_error_do_not_mix(router, backend):
    """An interim answer, then nothing more but the end: one whole interim, then one whole error."""
    b = backend(lambda p, q: p.send(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n") or "close")
    c = Client(router([b.url]).port)
    c.post(chat_body())
    got = c.response()
    assert got.status == 502 and [i.status for i in got.interims] == [103]
