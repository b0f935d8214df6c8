// SPDX-License-Identifier: MIT
"use strict";

// The address that `tenure web` prints has the token behind its #. It is exchanged for a cookie, and
// taken out of the address and the history before anything else is done.
async function session() {
  const match = /^#token=([0-9a-f]{64})$/.exec(location.hash);
  if (match) {
    history.replaceState(null, "", location.pathname);
    return fetch("/api/v1/session", {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ token: match[1] }),
    });
  }
  return fetch("/api/v1/session");
}

async function show() {
  const state = document.getElementById("state");
  try {
    const answer = await session();
    const doc = await answer.json();
    state.textContent = answer.ok
      ? `Instance ${doc.instance}, ${doc.right === "write" ? "to see and to steer" : "to look at"}.`
      : doc.detail;
  } catch (e) {
    state.textContent = "tenure serve does not answer.";
  }
}

show();
