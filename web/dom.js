// SPDX-License-Identifier: MIT
// Elements. What comes from the server becomes text, and nothing else: no markup is ever made of it.

const SVG = "http://www.w3.org/2000/svg";

function fill(el, props, kids) {
  for (const [key, value] of Object.entries(props ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "text") el.textContent = visible(value);
    else if (key === "on") for (const [kind, fn] of Object.entries(value)) el.addEventListener(kind, fn);
    else el.setAttribute(key, value === true ? "" : value);
  }
  el.append(...kids.flat().filter((kid) => kid !== null && kid !== undefined && kid !== false));
  return el;
}

export function h(tag, props, ...kids) { return fill(document.createElement(tag), props, kids); }
export function svg(tag, props, ...kids) { return fill(document.createElementNS(SVG, tag), props, kids); }
export function by(id) { return document.getElementById(id); }

// Control characters, and those that turn the direction of what follows, as something that can be seen.
export function visible(text) {
  return String(text).replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]/g, (c) => {
    const n = c.codePointAt(0);
    if (n < 32) return String.fromCodePoint(0x2400 + n);
    return n === 127 ? "\u2421" : `\u27e8${n.toString(16)}\u27e9`;
  });
}

// Only what differs is written: what is selected stays so, and nothing is read out again.
export function say(el, text) {
  const shown = visible(text ?? "");
  if (el.textContent !== shown) el.textContent = shown;
  return el;
}

export function set(el, name, value) {
  if (value === null || value === undefined || value === false) {
    if (el.hasAttribute(name)) el.removeAttribute(name);
  } else if (el.getAttribute(name) !== String(value)) {
    el.setAttribute(name, value);
  }
  return el;
}

export function show(el, yes) {
  if (el.hidden === Boolean(yes)) el.hidden = !yes;
  return el;
}

// A list of things, each with a key, of which each has an element as long as it is there: focus stays where it is.
// make(thing) gives { el, draw(thing) }.
export class List {
  constructor(parent, key, make) {
    Object.assign(this, { parent, key, make, parts: new Map() });
  }

  draw(things) {
    const parts = new Map();
    let at = this.parent.firstElementChild;
    for (const thing of things) {
      const key = this.key(thing), part = this.parts.get(key) ?? this.make(thing);
      part.draw(thing);
      parts.set(key, part);
      if (part.el === at) at = at.nextElementSibling;
      else this.parent.insertBefore(part.el, at);
    }
    for (const [key, part] of this.parts) if (parts.get(key) !== part) part.el.remove();
    this.parts = parts;
  }

  clear() {
    for (const part of this.parts.values()) part.el.remove();
    this.parts.clear();
  }
}

// What changes with time alone: fn() is called once a second as long as the element is in the page.
const ticking = new Map();

export function tick(el, fn) {
  ticking.set(el, fn);
  fn();
  return fn;
}

setInterval(() => {
  if (document.hidden) return;
  for (const [el, fn] of ticking) {
    if (el.isConnected) fn();
    else ticking.delete(el);
  }
}, 1000);

// A table that becomes cards where there is no room: its roles are said, because a card's layout hides them.
export function table(labelledby, columns) {
  const head = h("tr", { role: "row" }, columns.map(([name, label, cls]) => h("th", { role: "columnheader", scope: "col", class: cls ?? name, text: label })));
  const body = h("tbody", { role: "rowgroup" });
  return { el: h("table", { role: "table", "aria-labelledby": labelledby }, h("thead", { role: "rowgroup" }, head), body), body };
}

export function cell(name, label, ...kids) { return h("td", { role: "cell", class: name, "data-label": label }, ...kids); }

// The button of a row says what it is about to whom it is read.
export function button(text, label, fn, cls) {
  return h("button", { type: "button", text, "aria-label": label, class: cls, on: { click: fn } });
}

// Ask with a dialog of its own: the value of the button, or "" when it was closed.
export function confirm(question, how, choices) {
  const dialog = h("dialog", { class: "ask", "aria-labelledby": "ask-title", "aria-describedby": "ask-how" },
    h("h2", { id: "ask-title", text: question }), h("p", { id: "ask-how", text: how }),
    h("div", { class: "choices" }, choices.map(([value, text, cls]) => button(text, null, () => dialog.close(value), cls))));
  document.body.append(dialog);
  dialog.showModal();
  return new Promise((done) => dialog.addEventListener("close", () => {
    dialog.remove();
    done(dialog.returnValue);
  }));
}
