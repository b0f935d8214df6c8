/* SPDX-License-Identifier: MIT */
#include "gpu/xid_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "gpu/xid.h"

#define RECORD_MAX	8192	/* /dev/kmsg has shorter ones */
#define RECORDS_MAX	1000000 /* a log that is written faster than it is read has an end, too */
#define KERNEL_MAX	7	/* priorities above are of programs */
#define NVLINK_FIRST	144
#define NVLINK_LAST	150
#define RECOVERY_ACTION 154

static struct xid_log_card *card_of(struct xid_log *log, const struct xid_log_card *of)
{
	for (uint32_t i = 0; i < log->n; i++)
		if (log->cards[i].domain == of->domain && log->cards[i].bus == of->bus &&
		    log->cards[i].device == of->device)
			return &log->cards[i];
	if (log->n == XID_LOG_CARDS)
		return NULL;
	log->cards[log->n] = *of;
	return &log->cards[log->n++];
}

/* Of an event of NVLink the driver says whether it was fatal ("145, RLW_RXPIPE Nonfatal XC0 ..").
 */
static bool is_fatal(unsigned int xid, const char *text)
{
	return xid < NVLINK_FIRST || xid > NVLINK_LAST || !strstr(text, " Nonfatal ");
}

static void take_report(struct xid_log *log, const char *text, uint64_t at_us)
{
	struct xid_log_card r = { .at_us = at_us }, *c;
	unsigned int xid;

	if (sscanf(text, "NVRM: Xid (PCI:%x:%x:%x): %u", &r.domain, &r.bus, &r.device, &xid) != 4)
		return;
	if (xid_kind(xid) == XID_TROUBLE && is_fatal(xid, text))
		r.xid = xid;
	else if (xid != RECOVERY_ACTION || !strstr(text, "to 0x0 (None)"))
		return;
	c = card_of(log, &r);
	if (c)
		*c = r;
}

void xid_log_take(struct xid_log *log, const char *record)
{
	const char *text = strchr(record, ';');
	unsigned long long number, at_us;
	unsigned int priority;

	if (!text || sscanf(record, "%u,%llu,%llu", &priority, &number, &at_us) != 3)
		return;
	/* The kernel counts from 0. */
	if (!log->any)
		log->from_us = number ? at_us : 0;
	log->any = true;
	if (priority > KERNEL_MAX)
		return;
	text++;
	if (str_has_prefix(text, "NVRM: loading NVIDIA"))
		*log = (struct xid_log){ .any = true };
	else
		take_report(log, text, at_us);
}

/* What a read has given: one record of the kernel's, or as many lines as there are. */
static void take_lines(struct xid_log *log, char *lines)
{
	char *rest = lines, *line;

	while ((line = strsep(&rest, "\n")))
		xid_log_take(log, line);
}

int xid_log_read(const char *path, struct xid_log *ret)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	char buf[RECORD_MAX];

	*ret = (struct xid_log){ .any = false };
	if (fd < 0)
		return -errno;
	for (unsigned int i = 0; i < RECORDS_MAX; i++) {
		ssize_t n = read(fd, buf, sizeof(buf) - 1);

		/* Records that were overwritten before they were read: the next ones are there. */
		if (n < 0 && (errno == EPIPE || errno == EINTR))
			continue;
		if (n <= 0)
			return n == 0 || errno == EAGAIN ? 0 : -errno;
		buf[n] = '\0';
		take_lines(ret, buf);
	}
	return 0;
}

const struct xid_log_card *xid_log_find(const struct xid_log *log, const char *bus_id)
{
	unsigned int domain, bus, device;

	if (sscanf(bus_id, "%x:%x:%x", &domain, &bus, &device) != 3)
		return NULL;
	for (uint32_t i = 0; i < log->n; i++)
		if (log->cards[i].domain == domain && log->cards[i].bus == bus &&
		    log->cards[i].device == device && log->cards[i].xid)
			return &log->cards[i];
	return NULL;
}
