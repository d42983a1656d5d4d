# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The demo's script, shortened: it must run from a fresh checkout, whatever way the build folder is named."""
import json
import os
import re
import socket
import subprocess
import time

from harness import BUILD, SLOW, ports

ROOT = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", ".."))


def test_demo_with_a_relative_build_folder():
    """`make demo` names the folder as `build`: paths in the configuration were relative to who reads them, and
    the daemon refused them. Exit 0, a table of both policies without errors, nothing left running."""
    port = ports.get(18)
    env = dict(os.environ, KVSTEER_DEMO_PORT=str(port), KVSTEER_DEMO_WARMUP="0.2", KVSTEER_DEMO_MEASURE="1",
               KVSTEER_DEMO_RATE="8")
    begin = time.time()
    r = subprocess.run(["tools/demo/demo.sh", os.path.relpath(BUILD, ROOT)], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60 * SLOW)
    assert r.returncode == 0, r.stdout[-2000:] + r.stderr[-2000:]
    head = re.search(r"^ +(\S+) +(\S+) +change$", r.stdout, re.M)
    assert head and head.groups() == ("round_robin", "cost"), r.stdout
    rows = dict(re.findall(r"^([a-zA-Z][\w ]*?\w)  +(\S.*)$", r.stdout[head.end():], re.M))
    for name in ("hit rate", "TTFT p50", "TTFT p90", "TTFT p99", "end to end p50", "end to end p99", "throughput", "requests"):
        assert re.match(r"[\d.]+ ?\S* +[\d.]+", rows[name]), rows
    assert re.fullmatch(r"0 +0", rows["errors"].strip())
    for policy in ("round_robin", "cost"):
        path = os.path.join(BUILD, "demo", policy + ".json")
        with open(path, encoding="utf-8") as f:
            result = json.load(f)
        assert os.stat(path).st_mtime >= begin - 1
        assert result["requests"] > 3 and result["errors"] == 0
        with open(os.path.join(BUILD, "demo", policy + ".yaml"), encoding="utf-8") as f:
            assert "policy: %s\n" % policy in f.read()
    for p in (port, port + 1, port + 11, port + 17):
        with socket.socket() as s:
            assert s.connect_ex(("127.0.0.1", p)) != 0
