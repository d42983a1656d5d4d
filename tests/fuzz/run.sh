#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Builds every tests/fuzz/fuzz_*.c with libFuzzer, ASAN and UBSAN and runs each for T
# seconds on its seeds (tests/fuzz/seeds/NAME):  run.sh BUILD_DIR T
set -eu
B=$1 T=$2
OUT=$B/fuzz
SRC=$(ls userspace/base/*.c userspace/http/*.c userspace/prompt/*.c userspace/route/*.c userspace/config/*.c userspace/signals/*.c userspace/gateway/access_log.c)
FLAGS="-std=gnu11 -D_GNU_SOURCE -Iinclude -Iuserspace -Itools -O1 -g -fno-omit-frame-pointer -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -w"
command -v clang >/dev/null || { echo "fuzz: clang is missing: tools/deps.sh"; exit 1; }
mkdir -p "$OUT/obj"
# A header that changed changes every object: there are no dependency files here.
newest=$(find include userspace -name '*.h' -newer "$OUT/obj/stamp" 2>/dev/null | head -n 1)
[ -f "$OUT/obj/stamp" ] && [ -z "$newest" ] || rm -f "$OUT"/obj/*.o
: >"$OUT/obj/stamp"
objs=
for f in $SRC; do
	o=$OUT/obj/$(echo "$f" | tr / _).o
	[ "$o" -nt "$f" ] || clang $FLAGS -c -o "$o" "$f"
	objs="$objs $o"
done
failed=0
for f in tests/fuzz/fuzz_*.c; do
	name=$(basename "$f" .c)
	# shellcheck disable=SC2086
	clang $FLAGS -fsanitize=fuzzer,address,undefined -o "$OUT/$name" "$f" $objs -l:libllhttp.a -lyaml -lyyjson -lxxhash -lcurl -lm -lpthread
	mkdir -p "$OUT/corpus/$name"
	seeds=
	[ -d "tests/fuzz/seeds/$name" ] && seeds=tests/fuzz/seeds/$name
	echo "== $name: $T s"
	# shellcheck disable=SC2086
	"$OUT/$name" -max_total_time="$T" -timeout=10 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix="$OUT/$name-" \
		"$OUT/corpus/$name" $seeds >"$OUT/$name.log" 2>&1 || { failed=1; tail -30 "$OUT/$name.log"; }
	grep -E 'stat::number_of_executed_units|cov:' "$OUT/$name.log" | tail -2
done
exit $failed
