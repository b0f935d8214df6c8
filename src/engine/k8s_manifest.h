/* SPDX-License-Identifier: MIT */
#ifndef TENURE_ENGINE_K8S_MANIFEST_H
#define TENURE_ENGINE_K8S_MANIFEST_H

/*
 * Kubernetes, what `kubectl` is given: a node of a pool is a Job with one Pod, which is written as
 * YAML whose parts of several values stand in JSON on one line, so that a site's own manifest can
 * put each where it wants it. Pure; k8s.c runs it, and k8s_text.h reads what comes back.
 */

#include "base/err.h"
#include "base/strbuf.h"
#include "base/textlist.h"
#include "engine/engine.h"
#include "engine/keys.h"

/* What the container is told, and k8s_text_inside() reads. */
#define K8S_JOB_VARIABLE  "TENURE_K8S_JOB"
#define K8S_POD_VARIABLE  "TENURE_K8S_POD"
#define K8S_NODE_VARIABLE "TENURE_K8S_NODE"
#define K8S_GPUS_VARIABLE "TENURE_K8S_GPUS"

/* What all of our jobs and pods have. */
#define K8S_LABEL "app.kubernetes.io/managed-by=tenure"

extern const struct engine_key k8s_keys[];

/* What the pool says, else the default; NULL: neither. */
const char *k8s_setting(const struct text_list *settings, const char *key);

/* 0; -EINVAL: e names each setting that is missing, or what is wrong with one. */
int k8s_manifest(const struct engine_request *req, struct strbuf *manifest, struct err *e);

#endif
