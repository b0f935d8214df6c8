/* SPDX-License-Identifier: MIT */
#include "base/config.h"

#include <errno.h>
#include <libfyaml.h>
#include <stdio.h>
#include <string.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/strbuf.h"

struct config_mark {
	int line;
	int column;
};

static int at(const char *file, struct config_mark mark, struct err *e)
{
	cleanup_free char *shown = fs_show_path(file);

	return err_wrap(e, "%s:%d:%d", shown, mark.line, mark.column);
}

int config_at_key(const struct config_entry *entry, struct err *e)
{
	return at(entry->file, (struct config_mark){ entry->line, entry->column }, e);
}

int config_at_value(const struct config_entry *entry, struct err *e)
{
	return at(entry->file, (struct config_mark){ entry->value_line, entry->value_column }, e);
}

/* libfyaml counts from 0. A node that is empty has no token: its place is that of fall_back. */
static struct config_mark mark_of(struct fy_node *node, struct config_mark fall_back)
{
	struct fy_token *token = NULL;

	if (fy_node_is_scalar(node))
		token = fy_node_get_scalar_token(node);

	const struct fy_mark *mark = token ? fy_token_start_mark(token) : NULL;

	if (!mark && fy_node_is_sequence(node)) {
		struct fy_node *first = fy_node_sequence_get_by_index(node, 0);

		return first ? mark_of(first, fall_back) : fall_back;
	}
	if (!mark)
		return fall_back;

	/* That of a quoted scalar is behind its quote. */
	enum fy_node_style style = fy_node_get_style(node);
	int quote = style == FYNS_SINGLE_QUOTED || style == FYNS_DOUBLE_QUOTED;

	return (struct config_mark){ mark->line + 1, mark->column + 1 - quote };
}

static int syntax_error(const char *file, struct fy_diag *diag, struct err *e)
{
	void *iter = NULL;
	struct fy_diag_error *error = fy_diag_errors_iterate(diag, &iter);

	if (!error) {
		(void)err_set(e, -EINVAL, "not valid YAML or JSON");
		return at(file, (struct config_mark){ 1, 1 }, e);
	}
	(void)err_set(e, -EINVAL, "%.*s", (int)strcspn(error->msg, "\n"), error->msg);
	return at(file, (struct config_mark){ error->line, error->column }, e);
}

/* The text of a scalar; NULL with an error for anything else, and for text with a NUL in it. */
static char *scalar_text(struct fy_node *node, struct err *e)
{
	size_t len = 0;
	const char *text;

	if (fy_node_is_alias(node)) {
		(void)err_set(e, -EINVAL, "aliases are not supported here");
		return NULL;
	}
	if (!fy_node_is_scalar(node)) {
		(void)err_set(e, -EINVAL, "a mapping does not belong here");
		return NULL;
	}
	text = fy_node_get_scalar(node, &len);
	if (text && memchr(text, '\0', len)) {
		(void)err_set(e, -EINVAL, "the text has a NUL character in it");
		return NULL;
	}
	return xasprintf("%.*s", (int)len, text ? text : "");
}

static bool is_null(struct fy_node *node)
{
	static const char *const words[] = { "", "~", "null", "Null", "NULL" };
	size_t len = 0;
	const char *text;

	if (!node || fy_node_is_null(node))
		return true;
	if (!fy_node_is_scalar(node) || fy_node_get_style(node) != FYNS_PLAIN)
		return false;
	text = fy_node_get_scalar(node, &len);
	for (size_t i = 0; i < ARRAY_LEN(words); i++) {
		if (strlen(words[i]) == len && memcmp(text ? text : "", words[i], len) == 0)
			return true;
	}
	return false;
}

/* An item may not hold what joins the items. */
static int join_list(const char *file, struct fy_node *node, struct config_mark mark,
		     struct strbuf *b, struct err *e)
{
	struct fy_node *item;
	void *iter = NULL;

	while ((item = fy_node_sequence_iterate(node, &iter))) {
		cleanup_free char *text = scalar_text(item, e);

		if (text && text[strcspn(text, ", \t\n")]) {
			(void)err_set(e, -EINVAL, "\"%s\": an item of a list is one word", text);
			return at(file, mark_of(item, mark), e);
		}
		if (!text)
			return at(file, mark_of(item, mark), e);
		if (b->len)
			strbuf_addc(b, ',');
		strbuf_adds(b, text);
	}
	return 0;
}

/* Who is told of the keys, and whether a mapping may hold mappings. */
struct reader {
	const char *file;
	config_fn fn;
	config_fault_fn fault; /* NULL: the first mistake ends it */
	void *user;
	bool nested;
	bool blocks;	   /* they are entries, too */
	const char *block; /* only that key is read, into json */
	json_t **json;
	const char *prefix; /* of the keys: "", or "outer." */
};

static int read_mapping(const struct reader *r, struct fy_node *node, struct err *e);

/* More than that is no config of a person's. */
#define BLOCK_DEPTH_MAX 8

static json_t *node_json(const char *file, struct fy_node *node, unsigned int depth, struct err *e);

static json_t *list_json(const char *file, struct fy_node *node, unsigned int depth, struct err *e)
{
	json_t *list = json_array();
	struct fy_node *item;
	void *iter = NULL;

	while (list && (item = fy_node_sequence_iterate(node, &iter))) {
		json_t *value = node_json(file, item, depth + 1, e);

		if (!value) {
			json_decref(list);
			return NULL;
		}
		(void)json_array_append_new(list, value);
	}
	return list;
}

static json_t *mapping_json(const char *file, struct fy_node *node, unsigned int depth,
			    struct err *e)
{
	struct config_mark start = { 1, 1 };
	json_t *object = json_object();
	struct fy_node_pair *pair;
	void *iter = NULL;

	while ((pair = fy_node_mapping_iterate(node, &iter))) {
		struct fy_node *key_node = fy_node_pair_key(pair);
		cleanup_free char *key = scalar_text(key_node, e);
		json_t *value =
			key ? node_json(file, fy_node_pair_value(pair), depth + 1, e) : NULL;

		if (value && json_object_get(object, key)) {
			(void)err_set(e, -EINVAL, "duplicate key \"%s\"", key);
			json_decref(value);
			value = NULL;
		}
		if (!value) {
			if (!strstr(e->text, file))
				(void)at(file, mark_of(key_node, start), e);
			json_decref(object);
			return NULL;
		}
		(void)json_object_set_new(object, key, value);
	}
	return object;
}

/* NULL with an error, which has its place by the key that it is at. */
static json_t *node_json(const char *file, struct fy_node *node, unsigned int depth, struct err *e)
{
	if (depth > BLOCK_DEPTH_MAX) {
		(void)err_set(e, -EINVAL, "this is nested too deep");
		return NULL;
	}
	if (is_null(node))
		return json_null();
	if (fy_node_is_mapping(node))
		return mapping_json(file, node, depth, e);
	if (fy_node_is_sequence(node))
		return list_json(file, node, depth, e);

	cleanup_free char *text = scalar_text(node, e);

	return text ? json_string(text) : NULL;
}

static bool is_block(struct fy_node *node)
{
	struct fy_node *item;
	void *iter = NULL;

	if (!node || fy_node_is_scalar(node) || fy_node_is_alias(node))
		return false;
	if (fy_node_is_mapping(node))
		return true;
	while ((item = fy_node_sequence_iterate(node, &iter)))
		if (!fy_node_is_scalar(item))
			return true;
	return false;
}

static int read_inner(const struct reader *r, const char *key, struct fy_node *node, struct err *e)
{
	cleanup_free char *prefix = xasprintf("%s.", key);
	struct reader inner = *r;

	inner.nested = false;
	inner.prefix = prefix;
	return read_mapping(&inner, node, e);
}

static int read_pair(const struct reader *r, struct fy_node_pair *pair, struct err *e)
{
	const char *file = r->file;
	struct fy_node *key_node = fy_node_pair_key(pair), *node = fy_node_pair_value(pair);
	struct config_mark key_mark = mark_of(key_node, (struct config_mark){ 1, 1 });
	struct config_mark mark = node ? mark_of(node, key_mark) : key_mark;
	cleanup_free char *word = scalar_text(key_node, e);
	cleanup_free char *key = word ? xasprintf("%s%s", r->prefix, word) : NULL;
	cleanup_strbuf struct strbuf value = STRBUF_INIT;
	bool null = is_null(node), list = node && fy_node_is_sequence(node), block = false;

	if (!key)
		return at(file, key_mark, e);
	if (r->nested && node && fy_node_is_mapping(node))
		return read_inner(r, key, node, e);
	if (r->block) {
		if (strcmp(key, r->block) == 0)
			*r->json = node_json(file, node, 0, e);
		return strcmp(key, r->block) == 0 && !*r->json ? e->code : 0;
	}
	if (r->blocks && is_block(node)) {
		block = true;
	} else if (list) {
		int bad = join_list(file, node, mark, &value, e);

		if (bad < 0)
			return bad;
	} else if (!null) {
		cleanup_free char *text = scalar_text(node, e);

		if (!text) {
			(void)err_wrap(e, "%s", key);
			return at(file, mark, e);
		}
		strbuf_adds(&value, text);
	}

	struct config_entry entry = {
		.key = key,
		.text = strbuf_str(&value),
		.is_list = list,
		.is_null = null,
		.is_block = block,
		.file = file,
		.line = key_mark.line,
		.column = key_mark.column,
		.value_line = mark.line,
		.value_column = mark.column,
	};

	return r->fn(&entry, r->user, e);
}

static bool same_key(struct fy_node_pair *a, struct fy_node_pair *b)
{
	size_t a_len = 0, b_len = 0;
	const char *x = fy_node_get_scalar(fy_node_pair_key(a), &a_len);
	const char *y = fy_node_get_scalar(fy_node_pair_key(b), &b_len);

	return x && y && a_len == b_len && !memcmp(x, y, a_len);
}

/* libfyaml would end with such a key, and not say which one it is. */
static int check_once(const struct reader *r, struct fy_node *node, struct fy_node_pair *pair,
		      struct err *e)
{
	struct fy_node_pair *first;
	void *iter = NULL;

	do
		first = fy_node_mapping_iterate(node, &iter);
	while (first && first != pair && !same_key(first, pair));
	if (!first || first == pair)
		return 0;

	struct config_mark start = { 1, 1 }, mark = mark_of(fy_node_pair_key(pair), start);
	cleanup_free char *key = scalar_text(fy_node_pair_key(pair), e);

	(void)err_set(e, -EINVAL, "duplicate key \"%s%s\"; line %d has it, too", r->prefix,
		      key ? key : "", mark_of(fy_node_pair_key(first), start).line);
	return at(r->file, mark, e);
}

/* Before anything of the mapping counts; who wants all mistakes hears of it in its place. */
static int check_all_once(const struct reader *r, struct fy_node *node, struct err *e)
{
	struct fy_node_pair *pair;
	void *iter = NULL;

	while (!r->fault && (pair = fy_node_mapping_iterate(node, &iter))) {
		int bad = check_once(r, node, pair, e);

		if (bad < 0)
			return bad;
	}
	return 0;
}

static int tell_fault(const struct reader *r, struct fy_node_pair *pair, struct err *e)
{
	struct err none = ERR_INIT;
	cleanup_free char *key = scalar_text(fy_node_pair_key(pair), &none);

	return r->fault(key, r->user, e);
}

static int read_mapping(const struct reader *r, struct fy_node *node, struct err *e)
{
	struct fy_node_pair *pair;
	void *iter = NULL;
	int bad = check_all_once(r, node, e);

	while (bad == 0 && (pair = fy_node_mapping_iterate(node, &iter))) {
		if (r->fault && check_once(r, node, pair, e) < 0)
			bad = tell_fault(r, pair, e);
		if (bad == 0)
			bad = read_pair(r, pair, e);
		if (bad < 0 && r->fault)
			bad = tell_fault(r, pair, e);
	}
	return bad;
}

static int read_document(const struct reader *r, struct fy_document *doc, struct err *e)
{
	struct fy_node *root = fy_document_root(doc);

	if (is_null(root))
		return 0;
	if (!fy_node_is_mapping(root)) {
		(void)err_set(e, -EINVAL, "this is not a mapping; write lines like memory: 38G");
		return at(r->file, mark_of(root, (struct config_mark){ 1, 1 }), e);
	}
	return read_mapping(r, root, e);
}

/* Length of the UTF-8 character at p; 0: it is none (overlong forms and surrogates are none). */
static size_t utf8_len(const unsigned char *p, size_t left)
{
	size_t len = p[0] < 0x80 ? 1 : p[0] < 0xc2 ? 0 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;

	if (p[0] > 0xf4 || len > left)
		return 0;
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f) ||
	    (p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f))
		return 0;
	return len;
}

/*
 * What libfyaml must not see: on some bytes that are no text it never ends
 * (tests/fuzz/corpus/config has one), and a config has no use for directives.
 */
static int check_text(const char *file, const char *text, size_t len, struct err *e)
{
	struct config_mark mark = { 1, 1 };

	for (size_t i = 0; i < len;) {
		const unsigned char *p = (const unsigned char *)text + i;
		size_t n = utf8_len(p, len - i);

		if (!n || p[0] == 0x7f || (p[0] < ' ' && !strchr("\t\r\n", p[0])) || !p[0]) {
			(void)err_set(e, -EINVAL, "this is not text: byte 0x%02x", p[0]);
			return at(file, mark, e);
		}
		if (p[0] == '%' && mark.column == 1) {
			(void)err_set(e, -EINVAL, "directives are not supported");
			return at(file, mark, e);
		}
		mark.column++;
		if (p[0] == '\n' || (p[0] == '\r' && p[1] != '\n'))
			mark = (struct config_mark){ mark.line + 1, 1 };
		i += n;
	}
	return 0;
}

/* Blank lines and comments only: libfyaml calls that an error, people call it an empty config. */
static bool is_empty(const char *text, size_t len)
{
	const char *p = text, *end = text + len;

	while (p < end) {
		p += strspn(p, " \t\r\n");
		if (p < end && *p != '#')
			return false;
		p += strcspn(p, "\n");
	}
	return true;
}

static void discard_output(struct fy_diag *diag, void *user, const char *buf, size_t len)
{
}

static int parse(const struct reader *reader, const char *text, size_t len, struct err *e)
{
	const char *file = reader->file;
	struct fy_diag_cfg diag_cfg;
	int r = check_text(file, text, len, e);

	if (r < 0 || is_empty(text, len))
		return r;

	fy_diag_cfg_default(&diag_cfg);
	diag_cfg.fp = NULL;
	diag_cfg.output_fn = discard_output;

	struct fy_diag *diag = fy_diag_create(&diag_cfg);

	if (!diag)
		return err_set(e, -ENOMEM, "cannot read %s: out of memory", file);
	fy_diag_set_collect_errors(diag, true);

	struct fy_parse_cfg cfg = { .flags = FYPCF_QUIET | FYPCF_ALLOW_DUPLICATE_KEYS,
				    .diag = diag };
	struct fy_document *doc = fy_document_build_from_string(&cfg, text, len);

	if (doc)
		r = read_document(reader, doc, e);
	else
		r = syntax_error(file, diag, e);
	fy_document_destroy(doc);
	fy_diag_destroy(diag);
	return r;
}

int config_parse(const char *file, const char *text, size_t len, config_fn fn, void *user,
		 struct err *e)
{
	struct reader r = { .file = file, .fn = fn, .user = user, .prefix = "" };

	return parse(&r, text, len, e);
}

int config_parse_nested(const char *file, const char *text, size_t len, config_fn fn, void *user,
			struct err *e)
{
	struct reader r = { .file = file, .fn = fn, .user = user, .nested = true, .prefix = "" };

	return parse(&r, text, len, e);
}

static int read_all(const struct reader *r, bool own, struct err *e)
{
	cleanup_free char *text = NULL;
	size_t len;
	int code =
		(own ? fs_read_own_file : fs_read_file)(r->file, CONFIG_SIZE_MAX, &text, &len, e);

	return code < 0 ? code : parse(r, text, len, e);
}

int config_read_all(const char *path, config_fn fn, config_fault_fn fault, void *user,
		    struct err *e)
{
	struct reader r = {
		.file = path, .fn = fn, .fault = fault, .user = user, .blocks = true, .prefix = ""
	};

	return read_all(&r, false, e);
}

int config_read(const char *path, config_fn fn, void *user, struct err *e)
{
	return config_read_all(path, fn, NULL, user, e);
}

int config_read_own(const char *path, config_fn fn, void *user, struct err *e)
{
	struct reader r = { .file = path, .fn = fn, .user = user, .blocks = true, .prefix = "" };

	return read_all(&r, true, e);
}

int config_read_block(const char *path, bool own, const char *key, json_t **ret, struct err *e)
{
	json_t *json = NULL;
	struct reader r = { .file = path, .block = key, .json = &json, .prefix = "" };
	int code = read_all(&r, own, e);

	if (code < 0)
		json_decref(json);
	else
		*ret = json;
	return code;
}
