// SPDX-License-Identifier: MIT
// What is filled in: a task to submit, what is held and when, a pool. What the server refuses is said in the form, in its
// words, at the field that they name.

import { ask } from "./api.js";
import { List, button, by, confirm, h, say, set, show, tick } from "./dom.js";
import { gpuName, taskText } from "./gpus.js";
import { duration, has, now, t, translate } from "./strings.js";

export function problemText(e) { return e.message || t("no_answer"); }

// does(path, method, body): what was done is said, and what was refused; true: it was done.
export function doer(live, toast) {
  return async (path, method, body) => {
    let done = false;
    try {
      const answer = await ask(method ?? "POST", path, body), said = [...(answer?.changed ?? [answer?.text]), answer?.notes];
      toast(t("done_said", { text: said.map((text) => text?.trim()).filter(Boolean).join("\n") || "ok" }));
      done = true;
    } catch (e) {
      toast(problemText(e), true);
    }
    live.hasten();
    return done;
  };
}

// The field that it names first is marked, but not by a word that was typed; where it names none the refusal itself has the focus.
function refuse(form, box, text) {
  const own = (text ?? "").replace(/^not submitted: /, ""), words = own.replace(/"[^"]*"/g, "");
  const places = [...form.elements].filter((el) => el.name).map((el) => [words.search(new RegExp(`(?<![a-z])${el.name.replaceAll("_", "[-_]")}(?![a-z])`)), el]).filter(([at]) => at >= 0);
  const named = places.sort(([a], [b]) => a - b)[0]?.[1];
  show(box, text);
  say(box.lastElementChild, own);
  for (const el of form.elements) if (el.name) set(el, "aria-invalid", el === named ? "true" : null);
  if (!named && text) {
    box.tabIndex = -1;
    box.focus();
  }
  if (!named) return;
  if (named.closest("details")) named.closest("details").open = true;
  named.focus();
}

// One thing at a time: what is under way is said on the button.
function sending(go, label, fn) {
  let busy = false;
  return async (e) => {
    e.preventDefault();
    if (busy) return;
    busy = true;
    set(go, "aria-disabled", "true");
    say(go, t("s_going"));
    try {
      await fn();
    } finally {
      busy = false;
      set(go, "aria-disabled", null);
      say(go, t(label));
    }
  };
}

// Numbers where they are numbers: what is none is the server's to refuse.
function number(text) { return /^\d+$/.test(text) ? Number(text) : text; }

function linesOf(text) { return text.split("\n").map((line) => line.trim()).filter(Boolean); }

/* ---- a form that is made of a table ---- */

// Each field: [name, kind, more]. kind: text, wide, number, check, lines, or the words to choose from; more: among those that few need.
// Its words are {prefix}_{name} and, where there is a hint, {prefix}_{name}_how. send() tells what was done.
class Form {
  constructor(prefix, fields, { title, how, go }, toast, send) {
    this.fields = fields;
    this.prefix = prefix;
    this.box = h("div", { class: "banner refusal wide", role: "alert", hidden: true }, h("b", { "data-t": "refused" }), " ", h("span", { lang: "en" }));
    const made = fields.map((field) => this.field(field)), rest = made.filter((_, i) => fields[i][2]);
    this.go = h("button", { class: "primary", "data-t": go });
    this.form = h("form", { class: "fields", novalidate: true }, this.box, h("p", { class: "wide quiet", "data-t": how }), made.filter((_, i) => !fields[i][2]),
      rest.length ? h("details", { class: "wide" }, h("summary", { "data-t": "s_more" }), h("div", { class: "fields" }, rest)) : null,
      h("div", { class: "choices wide" }, h("button", { type: "button", "data-t": "cancel", on: { click: () => this.dialog.close() } }), this.go));
    this.title = h("h2", { id: `${prefix}-heading`, "data-t": title });
    this.dialog = h("dialog", { id: `${prefix}-dialog`, class: "panel form", "aria-labelledby": `${prefix}-heading` },
      h("div", { class: "panel-head" }, this.title, h("button", { type: "button", class: "plain close", "data-t-label": "close", text: "✕", on: { click: () => this.dialog.close() } })), this.form);
    this.form.addEventListener("submit", sending(this.go, go, async () => {
      try {
        const text = await send(this);
        this.dialog.close();
        toast(text);
      } catch (e) {
        refuse(this.form, this.box, problemText(e));
      }
    }));
    document.body.append(this.dialog);
    translate(this.dialog);
  }

  field([name, kind]) {
    const key = `${this.prefix}_${name}`, hint = has(`${key}_how`) ? `how-${key}` : null, how = hint && h("small", { id: hint, "data-t": `${key}_how` });
    const about = { name, "aria-describedby": hint };
    if (kind === "check") return h("div", { class: "checked" }, h("label", { class: "check" }, h("input", { type: "checkbox", ...about }), h("span", { "data-t": key })), how);
    const input = Array.isArray(kind) ? h("select", about, kind.map((word) => h("option", { value: word, text: word || "–" })))
      : kind === "lines" ? h("textarea", { ...about, rows: 2, spellcheck: "false", autocapitalize: "off" })
        : h("input", { ...about, spellcheck: "false", autocomplete: "off", autocapitalize: "off", inputmode: kind === "number" ? "numeric" : null });
    return h("label", { class: kind === "lines" || kind === "wide" ? "wide" : null }, h("span", { "data-t": key }), input, how);
  }

  value(name) {
    const el = this.form.elements[name];
    return el.type === "checkbox" ? el.checked : el.value.trim();
  }

  // With what there is now; what is sent is what differs from it.
  open(now) {
    refuse(this.form, this.box, "");
    this.form.reset();
    this.now = {};
    for (const [name, kind] of this.fields) {
      const el = this.form.elements[name];
      if (kind === "check") el.checked = now[name] === true || now[name] === "true";
      else el.value = now[name] ?? "";
      this.now[name] = this.value(name);
    }
    this.dialog.showModal();
    [...this.form.elements].find((el) => el.name && !el.readOnly).focus();
  }

  // {name: what it is now} of those that were changed.
  changes() {
    const all = {};
    for (const [name, kind] of this.fields) {
      const value = this.value(name);
      if (value !== this.now[name]) all[name] = kind === "number" ? number(value) : kind === "lines" ? linesOf(value) : value;
    }
    return all;
  }
}

/* ---- what is held, and when ---- */

const POLICY = [["hold", "check"], ["together", "check"], ["gpus"], ["memory"], ["idle_for"], ["rehold_after"], ["leave"], ["max_devices"], ["load", ["none", "light", "sm", "gemm"]], ["util_band"],
  ["util", "text", true], ["work", "text", true], ["rest", "text", true], ["idle_below", "text", true], ["refresh", "text", true], ["ignore_pid", "text", true], ["my_cgroup", "check", true]];

// An empty field takes back what was said for it: it is sent as null, which the server may refuse.
function emptied(changes) { return Object.fromEntries(Object.entries(changes).map(([name, value]) => [name, value === "" ? null : value])); }

export function holdView(live, toast) {
  const does = doer(live, toast), settings = () => live.status?.settings;
  const make = () => new Form("h", POLICY, { title: "h_title", how: "h_how", go: "h_go" }, toast, async (made) => {
    const done = await ask("PATCH", "hold", emptied(made.changes()));
    live.hasten();
    return [...done.changed, done.notes].filter(Boolean).join("\n") || t("h_same");
  });
  async function turn() {
    if (!settings()?.hold) return does("hold", "PATCH", { hold: true });
    return await confirm(t("h_off_ask"), t("h_off_how"), [["", t("cancel")], ["off", t("h_off"), "danger"]]) && does("hold", "PATCH", { hold: false });
  }
  let form = null;
  const open = () => settings() && (form ??= make()).open(settings());
  by("hold-change").addEventListener("click", open);
  by("hold-turn").addEventListener("click", turn);
  const draw = () => {
    show(by("hold-tools"), live.canSteer() && settings());
    say(by("hold-turn"), t(settings()?.hold ? "h_off" : "h_on"));
  };
  return { draw, open, on: ["status"], relabel: draw };
}

/* ---- who asks for a GPU of a task ---- */

export function askerOf(one) { return one.user ?? `uid ${one.uid}`; }

export function asksView(live, toast, open) {
  const send = async (made) => {
    const done = await ask("POST", `asks/${made.ask}/answer`, { ...made.changes(), yes: made.yes });
    live.hasten();
    return [done.text, done.notes].filter(Boolean).join("\n");
  };
  const forms = {};
  const answer = (one, yes) => {
    const form = forms[yes] ??= new Form(yes ? "ay" : "an", yes ? [["message", "wide"], ["stop", "check"]] : [["message", "wide"]], { title: "a_title", how: yes ? "ay_how" : "an_how", go: yes ? "ay_go" : "an_go" }, toast, send);
    Object.assign(form, { ask: one.ask, yes });
    form.open({});
    set(form.title, "data-t", null);
    say(form.title, t("a_title", { who: askerOf(one), gpu: gpuName(one.gpu, one.mig) }));
  };
  const list = new List(by("ask-list"), (one) => JSON.stringify(one), (one) => { // made anew with whatever of it is new: its user's name may come later
    const who = t("a_text", { who: askerOf(one), gpu: gpuName(one.gpu, one.mig) }), task = taskText({ id: one.task, element: one.element }), since = h("span", { class: "quiet" });
    const of = (what) => `${t(what)}: ${who}`;
    const el = h("li", { "data-ask": one.ask }, h("div", { class: "text" }, h("b", { text: who }), one.task && " · ", one.task && button(`#${task} ${one.name ?? ""}`, null, () => open(task), "link inline"), " ", one.message && h("q", { text: one.message }), " ", since),
      live.canSteer() && h("div", { class: "row-tools" }, button(t("a_yes"), of("a_yes"), () => answer(one, true), "danger"), button(t("a_no"), of("a_no"), () => answer(one, false))));
    tick(since, () => say(since, t("ago", { t: duration((now() - Date.parse(one.asked)) / 1000) })));
    return { el, draw() {} };
  });
  const draw = () => {
    const asks = live.agent ? live.status?.asks ?? [] : [];
    list.draw(asks);
    show(by("asks"), asks.length);
  };
  return { draw, on: ["status"], relabel() {
    list.clear();
    draw();
  } };
}

/* ---- pools ---- */

const POOL = [["name"], ["engine", ["", "slurm", "sge", "sco", "k8s", "local"]], ["gpus", "number"], ["nodes", "number"], ["min", "number"], ["max", "number"], ["total_gpus", "number"], ["time"], ["keep", "check"], ["keep_for"],
  ["only", "check", true], ["relay", "check", true], ["type", "text", true], ["cpus", "number", true], ["node_memory", "text", true], ["idle_exit", "text", true], ["set", "lines", true], ["agent_option", "lines", true], ["options", "lines", true]];

// 86400 as the command line takes it: 24h.
function span(s) { return !s ? "" : s % 3600 === 0 ? `${s / 3600}h` : s % 60 === 0 ? `${s / 60}m` : `${s}s`; }

export function poolActions(live, toast) {
  const does = doer(live, toast);
  const make = () => new Form("p", POOL, { title: "p_title", how: "p_how", go: "p_go" }, toast, async (made) => {
    const said = emptied(made.changes());
    const done = await ask("POST", "pools", made.pool ? { ...said, name: made.pool } : said);
    live.hasten();
    return [done.text.trim(), done.notes].filter(Boolean).join("\n");
  });
  let form = null;
  function open(pool) {
    form ??= make();
    form.pool = pool?.pool;
    form.form.elements.name.readOnly = Boolean(pool);
    form.open(pool ? { ...pool, name: pool.pool, time: span(pool.time_s), keep: pool.keep_s > 0, keep_for: span(pool.keep_s), total_gpus: pool.total_gpus || "" } : { gpus: 1 });
    if (!pool) form.now.gpus = "";
  }
  async function down(pool) {
    const choice = await confirm(t("p_down_ask", { name: pool }), t("p_down_how"), [["", t("cancel")], ["later", t("p_down_later"), "danger"], ["now", t("p_down_now"), "danger"]]);
    if (choice) await does(`pools/${encodeURIComponent(pool)}?now=${choice === "now"}`, "DELETE");
  }
  by("pool-new").addEventListener("click", () => open(null));
  by("pool-tick").addEventListener("click", () => does("pools/tick"));
  return { open, down, again: (pool) => does("pools", "POST", { name: pool }) };
}

/* ---- a task ---- */

function taskOf(form) {
  const task = {}, value = (name) => form.elements[name].value.trim();
  task.command = form.elements.command.value.trim();
  task.gpus = number(value("gpus") || "1");
  for (const name of ["name", "lane", "priority", "timeout", "cwd", "memory", "retries"]) {
    const text = value(name);
    if (text) task[name] = name === "priority" || name === "retries" ? number(text) : text;
  }
  const after = value("after").split(/[\s,]+/).filter(Boolean);
  if (after.length) task.after = after.map(number);
  const env = linesOf(form.elements.env.value);
  if (env.length) task.env = env;
  return task;
}

// One for each thing that is submitted: a second click, or a second try after an answer that got lost, submits it once.
function newKey() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

export function submitView(live, toast, open) {
  const dialog = by("submit"), form = by("submit-form"), refusal = by("submit-refusal");
  let key = newKey();

  form.addEventListener("input", () => { key = newKey(); });
  form.addEventListener("submit", sending(by("submit-go"), "s_go", async () => {
    const task = taskOf(form);
    if (!task.command) return refuse(form, refusal, t("s_need")), form.elements.command.focus();
    try {
      const done = await ask("POST", "tasks", task, { headers: { "Idempotency-Key": key } });
      refuse(form, refusal, "");
      key = newKey();
      form.reset();
      dialog.close();
      toast([t("s_done", { n: done.id }), done.notes].filter(Boolean).join(" "), false, [t("log"), () => open(done.id, true)]);
      live.paced.tasks.want(true);
    } catch (e) {
      refuse(form, refusal, problemText(e));
    }
  }));
  return { open() {
    refuse(form, refusal, "");
    dialog.showModal();
    form.elements.command.focus();
  } };
}
