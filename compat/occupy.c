/* SPDX-License-Identifier: MIT */

/*
 * `occupy on | off | status`: the commands, options and files of gpu-occupy, with tenure below.
 *
 * Exit codes: 0; 1 it failed, or runs already; 2 usage; 3 `status` when it does not run.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/opts.h"
#include "base/proc.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "compat/about.h"
#include "compat/hold_child.h"
#include "compat/occupy_daemon.h"
#include "compat/occupy_files.h"
#include "compat/visible.h"
#include "gpu/device.h"

#define OFF_LIMIT_MS 11000 /* hold_child.c, and a moment */
#define OFF_STEP_MS  10
#define LOG_LINES    10
#define LOG_TAIL     16384 /* bytes of the log that hold its last lines */
#define DEFAULT_GPUS 4	   /* 0-3, of those that exist */

enum exit_code { EXIT_OK, EXIT_FAILED, EXIT_USAGE, EXIT_NOT_RUNNING };

static const struct opt on_opts[] = {
	{ .name = "gpus",
	  .spec = { VALUE_GPUS },
	  .arg = "0 1 2",
	  .help = "which GPUs (default 0 1 2 3, those that exist)" },
	{ .name = "memory",
	  .spec = { VALUE_STRING },
	  .arg = "GB",
	  .def = "38",
	  .help = "memory to occupy on each GPU" },
	{ .name = "mem_threshold",
	  .spec = { VALUE_STRING },
	  .arg = "GB",
	  .def = "1",
	  .help = "start when all of the GPUs use less than this; 0: at once" },
	{ .name = "wait_minutes",
	  .spec = { VALUE_STRING },
	  .arg = "MIN",
	  .def = "5",
	  .help = "and have done so for so long; 0: at once" },
	{ .name = "refresh_minutes",
	  .spec = { VALUE_STRING },
	  .arg = "MIN",
	  .def = "1",
	  .help = "how often to look" },
	{ .name = "compute_min",
	  .spec = { VALUE_STRING },
	  .arg = "MIN",
	  .def = "30",
	  .help = "length of a period of load" },
	{ .name = "sleep_min",
	  .spec = { VALUE_STRING },
	  .arg = "MIN",
	  .def = "5",
	  .help = "pause between two of them; the memory is kept" },
	{ .name = "no_compute", .spec = { VALUE_FLAG }, .help = "memory only, no load" },
	{ .name = "help", .short_name = 'h', .spec = { VALUE_FLAG }, .help = "show this help" },
	{ 0 },
};

static int fail(enum exit_code code, const char *text)
{
	(void)fprintf(stderr, "occupy: %s\n", text);
	return (int)code;
}

static const struct about about = {
	.name = "occupy",
	.summary = "occupy idle GPUs, and give them to whoever comes",
	.usages =
		(const struct about_row[]){
			{ "on [options]", "start to occupy GPUs, in the background" },
			{ "off", "stop, or cancel the waiting" },
			{ "status", "what it does, and the end of its log" },
			{ 0 },
		},
	.has_commands = true,
	.description =
		"Waits until all of the GPUs have been idle for the whole time (one that is used sets "
		"the clock back), then occupies memory on each and computes now and then.\n"
		"\n"
		"This is tenure with the commands of gpu-occupy, and it does better in one thing: as "
		"soon as somebody else's process starts on an occupied GPU, everything on that GPU is "
		"free for it, before it asks for memory. When it has gone, the GPU is occupied again. "
		"A GPU on which somebody's process is already is not touched, whatever the threshold.\n"
		"\n"
		"GPUs are numbered as nvidia-smi numbers them. What CUDA_VISIBLE_DEVICES hides is not "
		"touched; without --gpus the first four that it leaves are taken.\n"
		"\n"
		"\"tenure status --instance occupy\" tells more. What has no option here, such as the "
		"kind of load, is a setting of tenure: see tenure help hold, tenure config show.",
	.opts = on_opts,
	.examples =
		(const struct about_row[]){
			{ "occupy on",
			  "38 GB on each of GPU 0-3, once they have been idle for 5 minutes" },
			{ "occupy on --gpus 0 1 --memory 20 --no_compute",
			  "memory on two GPUs, and no load" },
			{ "occupy on --mem_threshold 0.5 --wait_minutes 2",
			  "sooner, and only when they are emptier" },
			{ "occupy off",
			  "let go of everything; all of its memory is free when it comes back" },
			{ 0 },
		},
	.variables =
		(const struct about_row[]){
			{ "CUDA_VISIBLE_DEVICES",
			  "the GPUs that may be occupied; none is hidden without it" },
			{ 0 },
		},
	.files =
		(const struct about_row[]){
			{ "~/.config/gpu_occupy/occupy.log",
			  "what it does; \"on\" empties it once it is to start" },
			{ "~/.config/gpu_occupy/occupy.pid", "the PID of what \"on\" has started" },
			{ 0 },
		},
	.exits =
		(const struct about_row[]){
			{ "0", "it worked; off: also when it did not run" },
			{ "1", "it failed, or on: it runs already" },
			{ "2", "a mistake in what was typed" },
			{ "3", "status: it does not run" },
			{ 0 },
		},
	.see =
		(const struct about_row[]){
			{ "tenure-hold", "1" },
			{ "tenure-on", "1" },
			{ "tenure.yaml", "5" },
			{ 0 },
		},
};

static void help(FILE *out)
{
	cleanup_free char *text = about_help(&about);

	(void)fputs(text, out);
}

/* -------- what is asked for -------- */

/* A number as the original took it: "20", "0.5", "1e-2"; not negative. */
static int get_number(const struct opts *o, const char *name, double max, double *ret,
		      struct err *e)
{
	const char *text = opts_value(o, name)->str;
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || !isfinite(v) || v < 0)
		return err_set(e, -EINVAL, "--%s \"%s\": it wants a number, such as 2 or 0.5", name,
			       text);
	if (v > max)
		return err_set(e, -ERANGE, "--%s %s: at most %g", name, text, max);
	*ret = v;
	return 0;
}

static int get_minutes(const struct opts *o, const char *name, uint64_t *ret_ms, struct err *e)
{
	double minutes;
	int r = get_number(o, name, 1e6, &minutes, e);

	if (r == 0)
		*ret_ms = (uint64_t)llround(minutes * 60e3);
	return r;
}

static int get_wants(const struct opts *o, struct occupy_wants *w, struct err *e)
{
	const uint64_t refresh_min_ms = 100;

	if (get_number(o, "memory", 1e6, &w->memory_gb, e) < 0 ||
	    get_number(o, "mem_threshold", 1e6, &w->threshold_gb, e) < 0 ||
	    get_minutes(o, "wait_minutes", &w->wait_ms, e) < 0 ||
	    get_minutes(o, "refresh_minutes", &w->refresh_ms, e) < 0 ||
	    get_minutes(o, "compute_min", &w->compute_ms, e) < 0 ||
	    get_minutes(o, "sleep_min", &w->sleep_ms, e) < 0)
		return e->code;
	if (w->memory_gb <= 0)
		return err_set(e, -EINVAL, "--memory 0: nothing would be occupied");
	if (w->refresh_ms < refresh_min_ms)
		w->refresh_ms = refresh_min_ms;
	w->at_once = w->wait_ms == 0 || w->threshold_gb <= 0;
	w->no_compute = opts_flag(o, "no_compute");
	return 0;
}

/* -------- which GPUs -------- */

static bool has_card(const struct gpu_list *list, uint32_t index)
{
	for (uint32_t i = 0; i < list->n; i++)
		if (list->d[i].index == index)
			return true;
	return false;
}

/* What CUDA_VISIBLE_DEVICES leaves of them, in the order of the machine. */
static int keep_visible(const struct gpu_list *list, struct gpu_list *ret, struct err *e)
{
	struct visible *v = xcalloc(1, sizeof(*v));
	int r = visible_list(v, e);

	for (uint32_t i = 0; r == 0 && i < list->n; i++)
		if (visible_find(v, list->d[i].uuid) >= 0)
			ret->d[ret->n++] = list->d[i];
	free(v);
	return r;
}

static void list_cards(const struct gpu_list *list, uint32_t most, struct strbuf *b)
{
	for (uint32_t i = 0; i < list->n && i < most; i++)
		strbuf_addf(b, "%s%u", i ? "," : "", (unsigned int)list->d[i].index);
}

/* Of those that it may use; choice: CUDA_VISIBLE_DEVICES, or NULL. */
static void pick_default(const struct gpu_list *list, const char *choice, struct strbuf *ret)
{
	unsigned int n = 0;

	if (choice) {
		list_cards(list, DEFAULT_GPUS, ret);
		printf("Note: CUDA_VISIBLE_DEVICES=%s leaves GPU(s) %s\n", choice, strbuf_str(ret));
		return;
	}
	for (uint32_t i = 0; i < DEFAULT_GPUS; i++) {
		if (!has_card(list, i))
			continue;
		strbuf_addf(ret, "%s%u", n ? "," : "", (unsigned int)i);
		n++;
	}
	if (n < DEFAULT_GPUS)
		printf("Note: of the default GPUs 0-3 there are %u here: %s\n", n, strbuf_str(ret));
}

static int check_given(const struct gpu_list *list, const struct gpu_list *may, const char *choice,
		       const struct gpu_picks *picks, struct err *e)
{
	for (size_t i = 0; i < picks->n; i++) {
		const struct gpu_pick *p = &picks->picks[i];
		cleanup_free char *text = p->by_uuid ? xstrdup(p->uuid) : xasprintf("%u", p->index);
		cleanup_strbuf struct strbuf left = STRBUF_INIT;
		bool card = !p->by_uuid && has_card(list, p->index);

		if (!card && gpu_find(list, text, e) < 0)
			return e->code;
		if (p->by_uuid ? gpu_find(may, text, NULL) >= 0 : has_card(may, p->index))
			continue;
		list_cards(may, UINT32_MAX, &left);
		return err_set(e, -ENODEV,
			       "--gpus %s: CUDA_VISIBLE_DEVICES=%s hides that GPU and leaves %s "
			       "(numbered as nvidia-smi does); name one of these, or unset it",
			       text, choice, strbuf_str(&left));
	}
	return 0;
}

static int pick_gpus(const struct opts *o, struct strbuf *ret, struct err *e)
{
	struct gpu_list *list = xcalloc(1, sizeof(*list)), *may = xcalloc(1, sizeof(*may));
	const struct gpu_picks *given = opts_given(o, "gpus") ? &opts_value(o, "gpus")->gpus : NULL;
	const char *choice = getenv("CUDA_VISIBLE_DEVICES");
	struct nvml nvml = { 0 };
	int r = nvml_load(&nvml, e);

	if (r == 0)
		r = nvml_start(&nvml, e);
	if (r == 0)
		r = gpu_enumerate(&nvml, list, e);
	if (r == 0 && choice)
		r = keep_visible(list, may, e);
	if (r < 0 && choice)
		(void)err_wrap(e, "CUDA_VISIBLE_DEVICES=%s", choice);
	if (r == 0 && given && !given->all) {
		r = check_given(list, choice ? may : list, choice, given, e);
		strbuf_adds(ret, opts_text(o, "gpus"));
	} else if (r == 0 && given) {
		list_cards(choice ? may : list, UINT32_MAX, ret);
	} else if (r == 0) {
		pick_default(choice ? may : list, choice, ret);
	}
	nvml_stop(&nvml);
	nvml_unload(&nvml);
	free(list);
	free(may);
	return r;
}

/* -------- on -------- */

static void say_started(const struct occupy_wants *w, const struct occupy_files *f, pid_t pid)
{
	printf("Occupy started (PID: %d)\n", (int)pid);
	if (w->at_once)
		printf("Occupying %gGB on each of GPU(s) %s, each as soon as nobody is on it\n",
		       w->memory_gb, w->gpus);
	else
		printf("Waiting until GPU(s) %s have all used less than %gGB for %g minutes, then "
		       "occupying %gGB on each\n",
		       w->gpus, w->threshold_gb, (double)w->wait_ms / 60e3, w->memory_gb);
	printf("Log file: %s\n"
	       "Use 'occupy status' to check, 'occupy off' to stop\n",
	       f->log);
}

static bool says_on(const struct occupy_files *f)
{
	char host[OCCUPY_HOST_MAX];
	struct proc_id id;

	if (occupy_files_look(f, &id, host) != OCCUPY_ON)
		return false;
	printf("Occupy is already running (PID: %d)\nUse 'occupy off' to stop it first\n",
	       (int)id.pid);
	return true;
}

/* The files of one that is not on here any more; the caller has the lock. */
static void take_over(const struct occupy_files *f)
{
	char host[OCCUPY_HOST_MAX];
	struct proc_id id;
	enum occupy_state state = occupy_files_look(f, &id, host);

	if (state == OCCUPY_ELSEWHERE) {
		printf("Note: the log and the PID file were those of host %s (PID: %d); from here "
		       "on they are this host's\n",
		       host, (int)id.pid);
	} else if (state == OCCUPY_STALE) {
		printf("Note: the PID file is left over from a process that has ended\n");
		occupy_files_unclaim(f);
	}
}

/* w has all but the GPUs. */
static int start(const struct occupy_files *f, const struct opts *o, struct occupy_wants w,
		 struct err *e)
{
	cleanup_strbuf struct strbuf gpus = STRBUF_INIT;
	pid_t pid = 0;
	int r = pick_gpus(o, &gpus, e);

	w.gpus = strbuf_str(&gpus);
	if (r == 0)
		r = occupy_daemon_start(&w, f, &pid, e);
	if (r == 0)
		say_started(&w, f, pid);
	return r;
}

static int run_on(const struct opts *o, const struct occupy_files *f)
{
	struct occupy_wants w = { 0 };
	struct err e = ERR_INIT;

	if (says_on(f))
		return EXIT_FAILED;
	if (get_wants(o, &w, &e) < 0)
		return fail(EXIT_USAGE, e.text);

	cleanup_fd int lock = occupy_files_lock(f, &e);

	if (lock < 0)
		return fail(EXIT_FAILED, e.text);
	/* Another may have started since the look without the lock. */
	if (says_on(f))
		return EXIT_FAILED;
	take_over(f);
	return start(f, o, w, &e) < 0 ? fail(EXIT_FAILED, e.text) : EXIT_OK;
}

/* -------- off -------- */

static bool is_waiting(void)
{
	struct hold_child *h = hold_child_new(OCCUPY_INSTANCE, NULL);
	json_t *status = h ? hold_child_status(h) : NULL;
	const char *phase = json_get_str(status, "phase");
	bool waiting = phase && strcmp(phase, "waiting") == 0;

	json_decref(status);
	(void)hold_child_free(h);
	return waiting;
}

/* fd: that tells of its end; where there is none the process is looked at from time to time. */
static bool wait_end(const struct proc_id *id, int fd)
{
	uint64_t until_ns = clock_mono_ns() + OFF_LIMIT_MS * NS_PER_MS;
	struct pollfd p = { .fd = fd, .events = POLLIN };

	while (proc_alive(id)) {
		if (clock_mono_ns() > until_ns)
			return false;
		if (poll(&p, 1, OFF_STEP_MS) == 1)
			break;
	}
	return true;
}

static int end_process(const struct proc_id *id, struct err *e)
{
	cleanup_fd int fd = proc_open(id->pid);
	int r = proc_signal(id, SIGTERM);

	if (r == -ESRCH)
		return 0;
	if (r < 0)
		return err_sys(e, -r, "end PID %d", (int)id->pid);
	if (!wait_end(id, fd))
		return err_set(e, -ETIMEDOUT, "PID %d has not ended within %d s", (int)id->pid,
			       OFF_LIMIT_MS / 1000);
	return 0;
}

/* The last bytes of a file, which may be long. How many, or -errno. */
static ssize_t read_tail(const char *path, char *buf, size_t size)
{
	cleanup_fd int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return -errno;

	ssize_t n = pread(fd, buf, size, st.st_size > (off_t)size ? st.st_size - (off_t)size : 0);

	return n < 0 ? -errno : n;
}

/* Its last word was that it has let go. */
static bool said_freed(const struct occupy_files *f)
{
	static const char end[] = OCCUPY_FREED "\n";
	char text[sizeof(end)];

	return read_tail(f->log, text, strlen(end)) == (ssize_t)strlen(end) &&
	       memcmp(text, end, strlen(end)) == 0;
}

/* As occupy_files_look(). What is left over is removed, unless an "on" is at it, which may have
 * begun since the look without the lock. */
static enum occupy_state look_and_tidy(const struct occupy_files *f, struct proc_id *ret_id,
				       char *ret_host)
{
	enum occupy_state state = occupy_files_look(f, ret_id, ret_host);
	cleanup_fd int lock = state == OCCUPY_STALE ? occupy_files_lock(f, NULL) : -1;

	if (lock < 0)
		return state;
	state = occupy_files_look(f, ret_id, ret_host);
	if (state == OCCUPY_STALE)
		occupy_files_unclaim(f);
	return state;
}

static int run_off(const struct opts *o, const struct occupy_files *f)
{
	char host[OCCUPY_HOST_MAX];
	struct err e = ERR_INIT;
	struct proc_id id;
	bool waiting;

	switch (look_and_tidy(f, &id, host)) {
	case OCCUPY_ELSEWHERE:
		printf("Occupy was started on host %s (PID: %d); stop it there\n", host,
		       (int)id.pid);
		return EXIT_FAILED;
	case OCCUPY_STALE:
	case OCCUPY_OFF:
		printf("Occupy is not running\n");
		return EXIT_OK;
	case OCCUPY_ON:
		break;
	}
	waiting = is_waiting();
	if (end_process(&id, &e) < 0)
		return fail(EXIT_FAILED, e.text);
	if (waiting) {
		printf("Waiting cancelled, occupy has ended (PID: %d)\n", (int)id.pid);
	} else if (said_freed(f)) {
		printf("Occupy stopped (PID: %d), all of its GPU memory is free\n", (int)id.pid);
	} else {
		printf("Occupy has ended (PID: %d), and whether all of its GPU memory is free is not "
		       "known; its log tells more: %s\n",
		       (int)id.pid, f->log);
		return EXIT_FAILED;
	}
	return EXIT_OK;
}

/* -------- status -------- */

static void show_log(const struct occupy_files *f)
{
	char text[LOG_TAIL + 1];
	ssize_t len = read_tail(f->log, text, LOG_TAIL), at;
	int lines = 0;

	printf("Log file: %s\n", f->log);
	if (len <= 0)
		return;
	text[len] = '\0';
	for (at = len - 1; at > 0; at--)
		if (text[at - 1] == '\n' && ++lines == LOG_LINES)
			break;
	printf("\nLast %d log entries:\n", LOG_LINES);
	for (char *save, *line = strtok_r(text + at, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		printf("  %s\n", line);
}

static void show_phase(void)
{
	static const char *const off = "Use 'occupy off' to stop occupying and exit";
	static const struct {
		const char *phase, *text, *hint;
	} phases[] = {
		{ "waiting", "Currently in waiting phase - monitoring GPU usage",
		  "Use 'occupy off' to cancel waiting and exit" },
		{ "holding", "Currently occupying GPU(s)", off },
		{ "releasing", "Stopping, freeing the GPU(s)", NULL },
		{ "blind", "Currently unable to see the GPU(s), so none is occupied", off },
	};
	struct hold_child *h = hold_child_new(OCCUPY_INSTANCE, NULL);
	json_t *status = h ? hold_child_status(h) : NULL;
	const char *phase = json_get_str(status, "phase");
	const char *sentence = json_get_str(status, "sentence");
	size_t i = 0;

	while (phase && i < ARRAY_LEN(phases) && strcmp(phase, phases[i].phase) != 0)
		i++;
	if (!phase || i == ARRAY_LEN(phases))
		printf("\n[Status: Starting]\n%s\n", off);
	else if (strcmp(phase, "holding") == 0 && sentence)
		printf("\n[Status: %s - %s]\n%s\n", phases[i].text, sentence, phases[i].hint);
	else
		printf("\n[Status: %s]\n%s%s", phases[i].text, phases[i].hint ? phases[i].hint : "",
		       phases[i].hint ? "\n" : "");
	json_decref(status);
	(void)hold_child_free(h);
}

static int run_status(const struct opts *o, const struct occupy_files *f)
{
	char host[OCCUPY_HOST_MAX];
	struct proc_id id;
	enum occupy_state state = occupy_files_look(f, &id, host);

	if (state == OCCUPY_ON)
		printf("Occupy is running (PID: %d)\n", (int)id.pid);
	else if (state == OCCUPY_ELSEWHERE)
		printf("Occupy was started on host %s (PID: %d); ask there\n", host, (int)id.pid);
	else
		printf("Occupy is not running%s\n",
		       state == OCCUPY_STALE ? " (the PID file is left over)" : "");
	show_log(f);
	if (state == OCCUPY_ON) {
		show_phase();
		return EXIT_OK;
	}
	if (state != OCCUPY_ELSEWHERE)
		printf("\n[Status: Not running]\nUse 'occupy on' to start\n");
	return EXIT_NOT_RUNNING;
}

/* -------- main -------- */

static const struct {
	const char *name;
	bool options;
	int (*run)(const struct opts *o, const struct occupy_files *f);
} commands[] = {
	{ "on", true, run_on },
	{ "off", false, run_off },
	{ "status", false, run_status },
};

static int run_command(size_t i, int argc, char **argv)
{
	struct opts *o = opts_new();
	struct occupy_files f;
	struct err e = ERR_INIT;
	int code;

	occupy_files_init(&f);
	opts_add_rows(o, commands[i].options ? on_opts : on_opts + ARRAY_LEN(on_opts) - 2);
	if (opts_parse(o, argc, argv, OPTS_DEFAULT, &e) < 0) {
		code = fail(EXIT_USAGE, e.text);
	} else if (opts_flag(o, "help")) {
		help(stdout);
		code = EXIT_OK;
	} else if (opts_argc(o) > 0) {
		(void)err_set(&e, -EINVAL, "there is nothing called \"%s\" (see occupy --help)",
			      opts_arg(o, 0));
		code = fail(EXIT_USAGE, e.text);
	} else {
		code = commands[i].run(o, &f);
	}
	(void)opts_free(o);
	occupy_files_clear(&f);
	return code;
}

static int run(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "";

	if (about_prints(&about, argc, argv))
		return EXIT_OK;
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
		help(stdout);
		return EXIT_OK;
	}
	for (size_t i = 0; i < ARRAY_LEN(commands); i++)
		if (strcmp(name, commands[i].name) == 0)
			return run_command(i, argc - 1, argv + 1);
	if (name[0])
		(void)fprintf(stderr, "occupy: there is no command \"%s\"\n", name);
	help(stderr);
	return EXIT_USAGE;
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	int code = run(argc, argv);

	if (fs_close_stdout(&e) < 0 && code == EXIT_OK) {
		(void)fprintf(stderr, "occupy: %s\n", e.text);
		return EXIT_FAILED;
	}
	return code;
}
