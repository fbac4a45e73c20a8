"""A headless Chromium, driven over its DevTools pipe: what a page shows, does, asks the network for, and complains about.

The pipe needs no package and no port: requests and answers are JSON texts with a zero byte behind each, on the file
descriptors 3 and 4 of the browser (Chrome DevTools Protocol, ``--remote-debugging-pipe``).
"""

from __future__ import annotations

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

NAMES = ("chromium", "chromium-browser", "google-chrome")
REQUIRED = "CONVERTER_LITE_BROWSER_REQUIRED"
"""Variable that CI sets where the browser could be installed: a skip would hide that nothing was tested."""

PATIENCE = 60.0
"""Seconds until an answer is given up: for machines with much other work."""

FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
    "--hide-scrollbars",
    "--disable-background-networking",
)

ON_3_AND_4 = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.dup2(int(sys.argv[2]), 4)
os.execvp(sys.argv[3], sys.argv[3:])
"""
"""Becomes the program that it is given, with two open files under the numbers that the browser expects."""


def chromium() -> str:
    """Path of a browser; the calling test is skipped where there is none, and fails where CI says there must be one."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        reason = f"none of {', '.join(NAMES)} is installed"
        (pytest.fail if os.environ.get(REQUIRED) else pytest.skip)(reason)
    assert found is not None
    return found


class Browser:
    """One page in a browser of its own.

    Args:
        profile: Folder for its files.
        width, height: Size of the window.
    """

    def __init__(self, profile: Path, *, width: int = 1280, height: int = 900) -> None:
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        # out of the way of the numbers 3 and 4 that the browser wants
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (to_browser, from_browser)]
        line = [chromium(), *FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"]
        self._process = subprocess.Popen(
            [sys.executable, "-c", ON_3_AND_4, *map(str, ends), *line],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (to_browser, from_browser, *ends):
            os.close(end)
        self._pending = b""
        self._number = 0
        self._session: str | None = None
        self.console: list[str] = []
        self.requests: list[str] = []
        target = self._ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self._ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Performance"):
            self._ask(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._write)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)

    def open(self, page: Path) -> float:
        """Load a file and wait until it says that it is drawn; seconds from navigation to that."""
        self._ask("Page.navigate", url=page.resolve().as_uri())
        self.wait("document.documentElement?.dataset.ready === 'true'")
        return float(self.run("performance.now()")) / 1000

    def thread_seconds(self) -> float:
        """How long the main thread was busy with tasks since the page was opened."""
        (found,) = (m["value"] for m in self._ask("Performance.getMetrics")["metrics"] if m["name"] == "TaskDuration")
        return float(found)

    def look(self, *, width: int, height: int = 900, dark: bool = False) -> None:
        """A window of this size, in light or dark colours."""
        self._ask("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._ask("Emulation.setEmulatedMedia", features=[scheme])

    def run(self, script: str) -> Any:
        """Value of an expression in the page; a promise is waited for."""
        answer = self._ask("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait(self, condition: str) -> None:
        """Until an expression is true."""
        end = time.monotonic() + PATIENCE
        while not self.run(f"Boolean({condition})"):
            assert time.monotonic() < end, (f"never true: {condition}", self.console)
            time.sleep(0.02)

    def click(self, selector: str) -> None:
        """A real click into the middle of an element, scrolled into view."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        self.press(*box)

    def press(self, x: float, y: float) -> None:
        """The left button at a place of the window."""
        at = {"x": x, "y": y, "button": "left", "clickCount": 1}
        self.hover(x, y)
        self._ask("Input.dispatchMouseEvent", type="mousePressed", **at)
        self._ask("Input.dispatchMouseEvent", type="mouseReleased", **at)

    def hover(self, x: float, y: float) -> None:
        """The mouse at a place of the window."""
        self._ask("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def type(self, selector: str, text: str) -> None:
        """Text into a field."""
        self.run(f"document.querySelector({json.dumps(selector)}).focus()")
        self._ask("Input.insertText", text=text)

    def key(self, name: str) -> None:
        """A key, pressed and released."""
        code, text = {"Enter": (13, "\r"), "Tab": (9, "")}[name]
        at = {"key": name, "code": name, "windowsVirtualKeyCode": code}
        self._ask("Input.dispatchKeyEvent", type="keyDown", text=text, **at)
        self._ask("Input.dispatchKeyEvent", type="keyUp", **at)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """The page as a PNG file."""
        answer = self._ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole, **self._clip(whole))
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(base64.b64decode(answer["data"]))

    def print(self, path: Path) -> None:
        """The page as it would be printed, as a PDF file."""
        path.write_bytes(base64.b64decode(self._ask("Page.printToPDF", printBackground=False)["data"]))

    def _clip(self, whole: bool) -> dict[str, Any]:
        if not whole:
            return {}
        size = self._ask("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}

    def _ask(self, method: str, **params: Any) -> dict[str, Any]:
        self._number += 1
        request = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            request["sessionId"] = self._session
        os.write(self._write, json.dumps(request).encode() + b"\0")
        while True:
            message = self._next()
            if message.get("id") == self._number:
                assert "error" not in message, (method, message["error"])
                result: dict[str, Any] = message["result"]
                return result
            self._hear(message)

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._pending:
            ready, _, _ = select.select([self._read], [], [], PATIENCE)
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser ended"
            self._pending += part
        text, _, self._pending = self._pending.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        return message

    def _hear(self, message: dict[str, Any]) -> None:
        method, params = message.get("method"), message.get("params", {})
        if method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.console.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.console.append(details.get("exception", {}).get("description", details["text"]))
        elif method == "Log.entryAdded":
            self.console.append(params["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
