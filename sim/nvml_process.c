/* SPDX-License-Identifier: MIT */

/*
 * Processes, samples, events.
 *
 * The entries of the process lists differ by the suffix of the call; what _v3 writes is settable
 * (`ctl layout`), because drivers with all three shapes are in use.
 */
#include "nvml_sim.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

bool nv_pid_seen(const struct sim_machine *m, const struct sim_proc *p, unsigned int *ret_pid)
{
	const char *env = getenv("TENURE_SIM_NEIGHBOUR");
	bool neighbour = env && *env == '1';

	*ret_pid = (unsigned int)sim_proc_pid(m, p);
	switch (m->pid_mode) {
	case SIM_PIDS_HOST:
		*ret_pid += SIM_PID_OFFSET;
		return true;
	case SIM_PIDS_OWN:
		return p->neighbour == neighbour;
	case SIM_PIDS_NONE:
		return false;
	default:
		return *ret_pid > 0; /* the driver shows each namespace its own numbers */
	}
}

struct entry {
	unsigned int pid;
	unsigned long long bytes;
	unsigned int gi, ci;
};

static bool make_entry(const struct sim_machine *m, const struct sim_proc *p, int dev,
		       struct entry *e)
{
	uint64_t now = sim_now_ns();
	bool visible = false;

	e->gi = e->ci = NVML_VALUE_NOT_AVAILABLE_32;
	for (int i = 0; i < m->ndevs; i++) {
		if (!sim_is_card_of(m, dev, i) || !p->use[i].visible_ns ||
		    p->use[i].visible_ns > now)
			continue;
		visible = true;
		if (m->devs[i].parent >= 0) {
			e->gi = m->devs[i].gi_id;
			e->ci = m->devs[i].ci_id;
		}
	}
	e->bytes = sim_proc_bytes(m, p, dev);
	return visible && nv_pid_seen(m, p, &e->pid);
}

static void write_entry(void *entries, unsigned int at, size_t size, const struct entry *e)
{
	nvmlProcessInfo_cc_t info = {
		.pid = e->pid,
		.usedGpuMemory = e->bytes,
		.gpuInstanceId = e->gi,
		.computeInstanceId = e->ci,
	};

	memcpy((char *)entries + at * size, &info, size);
}

static nvmlReturn_t compute_list(nvmlDevice_t handle, unsigned int *count, void *entries,
				 size_t size, const char *function)
{
	struct sim_machine *m;
	unsigned int n = 0, room;
	nvmlReturn_t res = nv_enter(function, &m);
	struct entry e;
	int dev;

	if (res != NVML_SUCCESS)
		return res;
	res = nv_device(m, handle, NV_ANY, &dev);
	if (res != NVML_SUCCESS)
		return res;
	if (!count || (*count && !entries))
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	sim_reap_card(m, dev);
	room = *count;
	size = size ? size : m->proc_layout;
	for (int i = 0; i < SIM_PROC_MAX; i++) {
		if (!m->procs[i].pid || !make_entry(m, &m->procs[i], dev, &e))
			continue;
		if (n < room)
			write_entry(entries, n, size, &e);
		n++;
	}
	*count = n;
	NV_RETURN(n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

/* Nobody draws on the simulated cards, and there is no MPS server. */
static nvmlReturn_t empty_list(nvmlDevice_t handle, unsigned int *count, const char *function)
{
	struct sim_machine *m;
	nvmlReturn_t res = nv_enter(function, &m);
	int dev;

	if (res != NVML_SUCCESS)
		return res;
	res = nv_device(m, handle, NV_ANY, &dev);
	if (res != NVML_SUCCESS)
		return res;
	if (!count)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	*count = 0;
	NV_RETURN(NVML_SUCCESS);
}

/* X(suffix, size of an entry; 0: as the machine says) */
#define LIST_SUFFIXES(X) X(, 16) X(_v2, 24) X(_v3, 0)

#define LIST_FUNCTIONS(suffix, size)                                                               \
	NV_EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses##suffix(                       \
		nvmlDevice_t handle, unsigned int *count, void *entries)                           \
	{                                                                                          \
		return compute_list(handle, count, entries, size, __func__);                       \
	}                                                                                          \
	NV_EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses##suffix(                      \
		nvmlDevice_t handle, unsigned int *count, void *entries)                           \
	{                                                                                          \
		return empty_list(handle, count, __func__);                                        \
	}                                                                                          \
	NV_EXPORT nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses##suffix(                    \
		nvmlDevice_t handle, unsigned int *count, void *entries)                           \
	{                                                                                          \
		return empty_list(handle, count, __func__);                                        \
	}
LIST_SUFFIXES(LIST_FUNCTIONS)

/* Per process, over what was kept since the caller last looked, at most one second. */
NV_EXPORT nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t handle,
						       nvmlProcessUtilizationSample_t *samples,
						       unsigned int *count,
						       unsigned long long since)
{
	uint64_t now = sim_now_ns(), from;
	unsigned int n = 0, room, pid;

	NV_DEVICE(handle, NV_NO_MIG);
	if (!count || (*count && !samples))
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	from = nv_mono_ns(since);
	from = now - from > NS_PER_S ? now - NS_PER_S : from;
	room = samples ? *count : 0;
	for (int i = 0; from < now && i < SIM_PROC_MAX; i++) {
		const struct sim_proc *p = &m->procs[i];
		uint64_t busy = p->pid ? sim_busy_ns(m, dev, from, now, p->pid) : 0;

		if (!busy || !nv_pid_seen(m, p, &pid))
			continue;
		if (n < room)
			samples[n] = (nvmlProcessUtilizationSample_t){
				.pid = pid,
				.timeStamp = nv_wall_us(now),
				.smUtil = (unsigned int)(busy * 100 / (now - from)),
			};
		n++;
	}
	*count = n;
	if (n == 0)
		NV_RETURN(NVML_ERROR_NOT_FOUND);
	NV_RETURN(n > room ? NVML_ERROR_INSUFFICIENT_SIZE : NVML_SUCCESS);
}

#define SAMPLE_NS  20000000ULL /* one sample each 20 ms */
#define SAMPLE_MAX 100

NV_EXPORT nvmlReturn_t nvmlDeviceGetSamples(nvmlDevice_t handle, nvmlSamplingType_t type,
					    unsigned long long since, nvmlValueType_t *value_type,
					    unsigned int *count, nvmlSample_t *samples)
{
	uint64_t now = sim_now_ns() / SAMPLE_NS * SAMPLE_NS, from, at;
	unsigned int n = 0;

	NV_DEVICE(handle, NV_NO_MIG);
	if (!value_type || !count)
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (type != NVML_GPU_UTILIZATION_SAMPLES)
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	*value_type = NVML_VALUE_TYPE_UNSIGNED_INT;
	if (!samples) {
		*count = SAMPLE_MAX;
		NV_RETURN(NVML_SUCCESS);
	}
	from = now - SAMPLE_NS * SAMPLE_MAX;
	for (at = from + SAMPLE_NS; at <= now && n < *count; at += SAMPLE_NS) {
		if (nv_wall_us(at) <= since)
			continue;
		samples[n].timeStamp = nv_wall_us(at);
		samples[n].sampleValue.ullVal = 0;
		samples[n].sampleValue.uiVal =
			(unsigned int)(sim_busy_ns(m, dev, at - SAMPLE_NS, at, 0) * 100 /
				       SAMPLE_NS);
		n++;
	}
	*count = n;
	NV_RETURN(n ? NVML_SUCCESS : NVML_ERROR_NOT_FOUND);
}

struct nvmlEventSet_st {
	struct nvmlEventSet_st *next;
	bool devs[SIM_DEV_MAX];
	uint32_t seen; /* number of the last XID delivered */
};

static pthread_mutex_t sets_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nvmlEventSet_st *sets;

static bool set_known(nvmlEventSet_t set)
{
	struct nvmlEventSet_st *s;

	(void)pthread_mutex_lock(&sets_lock);
	for (s = sets; s && s != set; s = s->next)
		;
	(void)pthread_mutex_unlock(&sets_lock);
	return s != NULL;
}

NV_EXPORT nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t *ret)
{
	struct nvmlEventSet_st *s;

	NV_ENTER();
	if (!ret)
		return NVML_ERROR_INVALID_ARGUMENT;
	s = calloc(1, sizeof(*s));
	if (!s)
		return NVML_ERROR_MEMORY;
	s->seen = __atomic_load_n(&m->xid_seq, __ATOMIC_ACQUIRE);
	(void)pthread_mutex_lock(&sets_lock);
	s->next = sets;
	sets = s;
	(void)pthread_mutex_unlock(&sets_lock);
	*ret = s;
	return NVML_SUCCESS;
}

NV_EXPORT nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set)
{
	struct nvmlEventSet_st *found = NULL;

	(void)pthread_mutex_lock(&sets_lock);
	for (struct nvmlEventSet_st **at = &sets; *at; at = &(*at)->next) {
		if (*at == set) {
			found = *at;
			*at = found->next;
			break;
		}
	}
	(void)pthread_mutex_unlock(&sets_lock);
	free(found);
	return found ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

NV_EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t handle, unsigned long long types,
						nvmlEventSet_t set)
{
	NV_DEVICE(handle, NV_CARD);
	if (!set_known(set))
		NV_RETURN(NVML_ERROR_INVALID_ARGUMENT);
	if (types & ~nvmlEventTypeXidCriticalError)
		NV_RETURN(NVML_ERROR_NOT_SUPPORTED);
	set->devs[dev] = types & nvmlEventTypeXidCriticalError;
	NV_RETURN(NVML_SUCCESS);
}

/* The next event for set, which then is seen. */
static bool next_event(struct sim_machine *m, struct nvmlEventSet_st *set, struct sim_xid *ret)
{
	uint32_t newest = __atomic_load_n(&m->xid_seq, __ATOMIC_ACQUIRE);

	if (newest - set->seen > SIM_XID_MAX)
		set->seen = newest - SIM_XID_MAX;
	while (set->seen != newest) {
		*ret = m->xids[++set->seen % SIM_XID_MAX];
		if (ret->dev >= 0 && ret->dev < SIM_DEV_MAX && set->devs[ret->dev])
			return true;
	}
	return false;
}

static nvmlReturn_t event_wait(const char *function, nvmlEventSet_t set, nvmlEventData_t *data,
			       unsigned int timeout_ms)
{
	uint64_t until = sim_now_ns() + timeout_ms * 1000000ULL, now;
	struct sim_machine *m;
	struct sim_xid xid;
	nvmlReturn_t res = nv_enter(function, &m);

	if (res != NVML_SUCCESS)
		return res;
	if (!data || !set_known(set))
		return NVML_ERROR_INVALID_ARGUMENT;
	while (!next_event(m, set, &xid)) {
		struct timespec ts;

		now = sim_now_ns();
		if (now >= until)
			return NVML_ERROR_TIMEOUT;
		ts.tv_sec = (time_t)((until - now) / NS_PER_S);
		ts.tv_nsec = (long)((until - now) % NS_PER_S);
		(void)syscall(SYS_futex, &m->xid_seq, FUTEX_WAIT, set->seen, &ts, NULL, 0);
	}
	data->device = nv_handle(xid.dev);
	data->eventType = nvmlEventTypeXidCriticalError;
	data->eventData = xid.xid;
	return NVML_SUCCESS;
}

NV_EXPORT nvmlReturn_t nvmlEventSetWait(nvmlEventSet_t set, nvmlEventData_t *data,
					unsigned int timeout_ms)
{
	return event_wait(__func__, set, data, timeout_ms);
}

NV_EXPORT nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
					   unsigned int timeout_ms)
{
	nvmlReturn_t res = event_wait(__func__, set, data, timeout_ms);

	if (res == NVML_SUCCESS)
		data->gpuInstanceId = data->computeInstanceId = NVML_VALUE_NOT_AVAILABLE_32;
	return res;
}
