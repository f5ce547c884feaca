# SPDX-License-Identifier: Apache-2.0
"""Compiles and runs every C program of a folder in sandboxes, by `crisol batch`, and bare as nobody, and compares."""
import concurrent.futures
import glob
import json
import os
import re
import signal
import subprocess
import tempfile
import time

import services as crisol

NOBODY = 65534
SECONDS = 30 * crisol.SLOWNESS
# What stands behind a program's own end must not be the shell's.
SCRIPT = "gcc -w -O1 -o program main.c -lm 2>/dev/null || exit 99\nexec ./program"
LIMITS = {"wall_time_ms": SECONDS * 1000, "memory_bytes": 512 << 20, "cpu_millicores": 1000}


def programs(folder, every=1):
    """Path -> text of what stands on its own: headers of the folder are not there."""
    found = {}
    for path in sorted(glob.glob(os.path.join(folder, "**", "*.c"), recursive=True))[::every]:
        with open(path, encoding="latin-1") as file:
            text = file.read()
        if not re.search(r'^\s*#\s*include\s*"', text, re.MULTILINE):
            found[os.path.relpath(path, folder)] = text
    return found


def without_addresses(output):
    """Output, but for what is another in every process."""
    return re.sub(r"0x[0-9a-f]{8,}", "0x…", output)


def boxed(texts, sandbox):
    """Path -> (exit code, or minus the signal; output) of each, and the summary that the command printed."""
    lines = [json.dumps({"id": path, "request": {
        "runtime": "shell", "command": ["/bin/sh", "-c", SCRIPT], "limits": LIMITS,
        "files": [{"path": "main.c", "text": text}]}}) for path, text in texts.items()]
    done = subprocess.run([os.path.join(crisol.BIN, "crisol"), "batch"], input="\n".join(lines).encode(),
                          capture_output=True, check=False, env={"CRISOL_SANDBOX": sandbox})
    found = {}
    for line in done.stdout.splitlines():
        answer = json.loads(line)
        result = (answer.get("response") or {}).get("result")
        verdict = result["verdict"]["code"].removeprefix("VERDICT_CODE_") if result else answer["error"]["message"]
        end = {"OK": 0, "NONZERO_EXIT": result and result["exit_code"], "SIGNALED": result and -result["signal"]}
        found[answer["id"]] = (end.get(verdict, verdict), result and without_addresses(answer["response"]["stdout_text"]))
    return found, done.stderr.decode().splitlines()[-1]


def run_bare(text):
    with tempfile.TemporaryDirectory(prefix="crisol-corpus-") as folder:
        os.chown(folder, NOBODY, NOBODY)
        with open(os.path.join(folder, "main.c"), "w", encoding="utf-8") as file:
            file.write(text)
        with subprocess.Popen(["/bin/sh", "-c", SCRIPT], cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, user=NOBODY, group=NOBODY, extra_groups=[],
                              start_new_session=True,
                              env={"PATH": "/usr/bin:/bin", "HOME": folder, "LANG": "C.UTF-8"}) as process:
            try:
                output = process.communicate(timeout=SECONDS)[0]
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return "WALL_TIME_LIMIT", process.communicate()[0].decode("utf-8", "replace")
        return process.returncode, without_addresses(output.decode("utf-8", "replace"))


def bare(texts):
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(texts, pool.map(run_bare, texts.values())))


def compare(texts, sandbox):
    """What differs, as text, and a line of figures."""
    begin = time.monotonic()
    in_box, summary = boxed(texts, sandbox)
    middle = time.monotonic()
    outside = bare(texts)
    differences = [f"{path}: bare {outside[path]!r}, in a box {in_box.get(path)!r}" for path in texts
                   if outside[path] != in_box.get(path)]
    built = sum(end != 99 for end, _ in outside.values())
    return differences, (f"{len(texts)} C programs ({built} of them compile): {len(texts) - len(differences)} end as a bare "
                         f"run, {len(differences)} do not; {middle - begin:.1f} s in boxes, "
                         f"{time.monotonic() - middle:.1f} s bare; {summary}")
