/* SPDX-License-Identifier: MIT */
#include "hold/endpoint_names.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "base/str.h"

#define FNV64_START 0xcbf29ce484222325ULL
#define FNV64_PRIME 0x100000001b3ULL

/* FNV-1a over the path as it is meant: "/x//dev/" is the same directory as "/x/dev". */
static uint64_t hash_path(const char *path)
{
	uint64_t h = FNV64_START;

	for (const char *p = path; *p; p++) {
		if (*p == '/' && (p[1] == '/' || !p[1]))
			continue;
		h = (h ^ (unsigned char)*p) * FNV64_PRIME;
	}
	return h;
}

/* "" for /dev, "<hash>/" for any other directory. */
static const char *directory_part(char *buf, size_t n, const char *dev_dir)
{
	uint64_t h = hash_path(dev_dir);

	if (h == hash_path("/dev"))
		return "";
	return str_print(buf, n, "%016" PRIx64 "/", h);
}

char *guard_socket_name(char *buf, size_t n, const char *dev_dir)
{
	char part[32];

	return str_print(buf, n, "%sguard", directory_part(part, sizeof(part), dev_dir));
}

char *agent_socket_name(char *buf, size_t n, const char *instance, const char *dev_dir)
{
	char part[32];

	return str_print(buf, n, "%s%s/agent", directory_part(part, sizeof(part), dev_dir),
			 instance);
}
