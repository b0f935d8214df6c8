/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_LOOK_H
#define TENURE_SERVE_LOOK_H

/* What there is to see, of the model (model/model.h): these answer at once. */

#include "serve/request.h"

void look_devices(struct serve *s, struct request *r);
void look_nodes(struct serve *s, struct request *r);
void look_pools(struct serve *s, struct request *r);
void look_status(struct serve *s, struct request *r);
void look_hold(struct serve *s, struct request *r);
void look_asks(struct serve *s, struct request *r);
void look_tasks(struct serve *s, struct request *r);

#endif
