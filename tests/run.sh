#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Runs the tests of a built tree and says, last, `N passed, N failed, N skipped`.
#
#   tests/run.sh unit|e2e|all BUILD_DIR [pytest arguments]
#
# unit: every cmocka program below BUILD_DIR/tests. e2e: tests/e2e with pytest,
# in an environment of its own (build/venv, from tests/e2e/requirements.txt).
# An end-to-end test that fails is run once more, since many of them race against
# a busy machine: what passes then is named RERUN in the summary, and is a bug to find.
# A skip that tests/allowed-skips.txt does not list counts as a failure, and so
# does a report of a sanitizer, whatever the program's exit code. A test that
# hangs is killed.
set -u
exec 3>&1

what=${1:-}
build=${2:-}
case $what in unit | e2e | all) ;; *) what= ;; esac
if [ -z "$what" ] || [ ! -d "$build" ]; then
	echo "usage: $0 unit|e2e|all BUILD_DIR [pytest arguments]" >&2
	exit 2
fi
shift 2
root=$(cd "$(dirname "$0")/.." && pwd)
build=$(cd "$build" && pwd)
out=$build/test-out
rm -rf "$out"
mkdir -p "$out/san"
allowed=$root/tests/allowed-skips.txt
venv=$root/build/venv
passed=0
failed=0
skipped=0

# Also set for builds without sanitizers: they do not read them.
export ASAN_OPTIONS="log_path=$out/san/report:detect_leaks=1:abort_on_error=0:exitcode=86:strict_string_checks=1"
export UBSAN_OPTIONS="log_path=$out/san/report:print_stacktrace=1:halt_on_error=1:exitcode=86"
export LSAN_OPTIONS="exitcode=86"
slow=1
for f in "$build"/bin/kvsteerd "$build"/tests/*/test_*; do
	[ -f "$f" ] || continue
	grep -q __asan_init "$f" && slow=4
	break
done
export KVSTEER_TEST_SLOW=$slow

# Is the skip of test $1 listed? One shell pattern a line, `#` begins the reason.
skip_allowed() {
	[ -f "$allowed" ] || return 1
	while read -r pattern _; do
		case $pattern in '' | '#'*) continue ;; esac
		# shellcheck disable=SC2254
		case $1 in $pattern) return 0 ;; esac
	done <"$allowed"
	return 1
}

# Counts the skips named on stdin, one a line.
take_skips() {
	while read -r test; do
		[ -n "$test" ] || continue
		if skip_allowed "$test"; then
			echo skipped
			echo "  SKIP   $test" >&3
		else
			echo failed
			echo "  FAIL   $test: skipped, and not listed in tests/allowed-skips.txt" >&3
		fi
	done >"$out/skips"
	skipped=$((skipped + $(grep -c '^skipped' "$out/skips")))
	failed=$((failed + $(grep -c '^failed' "$out/skips")))
}

# Reports of sanitizers since the last call are one failure of $1.
take_reports() {
	set -- "$1" "$out"/san/report*
	[ -e "$2" ] || return 0
	failed=$((failed + 1))
	name=$1
	shift
	echo "  FAIL   $name: a sanitizer reported:"
	head -q -n 60 "$@"
	mkdir -p "$out/san/seen"
	mv "$@" "$out/san/seen/"
}

run_unit() {
	found=0
	for prog in $(find "$build/tests" -type f -name 'test_*' -perm -u+x 2>/dev/null | sort); do
		found=1
		name=unit/${prog#"$build"/tests/}
		log=$out/$(echo "$name" | tr / .)
		timeout -k 5 $((120 * slow)) "$prog" >"$log.out" 2>"$log.err" </dev/null
		rc=$?
		if [ $rc = 77 ] && ! grep -q '^\[ RUN' "$log.out"; then
			echo "$name" >"$log.skips"
			take_skips <"$log.skips"
			continue
		fi
		# cmocka lists failures and skips again on stderr: only stdout counts.
		run=$(grep -c '\[ RUN      \]' "$log.out")
		ok=$(grep -c '\[       OK \]' "$log.out")
		sed -n "s|.*\[  SKIPPED \] \([A-Za-z0-9_]*\).*|$name::\1|p" "$log.out" | sort -u >"$log.skips"
		skips=$(grep -c . "$log.skips")
		bad=$((run - ok - skips))
		# Ended in another way than by a failed assertion: killed, crashed, leaked.
		[ $rc -ne 0 ] && [ $bad -le 0 ] && bad=1
		grep -q 'test(s) run' "$log.out" || [ $bad -gt 0 ] || bad=1
		passed=$((passed + ok))
		failed=$((failed + bad))
		if [ $bad -gt 0 ]; then
			case $rc in 124 | 137) why="killed after $((120 * slow)) s" ;; *) why="exit code $rc" ;; esac
			echo "  FAIL   $name: $ok passed, $bad failed ($why)"
			tail -n 40 "$log.err"
			grep -v '^\[' "$log.out" | tail -n 20
		else
			echo "  ok     $name: $ok passed"
		fi
		take_skips <"$log.skips"
		take_reports "$name"
	done
	[ $found = 1 ] || { echo "  FAIL   no unit tests below $build/tests"; failed=$((failed + 1)); }
}

make_venv() {
	req=$root/tests/e2e/requirements.txt
	stamp=$(cksum <"$req")
	[ "$(cat "$venv/.requirements" 2>/dev/null)" = "$stamp" ] && return 0
	echo "  VENV   $venv"
	mkdir -p "$root/build"
	python3 -m venv "$venv" && "$venv/bin/pip" install -q --disable-pip-version-check -r "$req" || return 1
	echo "$stamp" >"$venv/.requirements"
}

run_e2e() {
	if ! make_venv; then
		echo "  FAIL   e2e: no Python environment"
		failed=$((failed + 1))
		return
	fi
	xml=$out/e2e.xml
	KVSTEER_BUILD=$build PYTHONDONTWRITEBYTECODE=1 timeout -k 10 $((600 * slow)) \
		"$venv/bin/python" -m pytest -p no:cacheprovider --rootdir "$root/tests/e2e" -q -raR --reruns 1 \
		--timeout $((60 * slow)) --junitxml "$xml" "$root/tests/e2e" "$@"
	rc=$?
	# passed failed, then the names of what was skipped.
	if ! "$venv/bin/python" "$root/tests/junit.py" "$xml" >"$out/e2e.counts"; then
		echo "  FAIL   e2e: no result (exit code $rc)"
		failed=$((failed + 1))
		return
	fi
	read -r ok bad <"$out/e2e.counts"
	[ $rc -ne 0 ] && [ "$bad" = 0 ] && bad=1
	passed=$((passed + ok))
	failed=$((failed + bad))
	sed 1d "$out/e2e.counts" >"$out/e2e.skips"
	take_skips <"$out/e2e.skips"
	take_reports e2e
}

[ "$what" = e2e ] || run_unit
[ "$what" = unit ] || run_e2e "$@"

echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
