#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Prints the results of two kvsteer-load runs beside each other.

usage: table.py BASELINE.json OTHER.json    exit 1 if a request of either failed
"""
import json
import os
import sys


def change(old, new):
    return f"{(new - old) / old * 100:+.0f} %" if old else "-"


def main():
    paths = sys.argv[1:3]
    a, b = (json.load(open(p, encoding="utf-8")) for p in paths)
    names = [os.path.splitext(os.path.basename(p))[0] for p in paths]
    rows = [("hit rate", a["hit_rate"] * 100, b["hit_rate"] * 100, "{:.1f} %", False)]
    for q in ("p50", "p90", "p99"):
        rows.append((f"TTFT {q}", a["ttft_ms"][q], b["ttft_ms"][q], "{:.1f} ms", True))
    for q in ("p50", "p99"):
        rows.append((f"end to end {q}", a["e2e_ms"][q], b["e2e_ms"][q], "{:.0f} ms", True))
    rows.append(("throughput", a["rate_rps"], b["rate_rps"], "{:.2f} /s", True))
    rows.append(("requests", a["requests"], b["requests"], "{:d}", False))
    rows.append(("errors", a["errors"], b["errors"], "{:d}", False))
    print(f"{'':16}{names[0]:>14}{names[1]:>14}{'change':>12}")
    for name, x, y, form, relative in rows:
        if relative:
            diff = change(x, y)
        elif form == "{:.1f} %":
            diff = f"{y - x:+.0f} points"
        else:
            diff = ""
        print(f"{name:16}{form.format(x):>14}{form.format(y):>14}{diff:>12}")
    for name, r in zip(names, (a, b)):
        if r["errors"]:
            print(f"{name}: {r['errors']} requests failed: {r['errors_by_reason']}", file=sys.stderr)
    return 1 if a["errors"] or b["errors"] or not a["requests"] or not b["requests"] else 0


if __name__ == "__main__":
    sys.exit(main())
