#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# The main job, on one machine without GPUs: the same load on the same seven
# simulated nodes, first round-robin, then by predicted cost, each on a cold
# fleet. Prints one table. Exits 1 if a request failed.
#
#   tools/demo/demo.sh [BUILD_DIR]
#
# KVSTEER_DEMO_PORT=18000 moves the ports; KVSTEER_DEMO_WARMUP, _MEASURE (seconds) and
# _RATE (requests/s) make it shorter or lighter, for a look: the table says something
# about the policies with the defaults only.
set -eu

B=${1:-build}
BIN=$B/bin
PORT=${KVSTEER_DEMO_PORT:-18000}
OUT=$(mkdir -p "$B/demo" && cd "$B/demo" && pwd)
MODEL=llama-3.1-70b
NODES=7
# 7 nodes of 72,000 tokens hold about a quarter of these prompts each: round-robin
# computes three of four prompts anew and is just below its capacity.
PREFIXES=110 PREFIX_TOKENS=2800 KV_TOKENS=72000 RATE=${KVSTEER_DEMO_RATE:-24}
WARMUP=${KVSTEER_DEMO_WARMUP:-8} MEASURE=${KVSTEER_DEMO_MEASURE:-22}

mkdir -p "$OUT"
pids=
cleanup() {
	for p in $pids; do kill "$p" 2>/dev/null || :; done
	for p in $pids; do wait "$p" 2>/dev/null || :; done
	pids=
}
trap cleanup EXIT
trap 'exit 130' INT TERM

wait_for() { # a condition, at most 10 s
	n=0
	until "$@" >/dev/null 2>&1; do
		n=$((n + 1))
		[ $n -lt 100 ] || { echo "demo: gave up waiting for: $*" >&2; return 1; }
		sleep 0.1
	done
}

config() { # POLICY
	cat <<-YAML
		# One pool of seven nodes; everything not named here has its default
		# (see docs/configuration.md).
		listeners:
		  - address: 127.0.0.1:$PORT
		admin:
		  address: 127.0.0.1:$((PORT + 1))
		  socket: $OUT/admin.sock
		log: {access: $OUT/access-$1.log}
		pools:
		  - name: llama
		    models: [$MODEL]
		    policy: $1
		    kv_tokens: $KV_TOKENS
		    backends:
	YAML
	i=1
	while [ $i -le $NODES ]; do
		echo "      - url: http://127.0.0.1:$((PORT + 10 + i))"
		i=$((i + 1))
	done
}

run() { # POLICY
	config "$1" >"$OUT/$1.yaml"
	rm -f "$OUT/access-$1.log"
	"$BIN/kvsteer-gpusim" --nodes $NODES --port $((PORT + 11)) --model $MODEL --kv-tokens $KV_TOKENS >"$OUT/gpusim-$1.log" 2>&1 &
	pids="$pids $!"
	wait_for grep -q ready "$OUT/gpusim-$1.log" || { cat "$OUT/gpusim-$1.log" >&2; exit 1; }
	"$BIN/kvsteerd" -c "$OUT/$1.yaml" >"$OUT/kvsteerd-$1.log" 2>&1 &
	pids="$pids $!"
	wait_for grep -q event=started "$OUT/kvsteerd-$1.log" || { cat "$OUT/kvsteerd-$1.log" >&2; exit 1; }
	echo
	echo "== $1: $NODES cold nodes, $PREFIXES prefixes of $PREFIX_TOKENS tokens, $RATE requests/s, $WARMUP s warm-up, $MEASURE s measured"
	"$BIN/kvsteer-load" --url "http://127.0.0.1:$PORT" --model $MODEL --workload support --rate $RATE --poisson \
		--warmup $WARMUP --duration $MEASURE --prefixes $PREFIXES --prefix-tokens $PREFIX_TOKENS \
		--seed 1 --json "$OUT/$1.json"
	cleanup
}

run round_robin
run cost
echo
python3 tools/demo/table.py "$OUT/round_robin.json" "$OUT/cost.json" || failed=1
cat <<EOT

What ran: $OUT/cost.yaml (the whole configuration), logs and results beside it.
Your own fleet: replace the backends by your vLLM servers, e.g.
    pools:
      - name: llama
        models: [your-model-name]
        backends: ["http://10.0.0.1:8000", "http://10.0.0.2:8000"]
  start vLLM with --enable-prompt-tokens-details to see real hits, then
    $BIN/kvsteerd --check -c kvsteer.yaml && $BIN/kvsteerd -c kvsteer.yaml
  and point any OpenAI client at it: base_url http://GATEWAY:8080/v1
Metrics: http://127.0.0.1:9090/metrics (Prometheus), http://127.0.0.1:9090/ (a page);
  $BIN/kvsteerctl status; $BIN/kvsteerctl route explain REQUEST.json
EOT
exit ${failed:-0}
