#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
"""llama.cpp's own HTTP server out of the xllamacpp wheel, with llama-server's flags.

The wheel holds the server's C++ code built for any x86-64 with AVX2. Wheels of the
llama-server binary exist too, but those are built for the machine that built them and
die by SIGILL on others. SIGTERM stops it as it stops llama-server: the listener goes,
streams stall.

usage: llama_server.py -m MODEL [--alias NAME] [--host H] [--port P] [-t N] [-tb N] [-c N]
                       [-np N] [--kv-unified] [--swa-full] [--cache-ram MIB] [--metrics] [--slots]
                       [--no-warmup] [--sse-ping-interval S] [--api-key KEY] [-s SEED]
"""
import argparse
import os
import signal
import sys
import threading

import xllamacpp


def arguments():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("-m", "--model", required=True)
    ap.add_argument("--alias", default="")
    ap.add_argument("--host", default="127.0.0.1")
    ap.add_argument("--port", type=int, default=8080)
    ap.add_argument("-t", "--threads", type=int, default=1)
    ap.add_argument("-tb", "--threads-batch", type=int)
    ap.add_argument("-c", "--ctx-size", type=int, default=0)
    ap.add_argument("-b", "--batch-size", type=int, default=2048)
    ap.add_argument("-ub", "--ubatch-size", type=int, default=512)
    ap.add_argument("-np", "--parallel", type=int, default=1)
    ap.add_argument("--kv-unified", action="store_true")
    ap.add_argument("--swa-full", action="store_true")
    ap.add_argument("--cache-ram", type=int, default=8192, help="MiB")
    ap.add_argument("--metrics", action="store_true")
    ap.add_argument("--slots", action="store_true")
    ap.add_argument("--no-warmup", action="store_true")
    ap.add_argument("--sse-ping-interval", type=int, default=30)
    ap.add_argument("--api-key")
    ap.add_argument("-s", "--seed", type=int)
    return ap.parse_args()


def parameters(a):
    p = xllamacpp.CommonParams()
    p.model.path = a.model
    if a.alias:
        p.model_alias = {a.alias}
    p.hostnames = [a.host]
    p.port = a.port
    p.cpuparams.n_threads = a.threads
    p.cpuparams_batch.n_threads = a.threads_batch or a.threads
    p.n_ctx, p.n_batch, p.n_ubatch, p.n_parallel = a.ctx_size, a.batch_size, a.ubatch_size, a.parallel
    p.kv_unified, p.swa_full, p.cache_ram_mib = a.kv_unified, a.swa_full, a.cache_ram
    # Kept prompts of idle slots go to host memory: without that memory they stay in their slots.
    p.cache_idle_slots = a.cache_ram != 0
    p.endpoint_metrics, p.endpoint_slots = a.metrics, a.slots
    p.warmup = not a.no_warmup
    p.sse_ping_interval = a.sse_ping_interval
    if a.api_key:
        p.api_keys = [a.api_key]
    if a.seed is not None:
        p.sampling.seed = a.seed
    p.n_gpu_layers = 0
    return p


def main():
    stop = threading.Event()
    for s in (signal.SIGTERM, signal.SIGINT):
        signal.signal(s, lambda *_: stop.set())
    server = xllamacpp.Server(parameters(arguments()))
    print("listening on", server.listening_address, flush=True)
    stop.wait()
    del server
    # Whatever threads it has left: nothing of them is to be waited for.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
