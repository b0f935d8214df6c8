/* SPDX-License-Identifier: MIT */

/*
 * What cuDeviceGetAttribute() and its older sisters tell. One row an attribute: X(name, number,
 * value), with d the device and "of" what its generation has. A plain number is what an H100 says
 * (driver 580.159); of what this library does not do (pieces shared by handles, cooperative
 * launches, memory operations of streams) the row says 0, so that nobody counts on it.
 */
#include "cuda_sim.h"

#include <string.h>

/* What follows from the compute capability, by the CUDA programming guide's table. */
struct generation {
	int cc; /* this one and newer */
	int threads_per_sm, blocks_per_sm;
	int shared_per_sm, shared_reserved; /* bytes; the driver keeps the latter of each block's */
	int double_ratio;		    /* single to double precision */
};

static const struct generation *generation_of(const struct sim_dev *d)
{
	static const struct generation all[] = {
		{ 90, 2048, 32, 233472, 1024, 2 },  { 89, 1536, 24, 102400, 1024, 64 },
		{ 86, 1536, 16, 102400, 1024, 64 }, { 80, 2048, 32, 167936, 1024, 2 },
		{ 0, 2048, 32, 98304, 0, 2 },
	};
	int cc = d->cc_major * 10 + d->cc_minor, i = 0;

	while (cc < all[i].cc)
		i++;
	return &all[i];
}

int cu_shared_most(const struct sim_dev *d)
{
	const struct generation *of = generation_of(d);

	return of->shared_per_sm - of->shared_reserved;
}

/* clang-format off */
#define ATTRIBUTES(X) \
	X(MAX_THREADS_PER_BLOCK, 1, 1024) \
	X(MAX_BLOCK_DIM_X, 2, 1024) \
	X(MAX_BLOCK_DIM_Y, 3, 1024) \
	X(MAX_BLOCK_DIM_Z, 4, 64) \
	X(MAX_GRID_DIM_X, 5, 2147483647) \
	X(MAX_GRID_DIM_Y, 6, 65535) \
	X(MAX_GRID_DIM_Z, 7, 65535) \
	X(MAX_SHARED_MEMORY_PER_BLOCK, 8, CU_SHARED_UNASKED) \
	X(TOTAL_CONSTANT_MEMORY, 9, 65536) \
	X(WARP_SIZE, 10, 32) \
	X(MAX_PITCH, 11, 2147483647) \
	X(MAX_REGISTERS_PER_BLOCK, 12, 65536) \
	X(CLOCK_RATE, 13, (int)d->clock_sm_mhz * 1000) \
	X(TEXTURE_ALIGNMENT, 14, 512) \
	X(GPU_OVERLAP, 15, 1) \
	X(MULTIPROCESSOR_COUNT, 16, (int)d->sm_count) \
	X(KERNEL_EXEC_TIMEOUT, 17, 0) \
	X(INTEGRATED, 18, 0) \
	X(CAN_MAP_HOST_MEMORY, 19, 1) \
	X(COMPUTE_MODE, 20, (int)d->compute_mode) \
	X(MAXIMUM_TEXTURE1D_WIDTH, 21, 131072) \
	X(MAXIMUM_TEXTURE2D_WIDTH, 22, 131072) \
	X(MAXIMUM_TEXTURE2D_HEIGHT, 23, 65536) \
	X(MAXIMUM_TEXTURE3D_WIDTH, 24, 16384) \
	X(MAXIMUM_TEXTURE3D_HEIGHT, 25, 16384) \
	X(MAXIMUM_TEXTURE3D_DEPTH, 26, 16384) \
	X(MAXIMUM_TEXTURE2D_LAYERED_WIDTH, 27, 32768) \
	X(MAXIMUM_TEXTURE2D_LAYERED_HEIGHT, 28, 32768) \
	X(MAXIMUM_TEXTURE2D_LAYERED_LAYERS, 29, 2048) \
	X(SURFACE_ALIGNMENT, 30, 512) \
	X(CONCURRENT_KERNELS, 31, 1) \
	X(ECC_ENABLED, 32, d->ecc) \
	X(PCI_BUS_ID, 33, (int)d->pci_bus) \
	X(PCI_DEVICE_ID, 34, 0) \
	X(TCC_DRIVER, 35, 0) \
	X(MEMORY_CLOCK_RATE, 36, (int)d->clock_mem_mhz * 1000) \
	X(GLOBAL_MEMORY_BUS_WIDTH, 37, (int)d->bus_bits) \
	X(L2_CACHE_SIZE, 38, (int)d->l2_kib * 1024) \
	X(MAX_THREADS_PER_MULTIPROCESSOR, 39, of->threads_per_sm) \
	X(ASYNC_ENGINE_COUNT, 40, 3) \
	X(UNIFIED_ADDRESSING, 41, 1) \
	X(MAXIMUM_TEXTURE1D_LAYERED_WIDTH, 42, 32768) \
	X(MAXIMUM_TEXTURE1D_LAYERED_LAYERS, 43, 2048) \
	X(CAN_TEX2D_GATHER, 44, 1) \
	X(MAXIMUM_TEXTURE2D_GATHER_WIDTH, 45, 32768) \
	X(MAXIMUM_TEXTURE2D_GATHER_HEIGHT, 46, 32768) \
	X(MAXIMUM_TEXTURE3D_WIDTH_ALTERNATE, 47, 8192) \
	X(MAXIMUM_TEXTURE3D_HEIGHT_ALTERNATE, 48, 8192) \
	X(MAXIMUM_TEXTURE3D_DEPTH_ALTERNATE, 49, 32768) \
	X(PCI_DOMAIN_ID, 50, 0) \
	X(TEXTURE_PITCH_ALIGNMENT, 51, 32) \
	X(MAXIMUM_TEXTURECUBEMAP_WIDTH, 52, 32768) \
	X(MAXIMUM_TEXTURECUBEMAP_LAYERED_WIDTH, 53, 32768) \
	X(MAXIMUM_TEXTURECUBEMAP_LAYERED_LAYERS, 54, 2046) \
	X(MAXIMUM_SURFACE1D_WIDTH, 55, 32768) \
	X(MAXIMUM_SURFACE2D_WIDTH, 56, 131072) \
	X(MAXIMUM_SURFACE2D_HEIGHT, 57, 65536) \
	X(MAXIMUM_SURFACE3D_WIDTH, 58, 16384) \
	X(MAXIMUM_SURFACE3D_HEIGHT, 59, 16384) \
	X(MAXIMUM_SURFACE3D_DEPTH, 60, 16384) \
	X(MAXIMUM_SURFACE1D_LAYERED_WIDTH, 61, 32768) \
	X(MAXIMUM_SURFACE1D_LAYERED_LAYERS, 62, 2048) \
	X(MAXIMUM_SURFACE2D_LAYERED_WIDTH, 63, 32768) \
	X(MAXIMUM_SURFACE2D_LAYERED_HEIGHT, 64, 32768) \
	X(MAXIMUM_SURFACE2D_LAYERED_LAYERS, 65, 2048) \
	X(MAXIMUM_SURFACECUBEMAP_WIDTH, 66, 32768) \
	X(MAXIMUM_SURFACECUBEMAP_LAYERED_WIDTH, 67, 32768) \
	X(MAXIMUM_SURFACECUBEMAP_LAYERED_LAYERS, 68, 2046) \
	X(MAXIMUM_TEXTURE1D_LINEAR_WIDTH, 69, 268435456) \
	X(MAXIMUM_TEXTURE2D_LINEAR_WIDTH, 70, 131072) \
	X(MAXIMUM_TEXTURE2D_LINEAR_HEIGHT, 71, 65000) \
	X(MAXIMUM_TEXTURE2D_LINEAR_PITCH, 72, 2097120) \
	X(MAXIMUM_TEXTURE2D_MIPMAPPED_WIDTH, 73, 32768) \
	X(MAXIMUM_TEXTURE2D_MIPMAPPED_HEIGHT, 74, 32768) \
	X(COMPUTE_CAPABILITY_MAJOR, 75, d->cc_major) \
	X(COMPUTE_CAPABILITY_MINOR, 76, d->cc_minor) \
	X(MAXIMUM_TEXTURE1D_MIPMAPPED_WIDTH, 77, 32768) \
	X(STREAM_PRIORITIES_SUPPORTED, 78, 1) \
	X(GLOBAL_L1_CACHE_SUPPORTED, 79, 1) \
	X(LOCAL_L1_CACHE_SUPPORTED, 80, 1) \
	X(MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, 81, of->shared_per_sm) \
	X(MAX_REGISTERS_PER_MULTIPROCESSOR, 82, 65536) \
	X(MANAGED_MEMORY, 83, 1) \
	X(MULTI_GPU_BOARD, 84, 0) \
	X(MULTI_GPU_BOARD_GROUP_ID, 85, 0) \
	X(HOST_NATIVE_ATOMIC_SUPPORTED, 86, 0) \
	X(SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO, 87, of->double_ratio) \
	X(PAGEABLE_MEMORY_ACCESS, 88, 0) \
	X(CONCURRENT_MANAGED_ACCESS, 89, 1) \
	X(COMPUTE_PREEMPTION_SUPPORTED, 90, 1) \
	X(CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM, 91, 1) \
	X(CAN_USE_STREAM_MEM_OPS_V1, 92, 0) \
	X(CAN_USE_64_BIT_STREAM_MEM_OPS_V1, 93, 0) \
	X(CAN_USE_STREAM_WAIT_VALUE_NOR_V1, 94, 0) \
	X(COOPERATIVE_LAUNCH, 95, 0) \
	X(COOPERATIVE_MULTI_DEVICE_LAUNCH, 96, 0) \
	X(MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 97, cu_shared_most(d)) \
	X(CAN_FLUSH_REMOTE_WRITES, 98, 0) \
	X(HOST_REGISTER_SUPPORTED, 99, 1) \
	X(PAGEABLE_MEMORY_ACCESS_USES_HOST_PAGE_TABLES, 100, 0) \
	X(DIRECT_MANAGED_MEM_ACCESS_FROM_HOST, 101, 0) \
	X(VIRTUAL_ADDRESS_MANAGEMENT_SUPPORTED, 102, 1) \
	X(HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED, 103, 0) \
	X(HANDLE_TYPE_WIN32_HANDLE_SUPPORTED, 104, 0) \
	X(HANDLE_TYPE_WIN32_KMT_HANDLE_SUPPORTED, 105, 0) \
	X(MAX_BLOCKS_PER_MULTIPROCESSOR, 106, of->blocks_per_sm) \
	X(GENERIC_COMPRESSION_SUPPORTED, 107, 0) \
	X(MAX_PERSISTING_L2_CACHE_SIZE, 108, d->cc_major >= 8 ? (int)d->l2_kib * 640 : 0) \
	X(MAX_ACCESS_POLICY_WINDOW_SIZE, 109, d->cc_major >= 8 ? 134217728 : 0) \
	X(GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 110, 0) \
	X(RESERVED_SHARED_MEMORY_PER_BLOCK, 111, of->shared_reserved) \
	X(SPARSE_CUDA_ARRAY_SUPPORTED, 112, 0) \
	X(READ_ONLY_HOST_REGISTER_SUPPORTED, 113, 0) \
	X(TIMELINE_SEMAPHORE_INTEROP_SUPPORTED, 114, 0) \
	X(MEMORY_POOLS_SUPPORTED, 115, 1) \
	X(GPU_DIRECT_RDMA_SUPPORTED, 116, 0) \
	X(GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS, 117, 0) \
	X(GPU_DIRECT_RDMA_WRITES_ORDERING, 118, 100) \
	X(MEMPOOL_SUPPORTED_HANDLE_TYPES, 119, 0) \
	X(CLUSTER_LAUNCH, 120, d->cc_major >= 9) \
	X(DEFERRED_MAPPING_CUDA_ARRAY_SUPPORTED, 121, 0) \
	X(CAN_USE_64_BIT_STREAM_MEM_OPS, 122, 0) \
	X(CAN_USE_STREAM_WAIT_VALUE_NOR, 123, 0) \
	X(DMA_BUF_SUPPORTED, 124, 0) \
	X(IPC_EVENT_SUPPORTED, 125, 0) \
	X(MEM_SYNC_DOMAIN_COUNT, 126, d->cc_major >= 9 ? 4 : 1) \
	X(TENSOR_MAP_ACCESS_SUPPORTED, 127, d->cc_major >= 9) \
	X(HANDLE_TYPE_FABRIC_SUPPORTED, 128, 0) \
	X(UNIFIED_FUNCTION_POINTERS, 129, 0) \
	X(NUMA_CONFIG, 130, 0) \
	X(NUMA_ID, 131, -1) \
	X(MULTICAST_SUPPORTED, 132, 0) \
	X(MPS_ENABLED, 133, 0) \
	X(HOST_NUMA_ID, 134, 0) \
	X(D3D12_CIG_SUPPORTED, 135, 0) \
	X(MEM_DECOMPRESS_ALGORITHM_MASK, 136, 0) \
	X(MEM_DECOMPRESS_MAXIMUM_LENGTH, 137, 0) \
	X(VULKAN_CIG_SUPPORTED, 138, 0) \
	X(GPU_PCI_DEVICE_ID, 139, (int)(d->pci_device_id << 16 | 0x10de)) \
	X(GPU_PCI_SUBSYSTEM_ID, 140, 0x16be10de) \
	X(HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 141, 0) \
	X(HOST_NUMA_MEMORY_POOLS_SUPPORTED, 142, 0) \
	X(HOST_NUMA_MULTINODE_IPC_SUPPORTED, 143, 0) \
	X(HOST_MEMORY_POOLS_SUPPORTED, 144, 0) \
	X(HOST_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, 145, 0) \
	X(HOST_ALLOC_DMA_BUF_SUPPORTED, 146, 0) \
	X(ONLY_PARTIAL_HOST_NATIVE_ATOMIC_SUPPORTED, 147, 0)
/* clang-format on */

/* 0, or -1: there is no such attribute. */
static int attribute(const struct sim_dev *d, int id, int *ret)
{
	const struct generation *of = generation_of(d);

	switch (id) {
#define ATTRIBUTE_CASE(name, number, value)                                                        \
	case number:                                                                               \
		*ret = value;                                                                      \
		return 0;
		ATTRIBUTES(ATTRIBUTE_CASE)
	default:
		return -1;
	}
}

CU_EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute id, CUdevice device)
{
	const struct sim_dev *d = cu_device(device);

	CU_ENTER(NEEDS_INIT);
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!value || attribute(d, (int)id, value) < 0)
		return CUDA_ERROR_INVALID_VALUE;
	return CUDA_SUCCESS;
}

CU_EXPORT CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice device)
{
	const struct sim_dev *d = cu_device(device);

	CU_ENTER(NEEDS_INIT);
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!major || !minor)
		return CUDA_ERROR_INVALID_VALUE;
	*major = d->cc_major;
	*minor = d->cc_minor;
	return CUDA_SUCCESS;
}

/* CUdevprop: ten numbers, all of them attributes. */
CU_EXPORT CUresult cuDeviceGetProperties(int *properties, CUdevice device)
{
	static const int ids[] = {
		CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK,
		CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X,
		CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y,
		CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z,
		CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X,
		CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y,
		CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z,
		CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK,
		CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY,
		CU_DEVICE_ATTRIBUTE_WARP_SIZE,
	};
	const struct sim_dev *d = cu_device(device);

	CU_ENTER(NEEDS_INIT);
	if (!d)
		return CUDA_ERROR_INVALID_DEVICE;
	if (!properties)
		return CUDA_ERROR_INVALID_VALUE;
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		(void)attribute(d, ids[i], &properties[i]);
	return CUDA_SUCCESS;
}
