# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What users of LLM routers have reported, one test each where no other file has it; docs/testing.md has the whole list."""
import collections
import json
import os
import re
import resource

import pytest

from harness import SLOW, chat_body, fetch, pool, wait_until
from peer import LAST_CHUNK, SSE_HEAD, Client, Gate, chunk, head, json_answer, sse_answer, sse_event

PATHS = {
    "/v1/chat/completions": chat_body(),
    "/v1/completions": b'{"model":"m","prompt":"x"}',
    "/v1/responses": b'{"model":"m","input":"x"}',
    "/v1/messages": b'{"model":"m","max_tokens":1,"messages":[{"role":"user","content":"x"}]}',
    "/v1/messages/count_tokens": b'{"model":"m","messages":[{"role":"user","content":"x"}]}',
    "/invocations": b'{"inputs":"x"}',
    "/generate": b'{"inputs":"x"}',
    "/inference/v1/generate": b'{"model":"m","token_ids":[1,2,3]}',
    "/completion": b'{"prompt":"x"}',
    "/api/chat": b'{"model":"m","messages":[{"role":"user","content":"x"}]}',
    "/v1/embeddings": b'{"model":"m","input":"x"}',
    "/rerank": b'{"model":"m","query":"q","documents":["d"]}',
    "/v1/audio/transcriptions": b"--b\r\nContent-Disposition: form-data; name=\"model\"\r\n\r\nm\r\n--b--\r\n",
    "/tokenize": b'{"model":"m","prompt":"x"}',
    "/custom/path": b"anything at all",
}


@pytest.mark.parametrize("policy", ["cost", "round_robin", "least_request"])
def test_every_path_is_counted(router, backend, policy):
    """A transparent path that was never counted sent 480 requests to one engine of eight and killed it. Here every
    request, of any API and any path, holds a slot from assignment to end, and the cap holds for all together."""
    gate = Gate()
    nodes = [backend(lambda p, q: (gate.wait(), p.send(json_answer()))) for _ in range(3)]
    r = router([pool([b.url for b in nodes], policy=policy, concurrency_threshold=len(PATHS) // 3, queue={"max_requests": 0})],
               allow_paths=["/custom/path"])
    clients = []
    for i, (path, body) in enumerate(PATHS.items()):
        c = Client(r.port)
        c.post(body, path)
        clients.append(c)
        r.wait_in_flight(i + 1)
    # in flight from the assignment on, which is before the node has seen it
    wait_until(lambda: [len(b.begun) for b in nodes] == [len(PATHS) // 3] * 3, 5, "each node has its third")
    late = Client(r.port)
    late.post(b'{"model":"m","input":"x"}', "/v1/embeddings")
    assert late.response().status == 429
    gate.open()
    assert [c.response().status for c in clients] == [200] * len(PATHS)
    r.wait_in_flight(0)


def test_nothing_resets_in_flight(router, backend):
    """A health checker zeroed the counters every ten checks. Here nothing but its end takes a request out of the
    count: not an exclusion, a probe, a failing scrape, a restart of the engine's counters, a drain or a reload."""
    gate = Gate()
    state = {"fail": False, "total": 1000}

    def answer(p, q):
        if b"hold" in q.body:
            gate.wait()
            p.send(json_answer())
        elif state["fail"]:
            p.rst()
        else:
            p.send(json_answer())

    def metrics(peer):
        send = peer.send

        def replaced(data):
            if b"vllm:" in data:
                page = b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:prompt_tokens_total %d\n" % state["total"]
                data = head("500 Oops", Content_Length=0) if state["fail"] else head(Content_Type="text/plain", Content_Length=len(page)) + page
            send(data)
        peer.send = replaced

    b = backend(answer, on_accept=metrics)
    cfg = [pool([{"url": b.url, "name": "n"}], concurrency_threshold=9, scrape={"interval": "250ms", "stale": "500ms"})]
    r = router(cfg)
    held = [Client(r.port) for _ in range(5)]
    for i, c in enumerate(held):
        c.post(chat_body("hold %d" % i))
        r.wait_in_flight(i + 1)

    def five(what):
        assert r.backends()["n"]["in_flight"] == 5, what
        assert r.status()["ledger"]["live_slots"] == 5, what

    wait_until(lambda: r.backends()["n"]["running"] == 0, 5, "fresh counters")
    five("scraped, and the engine says that nothing runs")
    state["total"] = 1
    state["fail"] = True
    for _ in range(6):
        c = Client(r.port)
        c.post(chat_body("fails"))
        assert c.response().status == 502
    wait_until(lambda: r.backends()["n"]["state"] == "excluded", 5, "excluded")
    five("excluded")
    wait_until(lambda: r.backends()["n"]["stale"], 5, "stale counters")
    five("stale")
    state["fail"] = False

    def works():
        c = Client(r.port)
        c.post(chat_body("works"))
        return c.response().status == 200 and r.backends()["n"]["state"] == "ready"

    wait_until(works, 20, "probed and back", every=0.1)
    five("probed")
    r.ctl("backend", "drain", "n")
    five("draining")
    r.ctl("backend", "undrain", "n")
    cfg[0]["concurrency_threshold"] = 3
    r.reload({"pools": cfg})
    five("reloaded, with a lower cap")
    gate.open()
    assert [c.response().status for c in held] == [200] * 5
    r.wait_in_flight(0)


@pytest.mark.parametrize("header", ["x-session-id", "X-Claude-Code-Session-Id", "x-dynamo-session-id"])
def test_customary_session_headers(router, backend, header):
    """At low load everything stuck to one node; coding agents name their session in a header of their own: spread
    first, then affinity."""
    nodes = [backend() for _ in range(4)]
    r = router([pool([b.url for b in nodes], policy="session")])
    seen = collections.defaultdict(set)
    for turn in range(2):
        for s in range(16):
            c = Client(r.port)
            c.post(chat_body("turn %d" % turn), fields=["%s: session-%d" % (header, s)])
            seen[s].add(c.response().get("x-kvsteer-backend"))
            c.close()
    assert all(len(names) == 1 for names in seen.values()) and len(set().union(*seen.values())) >= 3


def test_idle_pool_spreads_cold_prompts(router, sim):
    """...and without any session: different prompts, one at a time, do not all go to the first node."""
    s = sim(nodes=4, args=["--time-scale", "20"])
    r = router(s.urls())
    seen = collections.Counter()
    for i in range(24):
        c = Client(r.port)
        c.post(chat_body("prompt %d " % i * 200))
        seen[c.response().get("x-kvsteer-backend")] += 1
        c.close()
    assert len(seen) == 4 and max(seen.values()) <= 14, seen


def test_multipart_keeps_authorization(router, backend):
    """Audio uploads lost their Authorization, and the forwarded length did not fit the body."""
    b = backend()
    r = router([b.url])
    body = b"--x\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a.wav\"\r\n\r\n" + bytes(range(256)) * 4000 + b"\r\n--x--\r\n"
    c = Client(r.port)
    c.send(b"POST /v1/audio/transcriptions HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer sk-secret\r\n"
           b"Content-Type: multipart/form-data; boundary=x\r\nContent-Length: %d\r\n\r\n" % len(body))
    c.send_each(body, 50000)
    assert c.response().status == 200
    seen = b.wait_request()
    assert seen.body == body and seen.get("authorization") == "Bearer sk-secret"
    assert seen.get("content-type") == "multipart/form-data; boundary=x" and not seen.cut
    assert "sk-secret" not in "\n".join(r.access_lines()) + r.stderr() + r.stdout()


def test_beyond_a_thousand_at_once(router, backend):
    """A router crashed beyond a thousand concurrent requests; through another only the first batch succeeded. Three
    batches of twelve hundred streams that are all open at the same time."""
    want = 1200
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    assert most >= 4 * want, "descriptors: %d" % most
    gates = [Gate() for _ in range(3)]

    def play(p, q):
        n = int(json.loads(q.body)["messages"][0]["content"].split()[0])
        p.send(SSE_HEAD + chunk(sse_event("first")))
        gates[n].wait(50)
        p.send(b"".join(sse_answer(["last"])[len(SSE_HEAD):].split(b"\x00")))

    nodes = [backend(play) for _ in range(3)]
    r = router([pool([b.url for b in nodes], policy="least_request", concurrency_threshold=1024)])
    for batch, gate in enumerate(gates):
        clients = [Client(r.port) for _ in range(want)]
        for i, c in enumerate(clients):
            c.post(chat_body("%d request %d" % (batch, i), stream=True))
        for c in clients:
            c.until(b"first", timeout=30)
        assert r.in_flight() == want
        gate.open()
        for c in clients:
            c.until(LAST_CHUNK, timeout=30)
            c.close()
        r.wait_in_flight(0, 10)
    assert r.metrics().sum("kvsteer_requests_total", code="200") == 3 * want
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, most))


def test_adapter_never_falls_to_another_model(router, backend):
    """A LoRA's name was answered by another model. A name that no pool has is an error; a known one goes to its pool
    only, also when that pool is full or gone."""
    gate = Gate()
    a, b = backend(lambda p, q: (gate.wait(), p.send(json_answer()))), backend()
    r = router([pool([{"url": a.url, "name": "a"}], name="a", models=["ma"], adapters=["lo"], concurrency_threshold=1, queue={"max_requests": 0}),
                pool([b.url], name="b", models=["mb"], default=True)])
    held = Client(r.port)
    held.post(chat_body(model="lo"))
    r.wait_in_flight(1)

    def status(model):
        c = Client(r.port)
        c.post(chat_body(model=model))
        return c.response().status

    assert status("lo") == 429 and status("lo-2") == 404 and status("LO") == 404 and status("mb") == 200
    gate.open()
    assert held.response().status == 200
    r.ctl("backend", "drain", "a")
    assert status("lo") == 503
    assert len(b.requests) == 1


def test_no_list_of_models_is_empty_while_backends_are_slow(router, backend):
    """Models are the configuration's: they are listed at once, whatever the engines do."""
    b = backend(on_accept=lambda p: False)
    r = router([pool([b.url], models=["m"], adapters=["lo"])], ready=False)
    status, body, _ = fetch(r.port, "/v1/models", timeout=2 * SLOW)
    assert status == 200 and {m["id"] for m in json.loads(body)["data"]} == {"m", "lo"}
    assert fetch(r.port, "/v1/models/lo")[0] == 200 and fetch(r.port, "/v1/models/none")[0] == 404


def test_every_test_of_the_page_exists():
    """docs/testing.md names tests: each is there, by that name."""
    root = os.path.join(os.path.dirname(__file__), "..", "..")
    with open(os.path.join(root, "docs", "testing.md"), encoding="utf-8") as f:
        named = re.findall(r"`([\w/]+\.(?:py|c))(?:::(\w+))?`", f.read())
    assert len(named) > 80
    for file, name in named:
        path = os.path.join(root, "tests", "e2e" if file.endswith(".py") else "unit", file)
        assert os.path.exists(path), file
        with open(path, encoding="utf-8") as f:
            text = f.read()
        what = r"^def %s\(" if file.endswith(".py") else r"cmocka_unit_test\w*\(%s[,)]"
        assert not name or re.search(what % name, text, re.M), "%s has no %s" % (file, name)
