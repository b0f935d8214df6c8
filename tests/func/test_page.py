# SPDX-License-Identifier: MIT
"""The page of `tenure serve`, in Debian's Chromium, by what a person sees and does there."""
import os
import pathlib

import pytest

from machine import until
from patience import must_come
from pagelib import Page, open_browser
from weblib import Web

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
            node.start(*(agent or ("--no-hold",)))
        web = Web(node)
        must_come(lambda: (h := web.get("/api/v1/health").json)["queue"] and h["agent"])
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
    row = p.row(1)
    assert "first" in row.text and "week" in row.text
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
