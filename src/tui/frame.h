/* SPDX-License-Identifier: MIT */
#ifndef TENURE_TUI_FRAME_H
#define TENURE_TUI_FRAME_H

/*
 * What `top` shows: a snapshot of the model, and what its user has chosen, drawn on a canvas. From
 * the top: who and what it is about, the GPUs, the queue, nodes where there are several, events,
 * and the keys. Pure but for the clock that is handed in.
 */

#include <stdbool.h>
#include <stdint.h>

#include "model/model.h"
#include "tui/canvas.h"

#define FRAME_HISTORY 240 /* samples of a device that are kept, one a second */
#define FRAME_DEVICES 128
#define FRAME_EVENTS  64

enum frame_sort { SORT_PLAN, SORT_ID, SORT_NAME, SORT_TIME, SORT_MAX };
enum frame_part { PART_TASKS, PART_DEVICES, PART_MAX };

/* Utilisation of a device over time. */
struct frame_history {
	char uuid[96];
	size_t n;			   /* ever */
	unsigned char util[FRAME_HISTORY]; /* per cent, or FRAME_UNKNOWN; at [i % FRAME_HISTORY] */
};
#define FRAME_UNKNOWN 255

/* What the user has chosen, and what the screen remembers. Zeroed: nothing. */
struct frame_ui {
	enum frame_part part; /* that keys are about */
	enum frame_sort sort;
	bool ended;		/* what has ended is shown, too */
	bool help;		/* the keys, in place of all else */
	bool ascii;		/* the terminal shows no other characters */
	bool typing;		/* a filter is being typed */
	char filter[64];	/* names, lanes, ids and users that contain it; "": all */
	uint64_t task, element; /* the chosen row; 0: none */
	char uuid[96];		/* the chosen device */
	size_t scroll;		/* rows of the queue above the first one that is shown */
	char message[512];	/* what came of the last key; "" */
	bool message_is_bad;
	size_t n_histories;
	struct frame_history histories[FRAME_DEVICES];
	/* Of the last frame, for keys and the mouse. */
	size_t first_task_y, n_task_rows, first_device_y, n_device_rows, device_lines;
	size_t n_tasks; /* that pass the filter */
};

/* One more sample of each device. */
void frame_sample(struct frame_ui *ui, const struct model_snapshot *s);
/* events: the last ones, in JSON, the last one last. now_ns: wall. */
void frame_draw(struct canvas *c, const struct model_snapshot *s, char *const *events,
		size_t n_events, struct frame_ui *ui, const char *instance, uint64_t now_ns);

/* The rows of the queue in the order and choice of ui; the caller frees *ret. */
size_t frame_tasks(const struct model_snapshot *s, const struct frame_ui *ui,
		   const struct row ***ret);

#endif
