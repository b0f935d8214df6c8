/* SPDX-License-Identifier: MIT */
#ifndef TENURE_AGENT_NODE_DEVICE_HEALTH_H
#define TENURE_AGENT_NODE_DEVICE_HEALTH_H

/*
 * The health of a device as JSON, the same in `status` and `devices`: docs/json.md.
 */

#include <jansson.h>
#include <stdint.h>

#include "gpu/health.h"

/* A new reference: an object, or null where nothing was ever read of it (MIG). now: monotonic. */
json_t *health_json(const struct gpu_health *h, uint64_t now_ns);

#endif
