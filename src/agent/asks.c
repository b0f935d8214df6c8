/* SPDX-License-Identifier: MIT */
#include "agent/asks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <uv.h>

#include "agent/ask_wire.h"
#include "agent/attempt/attempt.h"
#include "agent/dispatch.h"
#include "agent/dispatch_state.h"
#include "agent/node/left.h"
#include "agent/parts.h"
#include "agent/queue/spooler.h"
#include "agent/report/eventlog.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define PACE_MS	      100
#define ACCEPT_MOST   256 /* in that time; who comes too often costs a look and no more */
#define PEERS_MOST    16  /* connections at once, and of each user */
#define PEERS_EACH    4
#define PEER_LIMIT_NS NS_PER_S /* until its request has come */
#define RATE_USERS    16       /* that are remembered for a second */
#define RATE_EACH     8	       /* requests in a second of each, and of all */
#define RATE_ALL      32
#define OPEN_EACH     8 /* open asks, and of all */
#define OPEN_MOST     32
#define LISTED_MOST   (2 * OPEN_EACH)
#define KEPT_MOST     64 /* with those that are over, whose end may be asked for */
#define ASK_LIMIT_NS  (3600 * NS_PER_S)
#define NAME_WAIT_NS  NS_PER_S /* for a user's name */
#define LISTEN_LOOKS  30       /* seconds between two tries */

_Static_assert(KEPT_MOST <= VIEW_SPARED_MAX, "each of them may spare a device");
_Static_assert(KEPT_MOST <= LEFT_MAX, "and be remembered");
_Static_assert(ASK_UUID_MAX == LEFT_UUID_MAX && ASK_MESSAGE_MAX + 1 == LEFT_TEXT_MAX,
	       "its texts, too");

/*
 *	open -> yes		our user gives it; it is spared for who asked
 *		-> used		they have come to it
 *		-> lapsed	they have not, and the time is over
 *	     -> no, expired
 *	     -> free		no task has it any more, and it is spared for nobody
 *	     -> given		it was spared for somebody else, who has come to it
 */
enum ask_state {
	ASK_OPEN,
	ASK_GRANTED,
	ASK_USED,
	ASK_LAPSED,
	ASK_REFUSED,
	ASK_FREE,
	ASK_GIVEN,
	ASK_EXPIRED,
	ASK_STATE_MAX
};

static const char *const state_names[ASK_STATE_MAX] = {
	[ASK_OPEN] = "open",	 [ASK_GRANTED] = "yes",	    [ASK_USED] = "used",
	[ASK_LAPSED] = "lapsed", [ASK_REFUSED] = "no",	    [ASK_FREE] = "free",
	[ASK_GIVEN] = "given",	 [ASK_EXPIRED] = "expired",
};

struct ask {
	uint64_t id; /* 0: none */
	uid_t uid;
	enum ask_state state;
	bool told;  /* our user was */
	bool alone; /* no task had it when it was looked at last, and it was spared for nobody */
	uint64_t at_ns, at_wall_ns;
	uint64_t ended_ns;	      /* it was open until then */
	uint64_t spare_until_ns;      /* granted: monotonic; 0: it is not spared (any more) */
	uint64_t spare_until_wall_ns; /* granted */
	uid_t given_uid;	      /* given: to whom */
	int gpu, mig;
	char uuid[ASK_UUID_MAX];
	char message[ASK_MESSAGE_MAX + 1], answer[ASK_MESSAGE_MAX + 1];
};

struct rate {
	uid_t uid;
	uint64_t since_ns;
	unsigned int n;
};

struct peer {
	struct asks *k;
	struct peer *next;
	uid_t uid;
	int fd;
	uv_poll_t poll;
	uint64_t until_ns;
	bool closing;
};

struct asks {
	struct agent *a;
	int fd; /* listens; -1 */
	uv_poll_t listener;
	uv_timer_t pace;
	int open_handles;
	bool closing, said;
	unsigned int looks; /* until it tries to listen again */
	struct peer *peers;
	struct rate rates[RATE_USERS], all;
	uint64_t last_id;
	struct ask kept[KEPT_MOST];
	struct view_spared spared;
	char *left_path;
	struct left_job *job; /* reads or writes that file; NULL: none does */
	bool unsaved;
};

/* -------- what is asked for -------- */

static const struct dev_status *device_of(const struct agent *a, const char *uuid)
{
	for (uint32_t i = 0; i < a->view.n_slots; i++)
		if (a->view.seen[i] && !strcmp(a->view.devices[i].uuid, uuid))
			return &a->view.devices[i];
	return NULL;
}

/* The first after that one; NULL: from the beginning. Several tasks may share a device. */
static struct attempt *next_on(const struct agent *a, const struct attempt *after, const char *uuid)
{
	struct attempt *r = after ? after->next : a->queue->place.tasks;

	while (r && !text_list_has(&r->uuids, uuid))
		r = r->next;
	return r;
}

/* A lease of ours there is for a task, though none of it has come, or its attempt is only begun. */
static const struct lease_id *lease_on(const struct agent *a, const char *uuid)
{
	const struct dev_status *d = device_of(a, uuid);
	enum view_use use = d ? view_use_of(d) : VIEW_UNUSED;

	if ((use != VIEW_RESERVED && use != VIEW_BY_TASK) ||
	    strcmp(d->lease_instance, a->c->instance) != 0)
		return NULL;
	return &d->lease;
}

static bool has_task(const struct agent *a, const char *uuid)
{
	return next_on(a, NULL, uuid) || lease_on(a, uuid);
}

/* For whom a device is spared; NULL: for nobody. */
static const struct ask *spared_for(const struct asks *k, const char *uuid)
{
	for (size_t i = 0; i < KEPT_MOST; i++)
		if (k->kept[i].id && k->kept[i].spare_until_ns && !strcmp(k->kept[i].uuid, uuid))
			return &k->kept[i];
	return NULL;
}

/* Which task has the device. */
static void add_task(const struct asks *k, const struct ask *ask, json_t *o)
{
	const struct attempt *r = next_on(k->a, NULL, ask->uuid);
	const struct lease_id *lease = r ? NULL : lease_on(k->a, ask->uuid);
	uint64_t id = r ? r->ref.id : lease ? lease->task : 0;
	uint32_t element = r ? r->ref.element : lease ? lease->element : 0;

	if (id)
		(void)json_object_set_new(o, "task", json_integer((json_int_t)id));
	if (element)
		(void)json_object_set_new(o, "element", json_integer(element));
	if (r && r->spec)
		(void)json_object_set_new(o, "name", json_new_text(r->spec->name));
}

static json_t *members(const struct asks *k, const struct ask *ask)
{
	const struct user_names *names = eventlog_names(k->a->eventlog);
	const char *user = names->name(names->user, ask->uid);
	const struct view_left *left = view_left_of(&k->a->view, ask->uuid);
	json_t *o = json_pack(
		"{sI sI so si ss}", "ask", (json_int_t)ask->id, "uid", (json_int_t)ask->uid, "user",
		user ? json_new_text(user) : json_null(), "gpu", ask->gpu, "uuid", ask->uuid);

	if (ask->mig >= 0)
		(void)json_object_set_new(o, "mig", json_integer(ask->mig));
	add_task(k, ask, o);
	if (left && left->uid != ask->uid)
		(void)json_object_set_new(o, "left_to", json_new_text(left->user));
	(void)json_object_set_new(o, "message", json_new_text(ask->message));
	return o;
}

/* With the name of its user, where that is found soon, or as it is. */
static void tell(struct asks *k, struct ask *ask, bool now)
{
	const struct user_names *names = eventlog_names(k->a->eventlog);

	if (ask->told || (!now && !names->name(names->user, ask->uid) &&
			  clock_mono_ns() < ask->at_ns + NAME_WAIT_NS))
		return;
	ask->told = true;
	eventlog_tell(k->a->eventlog, OWN_ASKED, members(k, ask));
}

static void end(struct asks *k, struct ask *ask, enum ask_state state, const char *message)
{
	json_t *o;

	tell(k, ask, true);
	ask->state = state;
	ask->ended_ns = clock_mono_ns();
	(void)str_copy(ask->answer, sizeof(ask->answer), message);
	o = members(k, ask);
	(void)json_object_set_new(o, "answer", json_string(state_names[state]));
	(void)json_object_set_new(o, "message", json_new_text(ask->answer));
	eventlog_tell(k->a->eventlog, OWN_ANSWERED, o);
}

/* -------- what is left alone -------- */

struct left_job {
	struct spool_job job;
	struct asks *k; /* NULL: they are closed */
	char *path;
	bool reads;
	int n;
	struct left_device all[LEFT_MAX];
};

static void left_work(struct spool_job *job, struct spool_place *place)
{
	struct left_job *l = (struct left_job *)job;

	if (l->reads)
		l->n = left_read(l->path, clock_wall_ns(), l->all, NULL);
	else if (left_write(l->path, l->all, (size_t)l->n, NULL) < 0)
		l->n = -1;
}

static void take_left(struct asks *k, const struct left_device *all, int n);
static void begin_to_listen(struct asks *k);

static void left_done(struct spool_job *job)
{
	struct left_job *l = (struct left_job *)job;
	struct asks *k = l->k;

	if (k) {
		k->job = NULL;
		k->unsaved = k->unsaved || l->n < 0; /* the next look tries again */
		if (l->reads)
			take_left(k, l->all, l->n);
		if (k->fd < 0)
			begin_to_listen(k);
	}
	free(l->path);
	free(l);
}

static struct left_job *begin_job(struct asks *k, bool reads)
{
	struct left_job *l = xcalloc(1, sizeof(*l));

	l->job = (struct spool_job){ .work = left_work, .done = left_done };
	l->k = k;
	l->path = xstrdup(k->left_path);
	l->reads = reads;
	k->job = l;
	return l;
}

static void save(struct asks *k)
{
	struct left_job *l;

	if (!k->unsaved || k->job)
		return;
	k->unsaved = false;
	l = begin_job(k, false);
	for (size_t i = 0; i < KEPT_MOST; i++) {
		const struct ask *ask = &k->kept[i];
		struct left_device *d = &l->all[l->n];

		if (!ask->id || !ask->spare_until_ns)
			continue;
		*d = (struct left_device){ .ask = ask->id,
					   .uid = ask->uid,
					   .gpu = ask->gpu,
					   .mig = ask->mig,
					   .asked_wall_ns = ask->at_wall_ns,
					   .until_wall_ns = ask->spare_until_wall_ns };
		(void)str_copy(d->uuid, sizeof(d->uuid), ask->uuid);
		(void)str_copy(d->message, sizeof(d->message), ask->message);
		(void)str_copy(d->answer, sizeof(d->answer), ask->answer);
		l->n++;
	}
	spooler_do(k->a->queue->spooler, &l->job);
}

static void show_left(const struct asks *k, const struct ask *ask, struct view_left *ret)
{
	const struct user_names *names = eventlog_names(k->a->eventlog);
	const char *user = names->name(names->user, ask->uid);

	(void)str_copy(ret->uuid, sizeof(ret->uuid), ask->uuid);
	ret->uid = ask->uid;
	ret->until_wall_ns = ask->spare_until_wall_ns;
	if (user)
		(void)str_copy(ret->user, sizeof(ret->user), user);
	else
		(void)str_print(ret->user, sizeof(ret->user), "uid %u", (unsigned int)ask->uid);
}

static void spare(struct asks *k)
{
	struct view_spared now;

	(void)memset(&now, 0, sizeof(now)); /* what lies between its members is compared, too */
	for (size_t i = 0; i < KEPT_MOST; i++)
		if (k->kept[i].id && k->kept[i].spare_until_ns)
			show_left(k, &k->kept[i], &now.all[now.n++]);
	/* One may begin in the moment in which another one ends. */
	if (memcmp(&now, &k->spared, sizeof(now)) == 0)
		return;
	k->spared = now;
	k->unsaved = true;
	save(k);
	dispatch_plan_soon(k->a->queue);
}

/* Others who wait for it need not any more. */
static void give(struct asks *k, const struct ask *to)
{
	for (size_t i = 0; i < KEPT_MOST; i++) {
		struct ask *ask = &k->kept[i];

		if (!ask->id || ask->state != ASK_OPEN || strcmp(ask->uuid, to->uuid) != 0)
			continue;
		ask->given_uid = to->uid;
		end(k, ask, ASK_GIVEN, "");
	}
}

/* Who asked has come, or does not. */
static void look_at_spared(struct asks *k)
{
	uint64_t now = clock_mono_ns();

	for (size_t i = 0; i < KEPT_MOST; i++) {
		struct ask *ask = &k->kept[i];
		const struct dev_status *d =
			ask->spare_until_ns ? device_of(k->a, ask->uuid) : NULL;
		bool came = d && d->who_pid > 0 && !(d->flags & DEVICE_VACANT) &&
			    d->who_uid == ask->uid && !next_on(k->a, NULL, ask->uuid);

		if (!ask->spare_until_ns || (!came && now < ask->spare_until_ns))
			continue;
		ask->spare_until_ns = 0;
		ask->state = came ? ASK_USED : ASK_LAPSED;
		if (came)
			give(k, ask);
	}
	spare(k);
}

/* What the agent before this one has promised. */
static void take_left(struct asks *k, const struct left_device *all, int n)
{
	uint64_t wall = clock_wall_ns(), now = clock_mono_ns();

	for (int i = 0; i < n && i < KEPT_MOST; i++) {
		const struct left_device *d = &all[i];
		struct ask *ask = &k->kept[i];

		if (d->until_wall_ns <= wall)
			continue;
		*ask = (struct ask){ .id = d->ask,
				     .uid = d->uid,
				     .state = ASK_GRANTED,
				     .told = true,
				     .at_ns = now,
				     .at_wall_ns = d->asked_wall_ns,
				     .ended_ns = now,
				     .spare_until_ns = now + (d->until_wall_ns - wall),
				     .spare_until_wall_ns = d->until_wall_ns,
				     .gpu = d->gpu,
				     .mig = d->mig };
		(void)str_copy(ask->uuid, sizeof(ask->uuid), d->uuid);
		(void)str_copy(ask->message, sizeof(ask->message), d->message);
		(void)str_copy(ask->answer, sizeof(ask->answer), d->answer);
		k->last_id = ask->id > k->last_id ? ask->id : k->last_id;
	}
	spare(k);
}

void asks_on_device(struct agent *a)
{
	if (a->asks)
		look_at_spared(a->asks);
}

/* -------- requests -------- */

static json_t *refusal(int code, const char *why)
{
	return json_pack("{s:i, s:s}", "code", code, "error", why);
}

/* What who asks is told of it. `left_to` is for whom the device is spared, until `left_until`, or
 * to whom it was given. */
static json_t *ask_json(const struct asks *k, const struct ask *ask)
{
	const struct ask *first = ask->spare_until_ns	   ? ask
				  : ask->state == ASK_OPEN ? spared_for(k, ask->uuid)
							   : NULL;
	char at[CLOCK_TEXT_MAX], until[CLOCK_TEXT_MAX];
	json_t *to = first		       ? json_integer((json_int_t)first->uid)
		     : ask->state == ASK_GIVEN ? json_integer((json_int_t)ask->given_uid)
					       : json_null();

	return json_pack(
		"{sI si sI so ss ss so so so ss?}", "ask", (json_int_t)ask->id, "gpu", ask->gpu,
		"mig", (json_int_t)ask->mig, "uuid", json_new_text(ask->uuid), "state",
		state_names[ask->state], "asked", clock_format_iso(ask->at_wall_ns, at), "message",
		json_new_text(ask->message), "answer", json_new_text(ask->answer), "left_to", to,
		"left_until", first ? clock_format_iso(first->spare_until_wall_ns, until) : NULL);
}

/* A place for one more: an empty one, or that of the one that was over first. */
static struct ask *place_for(struct asks *k)
{
	struct ask *ret = NULL;

	for (size_t i = 0; i < KEPT_MOST; i++) {
		struct ask *ask = &k->kept[i];

		if (!ask->id)
			return ask;
		if (ask->state != ASK_OPEN && !ask->spare_until_ns &&
		    (!ret || ask->ended_ns < ret->ended_ns))
			ret = ask;
	}
	return ret;
}

/* It waits for its answer, or was given what it asks for. */
static struct ask *same_ask(struct asks *k, uid_t uid, const char *uuid)
{
	for (size_t i = 0; i < KEPT_MOST; i++) {
		struct ask *ask = &k->kept[i];

		if (ask->id && (ask->state == ASK_OPEN || ask->spare_until_ns) && ask->uid == uid &&
		    !strcmp(ask->uuid, uuid))
			return ask;
	}
	return NULL;
}

static bool has_room(const struct asks *k, uid_t uid)
{
	unsigned int all = 0, his = 0;

	for (size_t i = 0; i < KEPT_MOST; i++) {
		bool open = k->kept[i].id && k->kept[i].state == ASK_OPEN;

		all += open;
		his += open && k->kept[i].uid == uid;
	}
	return all < OPEN_MOST && his < OPEN_EACH;
}

static json_t *put(struct asks *k, uid_t uid, const struct ask_request *req)
{
	const struct dev_status *d = device_of(k->a, req->uuid);
	struct ask *ask;
	bool again;

	if (!d || (!has_task(k->a, req->uuid) && !spared_for(k, req->uuid)))
		return refusal(-ENOENT, "no task of this agent is on it");
	if (!k->a->c->ask)
		return refusal(-EACCES, "its owner takes no asks (ask: false)");
	if (uid == geteuid())
		return refusal(-EPERM, "it is your own task: tenure stop, or tenure pause");
	ask = same_ask(k, uid, req->uuid);
	again = ask != NULL;
	if (!ask)
		ask = has_room(k, uid) ? place_for(k) : NULL;
	if (!ask)
		return refusal(-EUSERS, "too many asks are open; wait for the answers");
	if (!again) {
		*ask = (struct ask){ .id = ++k->last_id,
				     .uid = uid,
				     .at_ns = clock_mono_ns(),
				     .at_wall_ns = clock_wall_ns(),
				     .gpu = (int)d->index,
				     .mig = d->mig };
		(void)str_copy(ask->uuid, sizeof(ask->uuid), req->uuid);
		(void)str_copy(ask->message, sizeof(ask->message), req->message);
		tell(k, ask, false);
	}
	return json_pack("{si sb so}", "code", 0, "again", again, "ask", ask_json(k, ask));
}

static int cmp_asks(const void *x, const void *y)
{
	const struct ask *a = *(const struct ask *const *)x, *b = *(const struct ask *const *)y;

	if ((a->state == ASK_OPEN) != (b->state == ASK_OPEN))
		return a->state == ASK_OPEN ? -1 : 1;
	return a->id > b->id ? -1 : a->id < b->id;
}

/* Those that are open, and what came of the latest others: the latest one first. */
static json_t *list(struct asks *k, uid_t uid, const struct ask_request *req)
{
	const struct ask *his[KEPT_MOST];
	json_t *all = json_array();
	size_t n = 0;

	for (size_t i = 0; i < KEPT_MOST; i++)
		if (k->kept[i].id && k->kept[i].uid == uid)
			his[n++] = &k->kept[i];
	qsort(his, n, sizeof(his[0]), cmp_asks);
	for (size_t i = 0; i < n && i < LISTED_MOST; i++)
		(void)json_array_append_new(all, ask_json(k, his[i]));
	return json_pack("{si so}", "code", 0, "asks", all);
}

static void answer(struct peer *p, const struct ask_request *req)
{
	static json_t *(*const kinds[ASK_KIND_MAX])(struct asks * k, uid_t uid,
						    const struct ask_request *req) = {
		[ASK_PUT] = put,
		[ASK_LIST] = list,
	};
	json_t *doc = kinds[req->kind](p->k, p->uid, req);
	cleanup_free char *text = NULL;

	(void)json_object_set_new(doc, "agent", json_integer(p->k->a->view.pid));
	text = json_dumps(doc, JSON_COMPACT);
	json_decref(doc);
	if (text && strlen(text) < ASK_ANSWER_MAX)
		(void)sock_send(p->fd, text, strlen(text)); /* who has no room for it asks again */
}

/* -------- who asks -------- */

static void free_if_done(struct asks *k)
{
	if (!k->closing || k->open_handles || k->peers)
		return;
	free(k->left_path);
	free(k);
}

static void on_peer_closed(uv_handle_t *h)
{
	struct peer *p = h->data, **at = &p->k->peers;
	struct asks *k = p->k;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	(void)fd_close(p->fd);
	free(p);
	free_if_done(k);
}

static void drop(struct peer *p)
{
	if (p->closing)
		return;
	p->closing = true;
	uv_close((uv_handle_t *)&p->poll, on_peer_closed);
}

static void on_peer(uv_poll_t *poll, int status, int events)
{
	struct peer *p = poll->data;
	struct ask_request req;
	ssize_t n = status < 0 ? 0 : sock_recv(p->fd, &req, sizeof(req));

	if (n == -EAGAIN || p->closing)
		return;
	if (ask_is_request(&req, n))
		answer(p, &req);
	drop(p);
}

/* One more of this second. */
static bool count(struct rate *r, uint64_t now, unsigned int most)
{
	if (now >= r->since_ns + NS_PER_S)
		*r = (struct rate){ .uid = r->uid, .since_ns = now };
	return r->n < most && r->n++ < most;
}

/* Where all places are taken by others of this second, nobody else has one. */
static bool may_ask(struct asks *k, uid_t uid)
{
	uint64_t now = clock_mono_ns();
	struct rate *place = NULL;
	unsigned int open = 0, his = 0;

	for (size_t i = 0; i < RATE_USERS; i++) {
		struct rate *r = &k->rates[i];

		if (r->since_ns && r->uid == uid) {
			place = r;
			break;
		}
		if (now >= r->since_ns + NS_PER_S)
			place = r;
	}
	if (place && place->uid != uid)
		*place = (struct rate){ .uid = uid };
	for (const struct peer *p = k->peers; p; p = p->next) {
		open++;
		his += p->uid == uid;
	}
	return open < PEERS_MOST && his < PEERS_EACH && place && count(place, now, RATE_EACH) &&
	       count(&k->all, now, RATE_ALL);
}

static void add_peer(struct asks *k, int fd, uid_t uid)
{
	struct peer *p = xcalloc(1, sizeof(*p));

	*p = (struct peer){ .k = k,
			    .next = k->peers,
			    .uid = uid,
			    .fd = fd,
			    .until_ns = clock_mono_ns() + PEER_LIMIT_NS };
	if (uv_poll_init(&k->a->loop, &p->poll, fd) < 0) {
		(void)fd_close(fd);
		free(p);
		return;
	}
	p->poll.data = p;
	k->peers = p;
	(void)uv_poll_start(&p->poll, UV_READABLE, on_peer);
}

static void on_pace(uv_timer_t *timer);

/* All that wait, or as many as the pace and our descriptors allow: then the timer resumes. */
static void on_listener(uv_poll_t *poll, int status, int events)
{
	struct asks *k = poll->data;
	struct ucred who;
	int fd = 0;

	if (!uv_is_active((uv_handle_t *)&k->pace))
		(void)uv_timer_start(&k->pace, on_pace, PACE_MS, 0);
	for (unsigned int n = 0; n < ACCEPT_MOST; n++) {
		fd = ask_accept(k->fd, &who);
		if (fd == -EAGAIN)
			break;
		if (fd < 0 && fd != -ECONNABORTED)
			break; /* no descriptor is left */
		if (fd >= 0 && may_ask(k, who.uid))
			add_peer(k, fd, who.uid);
		else if (fd >= 0)
			(void)fd_close(fd);
	}
	(void)uv_poll_stop(poll);
}

static void on_pace(uv_timer_t *timer)
{
	struct asks *k = timer->data;
	uint64_t now = clock_mono_ns();

	for (struct peer *p = k->peers, *next; p; p = next) {
		next = p->next;
		if (now >= p->until_ns)
			drop(p);
	}
	(void)uv_poll_start(&k->listener, UV_READABLE, on_listener);
	if (k->peers)
		(void)uv_timer_start(&k->pace, on_pace, PACE_MS, 0);
}

/* -------- our user -------- */

json_t *asks_report(const struct agent *a)
{
	json_t *all = json_array();

	for (size_t i = 0; a->asks && i < KEPT_MOST; i++) {
		const struct ask *ask = &a->asks->kept[i];
		char at[CLOCK_TEXT_MAX];
		json_t *o;

		if (!ask->id || ask->state != ASK_OPEN)
			continue;
		o = members(a->asks, ask);
		(void)json_object_set_new(o, "asked",
					  json_string(clock_format_iso(ask->at_wall_ns, at)));
		(void)json_array_append_new(all, o);
	}
	return all;
}

static struct ask *find_open(struct asks *k, uint64_t id, struct err *e)
{
	struct ask *ret = NULL;
	unsigned int n = 0;

	for (size_t i = 0; i < KEPT_MOST; i++) {
		struct ask *ask = &k->kept[i];

		if (!ask->id || ask->state != ASK_OPEN || (id && ask->id != id))
			continue;
		ret = ask;
		n++;
	}
	if (n == 1)
		return ret;
	if (n)
		(void)err_set(e, -ENOENT,
			      "%u asks are open: say which one, as tenure status lists them", n);
	else if (id)
		(void)err_set(e, -ENOENT,
			      "there is no open ask %llu; tenure status lists those that there are",
			      (unsigned long long)id);
	else
		(void)err_set(e, -ENOENT, "nobody asks for anything");
	return NULL;
}

/* Why it cannot just be requeued; false: it can. */
static bool is_kept(const struct attempt *r, struct strbuf *why)
{
	const struct order_task task = { .id = r->ref.id, .element = r->ref.element };
	bool keeps = r->spec && (r->spec->allocation || r->spec->no_requeue);
	char id[ORDER_ID_MAX];

	if (keeps)
		strbuf_addf(why, "task %s (%s) is not requeued%s", order_format_task(&task, id),
			    r->spec->name,
			    r->spec->allocation ? ", it is an allocation" : " (--no-requeue)");
	return keeps;
}

static void requeue(const struct asks *k, struct attempt *r, const struct ask *ask)
{
	const struct user_names *names = eventlog_names(k->a->eventlog);
	const char *user = names->name(names->user, ask->uid);
	char number[32];

	cleanup_free char *why = xasprintf(
		"given to %s, who asked for GPU %d",
		user ? user : str_print(number, sizeof(number), "uid %u", (unsigned int)ask->uid),
		ask->gpu);

	attempt_stop(r, END_PREEMPTED, UINT32_MAX, why);
}

static json_t *task_json(const struct attempt *r)
{
	return json_pack("{sI si}", "task", (json_int_t)r->ref.id, "element", (int)r->ref.element);
}

/* "GPU 3 is left to bob, who asked for it, until 14:20; ..." */
static json_t *second(const struct asks *k, const struct ask *first)
{
	const struct view_left *left = view_left_of(&k->a->view, first->uuid);
	char words[LEFT_WORDS_MAX];
	cleanup_free char *text =
		xasprintf("GPU %d is %s; answer this ask when they have come, or that time is over",
			  first->gpu,
			  left_words(left ? left->user : NULL, first->uid,
				     first->spare_until_wall_ns, words));

	return refusal(-EBUSY, text);
}

static json_t *grant(struct asks *k, struct ask *ask, bool stop, const char *message)
{
	cleanup_strbuf struct strbuf why = STRBUF_INIT;
	json_t *stopped, *requeued;
	const struct ask *first = spared_for(k, ask->uuid);
	int gpu = ask->gpu;

	if (first)
		return second(k, first);
	for (struct attempt *r = next_on(k->a, NULL, ask->uuid); r && !stop;
	     r = next_on(k->a, r, ask->uuid))
		if (is_kept(r, &why)) {
			cleanup_free char *text =
				xasprintf("%s; tenure answer %llu yes --stop ends it",
					  strbuf_str(&why), (unsigned long long)ask->id);

			return refusal(-EPERM, text);
		}
	stopped = json_array();
	requeued = json_array();
	ask->spare_until_ns = clock_mono_ns() + LEFT_NS;
	ask->spare_until_wall_ns = clock_wall_ns() + LEFT_NS;
	end(k, ask, ASK_GRANTED, message);
	spare(k);
	for (struct attempt *r = next_on(k->a, NULL, ask->uuid), *next; r; r = next) {
		bool kept = is_kept(r, &why);

		next = next_on(k->a, r, ask->uuid);
		(void)json_array_append_new(kept ? stopped : requeued, task_json(r));
		if (!kept)
			requeue(k, r, ask);
	}
	return json_pack("{si si so so}", "code", 0, "gpu", gpu, "stop", stopped, "requeued",
			 requeued);
}

json_t *asks_answer(struct agent *a, const char *text)
{
	json_t *doc = json_loads(text, 0, NULL);
	char message[ASK_MESSAGE_MAX + 1];
	struct err e = ERR_INIT;
	struct ask *ask = a->asks ? find_open(a->asks, json_get_u64(doc, "ask"), &e) : NULL;
	json_t *ret;

	json_get_text(doc, "message", message, sizeof(message));
	(void)utf8_clean(message);
	if (!a->asks)
		ret = refusal(-ENOENT, "the agent here runs no tasks, so that nobody can ask");
	else if (!ask)
		ret = refusal(-ENOENT, e.text);
	else if (!json_get_flag(doc, "yes")) {
		end(a->asks, ask, ASK_REFUSED, message);
		ret = json_pack("{si si}", "code", 0, "gpu", ask->gpu);
	} else {
		ret = grant(a->asks, ask, json_get_flag(doc, "stop"), message);
	}
	json_decref(doc);
	return ret;
}

/* -------- its life -------- */

static void begin_to_listen(struct asks *k)
{
	struct agent *a = k->a;
	struct err e = ERR_INIT;

	k->looks = LISTEN_LOOKS;
	k->fd = ask_listen(a->c->dev_dir, &e);
	if (k->fd >= 0 && uv_poll_init(&a->loop, &k->listener, k->fd) == 0) {
		k->listener.data = k;
		k->open_handles++;
		(void)uv_poll_start(&k->listener, UV_READABLE, on_listener);
		return;
	}
	k->fd = fd_close(k->fd);
	if (!k->said)
		eventlog_say(a->eventlog, LOG_LEVEL_WARNING,
			     "other users cannot ask for a GPU (tenure ask), since the names for "
			     "that are taken: %s; trying again",
			     e.text);
	k->said = true;
}

struct asks *asks_new(struct agent *a)
{
	struct asks *k;

	if (!a->queue)
		return NULL;
	k = xcalloc(1, sizeof(*k));
	k->a = a;
	(void)uv_timer_init(&a->loop, &k->pace);
	k->pace.data = k;
	k->open_handles = 1;
	k->fd = -1;
	k->looks = LISTEN_LOOKS;
	k->left_path =
		left_path(a->c->state_dir, a->c->instance, a->c->job ? a->self.name : a->self.host);
	a->view.spared = &k->spared;
	/* Before any job that opens the queue, so that nothing is planned before it is known. Then
	 * it listens. */
	spooler_do(a->queue->spooler, &begin_job(k, true)->job);
	return k;
}

void asks_look(struct agent *a)
{
	struct asks *k = a->asks;
	uint64_t now = clock_mono_ns();

	if (!k)
		return;
	if (k->fd < 0 && k->looks-- == 0)
		begin_to_listen(k);
	for (size_t i = 0; i < KEPT_MOST; i++) {
		struct ask *ask = &k->kept[i];
		bool is_free;

		if (!ask->id || ask->state != ASK_OPEN)
			continue;
		tell(k, ask, false);
		/* In between the next task may have come to it. */
		is_free = !has_task(a, ask->uuid) && !spared_for(k, ask->uuid);
		if (is_free && ask->alone)
			end(k, ask, ASK_FREE, "");
		else if (now >= ask->at_ns + ASK_LIMIT_NS)
			end(k, ask, ASK_EXPIRED, "");
		ask->alone = is_free;
	}
	save(k);
	look_at_spared(k);
}

static void on_closed(uv_handle_t *h)
{
	struct asks *k = h->data;

	k->open_handles--;
	if (!k->open_handles)
		k->fd = fd_close(k->fd);
	free_if_done(k);
}

void asks_close(struct agent *a)
{
	struct asks *k = take_ptr(a->asks);

	if (!k)
		return;
	a->view.spared = NULL;
	k->closing = true;
	if (k->job)
		k->job->k = NULL;
	for (struct peer *p = k->peers; p; p = p->next)
		drop(p);
	uv_close((uv_handle_t *)&k->pace, on_closed);
	if (k->fd >= 0)
		uv_close((uv_handle_t *)&k->listener, on_closed);
}
