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
#include "tui/listing.h"
#include "tui/trend.h"

#define FRAME_EVENTS 512

/* What keys are about: one part of the frame. */
enum frame_part { PART_TASKS, PART_DEVICES, PART_NODES, PART_EVENTS, PART_MAX };

/* Where a part was in the last frame, for keys and the mouse. */
struct frame_pane {
	size_t y, rows, lines; /* the first line of its rows, how many of these, and lines of one */
	size_t scroll;	       /* rows above the first one that is shown */
};

/* What a frame is about. */
struct frame_look {
	const struct model_snapshot *s;
	char *const *events; /* the last ones, in JSON, the last one last */
	size_t n_events;
	uint64_t first_event; /* the number of the first of them, from 1 */
	const char *instance;
	uint64_t now_ns;  /* wall */
	uint64_t mono_ns; /* CLOCK_MONOTONIC */
};

/* What the user has chosen, and what the screen remembers. Zeroed: nothing. */
struct frame_ui {
	enum frame_part part; /* that keys are about */
	struct listing_wanted wanted;
	bool help;	 /* the keys, in place of all else */
	bool ascii;	 /* the terminal shows no other characters */
	bool no_braille; /* or not those */
	bool typing;	 /* a filter is being typed */
	/* What is chosen in each part. */
	uint64_t task, element; /* 0: none */
	char uuid[96];
	char node[NAME_AGENT_MAX + 1];
	uint64_t event; /* its number; 0: the last one, whichever that is */

	char message[512]; /* what came of the last key; "" */
	bool message_is_bad;
	struct trends trends;
	struct listing listing;
	size_t chosen_hint; /* where the chosen task was in it */
	struct frame_pane panes[PART_MAX];
};

void frame_clear(struct frame_ui *ui);
/* One more sample of each device. */
void frame_sample(struct frame_ui *ui, const struct frame_look *l);
void frame_draw(struct canvas *c, const struct frame_look *l, struct frame_ui *ui);

/* The rows of the queue in the order and choice of ui, good as long as the snapshot and until ui
 * is changed or used for another one. */
size_t frame_tasks(const struct model_snapshot *s, struct frame_ui *ui,
		   const struct row *const **ret);

/* Rows of a part; of nodes none where there is only one. */
size_t frame_rows(const struct frame_look *l, struct frame_ui *ui, enum frame_part part);
/* Which of them is chosen; SIZE_MAX: none is. */
size_t frame_chosen(const struct frame_look *l, struct frame_ui *ui, enum frame_part part);
void frame_choose(const struct frame_look *l, struct frame_ui *ui, enum frame_part part, size_t i);
/* What was drawn there: the part, and in *ret its row. PART_MAX: none of them. */
enum frame_part frame_at(const struct frame_look *l, struct frame_ui *ui, size_t y, size_t *ret);

/* The chosen device, node or event. New reference; NULL: none is. */
json_t *frame_thing(const struct frame_look *l, struct frame_ui *ui, enum frame_part part);

#endif
