/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* What an engine means by 503. There is no field for it: three situations
 * share the status, and only the message tells them apart. Pure. */
#ifndef KVSTEER_SIGNALS_REFUSAL_H
#define KVSTEER_SIGNALS_REFUSAL_H
#include <stddef.h>

enum refusal {
	REFUSAL_BROKEN,  /* nothing known: a failing backend */
	REFUSAL_BUSY,    /* healthy, its queue is full: another backend may take it (vLLM, SGLang, llama.cpp's slots) */
	REFUSAL_LOADING, /* not ready yet (llama.cpp while it loads its model) */
};

/* Reads the first bytes of the answer's body. */
enum refusal refusal_of_503(const char *body, size_t len);
#endif
