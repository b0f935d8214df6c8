/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "base/mem.h"
#include "base/roff.h"

struct row {
	const char *text, *want;
};

static void check(void (*add)(struct strbuf *, const char *), const struct row *rows, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		cleanup_strbuf struct strbuf b = STRBUF_INIT;

		add(&b, rows[i].text);
		assert_string_equal(strbuf_str(&b), rows[i].want);
	}
}

static void test_literal(void **state)
{
	static const struct row rows[] = {
		{ "--from - a-b", "\\-\\-from \\- a\\-b" },
		{ ".TH evil", "\\&.TH evil" },
		{ "'br", "\\(aqbr" },
		{ "a \\fB \"q\" `x` ^~", "a \\(rsfB \\(dqq\\(dq \\(gax\\(ga \\(ha\\(ti" },
		{ "a.b", "a.b" },
		{ "", "" },
	};

	check(roff_literal, rows, ARRAY_LEN(rows));
}

static void test_text(void **state)
{
	static const struct row rows[] = {
		{ "see `tenure on` now", "see \\fBtenure on\\fR now" },
		{ "one ` alone", "one \\(ga alone" },
		{ "with --idle-for: so", "with \\fB\\-\\-idle\\-for\\fR: so" },
		{ "(-g 2)", "(\\fB\\-g\\fR 2)" },
		{ "--a/--b", "\\fB\\-\\-a\\fR/\\fB\\-\\-b\\fR" },
		{ "back-off, 0-3, all-2G", "back-off, 0\\-3, all\\-2G" },
		{ "- is it; a -- b", "\\- is it; a \\-\\- b" },
		{ "somebody's '*H200*'", "somebody's \\(aq*H200*\\(aq" },
		{ "a\nb\n\nc\n", "a\n.br\nb\n.PP\nc" },
		{ "a\n.so /etc/passwd", "a\n.br\n\\&.so /etc/passwd" },
	};

	check(roff_text, rows, ARRAY_LEN(rows));
}

static void test_styles(void **state)
{
	static const struct row bold[] = { { ".x", "\\fB.x\\fR" } };
	static const struct row italic[] = { { "A-B", "\\fIA\\-B\\fR" } };

	check(roff_bold, bold, ARRAY_LEN(bold));
	check(roff_italic, italic, ARRAY_LEN(italic));
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_literal),
		cmocka_unit_test(test_text),
		cmocka_unit_test(test_styles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
