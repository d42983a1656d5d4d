# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What an operator who knows only the manual runs into: taken ports, dead fleets, names that do
not resolve, logs that move, drains that have to cut."""
import json
import os
import subprocess

import pytest

from harness import SLOW, binary, chat_body, fetch, pool, ports, wait_until
from peer import SSE_HEAD, Client, Gate, chunk, json_answer, sse_event


def ask(r, text="hello", **more):
    c = Client(r.port)
    c.post(chat_body(text, **more))
    got = c.response()
    c.close()
    return got


def start_fails(tmp_path, text, code=1):
    path = tmp_path / "second.yaml"
    path.write_text(text)
    p = subprocess.run([binary("kvsteerd"), "-c", str(path)], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                       stderr=subprocess.PIPE, timeout=20 * SLOW, text=True)
    assert p.returncode == code, p.stderr
    return p.stderr.replace(str(path), "FILE")


def test_taken_port(router, backend, tmp_path):
    """A second daemon on the same port shared the traffic of the first in silence. Each address that is
    taken is named with its line and key, and the first daemon loses nothing."""
    b = backend()
    r = router([b.url])
    pools = "pools:\n  - backends: ['%s']\n" % b.url
    err = start_fails(tmp_path, "admin: {address: off, socket: off}\nlisteners:\n  - 127.0.0.1:%d\n" % r.port + pools)
    assert 'FILE:3:5: listeners[0].address: "127.0.0.1:%d": cannot listen on it: Address already in use' % r.port in err
    err = start_fails(tmp_path, "admin: {address: off, socket: off}\nlisteners: ['*:%d']\n" % r.port + pools)
    assert "FILE:1:" not in err and "Address already in use" in err
    err = start_fails(tmp_path, "listeners: ['127.0.0.1:%d']\nadmin: {socket: off, address: '127.0.0.1:%d'}\n"
                      % (ports.get(), r.admin_port) + pools)
    assert "FILE:2:31: admin.address:" in err and "cannot listen on it: Address already in use" in err
    for _ in range(10):
        assert ask(r).status == 200


def test_reload_to_a_taken_port(router, backend):
    """The same at a reload: refused, the old configuration goes on. An address that is given up can
    be taken again, also as a part of all addresses."""
    b = backend()
    first, r = router([b.url]), router([b.url])
    r.write_config({"listeners": ["127.0.0.1:%d" % r.port, "127.0.0.1:%d" % first.port], "pools": [pool([b.url])]})
    failed = r.ctl("reload", check=False)
    assert failed.returncode == 1 and "listeners[1].address" in failed.stderr and "Address already in use" in failed.stderr
    assert ask(r).status == 200
    other = ports.get()
    for listeners in (["127.0.0.1:%d" % other], ["127.0.0.1:%d" % r.port], ["127.0.0.1:%d" % other, "127.0.0.1:%d" % r.port],
                      ["*:%d" % r.port], ["127.0.0.1:%d" % r.port]):
        r.reload({"listeners": listeners, "pools": [pool([b.url])]})
        wait_until(lambda: ask(r).status == 200 if any(str(r.port) in x for x in listeners) else True, 5, "served")
    assert ask(first).status == 200


def test_reload_changes_the_access_log(router, backend, tmp_path):
    """Path and format of the access log follow a reload; a file that can't be opened refuses it."""
    b = backend()
    r = router([b.url])
    ask(r, "one")
    assert wait_until(r.access_lines, what="a line")[0].startswith("20")
    new = tmp_path / "new.log"
    r.reload({"log": {"access": str(new), "format": "json"}, "pools": [pool([b.url])]})
    ask(r, "two")
    line = json.loads(wait_until(lambda: new.exists() and new.read_text().splitlines(), what="a line")[0])
    assert line["status"] == 200 and len(r.access_lines()) == 1
    r.reload({"log": {"access": "off"}, "pools": [pool([b.url])]})
    ask(r, "three")
    r.write_config({"log": {"access": str(tmp_path / "no" / "such" / "dir")}, "pools": [pool([b.url])]})
    failed = r.ctl("reload", check=False)
    assert failed.returncode == 1 and "log.access" in failed.stderr and "No such file" in failed.stderr
    r.reload({"log": {"access": str(new)}, "pools": [pool([b.url])]})
    ask(r, "four")
    wait_until(lambda: len(new.read_text().splitlines()) == 2, what="the fourth request's line, and not the third's")
    assert new.read_text().splitlines()[1].startswith("20")


def test_reload_names_what_needs_a_restart(router, backend):
    """Keys that the process can't change are named, those alone, and until they are as they were."""
    b = backend()
    r = router([b.url])
    plain = {"pools": [pool([b.url])]}
    assert r.ctl("reload").stdout == "reloaded\n"
    r.write_config(dict(plain, workers=3, limits={"connections": 77, "body": "1MiB"}))
    assert r.ctl("reload").stdout == "reloaded\nneeds a restart: workers\nneeds a restart: limits.connections\n"
    assert json.loads(r.ctl("-j", "reload").stdout)["needs_restart"] == ["workers", "limits.connections"]
    r.write_config(plain)
    assert json.loads(r.ctl("-j", "reload").stdout) == {"ok": True, "needs_restart": [], "unresolved": []}


def test_dead_fleet_is_not_ready(router, backend):
    """Nobody listens anywhere: not ready, by scrapes alone and by failed requests; tried all the same, and
    said so everywhere. Then one comes back."""
    dead = ["http://127.0.0.1:%d" % ports.get() for _ in range(2)]
    r = router([pool(dead, policy="round_robin", scrape={"interval": "250ms"})], ready=False)
    wait_until(lambda: fetch(r.admin_port, "/readyz") [:2] == (503, b"no backend can take requests\n"), 10, "not ready")
    got = ask(r)
    assert got.status == 502 and "(backend 127.0.0.1:" in json.loads(got.body)["error"]["message"]
    wait_until(lambda: r.stderr().count("event=backend_excluded") >= 2, 5, "both excluded in the log")
    assert "reason=connect_failed for_s=1.0" in r.stderr()
    doctor = {c["check"]: c for c in json.loads(r.ctl("-j", "doctor", check=False).stdout)["checks"]}
    assert doctor["pool p"]["result"] == "fail" and doctor["pool p"]["detail"].startswith("0 of 2 backends work")
    assert fetch(r.port, "/ping")[0] == 503 and fetch(r.port, "/health")[0] == 503

    def last_resort():
        ask(r)
        e = subprocess.run([binary("kvsteerctl"), "-s", r.socket, "-j", "route", "explain", "-"], input=chat_body(),
                           stdout=subprocess.PIPE, timeout=20 * SLOW)
        e = json.loads(e.stdout)
        return e["last_resort"] and [b["why"] for b in e["backends"]] == ["excluded", "excluded"]

    wait_until(last_resort, 10, "explain tells of the last resort")
    backend(port=int(dead[0].rsplit(":", 1)[1]))
    wait_until(lambda: fetch(r.admin_port, "/readyz")[0] == 200, 40, "ready again")
    wait_until(lambda: ask(r).status == 200, 40, "served")
    wait_until(lambda: "event=backend_back" in r.stderr(), 5, "the log says so")


def test_exclusion_ends_by_time(router, backend):
    """Without traffic a backend was shown as excluded for ever."""
    b = backend()
    dead = "http://127.0.0.1:%d" % ports.get()
    r = router([pool([{"url": dead, "name": "dead"}, b.url], policy="round_robin")])
    wait_until(lambda: ask(r).status == 200 and r.backends()["dead"]["state"] == "excluded", 5, "excluded")
    wait_until(lambda: r.backends()["dead"]["state"] == "probing", 40, "probing")
    assert r.metrics().sum("kvsteer_backend_state", backend="dead", state="probing") == 1
    assert r.metrics().sum("kvsteer_backend_state", backend="dead", state="excluded") == 0


def test_name_without_address(router, backend):
    """One mistyped name must not keep a fleet from starting, nor a reload from what else it brings."""
    b = backend()
    lost = {"url": "http://no-such-host.invalid:9001", "name": "lost"}
    r = router([pool([lost, b.url], policy="round_robin")])
    assert "event=backend_unresolved pool=p backend=lost host=no-such-host.invalid" in r.stderr()
    for _ in range(4):
        assert ask(r).status == 200
    assert r.backends()["lost"]["state"] == "unresolved" and r.backends()["lost"]["requests"] == 0
    out = r.ctl("reload").stdout
    assert "without address, gets no request: lost" in out
    doctor = {c["check"]: c for c in json.loads(r.ctl("-j", "doctor", check=False).stdout)["checks"]}
    assert doctor["configuration"]["result"] == "warn" and "no-such-host.invalid" in doctor["configuration"]["detail"]
    assert fetch(r.admin_port, "/readyz")[0] == 200
    r.reload({"pools": [pool([lost])]})
    assert fetch(r.admin_port, "/readyz")[0] == 503 and ask(r).status == 503


def test_what_a_drain_cuts_says_draining(router, backend):
    """The client did nothing wrong: reason draining, an answer where none had begun, a count in the log, and no
    word of memory."""
    gate = Gate()

    def play(p, q):
        if b"stream" in q.body:
            p.send(SSE_HEAD + chunk(sse_event("one")))
        gate.wait()
        p.send(json_answer())

    b = backend(play)
    r = router([b.url])
    waits, streams = Client(r.port), Client(r.port)
    waits.post(chat_body("waits"))
    streams.post(chat_body(stream=True))
    streams.until(b"one")
    r.wait_in_flight(2)
    r.stopped = True
    r.terminate()
    wait_until(lambda: "event=drain" in r.stderr(), what="draining")
    r.terminate()
    got = waits.response()
    assert got.status == 503 and json.loads(got.body)["error"]["code"] == "draining"
    assert r.wait(5) == 1
    gate.open()
    lines = r.access_lines()
    assert len(lines) == 2 and all("reason=draining" in line for line in lines), lines
    err = r.stderr()
    assert "event=requests_cut requests=2" in err and "out of memory" not in err, err
    assert "event=stopped code=1" in err


def test_full_disk_is_counted(router, backend):
    """Lines that a full disk refuses are lost; the metric says how many, the log why, in words."""
    if not os.access("/dev/full", os.W_OK):
        pytest.skip("no /dev/full")
    r = router([backend().url], log={"access": "/dev/full"})
    for _ in range(3):
        ask(r)
    wait_until(lambda: r.metrics().sum("kvsteer_access_log_dropped_total") == 3, what="counted")
    assert "No space left on device" in r.stderr() and "errno=" not in r.stderr()


def test_reported_hits_are_null_where_nothing_was_sampled(router, backend):
    """0 % would be a claim."""
    r = router([backend().url])
    ask(r)
    row = wait_until(lambda: [b for b in r.backends().values() if b["prompt_tokens"]], what="counted")[0]
    assert row["hit_reported"] is None and row["hit_predicted"] is not None and row["sampled_prompt_tokens"] == 0
    table = r.ctl("status").stdout.splitlines()
    head = next(line for line in table if "HIT-REP" in line)
    line = table[table.index(head) + 1]
    assert line[head.index("HIT-REP"):head.index("HIT-REP") + 7].strip() == "-"


def test_health_on_the_data_port(router, backend):
    """Load balancers and SageMaker look where the traffic is. allow_paths sends the question to a backend."""
    b = backend()
    r = router([b.url])
    for path in ("/health", "/ping"):
        assert fetch(r.port, path)[:2] == (200, b"ready\n")
        assert fetch(r.port, path, "HEAD")[0] == 200
        assert fetch(r.port, path, "POST", b"{}")[0] in (403, 405)
    assert not b.requests
    r.reload({"allow_paths": ["/health"], "pools": [pool([b.url])]})
    fetch(r.port, "/health")
    assert len(b.requests) == 1


def test_preflight(router, backend):
    """OPTIONS tells the methods of a path and nothing about origins; no backend is asked."""
    b = backend()
    r = router([b.url])
    for path, allow in (("/v1/chat/completions", "POST, OPTIONS"), ("/v1/models", "GET, HEAD, OPTIONS")):
        status, body, fields = fetch(r.port, path, "OPTIONS", headers={"Origin": "http://x", "Access-Control-Request-Method": "POST"})
        assert (status, body, fields["allow"]) == (204, b"", allow)
        assert "content-length" not in fields and not any(k.startswith("access-control") for k in fields)
    assert fetch(r.port, "/nowhere", "OPTIONS")[0] == 403
    assert not b.requests


def test_model_beyond_scan_is_named(router, backend):
    """A model behind more than limits.scan of text, and two pools: the message says which limit."""
    b = backend()
    r = router([pool([b.url], "p", models=["m"]), pool([{"url": b.url, "name": "n"}], "q", models=["m2"])], limits={"scan": "64KiB"})
    body = json.dumps({"messages": [{"role": "user", "content": "x" * 300000}], "model": "m"}).encode()
    status, answer, _ = fetch(r.port, "/v1/chat/completions", "POST", body, {"Content-Type": "application/json"})
    assert status == 404 and "limits.scan" in json.loads(answer)["error"]["message"]


def test_faults_name_their_field_and_request(router, backend):
    """A refused head says what was wrong with it; the log has method and path where the first line was good."""
    r = router([backend().url], limits={"body": "1KiB"})
    for extra, status, says in ((b"Content-Length: 1\r\nContent-Length: 1\r\n", 400, "content-length"),
                                (b"Content-Type: a\r\nContent-Type: b\r\n", 400, "content-type"),
                                (b"Content-Length: 1x\r\n", 400, "content-length"),
                                (b"Transfer-Encoding: gzip, chunked\r\n", 501, "transfer-encoding"),
                                (b"Content-Length: 5000\r\n", 413, "limits.body")):
        c = Client(r.port)
        c.send(b"POST /v1/completions HTTP/1.1\r\nHost: a\r\n" + extra + b"\r\n")
        got = c.response()
        c.close()
        assert got.status == status and says in json.loads(got.body)["error"]["message"], (extra, got.body)
        wait_until(lambda: r.access_lines() and "method=POST path=/v1/completions status=%d" % status in r.access_lines()[-1],
                   what="method and path in the log of %r" % extra)


def test_retry_after_of_a_burst(router, backend):
    """Nothing is known of a fresh pool: nobody is told to come back later than queue.timeout."""
    gate = Gate()
    b = backend(lambda p, q: (gate.wait(), p.send(json_answer())))
    r = router([pool([b.url], concurrency_threshold=1, queue={"max_requests": 30, "timeout": "8s"})])
    clients = [Client(r.port) for _ in range(40)]
    try:
        for c in clients:
            c.post(chat_body())
        wait_until(lambda: r.metrics().sum("kvsteer_queue_length") >= 30, 5, "a full queue")
        extra = Client(r.port)
        extra.post(chat_body())
        got = extra.response()
        assert got.status == 429 and 1 <= int(got.get("retry-after")) <= 8
    finally:
        gate.open()
    for c in clients + [extra]:
        c.close()


def test_process_metrics(router, backend):
    """The names that every dashboard knows."""
    r = router([backend().url])
    m = r.metrics()
    assert abs(m.sum("process_resident_memory_bytes") - r.rss_bytes()) < 64 << 20
    assert m.sum("process_open_fds") == pytest.approx(len(os.listdir("/proc/%d/fd" % r.pid)), abs=3)
    assert m.sum("process_max_fds") > 0 and m.sum("process_cpu_seconds_total") > 0
    assert abs(m.sum("process_start_time_seconds") - os.stat("/proc/%d" % r.pid).st_ctime) < 60


def test_pool_in_a_freed_slot_counts_from_zero(router, backend):
    """A pool that comes after another has gone has none of its errors."""
    b = backend()
    one, two = pool([{"url": b.url, "name": "n1"}], "one", models=["m"]), pool([{"url": b.url, "name": "n2"}], "two", models=["m2"])
    other = pool([{"url": b.url, "name": "n3"}], "three", models=["m3"])
    r = router([one, two])
    fetch(r.port, "/v1/chat/completions", "POST", b'{"model":"m2"')  # a fault is counted somewhere
    dead = dict(two, backends=[{"url": "http://127.0.0.1:%d" % ports.get(), "name": "n2"}])
    r.reload({"pools": [one, dead]})
    assert ask(r, model="m2").status in (502, 503)
    wait_until(lambda: r.metrics().sum("kvsteer_errors_total", pool="two") >= 1, what="an error")
    r.reload({"pools": [one]})
    wait_until(lambda: not r.metrics().values("kvsteer_errors_total", pool="two"), what="gone")
    r.reload({"pools": [one, other]})
    assert r.metrics().sum("kvsteer_errors_total", pool="three") == 0
    assert ask(r, model="m3").status == 200


def test_why_kvsteerctl_gets_no_answer(router, backend, tmp_path):
    """No such file, not a socket, nobody behind it, not allowed: four faults, four messages."""
    r = router([backend().url])
    ctl = lambda *args: subprocess.run([binary("kvsteerctl"), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, timeout=20 * SLOW, text=True)
    plain = tmp_path / "plain"
    plain.write_text("")
    assert "No such file or directory" in ctl("-s", str(tmp_path / "none"), "status").stderr
    assert "Socket operation on non-socket" in ctl("-s", str(plain), "status").stderr
    assert ctl("backend").stderr == "kvsteerctl: usage: kvsteerctl backend list | drain NAME | undrain NAME\n"
    assert "evict: no verb of backend; usage: kvsteerctl backend list" in ctl("backend", "evict").stderr
    assert 'no backend is named "nobody"' in ctl("-s", r.socket, "backend", "drain", "nobody").stderr


def test_usage_of_kvsteerd(tmp_path):
    """Two files: one of them would have been forgotten in silence. Warnings do not make a file bad."""
    run = lambda *args: subprocess.run([binary("kvsteerd"), *args], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, timeout=20 * SLOW, text=True)
    p = run("-c", "a", "-c", "b", "--check")
    assert p.returncode == 2 and '"a"' in p.stderr and '"b"' in p.stderr
    path = tmp_path / "c.yaml"
    path.write_text("pools:\n  - models: [m]\n    aliases: {gpt-4o: m}\n    backends: [http://h]\n")
    p = run("--check", "-c", str(path))
    assert p.returncode == 0 and ": good: " in p.stdout
    assert p.stderr.startswith("kvsteerd: warning: %s:3:14: pools[0].aliases: " % path) and "rewrite_model" in p.stderr
