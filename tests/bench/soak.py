#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Does the accounting stay true? Two gateways under everything that goes wrong in a fleet: clients that abort,
reset, stall and half-close; backends that hang, die, refuse, stall, answer garbage or are busy; reloads, drains
and cap changes all the while.

Several times a second it checks that
  - each backend's in-flight is the number of its live slots (counted by the gateway with the pool at rest),
    no slot was released twice, no cap is exceeded;
  - the gateway that keeps no idle connections has one socket for each request in flight and no other (its
    descriptors and the kernel's sock_diag against its flow list), but for moments below 100 ms;
and in the end that nothing is in flight or queued, no socket and no descriptor is left, and memory did not grow.

Exits 1 where one of these does not hold.

usage: soak.py [--seconds T] [--port P] [--clients N] [--seed N]
"""
import argparse
import asyncio
import collections
import json
import os
import random
import socket
import struct
import sys
import tempfile
import threading
import time

import fleet
from soak_peers import KINDS, Peers

SAMPLE_S = 0.1
VANISH_S = 0.1
STARVED_S = 5  # a busy machine may not let a worker run for so long
OLDEST_S = 20 # no request of the soak lasts so long
NODES = 4
CAP = 6


# ---- the kernel's own account ----

def tcp_sockets():
    """(inode as text, remote port) of every TCP socket over IPv4 that a descriptor may have, by sock_diag(7)."""
    states = 0xfff & ~(1 << 6 | 1 << 10) # neither TIME_WAIT nor LISTEN
    ask = struct.pack("=BBxxI48x", socket.AF_INET, socket.IPPROTO_TCP, states)
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 4) as s: # NETLINK_SOCK_DIAG
        s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
        s.send(struct.pack("=IHHII", 16 + len(ask), 20, 0x301, 1, 0) + ask) # SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP
        while True:
            data = s.recv(1 << 16)
            while data:
                length, kind = struct.unpack_from("=IH", data)
                if kind == 3: # NLMSG_DONE
                    return
                if kind == 2: # NLMSG_ERROR
                    raise OSError("sock_diag: error %d" % -struct.unpack_from("=i", data, 16)[0])
                port, = struct.unpack_from("!H", data, 16 + 6)
                inode, = struct.unpack_from("=I", data, 16 + 68)
                yield str(inode), port
                data = data[(length + 3) & ~3:]


# ---- the gateway under test ----

class Gateway:
    """One kvsteerd and what can be seen of it from outside."""

    def __init__(self, work, name, port, backends, reuse):
        self.name, self.port, self.backends, self.reuse = name, port, backends, reuse
        self.socket = os.path.join(work, name + ".sock")
        self.config = os.path.join(work, name + ".yaml")
        self.log = os.path.join(work, name + ".log")
        self.cap, self.without, self.policy = CAP, None, "cost"
        self.write()
        self.process = fleet.Process([fleet.binary("kvsteerd"), "-c", self.config], self.log, ready="event=started")
        self.pid = self.process.child.pid

    def write(self):
        doc = {
            "listeners": [{"address": "127.0.0.1:%d" % self.port}],
            "admin": {"address": "127.0.0.1:%d" % (self.port + 1), "socket": self.socket},
            "log": {"access": "off"},
            "workers": 2,
            "trusted_proxies": ["127.0.0.0/8"],
            "limits": {"scan": "64KiB", "client_buffer": "64KiB"},
            "timeouts": {"connect": "300ms", "head": "2s", "head_hold": "300ms", "first_token": "1500ms", "stream_idle": "700ms",
                         "keepalive": "5s", "upstream_idle": "1s" if self.reuse else 0, "drain": "5s"},
            "pools": [{
                "name": "soak", "models": [fleet.MODEL], "policy": self.policy, "concurrency_threshold": self.cap,
                "queue": {"max_requests": 20, "timeout": "1s"},
                # one connection a backend at most is the reader's of its counters
                "scrape": {"interval": "500ms" if self.reuse else "1h", "stale": "5s" if self.reuse else "2h"},
                "backends": [{"url": "http://127.0.0.1:%d" % p, "name": "b%d" % p} for p in self.backends if p != self.without],
            }],
        }
        with open(self.config + ".new", "w", encoding="utf-8") as f:
            json.dump(doc, f) # JSON is YAML
        os.rename(self.config + ".new", self.config)

    def admin(self, method, path):
        """(status, JSON) from the admin socket."""
        with socket.socket(socket.AF_UNIX) as s:
            s.settimeout(10)
            s.connect(self.socket)
            s.sendall(b"%s %s HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: 0\r\n\r\n" % (method.encode(), path.encode()))
            data = b""
            while True:
                part = s.recv(65536)
                if not part:
                    break
                data += part
        head, _, body = data.partition(b"\r\n\r\n")
        return int(head.split()[1]), json.loads(body)

    def sockets(self):
        """Open sockets of the process by the port that they lead to: {port: set of inodes}."""
        inodes = set()
        base = "/proc/%d/fd" % self.pid
        for fd in os.listdir(base):
            try:
                target = os.readlink(os.path.join(base, fd))
            except OSError:
                continue
            if target.startswith("socket:["):
                inodes.add(target[8:-1])
        found = collections.defaultdict(set)
        for inode, port in tcp_sockets():
            if inode in inodes:
                found[port].add(inode)
        return found

    def threads(self):
        """{thread: (waits for a CPU, time slices it has had)}"""
        found = {}
        for t in os.listdir("/proc/%d/task" % self.pid):
            try:
                with open("/proc/%d/task/%s/stat" % (self.pid, t), encoding="ascii") as f:
                    state = f.read().rpartition(") ")[2][0]
                with open("/proc/%d/task/%s/schedstat" % (self.pid, t), encoding="ascii") as f:
                    found[t] = state == "R", int(f.read().split()[2])
            except OSError:
                pass # has ended
        return found

    def descriptors(self):
        return len(os.listdir("/proc/%d/fd" % self.pid))

    def rss(self):
        with open("/proc/%d/statm" % self.pid, encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# ---- clients ----

def reset(writer):
    sock = writer.get_extra_info("socket")
    if sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def request(rnd, stream):
    words = rnd.choice((20, 200, 2000, 20000)) if rnd.random() < .2 else 60
    body = json.dumps({"model": fleet.MODEL, "stream": stream, "max_tokens": rnd.choice((1, 10, 60)),
                       "messages": [{"role": "user", "content": "prefix %d " % rnd.randrange(20) * words}]}).encode()
    lines = ["POST /v1/chat/completions HTTP/1.1", "Host: soak", "Content-Type: application/json"]
    if rnd.random() < .1:
        lines.append("x-kvsteer-priority: %d" % rnd.randrange(-100, 101))
    if rnd.random() < .1:
        lines.append("Transfer-Encoding: chunked")
        cuts = sorted(rnd.randrange(1, len(body)) for _ in range(3))
        parts = [body[a:b] for a, b in zip([0] + cuts, cuts + [len(body)]) if a != b]
        body = b"".join(b"%x\r\n%s\r\n" % (len(p), p) for p in parts) + b"0\r\n\r\n"
    else:
        lines.append("Content-Length: %d" % len(body))
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


async def answer(reader):
    """Reads one answer: its status, or "cut"."""
    head = await reader.readuntil(b"\r\n\r\n")
    status = int(head.split()[1])
    fields = head.lower()
    if b"transfer-encoding: chunked" in fields:
        while True:
            size = int(await reader.readline(), 16)
            await reader.readexactly(size + 2)
            if not size:
                break
    else:
        at = fields.index(b"content-length:")
        await reader.readexactly(int(fields[at:].split(b"\r\n", 1)[0].split(b":")[1]))
    return status, b"connection: close" in fields


async def one_client(gateway, rnd, stop, seen):
    how_to_leave = ("rst", "close", "fin", "rst")
    while not stop.is_set():
        try:
            source = ("127.0.0.%d" % rnd.randrange(1, 6), 0)
            reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, local_addr=source, limit=1 << 20)
        except OSError:
            seen["connect failed"] += 1
            await asyncio.sleep(.05)
            continue
        try:
            for _ in range(rnd.randrange(1, 6)):
                act = rnd.random()
                data = request(rnd, rnd.random() < .7)
                if act < .5:                                  # a plain request
                    writer.write(data)
                    status, closing = await asyncio.wait_for(answer(reader), 30)
                    seen[status] += 1
                    if closing:
                        break
                    continue
                if act < .6:                                  # leaves in the middle of its request
                    writer.write(data[:rnd.randrange(1, len(data))])
                elif act < .65:                               # two at once, and leaves
                    writer.write(data + data)
                else:                                         # leaves at some point of the answer
                    writer.write(data)
                await asyncio.sleep(rnd.choice((0, .001, .01, .1, .5)) * rnd.random())
                if rnd.random() < .3:
                    await asyncio.wait_for(reader.read(rnd.choice((1, 100, 5000))), 30)
                leave = rnd.choice(how_to_leave)
                seen["left by " + leave] += 1
                if leave == "rst":
                    reset(writer)
                elif leave == "fin":
                    writer.write_eof()
                    await asyncio.wait_for(reader.read(), 30)
                break
        except (OSError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            seen["cut"] += 1
        except asyncio.TimeoutError:
            seen["NO ANSWER WITHIN 30 s"] += 1
        finally:
            writer.close()


def run_clients(gateways, n, seed, stop, seen):
    async def everyone():
        await asyncio.gather(*(one_client(g, random.Random("%d %s %d" % (seed, g.name, i)), stop, seen)
                               for g in gateways for i in range(n)))
    asyncio.run(everyone())


# ---- operations ----

def run_operator(gateways, seed, stop, done, violations):
    rnd = random.Random(seed)
    while not stop.wait(rnd.uniform(.1, .6)):
        g = rnd.choice(gateways)
        act = rnd.random()
        try:
            if act < .6:
                g.cap = rnd.choice((1, 3, CAP))
                g.policy = rnd.choice(("cost", "cost", "round_robin", "least_request", "prefix_aware", "session", "weighted"))
                g.without = rnd.choice([None] + list(g.backends))
                g.write()
                status, doc = g.admin("POST", "/reload")
                done["reloads"] += 1
                if status != 200:
                    violations.append("%s: reload: %d %s" % (g.name, status, doc))
            else:
                name = "b%d" % rnd.choice(g.backends)
                g.admin("POST", "/backend/drain?name=" + name)
                stop.wait(rnd.uniform(0, .3))
                g.admin("POST", "/backend/undrain?name=" + name)
                done["drains"] += 1
        except OSError as e:
            violations.append("%s: admin socket: %s" % (g.name, e))


# ---- checks ----

class Checker:
    def __init__(self, gateways, violations):
        self.gateways, self.violations = gateways, violations
        self.samples, self.most, self.slots_seen = 0, 0, 0
        self.exact, self.windows, self.longest, self.since = 0, 0, 0, {}

    def note(self, text):
        self.violations.append("%.1f s: %s" % (time.monotonic() - self.begin, text))

    def ledger(self, g):
        row, = [c for c in g.admin("GET", "/doctor")[1]["checks"] if c["check"] == "ledger"]
        if row["result"] != "ok":
            self.note("%s: ledger: %s" % (g.name, row["detail"]))
        status = g.admin("GET", "/status")[1]
        flying = {b["name"]: b["in_flight"] for b in status["pools"][0]["backends"]}
        self.most = max(self.most, status["ledger"]["live_slots"])
        self.slots_seen += status["ledger"]["live_slots"]
        for name, n in flying.items():
            if n > CAP:
                self.note("%s: %s has %d in flight, cap %d" % (g.name, name, n, CAP))
        return status, flying

    def look(self, g):
        """Requests and sockets of each port: {port: set of slots}, {port: set of sockets}."""
        flows = collections.defaultdict(set)
        for f in g.admin("GET", "/flow/list")[1]["flows"]:
            if f["state"] != "queued" and f["backend"]:
                flows[int(f["backend"][1:])].add((f["slot"], f["generation"]))
        return flows, g.sockets()

    def sockets(self, g):
        """Each port must have one socket for each request, and one more at most, of the reader of its counters.
        The two looks are at different moments: it is enough that a port is right once. Where it never is, what
        was there in every look is compared with what was there in any: a difference beyond that is none of timing.
        A worker that has waited for a CPU all the while may be between the two: it is given its turn first."""
        start = time.monotonic()
        began = g.threads()
        looks, wrong, took, starved = [], set(g.backends), 0, False
        while wrong and (took < VANISH_S or (starved and took < STARVED_S)):
            starved = any(waits and slices == began.get(t, (0, 0))[1] for t, (waits, slices) in g.threads().items())
            looks.append(self.look(g))
            took = time.monotonic() - start
            flows, have = looks[-1]
            wrong = {p for p in wrong if len(have[p]) - len(flows[p]) not in (0, 1)}
        self.longest = max(self.longest, took)
        self.exact += not wrong
        for p in wrong:
            flows, have = [f[p] for f, _ in looks], [s[p] for _, s in looks]
            lost = len(set.intersection(*flows)) - len(set.union(*have))
            leaked = len(set.intersection(*have)) - len(set.union(*flows)) - 1
            if len(looks) > 1 and (lost > 0 or leaked > 0):
                self.note("%s: port %d for %.0f ms: %d requests without a socket, %d sockets without a request"
                          % (g.name, p, took * 1e3, max(0, lost), max(0, leaked)))
        now = time.monotonic()
        alive = set().union(*(looks[-1][1][p] for p in g.backends))
        self.since = {i: self.since.get(i, now) for i in alive}
        for p in g.backends:
            old = [i for i in looks[-1][1][p] if now - self.since[i] > OLDEST_S]
            if len(old) > 1:
                self.note("%s: port %d: sockets %s are older than any request can be" % (g.name, p, old))

    def run(self, stop, begin):
        self.begin = begin
        due = begin
        while not stop.is_set():
            for g in self.gateways:
                if g.process.child.poll() is not None:
                    self.note("%s ended with %r" % (g.name, g.process.child.returncode))
                    stop.set()
                    return
                self.ledger(g)
                if not g.reuse:
                    self.windows += 1
                    self.sockets(g)
                self.samples += 1
            due += SAMPLE_S
            stop.wait(max(0, due - time.monotonic()))

    def at_rest(self, g, timeout=8):
        """Nobody asks any more: everything must be gone."""
        end = time.monotonic() + timeout
        while True:
            status, flying = self.ledger(g)
            have = g.sockets()
            left = [what for what, wrong in (
                ("in flight %s" % flying, any(flying.values())), ("ledger %s" % status["ledger"], status["ledger"]["live_slots"]),
                ("queued %d" % status["queued"], status["queued"]), ("relayed %s" % status["flows"], status["flows"]["relay"]),
                ("clients %d" % status["connections"]["client"], status["connections"]["client"]),
                ("sockets %s" % dict(have), any(len(have[p]) > 1 for p in g.backends))) if wrong]
            if not left:
                return
            if time.monotonic() > end:
                self.note("%s at rest: %s" % (g.name, "; ".join(left)))
                return
            time.sleep(.05)


def faults(seconds, rnd):
    """--fault flags: one node or another has something for a second or three, all the time."""
    kinds = ["refuse", "hang", "reset", "5xx", "byte", "busy", "busy-stream", "loading", "stall", "restart"]
    n = min(60, max(4, int(seconds / 2)))
    for i in range(n):
        yield "--fault"
        yield "%d:%s@%.1f+%.1f" % (rnd.randrange(NODES), kinds[i % len(kinds)], 1 + i * seconds / n, rnd.uniform(.5, 3))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--seconds", type=float, default=600)
    ap.add_argument("--port", type=int, default=18500, help="first of 60 ports (default 18500)")
    ap.add_argument("--clients", type=int, default=40, help="of each gateway (default 40)")
    ap.add_argument("--seed", type=int, default=1)
    args = ap.parse_args()
    rnd = random.Random(args.seed)
    seen, done, violations = collections.Counter(), collections.Counter(), []
    stop = threading.Event()
    with tempfile.TemporaryDirectory(prefix="kvsoak") as work, Peers(args.port + 30, args.seed) as peers, \
            fleet.simulator(work, args.port + 20, NODES, "--time-scale", "10", "--max-queued", "12", *faults(args.seconds, rnd)):
        backends = [args.port + 20 + i for i in range(NODES)] + peers.ports
        gateways = []
        try:
            gateways = [Gateway(work, "no-reuse", args.port, backends, False), Gateway(work, "reuse", args.port + 2, backends, True)]
            checker = Checker(gateways, violations)
            begin = time.monotonic()
            threads = [threading.Thread(target=run_clients, args=(gateways, args.clients, args.seed, stop, seen)),
                       threading.Thread(target=run_operator, args=(gateways, args.seed, stop, done, violations)),
                       threading.Thread(target=checker.run, args=(stop, begin))]
            for t in threads:
                t.start()
            # what a long run may not need more of than a short one
            stop.wait(args.seconds * .3)
            early = {g.name: g.rss() for g in gateways if g.process.child.poll() is None}
            stop.wait(max(0, begin + args.seconds - time.monotonic()))
            stop.set()
            for t in threads:
                t.join(60)
                if t.is_alive():
                    violations.append("a thread of the test hangs")
            for g in gateways:
                if g.process.child.poll() is not None:
                    continue
                g.cap, g.without = CAP, None
                checker.at_rest(g)
                grown = g.rss() - early[g.name]
                if grown > max(8 << 20, early[g.name] // 2):
                    violations.append("%s: grew by %d KiB" % (g.name, grown >> 10))
                fds = g.descriptors()
                if fds > 60 + 2 * len(backends):
                    violations.append("%s: %d descriptors at rest" % (g.name, fds))
                print("%s: %d KiB after 30 %% of the time, %+d KiB since, %d descriptors at rest"
                      % (g.name, early[g.name] >> 10, grown >> 10, fds))
        finally:
            for g in gateways:
                g.process.stop()
                if g.process.child.returncode:
                    violations.append("%s exited with %r:\n%s" % (g.name, g.process.child.returncode,
                                                                  open(g.log, encoding="utf-8").read()[-3000:]))
    total = sum(seen.values())
    print("%d requests: %s" % (total, ", ".join("%s %d" % (k, n) for k, n in sorted(seen.items(), key=lambda kv: -kv[1]))))
    print("peers: %s; %s" % (", ".join("%s %d" % kv for kv in sorted(peers.played.items())),
                             ", ".join("%s %d" % kv for kv in sorted(done.items()))))
    print("%d samples (%.1f/s and gateway), at most %d slots live, %.1f in the mean; sockets exact within %.0f ms in %d of %d, looked at for %.0f ms at most"
          % (checker.samples, checker.samples / args.seconds / 2, checker.most, checker.slots_seen / max(1, checker.samples),
             VANISH_S * 1e3, checker.exact, checker.windows, checker.longest * 1e3))
    if seen["NO ANSWER WITHIN 30 s"]:
        violations.append("%d requests without an answer" % seen["NO ANSWER WITHIN 30 s"])
    for want in (200, "left by rst", "left by close", "left by fin"):
        if not seen[want]:
            violations.append("the soak saw no %r: it tests nothing" % (want,))
    if checker.exact < checker.windows / 4: # a busy machine takes longer between the two looks
        violations.append("sockets were compared exactly in %d of %d samples only" % (checker.exact, checker.windows))
    if checker.samples < 2 * 5 * args.seconds:
        violations.append("only %d samples" % checker.samples)
    missing = [k for k in KINDS if not peers.played[k]]
    if missing and args.seconds >= 60:
        violations.append("never played: %s" % ", ".join(missing))
    for v in violations[:20]:
        print("VIOLATION " + v)
    print("%d violations" % len(violations))
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
