/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* Short names of families and bodies, for tables. */
#ifndef KVSTEER_TESTS_PROMPT_SHORTHAND_H
#define KVSTEER_TESTS_PROMPT_SHORTHAND_H
#include "help.h"

#define CHAT PROMPT_FAMILY_CHAT
#define COMP PROMPT_FAMILY_COMPLETIONS
#define RESP PROMPT_FAMILY_RESPONSES
#define MSGS PROMPT_FAMILY_MESSAGES
#define INVO PROMPT_FAMILY_INVOCATIONS
#define GENE PROMPT_FAMILY_GENERATE
#define TOKS PROMPT_FAMILY_TOKENS
#define LLAM PROMPT_FAMILY_LLAMA
#define OLLA PROMPT_FAMILY_OLLAMA

#define M(x) "{\"messages\":[{\"role\":\"user\",\"content\":" x "}]}"
#define ONE  M("\"hi\"")
#endif
