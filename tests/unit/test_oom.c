/* SPDX-License-Identifier: MIT */

/* What real frameworks print when the GPU's memory is full, and what must not be taken for it. */

#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "task/oom.h"

static const struct {
	const char *log;
	const char *name; /* NULL: no match */
} logs[] = {
	{ "Traceback (most recent call last):\n  File \"t.py\", line 3\n"
	  "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB (GPU 0; "
	  "79.15 GiB total capacity)\n",
	  "pytorch" },
	{ "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 MiB.", "pytorch" },
	{ "RuntimeError: CUDA error: out of memory\n", "pytorch" },
	{ "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to "
	  "allocate 34359738368 bytes.",
	  "jax" },
	{ "tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n"
	  "OOM when allocating tensor with shape[256,1024] and type float on GPU:0",
	  "tensorflow" },
	{ "failed to allocate 4.00G (4294967296 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out",
	  "tensorflow" },
	{ "cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY", "cuda" },
	{ "", NULL },
	{ "epoch 3 loss 0.1\nCUDA initialised\nout\nof memory\n", NULL },
	{ "MemoryError: Unable to allocate 12.0 GiB for an array", NULL },
	{ "resource_exhausted: too many open files", NULL },
	{ "from device: failed to allocate x CUDA_ERROR", NULL },
};

static void test_logs(void **state)
{
	struct oom_patterns *p = oom_patterns_default();

	assert_true(oom_patterns_count(p) > 15);
	for (size_t i = 0; i < ARRAY_LEN(logs); i++) {
		const char *name = oom_match(p, logs[i].log, strlen(logs[i].log));

		if (logs[i].name)
			assert_string_equal(name, logs[i].name);
		else
			assert_null(name);
	}
	assert_null(oom_match(NULL, "CUDA out of memory", 18));
	(void)oom_patterns_free(p);
}

/* What blames the device, and what a program may have done itself. */
static void test_logs_of_devices(void **state)
{
	static const struct {
		const char *log, *name;
	} rows[] = {
		{ "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
		  "CUDA kernel errors might be asynchronously reported at some other API call",
		  "an-ECC-error" },
		{ "CUDA_ERROR_ECC_UNCORRECTABLE: uncorrectable ECC error encountered",
		  "an-ECC-error" },
		{ "cudaErrorECCUncorrectable", "an-ECC-error" },
		{ "CUDA error: uncorrectable NVLink error detected during the execution",
		  "an-NVLink-error" },
		{ "Unable to determine the device handle for GPU: GPU is lost.  Reboot the system",
		  "a-lost-GPU" },
		{ "RuntimeError: CUDA error: an illegal memory access was encountered", NULL },
		{ "RuntimeError: CUDA error: device-side assert triggered", NULL },
		{ "RuntimeError: CUDA error: unspecified launch failure", NULL },
		{ "CUDA error: an illegal instruction was encountered", NULL },
		{ "all CUDA-capable devices are busy or unavailable", NULL },
		{ "CUDA driver version is insufficient for CUDA runtime version", NULL },
		{ "RuntimeError: CUDA error: out of memory", NULL },
		{ "ECC errors so far: 0", NULL },
		{ "", NULL },
	};
	struct oom_patterns *p = oom_patterns_of_devices();

	assert_true(oom_patterns_count(p) > 8);
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		const char *name = oom_match(p, rows[i].log, strlen(rows[i].log));

		if (rows[i].name ? !name || strcmp(name, rows[i].name) != 0 : name != NULL)
			fail_msg("%s: %s", rows[i].log, name ? name : "nothing");
	}
	(void)oom_patterns_free(p);
}

static void test_bytes_that_are_not_text(void **state)
{
	struct oom_patterns *p = oom_patterns_default();
	static const char log[] = "\0\xff\xfe\n10%\r20%\rcuda OUT of MeMory\0";

	assert_string_equal(oom_match(p, log, sizeof(log) - 1), "pytorch");
	assert_null(oom_match(p, log, 20));
	(void)oom_patterns_free(p);
}

static void test_bad_files(void **state)
{
	static const struct {
		const char *text;
		const char *says; /* NULL: good */
	} files[] = {
		{ "", NULL },
		{ "# only this\n\n  \n", NULL },
		{ "mine   my own * words  \n", NULL },
		{ "mine\n", "line 1: " },
		{ "# x\nmine *\n", "line 2: " },
		{ "mine ab\n", "line 1: " },
	};
	struct oom_patterns *p = NULL;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		int r = oom_patterns_parse(files[i].text, strlen(files[i].text), &p, &e);

		assert_int_equal(r < 0, files[i].says != NULL);
		if (files[i].says)
			assert_non_null(strstr(e.text, files[i].says));
		else
			p = oom_patterns_free(p);
	}

	char huge[OOM_PATTERN_MAX + 20];

	memset(huge, 'a', sizeof(huge));
	assert_true(oom_patterns_parse(huge, sizeof(huge), &p, &e) < 0);

	struct oom_patterns *q = NULL;

	assert_int_equal(oom_patterns_parse("mine a*b*c", 10, &q, &e), 0);
	assert_string_equal(oom_match(q, "xxAxBxCxx", 9), "mine");
	assert_null(oom_match(q, "xxcxbxaxx", 9));
	assert_null(oom_match(q, "a\nb\nc", 5));
	(void)oom_patterns_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_logs),
		cmocka_unit_test(test_logs_of_devices),
		cmocka_unit_test(test_bytes_that_are_not_text),
		cmocka_unit_test(test_bad_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
