#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The main job on real engines: the same load on the same fleet, first round-robin, then by
predicted cost, each on cold caches.

More prompt prefixes than any node can keep, but not more than the fleet can. With
--runs N the pair is run N times in turn, the table shows medians, and build/bench/ENGINE.json
keeps everything. Exits 1 if a request failed, or with --check if cost is not twice as fast.

usage: demo.py llamacpp|vllm [--runs N] [--check]     KVSTEER_DEMO_PORT=18000 moves the ports
       ENGINE=PATH MODEL=PATH: your own llama-server and GGUF file (vllm: python and model folder)
"""
import argparse
import http.client
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import realfleet

sys.path.insert(0, os.path.join(realfleet.ROOT, "tests", "bench"))
import fleet as bench  # noqa: E402

POLICIES = ("round_robin", "cost")
BUILD = os.path.abspath(os.environ.get("KVSTEER_BUILD", os.path.join(realfleet.ROOT, "build")))


def config(engine, policy, port, socket, access, urls, profile):
    with open(profile, encoding="utf-8") as f:
        measured = "".join("    " + line for line in f if not line.startswith("#"))
    return """listeners: [{address: "127.0.0.1:%d"}]
admin: {address: "127.0.0.1:%d", socket: %s}
log: {access: %s, format: json}
pools:
  - name: %s
    models: [%s]
    policy: %s
%s    backends: [%s]
""" % (port, port + 1, socket, access, engine.name, engine.model, policy, measured, ", ".join('"%s"' % u for u in urls))


def sum_of(text, name):
    """The sum of a metric's series in a page of Prometheus text."""
    return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines()
               if line.startswith((name + " ", name + "{")))


def reported(engine, ports):
    """(prompt tokens, cached ones) since the start, by the engines' own counters."""
    pages = [bench.metrics(p) for p in ports]
    if engine.name == "vllm":
        names = ("vllm:prefix_cache_queries_total", "vllm:prefix_cache_hits_total")
        return tuple(sum(sum_of(t, n) for t in pages) for n in names)
    computed, cached = (sum(sum_of(t, n) for t in pages)
                        for n in ("llamacpp:prompt_tokens_total", "llamacpp:prompt_tokens_cached_total"))
    return computed + cached, cached


class Gateway:
    def __init__(self, engine, policy, port, urls, profile, out):
        self.admin = port + 1
        self.access = os.path.join(out, "access-%s.log" % policy)
        self.log = os.path.join(out, "kvsteerd-%s.log" % policy)
        # A Unix socket's name is short: not below a folder of any length.
        self.dir = tempfile.TemporaryDirectory(prefix="kvs")
        path = os.path.join(out, policy + ".yaml")
        if os.path.exists(self.access):
            os.unlink(self.access)
        with open(path, "w", encoding="utf-8") as f:
            f.write(config(engine, policy, port, os.path.join(self.dir.name, "admin.sock"), self.access, urls, profile))
        self.process = bench.Process([os.path.join(BUILD, "bin", "kvsteerd"), "-c", path], self.log, ready="event=started")

    def predicted(self):
        """(prompt tokens, tokens expected to be cached) since the start, by kvsteer's estimate."""
        text = bench.metrics(self.admin)
        return tuple(sum_of(text, "kvsteer_" + k) for k in ("prompt_tokens_total", "cached_tokens_predicted_total"))

    def stop(self):
        self.process.stop()
        self.dir.cleanup()


def ttft_error(access):
    """How far the predicted TTFT was off, as a factor either way: (median, 90th percentile)."""
    factors = []
    with open(access, encoding="utf-8") as f:
        for line in f:
            e = json.loads(line)
            if e.get("ttft_ms") and e.get("ttft_predicted_ms"):
                x = e["ttft_ms"] / e["ttft_predicted_ms"]
                factors.append(max(x, 1 / x))
    if len(factors) < 2:
        return None, None
    return statistics.median(factors), statistics.quantiles(factors, n=10)[8]


def load(engine, port, seed, requests, question_tokens, path):
    """kvsteer-load's closed loop."""
    e = engine
    with open(os.path.join(os.path.dirname(path), "load.log"), "ab") as log:
        subprocess.run([os.path.join(BUILD, "bin", "kvsteer-load"), "--url", "http://127.0.0.1:%d" % port,
                        "--model", e.model, "--workload", "support", "--concurrency", str(e.concurrency),
                        "--requests", str(requests), "--prefixes", str(e.prefixes), "--zipf", "0",
                        "--prefix-tokens", str(e.prefix_tokens), "--question-tokens", str(question_tokens),
                        "--output-tokens", str(e.output_tokens), "--sigma", "0", "--seed", str(seed), "--json", path],
                       check=True, stdout=log, stderr=log)


def one_run(engine, policy, seed, port, urls, profile, out):
    """One policy on cold caches: a flat dict of figures."""
    gw = Gateway(engine, policy, port, urls, profile, out)
    path = os.path.join(out, policy + ".json")
    e = engine
    ports = [int(u.rsplit(":", 1)[1]) for u in urls]
    before = reported(engine, ports)
    try:
        realfleet.log("== %s: %d cold nodes, %d prefixes of %d words, %d clients, %d requests to warm up, %d measured"
                      % (policy, len(urls), e.prefixes, e.prefix_tokens, e.concurrency, e.warmup_requests, e.requests))
        # The warm-up asks shorter questions of the same prefixes: no prompt of the measured part is a repetition.
        load(engine, port, seed, e.warmup_requests, max(1, e.question_tokens // 3), os.path.join(out, "warmup.json"))
        load(engine, port, seed, e.requests, e.question_tokens, path)
        # The last answers' counters are added when their exchange ends, a moment after the client saw the end.
        time.sleep(0.2)
        predicted = gw.predicted()
        seen = [b - a for a, b in zip(before, reported(engine, ports))]
    finally:
        gw.stop()
    with open(path, encoding="utf-8") as f:
        r = json.load(f)
    middle, worst = ttft_error(gw.access)
    return {
        "policy": policy, "seed": seed, "requests": r["requests"], "errors": r["errors"],
        "errors_by_reason": r["errors_by_reason"], "hit_rate": r["hit_rate"], "rate_rps": r["rate_rps"],
        **{"ttft_%s_ms" % q: r["ttft_ms"][q] for q in ("p50", "p90", "p99", "mean")},
        **{"e2e_%s_ms" % q: r["e2e_ms"][q] for q in ("p50", "p99")},
        "prompt_tokens_mean": r["prompt_tokens"] / max(1, r["requests"]),
        # Of all requests, the warm-up's too. As shares, since kvsteer's token (4 bytes) is not the engine's.
        "hit_rate_predicted": predicted[1] / max(1, predicted[0]), "hit_rate_reported": seen[1] / max(1, seen[0]),
        "predicted_tokens": predicted, "reported_tokens": seen,
        "ttft_predicted_factor_p50": middle, "ttft_predicted_factor_p90": worst,
        "per_backend": r["per_backend"],
    }


def reset_vllm(ports):
    """Cold caches without the minute of a start."""
    for p in ports:
        c = http.client.HTTPConnection("127.0.0.1", p, timeout=30)
        c.request("POST", "/reset_prefix_cache")
        status = c.getresponse().status
        c.close()
        if status != 200:
            raise SystemExit("demo.py: /reset_prefix_cache answered %d" % status)


def runs(engine, n, port, profile, out):
    """Every policy n times, in turn."""
    rows = []
    ports = [port + 11 + i for i in range(engine.nodes)]
    order = [(p, seed) for seed in range(1, n + 1) for p in POLICIES]
    if engine.name == "vllm":
        with realfleet.Fleet(engine, ports[0], engine.nodes, out) as f:
            for policy, seed in order:
                reset_vllm(ports)
                rows.append(one_run(engine, policy, seed, port, f.urls(), profile, out))
        return rows
    for policy, seed in order:
        with realfleet.Fleet(engine, ports[0], engine.nodes, out) as f:
            rows.append(one_run(engine, policy, seed, port, f.urls(), profile, out))
    return rows


def table(rows):
    """Medians of both policies beside each other; each row is one figure."""
    def median(policy, key):
        values = [r[key] for r in rows if r["policy"] == policy and r[key] is not None]
        return statistics.median(values) if values else float("nan")

    def total(policy, key):
        return sum(r[key] for r in rows if r["policy"] == policy)

    print("%-34s%14s%14s%12s" % ("", *POLICIES, "change"))
    for name, key, form, scale in (
            ("hit rate, %", "hit_rate", "%.1f", 100), ("TTFT p50, ms", "ttft_p50_ms", "%.0f", 1),
            ("TTFT p90, ms", "ttft_p90_ms", "%.0f", 1), ("TTFT p99, ms", "ttft_p99_ms", "%.0f", 1),
            ("end to end p50, ms", "e2e_p50_ms", "%.0f", 1), ("end to end p99, ms", "e2e_p99_ms", "%.0f", 1),
            ("throughput, /s", "rate_rps", "%.2f", 1),
            ("with warm-up: hits predicted, %", "hit_rate_predicted", "%.1f", 100),
            ("with warm-up: hits reported, %", "hit_rate_reported", "%.1f", 100)):
        a, b = (median(p, key) * scale for p in POLICIES)
        change = "%+.0f points" % (b - a) if scale == 100 else "%+.0f %%" % ((b - a) / a * 100) if a else ""
        print("%-34s%14s%14s%12s" % (name, form % a, form % b, change))
    for key in ("requests", "errors"):
        print("%-34s%14d%14d" % (key, *(total(p, key) for p in POLICIES)))
    print("%-34s%14.0f%14.0f" % ("prompt tokens, mean", *(median(p, "prompt_tokens_mean") for p in POLICIES)))
    print("%-34s%14.2f%14.2f" % ("predicted TTFT off by factor, p50", *(median(p, "ttft_predicted_factor_p50") for p in POLICIES)))
    print("%-34s%14.2f%14.2f" % ("predicted TTFT off by factor, p90", *(median(p, "ttft_predicted_factor_p90") for p in POLICIES)))
    return median("cost", "ttft_p50_ms") / median("round_robin", "ttft_p50_ms")


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("engine", choices=sorted(realfleet.ENGINES))
    ap.add_argument("--runs", type=int, default=1, help="of each policy, in turn (default 1)")
    ap.add_argument("--check", action="store_true", help="exit 1 unless cost halves TTFT p50")
    args = ap.parse_args()
    realfleet.end_on_signals()
    engine = realfleet.ENGINES[args.engine]
    port = int(os.environ.get("KVSTEER_DEMO_PORT", "18000"))
    out = os.path.join(realfleet.OUT, "demo-" + engine.name)
    # Measured here by `make realfleet-profile`, else the one in the repository.
    profile = os.path.join(realfleet.OUT, "profile-%s.yaml" % engine.name)
    if not os.path.exists(profile):
        profile = os.path.join(realfleet.HERE, "profile-%s.yaml" % engine.name)
    realfleet.install(engine)
    rows = runs(engine, args.runs, port, profile, out)
    print("\n%d servers of %s, %s; medians of %d run%s of each policy"
          % (engine.nodes, engine.name, realfleet.machine(), args.runs, "s" if args.runs > 1 else ""))
    ratio = table(rows)
    print("TTFT p50 under cost is %.2f of round_robin's" % ratio)
    bench.BUILD = BUILD
    bench.save(engine.name, rows, machine=realfleet.machine(), nodes=engine.nodes, prefixes=engine.prefixes,
               prefix_words=engine.prefix_tokens, clients=engine.concurrency, warmup_requests=engine.warmup_requests,
               requests=engine.requests, requirements=open(
                   os.path.join(realfleet.HERE, "requirements-%s.txt" % engine.name), encoding="utf-8").read().split())
    print("What ran: %s/cost.yaml (the whole configuration), logs and results beside it." % out)
    failed = [r for r in rows if r["errors"] or not r["requests"]]
    for r in failed:
        realfleet.log("%s: %d of %d requests failed: %s" % (r["policy"], r["errors"], r["requests"], r["errors_by_reason"]))
    return 1 if failed or (args.check and not ratio <= 0.5) else 0


if __name__ == "__main__":
    sys.exit(main())
