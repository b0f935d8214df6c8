// SPDX-License-Identifier: MIT
// What runs, what waits and why and until when, what has ended; and what happened. Of what waits a page is drawn, however
// long the queue is.

import { List, button, by, cell, h, say, set, show, table, tick } from "./dom.js";
import { gpuName, kindOf, stateKind, taskText } from "./gpus.js";
import { clock, duration, moment, now, reasonText, t } from "./strings.js";

const EVENTS_SHOWN = 60;

export function stateText(task) {
  if (task.state === "running" && task.ending_since) return t("ending_since", { time: clock(new Date(task.ending_since)) });
  if (task.exit === undefined || task.exit === null || task.state !== "failed") return t(task.state === "running" ? "runs" : task.state);
  return `${t(task.state)}, ${howText({ exit: task.exit, reason: task.ended_because })}`;
}

export function exitText(exit) { return exit >= 256 ? t("signal_n", { n: exit - 256 }) : t("exit_n", { n: exit }); }

// How it has ended: the program's own words where the exit code does not say it (its time was over, its GPU's memory was full).
export function howText({ exit, reason }) {
  const own = (reason ?? "").replace(/, try \d+( of \d+)?(;.*)?$/, "");
  return own && exit !== 0 && !/^(exit code|ended by signal) /.test(own) ? own : exitText(exit);
}

// How many: in words, since a number could be that of a GPU as well.
export function gpusText(gpus) {
  if (gpus === "all") return t("all");
  return gpus === undefined || gpus === null ? "" : gpus === 0 ? t("no_gpu") : t("n_gpus", { n: gpus });
}

export function forecastText(f) {
  if (!f) return "";
  switch (f.what) {
    case "range":
      if (f.high_s < 5) return t("when_soon");
      return f.low_s < 1 ? t("when_within", { b: duration(f.high_s) }) : t("when_range", { a: duration(f.low_s), b: duration(f.high_s) });
    case "least": return t("when_least", { a: duration(f.low_s) });
    case "too-many": return t("when_many");
    default: return f.task ? t("when_after", { n: taskText({ id: f.task, element: f.element }) }) : t("when_unknown");
  }
}

// The program's own words, or, where they are not in the reader's language, both.
function drawReason(el, task) {
  const code = task.lane_paused ? "lane-paused" : task.state === "paused" ? "paused" : task.reason?.code;
  const own = code ? reasonText(code) : null, text = task.reason?.text ?? (task.lane_paused ? t("lane_paused") : task.state === "paused" ? t("paused") : "");
  say(el.children[0], own ?? text);
  say(el.children[1], own && task.reason?.text ? task.reason.text : "");
  if (task.not_before && !task.reason) say(el.children[0], t("not_before", { time: moment(new Date(task.not_before)) }));
}

function countsText(counts) {
  return ["running", "waiting", "done", "failed", "cancelled"].filter((key) => counts[key]).map((key) => t(`batch_${key}`, { n: counts[key] })).join(", ");
}

function name(open, task) {
  const label = button("", null, () => open(taskText(task)), "link task-name");
  const more = h("span", { class: "quiet" });
  return { kids: [h("span", { class: "id", text: `#${taskText(task)}` }), label, more], draw(now) {
    say(label, now.name);
    set(label, "aria-label", `#${taskText(now)} ${now.name}`);
    say(more, now.counts ? countsText(now.counts) : now.elements ? t("elements", { n: now.elements }) : "");
  } };
}

function makeRunning(live, actions) {
  return (first) => {
    const named = name(actions.open, first), lane = h("span"), gpus = h("span"), time = h("span", { class: "num" });
    const bar = h("div", { class: "bar-track thin", "aria-hidden": "true" }, h("i", { class: "f-task" })), node = h("span");
    const about = taskText(first), of = (what) => t("of_task", { what: t(what), n: about });
    const tools = [button(t("log"), of("log"), () => actions.open(about, true)), live.canSteer() && button(t("stop"), of("stop"), () => actions.stop(first), "danger")];
    const el = h("tr", { role: "row", "data-task": about }, cell("c-task", t("c_task"), named.kids), cell("c-lane", t("c_lane"), lane), cell("c-gpus", t("c_gpus"), gpus),
      cell("c-node", t("c_node"), node), cell("c-time", t("c_time"), time, bar), cell("c-actions", t("c_actions"), tools));
    let began = NaN, limit = 0; // by a clock that nobody sets
    const pass = tick(time, () => {
      const ran = (performance.now() - began) / 1000, known = !Number.isNaN(began);
      say(time, known ? limit ? t("of_limit", { t: duration(ran), max: duration(limit) }) : t("no_limit", { t: duration(ran) }) : "");
      if (limit) bar.firstChild.style.setProperty("width", `${Math.min(100, 100 * ran / limit)}%`);
    });
    return { el, draw(task) {
      named.draw(task);
      if (task.ending_since) say(named.kids[2], stateText(task));
      set(el, "data-ending", Boolean(task.ending_since));
      say(lane, task.lane ?? "");
      set(lane.parentElement, "data-empty", !task.lane);
      say(gpus, task.devices?.length ? t("gpu_list", { list: task.devices.join(", ") }) : gpusText(task.gpus));
      set(gpus, "title", task.devices?.length ? t("on_gpus", { list: task.devices.map((n) => gpuName(n)).join(", ") }) : null);
      say(node, task.agent ?? "");
      const since = performance.now() - 1000 * (task.ran_s ?? NaN);
      if (!(Math.abs(since - began) < 1500)) began = since; // answers take their time, now more and now less
      limit = task.timeout_s ?? 0;
      show(bar, limit);
      pass();
    } };
  };
}

function makeWaiting(live, actions) {
  return (first) => {
    const named = name(actions.open, first), lane = h("span"), gpus = h("span"), priority = h("span", { class: "num" });
    const why = h("div", { class: "why" }, h("span"), h("span", { class: "quiet", lang: "en" })), when = h("span");
    const about = taskText(first);
    const tools = live.canSteer() && [button(t("stop"), t("of_task", { what: t("stop"), n: about }), () => actions.stop(first), "danger")];
    const el = h("tr", { role: "row", "data-task": about }, cell("c-task", t("c_task"), named.kids), cell("c-lane", t("c_lane"), lane), cell("c-priority num", t("c_priority"), priority), cell("c-gpus", t("c_gpus"), gpus),
      cell("c-why", t("c_why"), why), cell("c-forecast", t("c_when"), when), cell("c-actions", t("c_actions"), tools || []));
    return { el, draw(task) {
      named.draw(task);
      say(lane, task.lane ?? "");
      set(lane.parentElement, "data-empty", !task.lane);
      say(priority, task.priority);
      set(priority.parentElement, "data-usual", task.priority === 500);
      say(gpus, gpusText(task.gpus));
      drawReason(why, task);
      say(when, forecastText(task.forecast));
      set(when.parentElement, "data-empty", !task.forecast);
      set(el, "data-state", task.state);
    } };
  };
}

function makeEnded(live, actions) {
  return (first) => {
    const named = name(actions.open, first), state = h("span", { class: "result" }), when = h("time");
    const about = taskText(first), what = t(first.elements ? "elements_of" : "log"); // of an array each element has a log
    const el = h("tr", { role: "row", "data-task": about }, cell("c-task", t("c_task"), named.kids), cell("c-lane", t("c_lane"), h("span", { text: first.lane ?? "" })), cell("c-result", t("c_result"), state), cell("c-ended", t("c_ended"), when), cell("c-actions", t("c_actions"), button(what, t("of_task", { what, n: about }), () => actions.open(about, true))));
    set(el.children[1], "data-empty", !first.lane);
    let ended = 0;
    const pass = tick(when, () => say(when, ended ? t("ago", { t: duration((now() - ended) / 1000) }) : ""));
    return { el, draw(task) {
      named.draw(task);
      say(state, stateText(task));
      set(state, "data-state", task.state);
      ended = task.ended ? Date.parse(task.ended) : 0;
      set(when, "datetime", task.ended);
      set(when, "title", ended ? moment(new Date(ended)) : null);
      pass();
    } };
  };
}

const PARTS = {
  running: { make: makeRunning, none: "none_running", columns: [["c-task", "c_task"], ["c-lane", "c_lane"], ["c-gpus", "c_gpus"], ["c-node", "c_node"], ["c-time", "c_time"], ["c-actions", "c_actions"]] },
  waiting: { make: makeWaiting, none: "none_waiting", columns: [["c-task", "c_task"], ["c-lane", "c_lane"], ["c-priority num", "c_priority"], ["c-gpus", "c_gpus"], ["c-why", "c_why"], ["c-forecast", "c_when"], ["c-actions", "c_actions"]] },
  ended: { make: makeEnded, none: "none_ended", columns: [["c-task", "c_task"], ["c-lane", "c_lane"], ["c-result", "c_result"], ["c-ended", "c_ended"], ["c-actions", "c_actions"]] },
};

function drawLanes(live) {
  const select = by("filter-lane"), names = [...live.lanes].sort(), drawn = `${names.join("\n")}${t("all_lanes")}`;
  show(select.parentElement, names.length);
  if (select.dataset.drawn === drawn) return;
  select.dataset.drawn = drawn;
  select.replaceChildren(h("option", { value: "", text: t("all_lanes") }), ...names.map((lane) => h("option", { value: lane, text: lane })));
  select.value = live.lane;
  by("lanes").replaceChildren(...names.map((lane) => h("option", { value: lane })));
}

function drawPages(live) {
  const w = live.waiting, before = live.cursors.length * 50;
  show(by("waiting-pages"), w.next || live.cursor);
  show(by("page-next"), w.next);
  show(by("page-first"), live.cursors.length > 1);
  show(by("page-previous"), live.cursor);
  say(by("page-at"), t("page_at", { a: before + 1, b: before + w.tasks.length, n: w.total }));
}

export function queueView(live, actions) {
  const lists = {};
  let typed = null;
  by("filter-name").addEventListener("input", (e) => {
    clearTimeout(typed);
    typed = setTimeout(() => live.filter(e.target.value.trim(), live.lane), 200);
  });
  by("filter-lane").addEventListener("change", (e) => live.filter(live.name, e.target.value));
  by("page-next").addEventListener("click", () => live.page(live.waiting.next));
  by("page-first").addEventListener("click", () => live.page(null));
  by("page-previous").addEventListener("click", () => live.pageBack());
  by("more-ended").addEventListener("click", () => {
    live.endedLimit = Math.min(500, live.endedLimit * 3);
    live.paced.tasks.want(true);
  });
  const draw = () => {
    if (!live.waiting) return;
    for (const [part, { none }] of Object.entries(PARTS)) {
      const doc = live[part];
      lists[part]?.draw(doc.tasks);
      say(by(`n-${part}`), doc.total);
      show(by(`${part}-table`), doc.tasks.length);
      show(by(`no-${part}`), !doc.tasks.length);
      say(by(`no-${part}`), t(!live.read ? "not_read" : live.name || live.lane ? "none_match" : none));
    }
    drawLanes(live);
    drawPages(live);
    show(by("more-ended"), live.ended.next && live.endedLimit < 500);
    show(by("queue-trouble"), live.queueTrouble);
    say(by("queue-trouble"), live.queueTrouble ? t("queue_trouble", { why: live.queueTrouble }) : "");
    by("queue").classList.toggle("stale", live.link === "old" || live.late.has("tasks") || Boolean(live.queueTrouble));
  };
  return { draw, on: ["tasks", "link"], relabel() {
    for (const [part, { make, columns }] of Object.entries(PARTS)) {
      const made = table(`${part}-title`, columns.map(([cls, label]) => [cls, t(label)]));
      by(`${part}-table`).replaceChildren(made.el);
      lists[part] = new List(made.body, taskText, make(live, actions));
    }
    by("filter-lane").dataset.drawn = "";
    draw();
  } };
}

/* ---- events ---- */

function makeEvent(e) {
  const at = new Date(e.time), level = e.level === "error" || e.level === "warning" ? e.level : null;
  const el = h("li", { class: level, "data-event": e.event }, h("time", { datetime: e.time, title: moment(at), text: clock(at) }), level && h("strong", { text: t(level) }), h("bdi", { lang: "en", text: e.text }));
  return { el, draw() {} };
}

export function eventsView(live) {
  const list = new List(by("event-list"), (e) => e.id ?? e.time + e.text, makeEvent);
  const draw = () => {
    list.draw(live.events.filter((e) => e.event !== "device").slice(-EVENTS_SHOWN).reverse());
    show(by("no-events"), !live.events.length);
  };
  return { draw, on: ["events"], relabel() {
    list.clear();
    draw();
  } };
}

/* ---- nodes, pools, allocations ---- */

function deadlineOf(live, node) {
  const agent = node.here ? live.status?.agent : null;
  const all = [agent?.until, agent?.lifetime?.ends, node.job?.deadline].filter(Boolean);
  return all.sort((a, b) => Date.parse(a) - Date.parse(b))[0] ?? null;
}

function makeNode(live) {
  return (first) => {
    const state = h("span"), gpus = h("span", { class: "chips" }), running = h("span"), ends = h("span"), heard = h("span"), job = h("span", { class: "quiet" });
    const el = h("tr", { role: "row" }, cell("c-node", t("c_node"), h("b", { text: first.agent }), job), cell("c-state", t("c_state"), state), cell("c-gpus", t("c_gpus"), gpus), cell("c-running num", t("running"), running), cell("c-deadline", t("c_deadline"), ends), cell("c-heard", t("c_heard"), heard));
    let until = null, at = 0;
    const near = tick(ends, () => {
      const left = until ? (Date.parse(until) - now()) / 1000 : 0;
      say(ends, until ? left > 0 ? t("in_time", { t: duration(left) }) : t("passed") : t("never"));
      ends.classList.toggle("near", Boolean(until) && left < 1800);
    });
    const pass = tick(heard, () => say(heard, at ? t("ago", { t: duration((Date.now() - at) / 1000) }) : t("unknown")));
    return { el, draw(node) {
      say(state, [t(["alive", "gone", "off"].includes(node.state) ? node.state : "unknown"), node.here && t("here"), node.draining && t("draining")].filter(Boolean).join(", "));
      set(el, "data-state", node.state);
      say(job, node.job ? `${node.job.engine} ${node.job.id ?? ""}` : node.host && node.host !== node.agent ? node.host : "");
      const list = node.here && live.status ? live.status.devices : node.gpus ?? [];
      const kinds = list.map((g) => (node.here && live.status ? kindOf(live, g) : stateKind(g))), drawn = kinds.join();
      if (gpus.dataset.drawn !== drawn) {
        gpus.dataset.drawn = drawn;
        gpus.replaceChildren(...kinds.map((kind, i) => h("span", { class: `badge k-${kind}`, role: "img", "aria-label": t(kind), title: list[i].name, text: t(`letter_${kind}`) })));
      }
      say(running, (node.here ? live.status?.queue?.running : null) ?? node.running ?? "");
      until = deadlineOf(live, node);
      at = node.age_s === null || node.age_s === undefined ? 0 : Date.now() - node.age_s * 1000;
      near();
      pass();
    } };
  };
}

// What is done about it stands below what comes next.
function makePool(live, { pool: does }) {
  return (first) => {
    let pool = first;
    const engine = h("span"), have = h("span"), next = h("span", { lang: "en" }), of = (what) => t("of_pool", { what: t(what), name: first.pool });
    const change = button(t("p_change"), of("p_change"), () => does.open(pool)), again = button(t("p_again"), of("p_again"), () => does.again(first.pool));
    const down = button(t("release"), of("release"), () => does.down(first.pool), "danger");
    const el = h("tr", { role: "row", "data-pool": first.pool }, cell("c-pool", t("c_pool"), h("b", { text: first.pool })), cell("c-engine", t("c_engine"), engine), cell("c-have", t("c_have"), have),
      cell("c-next", t("c_next"), next, live.canSteer() && h("div", { class: "row-tools" }, change, again, down)));
    return { el, draw(now) {
      pool = now;
      say(engine, now.engine ?? "");
      say(have, now.down ? t("down") : t("pool_have", { live: now.live, wanted: now.wanted, waiting: now.waiting }));
      say(next, [now.paused && t("paused"), now.pause, now.error, now.next].filter(Boolean).join("; "));
      show(again, now.down || now.paused);
      show(down, !now.down);
    } };
  };
}

function makeAllocation(live, actions) {
  return (first) => {
    const gpus = h("span"), state = h("span"), program = h("span");
    const el = h("tr", { role: "row" }, cell("c-name", t("c_name"), h("b", { text: first.name })), cell("c-gpus", t("c_gpus"), gpus), cell("c-state", t("c_state"), state), cell("c-program", t("c_program"), program),
      cell("c-actions", t("c_actions"), live.canSteer() ? button(t("release"), `${t("release")}: ${first.name}`, () => actions.release(first.name), "danger") : []));
    return { el, draw(now) {
      say(gpus, now.gpus);
      say(state, [t(now.state === "allocated" ? "allocated" : "pending"), now.agent].filter(Boolean).join(", "));
      say(program, now.program ?? "");
      set(program.parentElement, "data-empty", !now.program);
    } };
  };
}

export function nodesView(live, actions) {
  const parts = {
    nodes: { key: (n) => n.agent, make: makeNode(live), columns: [["c-node", "c_node"], ["c-state", "c_state"], ["c-gpus", "c_gpus"], ["c-running num", "running"], ["c-deadline", "c_deadline"], ["c-heard", "c_heard"]] },
    pools: { key: (p) => p.pool, make: makePool(live, actions), columns: [["c-pool", "c_pool"], ["c-engine", "c_engine"], ["c-have", "c_have"], ["c-next", "c_next"]] },
    allocations: { key: (a) => a.name, make: makeAllocation(live, actions), columns: [["c-name", "c_name"], ["c-gpus", "c_gpus"], ["c-state", "c_state"], ["c-program", "c_program"], ["c-actions", "c_actions"]] },
  };
  const draw = () => {
    for (const [part, one] of Object.entries(parts)) {
      one.list?.draw(live[part]);
      show(by(part), live[part].length || part === "nodes");
    }
    show(by("no-nodes"), live.health && !live.nodes.length);
    show(by("nodes-table"), live.nodes.length);
  };
  return { draw, on: ["nodes"], relabel() {
    for (const [part, one] of Object.entries(parts)) {
      const made = table(`${part}-title`, one.columns.map(([cls, label]) => [cls, t(label)]));
      by(`${part}-table`).replaceChildren(made.el);
      one.list = new List(made.body, one.key, one.make);
    }
    draw();
  } };
}
