// SPDX-License-Identifier: MIT
// The page: who looks on, its parts, its language and colours, its keys, and what is said aloud.

import { Live } from "./api.js";
import { by, h, say, set, show, tick } from "./dom.js";
import { askerOf, asksView, holdView, poolActions, problemText, submitView } from "./forms.js";
import { gpuName, gpuOf, gpusView, whoOf, yieldsView } from "./gpus.js";
import { eventsView, nodesView, queueView } from "./queue.js";
import { entered, exchange, firstStatus, session } from "./session.js";
import { clock, duration, language, languages, now, speak, t, translate } from "./strings.js";
import { taskView } from "./task.js";

const SAY_MS = 1500, SAY_MAX = 3, TOAST_MS = 8000, TOASTS = 2;

/* ---- what a browser remembers, where it may ---- */

function recall(key) {
  try {
    return localStorage.getItem(`tenure-${key}`);
  } catch {
    return null;
  }
}

function keep(key, value) {
  try {
    localStorage.setItem(`tenure-${key}`, value);
  } catch { /* it is for this visit alone, then */ }
}

/* ---- said to whom does not see it, a few at a time ---- */

let waiting = [], saying = null;

function announce(text) {
  waiting.push(text);
  saying ??= setTimeout(() => {
    const more = waiting.length - SAY_MAX;
    say(by("said"), [...waiting.slice(0, SAY_MAX), more > 0 && t("said_more", { n: more })].filter(Boolean).join(" "));
    waiting = [];
    saying = null;
  }, SAY_MS);
}

function announceEvent(live, e) {
  if (now() - Date.parse(e.time) > 30000) return; // it was told before
  const values = { n: e.element ? `${e.task}.${e.element}` : e.task, name: e.name ?? "" };
  if (e.event === "yield") announce(t("said_yield", { gpu: gpuOf(live, e), who: whoOf(e) }));
  else if (e.event === "asked") announce(t("a_text", { who: askerOf(e), gpu: gpuName(e.gpu, e.mig) }));
  else if (e.event === "task-started") announce(t("said_started", values));
  else if (e.event === "task-ended" && (e.outcome === "done" || e.outcome === "failed")) announce(t(`said_${e.outcome}`, values));
}

function toast(text, bad, action) {
  const box = h("div", { class: bad ? "toast bad" : "toast", role: bad ? "alert" : "status" }, h("span", { text }),
    action && h("button", { type: "button", text: action[0], on: { click: () => { box.remove(); action[1](); } } }),
    h("button", { type: "button", class: "plain", "aria-label": t("close"), text: "✕", on: { click: () => box.remove() } }));
  const all = by("toasts");
  while (all.childElementCount >= TOASTS) all.firstElementChild.remove();
  // Above a dialog, where one is open.
  ([...document.querySelectorAll("dialog[open]")].at(-1) ?? all).append(box);
  setTimeout(() => box.remove(), bad ? 3 * TOAST_MS : TOAST_MS);
}

/* ---- colours and language ---- */

const THEMES = ["auto", "light", "dark"];

function paint(theme) {
  document.documentElement.dataset.theme = theme;
  by("theme").value = theme;
}

function pickTheme(theme) {
  keep("theme", theme);
  paint(theme);
}

function firstLanguage() {
  return recall("language") ?? ((navigator.languages ?? [navigator.language]).find((l) => /^(zh|en)\b/i.test(l)) ?? "en").slice(0, 2).toLowerCase();
}

let views = [], relabels = [];

function pickLanguage(code) {
  speak(code);
  translate(document);
  by("language").value = language();
  for (const fn of relabels) fn();
}

/* ---- the connection ---- */

function banner(live) {
  const late = [...live.late.values()][0], el = by("banner"), text = by("banner-text"), again = by("banner-again");
  const why = live.why || t("no_answer"), ago = (at) => ({ why: live.link === "old" ? why : live.trouble, time: clock(at), ago: duration((Date.now() - at) / 1000) });
  if (live.link === "old") {
    const left = live.next ? Math.max(0, Math.ceil((live.next.at - Date.now()) / 1000)) : 0;
    say(text, [live.seen ? t("old_since", ago(live.seen)) : t("never_seen", { why }), left ? t("again_in", { s: left }) : t("again")].join(" "));
  } else if (late && live.link === "live") {
    say(text, t("late_since", { why: late.why, time: late.seen ? clock(late.seen) : "", ago: late.seen ? duration((Date.now() - late.seen) / 1000) : t("unknown") }));
  } else if (live.link === "live" && !live.agent && live.trouble) {
    say(text, live.statusSeen ? t("agent_gone", ago(live.statusSeen)) : t("agent_none", { why: live.trouble }));
  } else {
    say(text, "");
  }
  show(el, text.textContent);
  show(again, live.link === "old");
  const state = late && live.link === "live" ? "late" : live.link;
  say(by("link"), t(state));
  set(by("link"), "data-link", state === "live" && !live.agent && live.trouble ? "late" : state);
}

function head(live) {
  const s = live.status;
  say(by("where"), [s?.host, live.session.instance].filter(Boolean).join(" / "));
  const running = live.running?.total, waits = live.waiting?.total;
  document.title = running === undefined ? "tenure" : `${running} ▶ ${waits} … ${s?.host ?? "tenure"}`;
  say(by("footer-of"), live.health ? t("footer_of", { version: live.health.version, instance: live.health.instance }) : "");
}

/* ---- keys ---- */

function go(id) {
  const el = by(id);
  el.scrollIntoView({ block: "start" });
  el.focus();
}

function bindKeys(live, submit, hold) {
  const keys = {
    "?": ["k_help", () => by("help").showModal()], s: ["k_submit", live.canSteer() && (() => submit.open())], h: ["k_hold", live.canSteer() && (() => hold.open())], "/": ["k_filter", () => by("filter-name").focus()],
    g: ["k_gpus", () => go("gpus-title")], q: ["k_queue", () => go("queue-title")], e: ["k_events", () => go("events-title")], r: ["k_refresh", () => live.again()],
    t: ["k_theme", () => pickTheme(THEMES[(THEMES.indexOf(by("theme").value) + 1) % THEMES.length])], l: ["k_language", () => {
      const codes = Object.keys(languages), next = codes[(codes.indexOf(language()) + 1) % codes.length];
      keep("language", next);
      pickLanguage(next);
    }],
  };
  const on = by("keys-on");
  on.checked = recall("keys") !== "off";
  on.addEventListener("change", () => keep("keys", on.checked ? "on" : "off"));
  document.addEventListener("keydown", (e) => {
    if (!on.checked && e.key !== "?") return;
    if (e.ctrlKey || e.altKey || e.metaKey || e.target.closest("input, select, textarea, dialog")) return;
    const fn = keys[e.key]?.[1];
    if (!fn) return;
    e.preventDefault();
    fn();
  });
  relabels.push(() => by("key-list").replaceChildren(...[...Object.entries(keys).filter(([, [, fn]]) => fn).map(([key, [label]]) => [key, label]), ["← →", "k_strip"], ["Esc", "k_esc"]]
    .flatMap(([key, label]) => [h("dt", {}, h("kbd", { text: key })), h("dd", { text: t(label) })])));
}

/* ---- the beginning ---- */

// With the status, where it is there: it is drawn before anything else is asked for.
function begin(who, status) {
  const live = new Live(who, status);
  show(by("signin"), false);
  show(by("page"), true);
  document.body.dataset.right = who.right;
  show(by("read-only"), !live.canSteer());
  for (const el of document.querySelectorAll(".steer")) show(el, live.canSteer());
  const task = taskView(live, toast), submit = submitView(live, toast, task.open);
  const hold = holdView(live, toast), actions = { open: task.open, stop: task.stop, release: task.release, pool: poolActions(live, toast) };
  views = [asksView(live, toast, task.open), gpusView(live, (id) => task.open(id, true)), hold, yieldsView(live), queueView(live, actions), eventsView(live), nodesView(live, actions)];
  relabels.push(...views.map((view) => view.relabel), task.relabel, () => { banner(live); head(live); });
  let drawn = null;
  live.listen((what, doc) => {
    for (const view of views) if (view.on.includes(what)) view.draw();
    if (what === "status" && live.status && !drawn) drawn = performance.mark("first-data");
    if (what === "event") announceEvent(live, doc);
    if (what === "link" && (doc || live.link === "old")) announce(t(doc ? "back" : "lost"));
    if (what === "link" && live.refused) location.reload();
    if (what === "status" || what === "link") banner(live);
    head(live);
  });
  tick(by("banner"), () => banner(live));
  for (const el of document.querySelectorAll(".do-submit")) el.addEventListener("click", () => submit.open());
  by("banner-again").addEventListener("click", () => live.again());
  bindKeys(live, submit, hold);
  for (const fn of relabels) fn();
  if (live.status) drawn = performance.mark("first-data");
  live.start();
}

function signIn(e) {
  show(by("signin"), true);
  say(by("signin-why"), problemText(e));
  by("token").focus();
}

async function enter(how, status) {
  try {
    const who = await how;
    begin(who, await status?.catch(() => null)); // where it did not come it is asked for again
  } catch (e) {
    signIn(e);
    if (!e.status) setTimeout(() => enter(session()), 3000); // it is not there, and may come
  }
}

for (const code of Object.keys(languages)) by("language").append(h("option", { value: code, lang: code, text: languages[code].language }));
paint(THEMES.includes(recall("theme")) ? recall("theme") : "auto");
speak(firstLanguage());
translate(document);
by("language").value = language();
by("theme").addEventListener("change", (e) => pickTheme(e.target.value));
by("language").addEventListener("change", (e) => {
  keep("language", e.target.value);
  pickLanguage(e.target.value);
});
for (const el of document.querySelectorAll(".do-help")) el.addEventListener("click", () => by("help").showModal());
for (const el of document.querySelectorAll("dialog .close")) el.addEventListener("click", () => el.closest("dialog").close());
by("signin-form").addEventListener("submit", (e) => {
  e.preventDefault();
  const token = /[0-9a-f]{64}/.exec(by("token").value)?.[0];
  if (token) enter(exchange(token));
  else say(by("signin-why"), t("token_form"));
});
enter(entered, firstStatus);
