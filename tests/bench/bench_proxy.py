#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""kvsteer beside HAProxy, nginx and the least that a proxy can be, on this machine, in one run.

Every figure is the median of at least five runs. The proxies take turns slice by slice, so that what else goes
on here meets all alike; each has one thread, on a core of its own, client and backend share another. CPU is
the scheduler's account of all threads of the proxy. Prints one table with goals and verdicts and writes
build/bench/proxy.json. Exits 1 where a goal is missed.

usage: bench_proxy.py [--quick] [--runs N] [--only PART[,PART...]] [--markdown FILE]
parts: requests latency decide scan stream memory body
"""
import argparse
import collections
import contextlib
import json
import os
import re
import socket
import subprocess
import sys
import tempfile
import time

import fleet
import peers

PORT = int(os.environ.get("KVSTEER_BENCH_PORT", "25200"))
BACKEND_PORT = PORT + 20
SLOW_BACKEND_PORT = PORT + 40
PROXY_CORE, CLIENT_CORE = 1, 0
STREAMS, EVENTS_PER_S = 100, 120
OPEN_STREAMS = 5000
BODY_BYTES = 64 << 20
SCAN_LIMIT_BYTES = 8 << 20 # limits.scan's default
SIZES = {"2 KB": 2048, "32 KB": 32 << 10, "400 KB": 400 << 10}


class Results:
    """figure -> proxy -> values of the runs."""

    def __init__(self):
        self.values = collections.defaultdict(lambda: collections.defaultdict(list))

    def add(self, figure, proxy, value):
        self.values[figure][proxy].append(value)

    def median(self, figure, proxy):
        v = self.values.get(figure, {}).get(proxy)
        return fleet.median(v) if v else None


def say(text):
    print(f"[{time.strftime('%H:%M:%S')}] {text}", file=sys.stderr, flush=True)


def client(tool, *flags, pid=None, running=None):
    """One run of a client: its JSON, and the CPU ns that `pid` used in its measured time. running() is called inside it."""
    argv = [fleet.bench_binary(tool), *map(str, flags)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, preexec_fn=peers.pin(CLIENT_CORE)) as p:
        if p.stdout.readline().strip() != "begin":
            raise SystemExit(f"{' '.join(argv)}: did not begin")
        before = peers.cpu_ns(pid) if pid else 0
        if running:
            running()
        r = json.loads(p.stdout.readline())
        used = peers.cpu_ns(pid) - before if pid else 0
    if r["errors"] or r.get("not_sent"):
        say(f"  {tool} {' '.join(map(str, flags))}: {r['errors']} errors, {r.get('not_sent', 0)} not sent")
    return r, used


# ---- the parts ----

def part_requests(res, proxies, args):
    """Requests as fast as 32 connections get answers."""
    for size, n in SIZES.items():
        for run in range(args.runs):
            say(f"requests of {size}: run {run + 1} of {args.runs}")
            for p in proxies:
                r, used = client("request_client", "--port", p.port, "--connections", 32, "--bytes", n, "--seconds",
                                 args.slice, pid=p.pid)
                res.add(f"errors, {size}", p.name, r["errors"])
                if not r["requests"]:
                    continue
                res.add(f"CPU us per request, {size}", p.name, used / 1e3 / r["requests"])
                res.add(f"requests per second and core, {size}", p.name, r["requests"] / (used * 1e-9))
                res.add(f"requests per second here, {size}", p.name, r["requests"] / args.slice)


def part_latency(res, proxies, args):
    """500 requests a second of 2 KB: what each adds to the direct way."""
    for run in range(args.runs):
        say(f"latency at 500 requests/s: run {run + 1} of {args.runs}")
        slices = {}
        for name, port in [("direct", BACKEND_PORT)] + [(p.name, p.port) for p in proxies]:
            r, _ = client("request_client", "--port", port, "--connections", 32, "--bytes", 2048, "--rate", 500, "--seconds",
                          args.slice)
            slices[name] = r
            res.add("errors, 500/s", name, r["errors"])
        for name, r in slices.items():
            for q in ("p50", "p99"):
                base = slices["direct"][f"{q}_us"] if name != "direct" else 0
                res.add(f"{q} us at 500/s" if name == "direct" else f"added {q} us at 500/s", name, r[f"{q}_us"] - base)


def part_stream(res, proxies, args):
    """Paced streams: CPU per event, and how long an event is on its way."""
    for run in range(args.runs):
        say(f"{STREAMS} streams of {EVENTS_PER_S} events/s: run {run + 1} of {args.runs}")
        for p in proxies:
            r, used = client("stream_client", "--port", p.port, "--streams", STREAMS, "--seconds", args.slice * 1.5, pid=p.pid)
            res.add("errors, streams", p.name, r["errors"])
            res.add("CPU us per event", p.name, used / 1e3 / max(r["events"], 1))
            res.add("events per second", p.name, r["events"] / r["seconds"])
            res.add("event p50 us", p.name, r["p50_us"])
            res.add("event p99 us", p.name, r["p99_us"])


@contextlib.contextmanager
def fresh(p, backend_port, work):
    """Another process of the same kind, that has served a few small requests."""
    f = peers.Proxy(p.name, p.port + 10, backend_port, p.tool)
    f.start(work, PROXY_CORE)
    try:
        client("request_client", "--port", f.port, "--connections", 16, "--bytes", 2048, "--rate", 200, "--seconds", .3)
        yield f
    finally:
        f.stop()


def part_memory(res, proxies, args, work):
    """Many open streams with an event in 5 s each: resident memory per stream, each time on a fresh process."""
    for run in range(args.runs):
        say(f"{args.open_streams} open streams: run {run + 1} of {args.runs}")
        for p in proxies:
            if p.name == "mini_proxy":
                continue
            with fresh(p, SLOW_BACKEND_PORT, work) as f:
                before, seen = peers.rss_bytes(f.pid), []

                def look(pid=f.pid, seen=seen):
                    time.sleep(5)
                    seen.append(peers.rss_bytes(pid))

                r, _ = client("stream_client", "--port", f.port, "--streams", args.open_streams, "--open-rate", 2000,
                              "--seconds", 5.5, running=look)
                res.add("errors, open streams", p.name, r["errors"])
                res.add("RSS bytes per open stream", p.name, (seen[0] - before) / args.open_streams)


def post_large(port):
    head = (f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nConnection: close\r\n"
            f"Content-Length: {BODY_BYTES}\r\n\r\n").encode()
    start = b'{"model":"' + fleet.MODEL.encode() + b'","messages":[{"role":"user","content":"'
    piece = b"word and word; \\n" * 4096
    left = BODY_BYTES - len(start) - 4
    with socket.create_connection(("127.0.0.1", port), timeout=60) as s:
        s.sendall(head + start)
        while left:
            n = min(left, len(piece))
            s.sendall(piece[:n] if n == len(piece) else b"x" * n)
            left -= n
        s.sendall(b'"}]}')
        return s.recv(15)[9:12] == b"200"


def part_body(res, proxies, args, work):
    """A body of 64 MiB, on a fresh process each time: how far resident memory rises above where it was."""
    for run in range(args.runs):
        say(f"64 MiB body: run {run + 1} of {args.runs}")
        for p in proxies:
            with fresh(p, BACKEND_PORT, work) as f:
                before = peers.rss_bytes(f.pid)
                t0 = time.monotonic()
                ok = post_large(f.port)
                res.add("errors, 64 MiB", p.name, 0 if ok else 1)
                res.add("MB/s, 64 MiB body", p.name, BODY_BYTES / 1e6 / (time.monotonic() - t0))
                res.add("RSS peak MiB over before, 64 MiB body", p.name, (peers.rss_bytes(f.pid, "VmHWM:") - before) / (1 << 20))


def part_decide(res, args):
    say("decision: bench_decide")
    best = collections.defaultdict(list)
    for _ in range(args.runs):
        for line in fleet.output_of(fleet.bench_binary("bench_decide")).splitlines()[1:]:
            f = line.split()
            best[f"{int(f[0]) // 1000}k tokens x {f[1]} {f[2]}"].append((float(f[3]), float(f[5])))
    for case, v in best.items():
        for p50, p99 in v:
            res.add(f"decision p50 us, {case}", "kvsteer", p50)
            res.add(f"decision p99 us, {case}", "kvsteer", p99)


def part_scan(res, args):
    say("scanner: bench_scan")
    for _ in range(args.runs):
        for line in fleet.output_of(fleet.bench_binary("bench_scan")).splitlines():
            m = re.match(r"(.*?) +\d+ bytes +scan +([\d.]+) GB/s", line)
            if m:
                res.add(f"scan GB/s, {m[1]}", "kvsteer", float(m[2]))


# ---- goals ----

def ratio(res, figure, to, at_most):
    """kvsteer's figure against another's: (text of the goal, value, met or None)."""
    k, o = res.median(figure, "kvsteer"), res.median(figure, to)
    if k is None or o is None:
        return None
    return (f"{figure}: <= {at_most} x {to}", f"{k / o:.2f} x", k <= at_most * o)


def below(res, figure, limit, unit=""):
    k = res.median(figure, "kvsteer")
    return None if k is None else (f"{figure}: <= {limit}{unit}", f"{k:.1f}{unit}", k <= limit)


def goals(res):
    g = [
        ratio(res, "CPU us per request, 2 KB", "haproxy", 1.11),
        ratio(res, "CPU us per request, 2 KB", "nginx", 1.0),
        ratio(res, "CPU us per request, 400 KB", "haproxy", 1.5),
        below(res, "added p50 us at 500/s", 100),
        below(res, "added p99 us at 500/s", 500),
        below(res, "decision p50 us, 8k tokens x 64 hit", 20),
        below(res, "decision p99 us, 8k tokens x 64 hit", 60),
        below(res, "decision p50 us, 8k tokens x 64 cold", 20),
        below(res, "decision p99 us, 8k tokens x 64 cold", 60),
        ratio(res, "CPU us per event", "mini_proxy", 1.1),
        ratio(res, "CPU us per event", "haproxy", 1.0),
        ratio(res, "CPU us per event", "nginx", 1.0),
        below(res, "RSS bytes per open stream", 8192),
        below(res, "RSS peak MiB over before, 64 MiB body", (SCAN_LIMIT_BYTES >> 20) + 2),
    ]
    for figure in [f for f in res.values if f.startswith("errors")]:
        k = sum(res.values[figure]["kvsteer"])
        g.append((f"{figure}: none", str(k), k == 0))
    return [x for x in g if x]


def number(v):
    return "-" if v is None else f"{v:,.0f}" if abs(v) >= 1000 else f"{v:.1f}" if abs(v) >= 10 else f"{v:.2f}"


def table(res, names):
    """Lines of a Markdown table: median (least..most) of each figure."""
    yield "| figure | " + " | ".join(names) + " |"
    yield "| --- |" + " --- |" * len(names)
    for figure, by in res.values.items():
        if figure.startswith("errors") and not any(sum(v) for v in by.values()):
            continue
        cells = []
        for n in names:
            v = by.get(n)
            cells.append(f"{number(fleet.median(v))} ({number(min(v))}..{number(max(v))})" if v else "-")
        yield f"| {figure} | " + " | ".join(cells) + " |"


def verdicts(res):
    yield "| goal | kvsteer | verdict |"
    yield "| --- | --- | --- |"
    for text, value, met in goals(res):
        yield f"| {text} | {value} | {'met' if met else 'MISSED'} |"


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--quick", action="store_true", help="short slices, 1000 open streams: for a look, not for a claim")
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--only", default="requests,latency,decide,scan,stream,memory,body")
    ap.add_argument("--markdown", help="write the tables there too")
    args = ap.parse_args()
    parts = args.only.split(",")
    args.slice = .7 if args.quick else 2.0
    args.open_streams = 1000 if args.quick else OPEN_STREAMS
    res, t0 = Results(), time.monotonic()
    here, missing = peers.all_proxies(PORT, BACKEND_PORT)
    for name in missing:
        say(f"MISSING: {name} (tools/deps.sh bench installs it)")
    with tempfile.TemporaryDirectory() as work:
        os.chmod(work, 0o755)
        backend = [fleet.bench_binary("mock_backend"), "--ports", str(peers.BACKENDS), "--port"]
        with fleet.running(backend + [str(BACKEND_PORT), "--stream-rate", str(EVENTS_PER_S)], os.path.join(work, "backend.log"),
                           "ready", preexec=peers.pin(CLIENT_CORE)), \
             fleet.running(backend + [str(SLOW_BACKEND_PORT), "--stream-rate", ".2"], os.path.join(work, "slow.log"), "ready",
                           preexec=peers.pin(CLIENT_CORE)):
            try:
                for p in here:
                    p.start(work, PROXY_CORE)
                if "requests" in parts:
                    part_requests(res, here, args)
                if "latency" in parts:
                    part_latency(res, here, args)
                if "stream" in parts:
                    part_stream(res, here, args)
                if "body" in parts:
                    part_body(res, here, args, work)
                if "memory" in parts:
                    part_memory(res, here, args, work)
            finally:
                for p in here:
                    p.stop()
    if "decide" in parts:
        part_decide(res, args)
    if "scan" in parts:
        part_scan(res, args)
    names = ["direct"] * ("latency" in parts) + [p.name for p in here]
    text = list(table(res, names)) + [""] + list(verdicts(res))
    print("\n".join(text))
    for name in missing:
        print(f"missing peer: {name}")
    versions = {p.name: p.version for p in here if p.version}
    rows = [{"figure": f, "proxy": n, "median": fleet.median(v), "spread": fleet.spread(v), "runs": len(v)}
            for f, by in res.values.items() for n, v in by.items()]
    goal_rows = [{"goal": a, "kvsteer": b, "met": c} for a, b, c in goals(res)]
    fleet.save("proxy", rows, goals=goal_rows, peers=versions, missing=missing, quick=args.quick,
               duration_s=round(time.monotonic() - t0))
    if args.markdown:
        with open(args.markdown, "w", encoding="utf-8") as f:
            f.write("\n".join(text) + "\n")
    return 0 if all(m for _, _, m in goals(res)) else 1


if __name__ == "__main__":
    sys.exit(main())
