# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Every policy by its name, and what stands beside them: sessions, aliases, adapters, default pools, load-only APIs."""
import collections
import json
import re
import time

import pytest

from harness import chat_body, pool, wait_until
from peer import LAST_CHUNK, Client, Gate, chunk, head, json_answer

BACKEND = "x-kvsteer-backend"
REASON = "x-kvsteer-reason"


def ask(port, body, fields=(), path="/v1/chat/completions"):
    c = Client(port)
    try:
        c.post(body, path, fields)
        got = c.response(timeout=20)
        assert got.status == 200, (got.status, got.body)
        return got
    finally:
        c.close()


def matched(got):
    """Tokens that the router believed to be cached, and all of them."""
    m = re.search(r"match=(\d+) of=(\d+)", got.get(REASON))
    return int(m.group(1)), int(m.group(2))


class Held:
    """Backends that hold what says `hold` until the gate opens."""

    def __init__(self, make, n):
        self.gate = Gate()
        self.nodes = [make(self._answer) for _ in range(n)]
        self.urls = [b.url for b in self.nodes]
        self.clients = []

    def _answer(self, peer, request):
        if b"hold" in request.body:
            self.gate.wait()
        peer.send(json_answer())

    def hold(self, router, n, text="hold %d", path="/v1/chat/completions", fields=()):
        """n requests that stay in flight."""
        before = len(self.clients)
        router.wait_in_flight(before)  # an answer is with its client a moment before its slot is free
        for i in range(n):
            c = Client(router.port)
            # a stream: without its first token it counts as waiting, not as decoding by now
            c.post(chat_body(text % i if "%" in text else text, stream=True), path, fields)
            self.clients.append(c)
            router.wait_in_flight(before + i + 1)
        return {name: b["in_flight"] for name, b in router.backends().items()}

    def release(self):
        self.gate.open()
        assert all(c.response().status == 200 for c in self.clients)


@pytest.mark.parametrize("pools", [1, 2])
def test_volatile_heads(router, backend, tmp_path, pools):
    """A nonce in front of the system prompt: with volatile_heads the prompts go where their like went, and each
    reaches the engine as the client wrote it. Which pool's patterns count is known before or after the scan."""
    nodes = [backend() for _ in range(6)]
    long = "Be kind to everybody, at length. " * 100
    cfg = dict(pool([n.url for n in nodes], models=["m"]), volatile_heads=["[request *] "])
    r = router([cfg] + [dict(pool([n.url for n in nodes], models=["other"]), name="other")] * (pools - 1))
    c = Client(r.port)

    def where(nonce, model="m"):
        body = json.dumps({"model": model, "messages": [{"role": "system", "content": "[request %s] %s" % (nonce, long)},
                                                        {"role": "user", "content": "hello"}]}).encode()
        c.post(body)
        name = c.response().get("x-kvsteer-backend")
        node, = [n for n in nodes if n.url.endswith(name.rpartition("/")[2])] # after POOL/ where two pools have it
        assert node.requests[-1].body == body
        return node.url

    assert len({where("%032x" % i) for i in range(12)}) == 1
    body = tmp_path / "body.json"
    body.write_bytes(nodes[[n.url for n in nodes].index(where("x"))].requests[-1].body.replace(b"[request x]", b"[request y]"))
    rows = json.loads(r.ctl("-j", "route", "explain", str(body)).stdout)["backends"]
    chosen, = [b["name"] for b in rows if b["chosen"]]
    assert [b["name"] for b in rows if b["match_tokens"] > 500] == [chosen]
    assert where("z").endswith(chosen.rpartition("/")[2])
    if pools == 2: # whose pool says nothing of heads
        assert len({where("%032x" % i, "other") for i in range(12)}) > 1


@pytest.mark.parametrize("name,means", [("cost", "cost"), ("prefix_aware", "prefix_aware"), ("session", "session"),
                                        ("least_request", "least_request"), ("round_robin", "round_robin"),
                                        ("weighted", "weighted"), ("prefix", "cost"), ("kv", "cost"),
                                        ("round-robin", "round_robin")])
def test_every_policy_by_name(router, backend, tmp_path, name, means):
    """Each name, HyperPod's too, is accepted, serves, and is told by its own name in status, reason and explain."""
    r = router([pool([backend().url, backend().url], policy=name)])
    assert [p["policy"] for p in r.status()["pools"]] == [means]
    assert ask(r.port, chat_body("x" * 2000)).get(REASON).startswith("policy=%s " % means)
    file = tmp_path / "body.json"
    file.write_bytes(chat_body("x" * 2000))
    explained = json.loads(r.ctl("-j", "route", "explain", str(file)).stdout)
    assert explained["policy"] == means and sum(b["chosen"] for b in explained["backends"]) == 1


def test_least_request_goes_to_the_emptiest(router, backend):
    """Whatever the prompt: requests that stay fill the nodes evenly, and a new one goes where there are fewest."""
    h = Held(backend, 4)
    r = router([pool(h.urls, policy="least_request")], workers=1)
    assert sorted(h.hold(r, 9, "hold the same").values()) == [2, 2, 2, 3]
    flying = {name: b["in_flight"] for name, b in r.backends().items()}
    for _ in range(6):
        assert flying[ask(r.port, chat_body("short")).get(BACKEND)] == 2
    h.release()


def test_least_request_respects_each_cap(router, backend):
    """A backend with a threshold of its own is filled to that and no further."""
    h = Held(backend, 2)
    r = router([pool([{"url": h.urls[0], "name": "small", "concurrency_threshold": 2}, {"url": h.urls[1], "name": "large"}],
                     policy="least_request", concurrency_threshold=100)])
    assert h.hold(r, 9) == {"small": 2, "large": 7}
    h.release()


def test_weighted_by_prefix_alone(router, backend):
    """All weight on the prefix signal: a prompt returns to its node, however many others are in flight there."""
    h = Held(backend, 4)
    weights = {"queue": 0, "kv_cache": 0, "prefix": 1, "running_requests": 0, "lora_affinity": 0, "predicted_latency": 0}
    r = router([pool(h.urls, policy="weighted", weights=weights)], workers=1)
    prefix = "a long start " * 200
    home = ask(r.port, chat_body(prefix)).get(BACKEND)
    assert h.hold(r, 8, prefix + "hold %d")[home] == 8
    assert ask(r.port, chat_body(prefix + "again")).get(BACKEND) == home
    h.release()


@pytest.mark.parametrize("signal", ["running_requests", "queue", "predicted_latency"])
def test_weighted_by_load_alone(router, backend, signal):
    """All weight on a signal of load: requests that stay spread evenly. Each is a second's prefill, so that the
    predictions do not see it end meanwhile."""
    h = Held(backend, 4)
    weights = dict.fromkeys(("queue", "kv_cache", "prefix", "running_requests", "lora_affinity", "predicted_latency"), 0)
    weights[signal] = 1
    r = router([pool(h.urls, policy="weighted", weights=weights)], workers=1)
    assert sorted(h.hold(r, 8, "%d hold " + "a long text " * 7000).values()) == [2, 2, 2, 2]
    h.release()


def test_weighted_reads_kv_use_of_the_engines(router, backend):
    """The kv_cache signal comes from the nodes' own counters: the full one is avoided."""
    class Full:
        """A metrics page as an engine's, with this KV use."""

        def __init__(self, use):
            self.page = b"vllm:num_requests_running 0\nvllm:num_requests_waiting 0\nvllm:kv_cache_usage_perc %s\n" % use
            self.backend = backend(on_accept=self.accept)

        def accept(self, peer):
            send = peer.send

            def replaced(data):
                if b"vllm:" in data:
                    data = head(Content_Type="text/plain", Content_Length=len(self.page)) + self.page
                send(data)
            peer.send = replaced

    nodes = [Full(b"0.95").backend, Full(b"0.1").backend, Full(b"0.9").backend]
    weights = {"queue": 0, "kv_cache": 1, "prefix": 0, "running_requests": 0, "lora_affinity": 0, "predicted_latency": 0}
    r = router([pool([b.url for b in nodes], policy="weighted", weights=weights, scrape={"interval": "250ms"})], workers=1)
    wait_until(lambda: sorted(b["kv_used"] or 0 for b in r.backends().values()) == [.1, .9, .95], 10, "KV use read")
    assert {ask(r.port, chat_body("p%d" % i)).get(BACKEND) for i in range(12)} == {nodes[1].name}


def test_session_by_the_configured_header(router, backend):
    """session.headers name the header that counts, before the customary ones; the first present of several."""
    nodes = [backend() for _ in range(5)]
    r = router([pool([b.url for b in nodes], policy="session", session={"headers": ["x-conversation", "x-user"]})], workers=1)

    def home(*fields):
        return ask(r.port, chat_body("any"), fields).get(BACKEND)

    first = {i: home("X-Conversation: c%d" % i) for i in range(20)}
    assert len(set(first.values())) >= 4
    for i in range(20):
        assert home("x-conversation: c%d" % i, "x-session-id: other%d" % i, "X-User: u%d" % (i % 3)) == first[i]
        assert home("X-User: c%d" % i) == first[i] # the value is the key, wherever it stands
    assert len({home("x-unknown: %d" % i) for i in range(20)}) >= 4 # no session: by load, in turn


def test_session_overflows_and_returns(router, backend):
    """A session whose node is full goes to its next node, says overflow, and returns."""
    h = Held(backend, 3)
    r = router([pool(h.urls, policy="session", concurrency_threshold=1)], workers=1)
    mine = ["x-session-id: me"]
    home = ask(r.port, chat_body("x"), mine).get(BACKEND)
    h.hold(r, 1, fields=mine)
    away = [ask(r.port, chat_body("x"), mine) for _ in range(3)]
    assert {a.get(BACKEND) for a in away} != {home} and len({a.get(BACKEND) for a in away}) == 1
    assert all("overflow=1" in a.get(REASON) for a in away)
    h.release()
    r.wait_in_flight(0)
    back = ask(r.port, chat_body("x"), mine)
    assert back.get(BACKEND) == home and "overflow" not in back.get(REASON)


BODIES = {
    "first": b'{"model":"%s","messages":[{"role":"user","content":"hi"}]}',
    "last": b'{"messages":[{"role":"user","content":"about \\"model\\":\\"gpt-4o\\""}],\n  "model" :\t"%s" }',
    "nested": b'{"metadata":{"model":"gpt-4o"},"messages":[{"role":"user","content":"gpt-4o"}],"model":"%s","tools":[{"model":"gpt-4o"}]}',
    "late": b'{"messages":[{"role":"user","content":"' + b"long " * 40000 + b'"}],"model":"%s","n":1}',
}


@pytest.mark.parametrize("rewrite", [False, True])
@pytest.mark.parametrize("where", BODIES)
def test_alias_changes_the_body_there_and_only_there(router, backend, where, rewrite):
    """rewrite_model replaces the value of the top-level `model`, whatever its length, in plain and chunked
    bodies; without it not a byte changes. The headers name the model that it stands for."""
    b = backend()
    long_name = "meta-llama/Llama-3.1-70B-Instruct-with-a-name-longer-than-the-alias"
    r = router([pool([b.url], models=[long_name], adapters=["lo"], aliases={"gpt-4o": long_name, "an-alias-longer-than-its-target": "lo"},
                     rewrite_model=rewrite)])
    c = Client(r.port)
    for alias, target, base in (("gpt-4o", long_name, long_name), ("an-alias-longer-than-its-target", "lo", long_name)):
        body = BODIES[where].replace(b"%s", alias.encode())
        want = BODIES[where].replace(b"%s", target.encode()) if rewrite else body
        c.post(body)
        assert c.response().status == 200
        c.send(b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
               + b"".join(chunk(body[i:i + 7000]) for i in range(0, len(body), 7000)) + LAST_CHUNK)
        assert c.response().status == 200
        for seen in b.requests[-2:]:
            assert seen.body == want
            assert seen.get("x-gateway-model-name") == target and seen.get("x-gateway-base-model-name") == base
    c.post(BODIES["first"].replace(b"%s", long_name.encode()))
    assert c.response().status == 200 and b.requests[-1].body == BODIES["first"].replace(b"%s", long_name.encode())


def test_rewritten_body_survives_a_retry(router, backend):
    """The second node gets the rewritten body too, once, with the right length."""
    bad, good = backend(lambda p, q: p.rst()), backend()
    r = router([pool([bad.url, good.url], models=["the-model"], aliases={"a": "the-model"}, rewrite_model=True,
                     policy="round_robin")], workers=1)
    for _ in range(2):
        ask(r.port, BODIES["nested"].replace(b"%s", b"a"))
    assert bad.requests
    for seen in bad.requests + good.requests:
        assert seen.body == BODIES["nested"].replace(b"%s", b"the-model")


def test_default_pool(router, backend):
    """What names no model goes to the default pool, without headers that would name one; a model that nobody
    has is an error there too."""
    a, b = backend(), backend()
    r = router([pool([a.url], name="a", models=["ma"]), pool([b.url], name="b", models=["mb"], default=True)])
    assert ask(r.port, b'{"messages":[{"role":"user","content":"x"}]}').get(BACKEND) == b.name
    assert ask(r.port, b'{"inputs":"x"}', path="/invocations").get(BACKEND) == b.name
    assert all(not q.all("x-gateway-model-name") for q in b.requests)
    c = Client(r.port)
    c.post(chat_body(model="mc"))
    assert c.response().status == 404
    r.reload({"pools": [pool([a.url], name="a", models=["ma"]), pool([b.url], name="b", models=["mb"])]})
    c.post(b'{"messages":[{"role":"user","content":"x"}]}')
    got = c.response()
    assert got.status == 404 and "default" in json.loads(got.body)["error"]["message"]


def test_adapters_have_caches_of_their_own(router, backend):
    """A LoRA adapter's KV is not its base model's: equal prompts under different names match nothing of each
    other, and all of themselves."""
    b = backend()
    r = router([pool([b.url], models=["base"], adapters=["lo-1", "lo-2"], aliases={"other-name": "base"})])
    prompt = "the same long prompt " * 200
    for name in ("base", "lo-1", "lo-2"):
        first, again = (matched(ask(r.port, chat_body(prompt, model=name))) for _ in range(2))
        assert first[0] == 0, name
        assert again[0] > 0.9 * again[1], name
        seen = b.requests[-1]
        assert (seen.get("x-gateway-model-name"), seen.get("x-gateway-base-model-name")) == (name, "base")
    # an alias is another name for the same cache
    assert matched(ask(r.port, chat_body(prompt, model="other-name")))[0] > 0


def test_adapter_stays_where_it_is_loaded(router, sim):
    """policy cost: an adapter's requests do not load it on every node. The simulated nodes count their loads."""
    adapters = ["lo-%d" % i for i in range(6)]
    s = sim(nodes=3, args=["--time-scale", "10", "--adapters", ",".join(adapters)])
    r = router([pool(s.urls(), models=["m"], adapters=adapters, adapter_load="500ms")], workers=1)
    homes = collections.defaultdict(set)
    for turn in range(5):
        for name in adapters:
            homes[name].add(ask(r.port, chat_body("question %d of %s" % (turn, name), model=name)).get(BACKEND))
    loads = sum(s.node_metrics(i).sum("gpusim_adapter_loads_total") for i in range(3))
    assert loads == sum(len(h) for h in homes.values()) <= 8, homes
    assert len(set().union(*homes.values())) >= 2


@pytest.mark.parametrize("path,body", [("/v1/embeddings", b'{"model":"m","input":["%s"]}'),
                                       ("/v1/rerank", b'{"model":"m","query":"%s","documents":["a"]}')])
def test_load_only_apis_go_by_load(router, backend, path, body):
    """Embeddings and the like leave no KV behind: the same input again goes where there is least load, and the index
    learns nothing."""
    h = Held(backend, 3)
    r = router([pool(h.urls)], workers=1)
    body = body.replace(b"%s", b"always the same " * 300)
    first = ask(r.port, body, path=path).get(BACKEND)
    held = Client(r.port)
    h.clients.append(held)
    held.post(body.replace(b"always", b"hold", 1), path)
    r.wait_in_flight(1)
    busy, = [name for name, b in r.backends().items() if b["in_flight"]]
    time.sleep(0.05) # the predicted time of its prefill: from then on it counts as decoding
    seen = {ask(r.port, body, path=path).get(BACKEND) for _ in range(12)}
    assert busy not in seen and len(seen) == 2 and first
    assert r.metrics().sum("kvsteer_index_blocks") == 0
    assert r.metrics().sum("kvsteer_cached_tokens_predicted_total") == 0
    h.release()


def test_forwarded_for(router, backend):
    """One address is trusted to name the client, the others are overwritten; several fields become one list."""
    b = backend()
    r = router([b.url], trusted_proxies=["127.0.0.2/32", "::1"])
    for source, want in (("127.0.0.2", "10.0.0.1, 10.0.0.2, 127.0.0.2"), ("127.0.0.3", "127.0.0.3")):
        c = Client(r.port, source=source)
        c.post(chat_body(), fields=["X-Forwarded-For: 10.0.0.1", "X-Forwarded-For: 10.0.0.2"])
        assert c.response().status == 200
        seen = b.requests[-1]
        assert ", ".join(seen.all("x-forwarded-for")).replace(" ", "") == want.replace(" ", "")


@pytest.mark.parametrize("path,kind", [("/v1/messages", "anthropic"), ("/v1/chat/completions", "openai")])
def test_errors_have_the_shape_of_the_api(router, backend, path, kind):
    """Every refusal that the router itself makes on the way to a backend: model, body size, nobody there."""
    b = backend()
    r = router([pool([b.url], models=["m"])], limits={"body": "64KiB", "scan": "64KiB"})
    cases = [(404, "model_not_found", "not_found_error", chat_body(model="unknown")),
             (413, "body_too_large", "request_too_large", chat_body("x" * 70000))]
    for drained in (False, True):
        if drained:
            r.ctl("backend", "drain", b.name)
            cases = [(503, "no_backend", None, chat_body())]
        for status, code, anthropic, body in cases:
            c = Client(r.port)
            c.post(body, path)
            got = c.response()
            doc = json.loads(got.body)
            assert got.status == status and got.get("content-type").startswith("application/json")
            if kind == "openai":
                assert doc["error"]["code"] == code and set(doc["error"]) == {"message", "type", "param", "code"}
            else:
                assert doc["type"] == "error" and doc["error"]["message"] and doc["error"]["code"] == code
                assert anthropic is None or doc["error"]["type"] == anthropic
            c.close()
    assert b.bytes_in == 0
