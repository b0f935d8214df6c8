// SPDX-License-Identifier: MIT
// Who looks on. The address that `tenure web` prints has the token behind its #. It is exchanged for a cookie, and taken
// out of the address and the history before anything else is done.

import { ask } from "./api.js";

// { right: "read" or "write", instance }, or a Problem.
export async function session() {
  const match = /^#token=([0-9a-f]{64})$/.exec(location.hash);
  if (!match) return ask("GET", "session");
  history.replaceState(null, "", location.pathname);
  return exchange(match[1]);
}

export async function exchange(token) { return ask("POST", "session", { token }); }
