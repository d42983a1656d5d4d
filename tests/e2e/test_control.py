# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The running daemon from the operator's side: kvsteerctl, admin servers, signals, reload."""
import json
import os
import re
import signal
import time

import pytest

from harness import SLOW, chat_body, fetch, pool, ports, wait_until
from peer import Client, Gate, json_answer

LISTS = {"status": "pools", "pool list": "pools", "backend list": "backends", "flow list": "flows", "prefix top": "prefixes",
         "doctor": "checks"}


def ask(r, text="hello", **more):
    c = Client(r.port)
    c.post(chat_body(text, **more))
    got = c.response()
    c.close()
    return got


@pytest.fixture
def gated(backend):
    """A backend that answers when the gate opens."""
    gate = Gate()

    def answer(p, r):
        gate.wait()
        p.send(json_answer())
    b = backend(answer)
    b.gate = gate
    yield b
    gate.open()


def test_every_list_as_table_and_json(router, backend):
    """-j prints JSON on every command; without it there is a table with a head."""
    r = router([pool([backend().url], models=["m"])])
    assert ask(r).status == 200
    for command, key in LISTS.items():
        shown = json.loads(r.ctl("-j", *command.split(), check=command != "doctor").stdout)
        assert isinstance(shown[key], list), command
        table = r.ctl(*command.split(), check=command != "doctor").stdout
        assert table.strip() and not table.lstrip().startswith("{"), command


def test_status_shape(router, backend, gated):
    """The keys that tools rely on; a request under way shows in the row, the ledger and the flow list."""
    r = router([pool([{"url": gated.url, "name": "g", "concurrency_threshold": 7}], name="one", models=["m"]),
                pool([backend().url], name="two", models=["other"], policy="round-robin")])
    c = Client(r.port)
    c.post(chat_body())
    gated.wait_request()
    # gauges of connections are brought up to date a few times a second
    wait_until(lambda: r.status()["connections"] == {"client": 1, "upstream": 1}, 5, "connections counted")
    s = r.status()
    for key in ("version", "router_pid", "supervisor_pid", "uptime_s", "datapath", "flows", "connections", "queued", "pools"):
        assert key in s
    assert s["router_pid"] == r.pid and s["datapath"]["mode"] in ("splice", "relay") and s["datapath"]["reason"]
    assert [(p["name"], p["policy"]) for p in s["pools"]] == [("one", "cost"), ("two", "round_robin")]
    b = s["pools"][0]["backends"][0]
    for key in ("name", "address", "state", "cap", "in_flight", "waiting", "running", "kv_used", "stale", "hit_predicted",
                "hit_reported", "speed"):
        assert key in b
    assert (b["name"], b["state"], b["cap"], b["in_flight"]) == ("g", "ready", 7, 1)
    assert s["ledger"] == {"live_slots": 1, "in_flight": 1, "refused_releases": 0}
    flows = json.loads(r.ctl("-j", "flow", "list").stdout)["flows"]
    assert [(f["pool"], f["backend"], f["state"]) for f in flows] == [("one", "g", "relay")]
    assert 0 <= flows[0]["age_s"] < 60
    gated.gate.open()
    assert c.response().status == 200
    wait_until(lambda: json.loads(r.ctl("-j", "flow", "list").stdout)["flows"] == [], 5, "no flows")


def test_drain_and_undrain(router, backend):
    """A drained backend gets no new request, keeps its mark over a reload, and comes back."""
    a, b = backend(), backend()
    cfg = {"pools": [pool([{"url": a.url, "name": "a"}, {"url": b.url, "name": "b"}], policy="round_robin")]}
    r = router(cfg["pools"])
    r.ctl("backend", "drain", "a")
    for i in range(4):
        assert ask(r, "x%d" % i).get("x-kvsteer-backend") == "b"
    r.reload(cfg)
    assert r.backends()["a"]["state"] == "draining"
    assert ask(r).get("x-kvsteer-backend") == "b"
    r.ctl("backend", "undrain", "a")
    assert {ask(r, "y%d" % i).get("x-kvsteer-backend") for i in range(4)} == {"a", "b"}
    failed = r.ctl("-j", "backend", "drain", "no such", check=False)
    assert failed.returncode == 1 and json.loads(failed.stdout)["error"]["code"] == "not_found"


def test_explain_has_no_side_effects(router, sim, tmp_path):
    """Asked twice it answers the same, and no counter moves; it names the node that the request then takes."""
    s = sim(nodes=3)
    r = router([pool(s.urls(), models=["m"])])
    body = tmp_path / "body.json"
    body.write_bytes(chat_body("explain me " * 200))
    before = [m for m in r.metrics().series if m[0] in ("kvsteer_index_blocks", "kvsteer_prompt_tokens_total", "kvsteer_requests_total")]
    one, two = (json.loads(r.ctl("-j", "route", "explain", str(body)).stdout) for _ in range(2))
    assert [b["chosen"] for b in one["backends"]] == [b["chosen"] for b in two["backends"]]
    assert one["pool"] == "p" and one["policy"] == "cost" and one["tokens"] > 300 and one["blocks"] > 5
    for key in ("name", "eligible", "why", "match_tokens", "wait_ms", "prefill_ms", "ttft_ms", "congestion_ms", "decode_ms",
                "adapter_ms", "cost_ms", "chosen"):
        assert all(key in b for b in one["backends"])
    chosen = [b["name"] for b in one["backends"] if b["chosen"]]
    assert len(chosen) == 1
    assert before == [m for m in r.metrics().series if m[0] in ("kvsteer_index_blocks", "kvsteer_prompt_tokens_total",
                                                                "kvsteer_requests_total")]
    c = Client(r.port)
    c.post(body.read_bytes())
    assert c.response().get("x-kvsteer-backend") == chosen[0]
    c.close()
    after = json.loads(r.ctl("-j", "route", "explain", str(body)).stdout)["backends"]
    assert [b["name"] for b in after if b["match_tokens"] > 300] == chosen
    body.write_bytes(chat_body(model="unknown"))
    failed = r.ctl("-j", "route", "explain", str(body), check=False)
    assert failed.returncode == 1 and json.loads(failed.stdout)["error"]["code"] == "model_not_found"


def test_explain_hears_hint_and_session(router, backend, tmp_path):
    """A header that decides where a request goes decides the same in its explanation."""
    nodes = [backend() for _ in range(5)]
    r = router([pool([n.url for n in nodes], models=["m"], policy="session", session={"headers": ["x-tenant"]}),
                dict(pool([n.url for n in nodes], models=["pa"], policy="prefix_aware"), name="pa")])
    body = tmp_path / "body.json"

    def explained(*headers):
        options = [o for h in headers for o in ("--header", h)]
        doc = json.loads(r.ctl("-j", "route", "explain", str(body), *options).stdout)
        return [b["name"] for b in doc["backends"] if b["chosen"]][0]

    def served(*headers):
        c = Client(r.port)
        c.post(body.read_bytes(), fields=headers)
        name = c.response().get("x-kvsteer-backend")
        c.close()
        return name

    for model, field in (("m", "X-Tenant"), ("m", "x-session-id"), ("pa", "X-Amzn-SageMaker-Prefix-Aware-Id")):
        body.write_bytes(chat_body("the same for all", model=model))
        where = [explained("%s: %d" % (field, i)) for i in range(12)]
        assert where == [served("%s: %d" % (field, i)) for i in range(12)], field
        assert len(set(where)) > 2, (field, where)
    # the configured one comes first
    assert explained("x-session-id: 1", "x-tenant: 5") == explained("x-tenant: 5")
    for wrong in ("no colon", "x-empty:", ": x", "Content-Length: 3", "a b: c"):
        failed = r.ctl("-j", "route", "explain", str(body), "--header", wrong, check=False)
        assert failed.returncode == 2 and wrong in json.loads(failed.stdout)["error"]["message"]
    assert r.ctl("status", "--header", "x-tenant: 1", check=False).returncode == 2


def test_explain_body_limit(router, backend, tmp_path):
    """The admin socket keeps no more of a body than the gateway would."""
    r = router([backend().url], limits={"scan": "64KiB"})
    body = tmp_path / "body.json"
    body.write_bytes(chat_body("x" * 70000))
    failed = r.ctl("-j", "route", "explain", str(body), check=False)
    assert failed.returncode == 1 and json.loads(failed.stdout)["error"]["code"] == "body_too_large"
    body.write_bytes(chat_body("x" * 60000))
    r.ctl("route", "explain", str(body))


def test_broken_reload_keeps_the_old(router, backend):
    """A file with a fault: kvsteerctl and the log say where, the old configuration goes on; then a good one takes over."""
    a, b = backend(), backend()
    r = router([pool([{"url": a.url, "name": "a"}])])
    with open(r.config_path, "a") as f:
        f.write("workers: lots\n")
    failed = r.ctl("-j", "reload", check=False)
    message = json.loads(failed.stdout)["error"]["message"]
    assert failed.returncode == 1 and re.search(r'\.yaml:\d+:10: workers: "lots": not a whole number', message), message
    doctor = json.loads(r.ctl("-j", "doctor", check=False).stdout)["checks"]
    assert [c["result"] for c in doctor if c["check"] == "configuration"] == ["fail"]
    assert ask(r).get("x-kvsteer-backend") == "a"
    r.popen.send_signal(signal.SIGHUP)
    wait_until(lambda: r.stderr().count("event=reload_failed") == 2, 5, "the log says why")
    assert ask(r).get("x-kvsteer-backend") == "a"
    r.write_config({"pools": [pool([{"url": b.url, "name": "b"}])]})
    r.popen.send_signal(signal.SIGHUP)
    wait_until(lambda: "event=reloaded" in r.stderr(), 5, "reloaded")
    assert ask(r).get("x-kvsteer-backend") == "b"


def test_second_signal_ends_at_once(router, gated):
    """SIGTERM waits for the request under way; a second one does not, and says so by exit code 1."""
    r = router([gated.url])
    c = Client(r.port)
    c.post(chat_body())
    gated.wait_request()
    r.terminate()
    wait_until(lambda: "event=drain" in r.stderr(), 5, "draining")
    assert fetch(r.admin_port, "/readyz")[:2] == (503, b"draining\n")
    assert r.alive()
    begin = time.monotonic()
    r.terminate()
    assert r.wait(5) == 1
    assert time.monotonic() - begin < 3 * SLOW
    r.stopped = True


def test_tcp_server_reads_only(router, backend):
    """What changes or tells of requests is on the Unix socket alone."""
    r = router([backend().url])
    assert fetch(r.admin_port, "/healthz")[:2] == (200, b"ok\n")
    assert fetch(r.admin_port, "/readyz")[:2] == (200, b"ready\n")
    for path in ("/reload", "/backend/drain?name=x", "/metrics"):
        assert fetch(r.admin_port, path, "POST", body=b"x" * 100000)[0] == 405
    for path in ("/status", "/flow/list", "/reload", "/nonsense", "/metrics/"):
        assert fetch(r.admin_port, path)[0] == 404
    status, body, headers = fetch(r.admin_port, "/metrics", "HEAD")
    assert status == 200 and body == b"" and headers["content-type"].startswith("text/plain; version=0.0.4")


def test_page(router, backend):
    """Self-contained: no script, nothing from elsewhere; it names pools and backends."""
    r = router([pool([{"url": backend().url, "name": "node-1"}], name="llama")])
    status, body, headers = fetch(r.admin_port, "/")
    text = body.decode()
    assert status == 200 and headers["content-type"] == "text/html; charset=utf-8"
    assert "default-src 'none'" in headers["content-security-policy"]
    assert "node-1" in text and "llama" in text and "http-equiv=refresh" in text
    assert "<script" not in text and "src=" not in text and "href=" not in text and "url(" not in text


METRICS = """kvsteer_requests_total kvsteer_errors_total kvsteer_ttft_seconds kvsteer_decision_seconds
    kvsteer_added_latency_seconds kvsteer_in_flight kvsteer_backend_cap kvsteer_backend_state kvsteer_queue_length
    kvsteer_queue_seconds kvsteer_prompt_tokens_total kvsteer_cached_tokens_predicted_total
    kvsteer_cached_tokens_reported_total kvsteer_usage_sampled_total kvsteer_cached_tokens_predicted_sampled_total
    kvsteer_retries_total kvsteer_index_blocks kvsteer_flows kvsteer_datapath_fallback_total kvsteer_pool_saturation
    kvsteer_splice_up kvsteer_splice_answers_total kvsteer_splice_ended_total kvsteer_splice_takeovers_total
    kvsteer_splice_lost_events_total kvsteer_splice_sweep_rescued_total
    kvsteer_scrape_samples_total kvsteer_scrape_errors_total kvsteer_scrape_seconds kvsteer_build_info""".split()


def test_metrics(router, sim):
    """Every family with HELP and TYPE, each sample once, families in one piece; and the counts are right."""
    s = sim(nodes=2)
    r = router([pool(s.urls(), models=["m"])])
    for i in range(5):
        c = Client(r.port)
        c.post(chat_body("prompt %d" % i, stream=True))
        assert c.response().status == 200
        c.close()
    assert ask(r, model="unknown").status == 404
    wait_until(lambda: r.metrics().sum("kvsteer_requests_total", code="200") == 5, 5, "counted")
    m = r.metrics()
    families = re.findall(r"^# TYPE (\S+) (\S+)$", m.text, re.M)
    assert len(families) == len(dict(families))
    assert set(METRICS) <= set(dict(families))
    assert [f for f, _ in families] == re.findall(r"^# HELP (\S+) \S", m.text, re.M)
    seen = set()
    current = None
    for line in m.text.splitlines():
        if line.startswith("# TYPE"):
            current = line.split()[2]
        if not line.startswith("#"):
            key = line.rsplit(" ", 1)[0]
            assert key not in seen and re.match(r"%s(_bucket|_sum|_count)?[{ ]" % current, line), line
            seen.add(key)
    assert m.sum("kvsteer_requests_total", pool="", backend="", code="404") == 1
    assert m.sum("kvsteer_errors_total", reason="model_not_found") == 1
    assert m.sum("kvsteer_ttft_seconds_count", pool="p") == 5
    assert m.sum("kvsteer_ttft_seconds_bucket", le="+Inf") == 5
    assert m.sum("kvsteer_decision_seconds_count") == 5
    assert m.sum("kvsteer_prompt_tokens_total") > 0
    for name in {b["name"] for b in r.backends().values()}:
        assert m.sum("kvsteer_backend_state", backend=name) == 1
        assert m.sum("kvsteer_backend_cap", backend=name) == 256


def test_scrape_metrics(router, sim):
    """Reads of the backends' own counters: those that gave figures, those that did not and why, their time."""
    s = sim(nodes=1)
    r = router([pool(s.urls() + ["http://127.0.0.1:%d" % ports.get()], models=["m"], scrape={"interval": "250ms"})])
    wait_until(lambda: r.metrics().sum("kvsteer_scrape_samples_total") >= 2, 10, "two samples")
    wait_until(lambda: r.metrics().sum("kvsteer_scrape_errors_total") >= 1, 10, "an error")
    m = r.metrics()
    assert {reason: m.sum("kvsteer_scrape_errors_total", reason=reason) > 0
            for reason in ("refused", "timeout", "status", "unparsable")} == \
        {"refused": True, "timeout": False, "status": False, "unparsable": False}, m.text
    assert m.sum("kvsteer_scrape_seconds_count") == \
        m.sum("kvsteer_scrape_samples_total") + m.sum("kvsteer_scrape_errors_total")
    assert 0 < m.sum("kvsteer_scrape_seconds_sum") < 10


def test_prefix_top(router, sim):
    """The hottest prefix comes first with its share and the nodes that hold it; never its text."""
    s = sim(nodes=2)
    r = router([pool(s.urls(), models=["m"])])
    for i in range(12):
        text = ("secret-words " * 60 if i % 4 else "other %d " % i * 60) + str(i)
        c = Client(r.port)
        c.post(chat_body(text))
        assert c.response().status == 200
        c.close()
    out = r.ctl("-j", "prefix", "top").stdout
    rows = json.loads(out)["prefixes"]
    assert rows and "secret" not in out
    assert rows[0]["share"] == max(row["share"] for row in rows) and 0.6 < rows[0]["share"] < 0.9
    assert rows[0]["pool"] == "p" and rows[0]["nodes"] >= 1 and rows[0]["blocks"] >= 1
    assert re.fullmatch("[0-9a-f]{16}", rows[0]["hash"])


def test_unwritable_socket_warns_and_goes_on(router, backend):
    """A directory that cannot be made must not keep the router from serving."""
    r = router([backend().url], admin={"socket": "/proc/none/such/admin.sock"})
    assert "event=admin_socket" in r.stderr() and "/proc/none/such" in r.stderr()
    assert ask(r).status == 200
    # what the fixture looks at in the end needs the socket
    r.terminate()
    assert r.wait(10) == 0
    r.stopped = True


def test_socket_file(router, backend):
    """Owner and group only, and gone after the end."""
    r = router([backend().url])
    assert os.stat(r.socket).st_mode & 0o7777 == 0o660
    r.terminate()
    assert r.wait(10) == 0
    assert not os.path.exists(r.socket)
    r.stopped = True


def test_process_title(router, backend):
    """ps tells the router from other processes of kvsteer; the environment outlives the longer title."""
    r = router([backend().url])
    with open("/proc/%d/cmdline" % r.pid, "rb") as f:
        assert f.read().rstrip(b"\0") == b"kvsteerd: router"
    with open("/proc/%d/comm" % r.pid) as f:
        assert f.read() == "kvsteerd-router\n"
