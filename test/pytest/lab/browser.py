"""Headless Chromium, spoken to through a pipe: what a page looks like, and what it complains of.

with Browser(tmp_path) as browser:
    page = browser.open(path, width=400)
    page.evaluate("document.title")
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--remote-debugging-pipe",
)
# Chromium reads commands from descriptor 3 and answers on 4.
_SHELL = 'exec "$@" 3<&{0} 4>&{1} {0}<&- {1}>&-'
_HEIGHT = 900


class Browser:
    """A browser of its own profile; gone at the end of the block."""

    def __init__(self, folder: Path) -> None:
        assert PROGRAM is not None
        commands, self._commands = os.pipe()
        self._answers, answers = os.pipe()
        arguments = (PROGRAM, *_FLAGS, f"--user-data-dir={folder / 'user'}")
        # Above 4, so that the shell does not overwrite one of them by the other.
        pipes = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (commands, answers)]
        self._process = subprocess.Popen(
            ["bash", "-c", _SHELL.format(*pipes), "browser", *arguments],
            pass_fds=pipes,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (commands, answers, *pipes):
            os.close(end)
        self._number = 0
        self._read = b""
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> "Browser":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.call("Browser.close")
        finally:
            os.close(self._commands)
            os.close(self._answers)
            self._process.wait()

    def open(self, path: Path, width: int, *, dark: bool = False, media: str = "screen") -> "Page":
        """The page in a window of this width in pixels, loaded."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        attached = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})
        page = Page(self, attached["sessionId"])
        for domain in ("Page", "Runtime", "Log"):
            page.call(f"{domain}.enable")
        size = {"width": width, "height": _HEIGHT, "deviceScaleFactor": 1, "mobile": False}
        page.call("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        page.call("Emulation.setEmulatedMedia", {"media": media, "features": [scheme]})
        page.call("Page.navigate", {"url": path.as_uri()})
        self.wait("Page.loadEventFired", page.session)
        return page

    def wait(self, method: str, session: str | None = None, **parameters: Any) -> None:
        """Until the browser has told of this event, with these values among its parameters."""

        def is_it(event: dict[str, Any]) -> bool:
            is_named = event["method"] == method and event.get("sessionId") == session
            return is_named and parameters.items() <= event["params"].items()

        while not any(map(is_it, self.events)):
            self._receive()

    def call(
        self, method: str, parameters: Mapping[str, Any] | None = None, session: str | None = None
    ) -> dict[str, Any]:
        """The answer to a command; RuntimeError when the browser refuses it."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": dict(parameters or {})}
        if session is not None:
            message["sessionId"] = session
        os.write(self._commands, json.dumps(message).encode() + b"\0")
        while (answer := self._receive()).get("id") != self._number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        result: dict[str, Any] = answer["result"]
        return result

    def _receive(self) -> dict[str, Any]:
        """The next message, kept if it is an event; EOFError when the browser has gone."""
        while b"\0" not in self._read:
            piece = os.read(self._answers, 1 << 16)
            if not piece:
                raise EOFError("the browser has gone")
            self._read += piece
        text, _, self._read = self._read.partition(b"\0")
        message: dict[str, Any] = json.loads(text)
        if "method" in message:
            self.events.append(message)
        return message


class Page:
    """A page that was opened."""

    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self.session = session

    def call(self, method: str, parameters: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The answer to a command about this page."""
        return self._browser.call(method, parameters, self.session)

    def events(self) -> list[dict[str, Any]]:
        """What the browser told of this page so far."""
        return [one for one in self._browser.events if one.get("sessionId") == self.session]

    def complaints(self) -> list[dict[str, Any]]:
        """Exceptions, and what was written to the console."""
        kinds = ("Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded")
        return [one for one in self.events() if one["method"] in kinds]

    def evaluate(self, expression: str) -> Any:
        """The value of an expression of the page; RuntimeError when it throws."""
        arguments = {"expression": expression, "returnByValue": True, "awaitPromise": True}
        answer = self.call("Runtime.evaluate", arguments)
        if "exceptionDetails" in answer:
            raise RuntimeError(str(answer["exceptionDetails"]))
        return answer["result"].get("value")

    def screenshot(self) -> bytes:
        """The whole page as PNG."""
        arguments = {"format": "png", "captureBeyondViewport": True}
        return base64.b64decode(self.call("Page.captureScreenshot", arguments)["data"])
