/* SPDX-License-Identifier: MIT */

/*
 * A task file is folded from its first line to its last into what holds now. A table has a function
 * for each kind of event; what it does not know is passed over, so that a newer tenure may add
 * some. Records carry the epoch, so that a late one of a claim that was taken away changes nothing.
 */

#include "spool/record.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/enumstr.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "spool/instance.h"
#include "spool/own.h"
#include "spool/task_text.h"

#define ATTEMPTS_MAX 1000000000u

static const char *const result_names[] = {
	[RESULT_DONE] = "done",
	[RESULT_FAILED] = "failed",
	[RESULT_CANCELLED] = "cancelled",
};
_Static_assert(ARRAY_LEN(result_names) == RESULT_MAX, "every result has a name");

const char *result_name(enum task_result result)
{
	return enum_name(result_names, ARRAY_LEN(result_names), result);
}

int result_parse(const char *name, enum task_result *ret)
{
	for (unsigned int i = 0; name && i < RESULT_MAX; i++) {
		if (strcmp(name, result_names[i]) == 0) {
			*ret = (enum task_result)i;
			return 0;
		}
	}
	return -EINVAL;
}

double record_seconds(uint64_t ns)
{
	return (double)(ns / NS_PER_US) / 1e6;
}

uint64_t record_ns(const json_t *seconds)
{
	double v = json_number_value(seconds);

	return v > 0 && v < 9e9 ? (uint64_t)llround(v * 1e6) * NS_PER_US : 0;
}

/* 0: none, or no number of a process. */
static pid_t get_pid(const json_t *object)
{
	uint64_t v = json_get_u64(object, "pid");

	return v <= INT32_MAX ? (pid_t)v : 0;
}

/* ---- folding ---- */

static void on_claim(struct task_history *h, struct task_spec *spec, const json_t *o)
{
	h->claimed = true;
	h->again_ns = 0;
	h->started = false;
	h->stopped = false;
	h->ended = false;
	h->attempts = json_get_small(o, "attempt", ATTEMPTS_MAX);
	h->claimed_ns = record_ns(json_object_get(o, "time"));
	h->started_ns = 0;
	h->claimer.proc.pid = get_pid(o);
	h->claimer.proc.start = json_get_u64(o, "start");
	json_get_text(o, "agent", h->claimer.agent, sizeof(h->claimer.agent));
	if (!ident_is_name(h->claimer.agent)) /* it becomes part of paths */
		h->claimer.agent[0] = '\0';
	json_get_text(o, "host", h->claimer.host, sizeof(h->claimer.host));
	json_get_text(o, "boot", h->claimer.boot, sizeof(h->claimer.boot));
	h->claimer.tool = json_is_true(json_object_get(o, "tool"));
}

static void on_start(struct task_history *h, struct task_spec *spec, const json_t *o)
{
	const struct proc_id proc = { .pid = get_pid(o), .start = json_get_u64(o, "start") };
	bool again = h->started && h->claimer.proc.pid == proc.pid &&
		     h->claimer.proc.start == proc.start;

	/* Of the same process only its devices are others. */
	if (!again)
		h->started_ns = record_ns(json_object_get(o, "time"));
	h->started = true;
	h->claimer.proc = proc;
}

static void on_stop(struct task_history *h, struct task_spec *spec, const json_t *o)
{
	h->stopped = true;
	h->stopped_ns = record_ns(json_object_get(o, "time"));
}

static struct spool_use use_from_json(const json_t *o)
{
	return (struct spool_use){
		.gpus = json_get_small(o, "gpus", SPEC_GPUS_MAX),
		.gpu_ns = record_ns(json_object_get(o, "gpu_s")),
		.gpu_peak_bytes = json_get_u64(o, "gpu_peak_bytes"),
		.gpu_util_permille = json_get_small(o, "gpu_util_permille", 1000),
		.energy_mj = record_ns(json_object_get(o, "gpu_energy_j")) / NS_PER_MS,
		.energy_ns = record_ns(json_object_get(o, "gpu_energy_s")),
		.empty_ns = record_ns(json_object_get(o, "gpu_empty_s")),
		.seen_ns = record_ns(json_object_get(o, "gpu_seen_s"))
	};
}

bool end_from_json(const json_t *o, struct spool_end *ret)
{
	struct spool_end end = { .epoch = json_get_u64(o, "epoch"),
				 .exit = json_get_small(o, "exit", NAME_EXIT_MAX),
				 .attempt = json_get_small(o, "attempt", ATTEMPTS_MAX),
				 .begun_ns = record_ns(json_object_get(o, "begun")),
				 .ended_ns = record_ns(json_object_get(o, "time")),
				 .use = use_from_json(o) };

	if (result_parse(json_string_value(json_object_get(o, "result")), &end.result) < 0)
		return false;
	json_get_text(o, "reason", end.reason, sizeof(end.reason));
	*ret = end;
	return true;
}

static void on_end(struct task_history *h, struct task_spec *spec, const json_t *o)
{
	struct spool_end end;

	if (!end_from_json(o, &end) || end.epoch < h->epoch)
		return;
	h->end = end;
	h->ended = true;
	h->claimed = false;
}

void again_from_json(const json_t *o, struct spool_again *ret)
{
	*ret = (struct spool_again){ .attempts = json_get_small(o, "attempts", ATTEMPTS_MAX),
				     .not_before_ns = record_ns(json_object_get(o, "not_before")),
				     .memory = json_get_u64(o, "memory"),
				     .begun_ns = record_ns(json_object_get(o, "begun")),
				     .outside = json_get_flag(o, "outside"),
				     .use = use_from_json(o) };
	json_get_text(o, "reason", ret->reason, sizeof(ret->reason));
}

/* A past says what the requeues before it did. */
static void on_requeue(struct task_history *h, struct task_spec *spec, const json_t *o)
{
	struct spool_again again;

	again_from_json(o, &again);
	if (json_get_u64(o, "epoch") > h->epoch) { /* else it is the same one, written once more */
		h->was.attempts = h->attempts;
		h->was.memory = spec ? spec->memory : 0;
	}
	h->claimed = false;
	h->stopped = false;
	h->ended = false;
	h->attempts = again.attempts;
	h->again_ns = record_ns(json_object_get(o, "time"));
	if (again.begun_ns) /* a short attempt may be over before its start is written */
		h->started_ns = again.begun_ns;
	h->not_before_ns = again.not_before_ns;
	(void)str_copy(h->reason, sizeof(h->reason), again.reason);
	h->grown |= again.memory != 0;
	/* Of an edit and a requeue the last one counts, as they stand in the file. */
	if (again.memory && spec)
		spec->memory = again.memory;
}

static void on_edit(struct task_history *h, struct task_spec *spec, const json_t *o)
{
	const char *key;
	json_t *value, *set = json_object_get(o, "set");

	/* It was checked before it was written; what no key may be changes nothing. */
	h->edited = true;
	if (!spec)
		return;
	json_object_foreach(set, key, value)(void) spec_set_json(spec, key, value, NULL);
	(void)spec_check(spec, NULL); /* a name that was taken away is made up */
}

static const struct {
	const char *event;
	void (*fold)(struct task_history *h, struct task_spec *spec, const json_t *object);
} folds[] = {
	{ "claim", on_claim },	   { "start", on_start },  { "stop", on_stop }, { "end", on_end },
	{ "requeue", on_requeue }, { "past", on_requeue }, { "edit", on_edit },
};

/* A stop may come between the record of a requeue and its rename: it is for what waits then. */
static bool is_late_stop(const struct task_history *h, const char *event, uint64_t epoch)
{
	return strcmp(event, "stop") == 0 && !h->claimed && !h->ended && epoch + 1 == h->epoch;
}

static bool fold_line(struct task_history *h, struct task_spec *spec, const json_t *o)
{
	const char *event = json_string_value(json_object_get(o, "event"));
	uint64_t epoch = json_get_u64(o, "epoch");

	if (!event || epoch > NAME_EPOCH_MAX)
		return false;
	for (size_t i = 0; i < ARRAY_LEN(folds); i++) {
		if (strcmp(folds[i].event, event) != 0)
			continue;
		if (epoch >= h->epoch || !json_object_get(o, "epoch") ||
		    is_late_stop(h, event, epoch))
			folds[i].fold(h, spec, o);
		h->epoch = epoch > h->epoch ? epoch : h->epoch;
	}
	return true;
}

static void each_line(const char *text, size_t len, void (*fn)(void *data, const json_t *o),
		      void *data)
{
	const char *end = text + len;

	while (text < end) {
		const char *stop = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((stop ? stop : end) - text);

		if (n && strspn(text, " \t\r") < n) {
			json_t *o = json_loadb(text, n, 0, NULL);

			fn(data, o);
			json_decref(o);
		}
		text += n + 1;
	}
}

struct folding {
	struct task_history *h;
	struct task_spec *spec;
};

static void fold_one(void *data, const json_t *o)
{
	struct folding *f = data;

	f->h->unread += !fold_line(f->h, f->spec, o);
}

void history_read(const char *text, size_t len, struct task_history *ret, struct task_spec *spec)
{
	struct folding f = { ret, spec };

	each_line(text, len, fold_one, &f);
}

struct devices_of {
	uint64_t epoch;
	struct text_list *ret;
};

static void take_devices(void *data, const json_t *o)
{
	struct devices_of *d = data;
	const char *event = json_string_value(json_object_get(o, "event"));
	const json_t *device, *devices = json_object_get(o, "devices");
	size_t i;

	if (!event || strcmp(event, "start") != 0 || json_get_u64(o, "epoch") != d->epoch)
		return;
	text_list_clear(d->ret);
	json_array_foreach(devices, i, device) if (json_is_string(device) && i < SPEC_GPUS_MAX)
		text_list_add(d->ret, json_string_value(device));
}

void history_devices(const char *text, size_t len, uint64_t epoch, struct text_list *ret)
{
	struct devices_of d = { epoch, ret };

	each_line(text, len, take_devices, &d);
}

struct log_of {
	unsigned int attempt;
	bool found;
	struct log_away *ret;
};

static void take_log(void *data, const json_t *o)
{
	struct log_of *l = data;
	const char *event = json_string_value(json_object_get(o, "event"));
	unsigned int attempt = json_get_small(o, "attempt", ATTEMPTS_MAX);

	if (!event || (l->attempt && attempt != l->attempt))
		return;
	if (strcmp(event, "claim") == 0) /* whose log is there unless it is said again */
		l->found = false;
	if (strcmp(event, "log") != 0)
		return;
	json_get_text(o, "error", l->ret->error, sizeof(l->ret->error));
	json_get_text(o, "file", l->ret->file, sizeof(l->ret->file));
	json_get_text(o, "host", l->ret->host, sizeof(l->ret->host));
	l->found = true;
}

bool history_log(const char *text, size_t len, unsigned int attempt, struct log_away *ret)
{
	struct log_of l = { .attempt = attempt, .ret = ret };

	each_line(text, len, take_log, &l);
	return l.found;
}

int task_file_parse(const char *text, size_t len, struct task_file *ret, struct err *e)
{
	struct task_file t = { .spec = NULL };
	size_t used;
	int r = spec_read(text, len, &t.spec, &used, e);

	if (r < 0)
		return r;
	history_read(text + used, len - used, &t.history, t.spec);
	t.history.bytes = len - used;
	if (t.history.edited && spec_check(t.spec, e) < 0) {
		(void)err_wrap(e, "an edit in it makes it no task");
		task_file_clear(&t);
		return -EINVAL;
	}
	*ret = t;
	return 0;
}

int task_file_read(const struct spool *sp, const char *path, struct task_file *ret, struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len;
	int r = spool_read(sp, path, SPEC_FILE_MAX, &text, &len, e);

	if (r < 0)
		return r;
	r = task_file_parse(text, len, ret, e);
	if (r < 0)
		(void)err_wrap(e, "%s", path);
	return r;
}

void task_file_clear(struct task_file *t)
{
	t->spec = spec_free(t->spec);
}

/* ---- writing ---- */

json_t *record_claim(const struct claimer *c, uint64_t epoch, unsigned int attempt, uint64_t now_ns)
{
	return json_pack("{s:s, s:I, s:i, s:s, s:s, s:s, s:i, s:I, s:f, s:o*}", "event", "claim",
			 "epoch", (json_int_t)epoch, "attempt", (int)attempt, "agent", c->agent,
			 "host", c->host, "boot", c->boot, "pid", (int)c->proc.pid, "start",
			 (json_int_t)c->proc.start, "time", record_seconds(now_ns), "tool",
			 c->tool ? json_true() : NULL);
}

json_t *record_start(const struct proc_id *proc, const struct text_list *devices, uint64_t epoch,
		     uint64_t now_ns)
{
	json_t *o = json_pack("{s:s, s:I, s:i, s:I, s:f}", "event", "start", "epoch",
			      (json_int_t)epoch, "pid", (int)proc->pid, "start",
			      (json_int_t)proc->start, "time", record_seconds(now_ns));
	json_t *list = devices && devices->n ? json_array() : NULL;

	for (size_t i = 0; list && i < devices->n; i++)
		(void)json_array_append_new(list, json_string(devices->texts[i]));
	if (list)
		(void)json_object_set_new(o, "devices", list);
	return o;
}

static void add_use(json_t *o, const struct spool_use *use)
{
	if (use->gpus)
		(void)json_object_set_new(o, "gpus", json_integer((json_int_t)use->gpus));
	if (use->gpu_ns)
		(void)json_object_set_new(o, "gpu_s", json_real(record_seconds(use->gpu_ns)));
	if (use->energy_ns) {
		(void)json_object_set_new(o, "gpu_energy_j",
					  json_real((double)use->energy_mj / 1e3));
		(void)json_object_set_new(o, "gpu_energy_s",
					  json_real(record_seconds(use->energy_ns)));
	}
	if (use->seen_ns) {
		(void)json_object_set_new(o, "gpu_empty_s",
					  json_real(record_seconds(use->empty_ns)));
		(void)json_object_set_new(o, "gpu_seen_s", json_real(record_seconds(use->seen_ns)));
	}
	if (!use->gpu_peak_bytes)
		return;
	(void)json_object_set_new(o, "gpu_peak_bytes",
				  json_integer((json_int_t)use->gpu_peak_bytes));
	(void)json_object_set_new(o, "gpu_util_permille",
				  json_integer((json_int_t)use->gpu_util_permille));
}

json_t *record_log(const struct log_away *log, uint64_t epoch, unsigned int attempt,
		   uint64_t now_ns)
{
	/* A path that is not UTF-8 is found by nobody; the rest is worth saying all the same. */
	return json_pack("{s:s, s:I, s:i, s:o*, s:o*, s:s, s:f}", "event", "log", "epoch",
			 (json_int_t)epoch, "attempt", (int)attempt, "error",
			 json_string(log->error), "file",
			 log->file[0] ? json_string(log->file) : NULL, "host", log->host, "time",
			 record_seconds(now_ns));
}

json_t *record_stop(uint64_t epoch, uint64_t now_ns)
{
	return json_pack("{s:s, s:I, s:f}", "event", "stop", "epoch", (json_int_t)epoch, "time",
			 record_seconds(now_ns));
}

json_t *record_end(const struct spool_end *end)
{
	json_t *o = json_pack("{s:s, s:I, s:i, s:s, s:i, s:f}", "event", "end", "epoch",
			      (json_int_t)end->epoch, "attempt", (int)end->attempt, "result",
			      result_name(end->result), "exit", (int)end->exit, "time",
			      record_seconds(end->ended_ns));

	if (end->begun_ns)
		(void)json_object_set_new(o, "begun", json_real(record_seconds(end->begun_ns)));
	add_use(o, &end->use);
	/* A reason that is not UTF-8 is not worth losing the end. */
	if (end->reason[0])
		(void)json_object_set_new(o, "reason", json_string(end->reason));
	return o;
}

json_t *record_requeue(const struct spool_again *again, uint64_t epoch, uint64_t now_ns)
{
	json_t *o =
		json_pack("{s:s, s:I, s:i, s:f}", "event", "requeue", "epoch", (json_int_t)epoch,
			  "attempts", (int)again->attempts, "time", record_seconds(now_ns));

	if (again->memory)
		(void)json_object_set_new(o, "memory", json_integer((json_int_t)again->memory));
	if (again->begun_ns)
		(void)json_object_set_new(o, "begun", json_real(record_seconds(again->begun_ns)));
	add_use(o, &again->use);
	if (again->reason[0])
		(void)json_object_set_new(o, "reason", json_string(again->reason));
	if (again->outside)
		(void)json_object_set_new(o, "outside", json_true());
	if (again->not_before_ns)
		(void)json_object_set_new(o, "not_before",
					  json_real(record_seconds(again->not_before_ns)));
	return o;
}

json_t *record_past(uint64_t epoch, unsigned int attempts, uint64_t memory)
{
	json_t *o = json_pack("{s:s, s:I, s:i}", "event", "past", "epoch", (json_int_t)epoch,
			      "attempts", (int)attempts);

	if (memory)
		(void)json_object_set_new(o, "memory", json_integer((json_int_t)memory));
	return o;
}

json_t *record_edit(json_t *set, uint64_t now_ns)
{
	return json_pack("{s:s, s:O, s:f}", "event", "edit", "set", set, "time",
			 record_seconds(now_ns));
}

char *record_line(json_t *record)
{
	cleanup_free char *text = json_dumps(record, JSON_COMPACT | JSON_REAL_PRECISION(16));

	json_decref(record);
	return text ? xasprintf("%s\n", text) : xstrdup("\n");
}

int record_append(const struct spool *sp, const char *path, json_t *record, bool durable,
		  struct err *e)
{
	cleanup_free char *line = record_line(record);
	cleanup_fd int fd = spool_open_file(sp, path, O_RDWR | O_APPEND, NULL, e);

	if (fd < 0)
		return fd;

	int r = spool_append(fd, line, strlen(line));

	if (r == 0 && durable && fdatasync(fd) < 0)
		r = -errno;
	if (r == 0)
		r = spool_send(sp, fd);
	return r < 0 ? err_sys(e, -r, "append to %s/%s", sp->path, path) : 0;
}
