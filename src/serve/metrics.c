/* SPDX-License-Identifier: MIT */
#include "serve/metrics.h"

#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/hmap.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/str.h"
#include "model/model.h"
#include "serve/prom.h"
#include "serve/serve.h"

#define DEVICES_MAX 256
#define LANES_MAX   64 /* by name; the others together */
#define UUID_MAX    96
#define PULSE_MS    1000
#define OTHER	    "(other)"

static const double yield_bounds[] = { 0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1, 2, 5, 0 };
static const double task_bounds[] = { 1,     10,    60,	   300,	   900,	   3600, 7200,
				      21600, 43200, 86400, 259200, 604800, 0 };

/* What a device is used for, as time goes by. */
enum use { USE_HELD, USE_TASK, USE_FOREIGN, USE_IDLE, USE_LEFT, USE_UNKNOWN, USE_MAX };

static const char *const use_names[USE_MAX] = {
	"held", "task", "foreign", "idle", "left", "unknown"
};

static const struct {
	const char *state;
	enum use use;
} uses[] = {
	{ "held", USE_HELD },	   { "holding", USE_HELD }, { "yielding", USE_HELD },
	{ "lending", USE_TASK },   { "lent", USE_TASK },    { "workload", USE_TASK },
	{ "busy", USE_FOREIGN },   { "left", USE_LEFT },    { "idle", USE_IDLE },
	{ "unseen", USE_UNKNOWN }, { "mig", USE_UNKNOWN },
};

static const char *const outcomes[] = { "done", "failed", "requeued", "stopped" };

struct device_sums {
	char uuid[UUID_MAX];
	double use_s[USE_MAX], yields;
};

/* A task that waits, and since when it was seen to. */
struct waiting {
	struct hnode node;
	uint64_t id, since_ns, round;
};

struct metrics {
	struct serve *serve;
	pthread_mutex_t lock;
	char host[256];
	uint64_t next_event, pulsed_ns, round;
	double lost, outcomes[ARRAY_LEN(outcomes)], gpu_s;
	struct device_sums devices[DEVICES_MAX];
	size_t n_devices;
	struct prom_histogram to_verdict, to_freed, wait, run;
	struct hmap waiting;
	uint64_t version;
};

struct metrics *metrics_new(struct serve *s)
{
	struct metrics *m = xcalloc(1, sizeof(*m));

	m->serve = s;
	if (gethostname(m->host, sizeof(m->host) - 1) < 0)
		m->host[0] = '\0';
	m->to_verdict.bounds = m->to_freed.bounds = yield_bounds;
	m->wait.bounds = m->run.bounds = task_bounds;
	(void)pthread_mutex_init(&m->lock, NULL);
	return m;
}

/* ---- counting ---- */

static enum use use_of(const json_t *device)
{
	const char *state = json_get_str(device, "state");

	enum use use = USE_UNKNOWN;

	for (size_t i = 0; state && i < ARRAY_LEN(uses); i++)
		if (strcmp(uses[i].state, state) == 0)
			use = uses[i].use;
	if (use == USE_LEFT && json_get_num(device, "processes") > 0)
		return USE_FOREIGN;
	return use;
}

/* NULL: there are too many. */
static struct device_sums *sums_of(struct metrics *m, const char *uuid)
{
	for (size_t i = 0; i < m->n_devices; i++)
		if (strcmp(m->devices[i].uuid, uuid) == 0)
			return &m->devices[i];
	if (m->n_devices == DEVICES_MAX)
		return NULL;
	(void)str_copy(m->devices[m->n_devices].uuid, UUID_MAX, uuid);
	return &m->devices[m->n_devices++];
}

static struct waiting *find_waiting(struct metrics *m, uint64_t id)
{
	for (struct hnode *n = hmap_find(&m->waiting, id); n; n = hmap_same(n))
		if (((struct waiting *)n)->id == id)
			return (struct waiting *)n;
	return NULL;
}

static void drop_waiting(struct metrics *m, struct waiting *w)
{
	hmap_remove(&m->waiting, &w->node);
	free(w);
}

static void count_yield(struct metrics *m, const json_t *e)
{
	const char *uuid = json_get_str(e, "uuid");
	struct device_sums *d = uuid ? sums_of(m, uuid) : NULL;

	if (d)
		d->yields++;
	if (json_object_get(e, "hint_to_verdict_ms"))
		prom_observe(&m->to_verdict, json_get_num(e, "hint_to_verdict_ms") / 1e3);
	prom_observe(&m->to_freed, json_get_num(e, "verdict_to_freed_ms") / 1e3);
}

static void count_start(struct metrics *m, const json_t *e)
{
	struct waiting *w = find_waiting(m, json_get_u64(e, "task"));

	if (json_object_get(e, "allocation"))
		return;
	prom_observe(&m->wait, w ? (double)(clock_mono_ns() - w->since_ns) / 1e9 : 0);
	if (w && !json_object_get(e, "element"))
		drop_waiting(m, w);
}

static void count_end(struct metrics *m, const json_t *e)
{
	const char *outcome = json_get_str(e, "outcome");
	double ran_s = json_get_num(e, "ran_s");

	for (size_t i = 0; outcome && i < ARRAY_LEN(outcomes); i++)
		m->outcomes[i] += strcmp(outcomes[i], outcome) == 0;
	if (!json_object_get(e, "ran_s"))
		return;
	prom_observe(&m->run, ran_s);
	m->gpu_s += ran_s * (double)json_array_size(json_object_get(e, "uuids"));
}

static const struct {
	const char *event;
	void (*count)(struct metrics *m, const json_t *e);
} counted[] = {
	{ "yield", count_yield },
	{ "task-started", count_start },
	{ "task-ended", count_end },
};

static void count_event(struct metrics *m, const char *text)
{
	json_t *e = json_loads(text, 0, NULL);
	const char *kind = json_get_str(e, "event");

	for (size_t i = 0; kind && i < ARRAY_LEN(counted); i++)
		if (strcmp(counted[i].event, kind) == 0)
			counted[i].count(m, e);
	json_decref(e);
}

static void count_events(struct metrics *m, const struct model_snapshot *s)
{
	if (m->next_event < s->n_old) /* they were counted by whoever was there then */
		m->next_event = s->n_old;
	for (; m->next_event < s->n_events; m->next_event++) {
		struct model_mark mark = { .lost = 1 };
		cleanup_free char *text = model_event(m->serve->model, m->next_event, &mark);

		m->lost += (double)mark.lost;
		if (text)
			count_event(m, text);
	}
}

static void count_use(struct metrics *m, const struct model_snapshot *s, double passed_s)
{
	json_t *device;
	size_t i;

	for (i = 0; i < m->n_devices && !s->connected; i++)
		m->devices[i].use_s[USE_UNKNOWN] += passed_s;
	json_array_foreach(json_object_get(s->status, "devices"), i, device)
	{
		const char *uuid = json_get_str(device, "uuid");
		struct device_sums *d = uuid ? sums_of(m, uuid) : NULL;

		if (d)
			d->use_s[use_of(device)] += passed_s;
	}
}

/* Who is in the queue for the first time waits since now; who is not in it any more does not. */
static void note_waiting(struct metrics *m, const struct model_snapshot *s)
{
	uint64_t now = clock_mono_ns();
	struct hnode *next;

	m->round++;
	for (size_t i = 0; i < s->rows.n; i++) {
		const struct row *row = &s->rows.all[i];
		struct waiting *w;

		if (row->state != TASKSTATE_PENDING || row->name.element)
			continue;
		w = find_waiting(m, row->name.id);
		if (!w) {
			w = xcalloc(1, sizeof(*w));
			w->id = row->name.id;
			w->since_ns = now;
			hmap_insert(&m->waiting, &w->node, w->id);
		}
		w->round = m->round;
	}
	for (struct hnode *n = hmap_next(&m->waiting, NULL); n; n = next) {
		struct waiting *w = (struct waiting *)n;

		next = hmap_next(&m->waiting, n);
		if (w->round + 2 < m->round) /* its start may be told a moment later */
			drop_waiting(m, w);
	}
}

void metrics_pulse(struct metrics *m)
{
	const struct model_snapshot *s = model_get(m->serve->model);
	uint64_t now = clock_mono_ns();

	(void)pthread_mutex_lock(&m->lock);
	count_events(m, s);
	if (now - m->pulsed_ns >= PULSE_MS * NS_PER_MS) {
		if (m->pulsed_ns)
			count_use(m, s, (double)(now - m->pulsed_ns) / 1e9);
		m->pulsed_ns = now;
		if (s->version != m->version)
			note_waiting(m, s);
		m->version = s->version;
	}
	(void)pthread_mutex_unlock(&m->lock);
	s = model_put(s);
}

/* ---- telling: devices ---- */

static const json_t *member(const json_t *o, const char *path)
{
	char key[40];

	while (o && *path) {
		size_t n = strcspn(path, ".");

		(void)str_copy(key, n + 1 < sizeof(key) ? n + 1 : sizeof(key), path);
		o = json_object_get(o, key);
		path += n + (path[n] == '.');
	}
	return o;
}

/* A figure that is told as it is, by its place in the status. */
struct figure {
	const char *name, *path;
	enum prom_type type;
	double factor;
	const char *help;
};

static const struct figure figures[] = {
	{ "tenure_device_memory_size_bytes", "memory_total_bytes", PROM_GAUGE, 1,
	  "Memory that the device has." },
	{ "tenure_device_memory_used_bytes", "memory_used_bytes", PROM_GAUGE, 1,
	  "Memory in use, whoever has it." },
	{ "tenure_device_utilisation_ratio", "utilisation", PROM_GAUGE, 0.01,
	  "Part of the time in which a kernel ran." },
	{ "tenure_device_power_watts", "power_w", PROM_GAUGE, 1, "Power that it takes." },
	{ "tenure_device_power_limit_watts", "power_limit_w", PROM_GAUGE, 1,
	  "Power that it may take." },
	{ "tenure_device_temperature_celsius", "temperature_c", PROM_GAUGE, 1, "Its temperature." },
	{ "tenure_device_processes", "processes", PROM_GAUGE, 1, "Processes that use it." },
	{ "tenure_device_xid", "xid", PROM_GAUGE, 1, "The error (XID) for which it is not used." },
	{ "tenure_device_energy_joules", "health.energy_j", PROM_COUNTER, 1,
	  "Energy since the driver was loaded." },
	{ "tenure_device_clock_sm_hertz", "health.clock_sm_mhz", PROM_GAUGE, 1e6,
	  "Clock of its multiprocessors." },
	{ "tenure_device_clock_memory_hertz", "health.clock_memory_mhz", PROM_GAUGE, 1e6,
	  "Clock of its memory." },
	{ "tenure_device_ecc_uncorrected_errors", "health.ecc.aggregate_uncorrected", PROM_COUNTER,
	  1, "Errors of its memory that could not be corrected, in its life." },
	{ "tenure_device_pcie_replays", "health.pcie.replays", PROM_COUNTER, 1,
	  "Packets that PCIe sent again." },
};

typedef void (*sample_fn)(struct prom *p, const struct model_snapshot *s, const json_t *device,
			  double value);

static void tell_sample(struct prom *p, const struct model_snapshot *s, const json_t *device,
			double value)
{
	prom_sample(p, value, "uuid", json_get_str(device, "uuid"), NULL);
}

static void tell_figures(struct prom *p, const struct model_snapshot *s, const json_t *devices,
			 const struct figure *all, size_t n, sample_fn sample)
{
	json_t *d;
	size_t i;

	for (size_t f = 0; f < n; f++) {
		prom_family(p, all[f].name, all[f].type, all[f].help);
		json_array_foreach(devices, i, d)
		{
			const json_t *v = member(d, all[f].path);

			if (json_is_number(v))
				sample(p, s, d, json_number_value(v) * all[f].factor);
		}
	}
}

static void tell_info(struct prom *p, const struct model_snapshot *s, const json_t *devices)
{
	char gpu[16], mig[16];
	json_t *d;
	size_t i;

	prom_family(p, "tenure_device", PROM_INFO,
		    "What a device is: to be joined with others by uuid.");
	json_array_foreach(devices, i, d)
	{
		bool is_mig = json_is_integer(json_object_get(d, "mig"));

		(void)str_print(gpu, sizeof(gpu), "%u", json_get_small(d, "gpu", 9999));
		(void)str_print(mig, sizeof(mig), "%u", json_get_small(d, "mig", 9999));
		prom_sample(p, 1, "uuid", json_get_str(d, "uuid"), "gpu", gpu, "mig",
			    is_mig ? mig : NULL, "model", json_get_str(d, "name"), "node",
			    json_get_str(s->status, "host"), NULL);
	}
	prom_family(p, "tenure_device_state", PROM_GAUGE, "1: it is in that state.");
	json_array_foreach(devices, i, d)
	{
		for (size_t k = 0; k < ARRAY_LEN(uses); k++)
			prom_sample(p, strcmp(uses[k].state, json_get_str(d, "state") ?: "") == 0,
				    "uuid", json_get_str(d, "uuid"), "state", uses[k].state, NULL);
	}
}

/* Of what is used, what is held is ours, and the rest a task's or somebody else's. */
static void tell_memory(struct prom *p, const json_t *devices)
{
	json_t *d;
	size_t i;

	prom_family(p, "tenure_device_memory_bytes", PROM_GAUGE, "Memory by who has it.");
	json_array_foreach(devices, i, d)
	{
		const char *uuid = json_get_str(d, "uuid");
		double held = json_get_num(d, "held_bytes");
		double used = json_get_num(d, "memory_used_bytes");
		double rest = used > held ? used - held : 0;
		bool task = use_of(d) == USE_TASK;

		if (!json_is_number(json_object_get(d, "memory_used_bytes")))
			continue;
		prom_sample(p, held, "uuid", uuid, "owner", "held", NULL);
		prom_sample(p, task ? rest : 0, "uuid", uuid, "owner", "task", NULL);
		prom_sample(p, task ? 0 : rest, "uuid", uuid, "owner", "other", NULL);
		prom_sample(p, json_get_num(d, "memory_free_bytes"), "uuid", uuid, "owner", "free",
			    NULL);
	}
}

static void tell_xids(struct prom *p, const json_t *devices)
{
	const json_t *d, *count;
	size_t i, k;

	prom_family(p, "tenure_device_xid_errors", PROM_COUNTER,
		    "Errors (XIDs) that the driver has reported of it since the guard started; 0: "
		    "those beyond seven different ones.");
	json_array_foreach(devices, i, d)
	{
		json_array_foreach(json_object_get(d, "xids"), k, count)
		{
			char xid[16];

			(void)str_print(xid, sizeof(xid), "%u",
					json_get_small(count, "xid", UINT32_MAX));
			prom_sample(p, json_get_num(count, "n"), "uuid", json_get_str(d, "uuid"),
				    "xid", xid, NULL);
		}
	}
}

static void tell_sums(struct prom *p, const struct metrics *m)
{
	prom_family(p, "tenure_device_use_seconds", PROM_COUNTER,
		    "Time by what it was used for, as seen by this program.");
	for (size_t i = 0; i < m->n_devices; i++)
		for (size_t u = 0; u < USE_MAX; u++)
			prom_sample(p, m->devices[i].use_s[u], "uuid", m->devices[i].uuid, "use",
				    use_names[u], NULL);
	prom_family(p, "tenure_yields", PROM_COUNTER, "Times that it was let go for a newcomer.");
	for (size_t i = 0; i < m->n_devices; i++)
		prom_sample(p, m->devices[i].yields, "uuid", m->devices[i].uuid, NULL);
	prom_family(p, "tenure_yield_open_to_verdict_seconds", PROM_HISTOGRAM,
		    "From a newcomer's first sign to the verdict that it is one.");
	prom_histogram(p, &m->to_verdict);
	prom_family(p, "tenure_yield_verdict_to_freed_seconds", PROM_HISTOGRAM,
		    "From the verdict until the device was free.");
	prom_histogram(p, &m->to_freed);
}

/* ---- telling: tasks, agent, engines ---- */

struct lane_counts {
	const char *lane;
	double n[TASKSTATE_MAX];
};

static struct lane_counts *counts_of(struct lane_counts *all, size_t *n, const char *lane)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(all[i].lane, lane) == 0)
			return &all[i];
	if (*n < LANES_MAX)
		all[*n].lane = lane;
	else
		all[LANES_MAX].lane = OTHER;
	return &all[*n < LANES_MAX ? (*n)++ : LANES_MAX];
}

static void tell_tasks(struct prom *p, const struct metrics *m, const struct model_snapshot *s)
{
	struct lane_counts *lanes = xcalloc(LANES_MAX + 1, sizeof(*lanes));
	size_t n = 0;

	for (size_t i = 0; i < s->rows.n; i++)
		counts_of(lanes, &n, s->rows.all[i].name.lane)->n[s->rows.all[i].state]++;
	prom_family(p, "tenure_tasks", PROM_GAUGE,
		    "Tasks, and elements that run, by lane (empty: in none) and state.");
	for (size_t i = 0; i < LANES_MAX + 1; i++)
		for (unsigned int k = 0; lanes[i].lane && k <= TASKSTATE_RUNNING; k++)
			prom_sample(p, lanes[i].n[k], "lane", lanes[i].lane, "state",
				    taskstate_name(k), NULL);
	free(lanes);
	prom_family(p, "tenure_task_ends", PROM_COUNTER, "Attempts that ended, by how.");
	for (size_t i = 0; i < ARRAY_LEN(outcomes); i++)
		prom_sample(p, m->outcomes[i], "result", outcomes[i], NULL);
	prom_family(p, "tenure_task_wait_seconds", PROM_HISTOGRAM,
		    "How long tasks were seen to wait before they started.");
	prom_histogram(p, &m->wait);
	prom_family(p, "tenure_task_run_seconds", PROM_HISTOGRAM, "How long attempts ran.");
	prom_histogram(p, &m->run);
	prom_family(p, "tenure_task_gpu_seconds", PROM_COUNTER,
		    "Time of attempts that ended, times the GPUs that they had.");
	prom_sample(p, m->gpu_s, NULL, NULL);
}

static void tell_number(struct prom *p, const char *name, const char *help, const json_t *v)
{
	prom_family(p, name, PROM_GAUGE, help);
	if (json_is_number(v))
		prom_sample(p, json_number_value(v), NULL, NULL);
}

static void tell_agent(struct prom *p, const struct metrics *m, const struct model_snapshot *s)
{
	const json_t *agent = json_object_get(s->status, "agent");
	const json_t *guard = json_object_get(s->status, "guard");

	/* Prometheus itself calls whom it asks "instance". */
	prom_family(p, "tenure_build", PROM_INFO, "Of this program, its queue and its node.");
	prom_sample(p, 1, "version", TENURE_VERSION, "tenure_instance", m->serve->instance, "node",
		    m->host, NULL);
	prom_family(p, "tenure_agent_up", PROM_GAUGE, "1: the agent of this node answers.");
	prom_sample(p, s->connected, NULL, NULL);
	prom_family(p, "tenure_guard_up", PROM_GAUGE, "1: its guard is connected.");
	prom_sample(p, s->connected && json_get_flag(guard, "connected"), NULL, NULL);
	tell_number(p, "tenure_guard_heartbeat_age_seconds", "Since its last heartbeat.",
		    json_object_get(guard, "age_s"));
	tell_number(p, "tenure_agent_uptime_seconds", "Since its start.",
		    json_object_get(agent, "uptime_s"));
	tell_number(p, "tenure_agent_lifetime_left_seconds", "Until it ends by itself.",
		    member(agent, "lifetime.left_s"));
	prom_family(p, "tenure_events_lost", PROM_COUNTER,
		    "Events that were not heard of, and are not counted here.");
	prom_sample(p, m->lost, NULL, NULL);
	prom_family(p, "tenure_queue_up", PROM_GAUGE, "1: the queue can be read.");
	prom_sample(p, s->read && !s->queue_trouble[0], NULL, NULL);
	tell_number(p, "tenure_queue_retries_waiting", "Tasks that wait for their next attempt.",
		    member(s->status, "queue.awaiting_retry"));
}

static void tell_nodes(struct prom *p, const struct model_snapshot *s)
{
	json_t *nodes = model_nodes(s), *node;
	size_t i;

	prom_family(p, "tenure_node_heartbeat_age_seconds", PROM_GAUGE,
		    "Since the heartbeat of an agent of the instance was written.");
	json_array_foreach(nodes, i, node)
	{
		if (json_is_number(json_object_get(node, "age_s")))
			prom_sample(p, json_get_num(node, "age_s"), "agent",
				    json_get_str(node, "agent"), NULL);
	}
	json_decref(nodes);
}

/* Of an engine's jobs that have not ended. */
static void tell_pool_jobs(struct prom *p, const json_t *pools)
{
	static const char *const states[] = { "waiting",   "held",   "starting", "running",
					      "suspended", "ending", "unknown" };
	const json_t *pool, *job;
	size_t i, k;

	prom_family(p, "tenure_pool_jobs", PROM_GAUGE,
		    "Jobs that have not ended, by what the engine said of them last.");
	json_array_foreach(pools, i, pool)
	{
		double n[ARRAY_LEN(states)] = { 0 };

		json_array_foreach(json_object_get(pool, "jobs"), k, job)
		{
			for (size_t at = 0; at < ARRAY_LEN(states); at++)
				n[at] += !json_get_flag(job, "ended") &&
					 strcmp(json_get_str(job, "state") ?: "", states[at]) == 0;
		}
		for (size_t at = 0; at < ARRAY_LEN(states); at++)
			prom_sample(p, n[at], "pool", json_get_str(pool, "pool"), "engine",
				    json_get_str(pool, "engine"), "state", states[at], NULL);
	}
}

/* What ticks of any node asked engines for; the counts are in the queue's directory. */
static void tell_commands(struct prom *p, const json_t *pools)
{
	static const struct {
		const char *name, *member, *help;
	} rows[] = {
		{ "tenure_engine_commands", "n",
		  "Commands of the engine that were run for the pool." },
		{ "tenure_engine_command_errors", "errors", "Those that failed." },
		{ "tenure_engine_command_seconds", "seconds", "Time that they took." },
	};
	const json_t *pool, *count;
	const char *command;
	size_t i;

	for (size_t row = 0; row < ARRAY_LEN(rows); row++) {
		prom_family(p, rows[row].name, PROM_COUNTER, rows[row].help);
		json_array_foreach(pools, i, pool)
		{
			json_object_foreach(json_object_get(pool, "commands"), command, count)
			{
				prom_sample(p, json_get_num(count, rows[row].member), "pool",
					    json_get_str(pool, "pool"), "engine",
					    json_get_str(pool, "engine"), "command", command, NULL);
			}
		}
	}
}

static void tell_pools(struct prom *p, const struct model_snapshot *s)
{
	static const char *const counts[] = { "wanted", "live", "waiting" };
	json_t *pool;
	size_t i;

	prom_family(p, "tenure_pool_nodes", PROM_GAUGE, "Nodes of an engine, by what they are.");
	json_array_foreach(s->pools, i, pool)
	{
		for (size_t k = 0; k < ARRAY_LEN(counts); k++)
			prom_sample(p, json_get_num(pool, counts[k]), "pool",
				    json_get_str(pool, "pool"), "engine",
				    json_get_str(pool, "engine"), "what", counts[k], NULL);
	}
	tell_pool_jobs(p, s->pools);
	tell_commands(p, s->pools);
	prom_family(p, "tenure_pool_failing", PROM_GAUGE, "1: its engine gives an error.");
	json_array_foreach(s->pools, i, pool)
	{
		prom_sample(p, json_get_str(pool, "error") != NULL, "pool",
			    json_get_str(pool, "pool"), NULL);
	}
}

/* ---- dcgm-exporter's names ---- */

static const struct figure dcgm[] = {
	{ "DCGM_FI_DEV_SM_CLOCK", "health.clock_sm_mhz", PROM_GAUGE, 1,
	  "SM clock frequency (in MHz)." },
	{ "DCGM_FI_DEV_MEM_CLOCK", "health.clock_memory_mhz", PROM_GAUGE, 1,
	  "Memory clock frequency (in MHz)." },
	{ "DCGM_FI_DEV_GPU_TEMP", "temperature_c", PROM_GAUGE, 1, "GPU temperature (in C)." },
	{ "DCGM_FI_DEV_POWER_USAGE", "power_w", PROM_GAUGE, 1, "Power draw (in W)." },
	{ "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION", "health.energy_j", PROM_AS_IT_IS, 1000,
	  "Total energy consumption since boot (in mJ)." },
	{ "DCGM_FI_DEV_PCIE_REPLAY_COUNTER", "health.pcie.replays", PROM_AS_IT_IS, 1,
	  "Total number of PCIe retries." },
	{ "DCGM_FI_DEV_GPU_UTIL", "utilisation", PROM_GAUGE, 1, "GPU utilization (in %)." },
	{ "DCGM_FI_DEV_XID_ERRORS", "xid", PROM_GAUGE, 1,
	  "Value of the last XID error encountered." },
	{ "DCGM_FI_DEV_FB_FREE", "memory_free_bytes", PROM_GAUGE, 1 / (double)MIB,
	  "Framebuffer memory free (in MiB)." },
	{ "DCGM_FI_DEV_FB_USED", "memory_used_bytes", PROM_GAUGE, 1 / (double)MIB,
	  "Framebuffer memory used (in MiB)." },
	{ "DCGM_FI_DEV_UNCORRECTABLE_REMAPPED_ROWS", "health.rows.uncorrected", PROM_AS_IT_IS, 1,
	  "Number of remapped rows for uncorrectable errors." },
	{ "DCGM_FI_DEV_CORRECTABLE_REMAPPED_ROWS", "health.rows.corrected", PROM_AS_IT_IS, 1,
	  "Number of remapped rows for correctable errors." },
};

static void tell_dcgm_sample(struct prom *p, const struct model_snapshot *s, const json_t *d,
			     double value)
{
	char gpu[16], device[32], mig[16];
	bool is_mig = json_is_integer(json_object_get(d, "mig"));

	(void)str_print(gpu, sizeof(gpu), "%u", json_get_small(d, "gpu", 9999));
	(void)str_print(device, sizeof(device), "nvidia%s", gpu);
	(void)str_print(mig, sizeof(mig), "%u", json_get_small(d, "mig", 9999));
	prom_sample(p, value, "gpu", gpu, "UUID", json_get_str(d, "uuid"), "device", device,
		    "modelName", json_get_str(d, "name"), "GPU_I_ID", is_mig ? mig : NULL,
		    "Hostname", json_get_str(s->status, "host"), NULL);
}

/* ---- the answer ---- */

static void tell(struct prom *p, struct metrics *m, const struct model_snapshot *s,
		 const json_t *devices)
{
	(void)pthread_mutex_lock(&m->lock);
	tell_agent(p, m, s);
	tell_info(p, s, devices);
	tell_figures(p, s, devices, figures, ARRAY_LEN(figures), tell_sample);
	tell_memory(p, devices);
	tell_xids(p, devices);
	tell_sums(p, m);
	tell_tasks(p, m, s);
	tell_nodes(p, s);
	tell_pools(p, s);
	prom_family(p, "tenure_serve_streams", PROM_GAUGE, "Streams that this program serves now.");
	prom_sample(p, (double)streams_count(m->serve->streams), NULL, NULL);
	(void)pthread_mutex_unlock(&m->lock);
}

/* Of "a/b; version=1;q=0.5, c/d": that type is there, and is not said to be unwanted. */
static bool accepts(const char *accept, const char *type)
{
	while (accept && *accept) {
		size_t n = strcspn(accept, ",");
		cleanup_free char *one = xasprintf("%.*s", (int)n, accept);
		char *rest = NULL, *word = strtok_r(one, "; \t", &rest);
		bool found = word && strcasecmp(word, type) == 0, wanted = true;

		while (found && (word = strtok_r(NULL, "; \t", &rest)))
			if (strncasecmp(word, "q=", 2) == 0)
				wanted = strtod(word + 2, NULL) > 0;
		if (found)
			return wanted;
		accept += n + (accept[n] == ',');
	}
	return false;
}

void metrics_answer(struct serve *s, struct request *r)
{
	const char *accept = request_header(r, MHD_HTTP_HEADER_ACCEPT);
	const char *names = request_query(r, "names");
	bool as_dcgm = names && strcmp(names, "dcgm") == 0;
	struct prom p = { .open = !as_dcgm && accepts(accept, "application/openmetrics-text") };
	const struct model_snapshot *m;
	const json_t *devices;
	size_t len;

	if (names && !as_dcgm) {
		answer_problem(&r->answer, MHD_HTTP_BAD_REQUEST,
			       "names is dcgm, or not there for tenure's own");
		return;
	}
	m = model_get(s->model);
	devices = m->connected ? json_object_get(m->status, "devices") : NULL;
	if (as_dcgm)
		tell_figures(&p, m, devices, dcgm, ARRAY_LEN(dcgm), tell_dcgm_sample);
	else
		tell(&p, s->metrics, m, devices);
	m = model_put(m);
	prom_end(&p);
	len = p.text.len;
	answer_text(&r->answer, MHD_HTTP_OK,
		    p.open ? "application/openmetrics-text; version=1.0.0; charset=utf-8"
			   : "text/plain; version=0.0.4; charset=utf-8",
		    strbuf_take(&p.text), len);
}
