/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The relay: every form of flow, cut at every offset, to clients that take bytes
 * one by one or not now. What comes out is compared byte for byte. */

#include "relay_help.h"

static const size_t paces[] = { 1, 2, 7, SIZE_MAX };

/* One body, handed over in two pieces, with `behind` stray bytes after its end. */
static void run_split(const struct body_case *b, enum flow_form form, size_t split, size_t pace, bool every_second,
		      size_t behind)
{
	struct taker *t = taker_new(pace);
	struct conn from = { .fd = -1 };
	uint8_t wire[256];
	size_t len = b->wire_len + behind;
	enum flow_result r = FLOW_MORE;
	struct flow f;

	t->every_second = every_second;
	memcpy(wire, b->wire, b->wire_len);
	memset(wire + b->wire_len, 'Z', behind);
	flow_init(&f, &from, &t->conn, b->kind, b->wire_len, form, 1 << 20);
	if (split)
		r = flow_feed(&f, wire, (uint32_t)split);
	if (split > b->wire_len || (split && split == b->wire_len && b->kind != HTTP_BODY_UNTIL_CLOSE))
		assert_int_equal(r, FLOW_END);
	else
		assert_int_equal(r, FLOW_MORE);
	if (r == FLOW_END) {
		assert_int_equal(f.surplus, split - b->wire_len);
	} else {
		assert_int_equal(f.surplus, 0);
		r = flow_feed(&f, wire + split, (uint32_t)(len - split));
		assert_int_equal(f.surplus, behind);
	}
	if (b->kind == HTTP_BODY_UNTIL_CLOSE) {
		assert_int_equal(r, FLOW_MORE);
		r = flow_eof(&f, false);
	}
	assert_int_equal(r, FLOW_END);
	assert_int_equal(flow_eof(&f, false), FLOW_END); /* a FIN behind the end is nothing new */
	assert_int_equal(flow_eof(&f, true), FLOW_END);
	drain(&f);
	check_output(b, form, t);
	assert_int_equal(f.sent_bytes, t->len);
	assert_int_equal(f.framing.payload_bytes, b->payload_len);
	flow_free(&f);
	free(t);
}

static void test_every_split(void **state)
{
	for (unsigned i = 0; i < N_BODIES; i++)
		for (enum flow_form form = FLOW_AS_FRAMED; form <= FLOW_DISCARD; form++) {
			const struct body_case *b = &bodies[i];
			size_t behind = b->kind == HTTP_BODY_UNTIL_CLOSE ? 0 : 3;

			if (!form_fits(form, b->kind))
				continue;
			for (size_t split = 0; split <= b->wire_len + behind; split++)
				for (unsigned k = 0; k < sizeof(paces) / sizeof(*paces); k++)
					for (int second = 0; second < 2; second++)
						run_split(b, form, split, paces[k], second, behind);
		}
}

/* Byte by byte, with a flush now and then. */
static void test_one_byte_at_a_time(void **state)
{
	for (unsigned i = 0; i < N_BODIES; i++)
		for (enum flow_form form = FLOW_AS_FRAMED; form <= FLOW_DISCARD; form++) {
			const struct body_case *b = &bodies[i];
			struct taker *t = taker_new(1);
			struct conn from = { .fd = -1 };
			enum flow_result r = b->kind == HTTP_BODY_NONE ? FLOW_END : FLOW_MORE;
			struct flow f;

			if (!form_fits(form, b->kind)) {
				free(t);
				continue;
			}
			flow_init(&f, &from, &t->conn, b->kind, b->wire_len, form, 1 << 20);
			for (size_t k = 0; k < b->wire_len; k++) {
				r = flow_feed(&f, (const uint8_t *)b->wire + k, 1);
				assert_int_equal(r, k + 1 == b->wire_len && b->kind != HTTP_BODY_UNTIL_CLOSE ? FLOW_END : FLOW_MORE);
				if (k % 3 == 0)
					flow_flush(&f);
			}
			if (b->kind == HTTP_BODY_UNTIL_CLOSE)
				r = flow_eof(&f, false);
			assert_int_equal(r, FLOW_END);
			drain(&f);
			check_output(b, form, t);
			flow_free(&f);
			free(t);
		}
}

static uint8_t seen[256];
static size_t seen_len;

static void see(struct flow *f, const uint8_t *p, uint32_t n)
{
	assert_true(n > 0);
	memcpy(seen + seen_len, p, n);
	seen_len += n;
}

/* It sees the payload, all of it and nothing else, in every form. */
static void test_observer_sees_payload(void **state)
{
	for (unsigned i = 0; i < N_BODIES; i++)
		for (enum flow_form form = FLOW_AS_FRAMED; form <= FLOW_DISCARD; form++)
			for (size_t step = 1; step < 6; step++) {
				const struct body_case *b = &bodies[i];
				struct taker *t = taker_new(SIZE_MAX);
				struct conn from = { .fd = -1 };
				struct flow f;

				flow_init(&f, &from, &t->conn, b->kind, b->wire_len, form, 4096);
				f.observe = see;
				seen_len = 0;
				for (size_t at = 0; form_fits(form, b->kind) && at < b->wire_len; at += step) {
					size_t n = b->wire_len - at < step ? b->wire_len - at : step;

					flow_feed(&f, (const uint8_t *)b->wire + at, (uint32_t)n);
				}
				if (form_fits(form, b->kind)) {
					assert_int_equal(seen_len, b->payload_len);
					assert_memory_equal(seen, b->payload, b->payload_len);
				}
				flow_free(&f);
				free(t);
			}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_split),
		cmocka_unit_test(test_one_byte_at_a_time),
		cmocka_unit_test(test_observer_sees_payload),
	};

	return cmocka_run_group_tests_name("datapath/relay", tests, NULL, NULL);
}
