# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Real engines behind the router: three llama.cpp servers with a small real model, asked by
the OpenAI and the Anthropic SDK. The servers are started once for the file; the engine and
the model are installed by tools/realfleet/install.sh into an environment of their own."""
import http.client
import json
import os
import signal
import socket
import sys
import threading
import time

import anthropic
import openai
import pytest
import yaml

from harness import SLOW, Router, pool, ports, wait_until

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "realfleet"))
import realfleet  # noqa: E402

# The first test pays for the installation.
pytestmark = pytest.mark.timeout(240 * SLOW)

ENGINE = realfleet.ENGINES["llamacpp"]
MODEL = ENGINE.model
STREAM_IDLE_S = 15
WORDS = ("river stone garden window letter candle market bridge summer winter travel music paper glass silver "
         "forest mountain harbor village kitchen").split()


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    realfleet.install(ENGINE)
    with realfleet.Fleet(ENGINE, ports.get(3), 3, str(tmp_path_factory.mktemp("llamacpp"))) as f:
        yield f


@pytest.fixture
def r(fleet, tmp_path):
    """A router over the fleet; every server is up."""
    for s in fleet.servers:
        if not s.child or s.child.poll() is not None:
            s.start()
    for s in fleet.servers:
        s.wait_ready()
    with open(os.path.join(realfleet.HERE, "profile-llamacpp.yaml"), encoding="utf-8") as f:
        measured = yaml.safe_load(f)
    made = Router(str(tmp_path), {
        "timeouts": {"stream_idle": "%ds" % STREAM_IDLE_S, "first_token": "60s"},
        "pools": [pool(fleet.urls(), name="real", models=[MODEL], scrape={"interval": "250ms"}, **measured)],
    })
    yield made
    made.stop()


def oai(r):
    return openai.OpenAI(base_url="http://127.0.0.1:%d/v1" % r.port, api_key="none", max_retries=0, timeout=60 * SLOW)


def claude(r):
    return anthropic.Anthropic(base_url="http://127.0.0.1:%d" % r.port, api_key="none", max_retries=0, timeout=60 * SLOW)


def prompt(n, words=60):
    """Text that is the same for the same n, and another from its first word for another."""
    return "%d " % n + " ".join(WORDS[(n * 7 + i * i) % len(WORDS)] for i in range(words))


def messages(n, words=60):
    return [{"role": "user", "content": prompt(n, words)}]


def server_at(fleet, name):
    return next(s for s in fleet.servers if s.port == int(name.rsplit(":", 1)[1]))


def engine_counter(fleet, name):
    """A counter or gauge of llama.cpp, summed over the servers that answer."""
    total = 0
    for s in fleet.servers:
        for line in realfleet.fetch(s.port, "/metrics")[1].decode().splitlines():
            if line.startswith("llamacpp:%s " % name):
                total += float(line.split()[1])
    return total


def idle(fleet):
    return wait_until(lambda: engine_counter(fleet, "requests_processing") == 0, 20, "engines idle", every=0.05)


# ---- the SDKs ----

def test_openai_chat(r):
    assert [m.id for m in oai(r).models.list()] == [MODEL]
    ask = dict(model=MODEL, messages=messages(1), max_tokens=6)
    raw = oai(r).chat.completions.with_raw_response.create(**ask)
    answer = raw.parse()
    assert answer.choices[0].message.content and answer.usage.completion_tokens == 6
    first = raw.headers["x-kvsteer-backend"]
    # The same prompt goes where its prefix is, and the engine says that it was there.
    raw = oai(r).chat.completions.with_raw_response.create(**ask)
    assert raw.headers["x-kvsteer-backend"] == first
    usage = raw.parse().usage
    assert usage.prompt_tokens_details.cached_tokens >= usage.prompt_tokens - 2


def test_openai_stream(r):
    stream = oai(r).chat.completions.create(model=MODEL, messages=messages(2), max_tokens=8, stream=True,
                                            stream_options={"include_usage": True}, extra_body={"ignore_eos": True})
    chunks = list(stream)
    assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert [c.usage.completion_tokens for c in chunks if c.usage] == [8]
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    line = r.wait_access("path=/v1/chat/completions", "status=200")
    assert "ttft_ms=-" not in line, "a first token was seen"


def test_openai_completions(r):
    text = oai(r).completions.create(model=MODEL, prompt=prompt(3), max_tokens=5).choices[0].text
    assert isinstance(text, str)
    chunks = list(oai(r).completions.create(model=MODEL, prompt=prompt(3), max_tokens=5, stream=True,
                                            stream_options={"include_usage": True}, extra_body={"ignore_eos": True}))
    assert len(chunks) >= 3 and chunks[-1].usage.completion_tokens == 5


def test_openai_responses(r):
    answer = oai(r).responses.create(model=MODEL, input=prompt(4), max_output_tokens=5)
    assert answer.status in ("completed", "incomplete") and answer.usage.input_tokens > 50
    events = list(oai(r).responses.create(model=MODEL, input=prompt(4), max_output_tokens=5, stream=True))
    kinds = [e.type for e in events]
    assert kinds[0] == "response.created" and "response.output_text.delta" in kinds
    assert kinds[-1] in ("response.completed", "response.incomplete")


def test_anthropic_messages(r):
    ask = dict(model=MODEL, max_tokens=6, system="s", messages=messages(5))
    raw = claude(r).messages.with_raw_response.create(**ask)
    answer = raw.parse()
    assert answer.content[0].type == "text" and answer.usage.output_tokens > 0
    again = claude(r).messages.with_raw_response.create(**ask)
    assert again.headers["x-kvsteer-backend"] == raw.headers["x-kvsteer-backend"]
    assert again.parse().usage.cache_read_input_tokens > 50


def test_anthropic_stream(r):
    kinds = []
    with claude(r).messages.stream(model=MODEL, max_tokens=8, messages=messages(6)) as stream:
        for event in stream:
            kinds.append(event.type)
        final = stream.get_final_message()
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert kinds.count("content_block_delta") >= 1 and final.stop_reason in ("max_tokens", "end_turn")


def test_errors_reach_the_sdks(r):
    """The engine's own 400, and the router's 404, each in the API's shape."""
    with pytest.raises(openai.BadRequestError) as e:
        oai(r).chat.completions.create(model=MODEL, messages=messages(7, 9000), max_tokens=4)
    assert "context size" in e.value.message
    with pytest.raises(openai.NotFoundError) as e:
        oai(r).chat.completions.create(model="none", messages=messages(7))
    assert e.value.code == "model_not_found"
    with pytest.raises(anthropic.NotFoundError):
        claude(r).messages.create(model="none", max_tokens=4, messages=messages(7))


def test_prefixes_stay_where_they_are(r):
    """Six prompts, asked twice: each stays on its node, and the engines find it there. A prompt that
    shares a tenth of a slot's takes that slot over, and all share the template's head: so long ones."""
    homes, cached, total = {}, 0, 0
    for turn in range(2):
        for n in range(20, 26):
            raw = oai(r).chat.completions.with_raw_response.create(model=MODEL, messages=messages(n, 120), max_tokens=2)
            homes.setdefault(n, set()).add(raw.headers["x-kvsteer-backend"])
            usage = raw.parse().usage
            if turn:
                cached += usage.prompt_tokens_details.cached_tokens
                total += usage.prompt_tokens
    assert all(len(h) == 1 for h in homes.values()), homes
    assert len(set.union(*homes.values())) >= 2, "the prompts are spread"
    assert cached / total > 0.9


# ---- what goes wrong ----

def post_stream(r, n, max_tokens=2000):
    """A stream over a bare connection, its head read: (connection, answer)."""
    c = http.client.HTTPConnection("127.0.0.1", r.port, timeout=60 * SLOW)
    c.request("POST", "/v1/chat/completions", json.dumps({
        "model": MODEL, "stream": True, "ignore_eos": True, "max_tokens": max_tokens, "messages": messages(n)}),
        {"Content-Type": "application/json"})
    return c, c.getresponse()


def test_abort_frees_engine_and_slot(fleet, r):
    """A client that leaves in mid-stream: nothing in flight here, nothing running there."""
    with oai(r).chat.completions.create(model=MODEL, messages=messages(40), max_tokens=4000, stream=True,
                                        extra_body={"ignore_eos": True}) as stream:
        for _, _ in zip(stream, range(3)):
            pass
        assert r.in_flight() == 1
    r.wait_in_flight(0, 2)
    idle(fleet)
    assert r.wait_access("reason=client_gone")


def test_abort_before_the_first_token(fleet, r):
    """A client that leaves while the prompt is computed. llama.cpp ends its batch first."""
    c = http.client.HTTPConnection("127.0.0.1", r.port, timeout=60 * SLOW)
    c.request("POST", "/v1/chat/completions", json.dumps({
        "model": MODEL, "stream": True, "max_tokens": 100, "messages": messages(41, 700)}),
        {"Content-Type": "application/json"})
    r.wait_in_flight(1)
    c.close()
    r.wait_in_flight(0, 2)
    idle(fleet)


def test_status_shows_the_engines_counters(fleet, r):
    """kvsteerctl's running and waiting are llama.cpp's own."""
    c, answer = post_stream(r, 42)
    backend = answer.getheader("x-kvsteer-backend")
    assert answer.status == 200 and answer.readline().startswith(b"data:")
    wait_until(lambda: r.backends()[backend]["running"] == 1, 10, "the stream in the engine's count", every=0.05)
    row = r.backends()[backend]
    assert row["waiting"] == 0 and row["in_flight"] == 1 and not row["stale"], row
    # More at this node than it has slots, past the router: they wait, and the router sees it.
    waiters = []
    for _ in range(ENGINE.slots):
        w = http.client.HTTPConnection("127.0.0.1", server_at(fleet, backend).port, timeout=60 * SLOW)
        w.request("POST", "/v1/chat/completions", json.dumps({
            "stream": True, "ignore_eos": True, "max_tokens": 2000, "messages": messages(43, 5)}),
            {"Content-Type": "application/json"})
        waiters.append(w)
    wait_until(lambda: (r.backends()[backend]["running"], r.backends()[backend]["waiting"]) == (ENGINE.slots, 1), 20,
               "%d running and 1 waiting" % ENGINE.slots, every=0.05)
    for w in (c, *waiters):
        w.sock.shutdown(socket.SHUT_RDWR)
        w.close()
    r.wait_in_flight(0, 2)
    wait_until(lambda: r.backends()[backend]["running"] == 0, 20, "the counts fall", every=0.05)
    idle(fleet)


def test_sigterm_in_mid_stream(fleet, r):
    """A server that is told to end during a stream: the client's answer is cut, without a last
    chunk, at once or when the silence has lasted for stream_idle; it never hangs and never ends well."""
    c, answer = post_stream(r, 44, max_tokens=4000)
    server = server_at(fleet, answer.getheader("x-kvsteer-backend"))
    for _ in range(5):
        assert answer.readline()
    began = time.monotonic()
    server.kill(signal.SIGTERM)
    with pytest.raises((http.client.IncompleteRead, ConnectionError)):
        while True:
            piece = answer.read1(65536)
            assert piece and b"[DONE]" not in piece, "a whole answer"
    assert time.monotonic() - began < (STREAM_IDLE_S + 3) * SLOW
    c.close()
    r.wait_in_flight(0, 2)
    # The next request is served by another, unseen.
    raw = oai(r).chat.completions.with_raw_response.create(model=MODEL, messages=messages(44), max_tokens=2)
    assert raw.headers["x-kvsteer-backend"] != "127.0.0.1:%d" % server.port
    server.stop()


def test_restart_under_load(fleet, r):
    """A node is killed and started again while clients go on: whoever was on it before the first
    token is served elsewhere, whoever had tokens already is cut, nobody else sees anything."""
    stop, lock = threading.Event(), threading.Lock()
    outcomes = []

    def client(i):
        n = 0
        while not stop.is_set():
            backend, tokens = None, 0
            try:
                c, answer = post_stream(r, 60 + (i + n) % 6, max_tokens=6)
                backend = answer.getheader("x-kvsteer-backend")
                body = b""
                while True:
                    piece = answer.read1(65536)
                    if not piece:
                        break
                    body += piece
                    tokens = body.count(b"data:")
                good = answer.status == 200 and body.endswith(b"data: [DONE]\n\n")
                detail = None if good else (answer.status, body[-200:])
            except (http.client.HTTPException, OSError) as e:
                good, detail = False, repr(e)
            finally:
                c.close()
            with lock:
                outcomes.append((good, backend, tokens, detail))
            n += 1

    def served():
        with lock:
            return [o for o in outcomes if o[0]]

    threads = [threading.Thread(target=client, args=(i,)) for i in range(4)]
    for t in threads:
        t.start()
    try:
        wait_until(lambda: len({o[1] for o in served()}) >= 2 and len(served()) >= 12, 60, "traffic", every=0.05)
        victim = server_at(fleet, served()[-1][1])
        name = "127.0.0.1:%d" % victim.port
        victim.kill(signal.SIGKILL)
        victim.child.wait()
        before = len(served())
        wait_until(lambda: len(served()) >= before + 12, 60, "the others carry on", every=0.05)
        victim.start().wait_ready()
        back = len(served())
        wait_until(lambda: any(o[1] == name for o in served()[back:]), 60, "the node is used again", every=0.05)
    finally:
        stop.set()
        for t in threads:
            t.join(60 * SLOW)
    failed = [o for o in outcomes if not o[0]]
    # Only answers that had begun on the node that died may be cut: at most one of each client.
    assert len(failed) <= len(threads) and all(o[1] == name and o[2] >= 1 for o in failed), failed
    r.check_idle()
    idle(fleet)
