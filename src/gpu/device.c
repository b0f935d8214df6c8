/* SPDX-License-Identifier: MIT */
#include "gpu/device.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

static int look_memory(const struct nvml *n, struct gpu_device *dev, struct gpu_look *look,
		       struct err *e)
{
	nvmlMemory_v2_t v2 = { .version = nvmlMemory_v2 };
	nvmlMemory_t v1;

	if (n->memory_v2 && n->memory_v2(dev->handle, &v2) == NVML_SUCCESS) {
		look->total = v2.total;
		look->used = v2.used;
		look->free = v2.free;
	} else {
		int r = nvml_result(n, n->memory(dev->handle, &v1), e, "memory");

		if (r < 0)
			return r;
		/* v1 counts the driver's reserve as used: what an empty card shows is no use. */
		if (look->valid & GPU_VALID_PROCS && look->procs.n_total == 0 &&
		    (!dev->rest_bytes || v1.used < dev->rest_bytes))
			dev->rest_bytes = v1.used;
		look->total = v1.total;
		look->used = v1.used > dev->rest_bytes ? v1.used - dev->rest_bytes : 0;
		look->free = v1.free;
	}
	if (look->total == 0 || look->used > look->total || look->free > look->total)
		return err_set(e, -EPROTO, "memory: the driver's struct looks wrong");
	look->valid |= GPU_VALID_MEM;
	return 0;
}

static int identify(const struct nvml *n, struct gpu_device *d, struct err *e)
{
	struct gpu_look memory = { .valid = 0 };
	nvmlPciInfo_t pci;
	unsigned int minor;
	int r = nvml_result(n, n->uuid(d->handle, d->uuid, sizeof(d->uuid)), e, "device UUID");

	if (r < 0)
		return r;
	if (n->name(d->handle, d->name, sizeof(d->name)) != NVML_SUCCESS)
		(void)str_copy(d->name, sizeof(d->name), "NVIDIA device");
	d->minor = -1;
	if (n->minor && n->minor(d->handle, &minor) == NVML_SUCCESS)
		d->minor = (int32_t)minor;
	if (n->pci && n->pci(d->handle, &pci) == NVML_SUCCESS)
		(void)str_copy(d->bus_id, sizeof(d->bus_id), pci.busId);
	if (look_memory(n, d, &memory, NULL) == 0)
		d->total_bytes = memory.total;
	return 0;
}

static int add_mig(const struct nvml *n, struct gpu_list *list, const struct gpu_device *card,
		   struct err *e)
{
	unsigned int max = 0;

	if (!n->mig_max || !n->mig_by_index || n->mig_max(card->handle, &max) != NVML_SUCCESS)
		return 0;
	for (unsigned int i = 0; i < max && list->n < GPU_DEVICES_MAX; i++) {
		struct gpu_device *d = &list->d[list->n];

		*d = (struct gpu_device){ .index = card->index, .mig = (int32_t)i };
		if (n->mig_by_index(card->handle, i, &d->handle) != NVML_SUCCESS)
			continue; /* instance numbers may have gaps */

		int r = identify(n, d, e);

		if (r < 0)
			return r;
		d->minor = card->minor;
		(void)str_copy(d->bus_id, sizeof(d->bus_id), card->bus_id);
		list->n++;
	}
	return 0;
}

static bool is_mig_card(const struct nvml *n, const struct gpu_device *card)
{
	unsigned int current = 0, pending = 0;

	return n->mig_mode && n->mig_mode(card->handle, &current, &pending) == NVML_SUCCESS &&
	       current == NVML_DEVICE_MIG_ENABLE;
}

static int add_card(const struct nvml *n, struct gpu_list *list, unsigned int index, struct err *e)
{
	struct gpu_device *d = &list->d[list->n];

	*d = (struct gpu_device){ .index = index, .mig = -1 };

	nvmlReturn_t code = n->by_index(index, &d->handle);

	if (code == NVML_ERROR_NO_PERMISSION)
		return 0; /* a card of the host that this container does not have */

	int r = nvml_result(n, code, e, "device handle");

	if (r == 0)
		r = identify(n, d, e);
	if (r < 0)
		return r;
	list->n++;
	d->mig_parent = is_mig_card(n, d);
	return d->mig_parent ? add_mig(n, list, d, e) : 0;
}

static void add_failed(struct gpu_list *list, unsigned int index, const struct err *why)
{
	struct gpu_failed *f = &list->failed[list->n_failed];

	if (list->n_failed == GPU_DEVICES_MAX)
		return;
	f->index = index;
	(void)str_copy(f->why, sizeof(f->why), why->text);
	list->n_failed++;
}

int gpu_enumerate(const struct nvml *n, struct gpu_list *ret, struct err *e)
{
	unsigned int count = 0;
	struct err one = ERR_INIT;
	int failed = 0, r = nvml_result(n, n->count(&count), e, "device count");

	if (r < 0)
		return r;
	ret->n = ret->n_failed = 0;
	ret->n_cards = count;
	/* A card that is lost must not hide the others. */
	for (unsigned int i = 0; i < count && ret->n < GPU_DEVICES_MAX; i++) {
		r = add_card(n, ret, i, &one);
		if (r == 0)
			continue;
		failed = r;
		add_failed(ret, i, &one);
	}
	if (ret->n == 0 && failed)
		return err_set(e, failed, "GPU %u: %s", ret->failed[ret->n_failed - 1].index,
			       one.text);
	if (ret->n == 0)
		return err_set(e, -ENODEV, "the NVIDIA driver is there, but no GPU is");
	return 0;
}

bool gpu_list_is_old(const struct nvml *n, const struct gpu_list *list)
{
	unsigned int count = 0;

	if (list->n_failed || n->count(&count) != NVML_SUCCESS || count != list->n_cards)
		return true;
	for (uint32_t i = 0; i < list->n; i++)
		if (list->d[i].mig < 0 && !list->d[i].unseen &&
		    (list->d[i].mig_parent || is_mig_card(n, &list->d[i])))
			return true;
	return false;
}

bool gpu_list_same(const struct gpu_list *a, const struct gpu_list *b)
{
	bool same = a->n == b->n;

	for (uint32_t i = 0; same && i < a->n; i++)
		same = a->d[i].handle == b->d[i].handle && a->d[i].index == b->d[i].index &&
		       a->d[i].mig_parent == b->d[i].mig_parent &&
		       !strcmp(a->d[i].uuid, b->d[i].uuid);
	return same;
}

/* A MIG instance has no utilisation; its card's power and temperature are not its own. */
static void look_util(const struct nvml *n, const struct gpu_device *dev, struct gpu_look *look)
{
	nvmlUtilization_t util;

	if (n->utilization && n->utilization(dev->handle, &util) == NVML_SUCCESS) {
		look->util = util.gpu;
		look->valid |= GPU_VALID_UTIL;
	}
}

void gpu_look_figures(const struct nvml *n, const struct gpu_device *dev, struct gpu_look *look)
{
	look->valid &= ~(uint32_t)(GPU_VALID_POWER | GPU_VALID_POWER_LIMIT | GPU_VALID_TEMP);
	if (n->power && n->power(dev->handle, &look->power_mw) == NVML_SUCCESS)
		look->valid |= GPU_VALID_POWER;
	if (n->power_limit && n->power_limit(dev->handle, &look->power_limit_mw) == NVML_SUCCESS)
		look->valid |= GPU_VALID_POWER_LIMIT;
	if (n->temperature &&
	    n->temperature(dev->handle, NVML_TEMPERATURE_GPU, &look->temp_c) == NVML_SUCCESS)
		look->valid |= GPU_VALID_TEMP;
}

/* "Not supported" is what there is to know; any other error leaves it as it was. */
static bool told(struct gpu_look *look, uint32_t what, nvmlReturn_t code)
{
	if (code == NVML_SUCCESS)
		look->valid |= what;
	else if (code != NVML_ERROR_NOT_SUPPORTED)
		look->failed |= what;
	return code == NVML_SUCCESS;
}

static void look_modes(const struct nvml *n, const struct gpu_device *dev, struct gpu_look *look)
{
	nvmlEnableState_t on;

	if (n->compute_mode)
		(void)told(look, GPU_VALID_MODE, n->compute_mode(dev->handle, &look->mode));
	if (n->display_active && told(look, GPU_VALID_DISPLAY, n->display_active(dev->handle, &on)))
		look->display = on == NVML_FEATURE_ENABLED;
	if (n->persistence && told(look, GPU_VALID_PERSISTENCE, n->persistence(dev->handle, &on)))
		look->persistence = on == NVML_FEATURE_ENABLED;
}

int gpu_look_at(const struct nvml *n, struct gpu_device *dev, enum gpu_depth depth,
		struct gpu_look *ret, struct err *e)
{
	ret->valid = ret->failed = 0;
	ret->begin_ns = clock_mono_ns();

	int r = 0;

	if (depth >= GPU_LOOK_QUICK)
		r = gpu_procs_read(n, dev->handle, depth >= GPU_LOOK_PROCS, &ret->procs, e);
	if (r == 0 && depth >= GPU_LOOK_QUICK)
		ret->valid |= GPU_VALID_PROCS;
	else if (r < 0 && (!(r == -EACCES || r == -ENOSYS) || !dev->mig_parent))
		return r; /* a MIG card's own list may need privilege; nothing else's does */
	r = look_memory(n, dev, ret, e);
	if (r < 0)
		return r;
	if (depth >= GPU_LOOK_UTIL)
		look_util(n, dev, ret);
	if (depth >= GPU_LOOK_FIGURES)
		gpu_look_figures(n, dev, ret);
	if (depth >= GPU_LOOK_ALL)
		look_modes(n, dev, ret);
	ret->end_ns = clock_mono_ns();
	return 0;
}

static int not_found(const struct gpu_list *list, const char *text, struct err *e)
{
	char there[256] = "";
	size_t len = 0;

	for (uint32_t i = 0; i < list->n && len < sizeof(there) - 16; i++)
		if (list->d[i].mig < 0)
			len += (size_t)snprintf(there + len, sizeof(there) - len, "%s%u",
						len ? ", " : "", list->d[i].index);
	return err_set(e, -ENOENT,
		       "there is no GPU %s; there are: %s (`tenure devices` shows them)", text,
		       there);
}

static bool names_device(const struct gpu_device *d, const char *text, bool is_index,
			 uint64_t index)
{
	if (is_index)
		return d->mig < 0 && d->index == index;
	return strlen(text) >= 5 && str_has_prefix(d->uuid, text);
}

int gpu_find(const struct gpu_list *list, const char *text, struct err *e)
{
	uint64_t index = 0;
	bool is_index = str_to_u64(text, &index) == 0;
	int found = -ENOENT;

	for (uint32_t i = 0; i < list->n; i++) {
		if (!names_device(&list->d[i], text, is_index, index))
			continue;
		if (!strcmp(list->d[i].uuid, text))
			return (int)i;
		if (found >= 0)
			return err_set(e, -ENOTUNIQ, "%s fits more than one GPU: %s and %s", text,
				       list->d[found].uuid, list->d[i].uuid);
		found = (int)i;
	}
	return found >= 0 ? found : not_found(list, text, e);
}

bool gpu_nvlinked(const struct nvml *n, const struct gpu_device *a, const struct gpu_device *b)
{
	nvmlGpuP2PStatus_t status;

	if (!n->p2p_status || a->mig >= 0 || b->mig >= 0 || a->mig_parent || b->mig_parent)
		return false;
	return n->p2p_status(a->handle, b->handle, NVML_P2P_CAPS_INDEX_NVLINK, &status) ==
		       NVML_SUCCESS &&
	       status == NVML_P2P_STATUS_OK;
}

const char *gpu_unfit(const struct gpu_device *dev, const struct gpu_look *look)
{
	if (dev->mig_parent)
		return "in MIG mode: its instances are held, not the card";
	if (dev->unseen)
		return "given to this job and not visible here: tasks may use it, it is never held";
	if (look->valid & GPU_VALID_MODE && look->mode == NVML_COMPUTEMODE_EXCLUSIVE_PROCESS)
		return "compute mode EXCLUSIVE_PROCESS: a newcomer could not start beside a holder";
	if (look->valid & GPU_VALID_MODE && look->mode == NVML_COMPUTEMODE_PROHIBITED)
		return "compute mode PROHIBITED";
	if (look->valid & GPU_VALID_DISPLAY && look->display)
		return "a display uses it";
	return NULL;
}
