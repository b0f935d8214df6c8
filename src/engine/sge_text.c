/* SPDX-License-Identifier: MIT */
/*
 * What Grid Engine's commands print, read without a parser of XML: see the header.
 *
 * Names of resources come in two forms, the name and a shortcut: `-l gpu=2` is answered as
 * "gpu_card". Names of hosts come with and without their domain.
 */
#include "engine/sge_text.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/utf8.h"

/* -------- pieces of a text -------- */

struct piece {
	const char *p, *end;
};

static struct piece whole(const char *text)
{
	return (struct piece){ .p = text, .end = text + strlen(text) };
}

static const char *find_in(struct piece in, const char *text)
{
	return memmem(in.p, (size_t)(in.end - in.p), text, strlen(text));
}

static struct piece trimmed(struct piece t)
{
	while (t.p < t.end && isspace((unsigned char)*t.p))
		t.p++;
	while (t.end > t.p && isspace((unsigned char)t.end[-1]))
		t.end--;
	return t;
}

static bool piece_is(struct piece t, const char *text)
{
	return (size_t)(t.end - t.p) == strlen(text) && memcmp(t.p, text, strlen(text)) == 0;
}

/* Appends what is shown to people: behind "; " where there is something already. */
static void add_shown(struct strbuf *b, struct piece t)
{
	cleanup_free char *text = xasprintf("%.*s", (int)(t.end - t.p), t.p);

	if (b->len)
		strbuf_adds(b, "; ");
	strbuf_adds(b, utf8_clean(text));
}

/* The next line, without its end; false behind the last. */
static bool next_line(struct piece *rest, struct piece *ret)
{
	const char *nl;

	if (rest->p >= rest->end)
		return false;
	nl = memchr(rest->p, '\n', (size_t)(rest->end - rest->p));
	*ret = (struct piece){ .p = rest->p, .end = nl ? nl : rest->end };
	rest->p = nl ? nl + 1 : rest->end;
	return true;
}

/* A line "NAME   VALUE" or "NAME: VALUE", of that name: its value. */
static bool line_value(struct piece line, const char *name, struct piece *ret)
{
	size_t n = strlen(name);

	if ((size_t)(line.end - line.p) <= n || memcmp(line.p, name, n) != 0)
		return false;
	line.p += n;
	if (*line.p != ':' && !isspace((unsigned char)*line.p))
		return false;
	line.p += *line.p == ':';
	*ret = trimmed(line);
	return true;
}

/* -------- elements -------- */

struct element {
	struct piece attributes, body;
};

/* The next element of that name in *rest, which goes on behind it. One without an end tag, and one
 * that is empty ("<x/>"), is passed over. */
static bool next_element(struct piece *rest, const char *name, struct element *ret)
{
	char tag[64];
	const char *begin, *close, *end;

	(void)str_print(tag, sizeof(tag), "<%s", name);
	while ((begin = find_in(*rest, tag))) {
		rest->p = begin + strlen(tag);
		if (rest->p < rest->end && *rest->p != '>' && !isspace((unsigned char)*rest->p))
			continue;
		close = memchr(rest->p, '>', (size_t)(rest->end - rest->p));
		if (!close)
			return false;
		ret->attributes = (struct piece){ .p = rest->p, .end = close };
		rest->p = close + 1;
		if (close[-1] == '/')
			continue;
		(void)str_print(tag, sizeof(tag), "</%s>", name);
		end = find_in(*rest, tag);
		if (!end)
			return false;
		ret->body = (struct piece){ .p = rest->p, .end = end };
		rest->p = end + strlen(tag);
		return true;
	}
	return false;
}

static void add_decoded(struct strbuf *b, struct piece t)
{
	static const struct {
		const char *entity;
		char c;
	} entities[] = { { "&lt;", '<' },
			 { "&gt;", '>' },
			 { "&amp;", '&' },
			 { "&quot;", '"' },
			 { "&apos;", '\'' } };

	while (t.p < t.end) {
		char c = *t.p;
		size_t used = 1;

		for (size_t i = 0; c == '&' && i < ARRAY_LEN(entities); i++) {
			size_t n = strlen(entities[i].entity);

			if ((size_t)(t.end - t.p) >= n && memcmp(t.p, entities[i].entity, n) == 0) {
				strbuf_addc(b, entities[i].c);
				used = n;
				break;
			}
		}
		if (used == 1)
			strbuf_addc(b, c);
		t.p += used;
	}
}

static char *decoded(struct piece t)
{
	struct strbuf b = STRBUF_INIT;

	add_decoded(&b, trimmed(t));
	return utf8_clean(strbuf_take(&b));
}

/* The text of the first element of that name within a piece; NULL. The caller frees it. */
static char *element_text(struct piece in, const char *name)
{
	struct element el;

	return next_element(&in, name, &el) ? decoded(el.body) : NULL;
}

/* ` name="gpu_card"`, in either kind of quotes. */
static bool has_attribute(const struct element *el, const char *name, const char *value)
{
	struct piece rest = el->attributes;
	size_t n = strlen(name);
	const char *at;

	while ((at = find_in(rest, name))) {
		struct piece text = { .p = at + n + 2, .end = rest.end };
		const char *end;

		rest.p = at + n;
		if (text.p > text.end || at[n] != '=' || (at[n + 1] != '"' && at[n + 1] != '\''))
			continue;
		end = memchr(text.p, at[n + 1], (size_t)(text.end - text.p));
		text.end = end ? end : text.end;
		return piece_is(text, value);
	}
	return false;
}

static char *attribute_of(const struct element *el, const char *name)
{
	struct piece rest = el->attributes;
	cleanup_free char *key = xasprintf("%s=", name);
	const char *at = find_in(rest, key), *end;

	if (!at || at + strlen(key) + 1 >= rest.end)
		return NULL;
	at += strlen(key);
	end = memchr(at + 1, *at, (size_t)(rest.end - at - 1));
	return decoded((struct piece){ .p = at + 1, .end = end ? end : rest.end });
}

/* qstat's document, to its end. */
static int check_document(const char *xml, struct err *e)
{
	static const char end[] = "</job_info>";
	struct piece t = trimmed(whole(xml));
	struct piece line;

	if (find_in(t, "<job_info") && (size_t)(t.end - t.p) > strlen(end) &&
	    memcmp(t.end - strlen(end), end, strlen(end)) == 0)
		return 0;
	if (find_in(t, "<job_info"))
		return err_set(e, -EINVAL, "qstat: its answer breaks off in the middle");
	if (!next_line(&t, &line))
		return err_set(e, -EINVAL, "qstat: it has answered nothing");
	return err_set(e, -EINVAL, "qstat: no list of jobs, but \"%.*s\"", (int)(line.end - line.p),
		       line.p);
}

/* -------- figures -------- */

uint64_t sge_seconds(const char *text)
{
	uint64_t total = 0;

	for (;;) {
		char *end;
		unsigned long n = strtoul(text, &end, 10);

		if (!isdigit((unsigned char)*text) || n > UINT32_MAX)
			return 0;
		total = total * 60 + n;
		if (*end != ':')
			return total;
		text = end + 1;
	}
}

uint64_t sge_time(const char *text)
{
	static const char *const forms[] = { "%Y-%m-%dT%H:%M:%S", "%m/%d/%Y %H:%M:%S" };

	for (size_t i = 0; i < ARRAY_LEN(forms); i++) {
		struct tm tm = { .tm_isdst = -1 };
		time_t t;

		if (!strptime(text, forms[i], &tm))
			continue;
		tm.tm_isdst = -1;
		t = mktime(&tm);
		return t > 0 ? (uint64_t)t * NS_PER_S : 0;
	}
	return 0;
}

/* "2.000000", "4(0 1 2 3)": what is behind the point does not count. */
static unsigned int count_of(const char *text)
{
	unsigned long n = strtoul(text, NULL, 10);

	return isdigit((unsigned char)*text) && n < 1000000 ? (unsigned int)n : 0;
}

/* -------- qsub, qdel -------- */

/* "7" or "5.1-3:1", up to white space or the end: how many bytes its number has; 0: it is none. */
static size_t terse_id(struct piece t)
{
	size_t n = 0, len = (size_t)(t.end - t.p);

	while (n < len && isdigit((unsigned char)t.p[n]))
		n++;
	for (size_t i = n; i < len; i++)
		if (!isdigit((unsigned char)t.p[i]) && !strchr(".-:", t.p[i]))
			return 0;
	return n < 12 ? n : 0;
}

int sge_submitted_id(const char *text, char **ret_id)
{
	struct piece rest = whole(text), line;
	size_t n;

	while (next_line(&rest, &line)) {
		const char *at = find_in(line, "Your job");

		line = trimmed(line);
		if (at && find_in(line, "has been submitted")) {
			while (at < line.end && !isdigit((unsigned char)*at))
				at++;
			n = strspn(at, "0123456789");
		} else {
			at = line.p;
			n = terse_id(line);
		}
		if (n) {
			*ret_id = xasprintf("%.*s", (int)n, at);
			return 0;
		}
	}
	return -ENOENT;
}

#define STATUS_TRY_AGAIN 25 /* qsub's, where a limit of the cluster's or the user's is reached */

enum sge_refusal sge_refusal_of(int status, const char *text)
{
	static const struct {
		const char *said;
		enum sge_refusal means;
	} rows[] = {
		{ "has been submitted", SGE_UNSURE },
		{ "SGE_ROOT", SGE_NO_CLUSTER },
		{ "cell directory", SGE_NO_CLUSTER },
		{ "unable to read qmaster name", SGE_NO_CLUSTER },
		{ "failed receiving gdi request", SGE_UNSURE },
		{ "got no response", SGE_UNSURE },
		{ "timeout", SGE_UNSURE },
		{ "timed out", SGE_UNSURE },
		{ "unable to send message to qmaster", SGE_NO_CONTACT },
		{ "unable to contact qmaster", SGE_NO_CONTACT },
		{ "can't connect to service", SGE_NO_CONTACT },
		{ "commlib error", SGE_NO_CONTACT },
		{ "communication error", SGE_UNSURE },
		{ "jobs are allowed per", SGE_BUSY },
		{ "try again later", SGE_BUSY },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strcasestr(text, rows[i].said))
			return rows[i].means;
	return status == STATUS_TRY_AGAIN ? SGE_BUSY : SGE_REFUSED;
}

bool sge_contact_line(const char *text, struct strbuf *ret)
{
	struct piece rest = whole(text), line;

	while (next_line(&rest, &line)) {
		line = trimmed(line);
		if (!find_in(line, "to qmaster") && !find_in(line, "contact qmaster"))
			continue;
		add_shown(ret, line);
		return true;
	}
	return false;
}

bool sge_cancel_is_fine(const char *line)
{
	static const char *const fine[] = { "has registered the", "has deleted job",
					    "does not exist", "is already in deletion",
					    "do not exist" };

	for (size_t i = 0; i < ARRAY_LEN(fine); i++)
		if (strstr(line, fine[i]))
			return true;
	return false;
}

void sge_verification(const char *text, struct strbuf *words)
{
	struct piece rest = whole(text), line;

	while (next_line(&rest, &line)) {
		line = trimmed(line);
		if (line.p == line.end || piece_is(line, "Exiting."))
			continue;
		add_shown(words, line);
	}
}

/* -------- jobs -------- */

enum engine_job_state sge_job_state(const char *letters)
{
	/* The first row one of whose letters is there decides. */
	static const struct {
		const char *any;
		enum engine_job_state state;
	} rows[] = {
		{ "d", ENGINE_JOB_ENDING },   { "E", ENGINE_JOB_HELD },
		{ "z", ENGINE_JOB_DONE },     { "sSTNP", ENGINE_JOB_SUSPENDED },
		{ "t", ENGINE_JOB_STARTING }, { "r", ENGINE_JOB_RUNNING },
		{ "h", ENGINE_JOB_HELD },     { "wq", ENGINE_JOB_WAITING },
	};

	if (!*letters || letters[strspn(letters, "dEzsSTNPtrhwqRn")])
		return ENGINE_JOB_UNKNOWN;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strpbrk(letters, rows[i].any))
			return rows[i].state;
	return ENGINE_JOB_UNKNOWN;
}

/* What a job asked of a resource; NULL. The caller frees it. */
static char *hard_request(struct piece job, const char *name)
{
	struct element el;

	while (next_element(&job, "hard_request", &el))
		if (has_attribute(&el, "name", name))
			return decoded(el.body);
	return NULL;
}

/* "1-10:3", "2,5-6" of an array's tasks that wait: how many; else 1. */
static unsigned int count_tasks(const char *text)
{
	unsigned int n = 0;

	while (text && isdigit((unsigned char)*text)) {
		char *end;
		unsigned long first = strtoul(text, &end, 10), last = first, step = 1;

		if (*end == '-')
			last = strtoul(end + 1, &end, 10);
		if (*end == ':')
			step = strtoul(end + 1, &end, 10);
		if (last >= first && last - first < 1000000 && step)
			n += (unsigned int)((last - first) / step) + 1;
		text = *end == ',' ? end + 1 : end;
	}
	return n ? n : 1;
}

/* What it asked of that resource; NULL: nobody wants to know. */
static void read_gpus(struct piece t, const char *complex_name, bool per_slot, const char *tasks,
		      struct engine_job *job)
{
	cleanup_free char *wanted = complex_name ? hard_request(t, complex_name) : NULL;
	cleanup_free char *slots = element_text(t, "slots");

	job->gpus_known = complex_name;
	if (wanted)
		job->gpus = count_of(wanted) * count_tasks(tasks) *
			    (per_slot && slots ? count_of(slots) : 1);
}

static void add_job(struct engine_jobs *jobs, struct piece t, char *id, char *name)
{
	cleanup_free char *letters = element_text(t, "state");
	cleanup_free char *queue = element_text(t, "queue_name");
	cleanup_free char *start = element_text(t, "JAT_start_time");
	cleanup_free char *h_rt = hard_request(t, "h_rt");
	const char *at = queue ? strchr(queue, '@') : NULL;
	struct engine_job *job = engine_jobs_add(jobs);
	uint64_t limit_s = h_rt ? sge_seconds(h_rt) : 0;

	job->id = id;
	job->name = name;
	job->state = sge_job_state(letters ? letters : "");
	job->node = at && at[1] ? xstrdup(at + 1) : NULL;
	job->start_ns = start ? sge_time(start) : 0;
	if (job->start_ns && limit_s)
		job->end_ns = job->start_ns + limit_s * NS_PER_S;
}

int sge_parse_jobs(const char *xml, const char *prefix, const char *complex_name, bool per_slot,
		   struct engine_jobs *ret, struct err *e)
{
	struct piece rest = whole(xml);
	struct element el;
	int r = check_document(xml, e);

	if (r < 0)
		return r;
	while (next_element(&rest, "job_list", &el)) {
		cleanup_free char *id = element_text(el.body, "JB_job_number");
		cleanup_free char *name = element_text(el.body, "full_job_name");

		if (!name)
			name = element_text(el.body, "JB_name");
		if (!id || !*id || !name || !engine_name_begins(name, prefix))
			continue;

		cleanup_free char *tasks = element_text(el.body, "tasks");

		add_job(ret, el.body,
			tasks && *tasks ? xasprintf("%s.%s", id, tasks) : take_ptr(id),
			take_ptr(name));
		read_gpus(el.body, complex_name, per_slot, tasks, &ret->all[ret->n - 1]);
	}
	return 0;
}

int sge_find_run(const char *xml, const char *id, struct sge_run *ret, struct err *e)
{
	struct piece rest = whole(xml);
	struct element el;
	int r = check_document(xml, e);

	if (r < 0)
		return r;
	while (next_element(&rest, "job_list", &el)) {
		cleanup_free char *number = element_text(el.body, "JB_job_number");
		cleanup_free char *start = element_text(el.body, "JAT_start_time");
		cleanup_free char *h_rt = hard_request(el.body, "h_rt");

		/* One of an array is "7.3" for us, and the whole of them has one limit. */
		if (!number || !start || strcspn(id, ".") != strlen(number) ||
		    !str_has_prefix(id, number))
			continue;
		*ret = (struct sge_run){ .queue = element_text(el.body, "queue_name"),
					 .start_ns = sge_time(start),
					 .limit_s = h_rt ? sge_seconds(h_rt) : 0 };
		if (!ret->queue)
			ret->queue = xstrdup("");
		return 0;
	}
	return err_set(e, -ENOENT, "qstat does not list the job %s as one that runs", id);
}

static struct engine_job *find_job(struct engine_jobs *jobs, struct piece id)
{
	for (size_t i = 0; i < jobs->n; i++)
		if (piece_is(id, jobs->all[i].id))
			return &jobs->all[i];
	return NULL;
}

/* "error reason    1:          11/24/2026 13:02:07 [0:123]: error: can't open .." */
static bool error_reason(struct piece line, struct piece *ret)
{
	const char *colon;

	if (!line_value(line, "error reason", &line))
		return false;
	while (line.p < line.end && (isdigit((unsigned char)*line.p) || *line.p == ':'))
		line.p++;
	*ret = trimmed(line);
	/* Behind the time, and two numbers of its own. */
	colon = find_in(*ret, "]: ");
	if (colon)
		ret->p = colon + strlen("]: ");
	return true;
}

/* Line by line: whether it is one of "scheduling info", and what that says. */
static bool scheduling_line(struct piece line, bool *in, struct piece *ret)
{
	if (line_value(line, "scheduling info", ret))
		*in = true;
	else if (*in && line.p < line.end && isspace((unsigned char)*line.p))
		*ret = trimmed(line);
	else
		*in = false;
	/* Many sites have it turned off, which says nothing of the job. */
	return *in && ret->p < ret->end && !find_in(*ret, "turned off") &&
	       !find_in(*ret, "no messages available");
}

/* Of what may be a line for each of a thousand queues: the first one that says what the job cannot
 * have, or else the first. */
static void offer_reason(struct engine_job *job, struct piece value)
{
	static const char telling[] = "cannot run";

	if (job->reason && (!find_in(value, telling) || strstr(job->reason, telling)))
		return;
	free(job->reason);
	job->reason = utf8_clean(xasprintf("%.*s", (int)(value.end - value.p), value.p));
}

void sge_add_reasons(const char *text, struct engine_jobs *jobs)
{
	struct piece rest = whole(text), line, value;
	struct engine_job *job = NULL;
	bool in = false, failed = false;

	while (next_line(&rest, &line)) {
		if (line_value(line, "job_number", &value)) {
			job = find_job(jobs, value);
			in = failed = false;
		} else if (!job) {
			continue;
		} else if (!failed && error_reason(line, &value)) {
			offer_reason(job, value);
			failed = true;
		} else if (scheduling_line(line, &in, &value) && !failed) {
			offer_reason(job, value);
		}
	}
}

void sge_scheduling_info(const char *text, struct strbuf *words)
{
	struct piece rest = whole(text), line, value;
	bool in = false;

	while (next_line(&rest, &line))
		if (scheduling_line(line, &in, &value))
			add_shown(words, value);
}

/* -------- nodes -------- */

/* The resource of that name in a queue of a host. */
static bool find_resource(struct piece queue, const char *name, struct element *ret)
{
	while (next_element(&queue, "resource", ret))
		if (has_attribute(ret, "name", name))
			return true;
	return false;
}

/* What the resource is really called: as it was asked for, or the first one that is no other. */
static char *full_name(const char *xml, const char *asked, const char *but)
{
	struct piece rest = whole(xml);
	struct element el;

	if (find_resource(rest, asked, &el))
		return xstrdup(asked);
	while (next_element(&rest, "resource", &el))
		if (!but || !has_attribute(&el, "name", but))
			return attribute_of(&el, "name");
	return NULL;
}

/* What its running jobs have of the resource. */
static unsigned int asked_by_jobs(struct piece queue, const char *name, bool per_slot)
{
	unsigned int sum = 0;
	struct element el;

	while (next_element(&queue, "job_list", &el)) {
		cleanup_free char *wanted = hard_request(el.body, name);
		cleanup_free char *slots = element_text(el.body, "slots");

		if (wanted)
			sum += count_of(wanted) * (per_slot && slots ? count_of(slots) : 1);
	}
	return sum;
}

/* Why nothing starts in a queue, by the letters of its state; NULL: it may. */
static const char *why_closed(const char *letters)
{
	static const struct {
		char letter;
		const char *why;
	} rows[] = {
		{ 'u', "unreachable" }, { 'E', "in error" },   { 'd', "disabled" },
		{ 'D', "disabled" },	{ 'o', "orphaned" },   { 'c', "configured twice over" },
		{ 's', "suspended" },	{ 'S', "suspended" },  { 'C', "suspended by calendar" },
		{ 'a', "overloaded" },	{ 'A', "overloaded" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		if (strchr(letters, rows[i].letter))
			return rows[i].why;
	return NULL;
}

/* Names up to their first dots. */
static bool same_host(const char *a, const char *b)
{
	size_t n = strcspn(a, ".");

	return n == strcspn(b, ".") && strncmp(a, b, n) == 0;
}

bool sge_host_matches(const char *pattern, const char *host)
{
	cleanup_free char *first = xasprintf("%.*s", (int)strcspn(host, "."), host);

	return fnmatch(pattern, host, 0) == 0 || fnmatch(pattern, first, 0) == 0;
}

bool sge_lists_host(const char *list, const char *host)
{
	while (*list) {
		size_t n;

		list += strspn(list, " \t\n");
		n = strcspn(list, " \t\n");

		cleanup_free char *name = xasprintf("%.*s", (int)n, list);

		if (n && same_host(name, host))
			return true;
		list += n;
	}
	return false;
}

static struct engine_node *node_of(struct engine_nodes *nodes, const char *host, bool *ret_new)
{
	for (size_t i = 0; i < nodes->n; i++)
		if (same_host(nodes->all[i].name, host)) {
			*ret_new = false;
			return &nodes->all[i];
		}

	struct engine_node *node = engine_nodes_add(nodes);

	node->name = xstrdup(host);
	*ret_new = true;
	return node;
}

struct queue_view {
	const char *complex_name, *type_complex;
	bool per_slot;
};

/* A queue of a host. A resource of the host ("hc", "hl") is the same figure in all of its queues;
 * one of the queue ("qc") adds up. `blocked` is 1 meanwhile where a queue has room for a job. */
static void add_queue(struct engine_nodes *nodes, struct piece t, const struct queue_view *view)
{
	cleanup_free char *name = element_text(t, "name");
	cleanup_free char *letters = element_text(t, "state");
	cleanup_free char *used = element_text(t, "slots_used");
	cleanup_free char *total = element_text(t, "slots_total");
	const char *host = name ? strchr(name, '@') : NULL;
	const char *why = letters ? why_closed(letters) : NULL;
	struct engine_node *node;
	struct element el;
	bool is_new;

	if (!host || !find_resource(t, view->complex_name, &el))
		return;

	cleanup_free char *value = decoded(el.body), *kind = attribute_of(&el, "type");

	node = node_of(nodes, host + 1, &is_new);
	node->used += asked_by_jobs(t, view->complex_name, view->per_slot);
	if (is_new)
		node->free = count_of(value);
	else if (kind && kind[0] == 'q')
		node->free += count_of(value);
	if (!why) {
		node->usable = true;
		if (!used || !total || count_of(used) < count_of(total))
			node->blocked = 1;
	} else if (!node->why) {
		node->why = xasprintf("%s (%s)", why, letters);
	}
	if (!node->type && view->type_complex && find_resource(t, view->type_complex, &el))
		node->type = decoded(el.body);
}

static void finish_node(struct engine_node *node)
{
	bool has_room = node->blocked;

	node->total = node->free + node->used;
	node->free = node->usable ? node->free : 0;
	node->blocked = node->usable && !has_room ? node->free : 0;
	if (node->usable)
		free(take_ptr(node->why));
}

static int by_name(const void *a, const void *b)
{
	const struct engine_node *x = a, *y = b;

	return strcmp(x->name, y->name);
}

int sge_parse_nodes(const char *xml, const char *complex_name, bool per_slot,
		    const char *type_complex, struct engine_nodes *ret, struct err *e)
{
	struct piece rest = whole(xml);
	struct element el;
	int r = check_document(xml, e);

	if (r < 0)
		return r;

	cleanup_free char *name = full_name(xml, complex_name, type_complex);
	const struct queue_view view = { name, type_complex, per_slot };

	while (name && next_element(&rest, "Queue-List", &el))
		add_queue(ret, el.body, &view);
	for (size_t i = 0; i < ret->n; i++)
		finish_node(&ret->all[i]);
	if (ret->n)
		qsort(ret->all, ret->n, sizeof(*ret->all), by_name);
	return 0;
}

/* The lines of `qconf -s..`, in which a backslash at the end goes on in the next one: the value. */
static bool conf_value(const char *text, const char *name, struct strbuf *ret)
{
	struct piece rest = whole(text), line, value;

	while (next_line(&rest, &line)) {
		if (!line_value(line, name, &value))
			continue;
		while (value.p < value.end && value.end[-1] == '\\') {
			strbuf_add(ret, value.p, (size_t)(value.end - value.p - 1));
			if (!next_line(&rest, &line))
				return true;
			value = trimmed(line);
		}
		strbuf_add(ret, value.p, (size_t)(value.end - value.p));
		return true;
	}
	return false;
}

int sge_parse_capacity(const char *text, const char *complex_name, unsigned int *ret)
{
	cleanup_strbuf struct strbuf values = STRBUF_INIT;
	const char *p;

	if (!conf_value(text, "complex_values", &values))
		return -ENOENT;
	for (p = strbuf_str(&values); *p; p += strcspn(p, ","), p += *p == ',') {
		while (isspace((unsigned char)*p))
			p++;

		size_t n = strcspn(p, "=,");

		if (p[n] == '=' && n == strlen(complex_name) && strncmp(p, complex_name, n) == 0) {
			*ret = count_of(p + n + 1);
			return 0;
		}
	}
	return -ENOENT;
}

void sge_set_capacity(struct engine_node *node, unsigned int total)
{
	if (total < node->free + node->used)
		return;
	node->used += total - node->total;
	node->total = total;
}

int sge_parse_complex(const char *text, const char *name, char **ret_name, bool *ret_per_slot)
{
	struct piece rest = whole(text), line;

	while (next_line(&rest, &line)) {
		cleanup_free char *row = xasprintf("%.*s", (int)(line.end - line.p), line.p);
		char *words[6] = { NULL }, *save = NULL;

		words[0] = strtok_r(row, " \t", &save);
		for (size_t i = 1; words[i - 1] && i < ARRAY_LEN(words); i++)
			words[i] = strtok_r(NULL, " \t", &save);
		if (!words[5] || words[0][0] == '#' ||
		    (strcmp(words[0], name) != 0 && strcmp(words[1], name) != 0))
			continue;
		*ret_per_slot = strcmp(words[5], "YES") == 0;
		*ret_name = xstrdup(words[0]);
		return 0;
	}
	return -ENOENT;
}

uint64_t sge_queue_limit(const char *text)
{
	cleanup_strbuf struct strbuf value = STRBUF_INIT;

	return conf_value(text, "h_rt", &value) ? sge_seconds(strbuf_str(&value)) : 0;
}
