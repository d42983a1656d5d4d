#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# compile_commands.json for clangd and clang-tidy:  compile_commands.sh "FLAGS" FILE...
flags=$(printf '%s' "$1" | sed 's/\\/\\\\/g; s/"/\\"/g')
shift
sep='['
for f in "$@"; do
	printf '%s\n{"directory":"%s","file":"%s","command":"cc %s -c %s"}' "$sep" "$PWD" "$f" "$flags" "$f"
	sep=','
done
printf '\n]\n'
