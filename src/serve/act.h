/* SPDX-License-Identifier: MIT */
#ifndef TENURE_SERVE_ACT_H
#define TENURE_SERVE_ACT_H

/* What is done, and what only files tell, by the program's own commands (call.h). */

#include "serve/request.h"

void act_instances(struct serve *s, struct request *r);
void act_show(struct serve *s, struct request *r);
void act_why(struct serve *s, struct request *r);
void act_submit(struct serve *s, struct request *r);
void act_stop(struct serve *s, struct request *r);
void act_retry(struct serve *s, struct request *r);
void act_priority(struct serve *s, struct request *r);
void act_pause(struct serve *s, struct request *r);
void act_resume(struct serve *s, struct request *r);
void act_pause_lane(struct serve *s, struct request *r);
void act_resume_lane(struct serve *s, struct request *r);
void act_change_hold(struct serve *s, struct request *r);
void act_answer(struct serve *s, struct request *r);
void act_up(struct serve *s, struct request *r);
void act_down(struct serve *s, struct request *r);
void act_tick(struct serve *s, struct request *r);
void act_allocations(struct serve *s, struct request *r);
void act_allocate(struct serve *s, struct request *r);
void act_release(struct serve *s, struct request *r);

#endif
