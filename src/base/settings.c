/* SPDX-License-Identifier: MIT */

/*
 * Each setting is a slot that remembers its text, its value and the layer it came from; a layer
 * writes only into slots that no higher layer has written, so that the layers can be read in any
 * order (the instance's file can only be found when `instance` is known, which the user's file may
 * set).
 *
 * A limit keeps, beside the slot, what the site said. The limits are applied last.
 *
 * Who only asks or lets go must not be kept from it by how things would be held: what such a
 * command does not need may be wrong, and is then as if it were not set.
 */

#include "base/settings.h"

#include <errno.h>
#include <grp.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>

#include "base/config.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/sock.h"
#include "base/str.h"
#include "base/strbuf.h"
#include "base/utf8.h"

#define VARIABLE_PREFIX "TENURE_"
#define SITE_FILE	"/etc/tenure/config.yaml"

struct slot {
	struct value value;
	bool has_value;
	struct setting_origin origin; /* file is owned */
};

struct settings {
	struct slot slots[SET_MAX];
	struct slot limits[SET_MAX];
	char *files[SETTING_LAYER_MAX];
	char **variables; /* SET_MAX; NULL: those of the environment */
	struct strbuf notes;
	unsigned int needed; /* groups */
	struct strbuf faults;
};

static const char *const layer_names[] = {
	[SETTING_FROM_DEFAULT] = "default",
	[SETTING_FROM_SITE] = "site config",
	[SETTING_FROM_USER] = "user config",
	[SETTING_FROM_INSTANCE] = "instance config",
	[SETTING_FROM_USE] = "tenure use",
	[SETTING_FROM_ENVIRONMENT] = "environment",
	[SETTING_FROM_COMMAND_LINE] = "command line",
};
_Static_assert(ARRAY_LEN(layer_names) == SETTING_LAYER_MAX, "every layer has a name");

const struct setting *setting_row(enum setting_id id)
{
	return &settings_table[id];
}

const struct setting *setting_find(const char *key)
{
	for (size_t i = 0; i < SET_MAX; i++) {
		if (strcmp(settings_table[i].key, key) == 0)
			return &settings_table[i];
	}
	return NULL;
}

static void slot_clear(struct slot *slot)
{
	if (slot->has_value)
		value_clear(&slot->value);
	free((void *)(uintptr_t)slot->origin.file);
	*slot = (struct slot){ 0 };
}

static void slot_put(struct slot *slot, struct value *value, const struct setting_origin *origin)
{
	char *file = origin->file ? xstrdup(origin->file) : NULL;

	slot_clear(slot);
	slot->value = *value;
	slot->has_value = true;
	slot->origin = *origin;
	slot->origin.file = file;
	*value = (struct value){ 0 };
}

struct settings *settings_new(void)
{
	static const struct setting_origin origin = { .layer = SETTING_FROM_DEFAULT };
	struct settings *s = xcalloc(1, sizeof(*s));

	s->needed = SETTING_GROUP_ALL;
	for (int id = 0; id < SET_MAX; id++) {
		const char *def = settings_table[id].opt.def;
		struct err e;

		s->slots[id].value.type = settings_table[id].opt.spec.type;
		if (def && settings_set(s, (enum setting_id)id, def, &origin, &e) < 0) {
			(void)fprintf(stderr, "tenure: defect in a default: %s\n", e.text);
			abort();
		}
	}
	return s;
}

static void forget_variables(struct settings *s)
{
	for (int i = 0; s->variables && i < SET_MAX; i++)
		free(s->variables[i]);
	free(take_ptr(s->variables));
}

void settings_set_variables(struct settings *s, const char *const *texts)
{
	char **variables = xcalloc(SET_MAX, sizeof(*variables));

	for (int i = 0; i < SET_MAX; i++)
		variables[i] = texts[i] ? xstrdup(texts[i]) : NULL;
	forget_variables(s);
	s->variables = variables;
}

const char *settings_variable(const struct settings *s, enum setting_id id)
{
	const char *text = s->variables ? s->variables[id] : getenv(settings_table[id].opt.env);

	/* Set but empty is how a script says "not set". */
	return text && text[0] ? text : NULL;
}

struct settings *settings_free(struct settings *s)
{
	if (!s)
		return NULL;
	for (int i = 0; i < SET_MAX; i++) {
		slot_clear(&s->slots[i]);
		slot_clear(&s->limits[i]);
	}
	for (int i = 0; i < SETTING_LAYER_MAX; i++)
		free(s->files[i]);
	forget_variables(s);
	strbuf_clear(&s->notes);
	strbuf_clear(&s->faults);
	free(s);
	return NULL;
}

static int may_set(const struct setting *row, enum setting_layer layer, struct err *e)
{
	if ((row->flags & SETTING_SITE_ONLY) && layer > SETTING_FROM_SITE)
		return err_set(e, -EINVAL, "%s: only the site's config can set this", row->key);
	if ((row->flags & SETTING_NOT_IN_INSTANCE) && layer == SETTING_FROM_INSTANCE)
		return err_set(e, -EINVAL, "%s: an instance's config cannot set this", row->key);
	return 0;
}

/* An unknown name would be nobody's queue. Where nobody can be asked just now it is not unknown. */
static int check_users(const struct text_list *words, struct err *e)
{
	uint64_t number;

	for (size_t i = 0; i < words->n; i++) {
		errno = 0;
		if (str_to_u64(words->texts[i], &number) < 0 && !getpwnam(words->texts[i]) &&
		    (!errno || errno == ENOENT || errno == ESRCH))
			return err_set(e, -EINVAL, "there is no user \"%s\" here", words->texts[i]);
	}
	return 0;
}

/* What is told of a word that was typed just now, and of one in a file by settings_check(). */
static int check_typed(enum setting_id id, const struct value *v,
		       const struct setting_origin *origin, struct err *e)
{
	if (id != SET_ACCEPT_OWNERS || origin->layer != SETTING_FROM_COMMAND_LINE)
		return 0;
	return check_users(&v->words, e) < 0 ? err_wrap(e, "--%s", settings_table[id].opt.name) : 0;
}

int settings_set(struct settings *s, enum setting_id id, const char *text,
		 const struct setting_origin *origin, struct err *e)
{
	const struct setting *row = &settings_table[id];
	struct value value;
	int r = may_set(row, origin->layer, e);

	if (r < 0)
		return r;
	if (value_parse(&row->opt.spec, text, &value, e) < 0) {
		if (origin->layer == SETTING_FROM_COMMAND_LINE)
			return err_wrap(e, "--%s", row->opt.name);
		if (origin->layer == SETTING_FROM_ENVIRONMENT)
			return err_wrap(e, "%s", row->opt.env);
		return err_wrap(e, "%s", row->key);
	}
	r = check_typed(id, &value, origin, e);
	if (r < 0) {
		value_clear(&value);
		return r;
	}
	if (row->flags & SETTING_REAL_DIR) {
		char *real = fs_real_dir(value.str, row->opt.def);

		free(value.str);
		value.str = real;
	}
	if (origin->layer == SETTING_FROM_SITE && (row->flags & SETTING_LIMIT)) {
		struct value limit;

		if (value_parse(&row->opt.spec, text, &limit, NULL) == 0)
			slot_put(&s->limits[id], &limit, origin);
	}
	if (s->slots[id].has_value && s->slots[id].origin.layer > origin->layer)
		value_clear(&value);
	else
		slot_put(&s->slots[id], &value, origin);
	return 0;
}

int settings_set_from_opts(struct settings *s, const struct opts *o, struct err *e)
{
	static const struct setting_origin origin = { .layer = SETTING_FROM_COMMAND_LINE };

	for (size_t i = 0; i < opts_n_rows(o); i++) {
		const struct opt *opt = opts_row(o, i);

		for (int id = 0; id < SET_MAX; id++) {
			if (opt != &settings_table[id].opt || !opts_given(o, opt->name))
				continue;

			int r = settings_set(s, (enum setting_id)id, opts_text(o, opt->name),
					     &origin, e);

			if (r < 0)
				return r;
		}
	}
	return 0;
}

void settings_need(struct settings *s, unsigned int groups)
{
	s->needed = groups;
}

const char *settings_faults(const struct settings *s)
{
	return strbuf_str(&s->faults);
}

/* The fault in e, of a setting or (NULL) of a whole file, where it does not matter: 0; else r. */
static int pass_over(struct settings *s, const struct setting *row, int r, struct err *e)
{
	if (s->needed == SETTING_GROUP_ALL || (row && row->groups & s->needed))
		return r;
	strbuf_addf(&s->faults, "%s; %s\n", e->text,
		    row ? "it counts as not set" : "that file does not count");
	*e = (struct err)ERR_INIT;
	return 0;
}

static int load_environment(struct settings *s, struct err *e)
{
	static const struct setting_origin origin = { .layer = SETTING_FROM_ENVIRONMENT };

	for (int id = 0; id < SET_MAX; id++) {
		const char *text = settings_variable(s, (enum setting_id)id);

		if (!text)
			continue;

		int r = settings_set(s, (enum setting_id)id, text, &origin, e);

		if (r < 0)
			r = pass_over(s, &settings_table[id], r, e);
		if (r < 0)
			return r;
	}
	return 0;
}

/* Names of ours that are no settings: what a task is told, and a job. */
static const char *const other_variables[] = {
	"TENURE_SITE_CONFIG", "TENURE_BUILD",
	"TENURE_TASK_ID",     "TENURE_TASK_TOKEN",
	"TENURE_ATTEMPT",     "TENURE_ARRAY_INDEX",
	"TENURE_GPU_MEMORY",  "TENURE_SUBMIT_JOB",
	"TENURE_JOB_KEY",     "TENURE_LOCAL_JOB",
	"TENURE_LOCAL_GPUS",  "TENURE_LOCAL_RESTARTS",
	"TENURE_LOCAL_ID",    "TENURE_SGE_GPUS",
	"TENURE_SGE_START",   "TENURE_SGE_END",
	"TENURE_SCO_JOB",     "TENURE_K8S_JOB",
	"TENURE_K8S_POD",     "TENURE_K8S_NODE",
	"TENURE_K8S_GPUS",    NULL,
};

static bool is_known_variable(const char *name)
{
	for (int id = 0; id < SET_MAX; id++)
		if (strcmp(settings_table[id].opt.env, name) == 0)
			return true;
	for (size_t i = 0; other_variables[i]; i++)
		if (strcmp(other_variables[i], name) == 0)
			return true;
	/* The simulator's. */
	return strcmp(name, "TENURE_SIM") == 0 || str_has_prefix(name, "TENURE_SIM_");
}

void settings_environment_notes(struct strbuf *out)
{
	const char *names[SET_MAX + 1] = { NULL };

	for (int id = 0; id < SET_MAX; id++)
		names[id] = settings_table[id].opt.env + strlen(VARIABLE_PREFIX);
	for (char **v = environ; *v; v++) {
		cleanup_free char *name = xstrdup(*v);

		name[strcspn(name, "=")] = '\0';
		if (!str_has_prefix(name, VARIABLE_PREFIX) || is_known_variable(name))
			continue;

		const char *near = str_nearest(name + strlen(VARIABLE_PREFIX), names);

		if (near)
			strbuf_addf(out,
				    "%s in the environment is no setting and does nothing; did you "
				    "mean " VARIABLE_PREFIX "%s?\n",
				    name, near);
		else
			strbuf_addf(out,
				    "%s in the environment is no setting and does nothing; "
				    "`tenure config show` lists them\n",
				    name);
	}
}

struct file_reader {
	struct settings *s;
	enum setting_layer layer;
	bool failed;	       /* over an entry that matters */
	struct strbuf *faults; /* of settings_check_file(), and what else is here */
	bool bad[SET_MAX];     /* a mistake in that one was told */
	bool unread;	       /* nor all of the file */
};

static int unknown_key(const struct config_entry *entry, struct err *e)
{
	const char *keys[SET_MAX + 1] = { NULL };

	for (int i = 0; i < SET_MAX; i++)
		keys[i] = settings_table[i].key;

	const char *near = str_nearest(entry->key, keys);

	if (near)
		(void)err_set(e, -EINVAL, "unknown key \"%s\"; did you mean %s?", entry->key, near);
	else
		(void)err_set(e, -EINVAL, "unknown key \"%s\"; `tenure config show` lists all keys",
			      entry->key);
	return config_at_key(entry, e);
}

static int take_entry(const struct file_reader *reader, const struct setting *row,
		      const struct config_entry *entry, struct err *e)
{
	struct setting_origin origin = {
		.layer = reader->layer,
		.file = entry->file,
		.line = entry->line,
	};

	if (strcmp(entry->key, SETTINGS_NOTIFY) == 0)
		return 0; /* read by who sends, not by us, and a mistake in it is theirs to tell */
	if (!row)
		return unknown_key(entry, e);
	if (entry->is_block) {
		(void)err_set(e, -EINVAL, "%s: a mapping does not belong here; write %s", row->key,
			      value_hint(row->opt.spec.type));
		return config_at_value(entry, e);
	}

	enum value_type type = row->opt.spec.type;

	if (entry->is_null) {
		(void)err_set(e, -EINVAL, "%s: has no value; write %s", row->key, value_hint(type));
		return config_at_value(entry, e);
	}
	if (entry->is_list && !value_is(type, VALUE_IS_MANY)) {
		(void)err_set(e, -EINVAL, "%s: a list does not belong here; write %s", row->key,
			      value_hint(type));
		return config_at_value(entry, e);
	}
	if (settings_set(reader->s, (enum setting_id)(row - settings_table), entry->text, &origin,
			 e) < 0)
		return config_at_value(entry, e);
	return 0;
}

static int read_entry(const struct config_entry *entry, void *user, struct err *e)
{
	static const struct setting none = { .groups = 0 }; /* an unknown key is needed by nobody */
	struct file_reader *reader = user;
	const struct setting *row = setting_find(entry->key);
	int r = take_entry(reader, row, entry, e);

	if (r < 0)
		r = pass_over(reader->s, row ? row : &none, r, e);
	reader->failed = r < 0;
	return r;
}

/* Read a layer's file; takes path. */
static int load_file(struct settings *s, enum setting_layer layer, char *path, struct err *e)
{
	struct file_reader reader = { .s = s, .layer = layer };

	free(s->files[layer]);
	s->files[layer] = path;

	/* The site's file is the site's; ours may name whose tasks we run, and what we run. */
	int r = layer == SETTING_FROM_SITE ? config_read(path, read_entry, &reader, e)
					   : config_read_own(path, read_entry, &reader, e);

	/* A home directory that is a file, or nobody's: nothing to read there. */
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	/* An entry that matters has ended it, rather than the file as a whole. */
	if (r < 0 && !reader.failed)
		r = pass_over(s, NULL, r, e);
	return r;
}

/*
 * TENURE_SITE_CONFIG names another file for tests and for trying a policy out. It is heeded only
 * where the site has no file, so that it is no way around the site's limits.
 */
static char *site_file(const struct settings_files *files)
{
	const char *env = getenv("TENURE_SITE_CONFIG");

	if (files && files->site)
		return xstrdup(files->site);
	if (env && env[0] && access(SITE_FILE, F_OK) < 0 && errno == ENOENT)
		return xstrdup(env);
	return xstrdup(SITE_FILE);
}

#define USE_MAX 4096

/* The instance that `tenure use` chose; a missing file chooses none. Takes path over. */
static int load_use(struct settings *s, char *path, struct err *e)
{
	struct setting_origin origin = { .layer = SETTING_FROM_USE, .file = path, .line = 1 };
	cleanup_free char *text = NULL;
	size_t len;
	int r;

	free(s->files[SETTING_FROM_USE]);
	s->files[SETTING_FROM_USE] = path;
	r = fs_read_own_file(path, USE_MAX, &text, &len, e);
	if (r == -ENOENT || r == -ENOTDIR)
		return 0;
	if (r < 0)
		return pass_over(s, NULL, r, e);
	text[strcspn(text, "\n")] = '\0';
	r = settings_set(s, SET_INSTANCE, text, &origin, e);
	return r < 0 ? pass_over(s, setting_row(SET_INSTANCE), err_wrap(e, "%s", path), e) : 0;
}

static int load_files(struct settings *s, const struct settings_files *files, struct err *e)
{
	cleanup_free char *dir = fs_config_dir();
	int r = load_file(s, SETTING_FROM_SITE, site_file(files), e);

	if (r == 0)
		r = load_file(s, SETTING_FROM_USER,
			      files && files->user ? xstrdup(files->user)
						   : xasprintf("%s/config.yaml", dir),
			      e);
	if (r == 0)
		r = load_use(
			s, files && files->use ? xstrdup(files->use) : xasprintf("%s/use", dir), e);
	if (r == 0)
		r = load_environment(s, e);
	if (r == 0)
		r = load_file(s, SETTING_FROM_INSTANCE,
			      files && files->instance ? xstrdup(files->instance)
						       : xasprintf("%s/instances/%s.yaml", dir,
								   settings_str(s, SET_INSTANCE)),
			      e);
	return r;
}

/* Whether a value asks for more than the limit of its setting. 0 of a number of GPUs is no limit.
 */
static bool over_limit(enum setting_id id, const struct value *v, const struct value *limit)
{
	if (id == SET_MAX_DEVICES || id == SET_ALLOC_TOTAL)
		return limit->num && (!v->num || v->num > limit->num);
	return v->num > limit->num;
}

static int apply_limit(struct settings *s, enum setting_id id, struct err *e)
{
	const struct setting *row = &settings_table[id];
	struct slot *slot = &s->slots[id], *limit = &s->limits[id];

	if (!limit->has_value || row->flags & SETTING_SITE_ONLY ||
	    !over_limit(id, &slot->value, &limit->value))
		return 0;

	enum setting_layer layer = slot->origin.layer;
	cleanup_free char *asked = value_format(&row->opt.spec, &slot->value);
	cleanup_free char *allowed = value_format(&row->opt.spec, &limit->value);
	cleanup_free char *file = fs_show_path(limit->origin.file);
	cleanup_free char *from = settings_origin_text(s, id);

	/* 0 of max_devices asks for no limit, which is a default rather than a wish. */
	if (layer >= SETTING_FROM_ENVIRONMENT)
		return err_set(e, -EPERM, "%s: %s (%s) is more than this site allows: %s (%s:%d)",
			       row->key, asked, from, allowed, file, limit->origin.line);
	if (layer > SETTING_FROM_SITE)
		strbuf_addf(&s->notes, "%s: %s (%s) was lowered to this site's limit, %s (%s:%d)\n",
			    row->key, asked, from, allowed, file, limit->origin.line);

	struct value value;

	if (value_parse(&row->opt.spec, allowed, &value, NULL) == 0)
		slot_put(slot, &value, &limit->origin);
	return 0;
}

int settings_load(struct settings *s, const struct settings_files *files, struct err *e)
{
	struct err tmp = ERR_INIT;
	int r = load_files(s, files, e ? e : &tmp);

	for (int id = 0; id < SET_MAX && r == 0; id++)
		if (settings_table[id].groups & s->needed)
			r = apply_limit(s, (enum setting_id)id, e);
	return r;
}

static bool is_set(const struct settings *s, enum setting_id id)
{
	return s->slots[id].origin.layer != SETTING_FROM_DEFAULT;
}

/* Whether the cycle is switched off by `work: 0` of a higher layer than the one that set rest. */
static bool cycle_is_off(const struct settings *s)
{
	return !settings_num(s, SET_WORK) &&
	       s->slots[SET_WORK].origin.layer > s->slots[SET_REST].origin.layer;
}

/*
 * A part of the cycle that was asked for while the other part is nowhere: it would do nothing.
 * `rest: 0` beside work is work without an end; `work: 0` beside rest is nothing that could be
 * done.
 */
static int check_half_cycle(const struct settings *s, enum setting_id id, enum setting_id other,
			    struct err *e)
{
	const struct setting *row = &settings_table[id], *missing = &settings_table[other];

	if (!settings_num(s, id) ||
	    (is_set(s, other) && (id == SET_WORK || settings_num(s, other))) || cycle_is_off(s))
		return 0;

	cleanup_free char *text = value_format(&row->opt.spec, &s->slots[id].value);
	cleanup_free char *from = settings_origin_text(s, id);
	cleanup_free char *zero = settings_origin_text(s, other);

	if (is_set(s, other))
		return err_set(e, -EINVAL, "%s: %s (%s) does nothing with %s: 0 (%s)", row->key,
			       text, from, missing->key, zero);
	return err_set(e, -EINVAL,
		       "%s: %s (%s) does nothing without %s; set that, too, like %s: 5m or --%s 5m",
		       row->key, text, from, missing->key, missing->key, missing->opt.name);
}

static int check_band(const struct settings *s, struct err *e)
{
	struct util_band band = settings_util_band(s);
	unsigned int aim = (unsigned int)(settings_num(s, SET_UTIL) + 5) / 10;

	if (!is_set(s, SET_UTIL) || (band.floor <= aim && aim <= band.ceiling))
		return 0;

	cleanup_free char *util = settings_origin_text(s, SET_UTIL);
	cleanup_free char *from = settings_origin_text(s, SET_UTIL_BAND);

	return err_set(
		e, -EINVAL,
		"util: %u (%s) is outside of util_band, %u,%u,%u (%s), which is right from %u to "
		"%u; one of the two alone is enough",
		aim, util, band.low, band.floor, band.ceiling, from, band.floor, band.ceiling);
}

#define LANE_WIDTH_MAX 1024
#define LANE_NAME_MAX  64 /* SPEC_NAME_MAX */

/* "week=2" */
static int parse_lane_width(const char *word, char name[SETTINGS_LANE_MAX], uint32_t *width,
			    struct err *e)
{
	static const struct value_spec width_spec = { VALUE_UINT, .min = 1, .max = LANE_WIDTH_MAX };
	const char *eq = strrchr(word, '=');
	struct value v = { 0 };
	int r;

	if (!eq || eq == word || eq - word >= SETTINGS_LANE_MAX)
		return err_set(e, -EINVAL, "\"%s\" is not a lane and its width, like week=2", word);
	(void)str_print(name, SETTINGS_LANE_MAX, "%.*s", (int)(eq - word), word);
	r = utf8_is_name(name, LANE_NAME_MAX)
		    ? value_parse(&width_spec, eq + 1, &v, e)
		    : err_set(e, -EINVAL, "\"%s\" is not the name of a lane", name);
	if (r == 0 && !strcmp(name, "all"))
		r = err_set(e, -EINVAL, "no lane can be called all: that means all tasks");
	if (r < 0)
		return err_wrap(e, "\"%s\"", word);
	*width = (uint32_t)v.num;
	return 0;
}

bool settings_lane_width(const struct settings *s, size_t i, char *name, uint32_t *width)
{
	const struct text_list *words = &settings_value(s, SET_LANE_WIDTH)->words;

	return i < words->n && parse_lane_width(words->texts[i], name, width, NULL) == 0;
}

static int check_lane_widths(const struct settings *s, struct err *e)
{
	const struct text_list *words = &settings_value(s, SET_LANE_WIDTH)->words;
	char name[SETTINGS_LANE_MAX];
	uint32_t width;

	for (size_t i = 0; i < words->n; i++) {
		int r = parse_lane_width(words->texts[i], name, &width, e);

		if (r < 0) {
			cleanup_free char *from = settings_origin_text(s, SET_LANE_WIDTH);

			return err_wrap(e, "lane_width (%s)", from);
		}
	}
	return 0;
}

#define PORT_FIRST 1024 /* below that they are the system's */
#define PORT_LAST  65535

static bool take_port(const char *text, size_t len, unsigned int *ret)
{
	cleanup_free char *digits = xasprintf("%.*s", (int)len, text);
	uint64_t n;

	if (str_to_u64(digits, &n) < 0 || n < PORT_FIRST || n > PORT_LAST)
		return false;
	*ret = (unsigned int)n;
	return true;
}

/* "20000-29999" */
static bool parse_ports(const char *text, unsigned int *first, unsigned int *last)
{
	const char *dash = strchr(text, '-');

	return dash && take_port(text, (size_t)(dash - text), first) &&
	       take_port(dash + 1, strlen(dash + 1), last) && *first <= *last;
}

void settings_gang_ports(const struct settings *s, unsigned int *first, unsigned int *last)
{
	if (!parse_ports(settings_str(s, SET_GANG_PORTS), first, last))
		(void)parse_ports(settings_table[SET_GANG_PORTS].opt.def, first, last);
}

static int check_gang_ports(const struct settings *s, struct err *e)
{
	const char *text = settings_str(s, SET_GANG_PORTS);
	unsigned int first, last;

	if (parse_ports(text, &first, &last))
		return 0;

	cleanup_free char *from = settings_origin_text(s, SET_GANG_PORTS);

	return err_set(e, -EINVAL,
		       "gang_ports: \"%.40s\" (%s) is no range of ports, like 20000-29999 (from %d "
		       "to %d)",
		       text, from, PORT_FIRST, PORT_LAST);
}

const char *settings_listen(const struct settings *s)
{
	const char *text = settings_str(s, SET_LISTEN);

	return text && text[0] && strcmp(text, "none") != 0 ? text : NULL;
}

static int check_listen(const struct settings *s, struct err *e)
{
	const char *text = settings_listen(s);
	char host[SOCK_HOST_MAX], port[SOCK_PORT_MAX];

	if (!text || sock_split_address(text, host, port))
		return 0;

	cleanup_free char *from = settings_origin_text(s, SET_LISTEN);

	return err_set(e, -EINVAL,
		       "listen: \"%.80s\" (%s) is no address to listen on; write it like "
		       "127.0.0.1:8470",
		       text, from);
}

static int check_work(const struct settings *s, struct err *e)
{
	return check_half_cycle(s, SET_WORK, SET_REST, e);
}

static int check_rest(const struct settings *s, struct err *e)
{
	return check_half_cycle(s, SET_REST, SET_WORK, e);
}

static int check_accept_owners(const struct settings *s, struct err *e)
{
	cleanup_free char *from = settings_origin_text(s, SET_ACCEPT_OWNERS);

	return check_users(&settings_value(s, SET_ACCEPT_OWNERS)->words, e) < 0
		       ? err_wrap(e, "accept_owners (%s)", from)
		       : 0;
}

/* A number of GPUs that another one, where that is a limit, does not allow. */
static int check_below(const struct settings *s, enum setting_id id, enum setting_id limit,
		       struct err *e)
{
	uint64_t asked = settings_num(s, id), most = settings_num(s, limit);

	/* Who sets one of them need not know the default of the other. */
	if (!most || asked <= most || !is_set(s, id) || !is_set(s, limit))
		return 0;

	cleanup_free char *from = settings_origin_text(s, id);
	cleanup_free char *other = settings_origin_text(s, limit);

	return err_set(e, -EINVAL, "%s: %llu (%s) is more than %s: %llu (%s) allows",
		       settings_table[id].key, (unsigned long long)asked, from,
		       settings_table[limit].key, (unsigned long long)most, other);
}

static int check_alloc_gpus(const struct settings *s, struct err *e)
{
	return check_below(s, SET_ALLOC_GPUS, SET_ALLOC_EACH, e);
}

static int check_alloc_each(const struct settings *s, struct err *e)
{
	return check_below(s, SET_ALLOC_EACH, SET_ALLOC_TOTAL, e);
}

static int check_alloc_manual(const struct settings *s, struct err *e)
{
	return check_below(s, SET_ALLOC_MANUAL, SET_ALLOC_TOTAL, e);
}

static int check_alloc_base(const struct settings *s, struct err *e)
{
	return check_below(s, SET_ALLOC_BASE, SET_ALLOC_TOTAL, e);
}

static const struct settings_rule rules[] = {
	{ check_alloc_gpus, { SET_ALLOC_GPUS, SET_ALLOC_EACH } },
	{ check_alloc_each, { SET_ALLOC_EACH, SET_ALLOC_TOTAL } },
	{ check_alloc_manual, { SET_ALLOC_MANUAL, SET_ALLOC_TOTAL } },
	{ check_alloc_base, { SET_ALLOC_BASE, SET_ALLOC_TOTAL } },
	{ check_work, { SET_WORK, SET_REST } },
	{ check_lane_widths, { SET_LANE_WIDTH, SET_LANE_WIDTH } },
	{ check_rest, { SET_WORK, SET_REST } },
	{ check_gang_ports, { SET_GANG_PORTS, SET_GANG_PORTS } },
	{ check_listen, { SET_LISTEN, SET_LISTEN } },
	{ check_band, { SET_UTIL, SET_UTIL_BAND } },
	{ check_accept_owners, { SET_ACCEPT_OWNERS, SET_ACCEPT_OWNERS } },
	{ NULL },
};

int settings_check(const struct settings *s, struct err *e)
{
	int r = 0;

	for (const struct settings_rule *rule = rules; rule->check && r == 0; rule++)
		if (settings_table[rule->about[0]].groups & s->needed)
			r = rule->check(s, e);
	return r;
}

/* One mistake more. */
static int note_fault(const char *key, void *user, struct err *e)
{
	struct file_reader *reader = user;
	const struct setting *row = key ? setting_find(key) : NULL;

	reader->unread = reader->unread || !key;
	if (row)
		reader->bad[row - settings_table] = true;
	strbuf_addf(reader->faults, "%s\n", e->text);
	*e = (struct err)ERR_INIT;
	return 0;
}

/* "memory: nothing to hold" of a rule that does not say where that stands: with its place. */
static void add_place(const struct settings *s, struct err *e)
{
	cleanup_free char *key = xasprintf("%.*s", (int)strcspn(e->text, ":"), e->text);
	const struct setting *row = setting_find(key);
	const struct setting_origin *origin = row ? &s->slots[row - settings_table].origin : NULL;
	cleanup_free char *file = origin && origin->file ? fs_show_path(origin->file) : NULL;

	if (file)
		(void)err_wrap(e, "%s:%d", file, origin->line);
}

/* What is missing may be what could not be read, and one mistake is told once. */
static void apply_rules(struct file_reader *reader, const struct settings_rule *rule)
{
	struct err e = ERR_INIT;

	for (; rule && rule->check && !reader->unread; rule++) {
		if (reader->bad[rule->about[0]] || reader->bad[rule->about[1]] ||
		    rule->check(reader->s, &e) >= 0)
			continue;
		reader->bad[rule->about[0]] = reader->bad[rule->about[1]] = true;
		add_place(reader->s, &e);
		strbuf_addf(reader->faults, "%s\n", e.text);
		e = (struct err)ERR_INIT;
	}
}

int settings_check_file(const char *path, enum setting_layer layer,
			const struct settings_rule *more, struct strbuf *faults)
{
	struct settings *s = settings_new();
	struct file_reader reader = { .s = s, .layer = layer, .faults = faults };
	struct err e = ERR_INIT;
	size_t before = faults->len;

	if (config_read_all(path, read_entry, note_fault, &reader, &e) < 0)
		(void)note_fault(NULL, &reader, &e);
	apply_rules(&reader, rules);
	apply_rules(&reader, more);
	(void)settings_free(s);
	return faults->len == before ? 0 : -EINVAL;
}

static bool in_group(const char *name)
{
	struct group *gr = getgrnam(name);
	gid_t gids[256];
	int n = getgroups((int)ARRAY_LEN(gids), gids);

	if (!gr)
		return false;
	if (gr->gr_gid == getgid())
		return true;
	for (int i = 0; i < n; i++) {
		if (gids[i] == gr->gr_gid)
			return true;
	}
	return false;
}

int settings_check_user(const struct settings *s, struct err *e)
{
	const struct slot *slot = &s->slots[SET_ALLOW_USERS];
	const struct text_list *allowed = &slot->value.words;
	const struct passwd *pw = getpwuid(getuid());

	if (!slot->has_value || allowed->n == 0)
		return 0;
	for (size_t i = 0; i < allowed->n; i++) {
		const char *word = allowed->texts[i];

		if (word[0] == '@' ? in_group(word + 1) : pw && strcmp(pw->pw_name, word) == 0)
			return 0;
	}
	return err_set(
		e, -EPERM,
		"this site lets only some users hold GPUs, and %s is not among them (%s:%d); "
		"ask whoever runs this machine",
		pw ? pw->pw_name : "this user", slot->origin.file, slot->origin.line);
}

static const struct value *get(const struct settings *s, enum setting_id id, bool right_type)
{
	if (!right_type) {
		(void)fprintf(stderr, "tenure: defect: %s is of another type\n",
			      settings_table[id].key);
		abort();
	}
	return &s->slots[id].value;
}

static enum value_type type_of(enum setting_id id)
{
	return settings_table[id].opt.spec.type;
}

const struct value *settings_value(const struct settings *s, enum setting_id id)
{
	return s->slots[id].has_value ? &s->slots[id].value : NULL;
}

bool settings_flag(const struct settings *s, enum setting_id id)
{
	return get(s, id, type_of(id) == VALUE_FLAG)->flag;
}

uint64_t settings_limit_num(const struct settings *s, enum setting_id id)
{
	return s->limits[id].has_value ? s->limits[id].value.num : 0;
}

uint64_t settings_num(const struct settings *s, enum setting_id id)
{
	return get(s, id, value_is(type_of(id), VALUE_IS_NUMBER))->num;
}

const char *settings_str(const struct settings *s, enum setting_id id)
{
	return get(s, id, value_is(type_of(id), VALUE_IS_TEXT))->str;
}

const struct mem_spec *settings_mem(const struct settings *s, enum setting_id id)
{
	return &get(s, id, type_of(id) == VALUE_MEM)->mem;
}

const struct gpu_picks *settings_gpus(const struct settings *s, enum setting_id id)
{
	return &get(s, id, type_of(id) == VALUE_GPUS)->gpus;
}

struct util_band settings_util_band(const struct settings *s)
{
	struct util_band band = s->slots[SET_UTIL_BAND].value.band;
	unsigned int aim = (unsigned int)(settings_num(s, SET_UTIL) + 5) / 10;

	/* A band somebody chose stands; the default one follows an aim outside of it. */
	if (s->slots[SET_UTIL_BAND].origin.layer >= s->slots[SET_UTIL].origin.layer ||
	    (aim >= band.floor && aim <= band.ceiling))
		return band;
	band.low = aim > 25 ? aim - 25 : 0;
	band.floor = aim > 5 ? aim - 5 : 0;
	band.ceiling = aim + 10 < 100 ? aim + 10 : 100;
	return band;
}

const struct setting_origin *settings_origin(const struct settings *s, enum setting_id id)
{
	return &s->slots[id].origin;
}

const char *setting_layer_name(enum setting_layer layer)
{
	return layer_names[layer];
}

char *settings_origin_text(const struct settings *s, enum setting_id id)
{
	const struct setting_origin *origin = &s->slots[id].origin;
	const char *layer = layer_names[origin->layer];

	if (origin->file) {
		cleanup_free char *file = fs_show_path(origin->file);

		return xasprintf("%s %s:%d", layer, file, origin->line);
	}
	if (origin->layer == SETTING_FROM_COMMAND_LINE)
		return xasprintf("%s --%s", layer, settings_table[id].opt.name);
	if (origin->layer == SETTING_FROM_ENVIRONMENT)
		return xasprintf("%s %s", layer, settings_table[id].opt.env);
	return xstrdup(layer);
}

const char *settings_notes(const struct settings *s)
{
	return strbuf_str(&s->notes);
}

const char *settings_file(const struct settings *s, enum setting_layer layer)
{
	return s->files[layer];
}
