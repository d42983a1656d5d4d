# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The kernel datapath in the gateway: what it moves, what it leaves to the relay and says so, and
what happens where it can't be had. (All other tests run over it too, with KVSTEER_DATAPATH=splice.)"""
import os
import shutil
import subprocess
import threading

import pytest

from harness import binary, chat_body, wait_until
from peer import LAST_CHUNK, SSE_DONE, SSE_HEAD, Client, Closed, chunk, head, json_answer, sse_event

EVENTS = 40


@pytest.fixture
def spliced(router):
    """spliced(urls, ...) -> a router with the kernel datapath, or a skip that says why there is none."""
    def make(urls, **more):
        try:
            r = router(urls, datapath="splice", **more)
        except AssertionError as e:
            if "splice is not possible here" in str(e):
                pytest.skip("no kernel datapath here: " + str(e)[-300:])
            raise
        assert r.status()["datapath"]["mode"] == "splice"
        return r
    return make


def paced(p, q):
    """Events one after the other, each after the one before has been taken over."""
    p.send(SSE_HEAD)
    for i in range(EVENTS):
        p.send(chunk(sse_event("<%d>" % i)))
        threading.Event().wait(0.003)
    p.send(chunk(SSE_DONE) + LAST_CHUNK)


def body_of(events):
    return b"".join(sse_event("<%d>" % i) for i in range(events)) + SSE_DONE


def test_streams_move_in_the_kernel(spliced, backend):
    """Stream after stream on one connection: exact bytes, all ended by the kernel, logged and counted as ever."""
    r = spliced([backend(paced).url])
    c = Client(r.port)
    for _ in range(5):
        c.post(chat_body(stream=True))
        answer = c.response()
        assert answer.status == 200 and answer.body == body_of(EVENTS)
    c.close()
    wait_until(lambda: r.metrics().sum("kvsteer_splice_ended_total") == 5, 5, "ended by the kernel")
    m = r.metrics()
    assert m.sum("kvsteer_requests_total", code="200") == 5
    assert m.sum("kvsteer_response_bytes_total") > 5 * len(body_of(EVENTS))
    assert m.sum("kvsteer_datapath_fallback_total") == 0


def test_one_connection_by_turns(spliced, backend):
    """Short answers, long ones, streams, by turns on one client's and one backend's connection."""
    long = os.urandom(3000000)

    def play(p, q):
        if b'"stream"' in q.body and b"true" in q.body:
            paced(p, q)
        elif b"long" in q.body:
            p.send(head(content_type="application/octet-stream", content_length=len(long)) + long[:1000])
            threading.Event().wait(0.01)
            p.send(long[1000:])
        else:
            p.send(json_answer())

    r = spliced([backend(play).url])
    c = Client(r.port)
    for _ in range(4):
        c.post(chat_body("short"))
        assert c.response().status == 200
        c.post(chat_body("long"))
        assert c.response().body == long
        c.post(chat_body(stream=True))
        assert c.response().body == body_of(EVENTS)
    c.close()


def test_a_cut_stays_visible(spliced, backend):
    """The backend dies inside a stream that the kernel moves: what came arrives, the end does not."""
    def play(p, q):
        p.send(SSE_HEAD)
        for i in range(10):
            p.send(chunk(sse_event("<%d>" % i)))
            threading.Event().wait(0.003)
        p.close()

    r = spliced([backend(play).url])
    c = Client(r.port)
    c.post(chat_body(stream=True))
    c.until(b"<9>")
    with pytest.raises((Closed, OSError)):
        c.until(LAST_CHUNK)
    wait_until(lambda: r.metrics().sum("kvsteer_errors_total", reason="stream_cut") == 1, 5, "counted as cut")


def test_abort_reaches_the_backend(spliced, backend):
    """A client leaves while the kernel moves its stream: the backend's connection ends at once."""
    gone = threading.Event()

    def play(p, q):
        p.send(SSE_HEAD)
        for i in range(10):
            p.send(chunk(sse_event("<%d>" % i)))
            threading.Event().wait(0.003)
        try:
            p.until(b"never sent")
        except (Closed, OSError):
            gone.set()

    r = spliced([backend(play).url])
    c = Client(r.port)
    c.post(chat_body(stream=True))
    c.until(b"<9>")
    c.close()
    assert gone.wait(5), "the backend was not told"


@pytest.mark.parametrize("reason", ["close_delimited", "http10", "configured"])
def test_fallbacks_are_counted(router, spliced, backend, reason):
    """What the kernel can't move is relayed, right, and counted with its reason."""
    def play(p, q):
        if reason == "close_delimited":
            p.send(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + body_of(EVENTS))
            p.close()
        else:
            paced(p, q)

    b = backend(play)
    if reason == "configured":
        r = router([b.url], datapath="relay")
    else:
        r = spliced([b.url])
    c = Client(r.port)
    if reason == "http10":
        body = chat_body(stream=True)
        body = body if isinstance(body, bytes) else body.encode()
        c.send(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
               % len(body) + body)
        c.until(b"[DONE]")
    else:
        c.post(chat_body(stream=True))
        assert c.response().body == body_of(EVENTS)
    wait_until(lambda: r.metrics().sum("kvsteer_datapath_fallback_total", reason=reason) == 1, 5, "counted")
    assert r.metrics().sum("kvsteer_splice_answers_total") == 0


def without_rights(*argv):
    if not shutil.which("setpriv") or os.getuid():
        pytest.skip("needs root and setpriv to give rights away")
    return ["setpriv", "--bounding-set", "-bpf,-sys_admin,-perfmon", "--inh-caps", "-all", "--", *argv]


def test_demanded_and_not_to_be_had(tmp_path):
    """`datapath: splice` without the rights: no start, and the message says which are missing."""
    path = tmp_path / "k.yaml"
    path.write_text("datapath: splice\nlisteners: ['127.0.0.1:0']\n"
                    "admin: {address: off, socket: off}\npools: [{backends: ['http://127.0.0.1:9']}]\n")
    path.write_text(path.read_text().replace("127.0.0.1:0'", "127.0.0.1:26690'"))
    r = subprocess.run(without_rights(binary("kvsteerd"), "-c", str(path)), capture_output=True, text=True, timeout=20)
    assert r.returncode == 1, r
    assert "datapath: splice is not possible here" in r.stderr and "CAP_BPF" in r.stderr
