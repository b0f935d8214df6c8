/* SPDX-License-Identifier: MIT */

/*
 * A program that is linked against the driver's libraries, as one of somebody else's: it starts
 * only where they have every function that it names. Prints what some of them return.
 */

#include <stdio.h>

int nvmlInit_v2(void);
int nvmlUnitGetCount(unsigned int *n);
int nvmlDeviceGetHandleByIndex_v2(unsigned int index, void **device);
int nvmlDeviceGetBrand(void *device, unsigned int *brand);
int nvmlDeviceGetArchitecture(void *device, unsigned int *architecture);
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned int *generation);
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned int *generation);
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned int *width);
int nvmlDeviceGetBoardId(void *device, unsigned int *id);
int nvmlDeviceGetFanSpeed(void *device, unsigned int *percent);
int nvmlDeviceGetInforomImageVersion(void *device, char *text, unsigned int room);
int cuInit(unsigned int flags);
int cuCtxCreate_v3(void **context, void *params, int n, unsigned int flags, int device);
int cuCtxCreate_v4(void **context, void *params, unsigned int flags, int device);
int cuPointerGetAttribute(void *data, int attribute, unsigned long long address);
int cuMemAllocManaged(unsigned long long *address, size_t bytes, unsigned int flags);

#define SHOW(call) printf("%s %d\n", #call, call)
#define SHOW_VALUE(function)                                                                       \
	do {                                                                                       \
		unsigned int value_ = 0;                                                           \
		int r_ = function(device, &value_);                                                \
		printf("%s %d %u\n", #function, r_, value_);                                       \
	} while (0)

int main(void)
{
	unsigned long long address = 0;
	unsigned int n = 0;
	void *device = NULL, *context = NULL;
	char text[64];

	if (nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &device) || cuInit(0))
		return 1;
	SHOW(nvmlUnitGetCount(&n));
	SHOW(nvmlDeviceGetInforomImageVersion(device, text, sizeof(text)));
	SHOW(nvmlDeviceGetFanSpeed(device, &n));
	SHOW_VALUE(nvmlDeviceGetBrand);
	SHOW_VALUE(nvmlDeviceGetArchitecture);
	SHOW_VALUE(nvmlDeviceGetMaxPcieLinkGeneration);
	SHOW_VALUE(nvmlDeviceGetCurrPcieLinkGeneration);
	SHOW_VALUE(nvmlDeviceGetMaxPcieLinkWidth);
	SHOW_VALUE(nvmlDeviceGetBoardId);
	SHOW(cuCtxCreate_v3(&context, NULL, 0, 0, 0));
	SHOW(cuCtxCreate_v4(&context, NULL, 0, 0));
	SHOW(cuPointerGetAttribute(&address, 2, 4096));
	SHOW(cuMemAllocManaged(&address, 4096, 1));
	return context ? 1 : 0;
}
