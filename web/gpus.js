// SPDX-License-Identifier: MIT
// Whose each GPU is and why, what it was used for over the last day, how much of it is in use, and what was yielded: of this
// node as its agent tells it now, of others as they have told of it in the queue.

import { List, button, by, cell, h, say, set, show, svg, table, tick } from "./dom.js";
import { clock, duration, gib, hour, moment, now, t } from "./strings.js";

const DAY_S = 86400;

// What a device's state comes to, for a glance. Each has a colour, a pattern, a height in the strips, and a letter.
export const KINDS = ["task", "held", "foreign", "idle", "left", "fault", "blind"];

const KIND_OF_STATE = { lent: "task", lending: "task", workload: "task", held: "held", holding: "held", yielding: "held",
  busy: "foreign", idle: "idle", left: "left", unseen: "blind", mig: "left" };
const KIND_OF_SAMPLE = { workload: "task", task: "task", held: "held", foreign: "foreign", idle: "idle", left: "left", fault: "fault", blind: "blind" };

// Which of its tasks has it: also one that runs and has not touched it yet, for which it is held until then.
// live: all that is known of this node, or Elsewhere.
export function taskOn(live, device) {
  const id = /^(?:in use by|reserved:) task ([\d.]+)$/.exec(device.use ?? "")?.[1];
  const here = live.tasksAt ? live.tasksAt(id) : (live.status?.queue?.tasks ?? []).filter((one) => one.gpus?.includes(labelOf(device)));
  if (id) return here.find((one) => taskText(one) === id) ?? null;
  return stateKind(device) === "task" ? here[0] ?? null : null;
}

export function kindOf(live, device) {
  return taskOn(live, device)?.state === "running" ? "task" : stateKind(device);
}

export function stateKind(device) {
  if (/^in use by task/.test(device.use ?? "")) return "task";
  const kind = KIND_OF_STATE[device.state] ?? "blind";
  return device.xid && (kind === "idle" || kind === "foreign") ? "fault" : kind;
}

export function gpuName(gpu, mig) { return mig === null || mig === undefined ? t("gpu", { n: gpu }) : t("mig", { n: gpu, m: mig }); }

export function badge(kind) { return h("span", { class: `badge k-${kind}`, "aria-hidden": "true", text: t(`letter_${kind}`) }); }

export function taskText(task) { return task.element ? `${task.id}.${task.element}` : String(task.id); }

export function whoOf(y) {
  if (y.user && y.command) return `${y.user} (${y.command})`;
  return y.user ?? y.command ?? (y.pid ? `PID ${y.pid}` : t("somebody"));
}

// What lists of a task's GPUs call it: 2, or "2/1" of an instance of it (MIG).
function labelOf(device) { return device.mig === null || device.mig === undefined ? device.gpu : `${device.gpu}/${device.mig}`; }

// A GPU of another node has that node's name.
export function gpuOf(live, e) {
  const own = live.nodes.find((node) => node.here)?.agent, gpu = gpuName(e.gpu, e.mig);
  return own && e.node && e.node !== own ? t("gpu_on", { gpu, node: e.node }) : gpu;
}

export function yieldMs(y) { return (y.hint_to_verdict_ms ?? 0) + (y.verdict_to_freed_ms ?? 0); }

/* ---- the strip of a device ---- */

class Strip {
  constructor(device) {
    this.uuid = device.uuid;
    this.blocks = svg("g");
    this.use = svg("svg", { viewBox: "0 0 1000 100", preserveAspectRatio: "none", width: "100%", height: "100%", class: "use" }, svg("polyline", { "vector-effect": "non-scaling-stroke" }));
    this.marks = svg("g");
    this.cursor = svg("line", { class: "cursor", y1: "0", y2: "100%", visibility: "hidden" });
    this.art = svg("svg", { class: "strip-art", "aria-hidden": "true", focusable: "false" },
      [25, 50, 75].map((x) => svg("line", { class: "grid", x1: `${x}%`, x2: `${x}%`, y1: "0", y2: "100%" })), this.blocks, this.use, this.marks, this.cursor);
    this.readout = h("output", { class: "readout", "aria-hidden": "true" });
    // A slider: it has a place in time that arrows move and whose text is read out.
    this.el = h("div", { class: "strip", tabindex: "0", role: "slider", "aria-orientation": "horizontal", "aria-valuemin": "0",
      on: { keydown: (e) => this.key(e), pointermove: (e) => this.point(e), pointerleave: () => this.leave(), focus: () => this.move(this.at ?? this.n() - 1), blur: () => this.leave() } }, this.art, this.readout);
    this.points = [];
    this.yields = [];
    this.at = null;
  }

  n() { return this.points.length; }

  // The device's samples, and what it is since the last of them.
  gather(live, device) {
    const past = live.past?.devices.find((one) => one.uuid === this.uuid)?.samples, step = live.past?.step_s ?? 180;
    const until = live.until(), from = now() / 1000 - DAY_S, end = Math.min(until, live.node ? live.past?.now ?? 0 : until);
    this.points = [];
    past?.t.forEach((start, i) => {
      if (start + step > from && start < end && past.state[i]) {
        this.points.push({ from: Math.max(start, from), to: Math.min(start + step, end), kind: KIND_OF_SAMPLE[past.state[i]], util: past.util[i], power: past.power_w[i], task: past.task[i] });
      }
    });
    const last = this.points.at(-1)?.to ?? 0, since = until - (device.for_s ?? 0);
    const begin = Math.max(last, until - last < 2 * step && !live.node ? last : since, from);
    if (live.agent && until - last > 1 && (!live.node || device.for_s !== null)) {
      this.points.push({ from: Math.min(begin, until), to: until, kind: kindOf(live, device), util: device.utilisation, power: device.power_w, task: taskOn(live, device)?.id });
    }
    this.yields = live.yields.filter((y) => y.uuid === this.uuid);
    return { from };
  }

  // It moves by a pixel in two minutes: drawn when something of it is new, and now and then.
  draw(live, device, name) {
    const drawn = [kindOf(live, device), taskOn(live, device)?.id, live.yields.length, live.agent, name, Math.floor(Date.now() / 10000), live.node?.state].join();
    if (this.drawn === drawn && this.past === live.past) return;
    Object.assign(this, { drawn, past: live.past });
    const { from } = this.gather(live, device), x = (at) => `${(100 * (at - from) / DAY_S).toFixed(3)}%`;
    const runs = [];
    for (const p of this.points) {
      const run = runs.at(-1);
      if (run && run.kind === p.kind && run.task === p.task && p.from - run.to < 1) run.to = p.to;
      else runs.push({ ...p });
    }
    this.blocks.replaceChildren(...runs.map((run) => svg("rect", { class: `b-${run.kind}`, x: x(run.from), y: "0", height: "100%", width: `${Math.max(0.12, 100 * (run.to - run.from) / DAY_S).toFixed(3)}%` })));
    this.use.firstChild.setAttribute("points", this.points.filter((p) => p.util !== null && p.util !== undefined)
      .map((p) => `${(500 * (p.from + p.to - 2 * from) / DAY_S).toFixed(1)},${(98 - 0.94 * p.util).toFixed(1)}`).join(" "));
    this.marks.replaceChildren(...this.yields.map((y) => svg("svg", { x: x(Date.parse(y.time) / 1000), y: "0", class: "mark" }, svg("path", { d: "M-5 0 L5 0 L0 8 Z" }), svg("line", { x1: "0", x2: "0", y1: "6", y2: "100%" }))));
    set(this.el, "aria-label", t("strip_of", { gpu: name }));
    set(this.el, "aria-valuemax", Math.max(0, this.n() - 1));
    set(this.el, "aria-description", this.summary(name));
    this.from = from;
    if (this.at !== null && document.activeElement === this.el) this.move(Math.min(this.at, this.n() - 1), true);
    else if (!this.el.matches(":hover")) set(this.el, "aria-valuetext", this.n() ? this.textOf(this.n() - 1) : t("gap"));
  }

  summary(name) {
    const sums = {};
    for (const p of this.points) sums[p.kind] = (sums[p.kind] ?? 0) + p.to - p.from;
    const parts = KINDS.filter((kind) => sums[kind]).map((kind) => `${t(kind)} ${duration(sums[kind])}`);
    if (this.yields.length) parts.push(t("strip_yields", { n: this.yields.length }));
    return t("strip_sum", { gpu: name, parts: parts.join(", ") || t("gap") });
  }

  textOf(i) {
    const p = this.points[i], parts = [t("strip_point", { from: hour(new Date(p.from * 1000)), to: hour(new Date(p.to * 1000)), state: t(p.kind) })];
    if (p.task) parts[0] += ` (${t("strip_task", { n: p.task })})`;
    if (p.util !== null && p.util !== undefined) parts.push(t("strip_util", { n: Math.round(p.util) }));
    if (p.power !== null && p.power !== undefined) parts.push(t("strip_power", { n: Math.round(p.power) }));
    const reach = Math.max(150, (p.to - p.from) / 2), middle = (p.from + p.to) / 2;
    for (const y of this.yields) {
      if (Math.abs(Date.parse(y.time) / 1000 - middle) <= reach) parts.push(t("strip_yield", { who: whoOf(y), time: clock(new Date(y.time)), ms: Math.round(yieldMs(y)) }));
    }
    return parts.join(", ");
  }

  move(i, quiet) {
    if (i < 0 || !this.n()) return;
    this.at = i;
    const p = this.points[i], x = 100 * ((p.from + p.to) / 2 - this.from) / DAY_S, text = this.textOf(i);
    for (const name of ["x1", "x2"]) this.cursor.setAttribute(name, `${x}%`);
    set(this.cursor, "visibility", "visible");
    set(this.el, "aria-valuenow", i);
    if (!quiet) set(this.el, "aria-valuetext", text);
    say(this.readout, text);
    this.readout.classList.add("on");
    this.readout.classList.toggle("right", x > 50);
    this.readout.style.setProperty("--x", `${x > 50 ? 100 - x : x}%`);
  }

  leave() {
    if (document.activeElement === this.el) return;
    set(this.cursor, "visibility", "hidden");
    this.readout.classList.remove("on");
  }

  point(e) {
    const box = this.el.getBoundingClientRect(), at = this.from + DAY_S * (e.clientX - box.left) / box.width;
    const i = this.points.findIndex((p) => at >= p.from && at < p.to);
    if (i >= 0) this.move(i);
    else if (document.activeElement !== this.el) this.leave();
  }

  key(e) {
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageUp: 20, PageDown: -20, Home: -Infinity, End: Infinity };
    if (!(e.key in steps) || !this.n()) return;
    e.preventDefault();
    this.move(Math.min(this.n() - 1, Math.max(0, (this.at ?? this.n() - 1) + steps[e.key])));
  }
}

/* ---- the bars of a device ---- */

class Bar {
  constructor(label) {
    this.label = h("span", { class: "bar-name", text: label });
    this.value = h("span", { class: "bar-value" });
    this.parts = h("div", { class: "bar-track", "aria-hidden": "true" });
    this.el = h("div", { class: "bar" }, this.label, this.parts, this.value);
  }

  draw(parts, text, band) {
    while (this.parts.children.length < parts.length) this.parts.append(h("i"));
    while (this.parts.children.length > parts.length) this.parts.lastChild.remove();
    parts.forEach(([kind, share], i) => {
      set(this.parts.children[i], "class", `f-${kind}`);
      this.parts.children[i].style.setProperty("width", `${Math.max(0, Math.min(100, 100 * share)).toFixed(1)}%`);
    });
    this.parts.classList.toggle("banded", Boolean(band));
    if (band) {
      this.parts.style.setProperty("--a", `${band[0]}%`);
      this.parts.style.setProperty("--b", `${band[1]}%`);
      set(this.el, "title", t("band", { a: band[0], b: band[1] }));
    } else {
      set(this.el, "title", null);
    }
    say(this.value, text);
  }
}

function memoryParts(device, kind) {
  const total = device.memory_total_bytes, used = device.memory_used_bytes ?? 0, held = Math.min(used, device.held_bytes ?? 0);
  if (!total) return [];
  const rest = (used - held) / total, whose = kind === "task" ? "task" : kind === "foreign" ? "foreign" : "rest";
  return [["held", held / total], [whose, rest]].filter(([, share]) => share > 0.001);
}

/* ---- a device ---- */

// Why it is so, in a few words.
function reasonOf(live, device, kind) {
  if (device.quarantined) return t("quarantined");
  if (device.quarantine || device.xid || device.left_to) return device.reason ?? "";
  if (device.state === "yielding") return t("yielding");
  const larger = /^task ([\d.]+) of /.exec(device.held_for ?? "");
  if (larger) return t("held_for_task", { n: larger[1] });
  if (kind === "held") return device.held_for && device.held_for !== live.status.instance ? device.reason : t("held_as", { held: gib(device.held_bytes) });
  if (kind === "idle" && device.hold_in_s) return t("hold_in", { t: duration(device.hold_in_s) });
  if (kind === "idle" && device.vacant && device.reason_code === "text") return t("nobody");
  if (kind === "left" && device.reason_code === "left") return t("left_for_others");
  return (device.reason ?? "").replace(/, [\d.]+ GiB$/, ""); // the bar beside it says so
}

// head: the level of its heading; below another one where it is of another node.
function makeDevice(live, openTask, head = "h3") {
  return (first) => {
    const strip = new Strip(first), memory = new Bar(""), use = new Bar("");
    const letter = badge("idle"), name = h("span", { class: "gpu-name" }), model = h("span", { class: "model" });
    const state = h("span", { class: "gpu-state" }), since = h("span", { class: "quiet" });
    const why = h("p", { class: "gpu-why" }), figures = h("p", { class: "figures" });
    let shown = first, task = null;
    const link = button("", null, () => openTask(taskText(task)), "link");
    const el = h("li", { class: "gpu", "data-uuid": first.uuid },
      h("div", { class: "gpu-who" }, h(head, { class: "gpu-head" }, letter, name, model), h("p", { class: "gpu-line" }, state, since), link, why),
      strip.el, h("div", { class: "gpu-bars" }, memory.el, use.el, figures));
    tick(since, () => say(since, shown.for_s === null || shown.for_s === undefined ? "" : t("for_time", { t: duration(shown.for_s + live.aged()) })));
    const draw = (device) => {
      const kind = kindOf(live, device), title = gpuName(device.gpu, device.mig);
      shown = device;
      set(el, "data-kind", kind);
      set(letter, "class", `badge k-${kind}`);
      say(letter, t(`letter_${kind}`));
      say(name, title);
      say(model, (device.name ?? "").replace(/^NVIDIA /, ""));
      say(state, t(kind));
      task = taskOn(live, device);
      show(link, task);
      if (task) say(link, `#${taskText(task)} ${task.name}`);
      const untouched = task && device.state === "held";
      show(why, !task || untouched);
      say(why, untouched ? t("untouched") : task ? "" : reasonOf(live, device, kind));
      say(memory.label, t("memory"));
      memory.draw(memoryParts(device, kind), device.memory_total_bytes && device.memory_used_bytes !== null ? t("memory_of", { used: gib(device.memory_used_bytes), total: gib(device.memory_total_bytes) }) : t("unknown"));
      say(use.label, t("utilisation"));
      const util = device.utilisation, known = util !== null && util !== undefined;
      use.draw(known ? [[kind, util / 100]] : [], known ? t("per_cent", { n: util }) : t("unknown"), device.utilisation_band);
      say(figures, [device.power_w === null || device.power_w === undefined ? null : t(device.power_limit_w ? "watts" : "strip_power", { n: Math.round(device.power_w), max: Math.round(device.power_limit_w) }),
        device.temperature_c === null || device.temperature_c === undefined ? null : `${device.temperature_c} °C`, ...(device.health?.faults ?? [])].filter(Boolean).join(" · "));
      strip.draw(live, device, live.node ? t("gpu_on", { gpu: title, node: live.node.agent }) : title);
    };
    return { el, draw };
  };
}

function drawAxis(axis) {
  const at = [-24, -18, -12, -6].map((hours) => hour(new Date(now() + hours * 3600e3)));
  [...at, t("now")].forEach((text, i) => say(axis.children[i], text));
}

function drawLegend(el) {
  el.replaceChildren(...["task", "held", "foreign", "idle", "left", "fault"].map((kind) => h("li", {}, svg("svg", { class: "swatch", "aria-hidden": "true", width: "22", height: "14" }, svg("rect", { class: `b-${kind}`, width: "100%", height: "100%" })), t(kind))),
    h("li", {}, svg("svg", { class: "swatch mark", "aria-hidden": "true", width: "12", height: "14" }, svg("path", { d: "M1 2 L11 2 L6 11 Z" })), t("legend_yield")), h("li", { text: t("legend_use") }));
}

function drawCounts(el, live, devices) {
  const counts = {};
  for (const d of devices) counts[kindOf(live, d)] = (counts[kindOf(live, d)] ?? 0) + 1;
  const shown = KINDS.filter((kind) => counts[kind] || kind === "task" || kind === "held" || kind === "foreign" || kind === "idle");
  const text = shown.map((kind) => `${kind}${counts[kind] ?? 0}`).join();
  if (el.dataset.drawn === text + t("held")) return;
  el.dataset.drawn = text + t("held");
  el.replaceChildren(...shown.map((kind) => h("li", { class: `count k-${kind}${counts[kind] ? "" : " none"}` }, badge(kind), h("b", { text: counts[kind] ?? 0 }), h("span", { text: t(`count_${kind}`, { n: counts[kind] ?? 0 }) }))));
}

/* ---- those of other nodes ---- */

const OPEN_MAX = 32; // with more GPUs than that elsewhere each node is opened by who wants to see them

// What is known of the devices of another node, for what draws a device: as it has told of them with its last heartbeat.
class Elsewhere {
  constructor(live, node) {
    Object.assign(this, { live, agent: true });
    this.take(node);
  }

  // The same node again is as old as it was.
  take(node) {
    if (node === this.node) return;
    const age = node.gpus_age_s ?? node.age_s;
    this.node = node;
    this.devices = node.gpus.map((d, i) => ({ ...d, gpu: d.gpu ?? i })); // earlier versions tell no numbers
    this.seen = age === null || age === undefined ? null : Date.now() - 1000 * age;
  }

  get past() { return this.live.days.get(this.node.agent)?.past ?? null; }
  get yields() { return this.live.yields; }
  get status() { return this.live.status; }

  // What one says that lives goes on, as far as anybody knows; what another one has said was so then.
  until() { return this.seen === null ? this.past?.now ?? 0 : (this.seen + now() - Date.now()) / 1000; }
  age() { return this.seen === null ? null : (Date.now() - this.seen) / 1000; }
  aged() { return this.node.state === "alive" ? this.age() ?? 0 : 0; }

  tasksAt(id) {
    const [task, element] = (id ?? "").split(".").map(Number), known = this.live.running?.tasks.find((one) => taskText(one) === id);
    return id ? [known ? { ...known, state: "running" } : { id: task, element: element ?? 0, name: "", state: "" }] : [];
  }
}

// One that another list of nodes has closed, or opened, stays so.
function makeElsewhere(live, openTask, isOpen, toggle) {
  return (first) => {
    const there = new Elsewhere(live, first), id = `gpus-of-${first.agent}`;
    const fold = h("button", { type: "button", class: "fold", "aria-controls": id, text: first.agent, on: { click: () => toggle(first.agent) } });
    const counts = h("ul", { class: "counts" }), age = h("span", { class: "as-of quiet" }), note = h("p", { class: "quiet" });
    const devices = h("ol", { id }), list = new List(devices, (d) => d.uuid, makeDevice(there, openTask, "h4"));
    const el = h("section", { class: "other-node", "data-node": first.agent, "aria-label": t("gpus_of", { node: first.agent }) },
      h("div", { class: "node-head" }, h("h3", {}, fold), counts, age), note, devices);
    const pass = tick(age, () => {
      const old = there.age(), when = old === null ? t("unknown") : t("as_of", { t: duration(old) });
      say(age, there.node.state === "alive" ? when : `${t(["gone", "off"].includes(there.node.state) ? there.node.state : "silent")}, ${when}`);
    });
    return { el, draw(node) {
      const open = isOpen(node.agent), day = live.days.get(node.agent);
      there.take(node);
      pass();
      set(el, "data-state", node.state);
      set(fold, "aria-expanded", String(open));
      drawCounts(counts, there, there.devices);
      show(devices, open);
      show(note, open && !(day?.past && !day.why));
      say(note, day?.why ? t("no_history", { why: day.why }) : t("loading"));
      list.draw(open ? there.devices : []);
    } };
  };
}

function othersView(live, openTask) {
  const chosen = new Map();
  let others = [];
  const isOpen = (agent) => chosen.get(agent) ?? others.reduce((n, node) => n + node.gpus.length, 0) <= OPEN_MAX;
  const list = new List(by("other-nodes"), (node) => node.agent, makeElsewhere(live, openTask, isOpen, (agent) => {
    chosen.set(agent, !isOpen(agent));
    draw();
  }));
  function draw() {
    others = live.nodes.filter((node) => !node.here && node.gpus?.length);
    list.draw(others);
    live.showDays(others.map((node) => node.agent).filter(isOpen));
  }
  return { draw, clear: () => list.clear() };
}

export function gpusView(live, openTask) {
  const others = othersView(live, openTask);
  const list = new List(by("gpu-list"), (d) => d.uuid, makeDevice(live, openTask));
  const draw = () => {
    const devices = live.status?.devices ?? [];
    show(by("no-gpus"), live.status && !devices.length);
    list.draw(devices);
    drawCounts(by("counts"), live, devices);
    drawAxis(by("axis"));
    say(by("policy"), live.status?.policy ?? "");
    by("gpus").classList.toggle("stale", !live.agent || live.link === "old" || live.late.has("status"));
    const pastless = !live.past && live.status;
    show(by("past-note"), pastless && devices.length);
    say(by("past-note"), live.pastTrouble ? t("no_history", { why: live.pastTrouble }) : t("loading"));
    const here = live.nodes.find((node) => node.here);
    show(by("here-node"), live.nodes.length > 1 && here);
    say(by("here-node"), t("node_here", { node: here?.agent ?? "" }));
    others.draw();
  };
  return { draw, on: ["status", "past", "link", "nodes", "days"], relabel() {
    list.clear();
    others.clear();
    drawLegend(by("legend"));
    by("counts").dataset.drawn = "";
    draw();
  } };
}

/* ---- yields ---- */

const YIELDS_SHOWN = 8;

function latencyText(y) {
  const b = Math.round(y.verdict_to_freed_ms ?? 0);
  return y.hint_to_verdict_ms === undefined || y.hint_to_verdict_ms === null ? t("latency_free", { b }) : t("latency", { a: Math.round(y.hint_to_verdict_ms), b });
}

function makeYield(live, scale) {
  return (y) => {
    const gpu = h("bdi"), at = new Date(y.time), when = h("time", { datetime: y.time, title: moment(at), text: hour(at) }), seen = h("i", { class: "f-seen" }), freed = h("i", { class: "f-freed" });
    const el = h("tr", { role: "row" }, cell("c-when", t("c_when_was"), when), cell("c-gpu", t("gpus"), gpu), cell("c-to", t("c_to"), h("bdi", { text: whoOf(y) })),
      cell("c-freed num", t("c_freed"), `${gib(y.bytes)} GiB`),
      cell("c-latency", t("c_latency"), h("div", { class: "latency", title: latencyText(y) }, h("div", { class: "bar-track", "aria-hidden": "true" }, seen, freed), h("span", { class: "num", "aria-hidden": "true", text: t("ms", { n: Math.round(yieldMs(y)) }) }), h("span", { class: "only-read", text: latencyText(y) }))));
    return { el, draw() {
      say(gpu, gpuOf(live, y));
      seen.style.setProperty("width", `${100 * (y.hint_to_verdict_ms ?? 0) / scale.max}%`);
      freed.style.setProperty("width", `${100 * (y.verdict_to_freed_ms ?? 0) / scale.max}%`);
    } };
  };
}

export function yieldsView(live) {
  const scale = { max: 100 };
  let list = null;
  const last = by("last-yield");
  tick(last, () => drawLast());
  function drawLast() {
    const y = live.yields[0];
    if (!live.past && !y) return say(last, "");
    say(last, y ? t("last_yield", { gpu: gpuOf(live, y), who: whoOf(y), ago: duration((now() - Date.parse(y.time)) / 1000), ms: Math.round(yieldMs(y)) }) : t("never_yielded"));
  }
  const draw = () => {
    const shown = live.yields.slice(0, YIELDS_SHOWN);
    scale.max = Math.max(100, ...shown.map(yieldMs));
    show(by("no-yields"), !shown.length);
    show(by("yield-table"), shown.length);
    list?.draw(shown);
    drawLast();
  };
  return { draw, on: ["past", "nodes"], relabel() {
    const made = table("yields-title", [["c-when", t("c_when_was")], ["c-gpu", "GPU"], ["c-to", t("c_to")], ["c-freed", t("c_freed"), "num"], ["c-latency", t("c_latency")]]);
    by("yield-table").replaceChildren(made.el);
    list = new List(made.body, (y) => y.id ?? y.time + y.uuid, makeYield(live, scale));
    draw();
  } };
}
