/* SPDX-License-Identifier: MIT */
#include "hold/dev_reason.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

int dev_reason_set(struct dev_reason *ret, int code, const char *fmt, ...)
{
	va_list ap;

	if (!ret)
		return code;
	*ret = (struct dev_reason){ .code = DEV_REASON_TEXT, .uid = DEV_REASON_NO_UID };
	va_start(ap, fmt);
	(void)vsnprintf(ret->text, sizeof(ret->text), fmt, ap);
	va_end(ap);
	return code;
}

void dev_reason_lead(struct dev_reason *r, const char *fmt, ...)
{
	char before[sizeof(r->lead)], behind[sizeof(r->lead)];
	va_list ap;

	va_start(ap, fmt);
	(void)vsnprintf(before, sizeof(before), fmt, ap);
	va_end(ap);
	(void)str_copy(behind, sizeof(behind), r->lead);
	(void)str_print(r->lead, sizeof(r->lead), "%s%s", before, behind);
}

void dev_reason_end(struct dev_reason *r)
{
	r->comm[sizeof(r->comm) - 1] = '\0';
	r->lead[sizeof(r->lead) - 1] = '\0';
	r->text[sizeof(r->text) - 1] = '\0';
}

static void add_user(const struct dev_reason *r, const struct user_names *names, struct strbuf *out)
{
	bool known = r->uid != DEV_REASON_NO_UID;
	const char *name = known && names ? names->name(names->user, r->uid) : NULL;

	if (!known)
		strbuf_adds(out, "another user");
	else if (name)
		strbuf_adds(out, name);
	else
		strbuf_addf(out, "uid %u", (unsigned int)r->uid);
}

static void add_text(const struct dev_reason *r, const struct user_names *names, struct strbuf *out)
{
	strbuf_adds(out, r->text);
}

static void add_process(const struct dev_reason *r, const struct user_names *names,
			struct strbuf *out)
{
	strbuf_addf(out, "PID %d", (int)r->pid);
	if (r->uid != DEV_REASON_NO_UID) {
		strbuf_adds(out, " (");
		add_user(r, names, out);
		strbuf_addf(out, ", %s)", r->comm);
	}
	/* What it uses grows; what it uses when it is first seen is its context at most. */
	if (r->flags & DEV_REASON_BYTES && r->bytes)
		strbuf_addf(out, ", %.1f GiB", (double)r->bytes / (double)(1ULL << 30));
	else if (r->flags & DEV_REASON_BYTES)
		strbuf_adds(out, " just started");
}

static void add_tenure(const struct dev_reason *r, const struct user_names *names,
		       struct strbuf *out)
{
	strbuf_adds(out, "tenure of ");
	add_user(r, names, out);
	strbuf_addf(out, " (PID %d)", (int)r->pid);
}

static void add_locked(const struct dev_reason *r, const struct user_names *names,
		       struct strbuf *out)
{
	strbuf_adds(out, "tenure of ");
	add_user(r, names, out);
	strbuf_adds(out, " has it");
}

static void add_held(const struct dev_reason *r, const struct user_names *names, struct strbuf *out)
{
	strbuf_addf(out, "held for %s", r->text);
}

static void add_left(const struct dev_reason *r, const struct user_names *names, struct strbuf *out)
{
	strbuf_addf(out, "left for others by %s", r->text);
}

static void add_not_selected(const struct dev_reason *r, const struct user_names *names,
			     struct strbuf *out)
{
	strbuf_adds(out, "not selected");
}

static const struct {
	const char *name;
	void (*add)(const struct dev_reason *r, const struct user_names *names, struct strbuf *out);
	bool user; /* uid is told */
} codes[] = {
	[DEV_REASON_TEXT] = { "text", add_text, false },
	[DEV_REASON_PROCESS] = { "process", add_process, true },
	[DEV_REASON_TENURE] = { "tenure", add_tenure, true },
	[DEV_REASON_LOCKED] = { "locked", add_locked, true },
	[DEV_REASON_MEMORY] = { "memory", add_text, false },
	[DEV_REASON_HELD] = { "held", add_held, false },
	[DEV_REASON_LEFT] = { "left", add_left, false },
	[DEV_REASON_NOT_SELECTED] = { "not-selected", add_not_selected, false },
};
_Static_assert(ARRAY_LEN(codes) == DEV_REASON_MAX, "a row for every code");

/* What a later version says has its words in the text, as far as it has any. */
static uint32_t row_of(uint32_t code)
{
	return code < DEV_REASON_MAX ? code : DEV_REASON_TEXT;
}

bool dev_reason_has_user(const struct dev_reason *r)
{
	return codes[row_of(r->code)].user && r->uid != DEV_REASON_NO_UID;
}

void dev_reason_text(const struct dev_reason *r, const struct user_names *names, struct strbuf *out)
{
	size_t begin = out->len;

	strbuf_adds(out, r->lead);
	codes[row_of(r->code)].add(r, names, out);
	/* A process is called as it likes, and a text may have been cut within a character. */
	if (out->len > begin)
		out->len = begin + strlen(utf8_clean(out->data + begin));
}

const char *dev_reason_code_name(uint32_t code)
{
	return codes[row_of(code)].name;
}
