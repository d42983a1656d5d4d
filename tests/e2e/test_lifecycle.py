# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Starting, reloading, draining, ending; and what is written to logs on the way."""
import json
import re
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness import SLOW, Router, binary, chat_body, fetch, pool, wait_until
from peer import LAST_CHUNK, SSE_DONE, SSE_HEAD, Client, Closed, Gate, chunk, json_answer, sse_event


def test_reload_under_load(router, backend):
    """Thirty reloads, by signal and by kvsteerctl, adding and removing a node, under constant
    streams on kept connections: not one request fails."""
    def play(p, q):
        p.send(SSE_HEAD)
        for i in range(3):
            p.send(chunk(sse_event("w%d" % i)))
            time.sleep(0.002)
        p.send(chunk(SSE_DONE) + LAST_CHUNK)

    a, b = backend(play), backend(play)
    r = router([pool([a.url, b.url], policy="round_robin")])
    stop, failures, done = threading.Event(), [], [0] * 4

    def client(k):
        c = Client(r.port)
        while not stop.is_set():
            try:
                c.post(chat_body("c%d n%d" % (k, done[k]), stream=True))
                got = c.response(timeout=20)
                if got.status != 200 or got.cut or not got.body.endswith(SSE_DONE):
                    failures.append((got.status, got.cut, got.body))
                if got.get("connection") == "close":
                    c.close()
                    c = Client(r.port)
                done[k] += 1
            except (Closed, OSError, AssertionError) as e:
                failures.append(repr(e))
                c = Client(r.port)

    threads = [threading.Thread(target=client, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for i in range(30):
        urls = [a.url] if i % 2 else [a.url, b.url]
        config = {"pools": [pool(urls, policy="round_robin", concurrency_threshold=100 + i)]}
        before = sum(done)
        if i % 3:
            r.reload(config)
        else:
            r.write_config(config)
            r.popen.send_signal(signal.SIGHUP)
        wait_until(lambda: r.metrics().values("kvsteer_backend_cap", backend=a.name) == [100 + i], 5, "the new cap")
        wait_until(lambda: sum(done) > before + 2, 10, "requests going on")
    stop.set()
    for t in threads:
        t.join(20 * SLOW)
    assert failures == [], failures[:3]
    assert sum(done) >= 60


def test_reload_keeps_what_is_under_way(router, backend):
    """A stream whose backend leaves the configuration goes on to its end."""
    go = Gate()

    def play(p, q):
        p.send(SSE_HEAD + chunk(sse_event("one")))
        go.wait()
        p.send(chunk(sse_event("two")) + chunk(SSE_DONE) + LAST_CHUNK)

    a, b = backend(play), backend()
    r = router([a.url])
    c = Client(r.port)
    c.post(chat_body(stream=True))
    c.until(b"one")
    r.reload({"pools": [pool([b.url])]})
    other = Client(r.port)
    other.post(chat_body())
    assert other.response().get("x-kvsteer-backend") == b.name
    go.open()
    c.until(b"two")
    c.until(LAST_CHUNK)


def test_faulty_reload_changes_nothing(router, backend):
    """A file with a fault is refused with file, line and key; the old configuration serves on."""
    b = backend()
    r = router([b.url])
    r.write_config({"pools": [pool([b.url], concurrency_threshold=9999)]})
    answer = r.ctl("reload", check=False)
    text = answer.stdout + answer.stderr
    assert answer.returncode != 0 and "concurrency_threshold" in text and "9999" in text and ".yaml" in text
    r.popen.send_signal(signal.SIGHUP)
    wait_until(lambda: "concurrency_threshold" in r.stderr(), what="a line in the log")
    c = Client(r.port)
    c.post(chat_body())
    assert c.response().status == 200
    r.reload({"pools": [pool([b.url])]})


def test_check(tmp_path, backend):
    """kvsteerd --check: 0 for a good file, 2 for a faulty one, which it names to the column."""
    file = tmp_path / "c.yaml"

    def check(text):
        file.write_text(text)
        p = subprocess.run([binary("kvsteerd"), "--check", "-c", str(file)], capture_output=True, text=True,
                           timeout=10 * SLOW)
        return p.returncode, p.stdout + p.stderr

    assert check("pools:\n  - backends: [http://127.0.0.1:1]\n")[0] == 0
    code, text = check("pools:\n  - name: p\n    policy: fastest\n    backends: [http://127.0.0.1:1]\n")
    assert code == 2 and "%s:3:" % file in text and "policy" in text and "fastest" in text and "round_robin" in text
    code, text = check("pools:\n  - backends: [http://127.0.0.1:1]\n    colour: red\n")
    assert code == 2 and ":3:" in text and "colour" in text
    assert check("pools: []\n")[0] == 2
    assert check("{")[0] == 2


def test_sigterm_drains(router, backend):
    """SIGTERM under a stream: not ready any more, nothing new is let in, the stream ends whole,
    then the process does, with 0."""
    go = Gate()

    def play(p, q):
        p.send(SSE_HEAD + chunk(sse_event("one")))
        go.wait()
        p.send(chunk(SSE_DONE) + LAST_CHUNK)

    b = backend(play)
    r = router([b.url])
    idle = Client(r.port)
    idle.send(b"GET /v1/models HTTP/1.1\r\nHost: a\r\n\r\n")
    assert idle.response().status == 200
    c = Client(r.port)
    c.post(chat_body(stream=True))
    c.until(b"one")
    r.terminate()
    r.stopped = True
    assert idle.wait_closed(5)[1] == "fin"
    wait_until(lambda: fetch(r.admin_port, "/readyz")[0] == 503, what="not ready")

    def refused():
        try:
            late = Client(r.port)
        except OSError:
            return True
        late.post(chat_body("late"))
        try:
            got = late.response()
        except Closed:
            return True
        return got.status == 503 and json.loads(got.body)["error"]["code"] == "draining"

    assert refused()
    assert r.alive() and len(b.requests) == 1
    go.open()
    assert c.until(LAST_CHUNK).endswith(chunk(SSE_DONE) + LAST_CHUNK)
    assert r.wait(5) == 0


def test_drain_has_an_end(router, backend):
    """What does not end within timeouts.drain is cut, visibly, and the exit code is still 0."""
    b = backend(lambda p, q: (p.send(SSE_HEAD + chunk(sse_event("one"))), p.wait_closed(20)))
    r = router([b.url], timeouts={"drain": "500ms"})
    c = Client(r.port)
    c.post(chat_body(stream=True))
    got = c.response_head()
    c.until(b"one")
    c.buf = b""
    r.terminate()
    r.stopped = True
    start = time.monotonic()
    rest, _ = c.to_end(10)
    assert got.status == 200 and not rest.endswith(LAST_CHUNK)
    assert r.wait(5) == 0
    assert time.monotonic() - start >= 0.4


def test_second_sigterm_ends_at_once(router, backend):
    """An operator who insists is obeyed."""
    b = backend(lambda p, q: p.wait_closed(20))
    r = router([b.url])
    c = Client(r.port)
    c.post(chat_body())
    b.wait_request()
    r.stopped = True
    r.terminate()
    wait_until(lambda: fetch(r.admin_port, "/readyz")[0] == 503, what="draining")
    r.terminate()
    r.wait(3)


def test_restart_after_a_crash(router, backend, tmp_path):
    """SIGKILL leaves sockets behind: the next start takes the same configuration. A client in
    mid-answer sees a cut, never a clean end."""
    b = backend(lambda p, q: (p.send(SSE_HEAD + chunk(sse_event("one"))), p.wait_closed(20)))
    r = router([b.url])
    c = Client(r.port)
    c.post(chat_body(stream=True))
    got = c.response_head()
    c.until(b"one")
    c.buf = b""
    r.stopped = True
    r.popen.send_signal(signal.SIGKILL)
    r.popen.wait()
    rest, _ = c.to_end()
    assert got.status == 200 and not rest.endswith(LAST_CHUNK)
    again = subprocess.Popen([binary("kvsteerd"), "-c", r.config_path], stdin=subprocess.DEVNULL,
                             stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: fetch(r.admin_port, "/readyz")[0] == 200, 10, "up again")
        assert json.loads(r.ctl("-j", "status").stdout)["router_pid"] == again.pid
    finally:
        again.terminate()
        assert again.wait(10 * SLOW) == 0


SECRET = "the-prompt-is-nobodys-business"
KEY = "sk-very-secret-key"


@pytest.mark.parametrize("form", ["kv", "json"])
def test_access_log(router, backend, tmp_path, form):
    """One line a request with its fields; never a prompt, an answer, or a credential, in any log."""
    b = backend(lambda p, q: p.send(json_answer(b'{"content":"%s"}' % SECRET.encode())))
    r = router([pool([b.url], models=["m"])],
               log={"format": form, "level": "debug", "access": str(tmp_path / "own.log")})
    r.access_path = str(tmp_path / "own.log")
    c = Client(r.port)
    for model in ("m", "other"):
        c.post(chat_body(SECRET, model=model, user=SECRET),
               fields=["Authorization: Bearer " + KEY, "X-Api-Key: " + KEY, "Cookie: " + KEY, "X-Request-Id: req-" + model])
        c.response()
    c.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nAuthorization: " + KEY.encode() + b"\x01\r\n\r\n" + SECRET.encode())
    assert c.response().status == 400
    good = r.wait_access("req-m")
    bad = r.wait_access("req-other")
    r.wait_access("bad_request")
    if form == "json":
        good, bad = json.loads(good), json.loads(bad)
    else:
        good = dict(f.split("=", 1) for f in good.split()[1:])
        bad = dict(f.split("=", 1) for f in bad.split()[1:])
    assert (good["id"], str(good["status"]), good["model"], good["backend"]) == ("req-m", "200", "m", b.name)
    assert (good["method"], good["path"]) == ("POST", "/v1/chat/completions")
    assert int(good["bytes_in"]) > 0 and int(good["bytes_out"]) > 0 and float(good["duration_ms"]) >= 0
    assert (str(bad["status"]), bad["reason"]) == ("404", "model_not_found")
    everything = "\n".join(r.access_lines()) + r.stderr() + r.stdout()
    assert SECRET not in everything and KEY not in everything
    assert len(r.access_lines()) == 3


def test_access_log_line_cannot_be_forged(router, backend):
    """A client's strings end neither their field nor their line."""
    r = router([pool([backend().url], models=["m"])])
    c = Client(r.port)
    c.post(chat_body(model='x" status=200\nreason=fake'))
    assert c.response().status == 404
    line = r.wait_access("reason=model_not_found")
    assert len(re.findall(r'(?:^| )status=', re.sub(r'"(?:[^"\\]|\\.)*"', "", line))) == 1
    assert len(r.access_lines()) == 1


def test_access_log_rotation(router, backend, tmp_path):
    """After a rename and SIGHUP lines go to a new file; none is lost."""
    r = router([backend().url])
    c = Client(r.port)
    c.post(chat_body(), fields=["X-Request-Id: before"])
    c.response()
    r.wait_access("before")
    old = tmp_path / "rotated"
    (tmp_path / "kvsteerd0.access").rename(old)
    r.popen.send_signal(signal.SIGHUP)
    wait_until(lambda: (tmp_path / "kvsteerd0.access").exists(), what="a new file")
    c.post(chat_body(), fields=["X-Request-Id: after"])
    c.response()
    r.wait_access("after")
    assert "before" in old.read_text() and "after" not in old.read_text()


def test_admin_is_read_only(router, backend):
    """The TCP side of the admin API shows and changes nothing; its pages are what they say."""
    r = router([backend().url])
    assert fetch(r.admin_port, "/healthz")[0] == 200
    status, body, fields = fetch(r.admin_port, "/metrics")
    assert status == 200 and fields["content-type"].startswith("text/plain") and b"kvsteer_build_info" in body
    for method, path in (("POST", "/reload"), ("PUT", "/metrics"), ("DELETE", "/"), ("POST", "/backend/drain"),
                         ("GET", "/../../etc/passwd")):
        assert fetch(r.admin_port, path, method)[0] in (403, 404, 405), path
    assert r.metrics().sum("kvsteer_backend_state", state="draining") == 0


def test_metrics_add_up(router, backend):
    """Counters after a known history."""
    b = backend()
    r = router([pool([b.url], models=["m"], name="pp")])
    c = Client(r.port)
    for _ in range(5):
        c.post(chat_body())
        c.response()
    c.post(chat_body(model="none"))
    c.response()

    def counted():
        m = r.metrics()
        assert m.sum("kvsteer_requests_total", pool="pp", backend=b.name, code="200") == 5
        assert m.sum("kvsteer_errors_total", reason="model_not_found") == 1
        assert m.sum("kvsteer_decision_seconds_count") == 5
        return m

    m = wait_until(counted, 2, "the counters")
    assert m.sum("kvsteer_prompt_tokens_total", backend=b.name) > 0
    assert m.sum("kvsteer_errors_total") == 1


def test_several_listeners(router, backend):
    """Every listener of the list is served, IPv6 too."""
    from harness import ports
    b = backend()
    r = router([b.url])
    extra, six = ports.get(), ports.get()
    with socket.socket(socket.AF_INET6) as s:
        try:
            s.bind(("::1", 0))
            v6 = True
        except OSError:
            v6 = False
    r.stop()
    listeners = [{"address": "127.0.0.1:%d" % r.port}, {"address": "127.0.0.1:%d" % extra}]
    if v6:
        listeners.append({"address": "[::1]:%d" % six})
    again = Router(r.dir, {"listeners": listeners, "pools": [pool([b.url])]}, name="second")
    try:
        for port in (r.port, extra):
            c = Client(port)
            c.post(chat_body())
            assert c.response().status == 200
        if v6:
            with socket.create_connection(("::1", six), 5) as s:
                s.sendall(b"GET /v1/models HTTP/1.0\r\n\r\n")
                assert b" 200 " in s.recv(4096)
    finally:
        again.stop()
