/* SPDX-License-Identifier: MIT */
#include "base/needs.h"

#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"

bool needs_is_of_libc(const char *soname)
{
	static const char *const names[] = { "libc.so.",    "libm.so.",	 "libpthread.so.",
					     "libdl.so.",   "librt.so.", "libresolv.so.",
					     "libutil.so.", "ld-linux",	 "ld64.so." };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (str_has_prefix(soname, names[i]))
			return true;
	return false;
}

static bool read_version(const char *text, unsigned int ret[3])
{
	ret[0] = ret[1] = ret[2] = 0;
	return sscanf(text, "%u.%u.%u", &ret[0], &ret[1], &ret[2]) >= 2;
}

void needs_add_version(char text[16], const char *version)
{
	static const char prefix[] = "GLIBC_";
	unsigned int is[3], was[3];

	/* GLIBC_PRIVATE and GLIBC_ABI_DT_RELR are no numbers. */
	if (!str_has_prefix(version, prefix) || !read_version(version + sizeof(prefix) - 1, is))
		return;
	(void)read_version(text, was);
	for (size_t i = 0; i < ARRAY_LEN(is); i++) {
		if (is[i] == was[i])
			continue;
		if (is[i] > was[i])
			(void)str_copy(text, 16, version + sizeof(prefix) - 1);
		return;
	}
}

/* Some loaders replace the addresses in there by those in memory, some leave them as they are in
 * the file. */
static const char *in_memory(const struct dl_phdr_info *info, ElfW(Addr) address)
{
	if (address < info->dlpi_addr)
		address += info->dlpi_addr;
	return (const char *)address;
}

static void add_versions(const char *need, size_t n, const char *strings, struct needs *ret)
{
	for (size_t i = 0; i < n; i++) {
		const ElfW(Verneed) *file = (const void *)need;
		const char *at = need + file->vn_aux;

		for (size_t k = 0; k < file->vn_cnt; k++) {
			const ElfW(Vernaux) *aux = (const void *)at;

			needs_add_version(ret->glibc, strings + aux->vna_name);
			at += aux->vna_next;
		}
		need += file->vn_next;
	}
}

static void add_dynamic(const struct dl_phdr_info *info, const ElfW(Dyn) * dynamic,
			struct needs *ret)
{
	const char *strings = NULL, *versions = NULL;
	size_t n_versions = 0;

	for (const ElfW(Dyn) *d = dynamic; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_STRTAB)
			strings = in_memory(info, d->d_un.d_ptr);
		else if (d->d_tag == DT_VERNEED)
			versions = in_memory(info, d->d_un.d_ptr);
		else if (d->d_tag == DT_VERNEEDNUM)
			n_versions = d->d_un.d_val;
	}
	for (const ElfW(Dyn) *d = dynamic; strings && d->d_tag != DT_NULL; d++) {
		const char *soname = strings + d->d_un.d_val;

		if (d->d_tag == DT_NEEDED && !needs_is_of_libc(soname))
			text_list_add(&ret->libraries, soname);
	}
	if (strings && versions)
		add_versions(versions, n_versions, strings, ret);
}

/* The first object is the program. */
static int add_program(struct dl_phdr_info *info, size_t size, void *user)
{
	for (size_t i = 0; i < info->dlpi_phnum; i++)
		if (info->dlpi_phdr[i].p_type == PT_DYNAMIC)
			add_dynamic(info,
				    (const void *)(info->dlpi_addr + info->dlpi_phdr[i].p_vaddr),
				    user);
	return 1;
}

void needs_of_program(struct needs *ret)
{
	*ret = (struct needs){ .glibc = "" };
	(void)dl_iterate_phdr(add_program, ret);
}

void needs_clear(struct needs *n)
{
	text_list_clear(&n->libraries);
}
