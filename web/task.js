// SPDX-License-Identifier: MIT
// One task: what it is, why it waits, what it prints, and what can be done about it.

import { ask, Problem, pieces, request, streaming } from "./api.js";
import { button, by, confirm, h, say, set, show, visible } from "./dom.js";
import { doer, problemText } from "./forms.js";
import { gpusText, howText, stateText } from "./queue.js";
import { duration, gib, moment, t } from "./strings.js";

const LINES_MAX = 2000, LINE_MAX = 4000, TAIL_BYTES = 65536, DRAW_MS = 150, RETRY_MS = 2000, LOOK_MS = 2000, RANGE_MS = 1000;

/* ---- its log ---- */

// What a terminal would do with it is left out; what is left of control characters is shown as such.
const ESCAPES = /\u001b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\u0007\u001b]*(?:\u0007|\u001b\\)?|[ -/]*[0-~])|\u009b[0-?]*[ -/]*[@-~]/g;

export function plainLine(line) {
  const parts = line.replace(ESCAPES, "").replace(/\r+$/, "").split("\r"); // a progress bar writes over itself
  const text = visible(parts.at(-1));
  return text.length > LINE_MAX ? `${text.slice(0, LINE_MAX)} … (+${text.length - LINE_MAX})` : text;
}

class Log {
  constructor(el, note, state) {
    Object.assign(this, { el, note, state, abort: null, rest: "", lines: [], last: null, follows: true, missed: 0, at: 0, timer: null, cut: false, from: 0 });
    el.addEventListener("scroll", () => {
      if (!this.drawing) this.hold(el.scrollHeight - el.scrollTop - el.clientHeight > 40);
    });
    document.addEventListener("visibilitychange", () => {
      if (document.hidden) this.abort?.abort();
      else if (this.abort && !this.ended) this.run(this.abort = new AbortController());
    });
  }

  hold(still) {
    this.follows = !still;
    if (!still) this.missed = 0;
    this.tell();
  }

  tell() {
    const ended = this.ended ? t("log_ended") : "";
    say(this.state, ended || (this.follows ? t("log_live") : t("log_still", { n: this.missed })));
    say(by("log-follow"), this.follows ? t("follow_stop") : t("follow"));
    set(by("log-follow"), "aria-pressed", String(this.follows));
    say(this.note, [this.from > 0 && t("log_from", { kib: Math.ceil(this.from / 1024) }), this.cut && t("log_cut", { n: LINES_MAX })].filter(Boolean).join(" "));
  }

  toEnd() {
    this.hold(false);
    this.el.scrollTop = this.el.scrollHeight;
  }

  close() {
    this.abort?.abort();
    this.abort = null;
    clearTimeout(this.timer);
    this.timer = null;
  }

  start(about) {
    this.close();
    Object.assign(this, { about, rest: "", lines: [], last: null, follows: true, missed: 0, at: 0, cut: false, ended: false, from: 0, runs: true, decoder: new TextDecoder() });
    this.el.replaceChildren();
    this.tell();
    this.run(this.abort = new AbortController());
  }

  // The end of what there is, and then what comes.
  async run(abort) {
    const path = `tasks/${this.about}/log`;
    while (this.abort === abort && !abort.signal.aborted) {
      try {
        if (!this.at) await this.tail(path, abort);
        await streaming(() => this.stream(path, abort), () => this.ranges(path, abort));
        if (this.abort !== abort || abort.signal.aborted) return;
        this.flush();
        this.ended = true;
        this.tell();
        return;
      } catch (e) {
        if (this.abort !== abort || abort.signal.aborted) return;
        const none = e instanceof Problem && e.status === 404;
        say(this.state, none ? t("log_none") : t("log_broken", { why: problemText(e) }));
        await new Promise((done) => setTimeout(done, RETRY_MS));
      }
    }
  }

  async part(path, range, abort) {
    try {
      return await request("GET", path, undefined, { headers: { Range: `bytes=${range}` }, signal: abort.signal });
    } catch (e) {
      if (e.status === 416) return null; // there is nothing
      throw e;
    }
  }

  async tail(path, abort) {
    const answer = await this.part(path, `-${TAIL_BYTES}`, abort);
    if (!answer) return;
    const range = /bytes (\d+)-(\d+)\/(\d+)/.exec(answer.headers.get("Content-Range") ?? ""), data = await answer.arrayBuffer();
    this.from = range ? Number(range[1]) : 0;
    this.at = this.from;
    const text = this.take(data);
    this.add(this.from > 0 ? text.slice(text.indexOf("\n") + 1) : text);
    this.flush();
  }

  // Where it broke off, it goes on from the byte that comes next, be it within a letter.
  take(data) {
    this.at += data.byteLength;
    return this.decoder.decode(data, { stream: true });
  }

  async stream(path, abort) {
    const answer = await request("GET", `${path}?follow=true&from=${this.at}`, undefined, { signal: abort.signal, stream: true });
    for await (const piece of pieces(answer, abort, false)) this.add(this.take(piece));
  }

  // Until nothing more has come of one that does not run any more.
  async ranges(path, abort) {
    for (;;) {
      const over = !this.runs, answer = await this.part(path, `${this.at}-`, abort), data = await answer?.arrayBuffer();
      if (data?.byteLength) this.add(this.take(data));
      else if (over) return;
      else await new Promise((done) => setTimeout(done, RANGE_MS));
      if (abort.signal.aborted) return;
    }
  }

  add(text) {
    const lines = (this.rest + text).split("\n");
    this.rest = lines.pop();
    if (this.rest.length > 4 * LINE_MAX) this.rest = this.rest.slice(-LINE_MAX);
    for (const line of lines) this.lines.push(line);
    if (this.lines.length > 2 * LINES_MAX) {
      this.lines.splice(0, this.lines.length - LINES_MAX);
      this.cut = true;
    }
    this.timer ??= setTimeout(() => this.flush(), DRAW_MS);
  }

  flush() {
    clearTimeout(this.timer);
    this.timer = null;
    this.drawing = true;
    this.last?.remove();
    this.last = this.rest ? h("div", { class: "rest" }) : null;
    const fresh = document.createDocumentFragment();
    for (const line of this.lines) fresh.append(h("div", { text: plainLine(line) }));
    if (this.last) {
      this.last.textContent = plainLine(this.rest);
      fresh.append(this.last);
    }
    if (!this.follows) this.missed += this.lines.length;
    this.lines = [];
    this.el.append(fresh);
    while (this.el.childElementCount > LINES_MAX) {
      this.el.firstElementChild.remove();
      this.cut = true;
    }
    if (this.follows) this.el.scrollTop = this.el.scrollHeight;
    requestAnimationFrame(() => { this.drawing = false; });
    this.tell();
  }
}

/* ---- the task ---- */

function commandOf(task) {
  if (task.command) return task.command;
  if (task.argv) return task.argv.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(" ");
  if (task.commands) return task.commands.slice(0, 5).join("\n") + (task.commands.length > 5 ? `\n… (${task.commands.length})` : "");
  return null;
}

function when(text) { return text ? moment(new Date(text)) : null; }

// Label, value, and whether it is written as a program is.
function facts(doc) {
  const task = doc.task ?? {}, end = doc.end ?? {};
  const exit = end.exit ?? doc.exit ?? doc.left_exit;
  const list = (value) => (Array.isArray(value) && value.length ? value.join(", ") : null);
  return [
    ["f_command", commandOf(task), true], ["f_script", task.script ? [task.script_name, ...(task.args ?? [])].filter(Boolean).join(" ") || task.name : null, true],
    ["f_gpus", gpusText(task.gpus ?? 1)], ["f_memory", typeof task.memory === "number" ? `${gib(task.memory)} GiB` : task.memory], ["f_lane", task.lane], ["f_priority", doc.priority],
    ["f_cwd", task.cwd, true], ["f_user", [task.user, task.host].filter(Boolean).join(" @ ")], ["f_submitted", when(task.submitted)],
    ["f_limit", task.timeout], ["f_retries", task.retries], ["f_after", list(task.after) ?? list(task.after_any)],
    ["f_started", when(doc.started)], ["f_ran", doc.ran_s === undefined ? null : duration(doc.ran_s)], ["f_node", [doc.agent, doc.devices?.length && `GPU ${doc.devices.join(", ")}`].filter(Boolean).join(", ")],
    ["f_attempts", doc.attempts > 1 ? doc.attempts : null], ["f_again", doc.again_because], ["f_exit", exit === undefined || exit === null ? null : howText({ exit, reason: end.reason })],
    ["f_peak", end.gpu_peak_bytes ? `${gib(end.gpu_peak_bytes)} GiB` : null], ["f_pid", doc.processes?.length ? doc.processes.slice(0, 8).map((p) => `${p.pid} ${p.command}`).join(", ") : null, true],
    ["f_log", doc.log, true],
  ].filter(([, value]) => value !== null && value !== undefined && value !== "");
}

/* ---- the elements of an array, or of another batch ---- */

const ELEMENTS_PAGE = 50;

// Which there are is counted, and which have failed is said; what another one does is seen when it is opened.
class Elements {
  constructor(open) {
    Object.assign(this, { open, doc: null, page: 0, drawn: "" });
    by("elements-failed").addEventListener("change", () => this.turn(-this.page));
    by("elements-previous").addEventListener("click", () => this.turn(-1));
    by("elements-next").addEventListener("click", () => this.turn(1));
    by("elements-form").addEventListener("submit", (e) => {
      e.preventDefault();
      open(`${this.doc.id}.${Number(by("elements-number").value)}`, true);
    });
  }

  begin() {
    Object.assign(this, { doc: null, page: 0, drawn: "" });
    by("elements-failed").checked = false;
    by("elements-number").value = "";
    show(by("elements-part"), false);
  }

  turn(n) {
    this.page += n;
    this.draw(this.doc);
  }

  draw(doc) {
    const n = doc.elements && !doc.element ? Object.values(doc.elements).reduce((a, b) => a + b, 0) : 0;
    this.doc = doc;
    show(by("elements-part"), n);
    if (!n) return;
    const failed = new Map((doc.failed ?? []).map((one) => [one.element, howText(one)])), only = by("elements-failed").checked && failed.size > 0;
    const all = only ? [...failed.keys()] : null, total = all?.length ?? n;
    this.page = Math.min(this.page, Math.ceil(total / ELEMENTS_PAGE) - 1);
    const from = this.page * ELEMENTS_PAGE, to = Math.min(from + ELEMENTS_PAGE, total);
    const shown = all?.slice(from, to) ?? Array.from({ length: to - from }, (_, i) => from + i + 1);
    const text = (element) => {
      const id = `${doc.id}.${element}`;
      return failed.has(element) ? t("element_failed", { id, how: failed.get(element) }) : id;
    };
    show(by("elements-failed").parentElement, failed.size);
    say(by("elements-failed-text"), t("failed_only", { n: failed.size }));
    set(by("elements-number"), "max", n);
    show(by("element-pages"), total > ELEMENTS_PAGE);
    show(by("elements-previous"), this.page > 0);
    show(by("elements-next"), to < total);
    say(by("elements-at"), t("page_at", { a: from + 1, b: to, n: total }));
    const drawn = shown.map(text).join("\n");
    if (this.drawn === drawn) return;
    this.drawn = drawn;
    by("element-list").replaceChildren(...shown.map((element) => h("li", { "data-state": failed.has(element) ? "failed" : null },
      button(text(element), t("of_task", { what: t("log"), n: text(element) }), () => this.open(`${doc.id}.${element}`, true), "link"))));
  }
}

export function taskView(live, toast) {
  const dialog = by("task"), log = new Log(by("log"), by("log-note"), by("log-state"));
  const elements = new Elements((id, focusLog) => open(id, focusLog));
  let about = null, doc = null, timer = null, key = "", toLog = false, written = null; // the log that is shown

  const act = doer(live, toast);
  const does = async (path, method, body) => {
    await act(path, method, body);
    await look();
  };

  const logTitle = () => (doc.attempts > 1 ? t("log_of_attempt", { n: about, k: doc.attempts }) : t("log_of", { n: about }));

  function drawTools() {
    const tools = by("task-tools"), lane = doc.task?.lane, waits = doc.state === "pending" || doc.state === "paused", now = `${doc.state} ${lane} ${doc.lane_paused} ${about} ${live.canSteer()}`;
    show(tools, live.canSteer() || doc.element);
    if (key === now) return;
    key = now;
    const whole = doc.element && button(t("all_elements", { n: doc.id }), null, () => open(doc.id, true));
    if (!live.canSteer()) return tools.replaceChildren(...[whole].filter(Boolean));
    const priority = h("input", { type: "number", min: "0", required: "", value: doc.priority, id: "task-priority", "aria-label": t("f_priority") });
    tools.replaceChildren(...[
      whole,
      (waits || doc.state === "running") && button(t("stop"), null, () => stop({ id: about, name: doc.task?.name ?? "", state: doc.state }), "danger"),
      doc.state === "pending" && button(t("pause"), null, () => does(`tasks/${about}/pause`)),
      doc.state === "paused" && button(t("resume"), null, () => does(`tasks/${about}/resume`)),
      !waits && doc.state !== "running" && button(t("retry"), null, () => does(`tasks/${about}/retry`)),
      waits && lane && (doc.lane_paused ? button(t("resume_lane", { lane }), null, () => does(`lanes/${encodeURIComponent(lane)}/resume`))
        : button(t("pause_lane", { lane }), null, () => does(`lanes/${encodeURIComponent(lane)}/pause`))),
      waits && h("form", { class: "inline", on: { submit: (e) => {
        e.preventDefault();
        does(`tasks/${about}/priority`, "POST", { priority: Number(priority.value) });
      } } }, priority, h("button", { text: t("set_priority") })),
    ].filter(Boolean));
  }

  function draw() {
    const name = doc.task?.name ?? doc.name ?? "";
    say(by("task-id"), `#${about}`);
    say(by("task-name"), name);
    say(by("task-state"), stateText({ state: doc.state, ending_since: doc.ending_since, exit: doc.end?.exit, ended_because: doc.end?.reason }));
    set(by("task-state"), "data-state", doc.state);
    by("task-facts").replaceChildren(...facts(doc).flatMap(([label, value, code]) => [h("dt", { text: t(label) }), h("dd", {}, code ? h("code", { text: value }) : h("bdi", { text: value }))]));
    drawTools();
    elements.draw(doc);
  }

  async function look() {
    clearTimeout(timer);
    if (!dialog.open) return;
    const wanted = about;
    try {
      const shown = await ask("GET", `tasks/${wanted}`);
      const why = shown.state === "pending" || shown.state === "paused" ? await ask("GET", `tasks/${wanted}/why`) : null;
      if (wanted !== about) return;
      const began = shown.log && (shown.log !== written || (log.ended && shown.state === "running" && shown.started !== doc.started));
      doc = shown;
      draw();
      show(by("task-why"), why);
      say(by("task-why-text"), why?.why ?? "");
      show(by("task-problem"), false);
      show(by("log-part"), shown.log);
      if (began) {
        written = shown.log;
        say(by("log-title"), logTitle());
        log.start(about);
      }
      log.runs = shown.state === "running";
      if (toLog) (began ? by("log") : by("elements-title")).focus();
      toLog = false;
    } catch (e) {
      if (wanted !== about) return;
      show(by("task-problem"), true);
      say(by("task-problem"), problemText(e));
    }
    timer = setTimeout(look, LOOK_MS);
  }

  function open(id, focusLog) {
    about = String(id);
    doc = written = null;
    key = "";
    toLog = focusLog;
    log.close();
    elements.begin();
    for (const el of ["task-name", "task-state", "task-why-text"]) say(by(el), "");
    say(by("task-id"), `#${about}`);
    by("task-facts").replaceChildren();
    by("task-tools").replaceChildren();
    show(by("task-why"), false);
    show(by("log-part"), false);
    if (!dialog.open) dialog.showModal();
    look();
  }

  async function stop(task) {
    const id = task.element ? `${task.id}.${task.element}` : String(task.id), runs = task.state === "running";
    const choices = [["", t("cancel")], ["stop", t("stop_go"), "danger"]];
    if (runs) choices.push(["now", t("stop_now"), "danger"]);
    const choice = await confirm(t("stop_ask", { n: id, name: task.name }), runs ? t("stop_how") : t("stop_wait"), choices);
    if (choice) await does(`tasks/${id}/stop`, "POST", { now: choice === "now" });
  }

  async function release(name) {
    const choice = await confirm(t("release"), t("release_ask", { name }), [["", t("cancel")], ["release", t("release"), "danger"]]);
    if (choice) await does(`allocations/${encodeURIComponent(name)}`, "DELETE");
  }

  dialog.addEventListener("close", () => {
    clearTimeout(timer);
    log.close();
    about = null;
  });
  by("log-follow").addEventListener("click", () => (log.follows ? log.hold(true) : log.toEnd()));
  by("log-end").addEventListener("click", () => log.toEnd());
  return { open, stop, release, relabel() {
    key = elements.drawn = "";
    if (dialog.open && doc) draw();
    if (dialog.open && written) say(by("log-title"), logTitle());
    log.tell();
  } };
}
