/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The scanner against the slow canonicaliser of reference.h: random bodies,
 * each written in several ways, with small differences and with random damage.
 * Keys must be equal exactly where the references are. */
#include "reference.h"

#define PROMPT_MAX_BODY 65536

struct out {
	char p[PROMPT_MAX_BODY];
	size_t n;
	uint64_t style;         /* how it is written: white space, escapes, order, form */
	uint64_t what;          /* what is written: the next choice */
	uint64_t seed;          /* of the object being written; a field's choices depend on it and its name only */
};

static void put(struct out *o, const char *s)
{
	size_t n = strlen(s);

	assert_true(o->n + n < sizeof(o->p));
	memcpy(o->p + o->n, s, n);
	o->n += n;
}

static void space(struct out *o)
{
	static const char *const ws[] = { "", "", "", " ", "\n\t", "\r\n  " };

	put(o, ws[rnd(&o->style) % 6]);
}

static void sep(struct out *o, const char *s)
{
	space(o);
	put(o, s);
	space(o);
}

/* A string in one of its spellings. The text is ASCII and U+00E9 (\x01) and U+1F600 (\x02). */
static void string(struct out *o, const char *s)
{
	put(o, "\"");
	for (; *s; s++) {
		char buf[16] = { *s, 0 };
		bool esc = rnd(&o->style) % 16 == 0;

		if (*s == 1)
			strcpy(buf, esc ? "\\u00e9" : "\xc3\xa9");
		else if (*s == 2)
			strcpy(buf, esc ? "\\uD83D\\ude00" : "\xf0\x9f\x98\x80");
		else if (*s == '"' || *s == '\\')
			snprintf(buf, sizeof(buf), "\\%c", *s);
		else if (*s == '\n')
			strcpy(buf, esc ? "\\u000a" : "\\n");
		else if (esc)
			snprintf(buf, sizeof(buf), "\\u%04x", *s);
		put(o, buf);
	}
	put(o, "\"");
}

/* Text from a small set, so that equal prompts happen; lengths around the block borders. */
static void text_of(uint64_t *st, char *buf)
{
	static const unsigned int lengths[] = { 0, 1, 2, 30, 231, 232, 233, 256, 257, 487, 488, 489, 600, 1000 };
	static const char letters_[] = "ab \"\\\n\x01\x02/";
	unsigned int n = lengths[rnd(st) % 14], i;
	uint64_t inner = rnd(st) % 3;

	for (i = 0; i < n; i++)
		buf[i] = letters_[rnd(&inner) % 9];
	buf[n] = '\0';
}

static void any_value(struct out *o, int depth)
{
	static const char *const scalars[] = { "1", "-2.5", "true", "false", "null", "1e5", "\"x\"", "\"\"", "[]", "{}" };
	uint32_t kind = rnd(&o->what) % (depth ? 13 : 10), n, i;

	if (kind < 10) {
		put(o, scalars[kind]);
		return;
	}
	n = 1 + rnd(&o->what) % 3;
	put(o, kind == 10 ? "[" : "{");
	for (i = 0; i < n; i++) {
		static const char *const keys[] = { "a", "b", "type", "name", "text", "cache_control" };

		if (i)
			sep(o, ",");
		if (kind != 10) {
			string(o, keys[rnd(&o->what) % 6]);
			sep(o, ":");
		}
		any_value(o, depth - 1);
	}
	put(o, kind == 10 ? "]" : "}");
}

/* Fields of an object, collected and then written in a random order. */
struct object {
	struct out *f[16];
	int n;
};

static struct out *field(struct out *parent, struct object *obj, const char *key)
{
	struct out *f = malloc(sizeof(*f));
	const char *k;

	assert_non_null(f);
	f->n = 0;
	f->style = rnd(&parent->style);
	f->what = parent->seed;
	for (k = key; *k; k++)
		f->what = f->what * 31 + (uint8_t)*k;
	rnd(&f->what);
	string(f, key);
	sep(f, ":");
	assert_true(obj->n < 16);
	obj->f[obj->n++] = f;
	return f;
}

static void object(struct out *o, struct object *obj)
{
	int i;

	put(o, "{");
	for (i = obj->n - 1; i > 0; i--) {
		int j = (int)(rnd(&o->style) % (uint32_t)(i + 1));
		struct out *t = obj->f[i];

		obj->f[i] = obj->f[j];
		obj->f[j] = t;
	}
	for (i = 0; i < obj->n; i++) {
		space(o);
		if (i)
			sep(o, ",");
		assert_true(o->n + obj->f[i]->n < sizeof(o->p));
		memcpy(o->p + o->n, obj->f[i]->p, obj->f[i]->n);
		o->n += obj->f[i]->n;
		free(obj->f[i]);
	}
	sep(o, "}");
}

static bool chance(struct out *o, uint32_t one_in)
{
	return rnd(&o->what) % one_in == 0;
}

static bool styled(struct out *o, uint32_t one_in)
{
	return rnd(&o->style) % one_in == 0;
}

static void part(struct out *o)
{
	static const char *const types[] = { "text", "text", "input_text", "refusal" };
	struct object obj = { .n = 0 };
	const char *type = types[rnd(&o->what) % 4];
	char buf[1100];

	o->seed = rnd(&o->what);
	text_of(&o->what, buf);
	string(field(o, &obj, "text"), buf);
	if (strcmp(type, "text") || styled(o, 2))
		string(field(o, &obj, "type"), type);
	if (chance(o, 6))
		any_value(field(o, &obj, "odd"), 2);
	if (styled(o, 6))
		put(field(o, &obj, "cache_control"), "{\"type\":\"ephemeral\"}");
	object(o, &obj);
}

static void content_of(struct out *o)
{
	uint32_t form = rnd(&o->what) % 12, n, i;
	char buf[1100];

	if (form < 7) {                 /* one text, as a string or as a list of one part */
		text_of(&o->what, buf);
		switch (rnd(&o->style) % 3) {
		case 0:
			string(o, buf);
			return;
		case 1:
			put(o, "[");
			string(o, buf);
			put(o, "]");
			return;
		default:
			put(o, "[{\"type\":\"text\",\"text\":");
			string(o, buf);
			put(o, "}]");
			return;
		}
	}
	if (form == 7) {
		any_value(o, 2);
		return;
	}
	n = rnd(&o->what) % 4;
	put(o, "[");
	for (i = 0; i < n; i++) {
		if (i)
			sep(o, ",");
		part(o);
	}
	put(o, "]");
}

static void message_of(struct out *o)
{
	static const char *const roles[] = { "system", "user", "assistant", "tool" };
	struct object obj = { .n = 0 };
	char buf[1100];

	o->seed = rnd(&o->what);
	if (!chance(o, 20))
		string(field(o, &obj, "role"), roles[rnd(&o->what) % 4]);
	if (!chance(o, 10))
		content_of(field(o, &obj, "content"));
	if (chance(o, 6)) {
		text_of(&o->what, buf);
		string(field(o, &obj, "reasoning_content"), buf);
	}
	if (chance(o, 6))
		any_value(field(o, &obj, "tool_calls"), 3);
	if (chance(o, 8))
		string(field(o, &obj, "name"), chance(o, 2) ? "bob" : "al");
	if (chance(o, 8))
		any_value(field(o, &obj, "odd"), 2);
	if (styled(o, 8))
		put(field(o, &obj, "annotations"), "[]");
	if (styled(o, 8))
		put(field(o, &obj, "refusal"), "null");
	object(o, &obj);
}

/* One request: `what` says which, `style` how it is written. The same `what` is the same prompt. */
static void request(struct out *o, bool chat, uint64_t what, uint64_t style, uint32_t drop)
{
	struct object obj = { .n = 0 };
	uint32_t n, i;
	char buf[1100];
	struct out *f;

	o->n = 0;
	o->what = o->seed = what;
	o->style = style;
	/* what doesn't matter */
	if (styled(o, 2))
		put(field(o, &obj, "temperature"), "0.7");
	if (styled(o, 2))
		put(field(o, &obj, "metadata"), "{\"messages\":[1],\"prompt\":[{}]}");
	if (chance(o, 8))
		string(field(o, &obj, "cache_salt"), chance(o, 2) ? "x" : "y");
	if (chance(o, 4))
		any_value(field(o, &obj, "tools"), 3);
	if (chance(o, 6))
		any_value(field(o, &obj, "chat_template_kwargs"), 0);
	if (chance(o, 6))
		any_value(field(o, &obj, "response_format"), 2);
	if (chance(o, 8))
		put(field(o, &obj, "add_generation_prompt"), chance(o, 2) ? "true" : "false");
	f = field(o, &obj, chat ? "messages" : "prompt");
	n = chat ? 1 + rnd(&o->what) % 4 : rnd(&o->what) % 6;
	if (!chat && n < 3) {
		text_of(&f->what, buf);
		string(f, buf);
	} else {
		put(f, "[");
		for (i = 0; i + drop < n; i++) {
			if (i)
				sep(f, ",");
			if (chat) {
				message_of(f);
			} else if (n == 3) {
				text_of(&f->what, buf);
				string(f, buf);
			} else {
				snprintf(buf, sizeof(buf), "%u", rnd(&f->what) % 3);
				put(f, buf);
			}
		}
		put(f, "]");
	}
	object(o, &obj);
}

static uint64_t last_hash(const struct made *m)
{
	return m->key.hash[m->key.nblocks - 1];
}

/* Keys are equal exactly where the references are; `counts` gets how often they were. */
static void compare(bool chat, const struct out *a, const struct out *b, unsigned long counts[2])
{
	enum prompt_family family = chat ? PROMPT_FAMILY_CHAT : PROMPT_FAMILY_COMPLETIONS;
	struct text ra = { 0 }, rb = { 0 };
	bool oka = reference(a->p, a->n, chat, &ra, NULL, 0), okb = reference(b->p, b->n, chat, &rb, NULL, 0);
	struct made ma = make_limited(family, a->p, a->n, 0, NULL, false);
	struct made mb = make_limited(family, b->p, b->n, 1 + b->n / 7, NULL, false);

	if (oka && okb && !ma.key.raw && !mb.key.raw) {
		bool same = ra.n == rb.n && !memcmp(ra.p, rb.p, ra.n);

		counts[same]++;
		if (same_key(&ma.key, &mb.key) != same || (last_hash(&ma) == last_hash(&mb)) != same)
			fail_msg("references are %s, keys aren't:\n%.*s\n%.*s\n", same ? "equal" : "different", (int)a->n, a->p,
				 (int)b->n, b->p);
	}
	free(ra.p);
	free(rb.p);
	prompt_key_free(&ma.key);
	prompt_key_free(&mb.key);
}

static void random_pairs(bool chat)
{
	struct out *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b));
	unsigned long counts[2] = { 0, 0 };
	uint64_t st = chat ? 1 : 2;
	int i;

	assert_non_null(a);
	assert_non_null(b);
	for (i = 0; i < 6000; i++) {
		uint64_t what = rnd(&st);

		request(a, chat, what, rnd(&st), 0);
		request(b, chat, what, rnd(&st), 0);
		compare(chat, a, b, counts);
		request(b, chat, what, rnd(&st), 1);            /* one item less */
		compare(chat, a, b, counts);
		request(b, chat, rnd(&st), rnd(&st), 0);        /* another */
		compare(chat, a, b, counts);
	}
	assert_true(counts[0] > 4000 && counts[1] > 4000);      /* both kinds were tried */
	free(a);
	free(b);
}

static void test_chat(void **state)
{
	random_pairs(true);
}

static void test_completions(void **state)
{
	random_pairs(false);
}

/* Damage: what yyjson takes, the scanner takes, and what it takes is no worse than yyjson's most lenient
 * reading; equal and different prompts stay so. */
static void test_damage(void **state)
{
	static const char alphabet[] = "{}[]\",:\\u0019aext \n-.";
	const yyjson_read_flag lenient = YYJSON_READ_ALLOW_INF_AND_NAN | YYJSON_READ_ALLOW_INVALID_UNICODE |
					 YYJSON_READ_NUMBER_AS_RAW;
	struct out *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b));
	unsigned long counts[2] = { 0, 0 }, accepted = 0;
	uint64_t st = 3;
	int i, k;

	assert_non_null(a);
	assert_non_null(b);
	for (i = 0; i < 30000; i++) {
		bool chat = i & 1;
		yyjson_doc *strict, *loose;
		yyjson_read_err err;
		struct made m;

		request(a, chat, rnd(&st), rnd(&st), 0);
		if (a->n < 2)
			continue;
		memcpy(b, a, sizeof(*a));
		for (k = 1 + (int)(rnd(&st) % 3); k; k--) {
			size_t at = rnd(&st) % b->n;

			switch (rnd(&st) % 4) {
			case 0:
				b->p[at] = alphabet[rnd(&st) % (sizeof(alphabet) - 1)];
				break;
			case 1:
				memmove(b->p + at, b->p + at + 1, b->n - at - 1);
				b->n--;
				break;
			case 2:
				memmove(b->p + at + 1, b->p + at, b->n - at);
				b->p[at] = alphabet[rnd(&st) % (sizeof(alphabet) - 1)];
				b->n++;
				break;
			default:
				b->p[at] = (char)rnd(&st);
			}
		}
		strict = yyjson_read(b->p, b->n, YYJSON_READ_NUMBER_AS_RAW);
		loose = yyjson_read_opts(b->p, b->n, lenient, NULL, &err);
		m = make_limited(chat ? PROMPT_FAMILY_CHAT : PROMPT_FAMILY_COMPLETIONS, b->p, b->n, 0, NULL, false);
		if (strict && !m.info.json)
			fail_msg("valid, but refused: %.*s", (int)b->n, b->p);
		/* yyjson takes lone surrogates in no mode; Python does. */
		if (!loose && m.info.json && !strstr(err.msg, "surrogate"))
			fail_msg("accepted, but not valid (%s at %zu): %.*s", err.msg, err.pos, (int)b->n, b->p);
		accepted += m.info.json;
		prompt_key_free(&m.key);
		if (strict)
			compare(chat, a, b, counts);
		yyjson_doc_free(strict);
		yyjson_doc_free(loose);
	}
	assert_true(counts[0] > 1000 && counts[1] > 500 && accepted > 1000);
	free(a);
	free(b);
}

/* How much two chats share: all messages before the first different one, and no block of that one's end. */
static void test_shared(void **state)
{
	struct out *a = malloc(sizeof(*a)), *b = malloc(sizeof(*b));
	unsigned long partial = 0;
	uint64_t st = 4;
	int i;

	assert_non_null(a);
	assert_non_null(b);
	for (i = 0; i < 4000; i++) {
		uint64_t what = rnd(&st);
		size_t ea[8] = { 0 }, eb[8] = { 0 }, same = 0;
		struct text ra = { 0 }, rb = { 0 };
		struct made ma, mb;
		uint32_t shared, starts = 0, k;

		request(a, true, what, rnd(&st), 0);
		request(b, true, what, rnd(&st), rnd(&st) % 3);
		if (!reference(a->p, a->n, true, &ra, ea, 8) || !reference(b->p, b->n, true, &rb, eb, 8))
			goto next;
		while (same < 8 && ea[same] && ea[same] == eb[same] && !memcmp(ra.p, rb.p, ea[same]))
			same++;
		ma = make_limited(PROMPT_FAMILY_CHAT, a->p, a->n, 0, NULL, false);
		mb = make_limited(PROMPT_FAMILY_CHAT, b->p, b->n, 0, NULL, false);
		shared = shared_blocks(&ma.key, &mb.key);
		for (k = 0; k < shared && !ma.key.raw && !mb.key.raw; k++)
			starts += (ma.key.flags[k] & (PROMPT_BLOCK_MESSAGE_START | PROMPT_BLOCK_TRAILER)) ==
				  PROMPT_BLOCK_MESSAGE_START;
		/* a template block is a start of its own; it is the first block then */
		if (!ma.key.raw && !mb.key.raw && same) {
			assert_true(starts >= same);
			if (shared < mb.key.nblocks && !(mb.key.flags[shared] & PROMPT_BLOCK_TRAILER))
				assert_true(mb.key.flags[shared] & PROMPT_BLOCK_MESSAGE_START || starts > same);
			partial += ma.key.nblocks != mb.key.nblocks;
		}
		prompt_key_free(&ma.key);
		prompt_key_free(&mb.key);
next:
		free(ra.p);
		free(rb.p);
	}
	assert_true(partial > 500);
	free(a);
	free(b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chat), cmocka_unit_test(test_completions), cmocka_unit_test(test_damage),
		cmocka_unit_test(test_shared),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
