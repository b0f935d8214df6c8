// SPDX-License-Identifier: MIT
// Who looks on. The address that `tenure web` prints has the token behind its #. It is exchanged for a cookie, and taken
// out of the address and the history before anything else is done.

import { ask } from "./api.js";

const TOKEN = /^#token=([0-9a-f]{64})$/;

// That address in a tab that is here already changes what is behind the #, and loads nothing.
addEventListener("hashchange", () => { if (TOKEN.test(location.hash)) location.reload(); });

// { right: "read" or "write", instance }, or a Problem.
export async function session() {
  const match = TOKEN.exec(location.hash);
  if (!match) return ask("GET", "session");
  history.replaceState(null, "", location.pathname);
  return exchange(match[1]);
}

export async function exchange(token) { return ask("POST", "session", { token }); }

// Begun as soon as this file is here, while the others still come: what is drawn first need not wait for them.
export const entered = session();
export const firstStatus = entered.then(() => ask("GET", "status"));
firstStatus.catch(() => {}); // said by who waits for it
