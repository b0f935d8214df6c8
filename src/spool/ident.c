/* SPDX-License-Identifier: MIT */
#include "spool/ident.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

bool ident_take_num(const char **p, uint64_t max, uint64_t *ret)
{
	const char *s = *p;
	uint64_t v = 0;

	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++) {
		v = v * 10 + (uint64_t)(*s - '0');
		if (v > max)
			return false;
	}
	*p = s;
	*ret = v;
	return true;
}

int ident_parse_id(const char *text, uint64_t *ret_id, uint64_t *ret_element)
{
	uint64_t id, element = 0;

	if (!ident_take_num(&text, NAME_ID_MAX, &id) || !id)
		return -EINVAL;
	if (*text == '.') {
		text++;
		if (!ident_take_num(&text, SPEC_ELEMENTS_MAX, &element) || !element)
			return -EINVAL;
	}
	if (*text)
		return -EINVAL;
	*ret_id = id;
	*ret_element = element;
	return 0;
}

bool ident_is_name(const char *text)
{
	size_t len = strnlen(text, SPEC_NAME_MAX + 1);

	if (!len || len > SPEC_NAME_MAX || text[0] == '.' || text[0] == '-')
		return false;
	for (const char *p = text; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("._+-", *p))
			return false;
	return true;
}

void ident_make_name(const char *text, char ret[SPEC_NAME_MAX + 1])
{
	const char *slash = strrchr(text, '/');
	const char *base = slash && slash[1] ? slash + 1 : text;

	base += strspn(base, ".-/ \t");
	(void)str_copy(ret, SPEC_NAME_MAX + 1, base[0] ? base : "task");
	for (char *p = ret; *p; p++)
		if ((unsigned char)*p >= 0x80 ||
		    (!isalnum((unsigned char)*p) && !strchr("._+-", *p)))
			*p = '_';
}

bool ident_is_word(const char *name)
{
	uint64_t id, element;

	return ident_parse_id(name, &id, &element) == 0 || strcmp(name, "all") == 0 ||
	       strcmp(name, "last") == 0;
}

bool ident_is_task_name(const char *text)
{
	return utf8_is_name(text, SPEC_NAME_MAX);
}

void ident_make_task_name(const char *text, char ret[SPEC_NAME_MAX + 1])
{
	const char *slash = strrchr(text, '/');
	cleanup_free char *plain = NULL;

	utf8_make_name(slash && slash[1] ? slash + 1 : text, ret, SPEC_NAME_MAX);
	if (!ret[0])
		(void)str_copy(ret, SPEC_NAME_MAX + 1, "task");
	if (!ident_is_word(ret))
		return;
	plain = xstrdup(ret);
	(void)str_print(ret, SPEC_NAME_MAX + 1, "task_%s", plain);
}

static bool is_assignment(const char *word, size_t len)
{
	const char *eq = memchr(word, '=', len);

	return eq > word && !memchr(word, '/', (size_t)(eq - word)) && word[0] != '\'' &&
	       word[0] != '"';
}

void ident_make_command_name(const char *command, char ret[SPEC_NAME_MAX + 1])
{
	static const char blanks[] = " \t\n;&|()<>{}!";
	const char *p = command + strspn(command, blanks);
	size_t len = strcspn(p, blanks);

	while (len && is_assignment(p, len)) {
		p += len + strspn(p + len, blanks);
		len = strcspn(p, blanks);
	}
	p += strspn(p, "'\"");
	len = strcspn(p, " \t\n;&|()<>{}!'\"");

	cleanup_free char *word = xasprintf("%.*s", (int)len, p);

	ident_make_task_name(word, ret);
}
