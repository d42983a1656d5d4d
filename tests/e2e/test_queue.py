# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Waiting for a slot: in which order, who is told what, and that a freed slot always finds its waiter."""
import json
import time

import pytest

from harness import SLOW, best_of, chat_body, pool, wait_until
from peer import Client, Gate, json_answer


class Line:
    """A backend of one slot whose requests are answered one at a time, when the test says so; and the
    clients that wait for it."""

    def __init__(self, make_backend, make_router, **config):
        self.gates = {}
        self.backend = make_backend(self._answer)
        self.pool = dict(pool([self.backend.url], concurrency_threshold=1), **config.pop("pool", {}))
        self.router = make_router([self.pool], **config)
        self.clients = {}
        self.served = 0

    def _answer(self, peer, request):
        self.gates[self.name_of(request)].wait()
        peer.send(json_answer())

    @staticmethod
    def name_of(request):
        return json.loads(request.body)["messages"][0]["content"]

    def queued(self):
        return self.router.metrics().sum("kvsteer_queue_length")

    def ask(self, name, fields=(), source=None):
        """Sends a request and waits until it is with the backend or in the queue."""
        self.gates[name] = Gate()
        c = self.clients[name] = Client(self.router.port, source=source)
        c.post(chat_body(name), fields=fields)
        n = len(self.clients)
        if n == 1:
            self.backend.wait_request(1)
        else:
            wait_until(lambda: self.queued() == n - 1 - self.served, what="%s queued" % name)

    def serve(self):
        """Lets the request that is with the backend end, and the next come: the name of the one served."""
        name = self.name_of(self.backend.wait_request(self.served + 1))
        self.served += 1
        self.gates[name].open()
        assert self.clients[name].response().status == 200
        return name

    def serve_all(self):
        return [self.serve() for _ in range(len(self.clients) - self.served)]


def test_trusted_proxy_may_raise_priority(router, backend):
    """From trusted_proxies a positive priority counts; what is no number of -100..100 is none."""
    line = Line(backend, router, trusted_proxies=["127.0.0.0/8"])
    line.ask("holder")
    for name, value in (("plain", None), ("low", "-1"), ("high", "100"), ("higher than allowed", "101"), ("word", "10x"),
                        ("middle", "50"), ("lowest", "-100")):
        line.ask(name, ["x-kvsteer-priority: %s" % value] if value else [])
    assert line.serve_all() == ["holder", "high", "middle", "plain", "higher than allowed", "word", "low", "lowest"]


def test_only_trusted_addresses_may_raise_priority(router, backend):
    """One address is trusted, another is not: the same header, two effects."""
    line = Line(backend, router, trusted_proxies=["127.0.0.2/32"])
    line.ask("holder")
    line.ask("plain")
    line.ask("forged", ["x-kvsteer-priority: 90"], "127.0.0.3")
    line.ask("trusted", ["x-kvsteer-priority: 90"], "127.0.0.2")
    assert line.serve_all() == ["holder", "trusted", "plain", "forged"]


def test_fair_between_client_addresses(router, backend):
    """A client that queues ten requests does not keep one that queues two waiting behind all ten."""
    line = Line(backend, router)
    line.ask("holder", source="127.0.0.9")
    for i in range(10):
        line.ask("greedy %d" % i, source="127.0.0.2")
    for i in range(2):
        line.ask("modest %d" % i, source="127.0.0.3")
    order = line.serve_all()
    assert order.index("modest 0") <= 2 and order.index("modest 1") <= 4, order
    assert [n for n in order if "greedy" in n] == ["greedy %d" % i for i in range(10)]


def test_fair_between_clients_behind_a_trusted_proxy(router, backend):
    """All come from one proxy: the clients it names take turns, and what a client has put into the field itself
    makes it no other."""
    line = Line(backend, router, trusted_proxies=["127.0.0.2/32"])
    line.ask("holder", source="127.0.0.9")
    for i in range(6):
        line.ask("greedy %d" % i, ["X-Forwarded-For: 203.0.113.%d, 192.0.2.1" % i], "127.0.0.2")
    for i in range(2):
        line.ask("modest %d" % i, ["X-Forwarded-For: 192.0.2.2"], "127.0.0.2")
    order = line.serve_all()
    assert order.index("modest 0") <= 2 and order.index("modest 1") <= 4, order


def test_nobody_else_names_other_clients(router, backend):
    """The field of an address that is not trusted says nothing: it can't make a client many."""
    line = Line(backend, router, trusted_proxies=["127.0.0.2/32"])
    line.ask("holder", source="127.0.0.9")
    for i in range(6):
        line.ask("greedy %d" % i, ["X-Forwarded-For: 192.0.2.%d" % i], "127.0.0.3")
    line.ask("modest", source="127.0.0.4")
    assert line.serve_all().index("modest") <= 2


def test_slot_freed_on_one_worker_wakes_the_others(router, backend):
    """One slot, waiters on two workers: every hand-over is at once, also from worker to worker, not at
    the next timer."""
    line = Line(backend, router, workers=2)
    names = ["n%d" % i for i in range(16)]
    for name in names:
        line.ask(name)
    workers, took = [], []
    for _ in names:
        line.backend.wait_request(line.served + 1)
        flow, = [f for f in json.loads(line.router.ctl("-j", "flow", "list").stdout)["flows"] if f["state"] != "queued"]
        workers.append(flow["worker"])
        start = time.monotonic()
        line.serve()
        if line.served < len(names):
            line.backend.wait_request(line.served + 1)
            took.append(time.monotonic() - start)
    assert any(a != b for a, b in zip(workers, workers[1:])), workers
    assert sorted(took)[len(took) // 2] < 0.1 * SLOW, took


def test_raised_cap_wakes_those_who_wait(router, backend):
    """A reload that raises the threshold lets waiters go without any request having ended."""
    line = Line(backend, router)
    for name in ("a", "b", "c", "d"):
        line.ask(name)
    line.pool["concurrency_threshold"] = 3
    line.router.reload({"pools": [line.pool]})
    line.backend.wait_request(3, timeout=5)
    assert line.queued() == 1 and line.router.in_flight() == 3
    line.pool["concurrency_threshold"] = 1
    line.router.reload({"pools": [line.pool]})
    for name in ("a", "b"):
        line.gates[name].open()
        assert line.clients[name].response().status == 200
    assert line.queued() == 1 # three were under way, one is: still no room
    line.gates["c"].open()
    assert line.clients["c"].response().status == 200
    line.gates["d"].open()
    assert line.clients["d"].response().status == 200


def test_waiters_are_told_when_nobody_is_left(router, backend):
    """The only backend is drained: those who wait for it need not wait for the end of their time."""
    line = Line(backend, router)
    for name in ("a", "b", "c"):
        line.ask(name)
    line.router.ctl("backend", "drain", line.backend.name)
    line.gates["a"].open()
    assert line.clients["a"].response().status == 200
    for name in ("b", "c"):
        got = line.clients[name].response(timeout=5)
        assert got.status == 503 and json.loads(got.body)["error"]["code"] == "no_backend"
    assert line.queued() == 0


def test_another_node_serves_the_queue(router, backend):
    """A node that joins by reload takes those who wait."""
    line = Line(backend, router)
    for name in ("a", "b", "c"):
        line.ask(name)
    helper = backend()
    line.pool["backends"].append({"url": helper.url})
    line.router.reload({"pools": [line.pool]})
    for name in ("b", "c"):
        assert line.clients[name].response(timeout=5).get("x-kvsteer-backend") == helper.name
    line.gates["a"].open()
    assert line.clients["a"].response().get("x-kvsteer-backend") == line.backend.name


@pytest.mark.parametrize("path,shape", [("/v1/chat/completions", "openai"), ("/v1/messages", "anthropic")])
@pytest.mark.parametrize("limit,code", [(0, "queue_full"), (5, "queue_timeout")])
def test_429_in_the_api_shape(router, backend, path, shape, limit, code):
    """Without a queue at once, with one after its timeout: 429, Retry-After, the error in the API's shape,
    for streams too. The holder is not disturbed."""
    line = Line(backend, router, pool={"queue": {"max_requests": limit, "timeout": "200ms"}})
    line.ask("holder")
    for stream in (False, True):
        c = Client(line.router.port)
        c.post(chat_body("late", stream=stream), path)
        got = c.response()
        error = json.loads(got.body)["error"]
        assert got.status == 429 and 1 <= int(got.get("retry-after")) <= 600
        if shape == "openai":
            assert error["code"] == code
        else:
            assert json.loads(got.body)["type"] == "error" and error["type"] == "rate_limit_error"
    assert line.router.metrics().sum("kvsteer_errors_total", reason=code) == 2
    assert line.serve() == "holder"
    assert len(line.backend.requests) == 1


def test_waiter_that_gives_up_is_passed_over(router, backend):
    """The head of the line leaves: the slot goes to the next, none is lost, at any point of the hand-over."""
    line = Line(backend, router)
    line.ask("holder")
    for i in range(6):
        line.ask("w%d" % i)
    for i in (0, 2, 3):
        line.clients.pop("w%d" % i).rst()
    wait_until(lambda: line.queued() == 3, what="three left")
    assert [line.serve() for _ in range(4)] == ["holder", "w1", "w4", "w5"]


def test_clients_that_leave_as_their_turn_comes(router, backend):
    """The race: the slot is freed in the moment in which its next owner goes. Two hundred times, on two
    workers; in the end a plain request is served at once."""
    b = backend(lambda p, q: (time.sleep(0.001), p.send(json_answer())))
    r = router([pool([b.url], concurrency_threshold=1)], workers=2)
    for i in range(40):
        group = [Client(r.port) for _ in range(5)]
        for k, c in enumerate(group):
            c.post(chat_body("r%d c%d" % (i, k)))
        for k, c in enumerate(group):
            if (i + k) % 3:
                time.sleep(0.0005 * (i % 5))
                c.rst()
            else:
                assert c.response().status == 200
                c.close()
    wait_until(lambda: r.metrics().sum("kvsteer_queue_length") == 0, what="queue empty")

    def one():
        c = Client(r.port)
        start = time.monotonic()
        c.post(chat_body("last"))
        assert c.response().status == 200
        return time.monotonic() - start

    best_of(3, one, 0.3, "a request of an idle pool")
