/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The access log: its two shapes, hostile text, sinks that are full, stuck or moved away. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <yyjson.h>

#include "base/clock.h"
#include "gateway/access_log.h"

static const char *const keys[] = { "id",	      "client",		   "method",   "path",	    "status",	"reason",
				    "pool",	      "model",		   "backend",  "policy",    "tokens",	"match_tokens",
				    "ttft_predicted_ms", "ttft_ms",	   "queued_ms", "bytes_in", "bytes_out", "retries",
				    "duration_ms" };
#define N_KEYS (sizeof(keys) / sizeof(*keys))
#define WALL_NS 1767225599987654321ull /* 2025-12-31T23:59:59.987 */

static const struct access_entry full = {
	.id = "abc-1",
	.client = "192.0.2.1",
	.method = "POST",
	.path = "/v1/chat/completions",
	.path_len = 20,
	.pool = "llama",
	.model = "llama-3.1-70b",
	.backend = "127.0.0.1:9001",
	.policy = "cost",
	.status = 200,
	.reason = REASON_NONE,
	.tokens = 3061,
	.match_tokens = 2944,
	.ttft_predicted_ms = 34.84,
	.ttft_ms = 35.26,
	.queued_ms = 0,
	.duration_ms = 1234.56,
	.bytes_in = 12000,
	.bytes_out = 5000000000ull,
	.retries = 1,
};

static char line[ACCESS_LINE_BYTES];

static size_t format(bool json, const struct access_entry *e)
{
	size_t n = access_log_format(line, sizeof(line), json, WALL_NS, e);

	assert_in_range(n, 2, sizeof(line));
	assert_int_equal(line[n - 1], '\n');
	assert_ptr_equal(memchr(line, '\n', n), line + n - 1); /* one line */
	assert_null(memchr(line, 0, n));
	return n;
}

static void test_kv(void **state)
{
	static const char expected[] =
		"2025-12-31T23:59:59.987Z id=abc-1 client=192.0.2.1 method=POST path=/v1/chat/completions status=200 reason=- "
		"pool=llama model=llama-3.1-70b backend=127.0.0.1:9001 policy=cost tokens=3061 match_tokens=2944 "
		"ttft_predicted_ms=34.8 ttft_ms=35.3 queued_ms=0.0 bytes_in=12000 bytes_out=5000000000 retries=1 "
		"duration_ms=1234.6\n";
	size_t n = format(false, &full);

	line[n] = 0;
	assert_string_equal(line, expected);
}

static void test_kv_of_nothing(void **state)
{
	struct access_entry e = { .ttft_predicted_ms = -1, .ttft_ms = -1, .reason = REASON_BAD_REQUEST, .path = "" };
	size_t n = format(false, &e);

	line[n] = 0;
	assert_string_equal(strchr(line, ' '),
			    " id=- client=- method=- path=- status=0 reason=bad_request pool=- model=- backend=- policy=- tokens=0 "
			    "match_tokens=0 ttft_predicted_ms=- ttft_ms=- queued_ms=0.0 bytes_in=0 bytes_out=0 retries=0 "
			    "duration_ms=0.0\n");
}

static yyjson_doc *parse(size_t n)
{
	yyjson_read_err err;
	yyjson_doc *doc = yyjson_read_opts(line, n, YYJSON_READ_NOFLAG, NULL, &err);

	if (!doc)
		fail_msg("%s at %zu: %.*s", err.msg, err.pos, (int)n, line);
	assert_true(yyjson_is_obj(yyjson_doc_get_root(doc)));
	return doc;
}

static void test_json(void **state)
{
	yyjson_doc *doc = parse(format(true, &full));
	yyjson_val *o = yyjson_doc_get_root(doc), *k;
	yyjson_obj_iter it = yyjson_obj_iter_with(o);

	assert_string_equal(yyjson_get_str(yyjson_obj_get(o, "time")), "2025-12-31T23:59:59.987Z");
	assert_string_equal(yyjson_get_str(yyjson_obj_get(o, "path")), "/v1/chat/completions");
	assert_string_equal(yyjson_get_str(yyjson_obj_get(o, "model")), "llama-3.1-70b");
	assert_int_equal(yyjson_get_int(yyjson_obj_get(o, "status")), 200);
	assert_int_equal(yyjson_get_uint(yyjson_obj_get(o, "bytes_out")), 5000000000ull);
	assert_true(yyjson_get_real(yyjson_obj_get(o, "ttft_ms")) == 35.3);
	assert_string_equal(yyjson_get_str(yyjson_obj_iter_next(&it)), "time");
	for (unsigned i = 0; i < N_KEYS; i++) { /* the same keys in the same order as kv */
		k = yyjson_obj_iter_next(&it);
		assert_non_null(k);
		assert_string_equal(yyjson_get_str(k), keys[i]);
	}
	assert_null(yyjson_obj_iter_next(&it));
	yyjson_doc_free(doc);
}

static void test_json_of_nothing(void **state)
{
	struct access_entry e = { .ttft_predicted_ms = -1, .ttft_ms = -1 };
	yyjson_doc *doc = parse(format(true, &e));
	yyjson_val *o = yyjson_doc_get_root(doc);

	assert_true(yyjson_is_null(yyjson_obj_get(o, "model")));
	assert_true(yyjson_is_null(yyjson_obj_get(o, "path")));
	assert_true(yyjson_is_null(yyjson_obj_get(o, "ttft_ms")));
	assert_int_equal(yyjson_get_int(yyjson_obj_get(o, "status")), 0);
	yyjson_doc_free(doc);
}

/* ---- hostile text ---- */

/* Reads a kv line as a strict reader would: every token is key=value, a value is plain or in
 * quotes; the keys are ours, each once, in order. */
static void check_kv(size_t n)
{
	const char *p = memchr(line, ' ', n), *end = line + n - 1;

	assert_non_null(p);
	for (unsigned i = 0; i < N_KEYS; i++) {
		size_t k = strlen(keys[i]);

		assert_int_equal(*p++, ' ');
		assert_true((size_t)(end - p) > k);
		assert_memory_equal(p, keys[i], k);
		p += k;
		assert_int_equal(*p++, '=');
		if (*p == '"') {
			for (p++; p < end && *p != '"'; p++)
				if (*p == '\\')
					p++;
			assert_true(p < end);
			p++;
		} else {
			for (; p < end && *p != ' '; p++)
				assert_true(*p > 0x20 && *p < 0x7f && *p != '"' && *p != '=' && *p != '\\');
		}
	}
	assert_ptr_equal(p, end);
}

static const char *const hostile[] = {
	"a b",
	"x\nid=forged status=200",
	"x\r\n{\"status\":200}",
	"\"",
	"\\",
	"\\\"",
	"a\" status=\"500",
	"model=other",
	"\x01\x1f\x7f\x80\xff",
	"\xf0\x9f\x98\x80",
	"\xe2\x80\xa8",
	"%0a%22",
	"-",
	" ",
	"tab\tand\vmore",
};

static void test_hostile_text(void **state)
{
	for (unsigned i = 0; i < sizeof(hostile) / sizeof(*hostile); i++) {
		struct access_entry e = full;
		yyjson_doc *doc;

		e.model = e.path = e.id = hostile[i];
		e.path_len = (uint32_t)strlen(hostile[i]);
		check_kv(format(false, &e));
		doc = parse(format(true, &e));
		assert_int_equal(yyjson_obj_size(yyjson_doc_get_root(doc)), N_KEYS + 1);
		if ((unsigned char)hostile[i][0] < 0x80 && !strchr(hostile[i], '\x80'))
			assert_string_equal(yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "model")), hostile[i]);
		yyjson_doc_free(doc);
	}
}

/* Every string as long and as odd as can be: the line is whole all the same. It was cut at
 * 2048 bytes, in the middle of a string: not JSON any more. */
static void test_longest_line(void **state)
{
	static const unsigned char fill[] = { 'a', '"', '\\', 1, 0x80, 0xff };

	for (unsigned k = 0; k < sizeof(fill); k++) {
		char big[1024];
		struct access_entry e = full;
		yyjson_doc *doc;

		memset(big, fill[k], sizeof(big) - 1);
		big[sizeof(big) - 1] = 0;
		e.id = e.client = e.method = e.path = e.pool = e.model = e.backend = e.policy = big;
		e.path_len = sizeof(big) - 1;
		e.status = 599;
		e.tokens = e.match_tokens = e.retries = UINT32_MAX;
		e.bytes_in = e.bytes_out = UINT64_MAX;
		e.ttft_predicted_ms = e.ttft_ms = e.queued_ms = e.duration_ms = 1e15;
		check_kv(format(false, &e));
		doc = parse(format(true, &e));
		assert_true(yyjson_get_len(yyjson_obj_get(yyjson_doc_get_root(doc), "model")) >= 256);
		assert_true(yyjson_get_len(yyjson_obj_get(yyjson_doc_get_root(doc), "model")) <= 768); /* cut at 256 bytes, each U+FFFD at worst */
		yyjson_doc_free(doc);
	}
}

/* ---- sinks ---- */

static char dir[64];

static int setup(void **state)
{
	snprintf(dir, sizeof(dir), "%s/kvsteer-log-XXXXXX", P_tmpdir);
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	static const char *const names[] = { "log", "log.1", "fifo" };
	char path[128];

	for (unsigned i = 0; i < 3; i++) {
		snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
		unlink(path);
	}
	return rmdir(dir);
}

static const char *in_dir(const char *name)
{
	static char path[2][128];
	static unsigned turn;
	char *p = path[turn++ % 2];

	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static unsigned count_lines(const char *name)
{
	FILE *f = fopen(in_dir(name), "r");
	unsigned n = 0;
	int c;

	if (!f)
		return 0;
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

static void wait_lines(const char *name, unsigned n)
{
	for (int i = 0; i < 2000 && count_lines(name) < n; i++)
		usleep(5000);
	assert_int_equal(count_lines(name), n);
}

static void test_file_and_rotation(void **state)
{
	struct access_log *log;
	struct stat st;

	assert_int_equal(access_log_open(&log, &(struct access_sink){ .path = in_dir("log"), .json = false }), 0);
	for (int i = 0; i < 100; i++)
		assert_true(access_log_write(log, &full));
	wait_lines("log", 100);
	assert_int_equal(rename(in_dir("log"), in_dir("log.1")), 0);
	access_log_reopen(log);
	for (int i = 0; i < 2000 && stat(in_dir("log"), &st); i++)
		usleep(5000);
	for (int i = 0; i < 7; i++)
		assert_true(access_log_write(log, &full));
	access_log_close(log); /* writes out what waits */
	assert_int_equal(count_lines("log.1"), 100);
	assert_int_equal(count_lines("log"), 7);
	/* appended to, not begun anew */
	assert_int_equal(access_log_open(&log, &(struct access_sink){ .path = in_dir("log"), .json = true }), 0);
	assert_true(access_log_write(log, &full));
	access_log_close(log);
	assert_int_equal(count_lines("log"), 8);
}

static void test_cannot_open(void **state)
{
	struct access_log *log = (void *)1;

	assert_int_equal(access_log_open(&log, &(struct access_sink){ .path = in_dir("no/such/dir"), .json = false }), -ENOENT);
	assert_null(log);
	access_log_close(NULL);
}

/* Nobody reads the pipe. Requests are not delayed, lines beyond the buffer are dropped and
 * said to be, and the end of the process waits for a moment only: it waited for ever. */
static void test_stuck_pipe(void **state)
{
	struct access_log *log;
	uint64_t t0;
	unsigned dropped = 0;
	int reader;

	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	reader = open(in_dir("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_true(reader >= 0);
	assert_int_equal(access_log_open(&log, &(struct access_sink){ .path = in_dir("fifo"), .json = true }), 0);
	t0 = clock_now_ns();
	for (int i = 0; i < 20000 && dropped < 100; i++)
		dropped += !access_log_write(log, &full);
	assert_int_equal(dropped, 100);
	usleep(200000); /* the writing thread has run into the full pipe */
	assert_true(clock_now_ns() - t0 < 20 * NSEC_PER_SEC);
	t0 = clock_now_ns();
	access_log_close(log);
	assert_true(clock_now_ns() - t0 < 10 * NSEC_PER_SEC);
	close(reader);
}

/* A slow reader gets every line whole. */
static void test_pipe_keeps_lines_whole(void **state)
{
	static char buf[1 << 20];
	size_t got = 0, lines = 0;
	struct access_log *log;
	int reader;

	assert_int_equal(mkfifo(in_dir("fifo"), 0600), 0);
	reader = open(in_dir("fifo"), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	assert_int_equal(access_log_open(&log, &(struct access_sink){ .path = in_dir("fifo"), .json = true }), 0);
	for (int i = 0; i < 1500; i++)
		assert_true(access_log_write(log, &full));
	for (int i = 0; i < 4000 && lines < 1500; i++) {
		ssize_t n = read(reader, buf + got, sizeof(buf) - got < 3000 ? sizeof(buf) - got : 3000);

		if (n <= 0) {
			usleep(2000);
			continue;
		}
		for (ssize_t k = 0; k < n; k++)
			lines += buf[got + (size_t)k] == '\n';
		got += (size_t)n;
	}
	assert_int_equal(lines, 1500);
	access_log_close(log);
	for (char *p = buf, *next; p < buf + got; p = next) {
		yyjson_doc *doc;

		next = (char *)memchr(p, '\n', (size_t)(buf + got - p)) + 1;
		doc = yyjson_read(p, (size_t)(next - p), 0);
		assert_non_null(doc);
		yyjson_doc_free(doc);
	}
	close(reader);
}

/* What a JSON reader gets is what the client sent: bytes were taken for code points. */
static void test_utf8_of_json(void **state)
{
	static const struct {
		const char *in, *out;
	} rows[] = {
		{ "m\xc3\xbcller", "m\xc3\xbcller" },
		{ "\xe6\xa8\xa1\xe5\x9e\x8b", "\xe6\xa8\xa1\xe5\x9e\x8b" },
		{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
		{ "a\x80z", "a\xef\xbf\xbdz" },
		{ "\xff\xfe", "\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xc3", "\xef\xbf\xbd" },
		{ "\xed\xa0\x80", "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd" },
		{ "\xe2\x80\xa8", "\xe2\x80\xa8" },
		{ "\xc2\x9b[31m", "\xc2\x9b[31m" },
	};
	char big[600];

	for (unsigned i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct access_entry e = full;
		yyjson_doc *doc;
		size_t n;

		e.model = rows[i].in;
		n = format(true, &e);
		assert_null(memmem(line, n, "\xe2\x80\xa8", 3)); /* escaped: no line separator, no control in the raw line */
		assert_null(memmem(line, n, "\xc2\x9b", 2));
		doc = parse(n);
		assert_string_equal(yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "model")), rows[i].out);
		yyjson_doc_free(doc);
	}
	/* cut between characters, wherever the limit falls */
	for (unsigned shift = 0; shift < 4; shift++) {
		struct access_entry e = full;
		yyjson_doc *doc;
		const char *got;

		memset(big, 'x', shift);
		for (unsigned i = shift; i + 4 < sizeof(big); i += 4)
			memcpy(big + i, "\xf0\x9f\x98\x80", 5);
		e.model = big;
		doc = parse(format(true, &e));
		got = yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "model"));
		assert_in_range(strlen(got), 250, 256);
		assert_null(strstr(got, "\xef\xbf\xbd"));
		yyjson_doc_free(doc);
	}
}

/* A full disk: the lines that it refuses are counted, and the next line is whole again. */
static void test_full_disk_counts_lines(void **state)
{
	struct access_log *log;
	unsigned n = 0;

	if (access("/dev/full", W_OK))
		skip();
	assert_int_equal(access_log_open(&log, &(struct access_sink){ .path = "/dev/full" }), 0);
	for (int i = 0; i < 50; i++)
		n += access_log_write(log, &full);
	assert_int_equal(n, 50);
	for (int i = 0; i < 2000 && access_log_lost(log) < 50; i++)
		usleep(5000);
	assert_int_equal(access_log_lost(log), 50);
	access_log_close(log);
}

/* A reload that changes path, format, or switches it off and on: each line is in the sink and the
 * format of its moment, none is lost, none is twice. */
static void test_switch_of_sinks(void **state)
{
	char a[128], b[128];
	const struct access_sink kv = { .path = a }, json = { .path = b, .json = true }, off = { .off = true };
	struct access_log *log;
	char first[2] = "";
	FILE *f;

	snprintf(a, sizeof(a), "%s", in_dir("log"));
	snprintf(b, sizeof(b), "%s", in_dir("log.1"));
	assert_int_equal(access_log_open(&log, &kv), 0);
	for (int i = 0; i < 10; i++)
		assert_true(access_log_write(log, &full));
	access_log_switch(log, &json, access_log_sink(&json));
	for (int i = 0; i < 20; i++)
		assert_true(access_log_write(log, &full));
	wait_lines("log", 10);
	wait_lines("log.1", 20);
	access_log_switch(log, &off, access_log_sink(&off));
	for (int i = 0; i < 40; i++)
		assert_true(access_log_write(log, &full));
	/* two in a row, the thread may not have come to the first */
	access_log_switch(log, &kv, access_log_sink(&kv));
	access_log_switch(log, &json, access_log_sink(&json));
	access_log_reopen(log);
	for (int i = 0; i < 3; i++)
		assert_true(access_log_write(log, &full));
	access_log_close(log);
	assert_int_equal(count_lines("log"), 10);
	assert_int_equal(count_lines("log.1"), 23);
	f = fopen(b, "r");
	assert_int_equal(fread(first, 1, 1, f), 1);
	assert_string_equal(first, "{");
	fclose(f);
	assert_int_equal(access_log_sink(&(struct access_sink){ .path = in_dir("no/such/dir") }), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_kv),
		cmocka_unit_test(test_utf8_of_json),
		cmocka_unit_test(test_full_disk_counts_lines),
		cmocka_unit_test(test_kv_of_nothing),
		cmocka_unit_test(test_json),
		cmocka_unit_test(test_json_of_nothing),
		cmocka_unit_test(test_hostile_text),
		cmocka_unit_test(test_longest_line),
		cmocka_unit_test_setup_teardown(test_file_and_rotation, setup, teardown),
		cmocka_unit_test_setup_teardown(test_switch_of_sinks, setup, teardown),
		cmocka_unit_test_setup_teardown(test_cannot_open, setup, teardown),
		cmocka_unit_test_setup_teardown(test_stuck_pipe, setup, teardown),
		cmocka_unit_test_setup_teardown(test_pipe_keeps_lines_whole, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
