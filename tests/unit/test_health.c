/* SPDX-License-Identifier: MIT */

/* What is known of a card's health, over a driver that is made up here. */

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "base/clock.h"
#include "gpu/card_sign.h"
#include "gpu/device.h"
#include "gpu/health.h"
#include "gpu/missing.h"
#include "gpu/xid_log.h"

static struct {
	nvmlReturn_t code;  /* of all calls */
	nvmlReturn_t field; /* of each field */
	unsigned int links; /* that the card has; 0: it has no NVLink */
	unsigned int calls;
} driver;

static nvmlReturn_t energy(nvmlDevice_t d, unsigned long long *mj)
{
	driver.calls++;
	*mj = 1234567;
	return driver.code;
}

static nvmlReturn_t throttle(nvmlDevice_t d, unsigned long long *bits)
{
	driver.calls++;
	*bits = nvmlClocksEventReasonSwPowerCap;
	return driver.code;
}

static nvmlReturn_t clock_of(nvmlDevice_t d, nvmlClockType_t type, unsigned int *mhz)
{
	driver.calls++;
	*mhz = type == NVML_CLOCK_MEM ? 2619 : 1980;
	return driver.code;
}

static nvmlReturn_t pstate(nvmlDevice_t d, unsigned int *state)
{
	driver.calls++;
	*state = NVML_PSTATE_UNKNOWN;
	return driver.code;
}

static nvmlReturn_t ecc(nvmlDevice_t d, nvmlMemoryErrorType_t type, nvmlEccCounterType_t since,
			unsigned long long *count)
{
	driver.calls++;
	*count = 10 * (type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED) + since;
	return type == NVML_MEMORY_ERROR_TYPE_UNCORRECTED ? driver.code : NVML_ERROR_UNKNOWN;
}

static nvmlReturn_t link_state(nvmlDevice_t d, unsigned int link, nvmlEnableState_t *up)
{
	driver.calls++;
	if (driver.code != NVML_SUCCESS || !driver.links)
		return driver.links ? driver.code : NVML_ERROR_NOT_SUPPORTED;
	*up = link == 1 ? NVML_FEATURE_DISABLED : NVML_FEATURE_ENABLED;
	return link < driver.links ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

static nvmlReturn_t link_errors(nvmlDevice_t d, unsigned int link, nvmlNvLinkErrorCounter_t counter,
				unsigned long long *count)
{
	driver.calls++;
	*count = 1U << link;
	return counter == NVML_NVLINK_ERROR_DL_CRC_DATA ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

static nvmlReturn_t field_values(nvmlDevice_t d, int n, nvmlFieldValue_t *f)
{
	driver.calls++;
	for (int i = 0; i < n; i++) {
		f[i].nvmlReturn = driver.field;
		f[i].valueType = i ? NVML_VALUE_TYPE_UNSIGNED_LONG_LONG : NVML_VALUE_TYPE_DOUBLE;
		f[i].value.ullVal = 100 + f[i].fieldId;
	}
	return NVML_SUCCESS;
}

static nvmlReturn_t retired_pages(nvmlDevice_t d, nvmlPageRetirementCause_t cause,
				  unsigned int *count, unsigned long long *addresses)
{
	assert_true(*count == 0 && !addresses);
	*count = cause == NVML_PAGE_RETIREMENT_CAUSE_DOUBLE_BIT_ECC_ERROR ? 3 : 0;
	return *count ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS;
}

static nvmlReturn_t retired_pending(nvmlDevice_t d, nvmlEnableState_t *pending)
{
	*pending = NVML_FEATURE_ENABLED;
	return driver.code;
}

static nvmlReturn_t fabric_info(nvmlDevice_t d, nvmlGpuFabricInfo_t *info)
{
	info->state = NVML_GPU_FABRIC_STATE_IN_PROGRESS;
	return driver.code;
}

static const struct gpu_device card = { .mig = -1 };

static struct nvml new_driver(unsigned int links)
{
	driver.code = driver.field = NVML_SUCCESS;
	driver.links = links;
	driver.calls = 0;
	return (struct nvml){ .energy = energy,
			      .throttle = throttle,
			      .clock = clock_of,
			      .clock_max = clock_of,
			      .pstate = pstate,
			      .ecc_errors = ecc,
			      .nvlink_state = link_state,
			      .nvlink_errors = link_errors,
			      .field_values = field_values };
}

/* A driver without these symbols: nothing is known, which is not the same as zeroes. */
static void test_nothing_is_known_of_an_old_driver(void **state)
{
	const struct nvml none = { 0 };
	struct gpu_health h = { .known = UINT64_MAX };

	gpu_health_read_all(&none, &card, &h);
	assert_int_equal(h.known & 0xffffff, 0);
	assert_true(h.read_ns[HEALTH_PART_ECC]);
}

static void test_each_figure_has_its_own_bit(void **state)
{
	struct nvml n = new_driver(3);
	struct gpu_health h = { 0 };

	gpu_health_read_all(&n, &card, &h);
	assert_int_equal(h.known & (HEALTH_ENERGY | HEALTH_CLOCK_SM | HEALTH_CLOCK_MEM |
				    HEALTH_CLOCK_SM_MAX | HEALTH_THROTTLE),
			 HEALTH_ENERGY | HEALTH_CLOCK_SM | HEALTH_CLOCK_MEM | HEALTH_CLOCK_SM_MAX |
				 HEALTH_THROTTLE);
	assert_int_equal(h.energy_mj, 1234567);
	assert_int_equal(h.clock_mem_mhz, 2619);
	assert_int_equal(h.clock_sm_mhz, 1980);
	assert_false(h.known & HEALTH_PSTATE); /* "unknown" is no state */
	assert_false(h.known & (HEALTH_ROWS | HEALTH_PCIE_GEN | HEALTH_PCIE_WIDTH_MAX));
	assert_false(h.known & (uint64_t)HEALTH_ECC << ECC_VOLATILE_CORRECTED);
	assert_true(h.known & (uint64_t)HEALTH_ECC << ECC_AGGREGATE_UNCORRECTED);
	assert_int_equal(h.ecc[ECC_VOLATILE_UNCORRECTED], 10);
	assert_int_equal(h.ecc[ECC_AGGREGATE_UNCORRECTED], 11);
}

/* What was known once is not shown for ever. */
static void test_a_call_that_fails_takes_the_figure_back(void **state)
{
	struct nvml n = new_driver(3);
	struct gpu_health h = { 0 };

	gpu_health_read_all(&n, &card, &h);
	driver.code = NVML_ERROR_UNKNOWN;
	gpu_health_read_all(&n, &card, &h);
	assert_false(h.known & (HEALTH_ENERGY | HEALTH_CLOCK_SM | HEALTH_THROTTLE | HEALTH_LINKS));
	assert_false(h.known & (uint64_t)HEALTH_LINK_ERRORS << LINK_REPLAYS);
}

static void test_links_and_their_errors(void **state)
{
	struct nvml n = new_driver(3);
	struct gpu_health h = { 0 };

	gpu_health_read_all(&n, &card, &h);
	assert_int_equal(h.links, 7);
	assert_int_equal(h.links_up, 5);
	/* The first field is told as a fraction, which no count is: its links are asked. */
	assert_int_equal(h.link_errors[LINK_REPLAYS], 5);
	assert_int_equal(h.link_errors[LINK_CRC_DATA],
			 100 + NVML_FI_DEV_NVLINK_CRC_DATA_ERROR_COUNT_TOTAL);
	driver.field = NVML_ERROR_NOT_SUPPORTED;
	gpu_health_read_all(&n, &card, &h);
	assert_int_equal(h.link_errors[LINK_CRC_FLIT], 5);
	assert_true(h.known & (uint64_t)HEALTH_LINK_ERRORS << LINK_CRC_FLIT);
	assert_false(h.known & (uint64_t)HEALTH_LINK_ERRORS << LINK_CRC_DATA);
	n.field_values = NULL;
	n.nvlink_errors = NULL;
	gpu_health_read_all(&n, &card, &h);
	assert_false(h.known & (uint64_t)HEALTH_LINK_ERRORS << LINK_CRC_FLIT);
}

static void test_a_card_without_links_is_asked_once(void **state)
{
	struct nvml n = new_driver(0);
	struct gpu_health h = { 0 };

	gpu_health_read(&n, &card, HEALTH_PART_LINKS, &h);
	assert_true(h.known & HEALTH_LINKS);
	assert_int_equal(h.links, 0);
	assert_int_equal(driver.calls, 1);
	gpu_health_read(&n, &card, HEALTH_PART_LINK_ERRORS, &h);
	assert_int_equal(driver.calls, 1);
	assert_false(h.known & (uint64_t)HEALTH_LINK_ERRORS << LINK_REPLAYS);
}

static void test_an_instance_has_none(void **state)
{
	const struct gpu_device mig = { .mig = 1 };
	struct nvml n = new_driver(3);
	struct gpu_health h = { 0 };

	gpu_health_read_all(&n, &mig, &h);
	assert_int_equal(h.known, 0);
	assert_int_equal(h.read_ns[HEALTH_PART_ENERGY], 0);
	assert_int_equal(driver.calls, 0);
}

static const char *signs_of(const struct gpu_health *h)
{
	static char buf[200];
	struct card_signs signs;

	buf[0] = '\0';
	card_signs(NULL, h, CARD_ALL, &signs);
	for (uint32_t i = 0; i < signs.n; i++)
		(void)snprintf(buf + strlen(buf), sizeof(buf) - strlen(buf), "%s%s", i ? " " : "",
			       card_sign_word(signs.s[i].code));
	return buf;
}

/* Idling and the power limit are what cards do; heat is not. */
static void test_reasons_and_faults(void **state)
{
	struct gpu_health h = { .known = HEALTH_THROTTLE,
				.throttle = nvmlClocksEventReasonGpuIdle |
					    nvmlClocksEventReasonSwPowerCap };
	bool fault = true;

	assert_string_equal(health_throttle(h.throttle, 0, &fault), "idle");
	assert_false(fault);
	assert_string_equal(health_throttle(h.throttle, 1, &fault), "power-cap");
	assert_false(fault);
	assert_null(health_throttle(h.throttle, 2, NULL));
	assert_string_equal(signs_of(&h), "");
	h.throttle |=
		nvmlClocksThrottleReasonHwThermalSlowdown | nvmlClocksThrottleReasonHwSlowdown;
	assert_string_equal(health_throttle(h.throttle, 3, &fault), "hw-thermal");
	assert_true(fault);
	assert_string_equal(signs_of(&h), "hot"); /* that the hardware slows down is the same */
	/* Its software keeps it at the limit of its temperature, which costs a little, or much. */
	h.throttle = nvmlClocksEventReasonSwThermalSlowdown;
	assert_string_equal(signs_of(&h), "");
	h.known |= HEALTH_CLOCK_SM | HEALTH_CLOCK_SM_MAX;
	h.clock_sm_max_mhz = 1980;
	h.clock_sm_mhz = 1600;
	assert_string_equal(signs_of(&h), "");
	h.throttle |= nvmlClocksThrottleReasonHwPowerBrakeSlowdown;
	assert_string_equal(signs_of(&h), "slowed");
	h.clock_sm_mhz = 900;
	assert_string_equal(signs_of(&h), "hot");
	h.rows_failed = 1;
	assert_string_equal(signs_of(&h), "hot"); /* not known */
	h.known |= HEALTH_ROWS;
	assert_string_equal(signs_of(&h), "hot row-remap-failed");
	h.known &= ~(uint64_t)HEALTH_THROTTLE;
	assert_string_equal(signs_of(&h), "row-remap-failed");
	h.known |= HEALTH_PCIE_WIDTH | HEALTH_PCIE_WIDTH_MAX;
	h.pcie_width = h.pcie_width_max = 16;
	assert_string_equal(signs_of(&h), "row-remap-failed");
	h.pcie_width = 8;
	assert_string_equal(signs_of(&h), "row-remap-failed pcie-narrow");
}

static struct gpu_health counters(uint64_t uncorrected, uint32_t rows, uint32_t replays)
{
	return (struct gpu_health){ .known = (uint64_t)HEALTH_ECC << ECC_VOLATILE_UNCORRECTED |
					     HEALTH_ROWS | HEALTH_PCIE_REPLAYS,
				    .ecc[ECC_VOLATILE_UNCORRECTED] = uncorrected,
				    .rows_uncorrected = rows,
				    .pcie_replays = replays };
}

/* Text of the first sign since an earlier look. */
static char *counted_since(const struct gpu_health *since, const struct gpu_health *now)
{
	static char buf[200];
	struct strbuf text = STRBUF_INIT;
	struct card_signs signs;

	card_signs(since, now, CARD_COUNT, &signs);
	if (signs.n)
		card_sign_text(&signs.s[0], "since then", &text);
	(void)snprintf(buf, sizeof(buf), "%s", strbuf_str(&text));
	strbuf_clear(&text);
	return buf;
}

static void test_what_was_counted(void **state)
{
	struct gpu_health none = { 0 }, a = counters(2, 1, 100), b = counters(5, 1, 110);

	assert_string_equal(counted_since(&a, &b), "3 uncorrected ECC errors since then");
	assert_string_equal(counted_since(&b, &b), "");
	assert_string_equal(counted_since(&none, &b), ""); /* nobody knows since when */
	assert_string_equal(counted_since(NULL, &b), "5 uncorrected ECC errors since then");
	b.ecc[ECC_VOLATILE_UNCORRECTED] = 1; /* a reset */
	assert_string_equal(counted_since(&a, &b), "1 uncorrected ECC error since then");
	b = counters(2, 3, 100);
	assert_string_equal(counted_since(&a, &b), "2 rows of its memory were replaced since then");
	assert_string_equal(counted_since(NULL, &(struct gpu_health){ .known = HEALTH_ROWS,
								      .rows_corrected = 9 }),
			    ""); /* in the life of the card */
	b = counters(2, 1, 117);
	assert_string_equal(counted_since(&a, &b),
			    "17 transfers over PCIe had to be repeated since then");
	b.pcie_replays = 116;
	assert_string_equal(counted_since(&a, &b), "");
	/* In ten minutes more of them say nothing than in one. */
	a.read_ns[HEALTH_PART_PCIE] = NS_PER_S;
	b.read_ns[HEALTH_PART_PCIE] = 601 * NS_PER_S;
	b.pcie_replays = 100 + 16 + 80;
	assert_string_equal(counted_since(&a, &b), "");
	b.pcie_replays++;
	assert_string_equal(counted_since(&a, &b),
			    "97 transfers over PCIe had to be repeated since then");
}

/* What rows are from Ampere on. */
static void test_retired_pages(void **state)
{
	const struct nvml n = { .retired_pages = retired_pages,
				.retired_pending = retired_pending };
	struct gpu_health h = { 0 };

	driver.code = NVML_SUCCESS;
	gpu_health_read(&n, &card, HEALTH_PART_ROWS, &h);
	assert_string_equal(signs_of(&h), "row-remap-pending");
	assert_int_equal(h.rows_corrected, 0);
	assert_int_equal(h.rows_uncorrected, 3);
	driver.code = NVML_ERROR_NOT_SUPPORTED;
	gpu_health_read(&n, &card, HEALTH_PART_ROWS, &h);
	assert_false(h.known & HEALTH_ROWS);
}

/* At rest a card lowers its generation, and maybe its lanes. */
static void test_a_link_that_rests(void **state)
{
	struct gpu_health h = { .known = HEALTH_PCIE_WIDTH | HEALTH_PCIE_WIDTH_MAX |
					 HEALTH_PCIE_GEN | HEALTH_PCIE_GEN_MAX | HEALTH_THROTTLE,
				.throttle = nvmlClocksEventReasonGpuIdle,
				.pcie_width = 8,
				.pcie_width_max = 16,
				.pcie_gen = 4,
				.pcie_gen_max = 4 };

	assert_string_equal(signs_of(&h), "pcie-narrow");
	h.pcie_gen = 1;
	assert_string_equal(signs_of(&h), "");
	h.throttle = 0; /* it works */
	assert_string_equal(signs_of(&h), "pcie-narrow");
}

static char *first_text(const struct gpu_health *h)
{
	static char buf[200];
	struct strbuf text = STRBUF_INIT;
	struct card_signs signs;

	card_signs(NULL, h, CARD_STATE, &signs);
	if (signs.n)
		card_sign_text(&signs.s[0], NULL, &text);
	(void)snprintf(buf, sizeof(buf), "%s", strbuf_str(&text));
	strbuf_clear(&text);
	return buf;
}

static void test_what_its_driver_asks_for(void **state)
{
	struct gpu_health h = { .known = HEALTH_RECOVERY };

	assert_string_equal(first_text(&h), "");
	h.recovery = NVML_GPU_RECOVERY_ACTION_GPU_RESET;
	assert_string_equal(first_text(&h), "its driver asks that the card is reset");
	h.recovery = NVML_GPU_RECOVERY_ACTION_DRAIN_AND_RESET;
	assert_string_equal(first_text(&h),
			    "its driver asks that its programs end and the card is reset");
	h.recovery = 99;
	assert_string_equal(first_text(&h), "its driver asks something that is not known here");
	h.known = 0;
	assert_string_equal(first_text(&h), "");
}

static void test_fabric(void **state)
{
	const struct nvml n = { .fabric_info = fabric_info };
	const struct gpu_device mig = { .mig = -1, .mig_parent = true };
	struct gpu_health h = { .known = HEALTH_FABRIC,
				.fabric_state = NVML_GPU_FABRIC_STATE_COMPLETED };

	assert_string_equal(first_text(&h), "");
	h.fabric_status = NVML_ERROR_UNKNOWN;
	assert_string_equal(first_text(&h), "its NVLink fabric could not be set up");
	h.fabric_state = NVML_GPU_FABRIC_STATE_IN_PROGRESS;
	assert_string_equal(first_text(&h), "its NVLink fabric is still being set up: does the "
					    "fabric manager run?");
	h.known = 0;
	assert_string_equal(first_text(&h), "");
	driver.code = NVML_SUCCESS;
	gpu_health_read(&n, &card, HEALTH_PART_STATE, &h);
	assert_string_equal(signs_of(&h), "fabric");
	gpu_health_read(&n, &mig, HEALTH_PART_STATE, &h);
	assert_string_equal(signs_of(&h), "");
}

/* Of the first of n cards of a model: how many it has up and how many it should have; 0 of 0. */
static void check_links(const struct gpu_health *const *like, uint32_t n, uint64_t up, uint64_t of)
{
	struct card_signs signs = { 0 };

	card_sign_links(like[0], like, n, &signs);
	assert_int_equal(signs.n, of != 0);
	assert_int_equal(signs.s[0].n, up);
	assert_int_equal(signs.s[0].of, of);
	card_sign_links(like[0], like, n, &signs); /* each once */
	assert_int_equal(signs.n, of != 0);
}

/* A board without bridges has none up, and one that others have and it has not is down. */
static void test_links_beside_others(void **state)
{
	const struct gpu_health up = { .known = HEALTH_LINKS, .links = 0xff, .links_up = 0xff };
	const struct gpu_health half = { .known = HEALTH_LINKS, .links = 0xff, .links_up = 0x0f };
	const struct gpu_health none = { .known = HEALTH_LINKS, .links = 0xff };
	const struct gpu_health unknown = { .known = 0 };
	const struct gpu_health *like[8] = { &half };

#define LINKS(n, up, of, ...) check_links((const struct gpu_health *[]){ __VA_ARGS__ }, n, up, of)
	LINKS(1, 0, 0, &half);
	LINKS(2, 0, 0, &none, &none);
	LINKS(2, 4, 8, &half, &up);
	LINKS(2, 0, 0, &up, &half);
	LINKS(3, 4, 8, &half, &up, &up);
	LINKS(3, 0, 0, &up, &half, &half);
	LINKS(3, 0, 0, &unknown, &up, &up);
	/* Two that a bridge joins, and one or two that none does; two pairs and two. */
	LINKS(3, 0, 0, &none, &up, &up);
	LINKS(4, 0, 0, &none, &none, &up, &up);
	LINKS(6, 0, 0, &none, &none, &up, &up, &up, &up);
	/* The others cannot be pairs. */
	LINKS(2, 0, 8, &none, &up);
	LINKS(4, 0, 8, &none, &up, &up, &up);
	like[0] = &none;
	for (int i = 1; i < 8; i++)
		like[i] = &up;
	check_links(like, 8, 0, 8);
}

static void take(struct xid_log *log, const char *record)
{
	xid_log_take(log, record);
}

static void test_xids_in_the_log(void **state)
{
	struct xid_log log = { .n = 0 };
	const struct xid_log_card *c;

	take(&log, "4,100,1000000,-;NVRM: Xid (PCI:0000:3b:00): 79, pid=77, name=python");
	assert_int_equal(log.from_us, 1000000); /* earlier ones were overwritten */
	take(&log,
	     "4,101,2000000,-;NVRM: Xid (PCI:0000:3b:00): 31, pid=77, MMU Fault"); /* a program */
	take(&log, "12,102,2000000,-;NVRM: Xid (PCI:0000:5e:00): 79, written by somebody");
	take(&log, "NVRM: Xid (PCI:0000:5e:00): 79, of no log");
	take(&log, "4,103,2000000;NVRM: Xid (PCI:nonsense): 79");
	take(&log, "");
	assert_int_equal(log.n, 1);
	c = xid_log_find(&log, "00000000:3B:00.0");
	assert_non_null(c);
	assert_int_equal(c->xid, 79);
	assert_int_equal(c->at_us, 1000000);
	assert_null(xid_log_find(&log, "00000000:5E:00.0"));
	assert_null(xid_log_find(&log, ""));
	/* What the driver itself does not take for fatal. */
	take(&log, "4,103,2500000,-;NVRM: Xid (PCI:0000:5e:00): 145, RLW_RXPIPE Nonfatal XC0 i0 "
		   "Link 13 (0x0409a0c2 0x00000008)");
	assert_null(xid_log_find(&log, "00000000:5E:00.0"));
	take(&log, "4,103,2500000,-;NVRM: Xid (PCI:0000:5f:00): 149, NETIR_LINK_EVT Fatal XC0 i0 "
		   "Link 00 (0x026001c6 0x00000000)");
	assert_int_equal(xid_log_find(&log, "00000000:5F:00.0")->xid, 149);
	/* A reset, by what the driver says of it. */
	take(&log, "4,104,3000000,-;NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed "
		   "from 0x0 (None) to 0x1 (GPU Reset Required)");
	assert_non_null(xid_log_find(&log, "00000000:3B:00.0"));
	take(&log, "4,105,4000000,-;NVRM: Xid (PCI:0000:3b:00): 154, GPU recovery action changed "
		   "from 0x1 (GPU Reset Required) to 0x0 (None)");
	assert_null(xid_log_find(&log, "00000000:3B:00.0"));
	take(&log, "4,106,5000000,-;NVRM: Xid (PCI:0000:3b:00): 95, pid='<unknown>'");
	assert_int_equal(xid_log_find(&log, "00000000:3B:00.0")->xid, 95);
	take(&log, "6,107,6000000,-;NVRM: loading NVIDIA UNIX x86_64 Kernel Module  580.95");
	assert_int_equal(log.n, 0);
	assert_int_equal(log.from_us, 0); /* all of this driver's is there */
	for (unsigned int i = 0; i < 300; i++) {
		char record[100];

		(void)snprintf(record, sizeof(record), "4,1,2,-;NVRM: Xid (PCI:%04x:01:00): 79, x",
			       i);
		take(&log, record);
	}
	assert_int_equal(log.n, XID_LOG_CARDS);
	log = (struct xid_log){ .n = 0 };
	take(&log, "5,0,0,-;Linux version 6.1.0");
	take(&log, "5,1,2000000,-;Command line");
	assert_int_equal(log.from_us, 0);
	assert_int_equal(xid_log_read("/nonexistent/kmsg", &log), -ENOENT);
}

/* A directory as the kernel has it for PCI devices: what it is bound to may be empty. */
static void make_pci(const char *dir, const char *name, const char *vendor, const char *class,
		     const char *kind, const char *bound_to)
{
	const struct {
		const char *file, *text;
	} files[] = { { "vendor", vendor }, { "class", class }, { "device", kind } };
	char path[300], target[100];

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(mkdir(path, 0755), 0);
	for (size_t i = 0; i < 3; i++) {
		FILE *f;

		(void)snprintf(path, sizeof(path), "%s/%s/%s", dir, name, files[i].file);
		f = fopen(path, "w");
		assert_non_null(f);
		(void)fprintf(f, "%s\n", files[i].text);
		(void)fclose(f);
	}
	(void)snprintf(path, sizeof(path), "%s/%s/driver", dir, name);
	(void)snprintf(target, sizeof(target), "../../bus/pci/drivers/%s", bound_to);
	assert_true(!bound_to[0] || symlink(target, path) == 0);
}

static void touch(const char *dir, const char *name)
{
	char path[300];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "w");
	assert_non_null(f);
	(void)fclose(f);
}

/* What the driver says of a card in /proc/driver/nvidia/gpus. */
static void make_information(const char *dir, const char *bus_id, int minor, const char *excluded)
{
	char path[300];
	FILE *f;

	(void)snprintf(path, sizeof(path), "%s/%s", dir, bus_id);
	assert_int_equal(mkdir(path, 0755), 0);
	(void)snprintf(path, sizeof(path), "%s/%s/information", dir, bus_id);
	f = fopen(path, "w");
	assert_non_null(f);
	(void)fprintf(f,
		      "Model: \t\t NVIDIA H100\nBus Location: \t %s\nDevice Minor: \t %d\n"
		      "GPU Excluded:\t %s\n",
		      bus_id, minor, excluded);
	(void)fclose(f);
}

static struct {
	char dev[40], pci[40], driver[40];
	struct gpu_places at;
	struct gpu_list *list;
	struct gpu_missing missing[GPU_DEVICES_MAX];
} places;

/* Two cards that are listed, and all that is of no interest beside them. */
static int make_places(void **state)
{
	(void)strcpy(places.dev, "/tmp/tenure-unit-dev-XXXXXX");
	(void)strcpy(places.pci, "/tmp/tenure-unit-pci-XXXXXX");
	(void)strcpy(places.driver, "/tmp/tenure-unit-drv-XXXXXX");
	assert_true(mkdtemp(places.dev) && mkdtemp(places.pci) && mkdtemp(places.driver));
	assert_true(chmod(places.dev, 0755) == 0 && chmod(places.pci, 0755) == 0 &&
		    chmod(places.driver, 0755) == 0);
	places.at = (struct gpu_places){ places.dev, places.pci, places.driver };
	places.list = calloc(1, sizeof(*places.list));
	assert_non_null(places.list);
	places.list->n = 2;
	places.list->d[0] =
		(struct gpu_device){ .minor = 0, .mig = -1, .bus_id = "00000000:18:00.0" };
	places.list->d[1] =
		(struct gpu_device){ .minor = 1, .mig = -1, .bus_id = "00000000:3B:00.0" };
	touch(places.dev, "nvidia0");
	touch(places.dev, "nvidia1");
	touch(places.dev, "nvidiactl");
	touch(places.dev, "nvidia-uvm");
	touch(places.dev, "nvidia");
	make_pci(places.pci, "0000:18:00.0", "0x10de", "0x030200", "0x2335", "nvidia");
	make_pci(places.pci, "0000:3b:00.0", "0x10de", "0x030200", "0x2335", "nvidia");
	make_pci(places.pci, "0000:19:00.0", "0x10de", "0x040300", "0x10f0", "snd_hda_intel");
	make_pci(places.pci, "0000:1a:00.0", "0x1002", "0x030000", "0x1586", "amdgpu");
	make_pci(places.pci, "0000:1b:00.0", "0x10de", "0x030000", "0x128b", ""); /* too old */
	return 0;
}

static int remove_places(void **state)
{
	char command[200];

	(void)snprintf(command, sizeof(command), "rm -rf %s %s %s", places.dev, places.pci,
		       places.driver);
	assert_int_equal(system(command), 0);
	free(places.list);
	return 0;
}

static uint32_t n_missing(void)
{
	return gpu_find_missing(places.list, &places.at, places.missing);
}

/* Without the list of PCI devices, as in a container. */
static uint32_t n_missing_nodes(void)
{
	struct gpu_places at = places.at;

	at.pci_dir = NULL;
	return gpu_find_missing(places.list, &at, places.missing);
}

static void test_missing_cards(void **state)
{
	const struct gpu_places nowhere = { "/nonexistent", "/nonexistent", "/nonexistent" };

	assert_int_equal(n_missing(), 0);
	assert_int_equal(gpu_find_missing(places.list, &nowhere, places.missing), 0);
	touch(places.dev, "nvidia5");
	assert_int_equal(n_missing(), 1);
	assert_int_equal(places.missing[0].minor, 5);
	/* One of the same kind that the driver has refused; and that both miss one says no more. */
	make_pci(places.pci, "0000:5e:00.0", "0x10de", "0x030200", "0x2335", "");
	assert_int_equal(n_missing(), 1);
	make_pci(places.pci, "0000:86:00.0", "0x10de", "0x030200", "0x2335", "nvidia");
	make_information(places.driver, "0000:86:00.0", 5, "No");
	assert_int_equal(n_missing(), 2);
	assert_string_equal(places.missing[0].bus_id, "0000:5e:00.0");
	assert_string_equal(places.missing[1].bus_id, "0000:86:00.0");
	assert_int_equal(n_missing_nodes(), 1);
	/* What NVML counts and cannot ask is one of these. */
	places.list->n_failed = 1;
	assert_int_equal(n_missing_nodes(), 0);
	assert_int_equal(n_missing(), 1);
	/* Whose numbers are not known of them nothing is missed by number. */
	places.list->n_failed = 0;
	places.list->d[1].minor = -1;
	assert_int_equal(n_missing_nodes(), 0);
}

/* The node of a card that was given to a virtual machine stays. */
static void test_cards_of_another_driver_are_not_missing(void **state)
{
	make_pci(places.pci, "0000:1c:00.0", "0x10de", "0x030200", "0x2335", "vfio-pci");
	assert_int_equal(n_missing(), 0);
	touch(places.dev, "nvidia2");
	assert_int_equal(n_missing(), 0);
	touch(places.dev, "nvidia3");
	assert_int_equal(n_missing(), 1);
}

static void test_excluded_cards_are_not_missing(void **state)
{
	make_pci(places.pci, "0000:5e:00.0", "0x10de", "0x030200", "0x2335", "nvidia");
	make_information(places.driver, "0000:5e:00.0", 2, "Yes");
	touch(places.dev, "nvidia2");
	assert_int_equal(n_missing(), 0);
	make_pci(places.pci, "0000:86:00.0", "0x10de", "0x030200", "0x2335", "nvidia");
	make_information(places.driver, "0000:86:00.0", 3, "No");
	touch(places.dev, "nvidia3");
	assert_int_equal(n_missing(), 1);
	places.list->d[1].minor = -1; /* nothing is missed by number */
	assert_int_equal(n_missing(), 1);
	assert_string_equal(places.missing[0].bus_id, "0000:86:00.0");
}

/* As somebody who may not open every node. */
static uint32_t n_missing_to_others(void)
{
	const uid_t self = geteuid();
	uint32_t n;

	assert_true(self != 0 || seteuid(12345) == 0);
	n = n_missing();
	assert_int_equal(seteuid(self), 0);
	return n;
}

/* A task sees the nodes of its job's cards, or may not open others, and all PCI devices of the
 * machine. */
static void test_cards_of_other_jobs_are_not_missing(void **state)
{
	char path[100];

	make_pci(places.pci, "0000:82:00.0", "0x10de", "0x030200", "0x2335", "nvidia");
	assert_int_equal(n_missing(), 0); /* of which this container is told nothing */
	make_information(places.driver, "0000:82:00.0", 2, "No");
	assert_int_equal(n_missing(), 0); /* whose node it does not have */
	touch(places.dev, "nvidia2");
	assert_int_equal(n_missing(), 1);
	(void)snprintf(path, sizeof(path), "%s/nvidia2", places.dev);
	assert_int_equal(chmod(path, 0), 0);
	assert_int_equal(n_missing_to_others(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_nothing_is_known_of_an_old_driver),
		cmocka_unit_test(test_each_figure_has_its_own_bit),
		cmocka_unit_test(test_a_call_that_fails_takes_the_figure_back),
		cmocka_unit_test(test_links_and_their_errors),
		cmocka_unit_test(test_a_card_without_links_is_asked_once),
		cmocka_unit_test(test_an_instance_has_none),
		cmocka_unit_test(test_reasons_and_faults),
		cmocka_unit_test(test_what_was_counted),
		cmocka_unit_test(test_a_link_that_rests),
		cmocka_unit_test(test_what_its_driver_asks_for),
		cmocka_unit_test(test_fabric),
		cmocka_unit_test(test_retired_pages),
		cmocka_unit_test(test_links_beside_others),
		cmocka_unit_test(test_xids_in_the_log),
#define PLACES_TEST(name) cmocka_unit_test_setup_teardown(test_##name, make_places, remove_places)
		PLACES_TEST(missing_cards),
		PLACES_TEST(cards_of_another_driver_are_not_missing),
		PLACES_TEST(excluded_cards_are_not_missing),
		PLACES_TEST(cards_of_other_jobs_are_not_missing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
