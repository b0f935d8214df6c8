/* SPDX-License-Identifier: MIT */
#include "gpu/xid.h"

#include <stddef.h>

#include "base/mem.h"
#include "base/str.h"

/* In order of numbers; a row is about first to last. */
static const struct row {
	uint16_t first, last;
	enum xid_kind kind;
	const char *text;
} table[] = {
	{ 8, 8, XID_PROGRAM, "GPU stopped processing" },
	{ 11, 11, XID_PROGRAM, "invalid or corrupted push buffer" },
	{ 13, 13, XID_PROGRAM, "graphics engine exception" },
	{ 14, 14, XID_NOTICE, "error injected for a test" },
	{ 25, 25, XID_PROGRAM, "invalid or illegal push buffer" },
	{ 31, 31, XID_PROGRAM, "GPU memory page fault" },
	{ 32, 32, XID_PROGRAM, "invalid or corrupted push buffer" },
	{ 37, 38, XID_NOTICE, "driver firmware error" },
	{ 39, 41, XID_PROGRAM, "copy engine exception" },
	{ 43, 43, XID_PROGRAM, "GPU stopped processing" },
	{ 44, 44, XID_PROGRAM, "graphics engine fault at a context switch" },
	{ 45, 45, XID_PROGRAM, "a program was ended" },
	{ 46, 46, XID_TROUBLE, "GPU stopped processing" },
	{ 48, 48, XID_TROUBLE, "double bit ECC error" },
	{ 54, 54, XID_TROUBLE, "auxiliary power is not connected" },
	{ 60, 60, XID_PROGRAM, "video processor exception" },
	{ 62, 62, XID_TROUBLE, "internal micro-controller halt" },
	{ 63, 63, XID_NOTICE, "memory remapped, after the next reset" },
	{ 64, 64, XID_TROUBLE, "memory could not be remapped" },
	{ 66, 67, XID_NOTICE, "illegal access by the driver" },
	{ 68, 68, XID_PROGRAM, "video decoder exception" },
	{ 69, 69, XID_PROGRAM, "graphics engine class error" },
	{ 70, 72, XID_PROGRAM, "copy engine error" },
	{ 74, 74, XID_TROUBLE, "NVLink error" },
	{ 75, 77, XID_PROGRAM, "copy engine error" },
	{ 79, 79, XID_TROUBLE, "GPU has fallen off the bus" },
	{ 80, 80, XID_PROGRAM, "corrupted data sent to the GPU" },
	{ 82, 82, XID_PROGRAM, "JPEG engine error" },
	{ 83, 84, XID_PROGRAM, "video decoder error" },
	{ 85, 85, XID_PROGRAM, "copy engine error" },
	{ 86, 86, XID_PROGRAM, "optical flow engine exception" },
	{ 88, 89, XID_PROGRAM, "video decoder error" },
	{ 92, 92, XID_TROUBLE, "high single-bit ECC error rate" },
	{ 93, 93, XID_NOTICE, "InfoROM wear limit" },
	{ 94, 94, XID_TROUBLE, "contained memory error" },
	{ 95, 95, XID_TROUBLE, "uncontained memory error" },
	{ 96, 98, XID_PROGRAM, "video decoder error" },
	{ 99, 105, XID_PROGRAM, "JPEG engine error" },
	{ 106, 107, XID_NOTICE, "test message" },
	{ 109, 109, XID_PROGRAM, "context switch timeout" },
	{ 110, 110, XID_TROUBLE, "security fault" },
	{ 119, 119, XID_TROUBLE, "GSP does not answer" },
	{ 120, 120, XID_TROUBLE, "GSP error" },
	{ 121, 121, XID_NOTICE, "corrected errors on the link to the CPU" },
	{ 126, 135, XID_PROGRAM, "copy engine error" },
	{ 136, 136, XID_TROUBLE, "link training failed" },
	{ 137, 137, XID_PROGRAM, "illegal access over NVLink" },
	{ 139, 139, XID_PROGRAM, "optical flow engine error" },
	{ 140, 140, XID_TROUBLE, "ECC error that could not be recovered" },
	{ 141, 141, XID_NOTICE, "CUDA fast path error" },
	{ 143, 143, XID_TROUBLE, "GPU initialization error" },
	{ 144, 150, XID_TROUBLE, "NVLink error" },
	{ 154, 154, XID_NOTICE, "recovery action changed" },
	{ 156, 156, XID_TROUBLE, "resource retired, after the next reset" },
	{ 158, 158, XID_TROUBLE, "GPU fatal timeout" },
	{ 160, 161, XID_NOTICE, "channel retired" },
	{ 162, 165, XID_NOTICE, "power smoothing" },
};

static const struct row *find(uint32_t xid)
{
	for (size_t i = 0; i < ARRAY_LEN(table); i++)
		if (xid >= table[i].first && xid <= table[i].last)
			return &table[i];
	return NULL;
}

enum xid_kind xid_kind(uint32_t xid)
{
	const struct row *row = find(xid);

	return row ? row->kind : XID_TROUBLE;
}

bool xid_is_known(uint32_t xid)
{
	return find(xid) != NULL;
}

char *xid_text(uint32_t xid, char buf[XID_TEXT_MAX])
{
	const struct row *row = find(xid);

	if (!row)
		return str_print(buf, XID_TEXT_MAX, "XID %u", xid);
	return str_print(buf, XID_TEXT_MAX, "XID %u (%s)", xid, row->text);
}

static bool can_tell(const struct nvml *n)
{
	return n->event_set_create && n->event_set_free && n->register_events && n->event_wait;
}

void gpu_errors_open(const struct nvml *n, const struct gpu_list *list, struct gpu_errors *ret)
{
	*ret = (struct gpu_errors){ .n = 0 };
	if (!can_tell(n) || n->event_set_create(&ret->set) != NVML_SUCCESS) {
		ret->set = NULL;
		return;
	}
	/* MIG instances have no events of their own; their card tells. */
	for (uint32_t i = 0; i < list->n; i++)
		ret->n += list->d[i].mig < 0 && !list->d[i].unseen &&
			  n->register_events(list->d[i].handle, nvmlEventTypeXidCriticalError,
					     ret->set) == NVML_SUCCESS;
	if (ret->n == 0)
		gpu_errors_close(n, ret);
}

void gpu_errors_close(const struct nvml *n, struct gpu_errors *errors)
{
	if (errors->set)
		(void)n->event_set_free(errors->set);
	*errors = (struct gpu_errors){ .n = 0 };
}

bool gpu_errors_next(const struct nvml *n, const struct gpu_errors *errors, nvmlDevice_t *ret,
		     uint32_t *ret_xid)
{
	nvmlEventData_t data;

	if (!errors->set || n->event_wait(errors->set, &data, 0) != NVML_SUCCESS)
		return false;
	*ret = data.device;
	*ret_xid = (uint32_t)data.eventData;
	return true;
}
