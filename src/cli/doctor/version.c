/* SPDX-License-Identifier: MIT */

/* `tenure version`: which build this is, and where it would run. */

#include <errno.h>
#include <gnu/libc-version.h>
#include <libfyaml.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#include <uv.h>

#include "base/mem.h"
#include "base/needs.h"
#include "base/publish.h"
#include "base/strbuf.h"
#include "cli/cmd.h"
#include "cli/commands.h"

struct build {
	char program[4096];
	char hash[SHA256_HEX_MAX];
	struct needs needs;
	struct utsname system;
};

static int look(struct build *b, struct err *e)
{
	ssize_t n = readlink("/proc/self/exe", b->program, sizeof(b->program) - 1);

	if (n < 0)
		return err_sys(e, errno, "cannot find my own executable");
	b->program[n] = '\0';
	if (uname(&b->system) < 0)
		return err_sys(e, errno, "ask the kernel for its version");
	needs_of_program(&b->needs);
	return program_hash(b->hash, e);
}

static void print_json(const struct build *b)
{
	json_t *needed = json_array();

	for (size_t i = 0; i < b->needs.libraries.n; i++)
		(void)json_array_append_new(needed, json_string(b->needs.libraries.texts[i]));
	cmd_print_json(json_pack(
		"{s:s, s:s, s:s, s:s, s:{s:s?, s:o}, s:{s:s, s:s, s:s}, s:{s:s, s:s}}", "version",
		TENURE_VERSION, "program", b->program, "sha256", b->hash, "processor",
		b->system.machine, "needs", "glibc", b->needs.glibc[0] ? b->needs.glibc : NULL,
		"libraries", needed, "libraries", "libuv", uv_version_string(), "jansson",
		jansson_version_str(), "libfyaml", fy_library_version(), "here", "glibc",
		gnu_get_libc_version(), "kernel", b->system.release));
}

static void print_text(const struct build *b)
{
	cleanup_strbuf struct strbuf needed = STRBUF_INIT;

	for (size_t i = 0; i < b->needs.libraries.n; i++)
		strbuf_addf(&needed, ", %s", b->needs.libraries.texts[i]);
	printf("tenure " TENURE_VERSION "\n");
	printf("program    %s\n", b->program);
	printf("sha256     %s\n", b->hash);
	printf("needs      %s, glibc %s or later%s\n", b->system.machine, b->needs.glibc,
	       needed.len ? strbuf_str(&needed) : "; no other library");
	printf("here       glibc %s, Linux %s\n", gnu_get_libc_version(), b->system.release);
	printf("libraries  libuv %s, jansson %s, libfyaml %s%s\n", uv_version_string(),
	       jansson_version_str(), fy_library_version(), needed.len ? "" : ", all inside");
}

static int run_version(const struct cmd_ctx *ctx, struct err *e)
{
	struct build b = { .program = "" };
	int r = look(&b, e);

	if (r == 0) {
		if (opts_flag(ctx->opts, "json"))
			print_json(&b);
		else
			print_text(&b);
	}
	needs_clear(&b.needs);
	return r;
}

static const struct cmd_example version_examples[] = {
	{ "tenure version", "which build this is, and what another machine needs for it" },
	{ "tenure version --json", "for programs: are two nodes' the same?" },
	{ 0 },
};

const struct cmd cmd_version = {
	.name = "version",
	.group = "This machine",
	.summary = "which build this is, and what it needs where it runs",
	.description =
		"Builds of one version are told apart by the hash of the program. needs is what a copy of "
		"it has to find on another machine: a program that was built here wants this "
		"system's libraries there, one from the archive (docs/install.md) an old C library and "
		"nothing else. The driver's libraries are looked for when a GPU is to be seen.",
	.examples = version_examples,
	.flags = CMD_JSON | CMD_NO_SETTINGS,
	.run = run_version,
};
