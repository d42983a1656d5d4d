#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Installs what kvsteer needs to build and test, and says what it does.
#
#   tools/deps.sh            build, run, test
#   tools/deps.sh build      build and run only
#   tools/deps.sh bench      build, and the proxies that `make bench` compares with
#   tools/deps.sh tidy       build, and clang-tidy
#   tools/deps.sh fuzz       build, and the runtime of libFuzzer and the sanitizers for clang
#   tools/deps.sh check      change nothing; exit 1 and list what is missing
#
# Debian 12 and 13, Ubuntu 24.04 (best effort). Run as root.
# Debian 12 has no llhttp and no yyjson of its own: both come from trixie by a
# pinned source derived from this host's own Debian source entry, so that no
# other package can move to trixie. Both need only libc 2.14.
set -eu

BUILD="gcc make python3 pkg-config libc6-dev libyaml-dev libxxhash-dev libmicrohttpd-dev
 libcurl4-openssl-dev libllhttp-dev libyyjson-dev clang bpftool libbpf-dev libelf-dev zlib1g-dev"
TEST="libcmocka-dev llvm python3 python3-venv curl iproute2 procps wrk"

BENCH="python3 haproxy nginx"

# Of the clang that `clang` is, or would be.
clang_major() {
	{
		clang -dumpversion 2>/dev/null || apt-cache depends clang | sed -n 's/.*Depends: clang-\([0-9]*\)$/\1/p'
	} | sed 's/[.].*//' | head -n 1
}

what=${1:-all}
case $what in
all) want="$BUILD $TEST" ;;
build) want=$BUILD ;;
bench) want="$BUILD $BENCH" ;;
tidy) want="$BUILD clang-tidy" ;;
fuzz) want="$BUILD libclang-rt-$(clang_major)-dev" ;;
check) want="$BUILD $TEST" ;;
*) echo "usage: $0 [all|build|bench|tidy|fuzz|check]" >&2; exit 2 ;;
esac

have() { dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null | grep -qx installed; }

missing=
for p in $want; do have "$p" || missing="$missing $p"; done
if [ -z "$missing" ]; then
	echo "deps: everything is installed"
	exit 0
fi
echo "deps: missing:$missing"
[ "$what" = check ] && exit 1
[ "$(id -u)" = 0 ] || { echo "deps: must be root to install packages" >&2; exit 1; }

. /etc/os-release
export DEBIAN_FRONTEND=noninteractive

# The archive that this host takes its own release from: of the deb822 stanza, or
# the one-line entry, that names the release's suite (other vendors' sources name
# suites of their own, or the same one at another place: the first wins).
host_archive() {
	cat /etc/apt/sources.list.d/*.sources 2>/dev/null | awk -v suite="$VERSION_CODENAME" '
		/^[[:space:]]*$/ { uri = "" }
		/^URIs:/ { uri = $2 }
		/^Suites:/ { for (i = 2; i <= NF; i++) if ($i == suite && uri != "" && uri ~ /debian/) { print uri; exit } }'
}
host_archive_line() {
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | awk -v suite="$VERSION_CODENAME" '
		$1 == "deb" { for (i = 2; i < NF; i++) if ($i ~ /debian/ && $(i + 1) == suite) { print $i; exit } }'
}

PINNED=/etc/apt/sources.list.d/kvsteer-trixie.sources
if [ "${ID:-}" = debian ] && [ "${VERSION_ID:-}" = 12 ] && [ ! -f $PINNED ]; then
	uri=$(host_archive)
	[ -n "$uri" ] || uri=$(host_archive_line)
	[ -n "$uri" ] || { echo "deps: no Debian source entry found on this host to derive trixie from" >&2; exit 1; }
	echo "deps: adding trixie (pinned: only llhttp and yyjson) beside this host's own source: $PINNED"
	printf 'Types: deb\nURIs: %s\nSuites: trixie\nComponents: main\nSigned-By: /usr/share/keyrings/debian-archive-keyring.gpg\n' "$uri" >$PINNED
	cat >/etc/apt/preferences.d/kvsteer-trixie <<-PIN
		Package: *
		Pin: release n=trixie
		Pin-Priority: -10

		Package: libllhttp* libyyjson*
		Pin: release n=trixie
		Pin-Priority: 500
	PIN
fi

# The peers are run by the benchmark alone: their packages must not start services here.
POLICY=/usr/sbin/policy-rc.d
if [ "$what" = bench ] && [ ! -e $POLICY ]; then
	printf '#!/bin/sh\nexit 101\n' >$POLICY
	chmod +x $POLICY
	trap 'rm -f $POLICY' EXIT
fi

echo "deps: apt-get update"
apt-get update -qq
echo "deps: apt-get install$missing"
# shellcheck disable=SC2086
apt-get install -y -qq --no-install-recommends $missing >/dev/null
echo "deps: done"
