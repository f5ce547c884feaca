# SPDX-License-Identifier: Apache-2.0
"""A headless Chromium, driven by chromedriver over plain HTTP (W3C WebDriver)."""
import base64
import json
import re
import shutil
import subprocess
import tempfile
import urllib.request

import services as crisol

FLAGS = ("--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
         "--disable-component-update --disable-sync --window-size=1360,1000").split()
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the name that the standard gives references


def is_there():
    return bool(shutil.which("chromium") and shutil.which("chromedriver"))


class Browser:
    """One window."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="crisol-e2e-browser-")
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True,
                                       env={"PATH": "/usr/bin:/bin", "HOME": self.folder})
        self.session = None
        try:
            port = next(found.group(1) for found in (re.search(r"on port (\d+)\.", line)
                                                     for line in self.driver.stdout) if found)
            self.base = f"http://127.0.0.1:{port}"
            self.session = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": {"args": [*FLAGS, f"--user-data-dir={self.folder}/profile"]},
                "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]
        except BaseException:
            self.close()
            raise

    def call(self, method, path, body=None):
        request = urllib.request.Request(self.base + path, method=method, headers={"Content-Type": "application/json"},
                                         data=json.dumps(body).encode() if body is not None else None)
        with urllib.request.urlopen(request, timeout=60 * crisol.SLOWNESS) as answer:
            return json.load(answer)["value"]

    def ask(self, method, path, body=None):
        return self.call(method, f"/session/{self.session}{path}", body)

    def open(self, url):
        self.ask("POST", "/url", {"url": url})

    def run(self, script, *arguments):
        """The value of a script."""
        return self.ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def find(self, selector):
        return self.ask("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]

    def click(self, selector):
        self.ask("POST", f"/element/{self.find(selector)}/click", {})

    def text(self, selector):
        return self.run("const found = document.querySelector(arguments[0]); return found ? found.textContent : ''",
                        selector)

    def type(self, selector, text):
        element = self.find(selector)
        self.ask("POST", f"/element/{element}/clear", {})
        self.ask("POST", f"/element/{element}/value", {"text": text})

    def complaints(self):
        """What the console has: errors of scripts and breaches of the page's policy."""
        return [entry["message"] for entry in self.ask("POST", "/se/log", {"type": "browser"})]

    def save_picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.ask("GET", "/screenshot")))

    def close(self):
        try:
            if self.session:
                self.ask("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(90)
            self.driver.stdout.close()
            shutil.rmtree(self.folder, ignore_errors=True)
