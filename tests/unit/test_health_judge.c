/* SPDX-License-Identifier: MIT */

/* What follows of a look at the cards of a machine. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "base/str.h"
#include "cli/doctor/health_judge.h"

#define ECC	 ((uint64_t)HEALTH_ECC << ECC_VOLATILE_UNCORRECTED)
#define ECC_EVER ((uint64_t)HEALTH_ECC << ECC_AGGREGATE_UNCORRECTED)

static struct {
	struct health_pass p;
	struct health_accepted accepted;
	struct health_judgement j;
} w;

static struct health_rules rules(void)
{
	return (struct health_rules){ .accepted = &w.accepted,
				      .xids_ms = 3600000,
				      .now_ns = 7200 * NS_PER_S };
}

/* So many good cards, all of which were asked for and looked at. */
static int make_cards(void **state)
{
	memset(&w, 0, sizeof(w));
	w.p.stage = STAGE_DONE;
	w.p.at = -1;
	w.p.n = 3;
	for (uint32_t i = 0; i < w.p.n; i++) {
		struct health_card *c = &w.p.cards[i];

		c->dev = (struct gpu_device){ .index = i, .minor = (int32_t)i, .mig = -1 };
		(void)str_print(c->dev.uuid, sizeof(c->dev.uuid), "GPU-%u", i);
		(void)str_copy(c->dev.name, sizeof(c->dev.name), "NVIDIA H200");
		c->selected = c->seen = c->persistence = true;
		c->health.known = ECC | HEALTH_ENERGY;
		c->health.energy_mj = 1000;
	}
	return 0;
}

static enum health_verdict judge(const struct health_rules *r)
{
	struct health_rules usual = rules();

	health_judgement_clear(&w.j);
	health_judge(&w.p, r ? r : &usual, &w.j);
	return w.j.verdict;
}

static int clear(void **state)
{
	health_judgement_clear(&w.j);
	return 0;
}

static void test_good(void **state)
{
	assert_int_equal(judge(NULL), HEALTH_GOOD);
	assert_string_equal(w.j.line, "ok: 3 GPUs");
	w.p.cards[0].selected = w.p.cards[2].selected = false;
	assert_int_equal(judge(NULL), HEALTH_GOOD);
	assert_string_equal(w.j.line, "ok: 1 GPU");
	/* Of what was not asked for nothing is said. */
	w.p.cards[0].health.ecc[ECC_VOLATILE_UNCORRECTED] = 3;
	assert_int_equal(judge(NULL), HEALTH_GOOD);
}

static void test_bad(void **state)
{
	w.p.cards[1].health.ecc[ECC_VOLATILE_UNCORRECTED] = 2;
	(void)str_copy(w.p.cards[2].trouble, sizeof(w.p.cards[2].trouble), "memory: GPU is lost");
	assert_int_equal(judge(NULL), HEALTH_BAD);
	assert_string_equal(
		w.j.line,
		"bad: GPU 1 (GPU-1, NVIDIA H200): 2 uncorrected ECC errors since the driver was "
		"loaded; GPU 2 (GPU-2, NVIDIA H200): nothing is seen of it: memory: GPU is lost");
	assert_int_equal(w.j.cards[0].verdict, HEALTH_GOOD);
}

static void test_missing(void **state)
{
	struct health_rules r = rules();

	r.expect = 4;
	assert_int_equal(judge(&r), HEALTH_BAD);
	assert_string_equal(w.j.line, "bad: 3 of 4 GPUs are seen");
	w.p.n_missing = 2;
	w.p.missing[0] = (struct gpu_missing){ .minor = 5 };
	w.p.missing[1] = (struct gpu_missing){ .minor = -1, .bus_id = "0000:5b:00.0" };
	w.p.n_unknown = 1;
	(void)str_copy(w.p.unknown[0], sizeof(w.p.unknown[0]), "GPU 9");
	assert_int_equal(judge(NULL), HEALTH_BAD);
	assert_string_equal(w.j.line,
			    "bad: GPU 9 is not here; the driver does not list the card of "
			    "/dev/nvidia5; the driver does not list the card at PCI 0000:5b:00.0");
}

static void test_driver(void **state)
{
	w.p.n = 0;
	assert_int_equal(judge(NULL), HEALTH_UNTESTED);
	assert_string_equal(w.j.line, "not tested: there is no GPU here");
	w.p.list.n_cards = 4;
	assert_int_equal(judge(NULL), HEALTH_UNTESTED);
	assert_string_equal(w.j.line,
			    "not tested: the GPUs of this machine may not be opened here");
	w.p.code = -EIO;
	(void)str_copy(w.p.trouble, sizeof(w.p.trouble),
		       "NVML does not start: Driver/library version mismatch");
	assert_int_equal(judge(NULL), HEALTH_UNTESTED);
	assert_string_equal(w.j.line,
			    "not tested: NVML does not start: Driver/library version mismatch");
	w.p.code = 0;
	w.p.died = true;
	assert_int_equal(judge(NULL), HEALTH_UNTESTED);
	w.p.signal = 9;
	assert_int_equal(judge(NULL), HEALTH_UNTESTED);
	assert_string_equal(w.j.line, "not tested: what asked the driver was ended by signal 9");
}

/* What is so now makes a card bad that stays so. */
static void test_moments(void **state)
{
	struct gpu_health *h = &w.p.cards[1].health;

	h->known |= HEALTH_THROTTLE;
	h->throttle = nvmlClocksThrottleReasonHwThermalSlowdown;
	assert_int_equal(judge(NULL), HEALTH_GOOD);
	assert_int_equal(w.j.cards[1].notes.n, 1);
	w.p.cards[1].stays = true;
	assert_int_equal(judge(NULL), HEALTH_BAD);
	assert_string_equal(w.j.line,
			    "bad: GPU 1 (GPU-1, NVIDIA H200): it is too hot, and runs slower");
	h->throttle = nvmlClocksEventReasonSwThermalSlowdown;
	assert_int_equal(judge(NULL), HEALTH_GOOD);
	assert_string_equal(w.j.cards[1].notes.texts[0], "it is at the limit of its temperature");
}

/* What was found bad until then is; and of what was not looked at nothing is missed. */
static void test_hangs(void **state)
{
	struct health_rules r = rules();

	w.p.timed_out = true;
	w.p.took_ns = 9 * NS_PER_S;
	w.p.stage = STAGE_LOOK;
	w.p.at = 2;
	w.p.cards[2].seen = false;
	assert_int_equal(judge(NULL), HEALTH_UNTESTED);
	assert_string_equal(w.j.line,
			    "not tested: the driver has not answered within 9.0 s, asked of GPU 2");
	w.p.cards[0].health.ecc[ECC_VOLATILE_UNCORRECTED] = 1;
	assert_int_equal(judge(NULL), HEALTH_BAD);
	assert_non_null(strstr(w.j.line, "; the driver has not answered within 9.0 s"));
	w.p.n = 0;
	w.p.stage = STAGE_START;
	w.p.at = -1;
	r.expect = 8;
	assert_int_equal(judge(&r), HEALTH_UNTESTED);
	assert_true(str_has_prefix(w.j.line, "not tested: the driver has not answered within "
					     "9.0 s, while NVML started: it hangs, or starts its "
					     "GPUs anew"));
}

static void test_trials(void **state)
{
	for (uint32_t i = 0; i < 3; i++)
		w.p.cards[i].trial = TRIAL_GOOD;
	assert_int_equal(judge(NULL), HEALTH_GOOD);
	w.p.cards[1].trial = TRIAL_BUSY;
	assert_int_equal(judge(NULL), HEALTH_GOOD);
	assert_int_equal(w.j.cards[1].notes.n, 1);
	w.p.cards[2].trial = TRIAL_BAD;
	(void)str_copy(w.p.cards[2].trial_words, 160, "cuCtxCreate: CUDA_ERROR_UNKNOWN (999)");
	assert_int_equal(judge(NULL), HEALTH_BAD);
	assert_string_equal(w.j.line, "bad: GPU 2 (GPU-2, NVIDIA H200): it does not compute: "
				      "cuCtxCreate: CUDA_ERROR_UNKNOWN (999)");
	w.p.cards[2].trial = TRIAL_IMPOSSIBLE;
	assert_int_equal(judge(NULL), HEALTH_UNTESTED);
	w.p.cards[2].trial = TRIAL_RUNS;
	w.p.stage = STAGE_CUDA;
	w.p.timed_out = true;
	w.p.took_ns = NS_PER_S;
	assert_int_equal(judge(NULL), HEALTH_UNTESTED);
	assert_string_equal(w.j.line, "not tested: the driver has not answered within 1.0 s, "
				      "when CUDA was tried on GPU 2");
}

static void test_xids(void **state)
{
	struct health_rules r = rules();
	const uint32_t agent[3] = { 0, 48, 0 };

	w.p.cards[0].xid = 79;
	w.p.cards[0].xid_us = 7000ULL * 1000000; /* 200 s ago */
	assert_int_equal(judge(&r), HEALTH_BAD);
	assert_string_equal(w.j.line,
			    "bad: GPU 0 (GPU-0, NVIDIA H200): its driver has reported XID "
			    "79 (GPU has fallen off the bus)");
	r.xids_ms = 100000;
	assert_int_equal(judge(&r), HEALTH_GOOD);
	assert_int_equal(w.j.cards[0].notes.n, 1);
	r.agent_xids = agent;
	assert_int_equal(judge(&r), HEALTH_BAD);
	assert_int_equal(w.j.cards[1].verdict, HEALTH_BAD);
	/* It was seen and accepted. */
	r = rules();
	w.accepted.n = 1;
	(void)str_copy(w.accepted.cards[0].uuid, GPU_UUID_MAX, "GPU-0");
	w.accepted.cards[0].mono_ns = 7100 * NS_PER_S;
	assert_int_equal(judge(&r), HEALTH_GOOD);
	w.accepted.cards[0].mono_ns = 6900 * NS_PER_S;
	assert_int_equal(judge(&r), HEALTH_BAD);
}

/* Newer than this program; newer drivers say what is to be done. */
static void test_unknown_xids(void **state)
{
	w.p.cards[0].xid = 999;
	w.p.cards[0].xid_us = 7000ULL * 1000000;
	assert_int_equal(judge(NULL), HEALTH_BAD);
	w.p.cards[0].health.known |= HEALTH_RECOVERY;
	assert_int_equal(judge(NULL), HEALTH_GOOD);
	assert_string_equal(w.j.cards[0].notes.texts[0],
			    "XID 999 was reported, which does not count");
	w.p.cards[0].health.recovery = NVML_GPU_RECOVERY_ACTION_GPU_RESET;
	assert_int_equal(judge(NULL), HEALTH_BAD);
	w.p.cards[0].health.recovery = NVML_GPU_RECOVERY_ACTION_NONE;
	w.p.cards[0].xid = 48;
	assert_int_equal(judge(NULL), HEALTH_BAD);
}

static void test_what_is_known_of_the_log(void **state)
{
	struct health_rules r = rules();

	assert_int_equal(judge(&r), HEALTH_GOOD);
	assert_int_equal(w.j.notes.n, 1);
	assert_non_null(strstr(w.j.notes.texts[0], "cannot be read"));
	w.p.log_read = true;
	assert_int_equal(judge(&r), HEALTH_GOOD);
	assert_int_equal(w.j.notes.n, 0);
	w.p.log_from_us = 6000ULL * 1000000; /* 20 minutes ago */
	assert_int_equal(judge(&r), HEALTH_GOOD);
	assert_int_equal(w.j.notes.n, 1);
	assert_non_null(strstr(w.j.notes.texts[0], "reaches back 1200 s"));
	r.xids_ms = 1000000;
	assert_int_equal(judge(&r), HEALTH_GOOD);
	assert_int_equal(w.j.notes.n, 0);
}

/* Of a card that was not seen nothing can be accepted, nor errors that were not told then. */
static void test_what_is_not_accepted(void **state)
{
	char path[] = "/tmp/tenure-unit-accepted-XXXXXX";
	struct health_rules r = rules();
	struct err e = ERR_INIT;

	assert_true(close(mkstemp(path)) == 0 && unlink(path) == 0);
	w.p.cards[0].seen = false;
	(void)str_copy(w.p.cards[1].trouble, sizeof(w.p.cards[1].trouble), "GPU is lost");
	w.p.cards[2].health.known &= ~ECC;
	/* The log's clock is ahead of ours. */
	w.p.cards[2].xid = 48;
	w.p.cards[2].xid_us = clock_mono_ns() / NS_PER_US + 60 * 1000000;
	assert_int_equal(health_accepted_write(path, &w.p, &e), 0);
	assert_int_equal(health_accepted_read(path, &w.accepted, &e), 0);
	(void)unlink(path);
	assert_int_equal(w.accepted.n, 1);
	assert_string_equal(w.accepted.cards[0].uuid, "GPU-2");
	w.p.cards[0].seen = true;
	w.p.cards[1].trouble[0] = '\0';
	r.now_ns = clock_mono_ns();
	assert_int_equal(judge(&r), HEALTH_GOOD);
	w.p.cards[2].health.known |= ECC;
	w.p.cards[2].health.ecc[ECC_VOLATILE_UNCORRECTED] = 1;
	assert_int_equal(judge(&r), HEALTH_BAD);
	assert_non_null(strstr(w.j.line, "1 uncorrected ECC error since the driver was loaded"));
}

static void test_accepted_file(void **state)
{
	char path[] = "/tmp/tenure-unit-accepted-XXXXXX";
	struct err e = ERR_INIT;
	FILE *f;

	assert_true(close(mkstemp(path)) == 0 && unlink(path) == 0);
	assert_int_equal(health_accepted_read(path, &w.accepted, &e), 0);
	assert_int_equal(w.accepted.n, 0);
	w.p.cards[1].health.ecc[ECC_VOLATILE_UNCORRECTED] = 2;
	assert_int_equal(judge(NULL), HEALTH_BAD);
	w.p.cards[2].selected = false;
	assert_int_equal(health_accepted_write(path, &w.p, &e), 0);
	assert_int_equal(health_accepted_read(path, &w.accepted, &e), 0);
	assert_int_equal(w.accepted.n, 2);
	assert_int_equal(judge(NULL), HEALTH_GOOD);
	/* What is counted since then does. */
	w.p.cards[1].health.ecc[ECC_VOLATILE_UNCORRECTED] = 3;
	assert_int_equal(judge(NULL), HEALTH_BAD);
	assert_string_equal(w.j.line, "bad: GPU 1 (GPU-1, NVIDIA H200): 1 uncorrected ECC error "
				      "since it was accepted");
	/* Its counters have begun anew. */
	w.p.cards[1].health.energy_mj = 999;
	w.p.cards[1].health.ecc[ECC_VOLATILE_UNCORRECTED] = 2;
	assert_int_equal(judge(NULL), HEALTH_BAD);
	/* And have gone as far as they were then: the count of its life knows. */
	w.accepted.cards[1].counters.known |= ECC_EVER;
	w.accepted.cards[1].counters.ecc[ECC_AGGREGATE_UNCORRECTED] = 10;
	w.p.cards[1].health.known |= ECC_EVER;
	w.p.cards[1].health.ecc[ECC_AGGREGATE_UNCORRECTED] = 10;
	w.p.cards[1].health.energy_mj = 2000;
	assert_int_equal(judge(NULL), HEALTH_GOOD);
	w.p.cards[1].health.ecc[ECC_AGGREGATE_UNCORRECTED] = 12;
	assert_int_equal(judge(NULL), HEALTH_BAD);
	assert_string_equal(w.j.line, "bad: GPU 1 (GPU-1, NVIDIA H200): 2 uncorrected ECC errors "
				      "since it was accepted");
	/* It is kept, too; others that were accepted before stay so. */
	assert_int_equal(health_accepted_write(path, &w.p, &e), 0);
	assert_int_equal(health_accepted_read(path, &w.accepted, &e), 0);
	assert_int_equal(judge(NULL), HEALTH_GOOD);
	w.p.cards[0].selected = w.p.cards[1].selected = false;
	w.p.cards[2].selected = true;
	assert_int_equal(health_accepted_write(path, &w.p, &e), 0);
	assert_int_equal(health_accepted_read(path, &w.accepted, &e), 0);
	assert_int_equal(w.accepted.n, 3);
	f = fopen(path, "w");
	assert_non_null(f);
	(void)fputs("{\"format\": 2}", f);
	(void)fclose(f);
	assert_int_equal(health_accepted_read(path, &w.accepted, &e), -EPROTO);
	assert_int_equal(w.accepted.n, 0);
	(void)unlink(path);
}

/* As many as have room, whole, and no byte that a shell or scontrol would take for its own. */
static void test_line_is_bounded_and_safe(void **state)
{
	const char *more;

	w.p.n = 60;
	for (uint32_t i = 0; i < w.p.n; i++) {
		w.p.cards[i] = w.p.cards[0];
		w.p.cards[i].dev.index = i;
		w.p.cards[i].health.ecc[ECC_VOLATILE_UNCORRECTED] = 1;
	}
	(void)str_copy(w.p.cards[0].dev.name, GPU_NAME_MAX, "it's \"$(x)\" `|\\\n\x1b[1m\xc3\xa9");
	assert_int_equal(judge(NULL), HEALTH_BAD);
	assert_true(strlen(w.j.line) < HEALTH_LINE_MAX);
	more = strstr(w.j.line, " since the driver was loaded; and 5");
	assert_non_null(more);
	assert_non_null(strstr(more, " more"));
	assert_non_null(strstr(w.j.line, "it?s ?"
					 "?(x)? "));
	assert_null(strpbrk(w.j.line, "'\"$`|\\\n\x1b"));
	w.p.n = 1;
	memset(w.p.cards[0].trouble, 'x', sizeof(w.p.cards[0].trouble) - 1);
	w.p.n_unknown = 1;
	assert_int_equal(judge(NULL), HEALTH_BAD);
	assert_true(strlen(w.j.line) < HEALTH_LINE_MAX);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(test_##name, make_cards, clear)
		TEST(good),
		TEST(bad),
		TEST(missing),
		TEST(driver),
		TEST(moments),
		TEST(hangs),
		TEST(trials),
		TEST(xids),
		TEST(what_is_not_accepted),
		TEST(unknown_xids),
		TEST(what_is_known_of_the_log),
		TEST(accepted_file),
		TEST(line_is_bounded_and_safe),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
