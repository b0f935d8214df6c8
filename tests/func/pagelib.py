# SPDX-License-Identifier: MIT
"""The page in a real browser (Debian's Chromium), and a simulated machine on which much is going on."""
import html
import os
import pathlib
import shutil
import subprocess
import time

import pytest

from machine import until
from pagepast import write_past
from patience import must_come
from queuelib import Queue
from weblib import Web

webdriver = pytest.importorskip("selenium.webdriver", reason="python3-selenium is not here")
from selenium.common.exceptions import (ElementClickInterceptedException, ElementNotInteractableException, StaleElementReferenceException,  # noqa: E402
                                        WebDriverException)
from selenium.webdriver.chrome.service import Service  # noqa: E402
from selenium.webdriver.common.by import By  # noqa: E402
from selenium.webdriver.common.keys import Keys  # noqa: E402,F401

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

# What a policy forbade, and errors that nobody caught: of each page, before its own scripts.
LISTEN = """window.violations = [];
document.addEventListener("securitypolicyviolation", e => violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sourceFile}:${e.lineNumber}`));
addEventListener("error", e => violations.push(`error ${e.message} ${e.filename}:${e.lineno}`), true);
addEventListener("unhandledrejection", e => violations.push(`rejected ${e.reason?.stack ?? e.reason}`));
navigator.__proto__.sendBeacon = () => false;"""


def open_browser(tmp, *args, lang="en"):
    """A Chromium of its own; the caller quits it."""
    if not CHROMIUM or not DRIVER:
        pytest.skip("chromium and chromium-driver are not here")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    # A sandbox is made of user namespaces, which root and containers may not have.
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    for arg in ["--headless=new", "--disable-dev-shm-usage", "--disable-gpu", "--disable-extensions", "--no-first-run", "--disable-background-networking",
                "--disable-component-update", "--hide-scrollbars", "--force-color-profile=srgb", "--host-resolver-rules=MAP evil.example 127.0.0.1", f"--lang={lang}", f"--accept-lang={lang}", f"--user-data-dir={tmp}/{time.monotonic_ns()}", *sandbox, *args]:
        options.add_argument(arg)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    home = pathlib.Path(tmp, "home")
    home.mkdir(exist_ok=True)
    driver = webdriver.Chrome(options=options, service=Service(DRIVER, env={**os.environ, "HOME": str(home)}))
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": LISTEN})
    return driver


# Elements that may have these texts; whether they have, and whether they are seen, is the browser's driver to say. Asking it for
# each element each time took the browser a third of all time that the tests take.
CANDIDATES = """const bare = (text) => (text ?? "").replace(/\\s+/g, "").toLowerCase(), texts = arguments[1].map(bare);
return [...document.querySelectorAll(arguments[0])].filter((el) => texts.every((text) => (bare(el.innerText) || bare(el.value)).includes(text)));"""


# Whatever is said in a corner of the page, which takes it away again after some seconds.
TOLD = """
window.told = [];
new MutationObserver((list) => {
  for (const change of list)
    for (const node of change.addedNodes)
      if (node.classList?.contains('toast')) window.told.push(node.querySelector('span').textContent);
}).observe(document, {subtree: true, childList: true});
"""


class Page:
    """What a person does with the page, and sees."""

    def __init__(self, driver, web, read=False):
        self.driver, self.web, self.read = driver, web, read
        driver.get("about:blank")
        driver.execute_cdp_cmd("Network.clearBrowserCookies", {})  # those of other ports are this one's, too
        self.listen()
        self.size(1440, 1000)
        self.media()

    def listen(self):
        if not hasattr(self.driver, "listens"):  # one driver has many pages
            self.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": TOLD})
        self.driver.listens = True

    # --- how it is looked at ---

    def size(self, width, height):
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                    {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False})

    def media(self, scheme="light"):
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]})

    def url(self, token=True):
        base = f"http://{self.web.address}/"
        return f"{base}#token={self.web.token(self.read)}" if token else base

    def open(self, url=None):
        self.driver.get("about:blank")  # or a fragment alone would load nothing
        self.driver.get(url or self.url())
        return self

    # --- what is seen ---

    def js(self, script, *args):
        return self.driver.execute_script(script, *args)

    def all(self, css, *texts):
        return [e for e in self.js(CANDIDATES, css, texts) if e.is_displayed()]

    def until(self, what, limit=20.0):
        """The first true value of what(), whose elements may be replaced meanwhile."""
        def look():
            try:
                return what()
            except (StaleElementReferenceException, IndexError):
                return None
        try:
            return must_come(look, limit, 0.1)
        except AssertionError as e:
            raise AssertionError(f"{e}\n{self.text()}\n{self.wrongs()}") from e

    def find(self, css, *texts):
        """The first of them that is seen now and has these texts."""
        return next((e for e in self.js(CANDIDATES, css, texts) if e.is_displayed() and
                     all(text in (e.text or e.get_attribute("value") or "") for text in texts if text)), None)

    def get(self, css, text="", *more, limit=20.0):
        """The first of them that is seen and has this text, and more of it. What is to be in an element is asked for here, and
        not of what this returns: the page may replace it at any time."""
        return self.until(lambda: self.find(css, text, *more), limit)

    def gone(self, css, text="", limit=20.0):
        self.until(lambda: not [e for e in self.all(css, text) if text in e.text], limit)

    def text(self, css="body"):
        """What is seen of them at one moment, on which nothing of it was replaced."""
        while True:
            try:
                return "\n".join(e.text for e in self.driver.find_elements(By.CSS_SELECTOR, css))
            except StaleElementReferenceException:
                continue

    def row(self, task, *texts):
        return self.get(f"#queue tr[data-task='{task}']", *texts)

    def gpu(self, n, kind=None, *texts):
        """The part of a GPU, once it is of that kind and has these texts."""
        return self.get(f".gpu{f'[data-kind={kind}]' if kind else ''}", f"GPU {n}\n", *texts)

    # --- what is done ---

    def click(self, css, text="", limit=20.0):
        """As soon as it is there and nothing is above it. What moves away below the mouse is clicked again."""
        def clicked():
            element = self.find(css, text)
            if not element:
                return None
            self.js("""
                const [element] = arguments;
                element.scrollIntoView({block: 'center'});
                window.missed = true;
                element.addEventListener('click', () => { window.missed = false; }, {capture: true, once: true})""", element)
            try:
                element.click()
            except (ElementClickInterceptedException, ElementNotInteractableException):
                return None
            return None if self.js("return window.missed") else element
        return self.until(clicked, limit)

    def is_told(self, text, limit=20.0):
        """What is said in the corner with that text in it, whether or not it is seen there still."""
        return self.until(lambda: next((t for t in self.js("return window.told") if text in t), None), limit)

    def close_toasts(self):
        """What was said in the corner, which covers what is below it for a while; it is told no more."""
        self.js("for (const el of document.querySelectorAll('.toast button.plain')) el.click(); window.told.length = 0")

    def type(self, keys):
        """Without a mouse, to whatever has the focus."""
        webdriver.ActionChains(self.driver).send_keys(keys).perform()

    def focus(self):
        return self.driver.switch_to.active_element

    def tree(self):
        """(role, name) of all that assistive technology is told of."""
        self.driver.execute_cdp_cmd("Accessibility.enable", {})
        nodes = self.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
        self.driver.execute_cdp_cmd("Accessibility.disable", {})
        return [(n["role"]["value"], (n.get("name") or {}).get("value", "")) for n in nodes if not n["ignored"]]

    def width(self):
        """How much wider what is drawn is than the window."""
        return self.js("return document.documentElement.scrollWidth - innerWidth")

    # --- what is wrong ---

    def low_contrast(self):
        return self.js(CONTRAST)

    def wrongs(self):
        """What the policy forbade, and what the page's own scripts got wrong."""
        try:
            return self.js("return window.violations ?? []")
        except WebDriverException as e:
            return [str(e)]

    def check(self):
        wrongs = self.wrongs()
        assert wrongs == []
        bad = [e for e in self.driver.get_log("browser") if "Content Security Policy" in e["message"] or "Uncaught" in e["message"]]
        assert not bad, bad

    def shot(self, path, height=None):
        """As high as it is, or as said."""
        width = self.js("return innerWidth")
        self.size(width, height or self.js("return document.documentElement.scrollHeight"))
        self.driver.save_screenshot(str(path))


# What trains there: memory and kernels on all GPUs that it was given, PERCENT of the time.
WORK = """
import ctypes, os, sys, time
sys.path.insert(0, {here!r})
os.environ["TEST_TENURE"] = {tenure!r}
from simlib import Cuda
share = float(sys.argv[1]) / 100
print("loading", flush=True)
cards = []
n = ctypes.c_int()
first = Cuda(int(sys.argv[2]) if len(sys.argv) > 2 else 0)
first.check("cuDeviceGetCount", ctypes.byref(n))
for i in range(1 if len(sys.argv) > 2 else n.value):
    cu = first if i == 0 else Cuda(i)
    while cu.alloc(int(96e9))[0] != 0:  # where no processor is free the hold may be late to go
        time.sleep(0.1)
    cards.append((cu, cu.function(b"tenure_spin")))
step = 0
while True:
    for cu, spin in cards:
        cu.check("cuCtxSetCurrent", cu.ctx)
        cu.launch(spin, 0, int(share * 100e6), grid=int(132 * share), block=1024)
    if step % 20 == 0:
        print(f"step {{step:5d}}  loss {{2.1 * 0.999 ** step + 1.4:.4f}}  {{17.2 * share:.1f}} k tokens/s", flush=True)
    step += 1
    time.sleep(0.1)
"""


# The first sixteen colours of a terminal, by pyte's names; others are six digits.
TERMINAL = {"black": "#171b21", "red": "#ff7b7b", "green": "#4cc38a", "brown": "#e3b341", "blue": "#7aa2f7", "magenta": "#c79bf0", "cyan": "#5fc9d8", "white": "#d5dae1",
            "brightblack": "#6e7a88", "brightred": "#ff9d9d", "brightgreen": "#7fe0b3", "brightbrown": "#f5d48a", "brightblue": "#a8c3ff", "brightmagenta": "#dcc1ff",
            "brightcyan": "#9ae4ee", "brightwhite": "#ffffff"}


def terminal_html(screen):
    """What a pyte.Screen shows, as a document that a browser can take a picture of."""
    def color(name, default):
        return default if name == "default" else TERMINAL.get(name, f"#{name}")
    lines = []
    for y in range(screen.lines):
        line, runs = screen.buffer[y], []
        for x in range(screen.columns):
            c = line[x]
            ink, back = color(c.fg, "#e6eaef"), color(c.bg, "#0e1116")
            style = (back, ink, c.bold) if c.reverse else (ink, back, c.bold)
            if runs and runs[-1][0] == style:
                runs[-1][1].append(c.data)
            else:
                runs.append((style, [c.data]))
        # What another font has is as wide as the rest.
        cells = [(style, "".join(html.escape(c) if c.isascii() else f"<i>{c}</i>" for c in text)) for style, text in runs]
        lines.append("".join(f'<span style="color:{ink};background:{back};{"font-weight:bold" if bold else ""}">{text}</span>'
                             for (ink, back, bold), text in cells))
    return ('<!DOCTYPE html><meta charset="utf-8"><style>body{margin:0;background:#0e1116}pre{font:14px/17px "DejaVu Sans Mono",monospace;margin:0;padding:14px 16px;'
            'width:max-content}i{display:inline-block;width:1ch;overflow:hidden;height:17px;vertical-align:top;font-style:normal}</style><pre>' + "\n".join(lines) + "</pre>")


# Text that is seen and stands out less than 4.5:1 from what is behind it.
CONTRAST = """
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgba = (color) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
  return [r, g, b, a / 255];
};
const over = ([r, g, b, a], [R, G, B]) => [r * a + R * (1 - a), g * a + G * (1 - a), b * a + B * (1 - a), 1];
const light = (c) => {
  const [r, g, b] = c.map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const bad = [];
for (const el of document.querySelectorAll("body *")) {
  const text = [...el.childNodes].filter((n) => n.nodeType === 3 && n.data.trim()).map((n) => n.data.trim()).join(" ") || (el.value && el.matches("input, textarea, select") ? el.value : "");
  if (!text || !el.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true }) || el.closest(".only-read, option, .skip")) continue;
  const layers = [];
  let opacity = 1;
  for (let at = el; at; at = at.parentElement) {
    layers.push(rgba(getComputedStyle(at).backgroundColor));
    opacity *= getComputedStyle(at).opacity;
  }
  const back = layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  const ink = rgba(getComputedStyle(el).color);
  ink[3] *= opacity;
  const [a, b] = [light(over(ink, back)), light(back)].sort((x, y) => y - x), ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5 && getComputedStyle(el).color !== "rgba(0, 0, 0, 0)") bad.push(`${ratio.toFixed(2)} ${el.className || el.tagName} "${text.slice(0, 30)}"`);
}
return bad;
"""


class Busy:
    """Eight GPUs: tasks, holds, somebody else on two of them, one left for others, and a queue with its reasons."""

    def __init__(self, build, env, tmp):
        self.q = q = Queue(build, env, tmp, gpus=8)
        self.web, self.go = None, tmp / "go"
        try:
            write_past(q)
            self.fill(tmp)
        except BaseException:
            self.close()
            raise

    def program(self, tmp, name):
        """A command line that computes; name is what process lists show."""
        here = tmp / "work"
        if not here.exists():
            here.mkdir()
            for module in ("simlib.py", "patience.py"):
                shutil.copy(pathlib.Path(__file__).parent / module, here)
            (here / "train.py").write_text(WORK.format(here=str(here), tenure=self.q.m.tenure))
        if not (tmp / name).exists():
            (tmp / name).symlink_to("/usr/bin/python3")
        return [str(tmp / name), str(here / "train.py")]

    def states(self):
        return [d["state"] for d in (self.q.status() or {"devices": []})["devices"]]

    def come(self, state, n):
        try:
            must_come(lambda: self.states().count(state) == n, 30)
        except AssertionError as e:
            raise AssertionError(f"{e}: {n} {state} of {self.states()}\n{self.q.out.read_text()}") from e

    def fill(self, tmp):
        q, here = self.q, ("--cwd", str(tmp))
        someone = q.m.somebody_else() or []  # before there are sockets, which would not be private afterwards
        python, jupyter = self.program(tmp, "python"), self.program(tmp, "jupyter")
        q.start("--memory", "90%", "--load", "light", "--leave", "1", "--rehold-after", "20m")
        self.come("held", 7)
        for name, command in (("tokenize", "true"), ("smoke-test", "exit 1"), ("export-onnx", "true")):
            q.wait(q.submit("-g", "0", "-n", name, *here, "--", "sh", "-c", command), "failed" if "exit" in command else "done")
        q.submit("-g", "2", "-n", "llama-finetune", "--timeout", "8h", *here, "--", *python, "88")
        q.submit("-g", "1", "-n", "eval-mmlu", "-l", "evals", "--timeout", "45m", *here, "--", *python, "74")
        q.submit("-g", "0", "-n", "sync-checkpoints", *here, "--", "sh", "-c", until(self.go))
        self.come("lent", 3)
        for more in (("-g", "1", "-n", "eval-gsm8k", "-l", "evals", "--timeout", "45m"), ("-g", "1", "-n", "eval-humaneval", "-l", "evals", "--timeout", "45m"),
                     ("-g", "6", "-n", "pretrain-7b", "--timeout", "12h"), ("-g", "4", "-n", "ablation-lr", "--timeout", "2h", "--sweep", "lr=1e-4,3e-4,1e-3"),
                     ("-g", "1", "-n", "report", "--after", "4"), ("-g", "1", "-n", "nightly-eval", "--begin", "+9h"), ("-g", "1", "-n", "large-batch", "--paused", "-p", "600")):
            q.submit(*more, *here, "--", "true")
        for gpu, program, share in (("5", python, "93"), ("6", jupyter, "35")):
            q.m.others.append(subprocess.Popen([*someone, *program, share, gpu], env=q.m.env, stdout=subprocess.DEVNULL))
        self.come("busy", 2)
        self.web = Web(q)
        must_come(lambda: self.web.get("/api/v1/health").json["queue"])

    def close(self):
        if self.web:
            self.web.end()
        self.q.close()
