#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A real trace of a chat service through the gateway: round_robin beside cost, each on a fleet of its own.

Both runs go on at the same time. Exits 1 if a request failed or if `cost` is not the faster
one in TTFT p50 and p90.

usage: bench_trace.py TRACE.jsonl [--seconds S] [--time-scale X]
"""
import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import fleet

PORT = 19300
POLICIES = ("round_robin", "cost")


def run(work, index, args):
    port = PORT + 20 * index
    backends = [f"127.0.0.1:{port + 10 + i}" for i in range(7)]
    with fleet.simulator(work, port + 10, 7), fleet.gateway(work, port, backends, POLICIES[index]):
        return fleet.load(f"http://127.0.0.1:{port}", "--workload", f"trace:{args.trace}",
                          "--time-scale", str(args.time_scale), "--duration", str(args.seconds))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("trace", help="a line of JSON per request (timestamp, input_length, output_length, hash_ids)")
    ap.add_argument("--seconds", type=int, default=300)
    ap.add_argument("--time-scale", type=float, default=1, help="2: the trace at double speed (default 1, which round-robin sustains)")
    args = ap.parse_args()
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda i: run(work, i, args), range(2)))
    print(f"\n{'':14}{POLICIES[0]:>14}{POLICIES[1]:>14}")
    for name, pick in (("requests", lambda r: r["requests"]), ("errors", lambda r: r["errors"]),
                       ("hit rate", lambda r: round(r["hit_rate"], 3)),
                       *((f"TTFT {q} ms", lambda r, q=q: round(r["ttft_ms"][q], 1)) for q in ("p50", "p90", "p99")),
                       ("e2e p50 ms", lambda r: round(r["e2e_ms"]["p50"]))):
        print(f"{name:14}{pick(results[0]):>14}{pick(results[1]):>14}")
    fleet.save("trace", [{"policy": p, **r} for p, r in zip(POLICIES, results)], seconds=args.seconds, time_scale=args.time_scale)
    rr, cost = results
    ok = not rr["errors"] and not cost["errors"] and all(cost["ttft_ms"][q] < rr["ttft_ms"][q] for q in ("p50", "p90"))
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
