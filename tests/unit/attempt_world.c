/* SPDX-License-Identifier: MIT */
#include "attempt_world.h"

#include "unit.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "agent/attempt/claim.h"
#include "agent/attempt/commit.h"
#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"
#include "task/shim_client.h"

struct world w;

static struct {
	int type;
	union shmsg m;
} heard[8];

static unsigned int n_heard;

/* ---- clocks, loop ---- */

uint64_t __real_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void);
uint64_t __wrap_clock_mono_ns(void)
{
	return __real_clock_mono_ns() + w.mono_ns;
}

uint64_t __real_clock_boot_ns(void);
uint64_t __wrap_clock_boot_ns(void);
uint64_t __wrap_clock_boot_ns(void)
{
	return __real_clock_boot_ns() + w.boot_ns;
}

int __real_uv_timer_start(uv_timer_t *t, uv_timer_cb fn, uint64_t ms, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb fn, uint64_t ms, uint64_t repeat);
int __wrap_uv_timer_start(uv_timer_t *t, uv_timer_cb fn, uint64_t ms, uint64_t repeat)
{
	w.timer = t;
	w.on_timer = fn;
	w.timer_ms = ms;
	return __real_uv_timer_start(t, fn, 1000000000, repeat);
}

int __wrap_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb fn);
int __wrap_uv_poll_start(uv_poll_t *poll, int events, uv_poll_cb fn)
{
	assert_null(w.poll);
	w.poll = poll;
	w.on_poll = fn;
	n_heard = 0;
	return 0;
}

void __real_uv_close(uv_handle_t *h, uv_close_cb fn);
void __wrap_uv_close(uv_handle_t *h, uv_close_cb fn);
void __wrap_uv_close(uv_handle_t *h, uv_close_cb fn)
{
	if (h == (uv_handle_t *)w.poll)
		w.poll = NULL;
	if (h == (uv_handle_t *)w.timer)
		w.timer = NULL;
	__real_uv_close(h, fn);
}

int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *work, uv_work_cb fn, uv_after_work_cb after);
int __wrap_uv_queue_work(uv_loop_t *loop, uv_work_t *work, uv_work_cb fn, uv_after_work_cb after)
{
	assert_null(w.work);
	w.work = work;
	w.after_work = after;
	fn(work);
	return 0;
}

bool world_timer(void)
{
	if (!w.timer || !uv_is_active((uv_handle_t *)w.timer))
		return false;
	(void)uv_timer_stop(w.timer);
	w.on_timer(w.timer);
	return true;
}

bool world_orphans(void)
{
	uv_work_t *work = take_ptr(w.work);

	if (!work)
		return false;
	w.after_work(work, 0);
	return true;
}

void world_turn(void)
{
	(void)uv_run(&w.loop, UV_RUN_NOWAIT);
	(void)uv_run(&w.loop, UV_RUN_NOWAIT);
}

const struct user_names *__wrap_eventlog_names(struct eventlog *n);
const struct user_names *__wrap_eventlog_names(struct eventlog *n)
{
	return NULL; /* users are shown by number */
}

void __wrap_eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...);
void __wrap_eventlog_say(struct eventlog *n, enum log_level level, const char *fmt, ...)
{
	va_list list;

	va_start(list, fmt);
	(void)vsnprintf(w.said, sizeof(w.said), fmt, list);
	va_end(list);
	w.n_said++;
}

void __wrap_eventlog_tell_trouble(struct eventlog *n, uint64_t task, uint32_t element,
				  const char *what, const char *why, const char *file);
void __wrap_eventlog_tell_trouble(struct eventlog *n, uint64_t task, uint32_t element,
				  const char *what, const char *why, const char *file)
{
	(void)snprintf(w.said, sizeof(w.said), "%s: %s", what, why);
	w.n_said++;
}

struct subcommand *__wrap_sweep_start(const struct sweep_place *place, unsigned int what,
				      const char *gpus, void (*done)(void *user), void *user);
struct subcommand *__wrap_sweep_start(const struct sweep_place *place, unsigned int what,
				      const char *gpus, void (*done)(void *user), void *user)
{
	if (!w.sweeps)
		return NULL;
	w.on_swept = done;
	w.swept_user = user;
	return (struct subcommand *)&w;
}

struct subcommand *__wrap_subcommand_forget(struct subcommand *s);
struct subcommand *__wrap_subcommand_forget(struct subcommand *s)
{
	return NULL;
}

/* ---- the spooler ---- */

void __wrap_spooler_do(struct spooler *s, struct spool_job *job);
void __wrap_spooler_do(struct spooler *s, struct spool_job *job)
{
	assert_true(w.n_jobs < sizeof(w.jobs) / sizeof(w.jobs[0]));
	w.jobs[w.n_jobs++] = job;
}

void __wrap_spooler_do_later(struct spooler *s, struct spool_job *job);
void __wrap_spooler_do_later(struct spooler *s, struct spool_job *job)
{
	w.n_later++;
	__wrap_spooler_do(s, job);
}

static void take_job(unsigned int at)
{
	w.n_jobs--;
	memmove(w.jobs + at, w.jobs + at + 1, (w.n_jobs - at) * sizeof(w.jobs[0]));
}

bool __wrap_spooler_take_back(struct spooler *s, struct spool_job *job);
bool __wrap_spooler_take_back(struct spooler *s, struct spool_job *job)
{
	for (unsigned int i = w.worked; i < w.n_jobs; i++)
		if (w.jobs[i] == job) {
			take_job(i);
			return true;
		}
	return false;
}

int __wrap_spooler_close_fd(struct spooler *s, int fd);
int __wrap_spooler_close_fd(struct spooler *s, int fd)
{
	(void)fd_close(fd);
	return -1;
}

bool world_work(void)
{
	static struct spool_place place;

	if (!w.n_jobs || w.worked)
		return false;
	w.jobs[0]->work(w.jobs[0], &place);
	w.worked = true;
	return true;
}

bool world_job(void)
{
	struct spool_job *job = w.jobs[0];

	if (!w.n_jobs)
		return false;
	(void)world_work();
	w.worked = false;
	take_job(0);
	job->done(job);
	return true;
}

void world_jobs(void)
{
	while (world_job())
		;
}

void __wrap_claiming_work(struct spool_job *job, struct spool_place *p);
void __wrap_claiming_work(struct spool_job *job, struct spool_place *p)
{
	struct claiming *t = (struct claiming *)job;

	w.n_claims++;
	t->code = w.claim_code;
	t->began_ns = __wrap_clock_boot_ns();
	t->log_fd = -1;
	if (t->code != 0) {
		(void)str_copy(t->e.text, sizeof(t->e.text), "no claim");
		return;
	}
	t->spec = spec_new();
	t->spec->name = xstrdup("job");
	t->spec->cwd = xstrdup("/");
	t->spec->grace = 5000;
	t->spec->preemptible = w.preemptible;
	t->spec->gpus_max = w.gpus_max;
	t->spec->nodes = w.nodes;
	text_list_add(&t->spec->argv, "true");
	t->claim = (struct claim){
		.attempt = 1, .name = { .id = t->ref.id, .element = t->ref.element, .epoch = 3 }
	};
	(void)str_copy(t->claim.path, sizeof(t->claim.path), "running/7");
	(void)str_copy(t->log_path, sizeof(t->log_path), "logs/7-job.1.log");
	if (w.no_log)
		(void)str_copy(t->away.error, sizeof(t->away.error), "the disk is full");
}

void __wrap_commit_work(struct spool_job *job, struct spool_place *p);
void __wrap_commit_work(struct spool_job *job, struct spool_place *p)
{
	struct commit *f = (struct commit *)job;

	w.n_commits++;
	w.committed = *f;
	(void)str_copy(w.committed_why, sizeof(w.committed_why), f->ended.why ? f->ended.why : "");
	(void)str_copy(w.committed_text, sizeof(w.committed_text), f->end->text);
	if (w.on_commit)
		w.on_commit();
	f->code = w.commit_code;
	if (f->code < 0)
		(void)str_copy(f->e.text, sizeof(f->e.text), "the disk is full");
	f->verdict.what = f->ended.kind == END_EXIT && f->ended.code == 0 ? RETRY_DONE
			  : f->ended.last				  ? RETRY_CANCELLED
									  : RETRY_AGAIN;
}

int __wrap_claim_started(const struct spool *sp, struct claim *c, const struct proc_id *shim,
			 const struct text_list *devices, struct err *e);
int __wrap_claim_started(const struct spool *sp, struct claim *c, const struct proc_id *shim,
			 const struct text_list *devices, struct err *e)
{
	w.n_notes++;
	w.noted[0] = '\0';
	for (size_t i = 0; devices && i < devices->n; i++)
		(void)str_print(w.noted + strlen(w.noted), sizeof(w.noted) - strlen(w.noted),
				"%s%s", i ? "," : "", devices->texts[i]);
	c->started = w.note_code == 0;
	return w.note_code < 0 ? err_sys(e, -w.note_code, "write running/7") : 0;
}

int __wrap_spool_confirm(const struct spool *sp, const char *path, int code, struct err *e);
int __wrap_spool_confirm(const struct spool *sp, const char *path, int code, struct err *e)
{
	return code == -ENOENT ? w.confirm_code : code;
}

int __wrap_adopt_settle(const char *token, const struct shim_id *id, const char *record_dir,
			struct adopted *ret, struct err *e);
int __wrap_adopt_settle(const char *token, const struct shim_id *id, const char *record_dir,
			struct adopted *ret, struct err *e)
{
	w.n_looks++;
	if (w.look_code < 0)
		return err_sys(e, -w.look_code, "read /run");
	*ret = (struct adopted){ .found = w.found, .fd = -1, .proc = { .pid = 4, .start = 44 } };
	if (w.found == ADOPT_LIVES)
		ret->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	ret->record.end = w.record;
	return 0;
}

int __wrap_end_record_remove(const char *dir, const char *token);
int __wrap_end_record_remove(const char *dir, const char *token)
{
	w.n_records_removed++;
	return 0;
}

struct orphans *__wrap_orphans_begin(const char *token, int stop_signal, uint32_t grace_ms);
struct orphans *__wrap_orphans_begin(const char *token, int stop_signal, uint32_t grace_ms)
{
	w.orphans_grace_ms = grace_ms;
	return (struct orphans *)&w;
}

int __wrap_orphans_step(struct orphans *o);
int __wrap_orphans_step(struct orphans *o)
{
	return w.orphans;
}

void __wrap_orphans_hurry(struct orphans *o, uint32_t grace_ms);
void __wrap_orphans_hurry(struct orphans *o, uint32_t grace_ms)
{
	w.orphans_hurry_ms = grace_ms;
}

struct orphans *__wrap_orphans_free(struct orphans *o);
struct orphans *__wrap_orphans_free(struct orphans *o)
{
	return NULL;
}

/* ---- fork server and shim ---- */

uint64_t __wrap_node_watch_fence_timeout_ms(const struct node_watch *b);
uint64_t __wrap_node_watch_fence_timeout_ms(const struct node_watch *b)
{
	return 1000;
}

int __wrap_fork_server_start(struct fork_server *m, int exe_fd, struct err *e);
int __wrap_fork_server_start(struct fork_server *m, int exe_fd, struct err *e)
{
	if (w.fork_code < 0)
		return err_sys(e, -w.fork_code, "start the fork server");
	m->fd = 0;
	return 0;
}

void __wrap_fork_server_close(struct fork_server *m);
void __wrap_fork_server_close(struct fork_server *m)
{
	m->fd = -1;
}

int __wrap_shim_client_start(struct fork_server *m, const struct launch_spec *spec, int log_fd,
			     struct err *e);
int __wrap_shim_client_start(struct fork_server *m, const struct launch_spec *spec, int log_fd,
			     struct err *e)
{
	static const char visible[] = "CUDA_VISIBLE_DEVICES=";

	if (w.shim_code < 0)
		return err_sys(e, -w.shim_code, "start the shim");
	w.n_launched++;
	w.spec_flags = spec->flags;
	w.go_until_ns = spec->go_until_ns;
	for (uint32_t i = 0; i < spec->n_env; i++)
		if (strncmp(spec->env[i], visible, sizeof(visible) - 1) == 0)
			(void)str_copy(w.visible, sizeof(w.visible),
				       spec->env[i] + sizeof(visible) - 1);
	return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

int __wrap_shmsg_recv(int conn, union shmsg *m);
int __wrap_shmsg_recv(int conn, union shmsg *m)
{
	int type = n_heard ? heard[0].type : -EAGAIN;

	if (!n_heard)
		return type;
	*m = heard[0].m;
	n_heard--;
	memmove(heard, heard + 1, n_heard * sizeof(heard[0]));
	return type;
}

#define TALK(call, ...)                                                                            \
	int __wrap_shim_client_##call(__VA_ARGS__);                                                \
	int __wrap_shim_client_##call(__VA_ARGS__)                                                 \
	{                                                                                          \
		if (w.talk_code == 0)                                                              \
			w.n_##call++;                                                              \
		return w.talk_code;                                                                \
	}

int __wrap_shim_client_go(int conn, const char *devices, const char *const *env, size_t n_env);
int __wrap_shim_client_go(int conn, const char *devices, const char *const *env, size_t n_env)
{
	(void)str_copy(w.go_env, sizeof(w.go_env), n_env ? env[0] : "");
	w.n_go += w.talk_code == 0;
	return w.talk_code;
}

TALK(cancel, int conn)
TALK(adopt, int conn)
TALK(ack, int conn)
TALK(gpu, int conn, uint64_t peak_bytes, uint32_t util_permille)

int __wrap_shim_client_stop(int conn, int signal, enum stop_scope scope, uint32_t grace_ms);
int __wrap_shim_client_stop(int conn, int signal, enum stop_scope scope, uint32_t grace_ms)
{
	w.grace_ms = grace_ms;
	w.n_stop += w.talk_code == 0;
	return w.talk_code;
}

int __wrap_shim_client_requeue(int conn, uint32_t grace_ms);
int __wrap_shim_client_requeue(int conn, uint32_t grace_ms)
{
	w.grace_ms = grace_ms;
	w.n_requeue += w.talk_code == 0;
	return w.talk_code;
}

bool world_connected(void)
{
	return w.poll;
}

void world_say(enum shmsg_type type, const union shmsg *m)
{
	assert_non_null(w.poll);
	heard[n_heard].type = (int)type;
	heard[n_heard].m = m ? *m : (union shmsg){ 0 };
	n_heard++;
	w.on_poll(w.poll, 0, UV_READABLE);
}

void world_say_status(enum shmsg_type type, enum shim_state state, pid_t pid)
{
	const union shmsg m = {
		.status = { .state = state, .shim_pid = pid, .shim_start = 44, .task_pid = pid + 1 }
	};

	world_say(type, &m);
}

void world_say_end(const struct task_end *end)
{
	union shmsg m = { 0 };

	m.ended.end = *end;
	world_say(SHMSG_ENDED, &m);
}

void world_hang_up(void)
{
	world_say(0, NULL);
}

struct task_end world_exited(int code)
{
	return (struct task_end){ .outcome = TASK_EXITED,
				  .exit_code = code,
				  .run_ns = NS_PER_S,
				  .started_wall_ns = 1,
				  .ended_wall_ns = 2 };
}

/* ---- the guard ---- */

int __wrap_guardlink_lease(struct guardlink *link, const struct msg_lease *lease);
int __wrap_guardlink_lease(struct guardlink *link, const struct msg_lease *lease)
{
	w.lease = *lease;
	w.n_lease++;
	return w.link_code;
}

int __wrap_guardlink_grant(struct guardlink *link, const struct lease_id *id,
			   const struct proc_id *shim);
int __wrap_guardlink_grant(struct guardlink *link, const struct lease_id *id,
			   const struct proc_id *shim)
{
	w.granted = *id;
	w.granted_to = *shim;
	w.n_grant++;
	return 0;
}

int __wrap_guardlink_unlease(struct guardlink *link, const struct lease_id *id);
int __wrap_guardlink_unlease(struct guardlink *link, const struct lease_id *id)
{
	w.unleased = *id;
	w.n_unlease++;
	return 0;
}

int __wrap_guardlink_unlease_one(struct guardlink *link, const struct lease_id *id,
				 const char *uuid);
int __wrap_guardlink_unlease_one(struct guardlink *link, const struct lease_id *id,
				 const char *uuid)
{
	(void)str_copy(w.unleased_uuid, sizeof(w.unleased_uuid), uuid);
	w.n_unlease_one++;
	return w.link_code;
}

int __wrap_gpus_file_write(const char *path, const char *text, struct err *e);
int __wrap_gpus_file_write(const char *path, const char *text, struct err *e)
{
	if (w.file_code < 0)
		return err_sys(e, -w.file_code, "write %s", path);
	w.n_files++;
	(void)str_copy(w.file, sizeof(w.file), text);
	return 0;
}

/* ---- life ---- */

void world_begin(void)
{
	static const struct sweep_place sweeping;

	w = (struct world){ .found = ADOPT_LOST };
	n_heard = 0;
	assert_int_equal(uv_loop_init(&w.loop), 0);
	w.view.n_slots = WORLD_GPUS;
	for (uint32_t i = 0; i < WORLD_GPUS; i++) {
		w.view.seen[i] = true;
		w.view.devices[i].index = i;
		w.view.devices[i].mig = -1;
		(void)str_print(w.view.devices[i].uuid, sizeof(w.view.devices[i].uuid), "GPU-%u",
				i);
	}
	w.config.instance = "i";
	w.config.heartbeat_ms = 10000;
	w.self.host = "n";
	w.self.name = "a";
	w.place = (struct attempt_place){ .c = &w.config,
					  .self = &w.self,
					  .loop = &w.loop,
					  .sweeping = &sweeping,
					  .view = &w.view,
					  .fork_server = { .fd = -1 },
					  .run_dir = "/run",
					  .spool_dir = "/spool",
					  .key = "key" };
}

void world_end(void)
{
	world_turn();
	assert_int_equal(w.n_jobs, 0);
	assert_null(w.poll);
	assert_null(w.timer);
	assert_int_equal(uv_run(&w.loop, UV_RUN_NOWAIT), 0);
	assert_int_equal(uv_loop_close(&w.loop), 0);
}
