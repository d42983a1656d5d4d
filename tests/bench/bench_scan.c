/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* How fast the prompt room is: scan and key of a 400 KB prompt of several
 * kinds, and its three ways to find the end of plain text. Not part of CI.
 *   gcc -O2 -Iinclude -Iuserspace tests/bench/bench_scan.c build/libkvsteer.a -lxxhash -o bench_scan */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "prompt/json.h"
#include "prompt/prompt.h"

#define PROMPT_LEN 400000
#define ROUNDS     9

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);   /* a shared machine: count what was ours */
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static void run(const char *what, enum prompt_family family, const char *body, size_t n, size_t chunk)
{
	struct prompt_key_params params = { .model = "m" };
	struct prompt_scan *s = prompt_scan_new();
	double scan[ROUNDS], build[ROUNDS];
	struct prompt_key key;
	uint32_t blocks = 0;
	int i, r;

	for (r = 0; r < ROUNDS; r++) {
		double t0 = now(), t1;
		size_t off;

		for (i = 0; i < 20; i++) {
			prompt_scan_begin(s, family, NULL);
			for (off = 0; off < n; off += chunk)
				prompt_scan_feed(s, body + off, n - off < chunk ? n - off : chunk);
			prompt_scan_end(s, false);
		}
		t1 = now();
		scan[r] = (t1 - t0) / 20;
		for (i = 0; i < 20; i++) {
			if (prompt_key_build(s, &params, NULL, 0, &key))
				exit(1);
			blocks = key.nblocks;
			prompt_key_free(&key);
		}
		build[r] = (now() - t1) / 20;
	}
	qsort(scan, ROUNDS, sizeof(double), by_value);
	qsort(build, ROUNDS, sizeof(double), by_value);
	printf("%-28s %8zu bytes  scan %6.2f GB/s %8.1f us   key of %5u blocks %6.1f us\n", what, n,
	       (double)n / scan[ROUNDS / 2] / 1e9, scan[ROUNDS / 2] * 1e6, blocks, build[ROUNDS / 2] * 1e6);
	prompt_scan_free(s);
}

static size_t put(char *to, const char *s)
{
	size_t n = strlen(s);

	memcpy(to, s, n);
	return n;
}

int main(void)
{
	static const char word[] = "the quick brown fox jumps over the lazy dog and runs on; ";
	static const char wide[] = "\xd1\x81\xd1\x8a\xd0\xb5\xd1\x88\xd1\x8c \xd0\xb5\xd1\x89\xd1\x91 ";
	char *b = malloc(PROMPT_LEN * 12);
	size_t n, i, end;
	json_find_fn *find;
	unsigned int k;

	if (!b)
		return 1;
	n = put(b, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"");
	for (i = 0; i < PROMPT_LEN; i++)
		b[n++] = word[i % (sizeof(word) - 1)];
	end = n;
	n += put(b + n, "\"}]}");
	for (k = 0; (find = json_find_nth(k)); k++) {
		double t0 = now();
		size_t sum = 0;

		for (i = 0; i < 200; i++)
			sum += find((const uint8_t *)b + 60, end - 60);
		t0 = now() - t0;
		printf("find %u: %6.2f GB/s\n", k, (double)sum / t0 / 1e9);
	}
	run("one long text", PROMPT_FAMILY_CHAT, b, n, n);
	run("the same, 16 KiB at a time", PROMPT_FAMILY_CHAT, b, n, 16384);

	n = put(b, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"");
	for (i = 0; i < PROMPT_LEN; i++) {
		b[n++] = word[i % (sizeof(word) - 1)];
		if (i % 60 == 59)
			n += put(b + n, "\\n");
	}
	n += put(b + n, "\"}]}");
	run("a line break each 60 bytes", PROMPT_FAMILY_CHAT, b, n, n);

	n = put(b, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"");
	for (i = 0; i < PROMPT_LEN / sizeof(wide); i++)
		n += put(b + n, wide);
	n += put(b + n, "\"}]}");
	run("text of 2-byte characters", PROMPT_FAMILY_CHAT, b, n, n);

	n = put(b, "{\"model\":\"m\",\"messages\":[{\"role\":\"user\",\"content\":\"");
	for (i = 0; i < PROMPT_LEN / 6; i++)
		n += put(b + n, "\\u0435");
	n += put(b + n, "\"}]}");
	run("nothing but \\u escapes", PROMPT_FAMILY_CHAT, b, n, n);

	n = put(b, "{\"model\":\"m\",\"messages\":[");
	for (i = 0; i < PROMPT_LEN / 400; i++) {
		n += put(b + n, i ? ",{\"role\":\"user\",\"content\":\"" : "{\"role\":\"user\",\"content\":\"");
		memset(b + n, 'a' + (int)(i % 26), 370);
		n += 370;
		n += put(b + n, "\"}");
	}
	n += put(b + n, "]}");
	run("1000 messages", PROMPT_FAMILY_CHAT, b, n, n);

	n = put(b, "{\"model\":\"m\",\"prompt\":[1");
	for (i = 0; i < 100000; i++)
		n += (size_t)sprintf(b + n, ",%zu", i * 7919 % 128000);
	n += put(b + n, "]}");
	run("100k token ids", PROMPT_FAMILY_COMPLETIONS, b, n, n);
	free(b);
	return 0;
}
