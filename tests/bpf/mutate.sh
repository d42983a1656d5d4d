#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only
# Takes one rule out of bpf/splice.bpf.c:  mutate.sh NAME <splice.bpf.c >mutant.bpf.c
# `mutate.sh list` names the mutants. Fails if the rule's line is not there any more.
set -eu
case $1 in
list) echo no-relook no-limit no-gate no-trim; exit 0 ;;
# the verdict does not look again after it has passed a packet
no-relook) script='s/if (armed && armed != f->ended && READ_ONCE(f->consumed_bytes) == before)/if (reason != SPLICE_WHY_RACE)/' ;;
# the client's backlog is not looked at
no-limit) script='s/if (backlog > 0 && backlog >= f->limit_bytes)/if (0)/' ;;
# a plain flag instead of the gate: redirect as soon as it is armed
no-gate) script='s/if (FETCH_ADD(f->passed_bytes, 0) != consumed)/if (0)/' ;;
# what lies behind the end of an answer is redirected too
no-trim) script='s/if (bpf_skb_change_tail(skb, span.consumed, 0))/if (0)/' ;;
*) echo "mutate.sh: no mutant $1" >&2; exit 2 ;;
esac
in=$(cat)
out=$(printf '%s\n' "$in" | sed "$script")
[ "$in" != "$out" ] || { echo "mutate.sh: $1 changes nothing" >&2; exit 1; }
printf '%s\n' "$out"
