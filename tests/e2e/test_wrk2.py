# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The wrk2 scripts: other tools must measure the same thing as kvsteer-load."""
import json
import os
import re
import shutil
import subprocess

import pytest

from harness import SLOW, binary

SCRIPTS = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "wrk2")


def wrk(url, workload, *args, threads=1):
    path = shutil.which("wrk")
    assert path, "wrk is missing: tools/deps.sh installs it"
    out = subprocess.run([path, "-t%d" % threads, "-c%d" % threads, "-d1s", "-s", os.path.join(SCRIPTS, workload + ".lua"), url, "--",
                          "m", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=30 * SLOW)
    assert out.returncode == 0, out.stderr
    return json.loads(re.search(r"^kvsteer (\{.*\})$", out.stdout, re.M).group(1))


def bodies(b):
    return [re.sub(rb'"max_tokens":\d+', b'"max_tokens":1', q.body) for q in b.requests]


@pytest.mark.parametrize("workload", ["support", "long8k"])
def test_same_bytes_as_kvsteer_load(backend, workload):
    """The same seed, the same bytes in the same order; wrk takes the first prompt for itself."""
    a, b = backend(), backend()
    subprocess.run([binary("kvsteer-load"), "--url", a.url, "--model", "m", "--workload", workload, "--stream", "0",
                    "--concurrency", "1", "--requests", "20", "--seed", "5"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   timeout=30 * SLOW, check=True)
    report = wrk(b.url, workload, "5")
    want, got = bodies(a)[1:], bodies(b)
    n = min(len(want), len(got))
    assert n >= 10 and got[:n] == want[:n]
    assert report["requests"] >= 10 and sum(report["errors"].values()) == 0 and report["latency_ms"]["p50"] > 0


def prompts(b):
    return [[m["content"] for m in json.loads(q.body)["messages"]] for q in b.requests]


def test_threads_and_runs_share_prefixes_and_nothing_else(backend):
    """Two threads, two runs: the same thousand prefixes, no question twice."""
    a, b = backend(), backend()
    for run in ("0", "1"):
        wrk(a.url, "support", "5", run, threads=2)
    wrk(b.url, "support", "6")
    seen = prompts(a)
    questions = [p[1] for p in seen]
    prefixes = {p[0] for p in seen}
    assert len(seen) > 100 and len(set(questions)) == len(questions)
    assert len(prefixes) < len(seen) and all(len(p) == 3008 * 4 for p in prefixes)
    assert not prefixes & {p[0] for p in prompts(b)} # another seed, other prefixes


def test_conversations_grow(backend):
    """chat: each turn repeats its conversation so far, an answer and a question are added."""
    b = backend()
    wrk(b.url, "chat", "5")
    seen = {tuple(p) for p in prompts(b)}
    later = [p for p in seen if len(p) > 2]
    assert len(later) > 20 and all(len(p) % 2 == 0 for p in seen)
    # what a turn repeats had been sent, but for the one that wrk took for itself
    missing = [p for p in later if p[:-2] not in seen]
    assert len(missing) <= 1, len(missing)
