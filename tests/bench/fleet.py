# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""What the benchmarks share: processes that start and stop cleanly, and results with their origin."""
import contextlib
import json
import os
import platform
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

BUILD = os.environ.get("KVSTEER_BUILD", "build")
MODEL = "llama-3.1-70b"


def binary(name):
    return os.path.join(BUILD, "bin", name)


def bench_binary(name):
    return os.path.join(BUILD, "bench", "bin", name)


def wait_port(port, process, timeout=15):
    """Until something accepts connections there."""
    end = time.monotonic() + timeout
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if process.child.poll() is not None or time.monotonic() > end:
                process.stop()
                raise SystemExit(f"nothing listens on port {port}:\n" + open(process.log, encoding="utf-8").read()) from None
            time.sleep(0.02)


class Process:
    """A child with its output in a file, ready when `ready` stands in it."""

    def __init__(self, argv, log, ready=None, timeout=15, preexec=None):
        self.log = log
        self.out = open(log, "w", encoding="utf-8")
        self.child = subprocess.Popen(argv, stdout=self.out, stderr=subprocess.STDOUT, preexec_fn=preexec)
        end = time.monotonic() + timeout
        while ready and ready not in open(log, encoding="utf-8").read():
            if self.child.poll() is not None or time.monotonic() > end:
                self.stop()
                raise SystemExit(f"{argv[0]} did not start:\n" + open(log, encoding="utf-8").read())
            time.sleep(0.02)

    def stop(self):
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
            try:
                self.child.wait(40)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        self.out.close()


@contextlib.contextmanager
def running(*args, **kwargs):
    p = Process(*args, **kwargs)
    try:
        yield p
    finally:
        p.stop()


def gateway_config(port, backends, policy, extra_pool="", extra=""):
    lines = "\n".join(f"      - url: http://{b}" for b in backends)
    return f"""listeners: [{{address: "127.0.0.1:{port}"}}]
admin: {{address: "127.0.0.1:{port + 1}", socket: {tempfile.gettempdir()}/kvsteer-bench-{port}.sock}}
log: {{access: off}}
{extra}pools:
  - name: bench
    models: [{MODEL}]
    policy: {policy}
{extra_pool}    backends:
{lines}
"""


@contextlib.contextmanager
def gateway(workdir, port, backends, policy, extra_pool="", extra=""):
    path = os.path.join(workdir, f"kvsteer-{port}.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(gateway_config(port, backends, policy, extra_pool, extra))
    with running([binary("kvsteerd"), "-c", path], path + ".log", ready="event=started") as p:
        yield p


@contextlib.contextmanager
def simulator(workdir, port, nodes, *flags):
    argv = [binary("kvsteer-gpusim"), "--nodes", str(nodes), "--port", str(port), "--model", MODEL, *flags]
    with running(argv, os.path.join(workdir, f"gpusim-{port}.log"), ready="ready") as p:
        yield p


def load(url, *flags):
    """One kvsteer-load run: its JSON."""
    with tempfile.NamedTemporaryFile(suffix=".json") as f:
        subprocess.run([binary("kvsteer-load"), "--url", url, "--model", MODEL, *flags, "--json", f.name],
                       check=True, stdout=subprocess.DEVNULL, stderr=sys.stderr)
        return json.load(open(f.name, encoding="utf-8"))


def metrics(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as r:
        return r.read().decode()


def median(values):
    return statistics.median(values)


def spread(values):
    return [min(values), max(values)]


def output_of(*argv):
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip()
    except OSError:
        return "missing"


def save(name, rows, **more):
    """build/bench/NAME.json: the figures with where they come from."""
    os.makedirs(os.path.join(BUILD, "bench"), exist_ok=True)
    doc = {
        "name": name,
        "commit": output_of("git", "rev-parse", "--short", "HEAD"),
        "dirty": bool(output_of("git", "status", "--porcelain", "-uno")),
        "kernel": platform.release(),
        "cores": os.cpu_count(),
        "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        **more,
        "rows": rows,
    }
    path = os.path.join(BUILD, "bench", name + ".json")
    with open(path, "w", encoding="utf-8") as f:
        json.dump(doc, f, indent=1)
        f.write("\n")
    print(f"\nwritten: {path}")
