/* SPDX-License-Identifier: MIT */

/* NVML alone. */
#include "facts.h"

#include <string.h>
#include <time.h>

void fact_versions(void)
{
	char version[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
	int cuda_version = 0;

	ok(nvml.nvmlSystemGetDriverVersion(version, sizeof(version)) == NVML_SUCCESS && version[0],
	   "the driver has a version: %s", version);
	ok(cuda.cuDriverGetVersion(&cuda_version) == CUDA_SUCCESS && cuda_version >= 11000,
	   "CUDA has a version, before cuInit: %d", cuda_version);
	ok(nvml.nvmlSystemGetDriverVersion(version, 2) == NVML_ERROR_INSUFFICIENT_SIZE,
	   "too short a buffer is INSUFFICIENT_SIZE");
}

void fact_errors(void)
{
	const char *name = NULL, *text = NULL;

	ok(cuda.cuGetErrorName(CUDA_ERROR_OUT_OF_MEMORY, &name) == CUDA_SUCCESS && name &&
		   strcmp(name, "CUDA_ERROR_OUT_OF_MEMORY") == 0,
	   "error 2 is CUDA_ERROR_OUT_OF_MEMORY");
	ok(cuda.cuGetErrorString(CUDA_ERROR_OUT_OF_MEMORY, &text) == CUDA_SUCCESS && text && *text,
	   "it has a text: %s", text ? text : "-");
	ok(cuda.cuGetErrorName((CUresult)123456, &name) == CUDA_ERROR_INVALID_VALUE,
	   "an unknown error is INVALID_VALUE");
	ok(strlen(nvml_error(NVML_ERROR_NOT_SUPPORTED)) > 0, "NVML errors have texts: %s",
	   nvml_error(NVML_ERROR_NOT_SUPPORTED));
}

void fact_enumeration(void)
{
	unsigned int n = 0, minor;
	char text[96];
	nvmlDevice_t d, same;
	bool good = nvml.nvmlDeviceGetCount_v2(&n) == NVML_SUCCESS;

	ok(good && n > 0, "NVML lists %u cards", n);
	ok(nvml.nvmlDeviceGetHandleByIndex_v2(n, &d) == NVML_ERROR_INVALID_ARGUMENT,
	   "index %u is INVALID_ARGUMENT", n);
	for (unsigned int i = 0; i < n; i++) {
		good = nvml.nvmlDeviceGetHandleByIndex_v2(i, &d) == NVML_SUCCESS &&
		       nvml.nvmlDeviceGetUUID(d, text, sizeof(text)) == NVML_SUCCESS &&
		       nvml.nvmlDeviceGetHandleByUUID(text, &same) == NVML_SUCCESS && same == d &&
		       nvml.nvmlDeviceGetMinorNumber(d, &minor) == NVML_SUCCESS;
		ok(good, "card %u: UUID and back, minor number (%s)", i, text);
	}
	ok(nvml.nvmlDeviceGetHandleByUUID("GPU-00000000-0000-0000-0000-000000000000", &d) ==
		   NVML_ERROR_NOT_FOUND,
	   "an unknown UUID is NOT_FOUND");
}

void fact_memory_versions(void)
{
	nvmlMemory_v2_t v2 = { .version = nvmlMemory_v2 };
	nvmlMemory_t v1 = { 0 };
	bool good = nvml.nvmlDeviceGetMemoryInfo(dev, &v1) == NVML_SUCCESS;

	ok(good && v1.total == v1.used + v1.free, "v1: total = used + free (used %llu MiB)",
	   v1.used / MIB);
	if (nvml.nvmlDeviceGetMemoryInfo_v2(dev, &v2) != NVML_SUCCESS) {
		skip("memory info v2", "not in this driver");
		return;
	}
	ok(v2.total == v1.total, "v2 has the same total");
	ok(v2.total == v2.reserved + v2.used + v2.free,
	   "v2: total = reserved + used + free (reserved %llu, used %llu MiB)", v2.reserved / MIB,
	   v2.used / MIB);
	ok(v1.used >= v2.used + v2.reserved - 16 * MIB, "v1 counts the reserve as used");
	v2.version = 0;
	ok(nvml.nvmlDeviceGetMemoryInfo_v2(dev, &v2) != NVML_SUCCESS,
	   "v2 without its version fails");
}

void fact_small_figures(void)
{
	nvmlUtilization_t util = { 0 };
	unsigned int mw = 0, limit = 0;
	nvmlComputeMode_t mode;
	nvmlReturn_t r = nvml.nvmlDeviceGetUtilizationRates(dev, &util);

	ok((r == NVML_SUCCESS && util.gpu <= 100) || r == NVML_ERROR_NOT_SUPPORTED,
	   "utilisation is 0 to 100 or NOT_SUPPORTED (%s, %u)", nvml_error(r), util.gpu);
	r = nvml.nvmlDeviceGetPowerUsage(dev, &mw);
	if (r == NVML_SUCCESS && nvml.nvmlDeviceGetEnforcedPowerLimit(dev, &limit) == NVML_SUCCESS)
		ok(mw > 0 && mw <= limit * 3 / 2, "power %u mW of %u", mw, limit);
	else
		skip("power", nvml_error(r));
	ok(nvml.nvmlDeviceGetComputeMode(dev, &mode) == NVML_SUCCESS, "compute mode is readable");
}

void fact_events(void)
{
	nvmlEventData_t data;
	nvmlEventSet_t set;
	nvmlReturn_t r;
	double t0;

	if (nvml.nvmlEventSetCreate(&set) != NVML_SUCCESS) {
		skip("events", "no event set");
		return;
	}
	r = nvml.nvmlDeviceRegisterEvents(dev, nvmlEventTypeXidCriticalError, set);
	if (r == NVML_SUCCESS) {
		t0 = now_ms();
		r = nvml.nvmlEventSetWait_v2(set, &data, 50);
		ok(r == NVML_ERROR_TIMEOUT && now_ms() - t0 >= 40,
		   "waiting for an XID ends with TIMEOUT (%s after %.0f ms)", nvml_error(r),
		   now_ms() - t0);
		t0 = now_ms();
		for (int i = 0; i < 100 && r == NVML_ERROR_TIMEOUT; i++)
			r = nvml.nvmlEventSetWait_v2(set, &data, 0);
		ok(r == NVML_ERROR_TIMEOUT && now_ms() - t0 < 1000,
		   "asking for one without waiting returns at once (%s, %.1f us each)",
		   nvml_error(r), (now_ms() - t0) * 10);
	} else {
		skip("XID events", nvml_error(r));
	}
	(void)nvml.nvmlEventSetFree(set);
}

void fact_process_use_not_found(void)
{
	/* The driver's ring has 72 entries; an H200 (driver 580) refuses a buffer of 64 even for
	 * none. */
	nvmlProcessUtilizationSample_t samples[256];
	unsigned int n = 256;
	struct timespec ts;
	nvmlReturn_t r;

	(void)clock_gettime(CLOCK_REALTIME, &ts);
	r = nvml.nvmlDeviceGetProcessUtilization(dev, samples, &n,
						 (unsigned long long)ts.tv_sec * 1000000 +
							 (unsigned long long)ts.tv_nsec / 1000);
	if (r == NVML_ERROR_NOT_SUPPORTED)
		skip("process utilisation", nvml_error(r));
	else
		ok(r == NVML_ERROR_NOT_FOUND || (r == NVML_SUCCESS && n == 0),
		   "nobody used it since just now is NOT_FOUND (%s)", nvml_error(r));
}

/* A result that a board may give: what it asks for, or that there is no such thing on it. */
static bool has_or_lacks(nvmlReturn_t r)
{
	return r == NVML_SUCCESS || r == NVML_ERROR_NOT_SUPPORTED;
}

void fact_board(void)
{
	unsigned int corrected, uncorrected, pending, failed, processors = 0;
	unsigned long set[16] = { 0 };
	nvmlEnableState_t now, later;
	unsigned long long errors;
	char text[64] = "";
	nvmlReturn_t ecc;

	ok(has_or_lacks(nvml.nvmlDeviceGetSerial(dev, text, sizeof(text))), "serial number %s",
	   text);
	ok(nvml.nvmlDeviceGetVbiosVersion(dev, text, sizeof(text)) == NVML_SUCCESS && text[0],
	   "VBIOS %s", text);
	ok(nvml.nvmlDeviceGetCpuAffinity(dev, 16, set) == NVML_SUCCESS, "near processors");
	for (size_t i = 0; i < 16; i++)
		processors += (unsigned int)__builtin_popcountl(set[i]);
	ok(processors > 0, "of which there are %u", processors);
	ecc = nvml.nvmlDeviceGetEccMode(dev, &now, &later);
	ok(has_or_lacks(ecc), "ECC is there or not (%d)", (int)ecc);
	ok(nvml.nvmlDeviceGetTotalEccErrors(dev, 1, 0, &errors) == ecc,
	   "and its errors are counted where it is");
	ok(has_or_lacks(nvml.nvmlDeviceGetRemappedRows(dev, &corrected, &uncorrected, &pending,
						       &failed)),
	   "rows are remapped or not");
}
