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
int nvmlDeviceGetBridgeChipInfo(void *device, void *hierarchy);
int cuInit(unsigned int flags);
int cuGraphCreate(void **graph, unsigned int flags);
int cuMemPoolCreate(void **pool, const void *properties);
int cuGLInit(void);
int cuIpcGetEventHandle(void *handle, void *event);
int cuStreamBeginCapture_v2(void *stream, int mode);

#define SHOW(call) printf("%s %d\n", #call, call)
#define SHOW_VALUE(function)                                                                       \
	do {                                                                                       \
		unsigned int value_ = 0;                                                           \
		int r_ = function(device, &value_);                                                \
		printf("%s %d %u\n", #function, r_, value_);                                       \
	} while (0)

int main(void)
{
	unsigned int n = 0;
	void *device = NULL, *graph = NULL;
	char text[64];

	if (nvmlInit_v2() || nvmlDeviceGetHandleByIndex_v2(0, &device) || cuInit(0))
		return 1;
	SHOW(nvmlUnitGetCount(&n));
	SHOW(nvmlDeviceGetBridgeChipInfo(device, text));
	SHOW(nvmlDeviceGetFanSpeed(device, &n));
	SHOW_VALUE(nvmlDeviceGetBrand);
	SHOW_VALUE(nvmlDeviceGetArchitecture);
	SHOW_VALUE(nvmlDeviceGetMaxPcieLinkGeneration);
	SHOW_VALUE(nvmlDeviceGetCurrPcieLinkGeneration);
	SHOW_VALUE(nvmlDeviceGetMaxPcieLinkWidth);
	SHOW_VALUE(nvmlDeviceGetBoardId);
	SHOW(cuGraphCreate(&graph, 0));
	SHOW(cuMemPoolCreate(&graph, text));
	SHOW(cuGLInit());
	SHOW(cuIpcGetEventHandle(text, NULL));
	SHOW(cuStreamBeginCapture_v2(NULL, 0));
	return graph ? 1 : 0;
}
