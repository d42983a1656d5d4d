#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The simulated fleet through the gateway against an independent model's figures.

Two cases, two policies, median of three runs each on a cold fleet: hit rate, TTFT and so
on must lie within 10 % of the reference (p99 within 20 %). Exits 1 where one does not.

usage: bench_sim.py [--runs N] [--seconds S] [--warmup S] [--jobs N]
"""
import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import fleet

# case, policy -> reference: hit rate, TTFT p50/p90/p99 in ms, and others. The reference calls the mean
# gap between the tokens of one answer its ITL: the load generator's TPOT.
REFERENCE = {
    ("open 38/s", "round_robin"): {"hit_rate": .245, "ttft_p50_ms": 318, "ttft_p90_ms": 759, "ttft_p99_ms": 1250, "e2e_p50_ms": 14900},
    ("open 38/s", "cost"): {"hit_rate": .981, "ttft_p50_ms": 28, "ttft_p90_ms": 35, "ttft_p99_ms": 41, "e2e_p50_ms": 2210},
    ("closed 70", "round_robin"): {"hit_rate": .252, "ttft_p50_ms": 217, "ttft_p90_ms": 225, "ttft_p99_ms": 231, "rate_rps": 18.1, "tpot_p50_ms": 24.9},
    ("closed 70", "cost"): {"hit_rate": .978, "ttft_p50_ms": 29, "ttft_p90_ms": 35, "ttft_p99_ms": 43, "rate_rps": 28.7, "tpot_p50_ms": 16.2},
}
LOAD = {
    "open 38/s": ["--rate", "38", "--poisson"],
    "closed 70": ["--concurrency", "70"],
}


def figures(r):
    return {"hit_rate": r["hit_rate"], "ttft_p50_ms": r["ttft_ms"]["p50"], "ttft_p90_ms": r["ttft_ms"]["p90"],
            "ttft_p99_ms": r["ttft_ms"]["p99"], "e2e_p50_ms": r["e2e_ms"]["p50"], "rate_rps": r["rate_rps"],
            "tpot_p50_ms": r["tpot_ms"]["p50"], "errors": r["errors"],
            "late_ms_p99": r["late_ms_p99"]}


def one_run(work, policy, case, seed, args):
    port = args.port + 20 * seed  # runs side by side have a fleet and a gateway each
    # 28 requests/s need longer than 38 to have asked for the rare prefixes once
    warmup = args.warmup * (1.5 if "--concurrency" in LOAD[case] else 1)
    backends = [f"127.0.0.1:{port + 10 + i}" for i in range(7)]
    with fleet.simulator(work, port + 10, 7, "--seed", str(seed)), fleet.gateway(work, port, backends, policy):
        return figures(fleet.load(f"http://127.0.0.1:{port}", "--workload", "support", *LOAD[case], "--seed", str(seed),
                                  "--warmup", str(warmup), "--duration", str(args.seconds)))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--runs", type=int, default=3)
    ap.add_argument("--warmup", type=int, default=200, help="seconds (default 200: the fleet has seen nearly all prefixes; half as long again in the closed loop)")
    ap.add_argument("--seconds", type=int, default=200, help="measured seconds of a run (default 200)")
    ap.add_argument("--jobs", type=int, default=3, help="runs side by side, each on its own fleet (default 3: 40 %% of a core)")
    ap.add_argument("--port", type=int, default=19100, help="first port (default 19100)")
    ap.add_argument("--only", help="part of a case's or policy's name")
    args = ap.parse_args()
    rows, bad = [], 0
    with tempfile.TemporaryDirectory() as work:
        for (case, policy), reference in REFERENCE.items():
            if args.only and args.only not in f"{case} {policy}":
                continue
            print(f"{case} {policy}: {args.runs} runs", file=sys.stderr, flush=True)
            with ThreadPoolExecutor(args.jobs) as pool:
                runs = list(pool.map(lambda seed: one_run(work, policy, case, seed, args), range(1, args.runs + 1)))
            row = {"case": case, "policy": policy, "errors": sum(r["errors"] for r in runs)}
            bad += row["errors"] > 0
            print(f"\nsupport, {case}, {policy}: median of {args.runs}, errors {row['errors']}, "
                  f"generator late p99 {max(r['late_ms_p99'] for r in runs):.1f} ms")
            for key, want in reference.items():
                values = [r[key] for r in runs]
                got = fleet.median(values)
                tolerance = .20 if "p99" in key else .10
                off = (got - want) / want
                verdict = "ok" if abs(off) <= tolerance else "OUT"
                bad += verdict != "ok"
                row[key], row[key + "_spread"], row[key + "_reference"] = got, fleet.spread(values), want
                print(f"  {key:14} {got:10.3f}   reference {want:10.3f}   {off * 100:+6.1f} %  {verdict}")
            rows.append(row)
    fleet.save("sim", rows, runs=args.runs, warmup_s=args.warmup, measured_s=args.seconds)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
