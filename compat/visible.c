/* SPDX-License-Identifier: MIT */
#include "compat/visible.h"

#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "gpu/cuda.h"
#include "gpu/device.h"

/* What the child sends: smaller than PIPE_BUF, so whole or not at all. */
struct answer {
	int32_t code; /* 0 or negative errno */
	uint32_t n;
	CUuuid uuids[VISIBLE_MAX];
	char text[256];
};

/* -------- in the child -------- */

typedef CUresult (*uuid_fn)(CUuuid *uuid, CUdevice device);

static int ask_cuda(struct answer *a, struct err *e)
{
	struct cuda cu;
	int r = cuda_load(&cu, e), n = 0;

	if (r < 0)
		return r;

	/* The old one gives a MIG instance the UUID of its card. */
	void *get = dlsym(cu.library, "cuDeviceGetUuid_v2");
	uuid_fn get_uuid = NULL;

	if (!get)
		get = dlsym(cu.library, "cuDeviceGetUuid");
	if (!get)
		return err_set(e, -ENOSYS, "%s has no cuDeviceGetUuid", CUDA_SONAME);
	memcpy(&get_uuid, &get, sizeof(get_uuid));
	r = cuda_result(&cu, cu.init(0), e, "cuInit");
	if (r == 0)
		r = cuda_result(&cu, cu.device_count(&n), e, "cuDeviceGetCount");
	for (int i = 0; r == 0 && i < n && i < VISIBLE_MAX; i++) {
		CUdevice dev;

		r = cuda_result(&cu, cu.device_get(&dev, i), e, "cuDeviceGet");
		if (r == 0)
			r = cuda_result(&cu, get_uuid(&a->uuids[i], dev), e, "cuDeviceGetUuid");
		a->n = (uint32_t)i + 1;
	}
	return r;
}

static void __attribute__((noreturn)) be_asker(int fd)
{
	struct answer a = { 0 };
	struct err e = ERR_INIT;

	a.code = ask_cuda(&a, &e);
	(void)str_copy(a.text, sizeof(a.text), e.text);
	(void)fs_write_all(fd, &a, sizeof(a));
	_exit(0);
}

/* -------- in the parent -------- */

static int ask(struct answer *ret, struct err *e)
{
	int ends[2];
	ssize_t n;

	_Static_assert(sizeof(*ret) <= 4096, "one atomic write");
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_sys(e, errno, "pipe");
	(void)fflush(NULL);

	cleanup_fd int read_end = ends[0];
	pid_t pid = fork();

	if (pid == 0)
		be_asker(ends[1]);
	(void)fd_close(ends[1]);
	if (pid < 0)
		return err_sys(e, errno, "fork");
	do
		n = read(read_end, ret, sizeof(*ret));
	while (n < 0 && errno == EINTR);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
	if (n != sizeof(*ret))
		return err_set(e, -EIO, "CUDA broke down when it was asked for the GPUs");
	if (ret->code == -ENODEV && getenv("CUDA_VISIBLE_DEVICES"))
		return err_set(e, ret->code, "no GPU is left to hold; unset it, or name one");
	return ret->code < 0 ? err_set(e, ret->code, "%s", ret->text) : 0;
}

/* "GPU-1a2b..." and "MIG-1a2b..." have the bytes in common. */
static bool same_uuid(const char *text, const CUuuid *uuid)
{
	const char *p = strchr(text, '-');
	char hex[3] = "";

	for (size_t i = 0; p && i < sizeof(uuid->bytes); i++, p += 2) {
		p += strspn(p, "-");
		(void)str_print(hex, sizeof(hex), "%02x", (unsigned char)uuid->bytes[i]);
		if (tolower((unsigned char)p[0]) != hex[0] ||
		    tolower((unsigned char)p[1]) != hex[1])
			return false;
	}
	return p != NULL;
}

/* As NVML writes it, which knows whether it is a card or an instance of one. */
static int name_them(const struct answer *a, const struct gpu_list *list, struct visible *ret,
		     struct err *e)
{
	for (uint32_t i = 0; i < a->n; i++) {
		uint32_t j = 0;

		while (j < list->n && !same_uuid(list->d[j].uuid, &a->uuids[i]))
			j++;
		if (j == list->n)
			return err_set(e, -EIO, "NVML does not know GPU %u of CUDA",
				       (unsigned int)i);
		(void)str_copy(ret->uuids[i], VISIBLE_UUID_MAX, list->d[j].uuid);
	}
	ret->n = a->n;
	return 0;
}

int visible_list(struct visible *ret, struct err *e)
{
	struct gpu_list *list = xcalloc(1, sizeof(*list));
	struct answer a = { 0 };
	struct nvml nvml = { 0 };
	int r = ask(&a, e);

	if (r == 0 && a.n == 0)
		r = err_set(e, -ENODEV, "CUDA sees no GPU");
	if (r == 0)
		r = nvml_load(&nvml, e);
	if (r == 0)
		r = nvml_start(&nvml, e);
	if (r == 0)
		r = gpu_enumerate(&nvml, list, e);
	if (r == 0)
		r = name_them(&a, list, ret, e);
	nvml_stop(&nvml);
	nvml_unload(&nvml);
	free(list);
	return r;
}

int visible_find(const struct visible *v, const char *uuid)
{
	for (uint32_t i = 0; uuid && i < v->n; i++)
		if (strcmp(v->uuids[i], uuid) == 0)
			return (int)i;
	return -1;
}
