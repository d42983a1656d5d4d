# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""A fleet of real engines on this machine: started, waited for, asked, and ended by process id."""
import dataclasses
import http.client
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
OUT = os.path.join(ROOT, "build", "realfleet")


@dataclasses.dataclass(frozen=True)
class Engine:
    """How one kind of engine is started here, and the fleet that the demo makes of it."""
    name: str
    model: str              # what requests ask for
    python: str
    slots: int              # requests that a server works on at a time
    batch_tokens: int       # of a step, at most
    block_tokens: int       # granularity of its cache
    start_s: float          # until it is ready, at most
    nodes: int
    # The demo's load, in kvsteer-load's terms: 4 bytes a token, which real tokenizers
    # cut into two or more, as the words are random letters. All prefixes are equally
    # popular and clients are few: two requests of one prefix at a time are two slots of
    # llama.cpp, each computing the prompt anew.
    prefixes: int
    prefix_tokens: int
    question_tokens: int
    output_tokens: int
    concurrency: int
    warmup_requests: int    # counted in requests, as machines differ: enough that every prefix was seen
    requests: int

    def argv(self, port):
        raise NotImplementedError

    def env(self):
        return {}


class LlamaCpp(Engine):
    def argv(self, port):
        # ENGINE, MODEL: the user's own llama-server and GGUF file.
        own = os.environ.get("ENGINE")
        model = os.environ.get("MODEL") or os.path.join(OUT, "gemma3-270m-q4_k_m.gguf")
        return [*([own] if own else [self.python, os.path.join(HERE, "llama_server.py")]),
                "-m", model, "--alias", self.model, "--host", "127.0.0.1", "--port", str(port), "-t", "1", "-tb", "1",
                "-c", "8192", "-np", str(self.slots), "--kv-unified", "--swa-full", "--cache-ram", "0",
                "--metrics", "--slots", "--no-warmup"]


class Vllm(Engine):
    def argv(self, port):
        model = os.environ.get("MODEL") or os.path.join(OUT, "tiny")
        weights = [] if os.environ.get("MODEL") else ["--load-format", "dummy"]
        # 352 blocks of 32 tokens: room for three or four of the nine prompts of the demo.
        return [os.environ.get("ENGINE") or self.python, "-m", "vllm.entrypoints.openai.api_server",
                "--model", model, "--served-model-name", self.model, *weights, "--dtype", "bfloat16",
                "--max-model-len", "4096", "--max-num-seqs", str(self.slots),
                "--max-num-batched-tokens", str(self.batch_tokens), "--enforce-eager",
                "--block-size", str(self.block_tokens), "--num-gpu-blocks-override", "352",
                "--host", "127.0.0.1", "--port", str(port), "--enable-prompt-tokens-details"]

    def env(self):
        return {"HF_HUB_OFFLINE": "1", "VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
                "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
                "VLLM_SERVER_DEV_MODE": "1"}


ENGINES = {
    "llamacpp": LlamaCpp("llamacpp", "gemma3-270m", os.path.join(ROOT, "build", "realfleet-venv", "bin", "python"),
                         slots=8, batch_tokens=2048, block_tokens=1, start_s=60, nodes=3, prefixes=20, prefix_tokens=120,
                         question_tokens=8, output_tokens=8, concurrency=2, warmup_requests=40, requests=30),
    "vllm": Vllm("vllm", "tiny", os.path.join(ROOT, "build", "realfleet-venv-vllm", "bin", "python"),
                 slots=8, batch_tokens=2048, block_tokens=32, start_s=300, nodes=3, prefixes=9, prefix_tokens=1000,
                 question_tokens=8, output_tokens=8, concurrency=2, warmup_requests=20, requests=40),
}


def install(engine):
    """Once; with ENGINE and MODEL given there is nothing to install."""
    if not (os.environ.get("ENGINE") and os.environ.get("MODEL")):
        subprocess.run(["sh", os.path.join(HERE, "install.sh"), engine.name], check=True)


def end_on_signals():
    """SIGTERM as an exception, so that what was started is ended on the way out."""
    def leave(number, _frame):
        raise SystemExit(128 + number)
    signal.signal(signal.SIGTERM, leave)


def fetch(port, path, timeout=5):
    """(status, body) of a GET."""
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        c.request("GET", path)
        r = c.getresponse()
        return r.status, r.read()
    finally:
        c.close()


class Server:
    """One engine process. It leads a session of its own, so that its children end with it."""

    def __init__(self, engine, port, log):
        self.engine, self.port, self.log = engine, port, log
        self.child = None

    def start(self):
        with open(self.log, "ab") as out:
            self.child = subprocess.Popen(self.engine.argv(self.port), stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                          env={**os.environ, **self.engine.env()}, start_new_session=True)
        return self

    def wait_ready(self):
        end = time.monotonic() + self.engine.start_s
        while True:
            try:
                if fetch(self.port, "/health")[0] == 200:
                    return self
            except (OSError, http.client.HTTPException):
                pass
            if self.child.poll() is not None or time.monotonic() > end:
                with open(self.log, errors="replace") as f:
                    tail = f.read()[-3000:]
                raise RuntimeError("%s on port %d did not start (exit code %s):\n%s"
                                   % (self.engine.name, self.port, self.child.poll(), tail))
            time.sleep(0.05)

    def kill(self, number):
        """To the whole process group; no error if it has gone."""
        try:
            os.killpg(self.child.pid, number)
        except ProcessLookupError:
            pass

    def stop(self, number=signal.SIGTERM, timeout=10):
        if not self.child:
            return
        self.kill(number)
        try:
            self.child.wait(timeout)
        except subprocess.TimeoutExpired:
            pass
        self.kill(signal.SIGKILL)
        self.child.wait()
        self.child = None


class Fleet:
    """`with Fleet(engine, port, n, dir) as f:` n ready servers at port, port + 1, ..."""

    def __init__(self, engine, port, nodes, log_dir):
        os.makedirs(log_dir, exist_ok=True)
        self.engine = engine
        self.servers = [Server(engine, port + i, os.path.join(log_dir, "%s-%d.log" % (engine.name, port + i)))
                        for i in range(nodes)]

    def __enter__(self):
        try:
            for s in self.servers:
                s.start()
            for s in self.servers:
                s.wait_ready()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        for s in self.servers:
            if s.child:
                s.kill(signal.SIGTERM)
        for s in self.servers:
            s.stop()

    def urls(self):
        return ["http://127.0.0.1:%d" % s.port for s in self.servers]


@dataclasses.dataclass
class Answer:
    """What a client saw of one streamed answer."""
    ttft_s: float
    gaps_s: list            # between events with text
    prompt_tokens: int
    cached_tokens: int
    output_tokens: int
    backend: str


def ask(port, model, prefix, question, max_tokens, timeout=120):
    """One streamed chat completion, its lengths as the engine counts them. Raises on anything but a whole answer."""
    body = {"model": model, "stream": True, "stream_options": {"include_usage": True}, "ignore_eos": True,
            "max_tokens": max_tokens, "messages": [{"role": "system", "content": prefix},
                                                   {"role": "user", "content": question}]}
    c = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    stamps, usage, done = [], None, False
    try:
        began = time.monotonic()
        c.request("POST", "/v1/chat/completions", json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        if r.status != 200:
            raise RuntimeError("status %d: %r" % (r.status, r.read()[:300]))
        for line in r:
            if not line.startswith(b"data: "):
                continue
            if line.startswith(b"data: [DONE]"):
                done = True
                break
            event = json.loads(line[6:])
            usage = event.get("usage") or usage
            if event.get("choices"):
                stamps.append(time.monotonic())
    finally:
        c.close()
    if not done or not usage or not stamps:
        raise RuntimeError("the answer was cut short")
    details = usage.get("prompt_tokens_details") or {}
    return Answer(stamps[0] - began, [b - a for a, b in zip(stamps, stamps[1:])], usage["prompt_tokens"],
                  details.get("cached_tokens") or 0, usage["completion_tokens"], r.getheader("x-kvsteer-backend", ""))


def machine():
    """What the figures were measured on."""
    model = "?"
    with open("/proc/cpuinfo") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    with open("/proc/meminfo") as f:
        gib = int(f.readline().split()[1]) / 2**20
    return "%d cores of %s, %.0f GiB, Linux %s" % (os.cpu_count(), model, gib, os.uname().release)


def log(text):
    print(text, file=sys.stderr, flush=True)
