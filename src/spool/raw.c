/* SPDX-License-Identifier: MIT */

/*
 * An import must neither lose a file nor make two tasks of it, wherever it is interrupted. The id
 * is taken first and becomes part of the name under which the file waits in tmp/; whoever goes on
 * submits it with that same id, unless a task of that id is there.
 */

#include "spool/raw.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/str.h"
#include "spool/submit.h"
#include "spool/task_text.h"

#define RAW_NAME     "raw,"
#define RAW_PREFIX   "tmp/" RAW_NAME
#define JSON_END     ".json"
#define DEFAULTS_MAX 65536

/* "001_train.sh": 1, and *rest is "train.sh"; 500 and all of it without a number. */
static uint64_t leading_number(const char *file, const char **rest)
{
	size_t digits = strspn(file, "0123456789");
	const char *tail = file + digits + strspn(file + digits, "_-. ");
	char text[8];
	uint64_t v;

	*rest = file;
	if (!digits || digits >= sizeof(text))
		return SPEC_PRIORITY;
	(void)str_copy(text, digits + 1, file);
	if (str_to_u64(text, &v) < 0 || v > SPEC_PRIORITY_MAX)
		return SPEC_PRIORITY;
	/* "42.sh" is called that way; "42_train.sh" is train.sh at 42. */
	if ((isalnum((unsigned char)*tail) || (unsigned char)*tail >= 0x80) && file[digits] != '.')
		*rest = tail;
	return v;
}

static bool is_script(const char *file)
{
	return !str_has_suffix(file, JSON_END);
}

static int parse_script(const char *file, const char *text, size_t len, struct task_spec **ret,
			struct err *e)
{
	char name[SPEC_NAME_MAX + 1];
	const char *rest;

	if (!len)
		return err_set(e, -EINVAL, "the file is empty");
	if (memchr(text, '\0', len))
		return err_set(e, -EINVAL, "the file is no script: it has a NUL byte in it");

	struct task_spec *s = spec_new();

	s->priority = leading_number(file, &rest);
	s->raw = true;
	ident_make_task_name(rest, name);
	s->name = xstrdup(name);

	int r = spec_set_text(s, "script", text, e);

	if (r == 0)
		r = spec_check(s, e);
	if (r == 0)
		*ret = take_ptr(s);
	(void)spec_free(s);
	return r;
}

static int parse_json(const char *file, const char *text, size_t len, struct task_spec **ret,
		      struct err *e)
{
	size_t used, stem = strlen(file) - strlen(JSON_END);
	char name[SPEC_NAME_MAX + 1];
	int r = spec_read(text, len, ret, &used, e);

	if (r < 0)
		return r;
	if ((*ret)->unnamed) {
		cleanup_free char *called = xasprintf("%.*s", (int)stem, file);

		free((*ret)->name);
		ident_make_task_name(called, name);
		(*ret)->name = xstrdup(name);
	}
	if (text[used + strspn(text + used, " \t\r\n")]) {
		*ret = spec_free(*ret);
		return err_set(e, -EINVAL, "there is more behind the task's JSON object");
	}
	(*ret)->raw = true;
	return 0;
}

int raw_parse(const char *file, const char *text, size_t len, struct task_spec **ret, struct err *e)
{
	return (is_script(file) ? parse_script : parse_json)(file, text, len, ret, e);
}

/* Errors of the file itself. Whatever else goes wrong may go well the next time. */
static bool is_its_fault(int r)
{
	return r == -EINVAL || r == -ERANGE || r == -EILSEQ || r == -EDOM || r == -EFBIG ||
	       spool_is_bad(r);
}

/* What instance.json says of scripts, which say nothing: {"defaults":{"gpus":"all",..},..}. */
static int add_defaults(const struct spool *sp, struct task_spec *s, struct err *e)
{
	cleanup_free char *text = NULL;
	const char *key;
	json_t *doc, *value;
	size_t len;
	int r = spool_read(sp, "instance.json", DEFAULTS_MAX, &text, &len, e);

	if (r < 0)
		return r == -ENOENT && spool_is_gone(sp, "instance.json") ? 0 : r;
	doc = json_loadb(text, len, 0, NULL);
	json_object_foreach(json_object_get(doc, "defaults"), key, value) if (r == 0) r =
		spec_set_json(s, key, value, e);
	json_decref(doc);
	r = r == 0 ? spec_check(s, e) : r;
	return r < 0 ? err_wrap(e, "defaults in instance.json") : 0;
}

static int read_spec(const struct spool *sp, const char *tmp, const char *file,
		     struct task_spec **ret, struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len = 0;
	int r = spool_read(sp, tmp, SPEC_FILE_MAX, &text, &len, e);

	/* We have moved it, so it is the file that keeps us out, and will the next time. */
	if (r == -EACCES)
		return -EPERM;
	if (r == 0)
		r = raw_parse(file, text, len, ret, e);
	if (r == 0 && is_script(file))
		r = add_defaults(sp, *ret, e);
	return r == 0 ? spec_check_new(*ret, e) : r;
}

/* The file is ours, in tmp/. */
static int finish(const struct spool *sp, const char *tmp, const char *file, uint64_t id,
		  struct err *e)
{
	struct task_spec *spec = NULL;
	struct err why = ERR_INIT;
	int r = read_spec(sp, tmp, file, &spec, &why);
	bool bad = is_its_fault(r);

	if (r == 0)
		r = submit_task_as(sp, spec, id, &why);
	(void)spec_free(spec);
	if (e)
		*e = why;
	if (r >= 0)
		return spool_unlink(sp, tmp, e);
	if (!bad)
		return r;
	r = spool_refuse(sp, tmp, why.text, e);
	if (r == 0 && e)
		*e = why;
	return r == 0 ? RAW_REFUSED : r;
}

int raw_import(const struct spool *sp, const char *file, const char *agent, uint64_t *ret_id,
	       struct err *e)
{
	char from[SPOOL_PATH_MAX], tmp[SPOOL_PATH_MAX];
	uint64_t id;
	int r = submit_new_id(sp, &id, e);

	if (r < 0)
		return r;
	(void)spool_path(SPOOL_PENDING, file, from);
	/* The name is cut where it is too long; the JSON suffix is at its end. */
	(void)str_print(tmp, sizeof(tmp), RAW_PREFIX "%" PRIu64 ",%s,%s", id, agent,
			file + (strlen(file) > 180 ? strlen(file) - 180 : 0));
	r = spool_rename(sp, from, tmp, e);
	if (r == -ENOENT && spool_is_gone(sp, from))
		return RAW_GONE;
	if (r == 0)
		r = finish(sp, tmp, file, id, e);
	if (r == 0)
		*ret_id = id;
	return r < 0 || r == RAW_REFUSED ? err_wrap(e, "%s", file), r : r;
}

static int is_id(void *data, const struct task_name *n, const char *dir)
{
	return n->id == *(const uint64_t *)data;
}

/* Whether a task of that id is in the queue or has ended: 1 or 0. -errno: it cannot be told,
 * and to take the file for new would run it a second time. */
static int is_known(const struct spool *sp, const struct scan *s, uint64_t id, struct err *e)
{
	return scan_find(s, id, 0) ? 1 : scan_ended(sp, is_id, &id, e);
}

/* "raw,ID,AGENT,FILE" */
const char *raw_tmp_parse(const char *tmp_file, char ret_agent[NAME_AGENT_MAX + 1],
			  uint64_t *ret_id)
{
	int used = 0;

	_Static_assert(NAME_AGENT_MAX == 40, "as many are read");
	if (sscanf(tmp_file, RAW_NAME "%" SCNu64 ",%40[^,],%n", ret_id, ret_agent, &used) != 2 ||
	    !used || !*ret_id || *ret_id > NAME_ID_MAX)
		return NULL;
	return tmp_file + used;
}

/* The agent that took the file is not there any more. Of several agents that see that, one
 * gets the file. */
static int take_over(const struct spool *sp, const char *from, const char *file, uint64_t id,
		     const char *owner, const char *agent, char *ret_tmp, struct err *e)
{
	int r;

	if (spool_lists(sp, SPOOL_AGENTS, owner, NULL) != 0)
		return RAW_GONE;
	(void)str_print(ret_tmp, SPOOL_PATH_MAX, RAW_PREFIX "%" PRIu64 ",%s,%s", id, agent, file);
	r = spool_rename(sp, from, ret_tmp, e);
	return r == -ENOENT ? RAW_GONE : r;
}

int raw_resume(const struct spool *sp, const char *tmp_file, const char *agent,
	       const struct scan *s, uint64_t *ret_id, struct err *e)
{
	char tmp[SPOOL_PATH_MAX], from[SPOOL_PATH_MAX], owner[NAME_AGENT_MAX + 1];
	uint64_t id;
	const char *file = raw_tmp_parse(tmp_file, owner, &id);
	int r = 0;

	*ret_id = 0;
	if (!file)
		return 0;
	(void)str_copy(tmp, sizeof(tmp), spool_path(SPOOL_TMP, tmp_file, from));
	if (strcmp(owner, agent) != 0)
		r = take_over(sp, from, file, id, owner, agent, tmp, e);
	if (r == RAW_GONE)
		return 0;
	*ret_id = id;
	if (r < 0)
		return r;
	r = is_known(sp, s, id, e);
	if (r < 0)
		return r;
	return r ? spool_unlink(sp, tmp, e) : finish(sp, tmp, file, id, e);
}

struct resuming {
	const struct spool *sp;
	const char *agent;
	const struct scan *scan;
	raw_told_fn fn;
	void *data;
	bool left;
};

static int resume_one(void *data, const char *tmp_file, unsigned char type)
{
	struct resuming *a = data;
	char owner[NAME_AGENT_MAX + 1];
	struct err e = ERR_INIT;
	uint64_t id, same;
	int r = raw_resume(a->sp, tmp_file, a->agent, a->scan, &id, &e);

	if (id)
		a->fn(a->data, raw_tmp_parse(tmp_file, owner, &same), r, id, &e);
	a->left |= r < 0;
	return 0;
}

int raw_resume_all(const struct spool *sp, const char *agent, const struct scan *s, raw_told_fn fn,
		   void *data, struct err *e)
{
	struct resuming a = { sp, agent, s, fn, data, false };
	int r = spool_each(sp, spool_dir_name(SPOOL_TMP), resume_one, &a, e);

	return r < 0 ? r : a.left;
}
