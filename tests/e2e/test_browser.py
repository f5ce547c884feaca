# SPDX-License-Identifier: Apache-2.0
"""/docs in a real browser: it draws itself, sends requests and shows what comes back."""
import os

import pytest

import browser as chromium
import services as crisol

PICTURES = os.path.join(crisol.BUILD, "pictures")


@pytest.fixture(scope="module", name="browser")
def a_browser():
    if not chromium.is_there():
        pytest.skip("no chromium with chromedriver here: scripts/deps.sh test installs them")
    window = chromium.Browser()
    yield window
    window.close()


def open_docs(browser, services, operation):
    browser.open(f"http://{services.http}/docs")  # another page first: only the fragment would change
    browser.open(f"http://{services.http}/docs#{operation}")
    crisol.wait_for(lambda: browser.run("return document.body.dataset.state") == "ready", 20, "the page is drawn")


def save_picture(browser, name):
    """Kept as a build output."""
    os.makedirs(PICTURES, exist_ok=True)
    path = os.path.join(PICTURES, name)
    browser.save_picture(path)
    assert os.path.getsize(path) > 20000


def test_a_request_is_sent_and_its_result_seen(browser, services):
    open_docs(browser, services, "execute")
    browser.type("#execute textarea", '{"runtime": "python", "code": "print(\'<b>\' * 3)"}')
    browser.click("#execute button")
    crisol.wait_for(lambda: '"stdout": "<b><b><b>\\n"' in browser.text("#execute pre"), 20, "what the program printed")
    assert browser.text("#execute .status") == "200 OK"
    assert browser.run("return document.querySelectorAll('#execute pre b').length") == 0
    save_picture(browser, "docs.png")
    assert browser.complaints() == []


def test_a_run_is_followed_and_an_error_shown(browser, services):
    open_docs(browser, services, "stream")
    browser.click("#stream button")
    crisol.wait_for(lambda: "event: result" in browser.text("#stream pre"), 30, "the last event")
    assert '"status":"SUCCESS"' in browser.text("#stream pre")
    save_picture(browser, "docs-stream.png")
    assert browser.complaints() == []
    open_docs(browser, services, "get_run")
    browser.type("#get_run input[name=id]", "nonsense")
    browser.click("#get_run button")
    crisol.wait_for(lambda: "32 hexadecimal digits" in browser.text("#get_run pre"), 20, "the refusal")
    assert browser.text("#get_run .status").startswith("422")


def test_every_operation_is_drawn_and_nothing_comes_from_elsewhere(browser, services):
    open_docs(browser, services, "routes")
    assert browser.run("return document.querySelectorAll('details.operation').length") >= 25
    assert browser.text("#main .quiet") != "" and "cannot be drawn" not in browser.text("#main")
    elsewhere = browser.run("return performance.getEntriesByType('resource').map((each) => each.name)"
                            ".filter((name) => !name.startsWith(location.origin) && !name.startsWith('data:'))")
    assert elsewhere == []
    # Types unfold on demand, down to the comments of the .proto files.
    browser.run("document.querySelectorAll('#execute details').forEach((each) => { each.open = true; })")
    crisol.wait_for(lambda: "Relative to /workspace" in browser.run(
        "document.querySelectorAll('#execute details').forEach((each) => { each.open = true; });"
        "return document.querySelector('#execute').textContent"), 20, "the members of a file")
