/* SPDX-License-Identifier: MIT */
#include "gpu/missing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"

#define NVIDIA	"0x10de"
#define DISPLAY "0x03" /* class of display controllers, those without a connector among them */

/* -------- device nodes -------- */

static bool is_listed_minor(const struct gpu_list *list, uint64_t minor)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (list->d[i].minor >= 0 && (uint64_t)list->d[i].minor == minor)
			return true;
	return false;
}

static bool knows_all_minors(const struct gpu_list *list)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (list->d[i].minor < 0)
			return false;
	return true;
}

/* Also where it is not there: a container gets the nodes of its own cards alone. */
static bool is_forbidden(const char *dev_dir, uint64_t minor)
{
	cleanup_free char *path = xasprintf("%s/nvidia%llu", dev_dir, (unsigned long long)minor);
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

	return fd < 0 && (errno == EPERM || errno == EACCES || errno == ENOENT);
}

static int compare_minors(const void *a, const void *b)
{
	const struct gpu_missing *x = a, *y = b;

	return x->minor < y->minor ? -1 : x->minor > y->minor;
}

static uint32_t find_nodes(const struct gpu_list *list, const char *dev_dir,
			   struct gpu_missing *ret)
{
	DIR *dir = knows_all_minors(list) ? opendir(dev_dir) : NULL;
	const struct dirent *entry;
	uint32_t n = 0;

	while (dir && n < GPU_DEVICES_MAX && (entry = readdir(dir))) {
		uint64_t minor;

		if (!str_has_prefix(entry->d_name, "nvidia") ||
		    str_to_u64(entry->d_name + strlen("nvidia"), &minor) < 0 || minor > INT32_MAX ||
		    is_listed_minor(list, minor) || is_forbidden(dev_dir, minor))
			continue;
		ret[n++] = (struct gpu_missing){ .minor = (int32_t)minor };
	}
	if (dir)
		(void)closedir(dir);
	qsort(ret, n, sizeof(*ret), compare_minors);
	return n;
}

/* -------- PCI -------- */

/* NVML writes "00000000:5B:00.0", the kernel "0000:5b:00.0". */
static bool same_bus_id(const char *a, const char *b)
{
	unsigned int x[4], y[4];

	return sscanf(a, "%x:%x:%x.%x", &x[0], &x[1], &x[2], &x[3]) == 4 &&
	       sscanf(b, "%x:%x:%x.%x", &y[0], &y[1], &y[2], &y[3]) == 4 &&
	       !memcmp(x, y, sizeof(x));
}

static bool is_listed_bus_id(const struct gpu_list *list, const char *bus_id)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (same_bus_id(list->d[i].bus_id, bus_id))
			return true;
	return false;
}

/* A file of one word; empty where there is none. Returns buf. */
static char *read_word(const char *pci_dir, const char *device, const char *file, char buf[32])
{
	cleanup_free char *path = xasprintf("%s/%s/%s", pci_dir, device, file);
	cleanup_free char *text = NULL;
	size_t len;

	buf[0] = '\0';
	if (fs_read_file(path, 4096, &text, &len, NULL) < 0)
		return buf;
	text[strcspn(text, " \t\n")] = '\0';
	(void)str_copy(buf, 32, text);
	return buf;
}

/* The last part of where a link leads; empty where there is none. Returns buf. */
static char *read_driver(const char *pci_dir, const char *device, char buf[64])
{
	cleanup_free char *path = xasprintf("%s/%s/driver", pci_dir, device);
	char target[256];
	ssize_t len = readlink(path, target, sizeof(target) - 1);
	const char *slash;

	target[len > 0 ? len : 0] = '\0';
	slash = strrchr(target, '/');
	(void)str_copy(buf, 64, slash ? slash + 1 : target);
	return buf;
}

/*
 * What stands behind a name in what the driver says of a card ("Device Minor: \t 3"), also of one
 * that NVML does not list; empty where it says nothing. Returns buf.
 */
static char *read_information(const char *driver_dir, const char *bus_id, const char *name,
			      char buf[32])
{
	cleanup_free char *path = xasprintf("%s/%s/information", driver_dir, bus_id);
	cleanup_free char *text = NULL;
	const char *at;
	size_t len;

	buf[0] = '\0';
	if (fs_read_file(path, 4096, &text, &len, NULL) < 0 || !(at = strstr(text, name)))
		return buf;
	at += strlen(name);
	at += strspn(at, ": \t");
	(void)str_print(buf, 32, "%.*s", (int)strcspn(at, " \t\n"), at);
	return buf;
}

struct pci_card {
	char bus_id[16], kind[32], driver[64];
	bool listed;
};

static uint32_t read_cards(const struct gpu_list *list, const char *pci_dir, struct pci_card *ret)
{
	DIR *dir = opendir(pci_dir);
	const struct dirent *entry;
	uint32_t n = 0;
	char word[32];

	while (dir && n < GPU_DEVICES_MAX && (entry = readdir(dir))) {
		struct pci_card *c = &ret[n];

		if (entry->d_name[0] == '.' ||
		    strcmp(read_word(pci_dir, entry->d_name, "vendor", word), NVIDIA) != 0 ||
		    !str_has_prefix(read_word(pci_dir, entry->d_name, "class", word), DISPLAY))
			continue;
		(void)str_copy(c->bus_id, sizeof(c->bus_id), entry->d_name);
		(void)read_word(pci_dir, entry->d_name, "device", c->kind);
		(void)read_driver(pci_dir, entry->d_name, c->driver);
		c->listed = is_listed_bus_id(list, c->bus_id);
		n++;
	}
	if (dir)
		(void)closedir(dir);
	return n;
}

/* The driver refuses a card that does not answer when the machine starts, and then has one less of
 * that kind. Others that no driver has may be too old for it, or kept for a virtual machine. */
static bool is_of_listed_kind(const struct pci_card *cards, uint32_t n, const struct pci_card *c)
{
	for (uint32_t i = 0; i < n; i++)
		if (cards[i].listed && strcmp(cards[i].kind, c->kind) == 0)
			return true;
	return false;
}

static int compare_bus_ids(const void *a, const void *b)
{
	const struct gpu_missing *x = a, *y = b;

	return strcmp(x->bus_id, y->bus_id);
}

/* Whoever runs the machine keeps it from being used. */
static bool is_excluded(const struct gpu_places *at, const struct pci_card *c)
{
	char word[32];

	return !strcmp(read_information(at->driver_dir, c->bus_id, "GPU Excluded", word), "Yes");
}

/* It is not of this job or container, which may not open its node or is told nothing of it. */
static bool is_of_others(const struct gpu_places *at, const struct pci_card *c)
{
	char word[32];
	uint64_t minor;

	(void)read_information(at->driver_dir, c->bus_id, "Device Minor", word);
	return str_to_u64(word, &minor) < 0 || is_forbidden(at->dev_dir, minor);
}

static bool is_missed(const struct gpu_places *at, const struct pci_card *cards, uint32_t n,
		      const struct pci_card *c)
{
	if (c->listed)
		return false;
	if (strcmp(c->driver, "nvidia") == 0)
		return !is_excluded(at, c) && !is_of_others(at, c);
	return !c->driver[0] && is_of_listed_kind(cards, n, c);
}

/* ret_others: cards that another driver has, for a virtual machine, and excluded ones. */
static uint32_t find_pci(const struct gpu_list *list, const struct gpu_places *at,
			 struct gpu_missing *ret, uint32_t *ret_others)
{
	cleanup_free struct pci_card *cards = xcalloc(GPU_DEVICES_MAX, sizeof(*cards));
	const uint32_t n_cards = read_cards(list, at->pci_dir, cards);
	uint32_t n = 0;

	*ret_others = 0;
	for (uint32_t i = 0; i < n_cards; i++) {
		const struct pci_card *c = &cards[i];

		*ret_others +=
			(c->driver[0] && strcmp(c->driver, "nvidia") != 0) || is_excluded(at, c);
		if (!is_missed(at, cards, n_cards, c))
			continue;
		ret[n] = (struct gpu_missing){ .minor = -1 };
		(void)str_copy(ret[n].bus_id, sizeof(ret[n].bus_id), c->bus_id);
		n++;
	}
	qsort(ret, n, sizeof(*ret), compare_bus_ids);
	return n;
}

/* -------- both -------- */

/* A card that NVML counts and cannot ask is one of those that are missed. Which one nobody says: it
 * is the one with the node of its number, as a rule. */
static uint32_t leave_out_failed(const struct gpu_list *list, struct gpu_missing *missing,
				 uint32_t n)
{
	uint32_t left = list->n_failed;

	for (uint32_t k = 0; k < list->n_failed; k++)
		for (uint32_t i = 0; i < n; i++) {
			if (missing[i].minor < 0 ||
			    (uint32_t)missing[i].minor != list->failed[k].index)
				continue;
			(void)memmove(&missing[i], &missing[i + 1], (n - i - 1) * sizeof(*missing));
			n--;
			left--;
			break;
		}
	return n > left ? n - left : 0;
}

/* Both witnesses may have missed the same card: the one that has missed more is believed. A node
 * may be there of a card that another driver has, or that is excluded. */
uint32_t gpu_find_missing(const struct gpu_list *list, const struct gpu_places *at,
			  struct gpu_missing *ret)
{
	cleanup_free struct gpu_missing *pci = xcalloc(GPU_DEVICES_MAX, sizeof(*pci));
	uint32_t n_others = 0, n_pci = 0;
	uint32_t n = find_nodes(list, at->dev_dir, ret);

	if (at->pci_dir)
		n_pci = find_pci(list, at, pci, &n_others);
	n = n > n_others ? n - n_others : 0;
	if (n_pci > n) {
		(void)memcpy(ret, pci, n_pci * sizeof(*ret));
		n = n_pci;
	}
	return leave_out_failed(list, ret, n);
}
