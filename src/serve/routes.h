/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_ROUTES_H
#define TENURE_SERVE_ROUTES_H

/* All that can be asked, which web/openapi.json describes. Ends with a row without path. */

#include "serve/request.h"

extern const struct route routes[];

#endif
