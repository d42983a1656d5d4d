# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""Starts the real programs and waits on conditions, never on the clock."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

import yaml

BUILD = os.environ.get("KVSTEER_BUILD") or os.path.join(os.path.dirname(__file__), "..", "..", "build")
# Builds with sanitizers are slower by about this factor; limits are multiplied by it.
SLOW = float(os.environ.get("KVSTEER_TEST_SLOW", "1"))


def binary(name):
    path = os.path.join(BUILD, "bin", name)
    assert os.access(path, os.X_OK), "%s is not built" % path
    return path


class Ports:
    """Ports below the ephemeral range, so that no outgoing connection takes one meanwhile."""

    def __init__(self):
        low, high = os.environ.get("KVSTEER_TEST_PORTS", "23000-23999").split("-")
        self.low, self.high = int(low), int(high)
        self.next = self.low + (os.getpid() * 37) % (self.high - self.low)
        self.lock = threading.Lock()

    def _try(self, port):
        with socket.socket() as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                s.bind(("127.0.0.1", port))
                return True
            except OSError:
                return False

    def get(self, n=1):
        """The first of n consecutive free ports."""
        with self.lock:
            for _ in range(self.low, self.high):
                first, self.next = self.next, self.next + n
                if self.next > self.high:
                    self.next = self.low
                    continue
                if all(self._try(first + i) for i in range(n)):
                    return first
        raise AssertionError("no free ports in %d-%d" % (self.low, self.high))


ports = Ports()


def wait_until(condition, timeout=5.0, what="condition", every=0.005):
    """Waits until condition() is true and returns its value. An AssertionError that it
    raises last is the reason reported."""
    end = time.monotonic() + timeout * SLOW
    last = None
    while True:
        try:
            value = condition()
            if value:
                return value
            last = None
        except (AssertionError, OSError, http.client.HTTPException) as e:
            last = e
        if time.monotonic() >= end:
            raise AssertionError("waited %.1f s for: %s%s" % (timeout * SLOW, what, " (%r)" % last if last else ""))
        time.sleep(every)


def best_of(attempts, measure, limit, what):
    """A claim about time, on a machine that others use too: measure() must stay below
    `limit` seconds once in a few attempts. A fault stays above it every time."""
    seen = []
    for _ in range(attempts):
        seen.append(measure())
        if seen[-1] < limit * SLOW:
            return seen[-1]
    raise AssertionError("%s: took %s s, limit %.3f s" % (what, ["%.3f" % s for s in seen], limit * SLOW))


class Process:
    def __init__(self, argv, log_dir, name, env=None):
        self.name = name
        self.out_path = os.path.join(log_dir, name + ".out")
        self.err_path = os.path.join(log_dir, name + ".err")
        with open(self.out_path, "wb") as out, open(self.err_path, "wb") as err:
            self.popen = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=env)

    @property
    def pid(self):
        return self.popen.pid

    def stdout(self):
        with open(self.out_path, errors="replace") as f:
            return f.read()

    def stderr(self):
        with open(self.err_path, errors="replace") as f:
            return f.read()

    def alive(self):
        return self.popen.poll() is None

    def check_alive(self):
        assert self.alive(), "%s ended with %r:\n%s" % (self.name, self.popen.returncode, self.stderr()[-4000:])

    def wait(self, timeout):
        try:
            return self.popen.wait(timeout * SLOW)
        except subprocess.TimeoutExpired:
            raise AssertionError("%s (pid %d) has not ended after %.1f s:\n%s"
                                 % (self.name, self.pid, timeout * SLOW, self.stderr()[-4000:])) from None

    def kill(self):
        if self.alive():
            self.popen.kill()
            self.popen.wait()

    def rss_bytes(self, peak=False):
        key = "VmHWM:" if peak else "VmRSS:"
        with open("/proc/%d/status" % self.pid) as f:
            for line in f:
                if line.startswith(key):
                    return int(line.split()[1]) * 1024
        raise AssertionError("no " + key)


class Sim(Process):
    """kvsteer-gpusim: node i listens on port + i."""

    def __init__(self, log_dir, nodes=1, model="m", name="gpusim", args=()):
        self.nodes = nodes
        self.port = ports.get(nodes)
        super().__init__([binary("kvsteer-gpusim"), "--nodes", str(nodes), "--port", str(self.port), "--model", model,
                          *map(str, args)], log_dir, name)
        wait_until(self._ready, 10, "gpusim ready")

    def _ready(self):
        self.check_alive()
        return self.stdout().count("\n") >= 1

    def urls(self):
        return ["http://127.0.0.1:%d" % (self.port + i) for i in range(self.nodes)]

    def node_metrics(self, node=0):
        return Metrics(fetch(self.port + node, "/metrics")[1].decode())


class Metrics:
    """A page of Prometheus text as {(name, labels): value}."""

    LINE = re.compile(r'^([a-zA-Z_:][\w:]*)(?:\{(.*)\})? (\S+)$')
    LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')

    def __init__(self, text):
        self.text = text
        self.series = []
        for line in text.splitlines():
            if not line or line.startswith("#"):
                continue
            m = self.LINE.match(line)
            assert m, "not a line of Prometheus text: %r" % line
            self.series.append((m.group(1), dict(self.LABEL.findall(m.group(2) or "")), float(m.group(3))))

    def sum(self, name, **labels):
        return sum(v for n, have, v in self.series
                   if n == name and all(have.get(k) == str(w) for k, w in labels.items()))

    def values(self, name, **labels):
        return [v for n, have, v in self.series
                if n == name and all(have.get(k) == str(w) for k, w in labels.items())]


def fetch(port, path, method="GET", body=None, headers=None, timeout=10):
    """One request over a fresh connection: (status, body, headers in lower case)."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout * SLOW)
    try:
        c.request(method, path, body=body, headers=headers or {})
        r = c.getresponse()
        return r.status, r.read(), {k.lower(): v for k, v in r.getheaders()}
    finally:
        c.close()


class Router(Process):
    """kvsteerd with a configuration of its own. `config` is completed with a listener,
    an admin address and socket, and an access log."""

    def __init__(self, log_dir, config, ready=True, name="kvsteerd"):
        self.dir = log_dir
        self.port = ports.get()
        self.admin_port = ports.get()
        # A Unix socket's name is short: not below pytest's directories.
        self.socket_dir = tempfile.mkdtemp(prefix="kvs")
        self.socket = os.path.join(self.socket_dir, "admin.sock")
        self.access_path = os.path.join(log_dir, name + ".access")
        self.config_path = os.path.join(log_dir, name + ".yaml")
        self.write_config(config)
        env = dict(os.environ)
        for k in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
            env.pop(k, None)
        super().__init__([binary("kvsteerd"), "-c", self.config_path], log_dir, name, env)
        self.stopped = False
        try:
            wait_until(lambda: self._up(ready), 10, "%s up" % name)
        except AssertionError:
            self.kill()
            raise

    def write_config(self, config):
        cfg = {
            "listeners": [{"address": "127.0.0.1:%d" % self.port}],
            "admin": {"address": "127.0.0.1:%d" % self.admin_port, "socket": self.socket},
            "log": {"access": self.access_path},
            "bpf": {"instance": "test-%d" % self.port},
        }
        # The same tests over either datapath: KVSTEER_DATAPATH=splice|relay.
        if os.environ.get("KVSTEER_DATAPATH"):
            cfg["datapath"] = os.environ["KVSTEER_DATAPATH"]
        for key, value in config.items():
            if isinstance(value, dict) and isinstance(cfg.get(key), dict):
                cfg[key].update(value)
            else:
                cfg[key] = value
        with open(self.config_path + ".new", "w") as f:
            yaml.safe_dump(cfg, f, sort_keys=False)
        os.rename(self.config_path + ".new", self.config_path)

    def _up(self, ready):
        self.check_alive()
        return fetch(self.admin_port, "/readyz" if ready else "/healthz", timeout=2)[0] == 200

    # ---- looking in ----

    def metrics(self):
        status, body, _ = fetch(self.admin_port, "/metrics")
        assert status == 200
        return Metrics(body.decode())

    def ctl(self, *args, check=True):
        r = subprocess.run([binary("kvsteerctl"), "-s", self.socket, *args], stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=20 * SLOW, text=True)
        if check:
            assert r.returncode == 0, "kvsteerctl %s: %d %s%s" % (args, r.returncode, r.stdout, r.stderr)
        return r

    def status(self):
        return json.loads(self.ctl("-j", "status").stdout)

    def backends(self):
        """{name: row} of all pools."""
        return {b["name"]: b for p in self.status()["pools"] for b in p["backends"]}

    def in_flight(self):
        return sum(self.metrics().values("kvsteer_in_flight"))

    def wait_in_flight(self, n, timeout=5):
        return wait_until(lambda: self.in_flight() == n, timeout, "%d in flight" % n)

    def access_lines(self):
        try:
            with open(self.access_path, errors="replace") as f:
                return f.read().splitlines()
        except FileNotFoundError:
            return []

    def wait_access(self, *needles, timeout=5):
        """The first access log line that holds all of `needles`."""
        def find():
            for line in self.access_lines():
                if all(n in line for n in needles):
                    return line
            return None
        return wait_until(find, timeout, "access log line with %r" % (needles,))

    # ---- ending ----

    def reload(self, config):
        self.write_config(config)
        self.ctl("reload")

    def terminate(self):
        self.popen.send_signal(signal.SIGTERM)

    def check_idle(self):
        """No request is accounted for any more: not in the metrics, not in the table, not in the ledger."""
        def idle():
            m = self.metrics()
            flying = m.values("kvsteer_in_flight")
            assert flying and all(v == 0 for v in flying), "in_flight %r" % flying
            assert m.sum("kvsteer_queue_length") == 0, "queue not empty"
            assert m.sum("kvsteer_flows") == 0, "flows"
            assert m.sum("kvsteer_splice_sweep_rescued_total") == 0, "an event of the kernel datapath was missed"
            s = self.status()
            assert all(b["in_flight"] == 0 for p in s["pools"] for b in p["backends"]), s
            assert s["ledger"] == {"live_slots": 0, "in_flight": 0, "refused_releases": 0}, s["ledger"]
            return True
        wait_until(idle, 5, "nothing in flight")

    def stop(self, timeout=10):
        """SIGTERM, and everything that must hold at the end of any test."""
        if self.stopped:
            return
        self.stopped = True
        try:
            self.check_alive()
            self.check_idle()
            self.terminate()
            code = self.wait(timeout)
            assert code == 0, "%s exited with %r:\n%s" % (self.name, code, self.stderr()[-4000:])
        finally:
            self.kill()
            shutil.rmtree(self.socket_dir, ignore_errors=True)
        err = self.stderr()
        assert "Sanitizer" not in err and "runtime error" not in err, err[-4000:]


def pool(urls, name="p", **more):
    """A pool of these backends, as the configuration has it."""
    cfg = {"name": name, "backends": [u if isinstance(u, dict) else {"url": u} for u in urls]}
    cfg.update(more)
    return cfg


def chat_body(text="hello", model="m", stream=False, max_tokens=4, **more):
    body = {"model": model, "messages": [{"role": "user", "content": text}], "max_tokens": max_tokens}
    if stream:
        body["stream"] = True
    body.update(more)
    return json.dumps(body).encode()
