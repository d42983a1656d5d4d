# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""The proxies that the benchmark compares: how each is configured and started, and what it uses."""
import os
import shutil
import subprocess

import fleet

BACKENDS = 8


def pin(core):
    """For a child: its threads run on that core alone, where there is more than one."""
    def set_affinity():
        if os.cpu_count() > 1:
            os.sched_setaffinity(0, {core % os.cpu_count()})
    return set_affinity


def tree(pid):
    """pid and its descendants."""
    pids = [pid]
    for p in pids:
        try:
            for t in os.listdir(f"/proc/{p}/task"):
                with open(f"/proc/{p}/task/{t}/children", encoding="ascii") as f:
                    pids += [int(c) for c in f.read().split()]
        except OSError:
            pass
    return pids


def cpu_ns(pid):
    """Time on a CPU of every thread of the process and of its children, by the scheduler's own account."""
    total = 0
    for p in tree(pid):
        for t in os.listdir(f"/proc/{p}/task"):
            with open(f"/proc/{p}/task/{t}/schedstat", encoding="ascii") as f:
                total += int(f.read().split()[0])
    return total


def rss_bytes(pid, key="VmRSS:"):
    total = 0
    for p in tree(pid):
        with open(f"/proc/{p}/status", encoding="ascii") as f:
            total += sum(int(line.split()[1]) * 1024 for line in f if line.startswith(key))
    return total


HAPROXY = """global
  nbthread 1
  maxconn 9500
defaults
  mode http
  option http-no-delay
  http-reuse always
  timeout connect 5s
  timeout client 300s
  timeout server 300s
frontend f
  bind 127.0.0.1:{port}
  default_backend b
backend b
  balance roundrobin
{servers}
"""

NGINX = """daemon off;
worker_processes 1;
pid {dir}/nginx.pid;
error_log {dir}/nginx.err;
worker_rlimit_nofile 20000;
events {{ worker_connections 15000; }}
http {{
  access_log off;
  keepalive_requests 1000000000;
  client_max_body_size 128m;
  client_body_temp_path {dir}/body;
  proxy_temp_path {dir}/proxy;
  fastcgi_temp_path {dir}/fastcgi;
  uwsgi_temp_path {dir}/uwsgi;
  scgi_temp_path {dir}/scgi;
  upstream b {{
{servers}
    keepalive 256;
    keepalive_requests 1000000000;
  }}
  server {{
    listen 127.0.0.1:{port} backlog=4096;
    tcp_nodelay on;
    location / {{
      proxy_pass http://b;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
      proxy_request_buffering off;
      proxy_read_timeout 300s;
    }}
  }}
}}
"""


class Proxy:
    """name, the port it listens on, and its process while it runs."""

    def __init__(self, name, port, backend_port, tool=None, version=""):
        self.name, self.port, self.backend_port = name, port, backend_port
        self.tool, self.version = tool, version
        self.process = None

    @property
    def pid(self):
        return self.process.child.pid

    def _write(self, work, name, text):
        path = os.path.join(work, name)
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        return path

    def start(self, work, core):
        ports = [self.backend_port + i for i in range(BACKENDS)]
        log, ready = os.path.join(work, self.name + ".log"), None
        if self.name == "haproxy":
            servers = "\n".join(f"  server s{p} 127.0.0.1:{p}" for p in ports)
            argv = [self.tool, "-db", "-f", self._write(work, "haproxy.cfg", HAPROXY.format(port=self.port, servers=servers))]
        elif self.name == "nginx":
            servers = "\n".join(f"    server 127.0.0.1:{p};" for p in ports)
            argv = [self.tool, "-p", work, "-c",
                    self._write(work, "nginx.conf", NGINX.format(port=self.port, servers=servers, dir=work))]
        elif self.name == "kvsteer":
            text = fleet.gateway_config(self.port, [f"127.0.0.1:{p}" for p in ports], "cost",
                                        extra_pool="    concurrency_threshold: 1024\n", extra="workers: 1\n")
            argv, ready = [self.tool, "-c", self._write(work, "kvsteer.yaml", text)], "event=started"
        else:
            argv, ready = [self.tool, "--port", str(self.port), "--to", str(ports[0]), "--ports", str(BACKENDS)], "ready"
        self.process = fleet.Process(argv, log, ready, preexec=pin(core))
        fleet.wait_port(self.port, self.process)

    def stop(self):
        if self.process:
            self.process.stop()
            self.process = None


def first_line(*argv):
    r = subprocess.run(argv, capture_output=True, text=True, check=False)
    return (r.stdout + r.stderr).strip().splitlines()[0]


def find(name, *places):
    return shutil.which(name) or next((p for p in places if os.access(p, os.X_OK)), None)


def all_proxies(first_port, backend_port):
    """The proxies that are here, and the names of the peers that are not."""
    here = [Proxy("kvsteer", first_port, backend_port, fleet.binary("kvsteerd"), first_line(fleet.binary("kvsteerd"), "--version")),
            Proxy("mini_proxy", first_port + 4, backend_port, fleet.bench_binary("mini_proxy"))]
    missing = []
    for i, name in enumerate(("haproxy", "nginx")):
        tool = find(name, f"/usr/sbin/{name}", f"/usr/local/sbin/{name}")
        if tool:
            here.insert(1, Proxy(name, first_port + 2 + i, backend_port, tool, first_line(tool, "-v")))
        else:
            missing.append(name)
    return here, missing
