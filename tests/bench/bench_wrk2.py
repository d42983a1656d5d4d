#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""kvsteer's cost policy against round-robin, measured by wrk2 from outside.

The prompts are those of kvsteer-load's workloads (tools/wrk2), answers have one token: the latency that wrk2
prints is the time to the first token. Both policies get the same simulated fleet, cold, the same prompts at the
same rate, and a warm-up that is not counted. wrk2 sends on schedule whatever the answers do (open loop) and counts
latency from the scheduled time; its connections send in phase, so the load comes in bursts. Without it the packaged wrk does the same prompts from CONNECTIONS clients that
wait for their answers (closed loop): its latency leaves out the waiting of requests that could not be sent.

usage: bench_wrk2.py [--wrk2 PATH] [--workloads support,chat,long8k] [--rate R] [--seconds S] [--warmup S]
"""
import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile

import fleet

PORT = 19200
NODES = 7
THREADS = 2
CONNECTIONS = 32
# Requests a second of the whole fleet: what round-robin can still serve with one-token answers.
RATES = {"support": 24, "chat": 40, "long8k": 6}
SCRIPTS = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "wrk2")
POLICIES = ("round_robin", "cost")


def find_tool(wanted):
    """(path, whether it is wrk2, note)."""
    for path in filter(None, (wanted, shutil.which("wrk2"))):
        text = subprocess.run([path, "-v"], capture_output=True, text=True, check=False)
        if "--rate" in text.stdout + text.stderr:
            return path, True, "wrk2: open loop"
        raise SystemExit(f"{path} is not wrk2: its help has no --rate")
    path = shutil.which("wrk")
    if not path:
        raise SystemExit("neither wrk2 (WRK2=path) nor wrk is here: `apt-get install wrk` is enough for a closed loop")
    return path, False, "wrk2 is missing (WRK2=path): wrk instead, a CLOSED loop, whose latencies leave out what it did not send"


def run(tool, workload, rate, seconds, number):
    """One run: what the script's done() wrote."""
    path, is_wrk2, _ = tool
    argv = [path, f"-t{THREADS}", f"-c{CONNECTIONS}", f"-d{seconds}s", "--timeout", "60s", "-s", f"{SCRIPTS}/{workload}.lua"]
    if is_wrk2:
        argv.append(f"-R{rate}")
    argv += [f"http://127.0.0.1:{PORT}", "--", fleet.MODEL, "1", str(number)]
    out = subprocess.run(argv, capture_output=True, text=True, check=False)
    m = re.search(r"^kvsteer (\{.*\})$", out.stdout, re.M)
    if out.returncode or not m:
        raise SystemExit(f"{' '.join(argv)} failed:\n{out.stdout}{out.stderr}")
    return json.loads(m.group(1))


def tokens(ports):
    """Prompt tokens that the engines looked up in their caches, and found."""
    found = {"queries": 0.0, "hits": 0.0}
    for port in ports:
        for what, value in re.findall(r"^vllm:prefix_cache_(queries|hits)_total\S* (\S+)$", fleet.metrics(port), re.M):
            found[what] += float(value)
    return found


def measure(tool, work, workload, policy, args):
    ports = [PORT + 10 + i for i in range(NODES)]
    rate = args.rate or RATES[workload]
    with fleet.simulator(work, PORT + 10, NODES, "--seed", "1"), \
            fleet.gateway(work, PORT, [f"127.0.0.1:{p}" for p in ports], policy):
        if args.warmup:
            run(tool, workload, rate, args.warmup, 0)
        before = tokens(ports)
        r = run(tool, workload, rate, args.seconds, 1)
        after = tokens(ports)
        # client_gone: what is under way when wrk ends
        failed = {reason: int(float(n)) for reason, n in re.findall(r'^kvsteer_errors_total\{.*reason="(\w+)".*\} (\S+)$',
                                                                    fleet.metrics(PORT + 1), re.M) if reason != "client_gone"}
    lat, looked_up = r["latency_ms"], after["queries"] - before["queries"]
    return {
        "workload": workload, "policy": policy, "offered_rps": rate if tool[1] else None,
        "rate_rps": r["requests"] / r["duration_s"], "ttft_p50_ms": lat["p50"], "ttft_p90_ms": lat["p90"], "ttft_p99_ms": lat["p99"],
        "errors": sum(r["errors"].values()) + sum(failed.values()), "wrk_errors": r["errors"], "gateway_errors": failed,
        "hit_rate": (after["hits"] - before["hits"]) / looked_up if looked_up else None,
    }


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--wrk2", default=os.environ.get("WRK2"), help="path of wrk2")
    ap.add_argument("--workloads", default="support")
    ap.add_argument("--rate", type=int, help="requests/s instead of the workload's own")
    ap.add_argument("--seconds", type=int, default=60, help="measured (default 60)")
    ap.add_argument("--warmup", type=int, default=60, help="before that, not counted (default 60)")
    args = ap.parse_args()
    tool = find_tool(args.wrk2)
    print(f"{tool[2]}; {NODES} simulated nodes, {CONNECTIONS} connections, one token an answer, so latency is TTFT\n", flush=True)
    rows = []
    with tempfile.TemporaryDirectory() as work:
        print(f"{'workload':9} {'policy':12} {'p50 ms':>9} {'p90 ms':>9} {'p99 ms':>9} {'req/s':>8} {'errors':>7} {'KV hit':>7}", flush=True)
        for workload in args.workloads.split(","):
            if workload not in RATES:
                raise SystemExit(f"no such workload: {workload}; there are {', '.join(RATES)}")
            for policy in POLICIES:
                row = measure(tool, work, workload, policy, args)
                rows.append(row)
                hit = "-" if row["hit_rate"] is None else f"{row['hit_rate'] * 100:.1f}%"
                print(f"{workload:9} {policy:12} {row['ttft_p50_ms']:9.1f} {row['ttft_p90_ms']:9.1f} {row['ttft_p99_ms']:9.1f} "
                      f"{row['rate_rps']:8.1f} {row['errors']:7d} {hit:>7}", flush=True)
    fleet.save("wrk2", rows, tool=os.path.basename(tool[0]), open_loop=tool[1], note=tool[2], nodes=NODES, connections=CONNECTIONS,
               threads=THREADS, warmup_s=args.warmup, measured_s=args.seconds)
    return 1 if any(r["errors"] for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
