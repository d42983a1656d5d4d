#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Measures one engine server and prints what kvsteer wants to know of it, as YAML: `profile`
(the cost of a step: a + b per prefill token + c per sequence + d per token of context, e per
prefill token and token of its context) and `kv_tokens`, what its cache really keeps.

A token here is what kvsteer takes for one: 4 bytes of prompt. The engine's own tokens are
shorter where the text is as odd as this one: random letters.

usage: profile.py llamacpp|vllm [--port P] [--output FILE]      starts and ends the server itself
"""
import argparse
import concurrent.futures
import os
import random
import statistics
import sys

import realfleet

BYTES_PER_TOKEN = 4
QUESTION_WORDS = 8
QUESTIONS = 3       # asked of one prefix before the next
LETTERS = "abcdefghijklmnopqrstuvwxyz012345"


def text(seed, words):
    """Random words of three letters, as kvsteer-load writes them."""
    r = random.Random(seed)
    return " ".join("".join(r.choices(LETTERS, k=3)) for _ in range(words))


def tokens(words):
    return (words + QUESTION_WORDS) * 4 / BYTES_PER_TOKEN


class Probe:
    def __init__(self, engine, port):
        self.engine, self.port, self.seed = engine, port, 1000

    def ask(self, words, max_tokens, seed=None, question=0):
        """A prompt never seen before, or that of `seed`."""
        self.seed += seed is None
        seed = self.seed if seed is None else seed
        return realfleet.ask(self.port, self.engine.model, text(seed, words),
                             text(seed + 5000000 + question, QUESTION_WORDS), max_tokens)

    def many(self, n, words, max_tokens):
        seeds = [self.seed + 1 + i for i in range(n)]
        self.seed += n
        with concurrent.futures.ThreadPoolExecutor(n) as pool:
            return list(pool.map(lambda s: self.ask(words, max_tokens, s), seeds))


def fit_prefill(points):
    """(tokens, seconds) -> fixed, b, e of t = fixed + b U + e U U / 2, least squares, none below 0.
    Where e comes out below 0 it is noise: then a straight line."""
    def solve(columns):
        rows = [[f(u) for f in columns] for u, _ in points]
        n = len(columns)
        a = [[sum(r[i] * r[j] for r in rows) for j in range(n)] + [sum(r[i] * t for r, (_, t) in zip(rows, points))]
             for i in range(n)]
        for i in range(n):
            p = max(range(i, n), key=lambda k: abs(a[k][i]))
            a[i], a[p] = a[p], a[i]
            for k in range(n):
                if k != i:
                    m = a[k][i] / a[i][i]
                    a[k] = [x - m * y for x, y in zip(a[k], a[i])]
        return [a[i][n] / a[i][i] for i in range(n)]

    fixed, b, e = solve([lambda u: 1.0, lambda u: u, lambda u: u * u / 2])
    if e < 0 or b < 0:
        (fixed, b), e = solve([lambda u: 1.0, lambda u: u]), 0.0
    return max(fixed, 0.0), b, e


def measure_prefill(p, sizes):
    points = []
    for words in sizes:
        tries = [p.ask(words, 2) for _ in range(4)]
        # Whatever else the machine does only adds time: the fastest counts.
        best = min(tries, key=lambda a: a.ttft_s)
        points.append((tokens(words), best.ttft_s))
        realfleet.log("  prefill of %d tokens (%d by the engine): %.3f s" % (points[-1][0], best.prompt_tokens, best.ttft_s))
    return fit_prefill(points)


def step_s(answers):
    """Time between two tokens: the quartile, as others on the machine only add time."""
    return statistics.quantiles([g for a in answers for g in a.gaps_s], n=4)[0]


def measure_decode(p, short, long):
    """a, c, d of a decode step: a + c D + d (context of all)."""
    one = p.ask(short, 32)
    far = p.ask(long, 32)
    full = p.many(p.engine.slots, short, 48)
    # While others still prefill, a step is no decode step: only the last part counts.
    for x in full:
        x.gaps_s = x.gaps_s[-16:]
    n = p.engine.slots
    s1, s2, sn = step_s([one]), step_s([far]), step_s(full)
    realfleet.log("  decode step: %.1f ms alone, %.1f ms at %d tokens, %.1f ms with %d sequences"
                  % (s1 * 1e3, s2 * 1e3, tokens(long), sn * 1e3, n))
    d = max(0.0, (s2 - s1) / (tokens(long) - tokens(short)))
    c = max(0.0, (sn - s1 - d * tokens(short) * (n - 1)) / (n - 1))
    return max(0.0, s1 - c - d * tokens(short)), c, d


def measure_kv(p, words, output, most):
    """Tokens that were sent since the oldest prompt that the cache still holds: more prefixes than it can
    hold, a few questions each, then the same prefixes from the newest to the oldest, up to the first that
    has gone. One that is still there changes nothing. All questions count, though a slot of llama.cpp
    keeps its last only: kvsteer's index counts them too until they are its oldest."""
    seeds = [9000000 + 100 * i for i in range(most)]
    for s in seeds:
        for q in range(QUESTIONS):
            p.ask(words, output, s, q)
    kept = 0
    for s in reversed(seeds):
        a = p.ask(words, output, s, QUESTIONS - 1)
        if a.cached_tokens < a.prompt_tokens / 2:
            return kept
        kept += words + QUESTIONS * (QUESTION_WORDS + a.output_tokens)
        realfleet.log("  kept: %d tokens" % kept)
    raise SystemExit("profile.py: all %d prompts were still in the cache; it is larger than %d tokens" % (most, kept))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("engine", choices=sorted(realfleet.ENGINES))
    ap.add_argument("--port", type=int, default=int(os.environ.get("KVSTEER_DEMO_PORT", "18000")) + 11)
    ap.add_argument("--output", help="also written here")
    args = ap.parse_args()
    realfleet.end_on_signals()
    engine = realfleet.ENGINES[args.engine]
    realfleet.install(engine)
    with realfleet.Fleet(engine, args.port, 1, os.path.join(realfleet.OUT, "profile")):
        p = Probe(engine, args.port)
        p.ask(20, 4)
        words = engine.prefix_tokens
        fixed, b, e = measure_prefill(p, [words // 4, words // 2, words])
        a, c, d = measure_decode(p, 20, words)
        kv = measure_kv(p, words, engine.output_tokens, 2 * engine.slots + 2)
    out = "\n".join([
        "# Made by tools/realfleet/profile.py %s on %s." % (engine.name, realfleet.machine()),
        "# A prefill's fixed part was %.1f ms beside the step." % ((fixed - a - c) * 1e3),
        "profile: {a_ms: %.1f, b_us: %.0f, c_us: %.0f, d_ns: %.0f, e_ns: %.0f, batch_tokens: %d, max_seqs: %d}"
        % (a * 1e3, b * 1e6, c * 1e6, d * 1e9, e * 1e9, engine.batch_tokens, engine.slots),
        "kv_tokens: %d" % kv, ""])
    sys.stdout.write(out)
    if args.output:
        with open(args.output, "w", encoding="utf-8") as f:
            f.write(out)


if __name__ == "__main__":
    main()
