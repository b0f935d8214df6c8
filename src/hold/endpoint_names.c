/* SPDX-License-Identifier: MIT */
#include "hold/endpoint_names.h"

#include <inttypes.h>
#include <stdint.h>
#include <string.h>

#include "base/hash.h"
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

#define JOB_MAX	 32 /* of its key: with all other parts it is not too long for an endpoint */
#define PART_MAX 64

/* "" for /dev, "<hash>/" for any other directory, and "@KEY/" in a job: no instance begins so. */
static const char *first_part(char buf[PART_MAX], const char *dev_dir, const char *job)
{
	uint64_t h = hash_path(dev_dir);
	char directory[32] = "", key[JOB_MAX + 1];

	if (h != hash_path("/dev"))
		(void)str_print(directory, sizeof(directory), "%016" PRIx64 "/", h);
	if (!job)
		return str_print(buf, PART_MAX, "%s", directory);
	return str_print(buf, PART_MAX, "%s@%s/", directory, hash_short_name(key, JOB_MAX, job));
}

char *guard_socket_name(char *buf, size_t n, const char *dev_dir, const char *job)
{
	char part[PART_MAX];

	return str_print(buf, n, "%sguard", first_part(part, dev_dir, job));
}

char *agent_socket_name(char *buf, size_t n, const char *instance, const char *dev_dir,
			const char *job)
{
	char part[PART_MAX];

	return str_print(buf, n, "%s%s/agent", first_part(part, dev_dir, job), instance);
}

char *ask_socket_name(char *buf, size_t n, uid_t uid, const char *dev_dir, unsigned int number)
{
	return str_print(buf, n, ASK_SOCKET_BEGIN "%u/%016" PRIx64 "/%u", (unsigned int)uid,
			 hash_path(dev_dir), number);
}
