/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* A flow that is held or blocked, and its ends: cut, malformed, a client that leaves. */

#include "relay_help.h"

static void flow_with_head(struct flow *f, struct conn *from, struct taker *t, uint8_t kind, uint64_t length,
			   enum flow_form form, uint32_t limit, const char *head)
{
	flow_init(f, from, &t->conn, kind, length, form, limit);
	assert_int_equal(iobuf_append(&f->out, head, (uint32_t)strlen(head), UINT32_MAX), 0);
}

/* A held flow sends nothing, whoever asks; released, all comes in order behind the head. */
static void test_hold_and_release(void **state)
{
	struct taker *t = taker_new(SIZE_MAX);
	struct conn from = { .fd = -1 };
	struct flow f;

	flow_with_head(&f, &from, t, HTTP_BODY_CHUNKED, 0, FLOW_AS_FRAMED, 1 << 16, "HEAD");
	f.hold = true;
	assert_int_equal(flow_feed(&f, (const uint8_t *)"3\r\nabc\r\n", 8), FLOW_MORE);
	assert_int_equal(flow_flush(&f), FLOW_MORE);
	assert_int_equal(t->len, 0);
	assert_int_equal(f.sent_bytes, 0);
	f.hold = false;
	assert_int_equal(flow_feed(&f, (const uint8_t *)"1\r\nd", 4), FLOW_MORE);
	assert_int_equal(f.out.len, 0);
	assert_null(f.out.mem); /* an idle stream holds no buffer */
	assert_int_equal(t->len, 16);
	assert_memory_equal(t->got, "HEAD3\r\nabc\r\n1\r\nd", 16);
	assert_int_equal(f.sent_bytes, 16);
	flow_free(&f);
	free(t);
}

/* A held flow tells when it has grown to its limit. */
static void test_hold_has_a_limit(void **state)
{
	struct taker *t = taker_new(SIZE_MAX);
	struct conn from = { .fd = -1 };
	uint8_t block[100] = { 0 };
	struct flow f;

	flow_init(&f, &from, &t->conn, HTTP_BODY_LENGTH, 1000, FLOW_AS_FRAMED, 250);
	f.hold = true;
	assert_int_equal(flow_feed(&f, block, 100), FLOW_MORE);
	assert_int_equal(flow_feed(&f, block, 100), FLOW_MORE);
	assert_int_equal(flow_feed(&f, block, 100), FLOW_BLOCKED);
	assert_int_equal(t->len, 0);
	f.hold = false;
	assert_int_equal(flow_flush(&f), FLOW_MORE);
	assert_int_equal(t->len, 300);
	flow_free(&f);
	free(t);
}

/* The client takes nothing: BLOCKED from out_limit on; what was given is kept, and not a
 * byte is lost or doubled when it takes again. */
static void test_blocked_at_the_limit(void **state)
{
	static const enum flow_form forms[] = { FLOW_AS_FRAMED, FLOW_CHUNK };
	static uint8_t body[20000], text[1 << 16];

	for (size_t i = 0; i < sizeof(body); i++)
		body[i] = (uint8_t)(i * 7 + i / 256);
	for (unsigned k = 0; k < 2; k++) {
		struct taker *t = taker_new(0);
		struct conn from = { .fd = -1 };
		uint32_t at = 0;
		struct flow f;

		flow_init(&f, &from, &t->conn, HTTP_BODY_UNTIL_CLOSE, 0, forms[k], 4096);
		while (at < sizeof(body)) {
			enum flow_result r = flow_feed(&f, body + at, 1000);

			at += 1000;
			assert_int_equal(r, f.out.len >= 4096 ? FLOW_BLOCKED : FLOW_MORE);
			if (r != FLOW_BLOCKED)
				continue;
			assert_in_range(f.out.len, 4096, 4096 + 1000 + HTTP_CHUNK_HEAD_MAX + 2);
			assert_int_equal(flow_flush(&f), FLOW_BLOCKED); /* still nothing */
			t->per_send = 777;
			assert_int_equal(flow_flush(&f), FLOW_BLOCKED); /* some is left */
			t->per_send = 500;
			drain(&f);
			t->per_send = 0;
		}
		assert_int_equal(flow_eof(&f, false), FLOW_END);
		t->per_send = SIZE_MAX;
		drain(&f);
		if (forms[k] == FLOW_CHUNK)
			assert_int_equal(dechunk(t->got, t->len, text), sizeof(body));
		else
			memcpy(text, t->got, t->len);
		assert_memory_equal(text, body, sizeof(body));
		assert_int_equal(f.sent_bytes, t->len);
		flow_free(&f);
		free(t);
	}
}

/* ---- ends ---- */

/* A FIN or a reset inside the body is a cut; after a cut of a re-chunked body there is no last chunk. */
static void test_cut(void **state)
{
	for (unsigned i = 0; i < N_BODIES; i++)
		for (size_t n = 0; n < bodies[i].wire_len; n++)
			for (int reset = 0; reset < 2; reset++) {
				const struct body_case *b = &bodies[i];
				enum flow_form form = b->kind == HTTP_BODY_UNTIL_CLOSE ? FLOW_CHUNK : FLOW_AS_FRAMED;
				struct taker *t = taker_new(SIZE_MAX);
				struct conn from = { .fd = -1 };
				struct flow f;

				flow_init(&f, &from, &t->conn, b->kind, b->wire_len, form, 4096);
				if (n)
					assert_int_equal(flow_feed(&f, (const uint8_t *)b->wire, (uint32_t)n), FLOW_MORE);
				if (b->kind == HTTP_BODY_UNTIL_CLOSE && !reset) {
					assert_int_equal(flow_eof(&f, false), FLOW_END);
				} else {
					size_t before = t->len;

					assert_int_equal(flow_eof(&f, reset), FLOW_CUT);
					assert_int_equal(t->len, before);
				}
				flow_free(&f);
				free(t);
			}
}

/* Broken framing: nothing of the read that shows it goes out, and it stays broken. */
static void test_malformed(void **state)
{
	static const char *const bad[] = { "g\r\n",	      "5 \r\nhello\r\n", "5\nhello\r\n",      "2\r\nabc\r\n",
					   "0\r\n bad\r\n\r\n", "-1\r\n",	 "ffffffffffffffff1\r\n" };

	for (unsigned i = 0; i < sizeof(bad) / sizeof(*bad); i++)
		for (enum flow_form form = FLOW_AS_FRAMED; form <= FLOW_DISCARD; form++) {
			struct taker *t = taker_new(SIZE_MAX);
			struct conn from = { .fd = -1 };
			struct flow f;

			if (!form_fits(form, HTTP_BODY_CHUNKED)) {
				free(t);
				continue;
			}
			flow_init(&f, &from, &t->conn, HTTP_BODY_CHUNKED, 0, form, 4096);
			assert_int_equal(flow_feed(&f, (const uint8_t *)"2\r\nok\r\n", 7), FLOW_MORE);
			assert_int_equal(flow_feed(&f, (const uint8_t *)bad[i], (uint32_t)strlen(bad[i])), FLOW_MALFORMED);
			if (form == FLOW_AS_FRAMED)
				assert_int_equal(t->len, 7);
			assert_int_equal(flow_feed(&f, (const uint8_t *)"0\r\n\r\n", 5), FLOW_MALFORMED);
			assert_int_equal(flow_eof(&f, false), FLOW_CUT);
			flow_free(&f);
			free(t);
		}
}

/* ---- a client that leaves ---- */

static void test_client_gone_on_write_and_flush(void **state)
{
	struct taker *t = taker_new(2);
	struct conn from = { .fd = -1 };
	struct flow f;

	t->gone_after = 2;
	flow_init(&f, &from, &t->conn, HTTP_BODY_LENGTH, 100, FLOW_AS_FRAMED, 4096);
	assert_int_equal(flow_feed(&f, (const uint8_t *)"abcdef", 6), FLOW_MORE);
	assert_int_equal(f.out.len, 4);
	assert_int_equal(flow_flush(&f), FLOW_CLIENT_GONE);
	assert_int_equal(flow_feed(&f, (const uint8_t *)"g", 1), FLOW_CLIENT_GONE);
	assert_int_equal(f.sent_bytes, 2);
	flow_free(&f);
	free(t);
}

/* The client of an HTTP/1.0 answer leaves in the middle of a read that holds several chunks.
 * The rest of the body is read on for nobody: it must still be understood. It was not: the
 * flow stopped inside the read, took chunk data for a chunk's size and called the backend's
 * answer malformed. Also when the end of the body was in that very read, which was then
 * waited for until the backend's keep-alive ran out. */
static void test_framing_outlives_the_client(void **state)
{
	static const char wire[] = "4\r\nabcd\r\n4\r\nefgh\r\n4\r\nijkl\r\n0\r\n\r\n";
	const size_t len = sizeof(wire) - 1;

	for (enum flow_form form = FLOW_AS_FRAMED; form <= FLOW_PAYLOAD; form++)
		for (size_t first = 1; first <= len; first++) {
			struct taker *t = taker_new(SIZE_MAX);
			struct conn from = { .fd = -1 };
			enum flow_result r;
			struct flow f;

			flow_init(&f, &from, &t->conn, HTTP_BODY_CHUNKED, 0, form, 4096);
			t->gone_after = 1;
			t->len = 1; /* gone from the start */
			r = flow_feed(&f, (const uint8_t *)wire, (uint32_t)first);
			if (form == FLOW_AS_FRAMED || first > 3)
				assert_int_equal(r, FLOW_CLIENT_GONE);
			f.form = FLOW_DISCARD;
			iobuf_free(&f.out);
			if (first < len)
				r = flow_feed(&f, (const uint8_t *)wire + first, (uint32_t)(len - first));
			if (first < len)
				assert_int_equal(r, FLOW_END);
			assert_int_equal(f.framing.state, HTTP_FS_END);
			assert_int_equal(f.framing.payload_bytes, 12);
			flow_free(&f);
			free(t);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hold_and_release),
		cmocka_unit_test(test_hold_has_a_limit),
		cmocka_unit_test(test_blocked_at_the_limit),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_client_gone_on_write_and_flush),
		cmocka_unit_test(test_framing_outlives_the_client),
	};

	return cmocka_run_group_tests_name("datapath/relay_flow", tests, NULL, NULL);
}
