"""Headless Chromium over the DevTools protocol: console errors, requests and evaluated values."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
    "--disable-dev-shm-usage", "--no-first-run", "--remote-debugging-port=0",
)  # fmt: skip


@dataclass
class PageResult:
    """Result of loading a page."""

    errors: list[str] = field(default_factory=list)
    """Console errors, console warnings and exceptions."""
    requests: list[str] = field(default_factory=list)
    """Requested URLs, except the page itself."""
    values: list[object] = field(default_factory=list)
    """Values of the expressions, in order."""


def open_page(
    page: Path,
    expressions=(),
    *,
    width=1280,
    height=900,
    dark=False,
    screenshot: Path | None = None,
) -> PageResult:
    """Open ``page``, evaluate JavaScript expressions and optionally save a screenshot."""
    profile = page.parent / f".profile-{page.stem}"
    process = subprocess.Popen(
        [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        port = _port(profile / "DevToolsActivePort")
        return asyncio.run(_open_page(port, page, expressions, width, height, dark, screenshot))
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(profile, ignore_errors=True)


def _port(file: Path) -> int:
    for _ in range(300):
        with contextlib.suppress(OSError, IndexError, ValueError):
            return int(file.read_text().splitlines()[0])
        time.sleep(0.1)
    raise TimeoutError("the browser did not start")


async def _open_page(port, page, expressions, width, height, dark, screenshot) -> PageResult:
    result = PageResult()
    async with aiohttp.ClientSession() as session:
        async with session.put(f"http://127.0.0.1:{port}/json/new?about:blank") as response:
            address = (await response.json())["webSocketDebuggerUrl"]
        async with session.ws_connect(address, max_msg_size=1 << 27) as socket:
            tab = _Tab(socket, result, page.resolve().as_uri())
            for domain in ("Page", "Runtime", "Log", "Network"):
                await tab.call(f"{domain}.enable")
            await tab.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                           deviceScaleFactor=1, mobile=width < 700)  # fmt: skip
            scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
            await tab.call("Emulation.setEmulatedMedia", features=[scheme])
            await tab.call("Page.navigate", url=tab.address)
            while "Page.loadEventFired" not in tab.events:
                await tab.read()
            for expression in expressions:
                reply = await tab.call("Runtime.evaluate", expression=expression,
                                       returnByValue=True, awaitPromise=True)  # fmt: skip
                result.values.append(reply["result"].get("value"))
                if "exceptionDetails" in reply:
                    result.errors.append(str(reply["exceptionDetails"]))
            if screenshot is not None:
                shot = await tab.call("Page.captureScreenshot", captureBeyondViewport=True)
                screenshot.write_bytes(base64.b64decode(shot["data"]))
    return result


class _Tab:
    def __init__(self, socket, result: PageResult, address: str) -> None:
        self.socket, self.result, self.address = socket, result, address
        self.events: set[str] = set()
        self.number = 0

    async def call(self, method: str, **params):
        self.number += 1
        await self.socket.send_json({"id": self.number, "method": method, "params": params})
        while True:
            message = await self.read()
            if message.get("id") == self.number:
                assert "error" not in message, message
                return message["result"]

    async def read(self):
        message = await self.socket.receive_json(timeout=60)
        method, params = message.get("method", ""), message.get("params", {})
        self.events.add(method)
        if method == "Runtime.exceptionThrown":
            self.result.errors.append(params["exceptionDetails"]["text"])
        elif method == "Log.entryAdded":
            self.result.errors.append(params["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
            self.result.errors.append(str(params["args"]))
        elif method == "Network.requestWillBeSent":
            url = params["request"]["url"]
            if url != self.address and not url.startswith("data:"):
                self.result.requests.append(url)
        return message
