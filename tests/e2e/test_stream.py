# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Streams: no event waits for another, no byte is changed, and a slow reader is nobody else's problem."""
import hashlib
import os
import random
import threading
import time

import pytest

from harness import SLOW, best_of, chat_body, pool, wait_until
from peer import LAST_CHUNK, SSE_DONE, SSE_HEAD, Client, Gate, chunk, head, json_answer, sse_event


def test_no_event_waits_for_another(router, backend):
    """Sixty events, 5 ms apart: each is with the client in less than 20 ms, the first as well as the last."""
    sent = {}

    def play(p, q):
        p.send(SSE_HEAD)
        for i in range(60):
            sent[i] = time.monotonic()
            p.send(chunk(sse_event("<%d>" % i)))
            time.sleep(0.005)
        p.send(chunk(SSE_DONE) + LAST_CHUNK)

    b = backend(play)
    r = router([b.url])

    def worst():
        sent.clear()
        c = Client(r.port)
        c.post(chat_body(stream=True))
        late = 0
        for i in range(60):
            c.until(b"<%d>" % i)
            late = max(late, time.monotonic() - sent[i])
        c.close()
        return late

    best_of(4, worst, 0.020, "the latest of 60 events")


def test_stream_of_many_at_once(router, backend):
    """Forty streams side by side on two workers, all whole, none mixed up."""
    def play(p, q):
        tag = q.get("x-tag")
        p.send(SSE_HEAD)
        for i in range(50):
            p.send(chunk(sse_event("%s-%d" % (tag, i))))
            if i % 10 == 0:
                time.sleep(0.002)
        p.send(chunk(SSE_DONE) + LAST_CHUNK)

    b = backend(play)
    r = router([b.url], workers=2)
    clients = [Client(r.port) for _ in range(40)]
    for k, c in enumerate(clients):
        c.post(chat_body("s%d" % k, stream=True), fields=["X-Tag: t%d" % k])
    for k, c in enumerate(clients):
        got = c.response(timeout=20)
        assert got.cut is None
        assert got.body == b"".join(sse_event("t%d-%d" % (k, i)) for i in range(50)) + SSE_DONE


@pytest.mark.parametrize("seed", range(6))
def test_any_cut_of_the_stream(router, backend, seed):
    """Chunks and segments cut anywhere, within UTF-8, within events, within line ends, comments
    and pings between: the payload is the same bytes."""
    rnd = random.Random(seed)
    payload = b": ping\n\n" + b"".join(
        sse_event("w\u00f6rt \U0001f600 %d" % i) + (b":\n\n" if i % 7 == 0 else b"") for i in range(200)) + SSE_DONE
    if seed % 2:
        payload = payload.replace(b"\n\n", b"\r\n\r\n")
    parts, at = [], 0
    while at < len(payload):
        n = rnd.choice((1, 2, 3, 7, 50, 300))
        parts.append(payload[at:at + n])
        at += n
    raw = SSE_HEAD + b"".join(chunk(x) for x in parts) + LAST_CHUNK

    def play(p, q):
        i = 0
        while i < len(raw):
            n = rnd.choice((1, 5, 100, 1000))
            p.send(raw[i:i + n])
            i += n

    b = backend(play)
    c = Client(router([b.url]).port)
    c.post(chat_body(stream=True))
    got = c.response(timeout=20)
    assert got.cut is None and got.body == payload


def test_pings_before_the_first_token(router, backend):
    """A comment is no token: it may pass, and the first token still counts when it comes."""
    go = Gate()

    def play(p, q):
        p.send(SSE_HEAD + chunk(b": keep-alive\n\n"))
        go.wait()
        p.send(chunk(sse_event("token")) + chunk(SSE_DONE) + LAST_CHUNK)

    b = backend(play)
    r = router([b.url])
    c = Client(r.port)
    c.post(chat_body(stream=True))
    b.wait_request()
    time.sleep(0.25) # the prefill
    assert r.metrics().sum("kvsteer_ttft_seconds_count") == 0
    go.open()
    got = c.response()
    assert got.cut is None and got.body.endswith(sse_event("token") + SSE_DONE)
    wait_until(lambda: r.metrics().sum("kvsteer_ttft_seconds_count") == 1, what="one time to first token")
    assert r.metrics().sum("kvsteer_ttft_seconds_sum") >= 0.2


@pytest.mark.parametrize("framing", ["length", "chunked", "close"])
def test_large_answer(router, backend, framing):
    """Thirty-two MiB, every framing: the exact bytes."""
    block = os.urandom(1 << 20)
    whole = hashlib.sha256(block * 32).hexdigest()

    def play(p, q):
        if framing == "length":
            p.send(head(Content_Type="application/octet-stream", Content_Length=32 << 20))
        elif framing == "chunked":
            p.send(head(Content_Type="application/octet-stream", Transfer_Encoding="chunked"))
        else:
            p.send(head(Content_Type="application/octet-stream", Connection="close"))
        for _ in range(32):
            p.send(chunk(block) if framing == "chunked" else block)
        if framing == "chunked":
            p.send(LAST_CHUNK)
        return "close" if framing == "close" else None

    b = backend(play)
    c = Client(router([b.url]).port)
    c.post(chat_body())
    got = c.response(timeout=30)
    assert got.cut is None and len(got.body) == 32 << 20
    assert hashlib.sha256(got.body).hexdigest() == whole


def test_client_that_keeps_pace_does_not_stall(router, backend):
    """A client that takes bytes about as fast as the backend sends them fills the router's
    buffer and empties it again in the same turn, over and over. Reading of the backend was
    stopped at the full buffer; it must go on when the buffer is empty, whoever emptied it: a
    stream stood still for ever when the router's own next write did, and not the client's event."""
    block = os.urandom(1 << 20)

    def play(p, q):
        p.send(head(Content_Type="application/octet-stream", Content_Length=32 << 20))
        for _ in range(32):
            p.send(block)

    b = backend(play)
    r = router([b.url], limits={"client_buffer": "16KiB"})
    c = Client(r.port)
    for _ in range(8):
        c.post(chat_body())
        got = c.response(timeout=5)
        assert got.cut is None and got.body == block * 32


def test_slow_reader_holds_its_own_backend_only(router, backend):
    """A client that stops reading 64 MiB: the router's memory stays within its limits, its
    backend is read no further, other clients are served as fast as ever, and it gets every
    byte when it reads on."""
    progress = {"sent": 0}
    block = b"z" * 65536

    def play(p, q):
        if b"slow" not in q.body:
            p.send(json_answer())
            return
        p.send(head(Content_Type="application/octet-stream", Content_Length=64 << 20))
        for _ in range((64 << 20) // len(block)):
            p.send(block)
            progress["sent"] += len(block)

    b = backend(play)
    r = router([b.url], workers=1)
    quick = Client(r.port)
    quick.post(chat_body())
    quick.response()
    before = r.rss_bytes()
    c = Client(r.port, rcvbuf=65536)
    c.post(chat_body("slow"))
    b.wait_request(2)

    def stalled():
        was = progress["sent"]
        time.sleep(0.3)
        return was and progress["sent"] == was

    wait_until(stalled, 10, "the backend's send stalled")
    assert progress["sent"] < 32 << 20
    assert r.rss_bytes() - before < (8 << 20) * SLOW

    def other():
        start = time.monotonic()
        quick.post(chat_body())
        assert quick.response().status == 200
        return time.monotonic() - start

    best_of(5, other, 0.05, "a request beside a stalled reader")
    got = c.response(timeout=30)
    assert got.cut is None and len(got.body) == 64 << 20 and got.body.count(b"z") == 64 << 20
    assert r.rss_bytes(peak=True) - before < (12 << 20) * SLOW


def test_slow_reader_that_leaves(router, backend):
    """...and if it never reads on but goes, everything is released."""
    def play(p, q):
        p.send(SSE_HEAD)
        while True:
            p.send(chunk(b"data: " + b"y" * 60000 + b"\n\n"))

    b = backend(play)
    r = router([b.url])
    c = Client(r.port, rcvbuf=65536)
    c.post(chat_body(stream=True))
    c.until(b"yyy")
    time.sleep(0.3) # let all buffers fill
    assert r.in_flight() == 1
    c.rst()
    r.wait_in_flight(0, 1)


def test_big_body_streams_through(router, backend):
    """Twenty MiB of request, more than the router keeps: it flows as the backend takes it, the
    router holds a bounded part, and the bytes are exact."""
    go = Gate()
    b = backend(on_head=lambda p, q: go.wait())
    r = router([b.url], limits={"scan": "1MiB"}, workers=1)
    c = Client(r.port)
    c.post(chat_body())
    go.open()
    assert c.response().status == 200
    go.event.clear()

    body = b'{"model":"m","messages":[{"role":"user","content":"' + os.urandom(10 << 20).hex().encode() + b'"}]}'
    before = r.rss_bytes()
    sender = threading.Thread(target=c.post, args=(body,))
    sender.start()
    b.wait_begun(2)
    peak = wait_until(lambda: r.rss_bytes(), what="rss")
    for _ in range(20):
        time.sleep(0.02)
        peak = max(peak, r.rss_bytes())
    assert sender.is_alive(), "nothing held the client back"
    go.open()
    assert c.response(timeout=30).status == 200
    sender.join()
    assert b.wait_request(2).body == body
    assert max(peak, r.rss_bytes()) - before < (8 << 20) * SLOW


def test_kept_body_is_sent_again(router, backend):
    """A body within limits.scan survives the death of its first backend, whatever its size."""
    def die(p, q):
        p.rst()
        return "close"

    bad, good = backend(die), backend()
    r = router([pool([bad.url, good.url], policy="round_robin")], workers=1)
    body = b'{"messages":[{"role":"user","content":"' + os.urandom(2 << 20).hex().encode() + b'"}],"model":"m"}'
    c = Client(r.port)
    for i in range(2):
        c.post(body)
        assert c.response(timeout=20).status == 200
    assert all(q.body == body for q in good.requests) and len(good.requests) == 2 and len(bad.requests) >= 1


def test_big_body_of_unknown_length(router, backend):
    """Twenty MiB in chunks, streamed on."""
    b = backend()
    r = router([b.url], limits={"scan": "1MiB"})
    body = b'{"model":"m","messages":[{"role":"user","content":"' + b"q" * (20 << 20) + b'"}]}'
    c = Client(r.port)
    c.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
    for i in range(0, len(body), 300000):
        c.send(chunk(body[i:i + 300000]))
    c.send(LAST_CHUNK)
    assert c.response(timeout=30).status == 200
    assert b.wait_request().body == body


@pytest.mark.parametrize("size", [100, 40_000, 300_000])
@pytest.mark.parametrize("framing", ["length", "chunked"])
def test_long_answer_outlives_the_deadline_of_its_request(router, backend, size, framing):
    """The deadline of a body's arrival ended answers: a body longer than one read armed it again
    with its last bytes, and ten seconds later the client of a long stream was cut off."""
    def play(p, q):
        p.send(SSE_HEAD)
        for i in range(8):
            p.send(chunk(sse_event("<%d>" % i)))
            time.sleep(0.1 * SLOW)
        p.send(chunk(SSE_DONE) + LAST_CHUNK)

    b = backend(play)
    r = router([b.url], timeouts={"head": "%dms" % (300 * SLOW)})
    c = Client(r.port)
    body = chat_body("x" * size, stream=True)
    if framing == "length":
        c.post(body)
    else:
        c.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
               + chunk(body) + LAST_CHUNK)
    got = c.response(timeout=10)
    assert got.cut is None and b"<7>" in got.body
