# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Clients that go away. An engine computes for as long as its connection is open: it must
hear of it within 100 ms, in every state of the request, and the slot must be free again."""
import time

import pytest

from harness import SLOW, best_of, chat_body, pool, wait_until
from peer import LAST_CHUNK, SSE_DONE, SSE_HEAD, Client, Gate, chunk, json_answer, sse_event

RELEASE_S = 0.1


def leave(client, how):
    if how == "fin":
        client.fin()
    elif how == "close":
        client.close()
    else:
        client.rst()


@pytest.mark.parametrize("how", ["close", "fin", "rst"])
@pytest.mark.parametrize("kind", ["json", "stream", "pipelined", "chunked"])
def test_abort_during_prefill(router, backend, kind, how):
    """The engine has the request and has sent nothing, as during a prefill."""
    b = backend(lambda p, q: setattr(p, "closed_at", p.wait_closed(20)))
    r = router([b.url])

    def measure():
        n = len(b.requests)
        c = Client(r.port)
        if kind == "chunked":
            c.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
                   + chunk(chat_body(stream=True)) + LAST_CHUNK)
        else:
            c.post(chat_body(stream=kind != "json"))
        if kind == "pipelined":
            c.post(chat_body("never seen"))
        peer = b.wait_request(n + 1).peer
        assert r.in_flight() == 1
        start = time.monotonic()
        leave(c, how)
        closed, _ = wait_until(lambda: getattr(peer, "closed_at", None), 5, "backend connection closed", every=0.001)
        r.wait_in_flight(0, 1)
        assert len(b.requests) == n + 1 and b"never seen" not in b"".join(q.body for q in b.requests)
        c.close()
        return closed - start

    best_of(3, measure, RELEASE_S, "abort by %s" % how)
    r.wait_access("reason=client_gone")


@pytest.mark.parametrize("how", ["close", "fin", "rst"])
def test_abort_in_mid_stream(router, backend, how):
    """Events flow; the client goes; the engine's writes must fail soon, not when its buffers are full."""
    def play(p, q):
        p.send(SSE_HEAD + chunk(sse_event("first")))
        p.closed_at = p.wait_closed(20)

    b = backend(play)
    r = router([b.url])

    def measure():
        n = len(b.requests)
        c = Client(r.port)
        c.post(chat_body(stream=True))
        peer = b.wait_request(n + 1).peer
        c.until(b"first")
        start = time.monotonic()
        leave(c, how)
        closed, _ = wait_until(lambda: getattr(peer, "closed_at", None), 5, "backend connection closed", every=0.001)
        r.wait_in_flight(0, 1)
        c.close()
        return closed - start

    best_of(3, measure, RELEASE_S, "abort by %s" % how)


def test_abort_while_the_body_is_uploaded(router, backend):
    """Half a request is no request: the backend never sees it."""
    b = backend()
    r = router([b.url])
    for how in ("fin", "rst", "close"):
        c = Client(r.port)
        c.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 1000\r\n\r\n" + b'{"model":"m",')
        leave(c, how)
        c.close()
        wait_until(lambda: r.metrics().sum("kvsteer_connections", side="client") == 0, what="client connection gone")
    assert b.bytes_in == 0


def test_half_close_delivers_if_told_to(router, backend):
    """client_half_close: deliver: a FIN is the end of the requests, not of the interest."""
    gate = Gate()
    b = backend(lambda p, q: (gate.wait(), p.send(json_answer())))
    r = router([b.url], client_half_close="deliver")
    c = Client(r.port)
    c.post(chat_body())
    b.wait_request(1)
    c.fin()
    assert c.silent(0.3)
    gate.open()
    assert c.response().status == 200
    assert c.wait_closed(5)[1] == "fin"


def test_half_close_deliver_still_sees_a_reset(router, backend):
    """...but a reset is an abort there too."""
    b = backend(lambda p, q: setattr(p, "closed_at", p.wait_closed(20)))
    r = router([b.url], client_half_close="deliver")
    c = Client(r.port)
    c.post(chat_body())
    peer = b.wait_request(1).peer
    c.rst()
    wait_until(lambda: getattr(peer, "closed_at", None), 2, "backend connection closed")
    r.wait_in_flight(0)


def test_on_abort_drain(router, backend):
    """on_abort: drain: for engines that an abort hurts: the answer is read to its end and
    thrown away, the slot stays taken until then, the connection lives on."""
    gate = Gate()

    def play(p, q):
        p.send(SSE_HEAD + chunk(sse_event("first")))
        gate.wait()
        p.send(chunk(sse_event("x" * 100000)) + chunk(SSE_DONE) + LAST_CHUNK)

    b = backend(play)
    r = router([pool([b.url], on_abort="drain")], workers=1)
    c = Client(r.port)
    c.post(chat_body(stream=True))
    c.until(b"first")
    c.rst()
    assert b.requests[0].peer.silent(0.3)
    assert r.in_flight() == 1
    gate.open()
    r.wait_in_flight(0)
    c = Client(r.port)
    c.post(chat_body(stream=True))
    assert c.response().cut is None
    assert b.requests[0].peer is b.requests[1].peer


def test_many_aborts_leak_nothing(router, backend):
    """Three hundred aborts at random points: every slot comes back, and so does the memory."""
    def play(p, q):
        p.send(SSE_HEAD)
        for i in range(200):
            p.send(chunk(sse_event("w%d" % i)))
            time.sleep(0.002)
        p.send(chunk(SSE_DONE) + LAST_CHUNK)

    b = backend(play)
    r = router([pool([b.url], concurrency_threshold=8)])

    def round_of(n):
        clients = [Client(r.port) for _ in range(n)]
        for i, c in enumerate(clients):
            c.post(chat_body("n%d" % i, stream=True))
        for i, c in enumerate(clients):
            if i % 3 == 0:
                c.until(b"\r\n\r\n")
            leave(c, ("close", "rst", "close")[i % 3])
        r.wait_in_flight(0)
        wait_until(lambda: r.metrics().sum("kvsteer_queue_length") == 0, what="queue empty")

    round_of(30)
    before = r.rss_bytes()
    for _ in range(9):
        round_of(30)
    assert r.rss_bytes() - before < (8 << 20) * SLOW
    c = Client(r.port)
    c.post(chat_body(stream=True))
    assert c.response(timeout=20).body.endswith(SSE_DONE)
