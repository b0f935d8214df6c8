/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_K8S_TEXT_H
#define TENURE_ENGINE_K8S_TEXT_H

/*
 * Kubernetes, how `kubectl` is called and what it prints. Pure; k8s.c runs it, and k8s_manifest.h
 * has what it is given. The server's answers are read as JSON where all of it counts, and in lines
 * of our own (k8s_text_node_lines()) where a large cluster would print more than anybody reads.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/textlist.h"
#include "engine/engine.h"

/* "kubectl", "--request-timeout=10s", "--namespace=..", verb. */
void k8s_text_command(const struct text_list *settings, const char *verb, struct text_list *argv);
/* For nodes and for the pods on them: the value of -o, with the pool's own names of the resource
 * and of the label. The caller frees them. */
char *k8s_text_node_lines(const struct text_list *settings);
char *k8s_text_pod_lines(const struct text_list *settings);

/* "get jobs,pods -o json": the jobs whose names begin so; their GPUs are of that resource. 0;
 * -EBADMSG. */
int k8s_text_jobs(const char *text, size_t len, const char *prefix, const char *resource,
		  struct engine_jobs *jobs, struct err *e);
/* Some of them have no pod, and do not say why. */
bool k8s_text_lacks_pods(const struct engine_jobs *jobs);
/* "get events -o json", of pods that could not be made (a quota): these jobs say so. What is no
 * list says nothing. */
void k8s_text_events(const char *text, size_t len, struct engine_jobs *jobs);
/* "job.batch/NAME": the name, which the caller frees; NULL. */
char *k8s_text_created(const char *text);
/* What a failure's text means for a job that was to be submitted: ENGINE_REFUSED, ENGINE_UNSURE,
 * -EEXIST: it has it already; -EDQUOT, -EACCES, -ECONNREFUSED. */
int k8s_text_refusal(const char *text);
/* The user may not see that. */
bool k8s_text_is_forbidden(const char *text);
/* Of the lines that were asked for, each node with GPUs. 0; -EBADMSG. */
int k8s_text_nodes(const char *text, struct engine_nodes *nodes, struct err *e);
/* Takes what these pods were given from what is free. pods NULL: nobody may see them, and each node
 * says that what is free is not known. */
void k8s_text_use(const char *pods, struct engine_nodes *nodes);

/* What the variables of our container say: 0; -ENOENT. */
int k8s_text_inside(const char *const *variables, struct engine_here *ret, struct err *e);

#endif
