# SPDX-License-Identifier: Apache-2.0
"""The runtimes whose root file systems are built of packages: a chart, a screenshot, what pip installs.

Run by scripts/runtimes.sh, which builds them, on each backend. Minutes, hence not in `make test`.
"""
import os

import grpc
import pytest
from conftest import STATE
from sandbox_calls import pb, services as stubs

PNG = b"\x89PNG\r\n\x1a\n"
# What is not about time must not depend on a quiet machine.
PATIENT = pb.Limits(wall_time_ms=150000)
CHART = """\
import numpy as np, pandas as pd, matplotlib.pyplot as plt
frame = pd.DataFrame({"x": np.linspace(0, 6, 100)})
frame["y"] = np.sin(frame["x"])
frame.plot(x="x", y="y")
plt.savefig("chart.png")
print(frame["y"].abs().max() > 0.99, len(frame))
"""
PAGE = """\
<!doctype html><title>page</title><body style="background:#fff"><p id="p">before</p>
<script>document.getElementById("p").textContent = "after " + (6 * 7); document.body.style.background = "#c00"</script>
"""


@pytest.fixture(scope="module")
def stub(services):
    with grpc.insecure_channel(services.sandbox) as channel:
        yield stubs.SandboxServiceStub(channel)


@pytest.fixture(scope="module")
def names(stub):
    """Of the runtimes with a root of their own, by the name without its version."""
    listed = stub.ListRuntimes(pb.ListRuntimesRequest(), timeout=90).runtimes
    return {runtime.name.split(":")[0]: runtime.name for runtime in listed if runtime.rootfs_digest}


def run(stub, runtime, code="", **fields):
    answer = stub.Run(pb.RunRequest(runtime=runtime, code=code, output_text=True, **fields), timeout=170)
    print(f"\n{runtime}: {answer.result.summary} {answer.stderr_text[-600:]}")
    return answer


def collect(*paths):
    return [pb.CollectSpec(path=path, required=True) for path in paths]


def test_python_data_draws_a_chart(stub, names):
    answer = run(stub, names["python-data"], CHART, collect=collect("chart.png"))
    assert answer.result.verdict.code == pb.VERDICT_CODE_OK and answer.stdout_text == "True 100\n"
    assert answer.result.files[0].data.startswith(PNG) and len(answer.result.files[0].data) > 5000
    assert answer.result.policy.limits.memory_bytes == 512 << 20
    assert answer.result.policy.rootfs_digest and "own" in {
        control.name: control.detail for control in answer.result.policy.controls}["rootfs"]


def test_the_digest_is_in_every_result_and_in_the_capabilities(stub, names):
    digests = stub.GetCapabilities(pb.GetCapabilitiesRequest(), timeout=90).rootfs_digests
    for name in names.values():
        with open(os.path.join(STATE, "runtimes", name, "digest"), encoding="ascii") as file:
            digest = file.read().strip()
        assert digests[name] == digest
        result = stub.Run(pb.RunRequest(runtime=name, command=["/usr/bin/env"]), timeout=60).result
        assert result.policy.rootfs_digest == digest
    result = stub.Run(pb.RunRequest(runtime="shell", code="true"), timeout=60).result
    assert result.policy.rootfs_digest == ""


def test_a_root_of_its_own_is_read_only_and_shows_nothing_else(stub, names):
    script = ("touch /usr/x /etc/x /x; ls /; cat /proc/self/mountinfo; "
              "for f in /usr/local /usr/src; do ls -d $f; done; ls /proc | head -3; cat /etc/passwd")
    answer = stub.Run(pb.RunRequest(runtime=names["python-data"], command=["/bin/sh", "-c", script], output_text=True), timeout=60)
    assert answer.stderr_text.count("Read-only file system") == 3
    assert "sandbox:x:1000:1000" in answer.stdout_text
    mounted = [line.split()[4] for line in answer.stdout_text.splitlines() if " - " in line]
    assert "/workspace" in mounted and "/proc" in mounted
    assert not any(path.startswith(("/srv", "/root", "/var/lib")) for path in mounted), mounted


def test_the_browser_takes_a_screenshot_of_a_page_with_a_script(stub, names):
    answer = run(stub, names["browser"], PAGE, collect=collect("screenshot.png"), limits=PATIENT)
    assert answer.result.verdict.code == pb.VERDICT_CODE_OK
    assert "after 42" in answer.stdout_text and "before" not in answer.stdout_text.split("<script>")[0]
    picture = answer.result.files[0].data
    assert picture.startswith(PNG)
    assert (int.from_bytes(picture[16:20], "big"), int.from_bytes(picture[20:24], "big")) == (1280, 800)


def test_a_page_reads_the_files_beside_it_and_shows_what_is_wrong(stub, names):
    page = ('<p id="p">-</p><script>onerror = (text) => { document.title = text }</script><script src="beside.js"></script>'
            '<script>function (</script><img src="beside.svg" onload="document.body.append(this.naturalWidth)">')
    files = [pb.InputFile(path="beside.js", text='document.getElementById("p").textContent = "from beside"'),
             pb.InputFile(path="beside.svg", text='<svg xmlns="http://www.w3.org/2000/svg" width="77" height="5"/>')]
    answer = run(stub, names["browser"], page, files=files, collect=collect("screenshot.png"), limits=PATIENT)
    assert answer.result.verdict.code == pb.VERDICT_CODE_OK and answer.result.files[0].data.startswith(PNG)
    assert '<p id="p">from beside</p>' in answer.stdout_text and "77</body>" in answer.stdout_text
    assert "<title>Uncaught SyntaxError" in answer.stdout_text


def test_a_command_in_the_root_of_a_browser_reads_its_input(stub, names):
    answer = run(stub, names["browser"], command=["/bin/cat"], stdin_text="one\ntwo\n")
    assert answer.stdout_text == "one\ntwo\n"


def test_requirements_were_installed_when_it_was_built(stub, names):
    answer = run(stub, names["python"], "import six; print(six.__version__)", limits=PATIENT)
    assert answer.stdout_text == "1.16.0\n", answer.stderr_text
    # Nothing is fetched in a sandbox.
    fetch = "import subprocess, sys; sys.exit(subprocess.call([sys.executable, '-m', 'pip', 'download', '--retries=0', 'six']))"
    answer = run(stub, names["python"], fetch, limits=PATIENT)
    assert answer.result.verdict.code == pb.VERDICT_CODE_NONZERO_EXIT
    assert run(stub, "python", "pass", limits=PATIENT).result.policy.rootfs_digest == ""


def test_the_browser_reaches_no_network(stub, names):
    page = ('<p id="p">-</p><script>fetch("http://127.0.0.1:1/").catch(() => fetch("http://192.0.2.1/")).catch('
            '(e) => { p.textContent = "refused " + e.name })</script>')
    answer = run(stub, names["browser"], page, limits=PATIENT)
    assert answer.result.verdict.code == pb.VERDICT_CODE_OK and "refused TypeError" in answer.stdout_text
