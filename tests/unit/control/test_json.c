/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <yyjson.h>

#include "control/json.h"

/* Finishes and reads back with yyjson's reader. */
static yyjson_doc *finish(struct json *j)
{
	size_t len;
	char *text = json_finish(j, &len);
	yyjson_doc *doc;

	assert_non_null(text);
	assert_int_equal(strlen(text), len);
	assert_int_equal(text[len - 1], '\n');
	doc = yyjson_read(text, len, 0);
	assert_non_null(doc);
	free(text);
	return doc;
}

static void test_values(void **state)
{
	struct json j;
	yyjson_doc *doc;
	yyjson_val *root, *list;

	json_start(&j);
	json_str(&j, "s", "a \"quote\"\n\x01 \xc3\xa4");
	json_str(&j, "none", NULL);
	json_uint(&j, "u", UINT64_MAX);
	json_bool(&j, "b", true);
	json_real(&j, "r", 2.0 / 3, 3);
	json_real(&j, "nan", NAN, 3);
	json_real(&j, "inf", INFINITY, 3);
	json_array(&j, "list");
	json_uint(&j, NULL, 1);
	json_object(&j, NULL);
	json_null(&j, "x");
	json_end(&j);
	json_str(&j, NULL, "last");
	json_end(&j);
	json_uint(&j, "after", 2);
	doc = finish(&j);
	root = yyjson_doc_get_root(doc);
	assert_string_equal(yyjson_get_str(yyjson_obj_get(root, "s")), "a \"quote\"\n\x01 \xc3\xa4");
	assert_true(yyjson_is_null(yyjson_obj_get(root, "none")));
	assert_true(yyjson_get_uint(yyjson_obj_get(root, "u")) == UINT64_MAX);
	assert_true(yyjson_is_true(yyjson_obj_get(root, "b")));
	assert_true(yyjson_get_real(yyjson_obj_get(root, "r")) == 0.667);
	assert_true(yyjson_is_null(yyjson_obj_get(root, "nan")));
	assert_true(yyjson_is_null(yyjson_obj_get(root, "inf")));
	list = yyjson_obj_get(root, "list");
	assert_int_equal(yyjson_arr_size(list), 3);
	assert_true(yyjson_is_null(yyjson_obj_get(yyjson_arr_get(list, 1), "x")));
	assert_string_equal(yyjson_get_str(yyjson_arr_get(list, 2)), "last");
	assert_int_equal(yyjson_get_uint(yyjson_obj_get(root, "after")), 2);
	yyjson_doc_free(doc);
}

/* What is not UTF-8 (a file's name can be anything) must not void the whole answer. */
static void test_bad_utf8(void **state)
{
	static const char *const bad[][2] = {
		{ "a\xff", "a?" },		     { "\xc3", "?" },		  { "\xc0\xaf", "??" },
		{ "\xed\xa0\x80", "???" },	     { "\xf4\x90\x80\x80", "????" }, { "\xe2\x82", "??" },
		{ "ok \xe2\x82\xac", "ok \xe2\x82\xac" }, { "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		yyjson_doc *doc;
		struct json j;

		json_start(&j);
		json_str(&j, "s", bad[i][0]);
		doc = finish(&j);
		assert_string_equal(yyjson_get_str(yyjson_obj_get(yyjson_doc_get_root(doc), "s")), bad[i][1]);
		yyjson_doc_free(doc);
	}
}

/* Misuse and too much depth give no text rather than a wrong one. */
static void test_failures(void **state)
{
	struct json j;

	json_start(&j);
	for (int i = 0; i < JSON_DEPTH; i++)
		json_object(&j, "deeper");
	assert_null(json_finish(&j, NULL));
	json_start(&j);
	json_end(&j);
	assert_null(json_finish(&j, NULL));
	json_start(&j);
	json_uint(&j, NULL, 1);
	assert_null(json_finish(&j, NULL));
	json_start(&j);
	json_array(&j, "a");
	json_uint(&j, "key", 1);
	assert_null(json_finish(&j, NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_bad_utf8),
		cmocka_unit_test(test_failures),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
