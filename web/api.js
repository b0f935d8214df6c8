// SPDX-License-Identifier: MIT
// What is asked of the server, and how the page stays up to date: it looks when the stream of events says that something is
// new, once a second at most, and not at all while nobody sees it.

import { now, setClock } from "./strings.js";

const API = "/api/v1/";
const STATUS_MS = 1000, TASKS_MS = 1500, SLOW_MS = 10000, SILENT_MS = 25000, ANSWER_MS = 30000;
const BACK_OFF_MS = [500, 1000, 2000, 4000, 8000, 10000];
const DAY_S = 86400, STEP_S = 180;
const OTHERS_MS = 300000, OTHERS_AGAIN_MS = 30000; // another node tells of its day every ten minutes
const NODE_EVENTS = new Set(["allocated", "released", "agent-started", "node-lost", "deadline", "draining", "ending"]);
const EVENTS_MAX = 200, PAGE = 50, ENDED_PAGE = 20, LOG_STREAMS = 3;

// A refusal, with the server's own words; status 0: nobody answered.
export class Problem extends Error {
  constructor(status, detail) {
    super(detail);
    this.status = status;
  }
}

async function problem(answer) {
  let detail = `${answer.status} ${answer.statusText}`;
  try {
    detail = (await answer.json()).detail ?? detail;
  } catch { /* not a document of ours */ }
  return new Problem(answer.status, detail);
}

// more: headers, signal, stream (an answer without end).
export async function request(method, path, body, more) {
  const headers = { ...more?.headers };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const late = new AbortController(), timer = setTimeout(() => late.abort(), ANSWER_MS);
  let answer;
  try {
    answer = await fetch(API + path, { method, headers, signal: more?.signal ? AbortSignal.any([more.signal, late.signal]) : late.signal,
      cache: "no-store", body: body === undefined ? undefined : JSON.stringify(body) });
  } catch (e) {
    if (more?.signal?.aborted) throw e;
    throw new Problem(0, "");
  } finally {
    if (more?.stream || !answer) clearTimeout(timer);
  }
  if (!answer.ok) throw await problem(answer);
  return answer;
}

/*
 * A browser has six connections to a server, whatever its windows, and what finds none waits without a word. So one window
 * follows the events for all, and LOG_STREAMS logs are streams; that is agreed on by locks, which there are where the page
 * came by TLS or from this machine.
 */
const channel = navigator.locks ? new BroadcastChannel("tenure-events") : null;

async function leading(signal, steal, fn) {
  return channel ? navigator.locks.request("tenure-events", steal ? { steal } : { signal }, fn) : fn();
}

export async function streaming(fn, otherwise) {
  for (let i = 0; channel && i < LOG_STREAMS; i++) {
    if (await navigator.locks.request(`tenure-log-${i}`, { ifAvailable: true }, async (lock) => lock && (await fn(), true))) return;
  }
  await otherwise();
}

export async function ask(method, path, body, more) {
  const answer = await request(method, path, body, more);
  if (answer.status === 204) return null;
  try {
    return await answer.json();
  } catch (e) {
    if (more?.signal?.aborted) throw e;
    throw new Problem(0, "");
  }
}

// The bytes of an answer without end; it breaks off when nothing came for SILENT_MS and beats is set.
export async function* pieces(answer, abort, beats) {
  const reader = answer.body.getReader();
  let timer = null;
  const wind = () => {
    clearTimeout(timer);
    if (beats) timer = setTimeout(() => abort.abort(), SILENT_MS);
  };
  try {
    for (wind(); ;) {
      const { done, value } = await reader.read();
      if (done) return;
      wind();
      yield value;
    }
  } finally {
    clearTimeout(timer);
  }
}

// Server-Sent Events by hand: a stream that is silent is noticed, and the last id can be told again.
async function* events(answer, abort) {
  const decoder = new TextDecoder();
  let text = "";
  for await (const piece of pieces(answer, abort, true)) {
    text += decoder.decode(piece, { stream: true });
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const entry = { event: "message", data: "" };
      for (const line of text.slice(0, end).split("\n")) {
        const colon = line.indexOf(": ");
        if (colon > 0) entry[line.slice(0, colon)] = line.slice(colon + 2);
      }
      yield entry.data ? { kind: entry.event, id: entry.id, doc: JSON.parse(entry.data) } : { kind: "beat" };
    }
  }
}

// Calls fn at most once in so many milliseconds, and never twice at once; asked meanwhile, once more.
class Paced {
  constructor(ms, fn) { Object.assign(this, { ms, fn, at: -Infinity, timer: null, busy: false, again: "" }); }

  want(atOnce) {
    if (this.busy) {
      this.again = atOnce ? "now" : this.again || "later";
    } else if (atOnce) {
      clearTimeout(this.timer);
      this.go();
    } else {
      this.timer ??= setTimeout(() => this.go(), Math.max(0, this.at + this.ms - performance.now()));
    }
  }

  async go() {
    this.timer = null;
    this.busy = true;
    this.at = performance.now();
    try {
      await this.fn();
    } finally {
      this.busy = false;
      if (this.again) {
        const atOnce = this.again === "now";
        this.again = "";
        this.want(atOnce);
      }
    }
  }
}

/*
 * All that the page knows. Listeners get the name of what is new: link, status, tasks, nodes, past, days, events, event.
 *
 * link: starting, live, old. While it is old, why and seen (a time) say since when. While it is live, late has what is
 * refused of what is shown (status, tasks, slow): { why, seen, tries }.
 */
export class Live {
  // first: the status, where there is one already.
  constructor(session, first) {
    Object.assign(this, {
      session, link: "starting", why: "", refused: false, seen: null, tries: 0, next: null,
      status: null, agent: false, trouble: "", statusSeen: null,
      running: null, waiting: null, ended: null, counts: null, queueTrouble: "", read: false, lanes: new Set(),
      cursor: null, cursors: [], lane: "", name: "", endedLimit: ENDED_PAGE,
      nodes: [], pools: [], allocations: [], health: null,
      past: null, pastTrouble: "", days: new Map(), daysOf: [], yields: [], events: [], lastId: null, ids: new Set(), told: false,
      listeners: [], abort: null, late: new Map(), asked: new Map(), silence: null, mute: false,
    });
    this.paced = {
      status: new Paced(STATUS_MS, () => this.guarded("status", () => this.askStatus())),
      tasks: new Paced(TASKS_MS, () => this.guarded("tasks", () => this.askTasks())),
      slow: new Paced(SLOW_MS, () => this.guarded("slow", () => this.askSlow())),
      past: new Paced(STEP_S * 500, () => this.guarded("past", () => this.askPast())),
      days: new Paced(STATUS_MS, () => this.guarded("days", () => this.askDays())),
    };
    if (first) this.takeStatus(first);
    channel?.addEventListener("message", ({ data }) => this.overhear(data));
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.again()));
  }

  // Until when it is known what this node's devices are, in seconds, and how old that is. (Elsewhere in gpus.js has the same.)
  until() { return now() / 1000; }
  aged() { return (Date.now() - (this.statusSeen ?? Date.now())) / 1000; }

  canSteer() { return this.session.right === "write"; }

  listen(fn) { this.listeners.push(fn); }

  tell(what, doc) { for (const fn of this.listeners) fn(what, doc); }

  // What was asked in vain is asked again by the stream's own back-off; what is refused is said, and asked for later.
  async guarded(what, fn) {
    try {
      await fn();
      this.seen = new Date();
      this.asked.set(what, this.seen);
      if (this.late.delete(what)) this.tell("link", false);
    } catch (e) {
      if (!(e instanceof Problem)) throw e;
      if (e.status === 0 || e.status === 401) return this.broken(e);
      const tries = this.late.get(what)?.tries ?? 0;
      this.late.set(what, { why: e.message, seen: this.asked.get(what), tries: tries + 1 });
      setTimeout(() => this.paced[what].want(), BACK_OFF_MS[Math.min(tries, BACK_OFF_MS.length - 1)]);
      this.tell("link", false);
    }
  }

  refresh() { for (const one of Object.values(this.paced)) one.want(true); }

  // Something was done: what comes of it is looked for more often for a while.
  hasten() {
    clearTimeout(this.hastened);
    this.paced.slow.ms = STATUS_MS;
    this.hastened = setTimeout(() => { this.paced.slow.ms = SLOW_MS; }, SLOW_MS);
    for (const one of ["status", "tasks", "slow"]) this.paced[one].want(true);
  }

  start() {
    this.refresh();
    this.follow();
  }

  // Nobody looks: no stream, no questions.
  pause() {
    this.abort?.abort();
    clearTimeout(this.silence);
    clearTimeout(this.next?.timer);
    this.next = null;
  }

  again() {
    clearTimeout(this.next?.timer);
    this.next = null;
    this.abort?.abort();
    this.follow();
    this.refresh();
  }

  async follow() {
    const abort = this.abort = new AbortController(), steal = this.mute;
    let why = new Problem(0, "");
    this.mute = false;
    if (channel) {
      this.listenOn();
      channel.postMessage({ kind: "begin" });
    }
    try {
      await leading(abort.signal, steal, () => this.stream(abort));
    } catch (e) {
      if (e instanceof Problem) why = e;
    }
    abort.abort(); // another window may have taken its place
    if (this.abort === abort && !document.hidden) this.broken(why);
  }

  // For itself and the other windows.
  async stream(abort) {
    clearTimeout(this.silence);
    const id = this.lastId, headers = id ? { "Last-Event-ID": id } : {};
    const answer = await request("GET", id ? "events" : `events?last=${EVENTS_MAX}`, undefined, { headers, signal: abort.signal, stream: true });
    this.leads = abort;
    for await (const entry of events(answer, abort)) {
      if (abort.signal.aborted) return;
      channel?.postMessage(entry);
      this.hear(entry);
    }
  }

  // The window that follows for all may be frozen.
  listenOn() {
    clearTimeout(this.silence);
    this.silence = setTimeout(() => {
      this.mute = true;
      this.broken(new Problem(0, ""));
    }, SILENT_MS);
  }

  overhear(entry) {
    const leads = this.leads && !this.leads.signal.aborted;
    if (entry.kind === "begin") return leads && channel.postMessage({ kind: "before", events: this.events });
    if (document.hidden || leads) return;
    this.listenOn();
    if (entry.kind === "before") this.catchUp(entry.events);
    this.hear(entry);
  }

  // What was told before this window was there.
  catchUp(before) {
    if (this.told) return;
    const since = this.events;
    this.told = true;
    this.events = [];
    this.ids.clear();
    for (const doc of [...before, ...since]) this.addEvent(doc.id, doc);
    this.lastId = this.events.at(-1)?.id ?? null;
  }

  hear(entry) {
    this.alive();
    if (entry.kind !== "beat" && entry.kind !== "before") this.take(entry);
  }

  alive() {
    this.seen = new Date();
    this.tries = 0;
    if (this.link === "live") return;
    const back = this.link === "old";
    this.link = "live";
    this.tell("link", back);
    if (back) this.refresh();
  }

  broken(e) {
    if (this.next) return;
    const ms = BACK_OFF_MS[Math.min(this.tries++, BACK_OFF_MS.length - 1)] * (0.8 + 0.4 * Math.random());
    this.next = { at: Date.now() + ms, timer: setTimeout(() => this.again(), ms) };
    this.link = "old";
    this.why = e.message;
    this.refused = e.status === 401;
    this.tell("link", false);
  }

  take({ kind, id, doc }) {
    if (kind === "lost") return this.refresh(); // what it would have said is looked for
    if (kind === "event") {
      this.lastId = id ?? this.lastId;
      this.addEvent(id, doc);
    }
    const news = kind === "event" && now() - Date.parse(doc.time) < SILENT_MS ? doc.event : ""; // not what was told before
    this.paced.status.want();
    this.paced.tasks.want(/^task-/.test(news));
    this.paced.slow.want(NODE_EVENTS.has(news));
    this.paced.past.want();
  }

  addEvent(id, doc) {
    if (id && this.ids.has(id)) return;
    if (id) this.ids.add(id);
    this.events.push(doc);
    if (this.events.length > EVENTS_MAX) this.ids.delete(this.events.shift().id);
    if (doc.event === "yield") this.addYields([doc]);
    this.tell("event", doc);
    this.later("events");
  }

  // Many that come together are drawn once.
  later(what) {
    this.due ??= new Set();
    if (!this.due.size) {
      requestAnimationFrame(() => {
        const all = [...this.due];
        this.due.clear();
        for (const one of all) this.tell(one);
      });
    }
    this.due.add(what);
  }

  addYields(list) {
    const known = new Map(this.yields.map((y) => [y.id ?? y.time + y.uuid, y])), from = now() - DAY_S * 1000;
    for (const y of list) known.set(y.id ?? y.time + y.uuid, y);
    this.yields = [...known.values()].filter((y) => Date.parse(y.time) >= from).sort((a, b) => Date.parse(b.time) - Date.parse(a.time));
    this.later("past");
  }

  async askStatus() {
    this.takeStatus(await ask("GET", "status"));
    this.tell("status");
  }

  takeStatus(doc) {
    this.agent = doc.agent;
    this.trouble = doc.trouble ?? "";
    if (doc.agent && doc.status) {
      this.status = doc.status;
      this.statusSeen = new Date();
      setClock(doc.status.time);
      if (!this.past && this.pastTrouble) this.paced.past.want(true);
    }
  }

  query(state, limit, more) {
    const q = new URLSearchParams({ state, limit, ...more });
    if (this.lane) q.set("lane", this.lane);
    if (this.name) q.set("name", this.name);
    return `tasks?${q}`;
  }

  async askTasks() {
    const at = this.cursor ? { cursor: this.cursor } : {};
    const [running, waiting, ended] = await Promise.all([
      ask("GET", this.query("running", 2 * PAGE)), ask("GET", this.query("pending,paused", PAGE, at)),
      ask("GET", this.query("done,failed,cancelled", this.endedLimit, { ended: "true" }))]);
    this.read = waiting.read;
    this.queueTrouble = waiting.trouble ?? "";
    if (this.cursor && !waiting.tasks.length) return this.page(null);
    Object.assign(this, { running, waiting, ended });
    for (const task of [...running.tasks, ...waiting.tasks]) if (task.lane) this.lanes.add(task.lane);
    this.tell("tasks");
  }

  // The page of what waits that begins behind that cursor; null: the first one.
  page(cursor) { this.turn(cursor ? [...this.cursors, cursor] : []); }

  pageBack() { this.turn(this.cursors.slice(0, -1)); }

  turn(cursors) {
    this.cursors = cursors;
    this.cursor = cursors.at(-1) ?? null;
    this.paced.tasks.want(true);
  }

  filter(name, lane) {
    Object.assign(this, { name, lane });
    this.page(null);
  }

  async askSlow() {
    const [nodes, pools, allocations, health] = await Promise.all([ask("GET", "nodes"), ask("GET", "pools"),
      ask("GET", "allocations").catch((e) => { if (e.status) return { allocations: this.allocations }; throw e; }), ask("GET", "health")]);
    Object.assign(this, { nodes: nodes.nodes, pools: pools.pools, allocations: allocations.allocations, health });
    this.tell("nodes");
  }

  // What the devices of these nodes were used for is shown.
  showDays(agents) {
    this.daysOf = agents;
    if (agents.some((agent) => this.dayIsDue(agent))) this.paced.days.want();
  }

  dayIsDue(agent) {
    const day = this.days.get(agent);
    return !day || Date.now() - day.at > (day.why ? OTHERS_AGAIN_MS : OTHERS_MS);
  }

  // One after the other: each is a file of the queue, which may be far away. What was told stays where nothing is now.
  async askDays() {
    for (const agent of this.daysOf.filter((one) => this.dayIsDue(one))) {
      const day = { at: Date.now(), past: this.days.get(agent)?.past ?? null, why: "" };
      try {
        day.past = await ask("GET", `nodes/${encodeURIComponent(agent)}/history`);
      } catch (e) {
        if (!(e instanceof Problem) || !e.status || e.status === 401 || e.status === 429) throw e;
        day.why = e.message;
      }
      this.days.set(agent, day);
      this.tell("days");
    }
    for (const agent of this.days.keys()) if (!this.nodes.some((node) => node.agent === agent)) this.days.delete(agent);
  }

  async askPast() {
    const [past, yields] = await Promise.allSettled([ask("GET", `devices/history?step=${STEP_S}`), ask("GET", "yields")]);
    if (yields.value) this.addYields(yields.value.yields);
    if (past.value) this.past = past.value;
    this.pastTrouble = past.reason?.message ?? "";
    this.tell("past");
    const gone = [past, yields].find(({ reason }) => reason && !reason.status);
    if (gone) throw gone.reason;
  }
}
