# SPDX-License-Identifier: MIT
"""The page of `tenure serve`, in Debian's Chromium, by what a person sees and does there."""
import datetime
import json
import os
import pathlib
import pwd
import re
import signal

import pytest

from machine import reused, until
from nodelib import two_that_know_each_other
from patience import HANG, Stopwatch, must_come
from pagelib import Busy, Keys, Page, open_browser, terminal_html
from poolsite import Site
from test_ask import NAME, Two
from test_nodedevices import devices, history, make_earlier, write_day
from weblib import ROOT, Web

pytestmark = pytest.mark.skipif(not pathlib.Path(os.environ.get("TENURE_BUILD", "build"), "tenure-serve").exists(),
                                reason="built without libmicrohttpd")


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """One for all tests: its start takes longer than most of them."""
    driver = open_browser(tmp_path_factory.mktemp("browser"))
    yield driver
    driver.quit()


@pytest.fixture
def page(queue, browser):
    """make(..): the page of a tenure serve of its own. Whatever a test does, no policy is violated and no script fails."""
    made = []

    def make(*agent, node=None, read=False, opened=True, **more):
        if node is None:
            node = queue(**more)
            if agent != (None,):
                node.start(*(agent or ("--no-hold",)))
        web = Web(node)
        must_come(lambda: (h := web.get("/api/v1/health").json)["queue"] and (h["agent"] or agent == (None,)))
        if read:
            node.run("web", "--read-only")
        made.append(Page(browser, web, read))
        if opened:
            made[-1].open()
            made[-1].get(".link-state", "Live")
        return made[-1]
    yield make
    try:
        for p in made:
            p.check()
    finally:
        browser.get("about:blank")
        for p in made:
            p.web.end()


def test_a_task_from_the_form_to_its_end(page, tmp_path):
    p = page()
    q, go = p.web.node, tmp_path / "go"
    assert "token" not in p.driver.current_url
    p.click("button.do-submit")
    p.get("#submit-form textarea[name=command]").send_keys(f"echo hello from here; {until(go)}; echo bye")
    for name, value in (("name", "first"), ("lane", "week"), ("timeout", "1h"), ("cwd", str(tmp_path))):
        p.get(f"#submit-form [name={name}]").send_keys(value)
    gpus = p.get("#submit-form [name=gpus]")
    gpus.clear()
    gpus.send_keys("0")
    p.click("#submit-go")
    p.gone("#submit")
    p.row(1, "first", "week")
    p.get("#running-table tr[data-task='1']", "of 1 h")
    task = q.run("show", "1", "--json").stdout
    assert f'"cwd": "{tmp_path}"' in task and '"timeout": "1h"' in task
    p.click("#running-table tr[data-task='1'] button", "Log")
    p.get("#log", "hello from here")
    p.get("#task-state", "running")
    go.touch()
    p.get("#log", "bye")
    p.get("#log-state", "ended")
    p.get("#task-state", "done")
    p.click("#task .close")
    p.get("#ended-table tr[data-task='1'] .result", "done")


def test_stop_is_asked_for_and_done(page):
    p = page()
    i = p.web.node.submit("-g", "0", "-n", "long", "--", "sleep", "1000")
    p.click(f"#running-table tr[data-task='{i}'] button", "Stop")
    p.get("dialog.ask", f"Stop task {i}, long?")
    assert p.focus().text == "Cancel"
    p.click("dialog.ask button", "Cancel")
    p.gone("dialog.ask")
    assert p.web.node.task(i)["state"] == "running"
    p.click(f"#running-table tr[data-task='{i}'] button", "Stop")
    p.click("dialog.ask button", "Stop it")
    p.get(f"#ended-table tr[data-task='{i}'] .result", "stopped")


def test_a_yield_is_seen_with_its_times(page):
    p = page("--memory", "90%", gpus=1)
    p.gpu(0, "held", "gone as soon as somebody comes")
    p.web.node.m.start("--take", "50%", "--stay", "1000")
    p.gpu(0, "foreign")
    y = must_come(lambda: p.web.get("/api/v1/yields").json["yields"])[0]
    p.get("#yield-table td", "newcomer")
    p.get("#last-yield", "GPU 0 to")
    p.get("#yield-table .c-latency", f"{round(y.get('hint_to_verdict_ms', 0) + y['verdict_to_freed_ms'])} ms")
    p.get(".gpu-why", str(y["pid"]))
    p.get("#counts .k-foreign b", "1")
    p.until(lambda: p.js("return document.querySelectorAll('.strip .mark').length") == 1)
    p.get("#event-list li[data-event=yield]", "newcomer")
    p.until(lambda: "was yielded to" in p.js("return document.getElementById('said').textContent"))


def test_who_has_no_token_or_a_wrong_one(page):
    p = page(opened=False)
    token = p.web.token()
    p.open(f"http://{p.web.address}/#token={'0' * 64}")
    refused = p.web.ask("POST", "/api/v1/session", {"token": "0" * 64}).json["detail"]
    p.get("#signin-why", refused)
    assert not p.all("#page") and "#" not in p.driver.current_url
    p.open(p.url(token=False))
    p.get("#signin-why", p.web.get("/api/v1/session", tcp=True).json["detail"])
    p.get("#token").send_keys("nonsense" + Keys.ENTER)
    p.get("#signin-why", "64 digits")
    p.get("#token").clear()
    p.get("#token").send_keys(token + Keys.ENTER)
    p.get(".link-state", "Live")
    assert not p.all("#signin")
    # The cookie is not for scripts, and is enough.
    assert p.js("return document.cookie") == "" and [c["httpOnly"] for c in p.driver.get_cookies()] == [True]
    p.open(p.url(token=False))
    p.get(".link-state", "Live")
    # A token that is taken back is worth nothing, also to a page that is open; the address with another one lets it in again.
    (p.web.config / "web-token").unlink()
    p.get("#signin-why", "this token is not valid here", limit=30)
    p.web.node.run("web")
    assert p.web.token() != token
    must_come(lambda: p.web.get("/api/v1/session", headers=p.web.bearer(), tcp=True).status == 200)
    p.driver.get(p.url())
    p.get(".link-state", "Live")


def test_who_only_looks_on_steers_nothing(page):
    p = page(read=True)
    q = p.web.node
    i, w = q.submit("-g", "0", "-n", "runs", "--", "sleep", "1000"), q.submit("-g", "1", "--paused", "-n", "waits", "--", "true")
    p.get("#read-only", "Read only")
    p.row(w)
    p.row(i)
    p.type("s")
    p.click(f"tr[data-task='{i}'] .link")
    p.get("#task-facts", "sleep 1000")
    names = {name for role, name in p.tree() if role == "button"} | {b.text for b in p.all("button")}
    assert not [n for n in names if re.search("Stop|Submit|Pause|Resume|priority|Give back|Hold (nothing|again)|Change|Want|Look now", n)], names
    assert not p.all("#submit, #task-tools")
    p.type(Keys.ESCAPE)
    p.gone("#task")
    p.type("h")
    p.type("?")
    p.get("#help", "this list")
    assert not p.all(".form") and "Submit" not in p.text("#help") and "held" not in p.text("#help")
    assert p.js("return fetch('/api/v1/hold', { method: 'PATCH', body: '{}' }).then(a => a.status)") == 403
    assert p.js("return fetch('/api/v1/tasks/%d/stop', { method: 'POST' }).then(a => a.status)" % i) == 403


def fill(p, form, **fields):
    """Write into fields of a dialog; None empties one, True and False are for boxes."""
    for name, value in fields.items():
        field = p.get(f"#{form}-dialog [name={name}]")
        if isinstance(value, bool):
            assert field.is_selected() != value
            field.click()
        elif field.tag_name == "select":
            field.send_keys(value)
        else:
            field.clear()
            field.send_keys(value or "")


def test_what_is_held_is_changed(page):
    p = page("--memory", "20G", gpus=2)
    q = p.web.node
    must_come(lambda: len(q.held()) == 2)
    p.click("#hold-change")
    field = p.get("#h-dialog [name=memory]")
    assert field.get_attribute("value") == "20G" and p.get("#h-dialog [name=hold]").is_selected()
    # What is refused is said beside the field, in the server's words, and nothing has changed.
    refused = p.web.ask("PATCH", "/api/v1/hold", {"memory": "900G"}, checked=False).json["detail"]
    fill(p, "h", memory="900G", together=True)
    p.click("#h-dialog .primary")
    p.get("#h-dialog .refusal", refused)
    assert p.focus().get_attribute("name") == "memory" and p.focus().get_attribute("aria-invalid") == "true"
    fill(p, "h", memory="10G", load="light", gpus="0")
    p.click("#h-dialog .primary")
    p.gone("#h-dialog")
    assert set(p.is_told("memory").split("\n")) - {""} == {"memory: 20G -> 10G", "together: false -> true", "gpus: all -> 0", "load: none -> light"}
    must_come(lambda: q.held() == [0] and q.device(0)["held_bytes"] == 10 << 30)
    # An empty field takes back what was said; by keyboard.
    p.until(lambda: p.web.get("/api/v1/hold").json["settings"]["memory"] == "10G")
    p.type("h")
    p.get("#h-dialog")
    assert p.focus().get_attribute("name") == "hold"
    fill(p, "h", memory=None)
    p.type(Keys.ENTER)
    p.is_told("memory: 10G -> 88%")
    # Nothing is held until it is to be again.
    p.click("#hold-turn", "Hold nothing")
    p.get("dialog.ask", "Tasks run on")
    assert p.focus().text == "Cancel"
    p.click("dialog.ask .danger")
    p.get("#counts .k-held b", "0")
    must_come(lambda: not q.held())
    p.click("#hold-turn", "Hold again")
    p.gpu(0, "held")
    # An agent that is not there any more refuses.
    p.click("#hold-change")
    fill(p, "h", memory="8G")
    q.kill()
    p.click("#h-dialog .primary")
    p.get("#h-dialog .refusal", "tenure is not running")


def test_who_asks_for_a_gpu_is_answered(page, queue, tmp_path):
    t = Two(queue(gpus=1), tmp_path)
    i = t.busy()
    p = page(node=t.q)
    assert not p.all("#asks")
    t.ask("0", "an hour, <b>please</b>\x1b[31m")
    p.get("#ask-list li", f"{NAME} asks for GPU 0 · #{i} newcomer")
    p.get("#ask-list q", "an hour, <b>please</b>?[31m")
    p.until(lambda: f"{NAME} asks for GPU 0" in p.js("return document.getElementById('said').textContent"))
    assert ("button", f"Refuse: {NAME} asks for GPU 0") in p.tree()
    p.click("#ask-list button", "Refuse")
    p.get("#an-dialog", f"Answer {NAME}: GPU 0")
    fill(p, "an", message="x" * 201)
    p.click("#an-dialog .primary")
    p.get("#an-dialog .refusal", "the message has 201 bytes, and may have 200")
    fill(p, "an", message="tonight")
    p.type(Keys.ENTER)
    p.gone("#an-dialog")
    p.gone("#asks")
    assert [(a["state"], a["answer"]) for a in t.mine()] == [("no", "tonight")] and t.q.task(i)["state"] == "running"
    # What is never requeued is refused, and stopped where that is said.
    t.q.run("stop", str(i), "--now")
    i = t.busy("--no-requeue")
    t.ask("0")
    p.click("#ask-list button", "Give it")
    p.click("#ay-dialog .primary")
    p.get("#ay-dialog .refusal", f"task {i} (newcomer) is not requeued (--no-requeue)")
    fill(p, "ay", stop=True)
    p.click("#ay-dialog .primary")
    p.is_told(f"task {i} is stopped")
    p.get(f"#ended-table tr[data-task='{i}'] .result", "stopped")
    p.gone("#asks")


# As a name service that answers late: until it is let, the status has no name of whoever asks.
NAMELESS = """
const real = window.fetch;
window.fetch = async (...args) => {
  const answer = await real(...args);
  if (window.named || !String(args[0]).endsWith('/status')) return answer;
  const doc = await answer.json();
  for (const one of doc.status?.asks ?? []) one.user = null;
  return new Response(JSON.stringify(doc), {status: answer.status, headers: answer.headers});
};
"""


def test_the_name_of_who_asks_may_come_late(page, queue, tmp_path):
    t = Two(queue(gpus=1), tmp_path)
    i = t.busy()
    p = page(node=t.q)
    p.js(NAMELESS)
    t.ask("0", "an hour")
    p.get("#ask-list li", f"uid {pwd.getpwnam(NAME).pw_uid} asks for GPU 0 · #{i} newcomer")
    p.js("window.named = true")
    t.q.submit("--", "true")  # whatever happens, the page asks for the status
    p.get("#ask-list li", f"{NAME} asks for GPU 0 · #{i} newcomer")
    assert ("button", f"Give it: {NAME} asks for GPU 0") in p.tree()
    p.click("#ask-list button", "Refuse")
    p.get("#an-dialog", f"Answer {NAME}: GPU 0")


def test_another_name_for_this_machine_gets_nothing(page):
    """A page elsewhere whose name is made to point here (DNS rebinding); the browser is told that it does."""
    p = page()
    p.open(f"http://evil.example:{p.web.port()}/#token={p.web.token()}")
    assert json.loads(p.text("body"))["status"] == 421
    assert p.js("return fetch('/api/v1/status').then(a => a.status)") == 421


def test_agent_and_server_go_and_come_back(page):
    p = page("--memory", "90%", gpus=1)
    q = p.web.node
    p.gpu(0, "held")
    q.kill()
    p.get("#banner", "The agent of this node is not there", "as of")
    p.get("#gpus.stale .gpu", "GPU 0")
    q.start("--memory", "90%")
    p.gone("#banner")
    p.until(lambda: not p.all("#gpus.stale"))
    i = q.submit("-g", "0", "-n", "meanwhile", "--", "sleep", "1000")
    p.row(i)
    port = p.web.port()
    p.web.process.kill()
    p.web.process.wait()
    kept = reused(port)  # or somebody else may be given the port meanwhile
    p.get(".link-state", "Not connected")
    p.get("#banner", "tenure serve does not answer. What is shown is from")
    p.row(i)
    p.until(lambda: "Not connected any more" in p.js("return document.getElementById('said').textContent"))
    j = q.submit("-g", "0", "-n", "while-away", "--", "sleep", "1000")
    p.web = Web(q, "--listen", f"127.0.0.1:{port}", port=False)
    kept.close()
    p.get(".link-state", "Live", limit=30)
    p.row(j)
    p.gone("#banner")


def test_each_attempt_has_its_log(page, tmp_path):
    p = page()
    q, go = p.web.node, tmp_path / "go"
    i = q.submit("-g", "0", "-r", "9", "--backoff", "1s", "--", "sh", "-c", f"echo begun; {until(go)}; rm {go}; exit 1")
    p.click(f"#running-table tr[data-task='{i}'] button", "Log")
    p.until(lambda: p.text("#log").split("\n").count("begun") == 1)
    assert p.get("#log-title").text == f"Log of task {i}"
    go.touch()
    p.get("#log-title", f"Log of task {i}, attempt 2", limit=30)
    p.until(lambda: p.text("#log").split("\n").count("begun") == 1)
    p.get("#log-state", "Following")
    go.touch()
    p.get("#log-title", "attempt 3", limit=30)
    q.run("stop", str(i), "--now")


def test_each_element_has_its_log(page):
    """Of an array that has ended, and of one that has many."""
    p = page()
    q = p.web.node
    i = q.submit("-g", "0", "-n", "few", "--array", "1-3", "--", "sh", "-c", "echo I am $TENURE_ARRAY_INDEX; exit $((TENURE_ARRAY_INDEX == 2 ? 7 : 0))")
    many = q.submit("-g", "0", "-n", "many", "--begin", "2099-01-01", "--array", "1-120", "--", "true")
    q.wait(i, "failed")
    p.click(f"#ended-table tr[data-task='{i}'] button", "Elements")
    p.until(lambda: [e.text for e in p.all("#element-list button")] == [f"{i}.1", f"{i}.2: exit 7", f"{i}.3"])
    assert p.focus().get_attribute("id") == "elements-title" and not p.all("#log-part, #element-pages")
    p.click("#element-list button", f"{i}.2")
    p.get("#log", "I am 2")
    p.get("#task-state", "failed, exit 7")
    assert not p.all("#elements-part")
    p.click("#task-tools button", f"All elements of task {i}")
    p.click("#elements-failed")
    p.until(lambda: [e.text for e in p.all("#element-list button")] == [f"{i}.2: exit 7"])
    p.get("#elements-part", "Only the 1 that failed")
    p.get("#elements-number").send_keys("3" + Keys.ENTER)
    p.get("#log", "I am 3")
    p.get("#task-id", f"#{i}.3")
    p.click("#task .close")
    late = q.submit("-g", "0", "-n", "late", "--timeout", "1s", "--", "sleep", "600")
    p.get(f"#ended-table tr[data-task='{late}'] .result", "failed, over its time limit of 1s")
    p.click(f"#ended-table tr[data-task='{late}'] button", "Log")
    p.get("#task-state", "failed, over its time limit of 1s")
    p.get("#task-facts", "Result\nover its time limit of 1s")
    p.click("#task .close")
    p.click(f"#waiting-table tr[data-task='{many}'] .task-name")
    p.get("#elements-at", "1 to 50 of 120")
    assert [e.text for e in p.all("#element-list button")][-1] == f"{many}.50" and not p.all("#elements-previous, #elements-failed")
    p.click("#elements-next")
    p.click("#elements-next")
    p.get("#elements-at", "101 to 120 of 120")
    assert not p.all("#elements-next")
    p.click("#elements-previous")
    p.click("#element-list button", f"{many}.77")
    p.get("#task-id", f"#{many}.77")
    p.get("#task-state", "waiting")


def test_a_task_that_is_told_to_end(page, tmp_path):
    """It does not look as if it ran on: on the page, in the list, in top, as JSON."""
    p, go = page(), tmp_path / "go"
    q = p.web.node
    i = q.submit("-g", "0", "-n", "slow", "--grace", "1h", "--", "sh", "-c", f"trap '' TERM; echo ready; {until(go)}")
    must_come(lambda: "ready" in (q.log(i) or ""))
    p.click(f"#running-table tr[data-task='{i}'] button", "Log")
    p.get("#task-state", "running")
    assert "ending" not in p.text("#queue") + q.run("list").stdout
    p.click("#task-tools button", "Stop")
    p.click("dialog.ask button", "Stop it")
    p.get("#task-state", "ending since")
    p.click("#task .close")
    p.get(f"#running-table tr[data-task='{i}']", "ending since")
    row = next(t for t in p.web.get("/api/v1/tasks").json["tasks"] if t["id"] == i)
    since = datetime.datetime.fromisoformat(row["ending_since"])
    assert row["state"] == "running" and abs((since - datetime.datetime.now(since.tzinfo)).total_seconds()) < HANG
    text = f"{since:%H:%M:%S}"
    assert f"ending since {text}, on " in q.m.run(q.m.tenure, "list", env={**q.env, "COLUMNS": "200"}).stdout
    assert re.search(rf"(?m)^ending since +\S+ {text}$", q.run("show", str(i)).stdout)
    if pathlib.Path(os.environ.get("TENURE_BUILD", "build"), "tenure-top").exists():
        assert re.search(rf"(?m)^ +{i} ending +0 .*since {text}, on ", q.m.run(q.m.tenure, "top", "--once", env={**q.env, "COLUMNS": "160"}).stdout)
    go.touch()
    q.wait(i, "cancelled")


def test_a_lane_is_paused_or_goes_on(page):
    """Of the two only what can be done."""
    p = page()
    q = p.web.node
    i = q.submit("-g", "0", "-n", "later", "-l", "week", "--begin", "2099-01-01", "--", "true")

    def lane_buttons():
        return [e.text for e in p.all("#task-tools button") if "lane" in e.text]
    p.click(f"#waiting-table tr[data-task='{i}'] .task-name")
    p.get("#task-tools button", "Pause lane week")
    assert lane_buttons() == ["Pause lane week"]
    p.click("#task-tools button", "Pause lane week")
    p.get("#task-tools button", "Resume lane week")
    assert lane_buttons() == ["Resume lane week"] and "paused" in q.run("show", str(i)).stdout
    p.close_toasts()
    p.click("#task-tools button", "Resume lane week")
    p.get("#task-tools button", "Pause lane week")


def test_gpus_are_numbers_or_named(page, tmp_path):
    """What is a number of GPUs and what is the number of one cannot be taken for each other."""
    p = page(gpus=3)
    q, go = p.web.node, tmp_path / "go"
    wanted = {}
    for gpus, says in (("1", r"GPU \d"), ("2", r"GPU \d, \d"), ("0", "none")):
        wanted[q.submit("-g", gpus, "--", "sh", "-c", until(go))] = says
    waits = {q.submit("-g", gpus, "--", "true"): says for gpus, says in (("1", "1 GPU"), ("2", "2 GPUs"), ("all", "all"))}
    for i, says in wanted.items():
        p.until(lambda: re.fullmatch(says, p.get(f"#running-table tr[data-task='{i}'] .c-gpus").text))
    for i, says in waits.items():
        p.until(lambda: p.get(f"#waiting-table tr[data-task='{i}'] .c-gpus").text == says)
    go.touch()


def test_a_priority_is_a_number(page):
    """An emptied field is none, and not 0, which would be ahead of everybody."""
    p = page(None)
    i = p.web.node.submit("-g", "1", "-n", "waits", "--", "true")
    p.click(f"tr[data-task='{i}'] .link")
    field = p.get("#task-priority")
    field.clear()
    p.click("#task-tools button", "Set priority")
    assert p.js("return document.getElementById('task-priority').validity.valueMissing")
    field.send_keys("7")
    p.click("#task-tools button", "Set priority")
    must_come(lambda: p.web.node.task(i)["priority"] == 7)
    p.get("#task-facts", "Priority\n7\n")


def test_what_is_refused_is_not_shown_as_new(page):
    """An answer of 429 or 503 leaves what is shown as it was, and says so."""
    p = page()
    p.get("#n-running", "0")
    p.js("""const real = fetch;
    window.fetch = (url, what) => window.busy && /tasks[?]|status$/.test(url)
      ? Promise.resolve(new Response('{"detail":"there are too many requests"}', { status: window.busy })) : real(url, what);
    window.busy = 429;""")
    i = p.web.node.submit("-g", "0", "--", "sleep", "1000")
    p.get("#banner", "Not all of this is new: there are too many requests")
    p.get(".link-state", "Not up to date")
    p.until(lambda: p.all("#queue.stale"))
    p.js("window.busy = 0")
    p.row(i)
    p.gone("#banner")
    p.get(".link-state", "Live")
    p.until(lambda: not p.all("#queue.stale"))


def test_many_windows(page):
    """A browser has six connections to a server: eight windows, each with a log, all go on."""
    p = page()
    driver, first = p.driver, p.driver.current_window_handle
    i = p.web.node.submit("-g", "0", "--", "sh", "-c", "while sleep 1; do date +tick%s; done")
    windows = [first]
    try:
        for n in range(8):
            if n:
                driver.switch_to.new_window("window")
                windows.append(driver.current_window_handle)
                driver.get(p.url(token=False))
            p.get(".link-state", "Live")
            p.click(f"tr[data-task='{i}'] button", "Log")
            p.get("#log", "tick")
        p.until(lambda: p.web.get("/api/v1/health").json["streams"] <= 4)  # one that is left is known a moment later
        j = p.web.node.submit("-g", "0", "-n", "later", "--", "sleep", "1000")
        for window in windows:
            driver.switch_to.window(window)
            seen = p.text("#log").count("tick")
            p.until(lambda: p.js("return document.querySelector('#log').textContent").count("tick") > seen)
            p.until(lambda: p.js("return document.querySelector(\"#queue tr[data-task='%d']\")" % j))
            p.until(lambda: f"task {j} (later) has started" in p.js("return document.querySelector('#event-list').textContent"))
            p.check()
        # The one that follows for all goes: another does.
        for window in windows[:4]:
            driver.switch_to.window(window)
            driver.get("about:blank")
        k = p.web.node.submit("-g", "0", "-n", "newest", "--", "sleep", "1000")
        for window in windows[4:]:
            driver.switch_to.window(window)
            p.until(lambda: f"task {k} (newest) has started" in p.js("return document.querySelector('#event-list').textContent"))
    finally:
        for window in windows[1:]:
            driver.switch_to.window(window)
            driver.close()
        driver.switch_to.window(first)


def test_a_task_that_has_not_touched_its_gpu_yet_runs_on_it(page):
    """It is held for the task until then."""
    p = page("--memory", "90%", gpus=2)
    p.gpu(0, "held")
    p.gpu(1, "held")
    i = p.web.node.submit("-g", "1", "-n", "loads-data", "--", "sleep", "1000")
    p.get(".gpu[data-kind=task] .link", f"#{i} loads-data")
    p.get(".gpu[data-kind=task] .gpu-why", "held for it until it uses the GPU")
    p.get("#counts .k-task b", "1")
    p.get("#counts .k-held b", "1")


def test_a_yield_of_another_node_has_its_name(page):
    p = page(None, opened=False)
    q = p.web.node
    q.start("--no-hold")
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    events = pathlib.Path(q.now()["agent"]["events"])
    own = json.loads(must_come(lambda: events.exists() and events.read_text().splitlines())[0])["node"]
    with open(events.parent / "beta.jsonl", "w", encoding="ascii") as f:
        for node, gpu in (("beta", 2), (own, 1)):
            f.write(json.dumps({"id": f"{gpu}.1", "time": now, "event": "yield", "instance": "default", "node": node, "gpu": gpu, "mig": None, "uuid": f"GPU-{gpu}",
                                "bytes": 1 << 30, "pid": 7, "user": "root", "hint_to_verdict_ms": 5, "verdict_to_freed_ms": 60, "level": "info", "text": "a yield"}) + "\n")
    p.open()
    p.get("#yield-table .c-gpu", "GPU 2 on beta")
    assert sorted(e.text.removeprefix("GPU\n") for e in p.all("#yield-table td.c-gpu")) == ["GPU 1", "GPU 2 on beta"]


def test_a_browser_whose_clock_is_wrong(page):
    """By a day: times are those of the machine that is shown."""
    p = page("--memory", "90%", gpus=1, opened=False)
    q = p.web.node
    wrong = """const Right = Date;
    Date = class extends Right {
      constructor(...at) { at.length ? super(...at) : super(Right.now() + 864e5); }
      static now() { return Right.now() + 864e5; }
    };"""
    script = p.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": wrong})["identifier"]
    try:
        p.open()
        i = q.submit("-g", "0", "--timeout", "8h", "--", "sleep", "1000")
        p.get(f"#running-table tr[data-task='{i}'] .c-time", " s of 8 h")
        p.gpu(0, "held")
        q.m.start("--take", "50%", "--stay", "1000")
        p.until(lambda: p.js("return document.querySelectorAll('.strip .mark').length") == 1)
        p.get("#last-yield", " s ago")
        p.get("#yield-table td", "newcomer")
    finally:
        p.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", {"identifier": script})


def test_an_agent_that_is_frozen_is_said(page):
    p = page("--memory", "90%", gpus=1)
    p.gpu(0, "held")
    agent = p.web.node.agent
    agent.send_signal(signal.SIGSTOP)
    try:
        p.get("#banner", f"The agent of this node is not there: the agent (PID {agent.pid}) is stopped")
        p.get("#gpus.stale .gpu", "GPU 0")
    finally:
        agent.send_signal(signal.SIGCONT)
    p.gone("#banner")
    p.until(lambda: not p.all("#gpus.stale"))


def test_what_is_refused_is_said_beside_the_form(page):
    p = page()
    p.click("button.do-submit")
    p.click("#submit-go")
    p.get("#submit-refusal", "needs a command")
    assert p.focus().get_attribute("name") == "command"
    p.focus().send_keys("true")
    p.get("[name=timeout]").send_keys("soon")
    p.click("#submit-go")
    p.get("#submit-refusal", "soon")
    assert p.focus().get_attribute("name") == "timeout" and p.focus().get_attribute("aria-invalid") == "true"
    refused = p.web.ask("POST", "/api/v1/tasks", {"command": "true", "timeout": "soon"}, checked=False).json["detail"]
    assert refused in p.text("#submit-refusal")
    p.focus().clear()
    # The field that is meant, not one whose name is another word of the refusal.
    p.get("[name=lane]").send_keys("a b")
    p.click("#submit-go")
    p.get("#submit-refusal", "is not a name")
    assert p.focus().get_attribute("name") == "lane"
    p.focus().clear()
    # Twice at once, and once more after the answer got lost: one task.
    p.js("""const form = document.getElementById("submit-form"), real = fetch;
    let lost = false;
    window.fetch = async (...what) => {
      const answer = await real(...what);
      if (what[1]?.method === "POST" && !lost) { lost = true; window.lost = answer.status; throw new TypeError("lost"); }
      return answer;
    };
    form.requestSubmit();
    form.requestSubmit();""")
    p.until(lambda: p.js("return window.lost") == 201)
    p.get("#submit-refusal", "does not answer")
    p.click("#submit-go")
    p.gone("#submit")
    p.get("#n-ended", "1")
    assert len(p.web.node.rows()) == 1


def test_names_and_logs_are_text(page, tmp_path):
    p = page()
    q = p.web.node
    name, script = "<img-src=x>", tmp_path / "evil"
    script.write_text("#!/bin/sh\nprintf '<script>alert(1)</script>\\n\\033[31mred\\033[0m \\033]0;title\\007plain \\001\\n"
                      "10%%\\r50%%\\r100%%\\n\\342\\200\\256turned\\n'; seq 5000; sleep 1000\n")
    done = p.web.ask("POST", "/api/v1/tasks", {"command": f"sh {script}", "gpus": 0, "name": name, "lane": "l"}, checked=False)
    if done.status != 201:
        done = p.web.ask("POST", "/api/v1/tasks", {"command": f"sh {script} # {name}", "gpus": 0, "name": "evil"}, checked=False)
    i = done.json["id"]
    p.row(i)
    p.click(f"tr[data-task='{i}'] button", "Log")
    p.get("#log", "5000")
    p.get("#log-note", "Only the last 2000 lines")
    assert p.js("return document.getElementById('log').childElementCount") <= 2000
    p.until(lambda: p.js("const log = document.getElementById('log'); return log.scrollHeight - log.scrollTop - log.clientHeight") < 40)
    # Held still where one reads, it goes on below; and back to the end.
    p.click("#log-follow")
    p.get("#log-state", "Held still")
    p.click("#log-end")
    p.get("#log-state", "Following")
    assert "<img" in p.text("#task") and not p.js("return document.querySelectorAll('#task img, #page img, #log script').length")
    p.click("#task .close")
    k = q.submit("-g", "0", "-n", "short", "--", "sh", "-c", script.read_text().partition("\n")[2].partition("; seq")[0])
    p.click(f"tr[data-task='{k}'] button", "Log")
    p.get("#log-state", "ended")
    lines = p.text("#log div").split("\n")
    assert "<script>alert(1)</script>" in lines and "red plain \u2401" in lines and "100%" in lines and "\u27e8202e\u27e9turned" in lines, lines


def test_by_keyboard_alone(page):
    p = page("--memory", "90%", gpus=1)
    p.gpu(0, "held")
    p.type(Keys.TAB)
    assert p.focus().text == "Skip to the GPUs"
    p.type(Keys.ENTER)
    p.type("?")
    p.get("#help", "submit a task")
    p.type(Keys.ESCAPE)
    p.gone("#help")
    p.type("/")
    assert p.focus().get_attribute("id") == "filter-name"
    p.type("s")  # it is a letter there
    assert not p.all("#submit")
    p.focus().clear()
    p.type("g")
    assert p.focus().get_attribute("id") == "gpus-title"
    # The strip of a GPU: where it is in time is said, and moves.
    p.until(lambda: p.js("return document.querySelector('.strip').ariaValueText") or None)
    p.type(Keys.TAB)
    strip = p.focus()
    assert strip.get_attribute("role") == "slider" and "GPU 0" in strip.get_attribute("aria-label")
    p.until(lambda: "held" in p.text(".readout"))
    p.type(Keys.HOME)
    assert strip.get_attribute("aria-valuenow") == "0" and " to " in strip.get_attribute("aria-valuetext")
    # Submit, look, stop.
    p.type("s")
    p.get("#submit")
    p.type("sleep 1000")
    p.type(Keys.TAB + Keys.DELETE + "0" + Keys.ENTER)
    p.gone("#submit")
    p.get("#running-table tr[data-task='1']")
    p.type("q")
    for _ in range(12):
        if (p.focus().get_attribute("aria-label") or "").startswith("#1 "):
            break
        p.type(Keys.TAB)
    p.type(Keys.ENTER)
    p.get("#task", "sleep 1000")
    p.get("#task-tools button", "Stop").send_keys(Keys.ENTER)
    p.get("dialog.ask", "Stop task 1")
    p.type(Keys.TAB + Keys.ENTER)
    p.get("#task-state", "stopped")
    p.type(Keys.ESCAPE)
    p.gone("#task")
    assert (p.focus().get_attribute("aria-label") or "").startswith("#1 ") or p.focus().tag_name == "body"
    # Single keys can be switched off.
    p.type("?")
    p.click("#keys-on")
    p.type(Keys.ESCAPE)
    p.type("s")
    assert not p.all("#submit")
    p.js("localStorage.clear()")


def test_ten_thousand_tasks_do_not_stop_it(page):
    p = page(None, opened=False, gpus=1)
    q = p.web.node
    q.run("submit", "--paused", "-n", "one", "--", "true")
    pending = pathlib.Path(q.spool, "pending")
    first, = pending.iterdir()
    for i in range(2, 10001):
        (pending / first.name.replace("none", f"nname{i}").replace(",1,", f",{i},", 1)).write_bytes(first.read_bytes())
    p.open()
    p.get("#n-waiting", "10000", limit=30)
    assert p.js("return document.querySelectorAll('#waiting-table tbody tr').length") == 50
    # A click is answered at once, and nothing keeps the page's thread for long.
    p.js("new PerformanceObserver((list) => { for (const e of list.getEntries()) (window.slow ??= []).push(e.duration); }).observe({ type: 'longtask' })")
    watch = Stopwatch()
    p.click("#page-next")
    p.row(51)
    assert watch.took() < 3 and "51 to 100 of 10000" in p.text("#page-at")
    assert not p.all("#page-first")  # which is where "Previous" goes
    p.click("#page-next")
    p.row(101)
    p.click("#page-previous")
    p.row(51)
    assert "51 to 100 of 10000" in p.text("#page-at")
    p.click("#page-previous")
    p.row(1)
    assert "1 to 50 of 10000" in p.text("#page-at") and not p.all("#page-previous, #page-first")
    p.click("#page-next")
    p.row(51)
    p.get("#filter-name").send_keys("name9999")
    p.row(9999)
    p.until(lambda: p.text("#n-waiting") == "1")
    assert max(p.js("return window.slow ?? []") or [0]) / watch.stretch() < 1000


def test_its_words(page):
    """Both languages have the same words, each that is asked for is there, and the browser's own is the first one."""
    p = page(opened=False)
    try:
        p.driver.execute_cdp_cmd("Emulation.setUserAgentOverride", {"userAgent": "x", "acceptLanguage": "zh-CN,zh;q=0.9"})
        p.open()
        p.get(".link-state", "实时")
        assert p.js("return document.documentElement.lang") == "zh-CN" and "提交任务" in p.text("button.do-submit")
        p.type("l")
        p.get(".link-state", "Live")
        assert p.js("return document.documentElement.lang") == "en"
        p.open(p.url(token=False))
        p.get(".link-state", "Live")  # it is remembered
    finally:
        p.js("localStorage.clear()")
        p.driver.execute_cdp_cmd("Emulation.setUserAgentOverride", {"userAgent": "x", "acceptLanguage": "en"})
    words = p.js("return import('/strings.js').then(({ languages }) => languages)")
    assert set(words["en"]) == set(words["zh"])
    holes = lambda text: set(re.findall(r"\{\w+\}", text))  # noqa: E731
    assert not [key for key in words["en"] if holes(words["en"][key]) != holes(words["zh"][key])]
    files = {f.name: f.read_text() for f in (ROOT / "web").iterdir() if f.suffix in (".js", ".html")}
    asked = set(re.findall(r'data-t(?:-label|-title)?="(\w+)"', files["index.html"]))
    for text in files.values():
        asked |= set(re.findall(r'\bt\("(\w+)"', text))
    assert asked and not asked - set(words["en"])
    assert not [name for name, text in files.items() if re.search(r"innerHTML|outerHTML|insertAdjacent|document\.write|\beval\b|https?://(?!www\.w3\.org)", text)]


OTHER = ".other-node[data-node=beta]"


def test_gpus_of_other_nodes(page, world):
    """Their strips and their bars, as they have told of them in the queue, with how old that is."""
    world.expire = "60s"
    a, b = two_that_know_each_other(world)
    b.m.start("--take", "50%", "--stay", "1000")
    must_come(lambda: any(d["state"] == "busy" and d["power_w"] for d in (devices(a, "beta") or {"devices": []})["devices"]))
    must_come(lambda: history(a, "beta"))
    write_day(a)
    p = page(node=a)
    p.get("#here-node", "alpha, this node")
    assert len(p.all("#gpu-list .gpu")) == len(a.now()["devices"])
    p.until(lambda: len(p.all(f"{OTHER} .gpu")) == 2)
    p.until(lambda: re.fullmatch(r"as of \d+ s ago", p.text(f"{OTHER} .as-of")))
    p.get(f"{OTHER} .counts .k-foreign b", "1")
    p.get(f"{OTHER} .counts .k-idle b", "1")
    busy = next(d for d in b.now()["devices"] if d["state"] == "busy")
    row = p.get(f"{OTHER} .gpu[data-kind=foreign]", f"{busy['memory_used_bytes'] / 2**30:.1f} / {busy['memory_total_bytes'] / 2**30:.1f} GiB")
    p.until(lambda: f"/ {round(busy['power_limit_w'])} W" in row.text and "°C" in row.text and "%" in row.text)
    # The day: idle for an hour, held, a task's; of the other one nothing but the last two hours.
    strip = p.all(f"{OTHER} .strip")[0]
    p.until(lambda: [r for r in p.js("return [...arguments[0].querySelectorAll('rect')].map(r => r.className.baseVal)", strip)][:3] ==
            ["b-idle", "b-held", "b-task"])
    assert strip.get_attribute("aria-label") == "Last 24 hours of GPU 0 on beta"
    assert re.search(r"task .*held .*idle", strip.get_attribute("aria-description"))
    assert p.js("return [...arguments[0].querySelectorAll('rect')].map(r => r.className.baseVal)", p.all(f"{OTHER} .strip")[1])[0] == "b-foreign"
    # By keyboard.
    p.js("arguments[0].focus()", strip)
    for key in (Keys.HOME, Keys.ARROW_RIGHT):
        p.type(key)
    assert strip.get_attribute("aria-valuetext").endswith(": idle, use 0 %, 71 W")
    for width in (360, 1440):
        p.size(width, 900)
        for scheme in ("dark", "light"):
            p.media(scheme)
            p.until(lambda: p.width() <= 0 and p.low_contrast() == [])
    fold = p.get(f"{OTHER} .fold", "beta")
    p.js("arguments[0].focus()", fold)
    p.type(Keys.ENTER)
    p.until(lambda: fold.get_attribute("aria-expanded") == "false" and not p.all(f"{OTHER} .gpu"))
    p.type(Keys.ENTER)
    p.until(lambda: fold.get_attribute("aria-expanded") == "true" and len(p.all(f"{OTHER} .strip rect")) >= 4)
    # In the other language, and for whoever hears it.
    p.js("const s = document.getElementById('language'); s.value = 'zh'; s.dispatchEvent(new Event('change'))")
    p.get(f"{OTHER} .as-of", "秒前的情况")
    p.until(lambda: p.all(f"{OTHER} .strip")[0].get_attribute("aria-label").startswith("beta 的 GPU 0"))
    assert [name for role, name in p.tree() if role in ("button", "slider") and not name] == []
    p.js("localStorage.clear()")
    # The nodes themselves are all there, with what their GPUs are just now.
    p.until(lambda: len(p.all("#nodes-table .chips .badge")) == len(a.now()["devices"]) + len(b.now()["devices"]))


def opened_pool(p, name, **values):
    """The form of a pool, once the page knows these of it."""
    p.click(f"tr[data-pool={name}] button", "Change")
    if all(p.get(f"#p-dialog [name={field}]").get_attribute("value") == value for field, value in values.items()):
        return True
    p.type(Keys.ESCAPE)
    p.gone("#p-dialog")
    return False


def test_a_yield_is_a_mark_on_the_strip_of_another_node(page, world):
    world.expire = "60s"
    a, b = two_that_know_each_other(world)
    must_come(lambda: history(a, "beta"))
    gpu = b.now()["devices"][1]
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="milliseconds")
    with open(b.now()["agent"]["events"], "a", encoding="ascii") as f:
        f.write(json.dumps({"id": "7.1", "time": now, "event": "yield", "instance": "default", "node": "beta", "gpu": 1, "mig": None, "uuid": gpu["uuid"],
                            "bytes": 1 << 30, "pid": 7, "user": "root", "hint_to_verdict_ms": 5, "verdict_to_freed_ms": 60, "level": "info", "text": "a yield"}) + "\n")
    p = page(node=a)
    p.until(lambda: len(p.all(f"{OTHER} .gpu")) == 2 and
            p.js("return arguments[0].querySelectorAll('.mark').length", p.all(f"{OTHER} .strip")[1]) == 1)


def test_another_node_on_its_bad_days(page, world):
    """It tells nothing that is to be believed, is of an earlier version, or is dead: that is said of it alone."""
    world.expire = "10s"  # or one that stands still for a moment is cleared away, and tells its day again ten minutes later
    a, b = two_that_know_each_other(world)
    must_come(lambda: history(a, "beta"))
    (b.spool / "agents/beta,history").write_text("rubbish")
    p = page(node=a)
    p.get(f"{OTHER} .quiet", "The last 24 hours are not known: what the GPUs of beta were used for cannot be told")
    p.until(lambda: len(p.all(f"{OTHER} .gpu")) == 2)
    p.until(lambda: p.all("#gpu-list .strip rect"))
    p.until(lambda: p.text(".link-state") == "Live" and not p.all("#banner"))
    # Its agent is gone, and a task that it has started is not: what it told stays, and ends there.
    while not b.runs():
        a.submit("-g", "0", "--", "sleep", "1000")
    b.shims()
    write_day(a)
    b.kill()
    p.open()
    p.until(lambda: re.fullmatch(r"gone, as of \d+ s ago", p.text(f"{OTHER} .as-of")))
    p.until(lambda: len(p.all(f"{OTHER} .strip rect")) >= 4)
    end = p.until(lambda: p.all(f"{OTHER} .strip")[0].get_attribute("aria-valuetext"))
    died = datetime.datetime.fromtimestamp((b.spool / "agents/beta").stat().st_mtime)
    # A sample may end some seconds before its last heartbeat, whose age is told in whole seconds.
    minutes = {(died + datetime.timedelta(seconds=s)).strftime("%H:%M") for s in range(-20, 3)}
    assert re.search(r"to (\d\d:\d\d)", end)[1] in minutes, (end, died)
    assert p.all(f"{OTHER} .gpu .gpu-state")[0].text == "idle"


def test_another_node_of_an_earlier_version(page, world):
    world.expire = "60s"
    a, b = two_that_know_each_other(world)
    must_come(lambda: history(a, "beta"))
    make_earlier(b)
    p = page(node=a)
    p.get(f"{OTHER} .quiet", "its agent is of an earlier version (0.0.9), which tells nothing of it")
    p.until(lambda: [e.text for e in p.all(f"{OTHER} .bar-value")] == ["unknown"] * 4)
    assert [e.text for e in p.all(f"{OTHER} .gpu-name")] == ["GPU 0", "GPU 1"]


def steer_pools(p, site):
    """Another bound, given back, wanted again, and one more; what is refused is said in the form."""
    def pool(name):
        return next((one for one in p.web.get("/api/v1/pools").json["pools"] if one["pool"] == name), {})
    p.click("tr[data-pool=big] button", "Change")
    form = {name: p.get(f"#p-dialog [name={name}]").get_attribute("value") for name in ("name", "engine", "gpus", "max")}
    assert form == {"name": "big", "engine": "slurm", "gpus": "2", "max": "1"} and p.get("#p-dialog [name=name]").get_attribute("readonly")
    fill(p, "p", max="0")
    p.click("#p-dialog .primary")
    p.get("#p-dialog .refusal", "--max")
    assert p.focus().get_attribute("name") == "max"
    fill(p, "p", max=None, total_gpus="6")  # what is emptied is sent, and where it cannot be empty that is said
    p.click("#p-dialog .primary")
    p.get("#p-dialog .refusal", "max: a value of its own, 1 to 256 is expected")
    assert p.focus().get_attribute("name") == "max"
    fill(p, "p", max="3", time="2h")
    p.click("#p-dialog .primary")
    p.gone("#p-dialog", limit=HANG)
    must_come(lambda: (pool("big").get("max"), pool("big").get("time_s"), pool("big").get("gpus"), pool("big").get("total_gpus")) == (3, 7200, 2, 6))
    p.close_toasts()
    p.until(lambda: opened_pool(p, "big", total_gpus="6"))
    fill(p, "p", total_gpus=None)
    p.click("#p-dialog .primary")
    p.gone("#p-dialog", limit=HANG)
    must_come(lambda: pool("big").get("total_gpus") == 0)
    p.click("tr[data-pool=big] button", "Give back")
    p.get("dialog.ask", "Give back the nodes of pool big?")
    p.click("dialog.ask .danger", "At once")
    p.get("tr[data-pool=big]", "down")
    must_come(lambda: not site.open_jobs())
    p.gone("tr[data-pool=big] button", "Give back")
    p.click("tr[data-pool=big] button", "Want them again")
    must_come(lambda: pool("big").get("down") is False)
    p.get("tr[data-pool=big]", "of 1 run")
    p.close_toasts()
    p.click("#pool-new")
    fill(p, "p", name="other", gpus="1")
    p.click("#p-dialog details summary")
    fill(p, "p", options="--partition=gpu")
    p.click("#p-dialog .primary")
    p.gone("#p-dialog", limit=HANG)
    p.get("tr[data-pool=other]", "slurm")
    assert "#SBATCH --partition=gpu" in (site.dir / "script").read_text()
    p.close_toasts()
    p.click("#pool-tick")
    p.is_told("Done")
    p.close_toasts()


def test_nodes_with_deadlines_pools_and_allocations(page, queue, build, env, tmp_path):
    site, q = Site(build, env, tmp_path), queue()
    q.env = {**q.env, "PATH": site.env["PATH"]}
    q.start("--no-hold", "--lifetime", "3h")
    p = page(node=q, opened=False)
    w = p.web
    q.run("up", "-g", "2", "--nodes", "1", "--pool", "big", "--engine", "slurm")
    q.run("alloc", "desk", "-g", "1")
    must_come(lambda: w.get("/api/v1/pools").json["pools"])
    p.open()
    p.get("#nodes-table td", "this one")
    p.until(lambda: re.search(r"^in 2 h 5\d min$", p.text("#nodes-table .c-deadline"), re.M))
    assert not p.all("#elsewhere")
    p.get("#pools-table", "big", "slurm")
    steer_pools(p, site)
    p.get("#allocations-table", "desk")
    p.click("#allocations-table button", "Give back")
    p.click("dialog.ask button.danger", "Give back")
    p.gone("#allocations")
    must_come(lambda: not w.get("/api/v1/allocations").json["allocations"])


@pytest.fixture(scope="module")
def busy(build, tmp_path_factory):
    """A simulated machine on which much is going on, to look at."""
    tmp = tmp_path_factory.mktemp("busy")
    home = tmp / "home"
    home.mkdir(mode=0o700)
    (tmp / "sockets").mkdir()
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TENURE_", "XDG_", "SLURM_", "SGE_"))}
    env.update(HOME=str(home), LC_ALL="C.UTF-8", COLUMNS="80", TENURE_RUNTIME_DIR=str(tmp / "sockets"), TENURE_SITE_CONFIG=str(home / "site.yaml"))
    made = Busy(build, env, tmp)
    yield made
    made.close()


def test_a_busy_machine_at_a_glance(busy, browser):
    p = Page(browser, busy.web).open()
    for kind, n in {"task": 3, "held": 2, "foreign": 2, "left": 1}.items():
        p.get(f"#counts .k-{kind} b", str(n))
    # Whose, and why.
    for gpu, text in enumerate(("llama-finetune", "llama-finetune", "eval-mmlu", "for task", "", "python", "jupyter", "left for others")):
        p.gpu(gpu, None, text)
    # Why it waits, and until when.
    rows = {r["name"]: r for r in busy.web.get("/api/v1/tasks?state=pending,paused").json["tasks"]}
    p.row(rows["pretrain-7b"]["id"], rows["pretrain-7b"]["reason"]["text"])
    p.get(f"tr[data-task='{rows['eval-gsm8k']['id']}'] .c-forecast", "within")
    # The day: each kind is drawn, and the yields are on it.
    p.until(lambda: p.js("return document.querySelectorAll('.strip .mark').length") >= 7)
    p.until(lambda: {"b-task", "b-held", "b-foreign", "b-left", "b-idle"} <=
            set(p.js("return [...document.querySelectorAll('.strip rect')].map(r => r.className.baseVal)")))
    p.until(lambda: re.search(r"GPU 0, last 24 hours: task .*held .*1 yield\.", p.all(".strip")[0].get_attribute("aria-description") or ""))

    def first_data():
        """In milliseconds since the page was asked for, on a machine that has time for it."""
        watch = Stopwatch()
        p.open()
        at = p.until(lambda: p.js("return performance.getEntriesByName('first-data')[0]?.startTime"))
        return at / watch.stretch()
    must_come(lambda: first_data() < 300)
    p.check()


@pytest.mark.parametrize("width", [1440, 800, 360])
def test_it_can_be_read(busy, browser, width):
    """Nothing beside the window, text that stands out, and a name for all that can be used."""
    p = Page(browser, busy.web)
    p.size(width, 800)
    p.open()
    p.until(lambda: p.all("#yield-table td") and p.all("#nodes-table td") and p.all("#waiting-table td"))

    def is_fine():
        for scheme in ("dark", "light"):
            p.media(scheme)
            assert p.width() <= 0 and p.low_contrast() == [], scheme
    for language in ("zh", "en"):
        p.js("const s = document.getElementById('language'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))", language)
        is_fine()
    p.js("localStorage.clear()")
    tree = p.tree()
    assert [role for role, name in tree if role in ("button", "link", "textbox", "searchbox", "combobox", "slider", "checkbox", "table", "region", "img") and not name] == []
    assert len([role for role, _ in tree if role in ("main", "banner", "contentinfo", "search")]) == 4
    levels = [int(e.tag_name[1]) for e in p.all("h1, h2, h3")]
    assert levels[0] == 1 and levels.count(1) == 1 and all(b - a <= 1 for a, b in zip(levels, levels[1:]))
    p.click("tr .task-name")
    p.until(lambda: p.text("#task-facts"))
    is_fine()
    p.type(Keys.ESCAPE)
    for button, form in (("button.do-submit", "#submit-form"), ("#hold-change", "#h-dialog"), ("#pool-new", "#p-dialog")):
        p.click(button)
        p.get(form)
        for more in p.all(f"{form} summary"):
            more.click()
        is_fine()
        assert [role for role, name in p.tree() if role in ("button", "textbox", "combobox", "checkbox", "dialog") and not name] == []
        p.type(Keys.ESCAPE)
        p.gone(form)
    assert p.js("return [...document.querySelectorAll('[data-t]')].filter(el => !el.textContent || /^[a-z]_/.test(el.textContent)).map(el => el.outerHTML)") == []
    p.check()


def test_pictures(busy, browser, build):
    """What the README shows, in the build directory; tools/pictures puts them into docs/."""
    out = build / "pictures"
    out.mkdir(exist_ok=True)
    p = Page(browser, busy.web)

    def page(name, width, height, scheme="light", language="en"):
        p.media(scheme)
        p.size(width, height)
        p.open()
        p.js("const s = document.getElementById('language'); s.value = arguments[0]; s.dispatchEvent(new Event('change'))", language)
        p.until(lambda: p.all("#yield-table td") and p.all("#nodes-table td") and p.all("#waiting-table .c-forecast:not([data-empty])") and p.js("return document.querySelectorAll('.strip rect').length") > 20)
        p.until(lambda: not p.all(".figures")[0].text.startswith("121 "))  # power is told every ten seconds
        p.shot(out / f"{name}.png", height)

    page("page-light", 1440, 1590)
    page("page-dark", 1440, 1590, "dark")
    page("page-chinese", 1440, 1180, language="zh")
    page("page-narrow", 360, 1100)
    p.check()
    pytest.importorskip("pyte")
    if (build / "tenure-top").exists():
        import test_top
        t = test_top.Terminal(busy.q, size=(36, 124))
        try:
            t.until("pretrain-7b", "H200", "needs 6 GPUs", "context are gone", "(estimate)")
            (out / "top.html").write_text(terminal_html(t.screen))
        finally:
            t.close()
        p.open((out / "top.html").as_uri())
        p.size(*p.js("const box = document.querySelector('pre').getBoundingClientRect(); return [Math.ceil(box.width), Math.ceil(box.height)]"))
        p.driver.save_screenshot(str(out / "top.png"))
    for picture in out.glob("*.png"):
        head = picture.read_bytes()[:24]
        assert head[1:4] == b"PNG" and int.from_bytes(head[16:20], "big") >= 360 and picture.stat().st_size > 20000, picture
