# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Prefix-aware routing as SageMaker defines it: the ranges of its knobs, what the prefix is
on either API, the hint, the overflow, and that few prefixes move when nodes come and go."""
import collections
import json
import subprocess

import pytest
import yaml

from harness import SLOW, binary, chat_body, pool, wait_until
from peer import SSE_DONE, Client, Gate, json_answer

HINT = "X-Amzn-SageMaker-Prefix-Aware-Id"
LENGTH = 1024  # the shortest prefix_length
VARIANTS = 24  # prompts of a claim that they spread: eight nodes agree on all of them by chance in 1 of 8^23


def named(nodes):
    """Backends with names of their own: rendezvous hashing goes by the name, and ports differ from run to run."""
    return [{"url": b.url, "name": "node-%d" % i} for i, b in enumerate(nodes)]


class Caller:
    """One connection that says which node answered."""

    def __init__(self, port):
        self.client = Client(port)

    def raw(self, body, path, fields=()):
        self.client.post(body, path, fields)
        got = self.client.response()
        assert got.status == 200, (got.status, got.body)
        return got

    def chat(self, text, fields=(), **more):
        return self.raw(chat_body(text, **more), "/v1/chat/completions", fields).get("x-kvsteer-backend")

    def invoke(self, body, fields=()):
        return self.raw(body, "/invocations", fields).get("x-kvsteer-backend")


@pytest.fixture
def eight(router, backend):
    """Eight nodes, prefix_length 1024."""
    nodes = [backend() for _ in range(8)]
    return Caller(router([pool(named(nodes), policy="prefix_aware", prefix_length=LENGTH)], workers=1).port)


@pytest.mark.parametrize("key,good,bad", [
    ("prefix_length", [1024, 4096, 65536], [0, 1, 1023, 65537, 1 << 20, -1024, "4k", 1024.5]),
    ("concurrency_threshold", [1, 256, 1024], [0, 1025, 100000, -1, "many", 1.5]),
])
def test_ranges(tmp_path, key, good, bad):
    """--check accepts the ends of the range and refuses what lies beyond, and says what is allowed."""
    file = tmp_path / "c.yaml"

    def check(value):
        file.write_text(yaml.safe_dump({"pools": [pool(["http://127.0.0.1:1"], policy="prefix_aware", **{key: value})]}))
        return subprocess.run([binary("kvsteerd"), "--check", "-c", str(file)], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20 * SLOW)

    for value in good:
        assert check(value).returncode == 0, value
    for value in bad:
        r = check(value)
        assert r.returncode == 2, value
        assert key in r.stderr and str(value) in r.stderr and str(good[0]) in r.stderr and str(good[-1]) in r.stderr, r.stderr


def test_invoke_path_counts_raw_bytes(eight):
    """/invocations: the first prefix_length bytes of the body as it stands, blanks and all; what follows is free."""
    head = b'{"inputs": "'
    text = b"x" * (LENGTH - len(head))
    bodies = [head + text + b'%d", "parameters": {"seed": %d}}' % (i, i) for i in range(VARIANTS)]
    assert len({eight.invoke(b) for b in bodies}) == 1
    # the last byte that counts
    bodies = [head + text[:-1] + bytes([ord("a") + i]) + b'"}' for i in range(VARIANTS)]
    assert len({eight.invoke(b) for b in bodies}) >= 3
    # the same prompt in other bytes: a blank, another field in front
    bodies = [b'{' + b" " * i + head[1:] + text + b'"}' for i in range(VARIANTS)]
    assert len({eight.invoke(b) for b in bodies}) >= 3


def test_invoke_path_counts_bytes_of_wide_characters(eight):
    """...bytes also where a character has three of them."""
    head = '{"inputs": "'.encode()
    wide = "日" * ((LENGTH - len(head)) // 3 - 1)
    fill = b"y" * (LENGTH - len(head) - len(wide.encode()))
    body = head + wide.encode() + fill
    assert len(body) == LENGTH
    assert len({eight.invoke(body + b'%d"}' % i) for i in range(VARIANTS)}) == 1
    assert len({eight.invoke(body[:-1] + bytes([ord("a") + i]) + b'"}') for i in range(VARIANTS)}) >= 3


@pytest.mark.parametrize("char", ["a", "ü", "日", "🙂"], ids=["1-byte", "2-bytes", "3-bytes", "4-bytes"])
def test_openai_path_counts_characters(eight, char):
    """Chat: the first prefix_length characters of the messages' text, however many bytes each has."""
    prefix = char * LENGTH
    assert len({eight.chat(prefix + "tail %d" % i) for i in range(VARIANTS)}) == 1
    assert len({eight.chat(prefix[:-1] + chr(0x4e00 + i)) for i in range(VARIANTS)}) >= 3


def test_openai_path_reads_text_not_bytes(eight):
    """Escapes are the characters they stand for, and nothing but message text counts."""
    prefix = "日ü🙂\n" * (LENGTH // 4)
    seen = set()
    for ascii_only in (True, False):
        for more in ({}, {"temperature": 0.5}, {"user": "someone", "n": 1}):
            body = dict(more, model="m", messages=[{"role": "user", "content": prefix}], max_tokens=4)
            seen.add(eight.raw(json.dumps(body, ensure_ascii=ascii_only).encode(), "/v1/chat/completions").get("x-kvsteer-backend"))
            parts = dict(body, messages=[{"role": "user", "content": [{"type": "text", "text": prefix}]}])
            seen.add(eight.raw(json.dumps(parts, ensure_ascii=ascii_only, indent=2).encode(),
                               "/v1/chat/completions").get("x-kvsteer-backend"))
    assert len(seen) == 1


def test_openai_path_runs_over_messages(eight):
    """A prefix ends in the second message: that one's start counts, its rest does not."""
    def ask(system, user):
        body = {"model": "m", "messages": [{"role": "system", "content": system}, {"role": "user", "content": user}]}
        return eight.raw(json.dumps(body).encode(), "/v1/chat/completions").get("x-kvsteer-backend")

    system = "s" * (LENGTH - 100)
    assert len({ask(system, "u" * 100 + "tail %d" % i) for i in range(VARIANTS)}) == 1
    assert len({ask(system, "u" * 98 + "%02d" % i) for i in range(VARIANTS)}) >= 3


@pytest.mark.parametrize("path", ["chat", "invoke"])
def test_hint_splits_equal_prefixes(eight, path):
    """One prompt with different hints is many prefixes; with one hint it is one, and its own."""
    def ask(fields):
        if path == "chat":
            return eight.chat("p" * 2 * LENGTH, fields=fields)
        return eight.invoke(b'{"inputs":"' + b"p" * 2 * LENGTH + b'"}', fields=fields)

    assert len({ask(()) for _ in range(4)}) == 1
    by_hint = {}
    for turn in range(2):
        for i in range(VARIANTS):
            by_hint.setdefault(i, set()).add(ask(["%s: tenant-%d" % (HINT, i)]))
    assert all(len(names) == 1 for names in by_hint.values()), by_hint
    assert len(set().union(*by_hint.values())) >= 3
    assert ask(["%s: tenant-0" % HINT.lower()]) in by_hint[0]


def test_overflow_goes_to_the_least_busy(router, backend):
    """At the threshold the request goes to the node with the fewest, and says so; below it again, home."""
    gate = Gate()

    def answer(p, q):
        if b"hold" in q.body:
            gate.wait()
        p.send(json_answer())

    nodes = [backend(answer) for _ in range(3)]
    r = router([pool(named(nodes), policy="prefix_aware", prefix_length=LENGTH, concurrency_threshold=2)], workers=1)
    caller = Caller(r.port)
    prefix = {}
    for i in range(200):
        text = "%04d" % i + "x" * LENGTH
        prefix.setdefault(caller.chat(text), text)
        if len(prefix) == 3:
            break
    home, busy, idle = sorted(prefix)
    begun = {b: len(n.begun) for b, n in zip(("node-0", "node-1", "node-2"), nodes)}
    held = []

    def hold(where):
        c = Client(r.port)
        c.post(chat_body(prefix[where] + " hold"))
        held.append(c)
        nodes[int(where[-1])].wait_begun(begun[where] + 1)
        begun[where] += 1

    hold(home)
    assert caller.chat(prefix[home]) == home # one below the threshold
    begun[home] += 1
    hold(home)
    hold(busy)
    got = caller.raw(chat_body(prefix[home]), "/v1/chat/completions")
    assert got.get("x-kvsteer-backend") == idle and "overflow=1" in got.get("x-kvsteer-reason")
    assert "overflow" not in caller.raw(chat_body(prefix[idle]), "/v1/chat/completions").get("x-kvsteer-reason")
    assert r.backends()[home]["in_flight"] == 2
    gate.open()
    assert [c.response().status for c in held] == [200] * 3
    r.wait_in_flight(0)
    got = caller.raw(chat_body(prefix[home]), "/v1/chat/completions")
    assert got.get("x-kvsteer-backend") == home and "overflow" not in got.get("x-kvsteer-reason")


def test_same_node_after_restarts_and_through_any_gateway(router, backend):
    """Nothing is remembered that the hash does not say: a new process, or a second gateway whose
    list has another order, sends every prefix to the same node."""
    nodes = named([backend() for _ in range(7)])
    texts = ["%d " % i + "x" * LENGTH for i in range(60)]
    homes = []
    for backends in (nodes, nodes, nodes[::-1]):
        r = router([pool(backends, policy="prefix_aware", prefix_length=LENGTH)])
        caller = Caller(r.port)
        homes.append([caller.chat(t) for t in texts])
        r.stop()
    assert homes[0] == homes[1] == homes[2]
    assert len(set(homes[0])) == 7


def test_few_prefixes_move_when_nodes_come_and_go(router, backend):
    """A node more takes 1/(N+1) of the prefixes, 2 % more at most, and only to itself; its removal gives
    back exactly those."""
    nodes = named([backend() for _ in range(8)])
    texts = ["%d " % i + "x" * LENGTH for i in range(600)]

    def config(n):
        return {"pools": [pool(nodes[:n], policy="prefix_aware", prefix_length=LENGTH)]}

    r = router(config(7)["pools"], workers=1)
    caller = Caller(r.port)
    seven = [caller.chat(t) for t in texts]
    r.reload(config(8))
    eight = [caller.chat(t) for t in texts]
    # each its share, too: 80 requests here and 1 there is what a ring of few points does
    shares = collections.Counter(eight)
    assert len(shares) == 8 and all(0.6 < n / (len(texts) / 8) < 1.4 for n in shares.values()), shares
    moved = [(a, b) for a, b in zip(seven, eight) if a != b]
    assert moved and all(b == "node-7" for _, b in moved)
    assert len(moved) / len(texts) <= 1 / 8 + 0.02, "%d of %d moved" % (len(moved), len(texts))
    r.reload(config(7))
    assert [caller.chat(t) for t in texts] == seven


@pytest.mark.parametrize("policy", ["cost", "prefix_aware"])
def test_invocations_plain_and_stream(router, sim, policy):
    """Without `model` they go to the default pool; plain and streamed answers alike; the same prompt
    start stays on its node, and the engine's usage says that it was there."""
    s, other = sim(nodes=4, args=["--time-scale", "10"]), sim(nodes=1)
    r = router([pool(other.urls(), name="other", models=["else"]),
                pool(s.urls(), name="main", models=["m"], default=True, policy=policy)])
    caller = Caller(r.port)
    names = set(b["name"] for p in r.status()["pools"] if p["name"] == "main" for b in p["backends"])
    for shape in ("messages", "prompt"):
        for stream in (False, True):
            where = set()
            text = ("%s %s " % (shape, stream)) * 600
            for turn in range(3):
                body = {"messages": [{"role": "user", "content": text + "turn %d" % turn}]} if shape == "messages" else \
                       {"prompt": text + "turn %d" % turn}
                body["max_tokens"] = 4
                if stream:
                    body.update(stream=True, stream_options={"include_usage": True})
                got = caller.raw(json.dumps(body).encode(), "/invocations")
                where.add(got.get("x-kvsteer-backend"))
                if stream:
                    assert got.get("content-type").startswith("text/event-stream") and got.body.endswith(SSE_DONE)
                    events = [json.loads(e[6:]) for e in got.body.split(b"\n\n") if e.startswith(b"data: {")]
                    usage = [e["usage"] for e in events if e.get("usage")][-1]
                else:
                    usage = json.loads(got.body)["usage"]
                cached = usage["prompt_tokens_details"]["cached_tokens"]
                assert cached > 0.9 * usage["prompt_tokens"] if turn else cached < 0.5 * usage["prompt_tokens"]
            assert len(where) == 1 and where <= names


@pytest.mark.parametrize("workload", [("long8k", "--prefixes", "6"), ("sharegpt",)], ids=["long", "varied"])
@pytest.mark.parametrize("api", ["invocations", "chat"])
@pytest.mark.parametrize("stream", ["0", "1"], ids=["plain", "stream"])
@pytest.mark.parametrize("length,threshold", [(1024, 1024), (65536, 4)])
def test_every_request_succeeds(router, sim, workload, api, stream, length, threshold):
    """Either API, plain and streamed, long shared prefixes and conversations of varying length, short and
    long prefix_length, generous and tight thresholds: all requests succeed."""
    s = sim(nodes=3, args=["--time-scale", "50"])
    r = router([pool(s.urls(), policy="prefix_aware", prefix_length=length, concurrency_threshold=threshold)])
    out = subprocess.run([binary("kvsteer-load"), "--url", "http://127.0.0.1:%d" % r.port, "--model", "m", "--workload", *workload,
                          "--api", api, "--stream", stream, "--concurrency", "16", "--requests", "60", "--output-tokens", "20",
                          "--json", "-"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=50 * SLOW, text=True, check=True)
    report = json.loads(out.stdout[out.stdout.index("{"):])
    assert report["requests"] >= 60 and report["errors"] == 0, report
    wait_until(lambda: r.metrics().sum("kvsteer_requests_total", code="200") >= 60, what="all counted")
    assert r.metrics().sum("kvsteer_errors_total") == 0
    assert max(report["per_backend"].values()) < report["requests"] or workload[0] == "long8k"
