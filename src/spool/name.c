/* SPDX-License-Identifier: MIT */

/*
 * One table has the optional fields in their order; writing and reading both walk it. Reading ends
 * by writing the name again and comparing, so that there is exactly one name for a state and two
 * files can never mean the same one.
 */

#include "spool/name.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"

#define ALL_TEXT "all"

/* In the order of the bits. */
static const char flag_letters[] = "pdsycmih";

struct field {
	char letter;
	size_t offset;
	size_t size;  /* of a text; 0: a number */
	uint64_t def; /* of a number: left out when it is this */
};

#define NUM(letter_, field_, def_)                                                                 \
	{                                                                                          \
		letter_, offsetof(struct task_name, field_), 0, def_                               \
	}
#define TEXT(letter_, field_, max_)                                                                \
	{                                                                                          \
		letter_, offsetof(struct task_name, field_), (max_) + 1, 0                         \
	}

static const struct field fields[] = {
	NUM('e', epoch, 0),
	NUM('v', edits, 0),
	NUM('g', gpus, 1),
	NUM('x', count, 0),
	{ 'f', offsetof(struct task_name, flags), 0, 0 },
	NUM('t', begin_s, 0),
	TEXT('l', lane, SPEC_NAME_MAX),
	TEXT('n', name, SPEC_NAME_MAX),
	TEXT('c', agent, NAME_AGENT_MAX),
	NUM('u', ended_s, 0),
	{ 'z', offsetof(struct task_name, exit), 0, 0 },
};

void name_of_spec(const struct task_spec *s, uint64_t id, struct task_name *ret)
{
	const struct {
		bool set;
		unsigned int flag;
	} flags[] = {
		{ s->paused, NAME_PAUSED },
		{ s->after.n || s->after_any.n, NAME_DEPENDS },
		{ s->shared, NAME_SHARED },
		{ s->preemptible, NAME_PREEMPTIBLE },
		{ s->rules != SPEC_RULES_TENURE, NAME_COMPETE },
		{ s->model != NULL, NAME_MODEL },
		{ s->array.limit != 0, NAME_LIMIT },
	};

	*ret = (struct task_name){ .priority = s->priority,
				   .id = id,
				   .gpus = s->gpus,
				   .begin_s = (s->begin + NS_PER_S - 1) / NS_PER_S };
	(void)spec_count(s, &ret->count, NULL);
	for (size_t i = 0; i < ARRAY_LEN(flags); i++)
		ret->flags |= flags[i].set ? flags[i].flag : 0;
	(void)str_copy(ret->lane, sizeof(ret->lane), s->lane ? s->lane : "");
	(void)str_copy(ret->name, sizeof(ret->name), s->name ? s->name : "task");
}

/* Lists of a hundred thousand names are read and checked with these: printf() took half of it. */
static char *put_num(char *p, uint64_t v)
{
	char digits[24];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		*p++ = digits[--n];
	*p = '\0';
	return p;
}

static char *put_text(char *p, const char *text)
{
	size_t len = strlen(text);

	(void)memcpy(p, text, len + 1);
	return p + len;
}

static char *format_flags(unsigned int flags, char *p)
{
	for (size_t i = 0; flag_letters[i]; i++)
		if (flags & (1u << i))
			*p++ = flag_letters[i];
	*p = '\0';
	return p;
}

/* No name is longer than NAME_FILE_MAX: every text in it is bounded (test_task_spec has the
 * longest). */
static char *format_field(const struct task_name *n, const struct field *f, char *p)
{
	const char *at = (const char *)n + f->offset;
	uint64_t num;

	if (f->size && !*at)
		return p;
	if (f->size) {
		*p++ = ',';
		*p++ = f->letter;
		return put_text(p, at);
	}
	if (f->letter == 'f' || f->letter == 'z')
		num = *(const unsigned int *)(const void *)at;
	else
		num = *(const uint64_t *)(const void *)at;
	if (f->letter == 'z' ? !n->ended_s : num == f->def)
		return p;
	*p++ = ',';
	*p++ = f->letter;
	if (f->letter == 'f')
		return format_flags(n->flags, p);
	if (f->letter == 'g' && num == SPEC_ALL)
		return put_text(p, ALL_TEXT);
	return put_num(p, num);
}

char *name_format(const struct task_name *n, char buf[NAME_FILE_MAX])
{
	char *p = buf;

	if (n->element) {
		(void)snprintf(buf, NAME_FILE_MAX, "%" PRIu64 ".%" PRIu64 ",e%" PRIu64, n->id,
			       n->element, n->epoch);
		return buf;
	}
	for (uint64_t least = 10000; least > 1 && n->priority < least; least /= 10)
		*p++ = '0';
	p = put_num(p, n->priority);
	*p++ = ',';
	p = put_num(p, n->id);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		p = format_field(n, &fields[i], p);
	return buf;
}

static bool take_flags(const char **p, unsigned int *ret)
{
	for (const char *letter; **p && **p != ','; (*p)++) {
		letter = strchr(flag_letters, **p);
		if (!letter)
			return false;
		*ret |= 1u << (letter - flag_letters);
	}
	return true;
}

static bool take_text(const char **p, const struct field *f, char *dst)
{
	size_t size = f->size;
	size_t len = strcspn(*p, ",");

	if (!len || len >= size)
		return false;
	(void)memcpy(dst, *p, len);
	dst[len] = '\0';
	*p += len;
	return f->letter == 'c' ? ident_is_name(dst) : ident_is_task_name(dst);
}

static bool take_field(const char **p, const struct field *f, struct task_name *n)
{
	char *at = (char *)n + f->offset;
	uint64_t num;

	if (f->size)
		return take_text(p, f, at);
	if (f->letter == 'f')
		return take_flags(p, &n->flags);
	if (f->letter == 'g' && str_has_prefix(*p, ALL_TEXT)) {
		*p += strlen(ALL_TEXT);
		n->gpus = SPEC_ALL;
		return true;
	}
	if (!ident_take_num(p, NAME_ID_MAX, &num))
		return false;
	if (f->letter == 'z')
		n->exit = (unsigned int)num;
	else
		*(uint64_t *)(void *)at = num;
	return true;
}

static bool parse_element(const char *p, struct task_name *ret)
{
	struct task_name n = { .id = 0 };

	if (!ident_take_num(&p, NAME_ID_MAX, &n.id) || *p++ != '.' ||
	    !ident_take_num(&p, SPEC_ELEMENTS_MAX, &n.element) || *p++ != ',' || *p++ != 'e' ||
	    !ident_take_num(&p, NAME_EPOCH_MAX, &n.epoch) || *p || !n.id || !n.element)
		return false;
	*ret = n;
	return true;
}

/* Also of what is written, then: nothing that has ended is claimed. */
static bool within_bounds(const struct task_name *n)
{
	return !(n->agent[0] && n->ended_s) && n->id && n->name[0] &&
	       n->count <= SPEC_ELEMENTS_MAX && n->epoch <= NAME_EPOCH_MAX &&
	       n->edits <= NAME_EPOCH_MAX && (n->gpus <= SPEC_GPUS_MAX || n->gpus == SPEC_ALL) &&
	       n->exit <= NAME_EXIT_MAX;
}

bool name_parse(const char *file, struct task_name *ret)
{
	struct task_name n = { .gpus = 1 };
	char again[NAME_FILE_MAX];
	const char *p = file;

	if (strnlen(file, NAME_FILE_MAX) == NAME_FILE_MAX)
		return false;
	if (file[strspn(file, "0123456789")] == '.')
		return parse_element(file, ret) && strcmp(name_format(ret, again), file) == 0;
	if (!ident_take_num(&p, SPEC_PRIORITY_MAX, &n.priority) || *p++ != ',' ||
	    !ident_take_num(&p, NAME_ID_MAX, &n.id))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(fields) && *p == ','; i++) {
		if (p[1] != fields[i].letter)
			continue;
		p += 2;
		if (!take_field(&p, &fields[i], &n))
			return false;
	}
	if (*p || !within_bounds(&n) || strcmp(name_format(&n, again), file) != 0)
		return false;
	*ret = n;
	return true;
}

int name_compare(const struct task_name *a, const struct task_name *b)
{
	if (a->priority != b->priority)
		return a->priority < b->priority ? -1 : 1;
	if (a->id != b->id)
		return a->id < b->id ? -1 : 1;
	return a->element < b->element ? -1 : a->element > b->element;
}

bool name_same(const struct task_name *a, const struct task_name *b)
{
	return memcmp(a, b, NAME_NUMBERS) == 0 && strcmp(a->lane, b->lane) == 0 &&
	       strcmp(a->name, b->name) == 0 && strcmp(a->agent, b->agent) == 0;
}
