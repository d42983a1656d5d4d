/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include "load/options.h"

/* The published workloads, one row each. Sigma 0.5 puts the medians where the
 * reference figures have them: an answer of mean 150 has the median 132, and
 * 2.21 s end to end at 16.3 ms a token is 134. ShareGPT's text isn't shipped:
 * its mean lengths (Kwon et al., SOSP 2023, section 6.1: 161 in, 338 out) with a wide
 * spread and nothing shared make the control case, where steering can't help. */
static const struct load_shape shapes[] = {
	[LOAD_SUPPORT] = { .prefixes = 1000, .prefix_tokens = 3008, .zipf = 0.4, .question_tokens = 50,
			   .output_tokens = 150, .sigma = 0.5 },
	[LOAD_LONG8K] = { .prefixes = 400, .prefix_tokens = 8000, .zipf = 0.4, .question_tokens = 50,
			  .output_tokens = 200, .sigma = 0.5 },
	[LOAD_CHAT] = { .prefixes = 1, .prefix_tokens = 256, .zipf = 0, .question_tokens = 120,
			.output_tokens = 250, .sigma = 0.5, .turns = 5, .think_s = 30 },
	[LOAD_HOT] = { .prefixes = 1000, .prefix_tokens = 3008, .zipf = 0.4, .hot_share = 0.4,
		       .question_tokens = 50, .output_tokens = 150, .sigma = 0.5 },
	[LOAD_BURST] = { .prefixes = 1000, .prefix_tokens = 3008, .zipf = 0.8, .question_tokens = 50,
			 .output_tokens = 150, .sigma = 0.5 },
	[LOAD_SHAREGPT] = { .prefixes = 0, .question_tokens = 161, .output_tokens = 338, .sigma = 1.0 },
	[LOAD_LORA] = { .prefixes = 64, .prefix_tokens = 3008, .zipf = 0.4, .question_tokens = 50,
			.output_tokens = 150, .sigma = 0.5 },
	[LOAD_TRACE] = { .prefixes = 0, .sigma = 0 },
};

struct load_shape load_shape_default(enum load_kind kind)
{
	return shapes[kind];
}
