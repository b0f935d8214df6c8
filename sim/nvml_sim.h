/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SIM_NVML_SIM_H
#define TENURE_SIM_NVML_SIM_H

/*
 * Inside the simulated libnvidia-ml: how an exported function begins and ends.
 *
 * NV_DEVICE(handle, kind) refuses where NVML would (not initialised, bad handle, device lost, a
 * call that MIG does not have), lets injected faults strike, queues behind the driver's lock, and
 * leaves the machine in m, its device number in dev, and the machine's data locked: the function
 * must end with NV_RETURN(). NV_ENTER() is the same without device and without the data lock.
 */

#include "gpu/nvml_abi.h"
#include "machine.h"

#define NV_EXPORT __attribute__((visibility("default")))

/* A second name for one function. gcc wants its attributes repeated, clang has no word for it. */
#if __has_attribute(copy)
#define NV_ALIAS_OF(of) alias(#of), copy(of)
#else
#define NV_ALIAS_OF(of) alias(#of)
#endif
#define NV_ALIAS(name, of) extern NV_EXPORT __typeof__(of) name __attribute__((NV_ALIAS_OF(of)))

enum nv_kind {
	NV_CARD,   /* NOT_SUPPORTED on a MIG instance */
	NV_ANY,	   /* on both */
	NV_NO_MIG, /* NOT_SUPPORTED also on a card in MIG mode */
};

struct nvmlDevice_st {
	int dev;
};

#define NV_ENTER()                                                                                 \
	struct sim_machine *m = NULL;                                                              \
	do {                                                                                       \
		nvmlReturn_t enter_ = nv_enter(__func__, &m);                                      \
		if (enter_ != NVML_SUCCESS)                                                        \
			return enter_;                                                             \
	} while (0)

#define NV_DEVICE(handle, kind)                                                                    \
	int dev = -1;                                                                              \
	NV_ENTER();                                                                                \
	do {                                                                                       \
		nvmlReturn_t lock_ = nv_device(m, handle, kind, &dev);                             \
		if (lock_ != NVML_SUCCESS)                                                         \
			return lock_;                                                              \
	} while (0)

#define NV_RETURN(value)                                                                           \
	do {                                                                                       \
		nvmlReturn_t value_ = (value);                                                     \
		sim_unlock(m);                                                                     \
		return value_;                                                                     \
	} while (0)

nvmlReturn_t nv_enter(const char *function, struct sim_machine **ret);
nvmlReturn_t nv_device(struct sim_machine *m, nvmlDevice_t handle, enum nv_kind kind, int *ret);
nvmlDevice_t nv_handle(int dev);

/* Copy text of the caller's room; INSUFFICIENT_SIZE where it does not fit. */
nvmlReturn_t nv_text(char *to, unsigned int room, const char *text);

/* Whether the caller may see p, and under which PID (machine's pid-mode). Data locked. */
bool nv_pid_seen(const struct sim_machine *m, const struct sim_proc *p, unsigned int *ret_pid);

/* Wall clock in us for a machine time. */
unsigned long long nv_wall_us(uint64_t mono_ns);
uint64_t nv_mono_ns(unsigned long long wall_us);

#endif
