/* SPDX-License-Identifier: MIT */

/* Who may ask what, by the head of a request alone. */

#include "unit.h"

#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "serve/access.h"

#define WRITE "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define READ  "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static const struct access_tokens tokens = { WRITE, READ };

static void equal_texts_alone_are_equal(void **state)
{
	assert_true(access_equal(WRITE, WRITE));
	assert_true(access_equal("", ""));
	assert_false(access_equal("", WRITE));
	assert_false(access_equal(WRITE, ""));
	assert_false(access_equal("ab", "abab"));
	assert_false(access_equal("abab", "ab"));
	assert_false(access_equal("abc", "abd"));
}

static void hosts_are_of_the_list(void **state)
{
	static const struct {
		const char *host;
		bool allowed;
	} cases[] = {
		{ "localhost", true },
		{ "LocalHost:8470", true },
		{ "[::1]:1", true },
		{ "[::1]", true },
		{ "[::1]x", false },
		{ "[::1", false },
		{ "localhost.", false },
		{ "localhost:1x", false },
		{ "localhost:1:2", false },
		{ ":80", false },
		{ "", false },
		{ "xlocalhost", false },
	};
	struct text_list allowed = { .n = 0 };

	text_list_add(&allowed, "localhost");
	text_list_add(&allowed, "[::1]");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct access_claim c = { .host = cases[i].host, .n_hosts = 1 };

		assert_int_equal(access_host_allowed(&c, &allowed), cases[i].allowed);
		c.n_hosts = 2;
		assert_false(access_host_allowed(&c, &allowed));
	}
	assert_false(access_host_allowed(&(struct access_claim){ .n_hosts = 0 }, &allowed));
	text_list_clear(&allowed);
}

static void origins_are_our_own_or_none(void **state)
{
	static const struct {
		const char *origin, *site;
		bool cookie, allowed;
	} cases[] = {
		{ NULL, NULL, false, true },
		{ NULL, NULL, true, false },
		{ NULL, "same-origin", true, true },
		{ NULL, "none", false, false },
		{ "http://a:1", NULL, true, true },
		{ "https://a:1", "same-origin", true, true },
		{ "http://a:1", "same-site", false, false },
		{ "http://a", NULL, false, false },
		{ "http://a:1.evil", NULL, false, false },
		{ "null", NULL, false, false },
		{ "", NULL, false, false },
		{ "a:1", NULL, false, false },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct access_claim c = { .host = "a:1",
					  .origin = cases[i].origin,
					  .fetch_site = cases[i].site };

		assert_int_equal(access_origin_allowed(&c, cases[i].cookie), cases[i].allowed);
	}
}

static void check_right(struct access_claim c, enum access_right wanted, bool by_cookie)
{
	bool cookie;

	assert_int_equal(access_right(&c, &tokens, &cookie), wanted);
	assert_int_equal(cookie, by_cookie);
}

static void tokens_give_rights(void **state)
{
	check_right((struct access_claim){ .authorization = "Bearer " WRITE }, ACCESS_WRITE, false);
	check_right((struct access_claim){ .authorization = "bearer " READ }, ACCESS_READ, false);
	check_right((struct access_claim){ .authorization = "Bearer " }, ACCESS_NONE, false);
	check_right((struct access_claim){ .authorization = WRITE }, ACCESS_NONE, false);
	check_right((struct access_claim){ .host = "a" }, ACCESS_NONE, false);
	/* Of the Unix socket, but for browsers; and who shows a wrong token is told so. */
	check_right((struct access_claim){ .local = true }, ACCESS_WRITE, false);
	check_right((struct access_claim){ .local = true, .origin = "x" }, ACCESS_NONE, false);
	check_right((struct access_claim){ .local = true, .fetch_site = "x" }, ACCESS_NONE, false);
	check_right((struct access_claim){ .local = true, .authorization = "x" }, ACCESS_NONE,
		    false);
}

static void no_token_is_no_right(void **state)
{
	static const struct access_tokens none = { "", "" };
	bool cookie;

	assert_int_equal(access_token_right(&none, ""), ACCESS_NONE);
	assert_int_equal(
		access_right(&(struct access_claim){ .cookie = "tenure-=; =" }, &none, &cookie),
		ACCESS_NONE);
}

static void a_cookie_stands_for_its_token(void **state)
{
	char name[ACCESS_COOKIE_NAME_MAX], value[WEB_TOKEN_MAX];
	cleanup_strbuf struct strbuf b = STRBUF_INIT;

	access_cookie(READ, name, value);
	assert_null(strstr(value, READ));
	strbuf_addf(&b, "a=b; %s=%s", name, value);
	check_right((struct access_claim){ .cookie = strbuf_str(&b) }, ACCESS_READ, true);
	strbuf_adds(&b, "0");
	check_right((struct access_claim){ .cookie = strbuf_str(&b) }, ACCESS_NONE, false);
	strbuf_reset(&b);
	strbuf_addf(&b, "x%s=%s;;; ;", name, value);
	check_right((struct access_claim){ .cookie = strbuf_str(&b) }, ACCESS_NONE, false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(equal_texts_alone_are_equal),
		cmocka_unit_test(hosts_are_of_the_list),
		cmocka_unit_test(origins_are_our_own_or_none),
		cmocka_unit_test(tokens_give_rights),
		cmocka_unit_test(no_token_is_no_right),
		cmocka_unit_test(a_cookie_stands_for_its_token),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
