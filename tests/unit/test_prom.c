/* SPDX-License-Identifier: MIT */

/* Prometheus' text format and OpenMetrics. */

#include "unit.h"

#include <string.h>

#include "serve/prom.h"

static void tell(struct prom *p)
{
	static const double bounds[] = { 0.5, 2, 0 };
	struct prom_histogram h = { .bounds = bounds };

	prom_family(p, "a", PROM_COUNTER, "A.");
	prom_sample(p, 1.5, "x", "\"\\\n", "left-out", NULL, "y", "", NULL);
	prom_family(p, "b", PROM_INFO, "B.");
	prom_sample(p, 1, NULL, NULL);
	prom_observe(&h, 0.5);
	prom_observe(&h, 1);
	prom_observe(&h, 3);
	prom_family(p, "c", PROM_HISTOGRAM, "C.");
	prom_histogram(p, &h);
	prom_end(p);
}

#define SAMPLES_A "a_total{x=\"\\\"\\\\\\n\",y=\"\"} 1.5\n"
#define SAMPLES_C                                                                                  \
	"c_bucket{le=\"0.5\"} 1\nc_bucket{le=\"2.0\"} 2\nc_bucket{le=\"+Inf\"} 3\n"                \
	"c_sum 4.5\nc_count 3\n"

static void both_formats(void **state)
{
	struct prom text = { .open = false }, open = { .open = true };

	tell(&text);
	tell(&open);
	assert_string_equal(strbuf_str(&text.text),
			    "# HELP a_total A.\n# TYPE a_total counter\n" SAMPLES_A
			    "# HELP b_info B.\n# TYPE b_info gauge\nb_info 1\n"
			    "# HELP c C.\n# TYPE c histogram\n" SAMPLES_C);
	assert_string_equal(strbuf_str(&open.text),
			    "# HELP a A.\n# TYPE a counter\n" SAMPLES_A
			    "# HELP b B.\n# TYPE b info\nb_info 1\n"
			    "# HELP c C.\n# TYPE c histogram\n" SAMPLES_C "# EOF\n");
	strbuf_clear(&text.text);
	strbuf_clear(&open.text);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(both_formats) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
