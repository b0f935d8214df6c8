/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_RELOAD_H
#define TENURE_AGENT_RELOAD_H

/*
 * Other settings for an agent that runs (`tenure reload`, `tenure on` with options). The client
 * reads the files and options; what comes of them is one JSON document, which an agent is given at
 * its start, too (agent_config.given):
 *
 *	hold		whether to hold at all
 *	values		of each setting of an agent: [text or null, enum setting_layer]
 *	site_devices	the site's limit of devices, 0: none
 *	options		what of that was said on the command line, for the next reload
 *	variables	the same of the environment, where the agent was started
 *	for_ms, until_ns	where --for and --until were given
 *	helpers		the programs that are to run beside it (agent/helpers.h)
 *
 * SIGHUP of an agent without a terminal has `tenure reload` run, which does all that.
 *
 * All of it is checked before anything changes. The guard has the last word on what is held, and
 * follows in place: what stays selected stays held. Where it refuses, all is as it was before.
 */

#include <jansson.h>

#include "agent/node/config.h"
#include "base/settings.h"

#define RELOAD_TEXT_MAX 16384 /* bytes of the document: it is one packet */

struct agent;
struct ctl_client;

/* A running agent cannot change it. */
bool reload_is_fixed(enum setting_id id);

struct reload *reload_new(struct agent *a);
/* Its memory goes with its handle in the loop. */
void reload_close(struct agent *a);

/* The settings that an agent follows while it runs, but for its policy. serves: it has a queue;
 * helpers: the document's. */
void reload_take(struct agent_config *c, const struct settings *s, bool serves,
		 const json_t *helpers);

/*
 * The answer, a new reference: {code, error} or {code, changed, fixed}, sentences each; or NULL: it
 * comes when the guard has replied.
 */
json_t *reload_begin(struct agent *a, struct ctl_client *client, const char *text);
void reload_forget(struct agent *a, const struct ctl_client *client);
/* The guard's word on a policy. False: nobody waits for that. */
bool reload_on_reply(struct agent *a, int code, const char *text);
/* What was said on the command line, and in the environment. New references. */
json_t *reload_options(const struct agent *a);
json_t *reload_variables(const struct agent *a);
#endif
