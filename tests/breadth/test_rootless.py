# SPDX-License-Identifier: Apache-2.0
"""`sandboxd --rootless`: an ordinary user without any right starts it, and what is lost is named, accepted and in every result."""
import contextlib
import glob
import json
import os
import pickle
import shutil
import signal
import subprocess
import tempfile
import traceback

import grpc
import pytest
import services as crisol
from sandbox_calls import pb, services as stubs

USER = 64377  # nobody has it: no account is needed to be a user
VICTIM = 64379  # nor this: whose sandboxd is killed
# With ids of its own each sandbox has a user of its own.
LOSSES = {"own ids": {"memory", "swap", "cpu", "pids", "cpu_time", "wall_time"}}
LOSSES["one id"] = LOSSES["own ids"] | {"user", "rootfs"}
FIRST_ID = 0x70100000  # of the ranges that the host gives the users here
IDS = 65536
PROGRAMS = ("sandboxd", "sandboxd-front", "sandboxd-native", "sandboxd-docker", "sandbox-init", "crisol-template.so",
            "sandboxd-selftest", "sbprobe", "sandbox-init-weak")
# The files of the host that say who has which ids, for one process and what it starts.
GIVEN = """
for file in passwd subuid subgid; do mount --bind "$0/$file" "/etc/$file"; done
user=$1; shift
exec setpriv --reuid="$user" --regid="$user" --clear-groups -- "$@"
"""
MIB = 1 << 20


def as_user(work, user=USER):
    """What `work` returns, done by a process that is the user, and has no other right. gRPC is used there only: it cannot fork."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            answer = work()
        except BaseException:  # pylint: disable=broad-except  (told by the parent)
            answer = traceback.format_exc()
        with open(writer, "wb") as file:
            pickle.dump(answer, file)
        os._exit(0)
    os.close(writer)
    with open(reader, "rb") as file:
        answer = pickle.load(file)
    os.waitpid(pid, 0)
    assert not isinstance(answer, str) or "Traceback" not in answer, answer
    return answer


def start(folder, *flags, command=(), user=USER, ids="one id", **fields):
    """sandboxd of the user; without a command it serves."""
    if command != ["selftest"]:
        flags = [f"--socket={folder}/own/s.sock", "--state-dir=", "--metrics=", *flags]
    argv = [f"{folder}/sandboxd", *command, "--rootless", *flags]
    if ids == "own ids":
        return subprocess.Popen(["/usr/bin/unshare", "--mount", "/bin/sh", "-ec", GIVEN, f"{folder}/etc", str(user), *argv], cwd="/",
                                **fields)
    return subprocess.Popen(argv, user=user, group=user, extra_groups=[], cwd="/", **fields)


def give_ids(folder):
    """Files for GIVEN, in which the user is one of the host's, and has ids beside its own."""
    os.mkdir(f"{folder}/etc")
    with open(f"{folder}/etc/passwd", "w", encoding="ascii") as file:
        file.write(f"{read('/etc/passwd')}ordinary:x:{USER}:{USER}::/:/bin/false\n")
    for name in ("subuid", "subgid"):
        with open(f"{folder}/etc/{name}", "w", encoding="ascii") as file:
            file.write(f"ordinary:{FIRST_ID}:{IDS}\n")


def told(folder, *flags, command=(), ids="one id"):
    """Its exit status, and what it said."""
    with start(folder, *flags, command=command, ids=ids, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            said = process.communicate(timeout=60 * crisol.SLOWNESS)[0]
        except subprocess.TimeoutExpired:
            process.kill()
            said = process.communicate()[0]
    return process.returncode, said


@pytest.fixture(scope="module", name="folder")
def make_folder():
    """The programs where everybody can read them, and a folder `own` of the user."""
    path = tempfile.mkdtemp(prefix="crisol-rootless-")
    try:
        os.chmod(path, 0o755)
        for name in PROGRAMS:
            shutil.copy(os.path.join(crisol.BIN, name), path)
        os.mkdir(f"{path}/own")
        os.chown(f"{path}/own", USER, USER)
        give_ids(path)
        tried = subprocess.run(["/usr/bin/unshare", "--user", "--map-root-user", "--mount", "true"], user=USER, group=USER,
                               extra_groups=[], cwd="/", capture_output=True, text=True, check=False)
        if tried.returncode != 0:
            pytest.skip(f"this host lets no ordinary user make a user namespace: {tried.stderr.strip()}")
        yield path
    finally:
        shutil.rmtree(path)


@pytest.fixture(scope="module", name="ids", params=["one id", "own ids"])
def choose_ids(request):
    return request.param


@pytest.fixture(scope="module", name="service")
def serve(folder, ids):
    with open(f"{folder}/log", "wb") as log, \
            start(folder, "--slots=2", f"--accept-gap={','.join(sorted(LOSSES[ids]))}", ids=ids, stdout=log, stderr=log) as process:
        try:
            crisol.wait_for(lambda: "sandboxd ready" in read(f"{folder}/log") or process.poll() is not None, 60, "sandboxd serves")
            assert process.poll() is None, read(f"{folder}/log")
            yield folder
        finally:
            process.terminate()
            process.wait(60)


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


def run(folder, code, runtime="python", *, user=USER, **fields):
    """The answer of Run, to the user, who is the only one that may call."""
    def work():
        with grpc.insecure_channel(f"unix:{folder}/own/s.sock") as channel:
            request = pb.RunRequest(runtime=runtime, code=code, output_text=True, **fields)
            return stubs.SandboxServiceStub(channel).Run(request, timeout=60 * crisol.SLOWNESS).SerializeToString()
    return pb.RunResponse.FromString(as_user(work, user))


def verdict(answer):
    return pb.VerdictCode.Name(answer.result.verdict.code).removeprefix("VERDICT_CODE_")


def users_of(commands):
    """Who runs each of them."""
    found = {}
    for pid, (_, command) in crisol.processes().items():
        if command in commands:
            with contextlib.suppress(OSError):
                found[command] = os.stat(f"/proc/{pid}").st_uid
    return found


def processes_of(user):
    return [status for status in glob.glob("/proc/[0-9]*/status") if f"\nUid:\t{user}\t" in read_or_nothing(status)]


def read_or_nothing(path):
    try:
        return read(path)
    except OSError:
        return ""


# ---- what is lost ----

def test_losses_that_are_not_accepted_keep_it_from_starting(folder, ids):
    status, said = told(folder, ids=ids)
    assert status == 1 and "the control 'memory' is weaker without root, and this is not accepted" in said
    named = said.split("--accept-gap=")[1].split()[0]
    assert set(named.split(",")) == LOSSES[ids]
    for missing in LOSSES[ids] & {"cpu", "user"}:
        status, said = told(folder, f"--accept-gap={','.join(LOSSES[ids] - {missing})}", ids=ids)
        assert status == 1 and f"the control '{missing}' is" in said


def test_the_check_names_each(folder, ids):
    status, said = told(folder, command=["check"], ids=ids)
    assert status == 1 and said.count("\nGAP   ") == len(LOSSES[ids]) and "FAIL" not in said, said
    status, said = told(folder, f"--accept-gap={','.join(LOSSES[ids])}", command=["check"], ids=ids)
    assert status == 0 and said.count(": accepted\n") == len(LOSSES[ids]), said


def test_what_ids_are_missing_for_is_said(folder):
    def without(name, text):
        path = f"{folder}/etc/{name}"
        kept = read(path)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)
        try:
            return told(folder, command=["check"], ids="own ids")[1]
        finally:
            with open(path, "w", encoding="ascii") as file:
                file.write(kept)
    assert 'one user id for all sandboxes why="/etc/subuid gives this user no ids"' in without("subuid", "other:1:65536\n")
    assert 'why="/etc/subgid gives this user no ids"' in without("subgid", "")
    said = without("subuid", f"ordinary:{FIRST_ID}:5\n")
    assert "give this user 5 ids" in said and "lower --slots" in said
    # Without an account newuidmap does not know whose ids these are.
    said = without("passwd", read("/etc/passwd"))
    assert "one user id for all sandboxes" in said and "\nGAP   user ids of their own" in said, said


def test_root_is_told_to_do_without():
    done = subprocess.run([os.path.join(crisol.BIN, "sandboxd"), "--rootless", "--state-dir="], capture_output=True, text=True,
                          timeout=60, check=False)
    assert done.returncode == 1 and "--rootless: is for an ordinary user, and this is root" in done.stderr


def test_losses_are_in_every_result(service, ids):
    answer = run(service, "print(1)")
    controls = {control.name: control for control in answer.result.policy.controls}
    weaker = {name for name, control in controls.items() if control.enforcement == pb.ENFORCEMENT_PARTIAL}
    lost = {name for name, control in controls.items() if control.enforcement == pb.ENFORCEMENT_GAP}
    assert (weaker, lost) == (LOSSES[ids] - {"cpu"}, {"cpu"})
    assert "looked at" in controls["memory"].detail and "accepted by the operator" in controls["cpu"].detail
    assert answer.result.verdict.confidence == pb.CONFIDENCE_INFERRED


# ---- what holds ----

def test_each_sandbox_is_a_user_of_its_own(service, ids):
    def work():
        with grpc.insecure_channel(f"unix:{service}/own/s.sock") as channel:
            call = stubs.SandboxServiceStub(channel).Run.future
            calls = [call(pb.RunRequest(runtime="shell", code=f"sleep 7{number}", limits=pb.Limits(wall_time_ms=60000)),
                          timeout=60 * crisol.SLOWNESS) for number in range(2)]
            users = crisol.wait_for(lambda: (lambda found: found if len(found) == 2 else None)(users_of({"sleep 70", "sleep 71"})), 60,
                                    "both run")
            for future in calls:
                future.cancel()
            return users
    users = as_user(work)
    if ids == "one id":
        assert set(users.values()) == {USER}
    else:
        assert len(set(users.values())) == 2 and all(FIRST_ID < user < FIRST_ID + IDS for user in users.values()), users

def test_hello_and_nothing_of_the_host(service):
    answer = run(service, "import os; print(6 * 7, os.getuid(), os.getgid(), sorted(n for n in os.listdir('/proc') if n.isdigit()) == "
                          "[str(os.getpid())], os.listdir('/workspace'), open('/proc/self/status').read().count('CapEff:\\t0000000000000000'))")
    assert verdict(answer) == "OK" and answer.stdout_text == "42 1000 1000 True ['main.py'] 1\n", answer.stderr_text
    answer = run(service, "touch /usr/x; id -u; cat /etc/shadow; kill -9 1; echo alive", runtime="shell")
    assert "Read-only" in answer.stderr_text and answer.stdout_text == "1000\nalive\n"


@pytest.mark.parametrize("code, limits, expected", [
    ("while True: pass", {"wall_time_ms": 1000}, "WALL_TIME_LIMIT"),
    ("while True: pass", {"cpu_time_ms": 300}, "CPU_TIME_LIMIT"),
    ("x = bytearray(600 << 20)", {}, "MEMORY_LIMIT"),
    ("import os, time\nfor _ in range(4):\n    if os.fork() == 0:\n        x = bytearray(60 << 20)\n        time.sleep(50)\ntime.sleep(50)",
     {}, "MEMORY_LIMIT"),
    ("import os, time\nn = 0\ntry:\n    while True:\n        if os.fork() == 0:\n            time.sleep(50)\n        n += 1\n"
     "except OSError as error:\n    print(n, error.errno, flush=True)\n    time.sleep(4)\n    raise", {"processes": 16}, "PROCESS_LIMIT"),
])
def test_limits(service, code, limits, expected):
    answer = run(service, code, limits=pb.Limits(**limits))
    assert verdict(answer) == expected, (answer.result.summary, answer.stderr_text)
    if expected == "MEMORY_LIMIT":
        assert answer.result.limit_hit.killed_by == pb.KILLED_BY_SANDBOXD
        assert answer.result.usage.memory_peak_bytes > 128 * MIB
    if expected == "PROCESS_LIMIT":
        assert answer.stdout_text == "15 11\n"  # and the program itself; EAGAIN


def test_two_at_a_time_do_not_count_for_each_other(service):
    code = "import os, time\nfor _ in range(12):\n    if os.fork() == 0:\n        time.sleep(50)\ntime.sleep(2)\nprint('all')"

    def work():
        with grpc.insecure_channel(f"unix:{service}/own/s.sock") as channel:
            call = stubs.SandboxServiceStub(channel).Run.future
            calls = [call(pb.RunRequest(runtime="python", code=code, output_text=True, limits=pb.Limits(processes=16)),
                          timeout=60 * crisol.SLOWNESS) for _ in range(2)]
            return [future.result().stdout_text for future in calls]
    assert as_user(work) == ["all\n", "all\n"]


def test_the_network_is_not_there(service):
    answer = run(service, "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 80), 5)\nexcept OSError as error:\n    print(error.errno)\n"
                          "s = socket.create_server(('127.0.0.1', 0)); socket.create_connection(s.getsockname()); print('lo')")
    assert answer.stdout_text == "101\nlo\n", answer.stderr_text


def test_files_go_in_and_out(service):
    answer = run(service, "open('out', 'wb').write(open('in', 'rb').read()[::-1]); import os; os.symlink('/etc/passwd', 'link')",
                 files=[pb.InputFile(path="in", data=b"abc")], collect=[pb.CollectSpec(path=path) for path in ("out", "link")])
    files = {file.path: file for file in answer.result.files}
    assert files["out"].data == b"cba" and files["link"].status == pb.COLLECT_STATUS_NOT_REGULAR
    answer = run(service, "import os; print(os.listdir('.'))")
    assert answer.stdout_text == "['main.py']\n"


def test_a_read_only_file_is_not_written(service, ids):
    code = ("for act in (lambda: open('in', 'w'), lambda: __import__('os').unlink('in'), lambda: __import__('os').chmod('in', 0o600)):\n"
            "    try:\n        act(); print('done')\n    except OSError as error:\n        print(error.errno)\n")
    answer = run(service, code, files=[pb.InputFile(path="in", data=b"abc", read_only=True)])
    # Without a user of its own to own it, it is read-only until the program says otherwise.
    assert answer.stdout_text == ("13\n1\n1\n" if ids == "own ids" else "13\ndone\n2\n"), answer.stderr_text or answer.result.summary


def test_others_may_not_call(service):
    for other in (0, USER + 1):  # root of the host, too, is nobody in there
        with pytest.raises(AssertionError, match="StatusCode.UNAVAILABLE"):
            run(service, "print(1)", user=other)


def test_the_self_test_passes_and_names_what_is_weaker(folder, ids):
    status, said = told(folder, "--json", f"--accept={','.join(LOSSES[ids])}", command=["selftest"], ids=ids)
    document = json.loads(said[said.index("{"):])
    wrong = [probe for probe in document["probes"] if probe["status"] not in {"PASS", "GAP"}]
    assert status == 0 and document["is_good"] is True, (wrong, said[:500])
    assert {probe["control"] for probe in document["probes"] if probe["status"] == "GAP"} <= LOSSES[ids]
    weaker = {probe["name"] for probe in document["probes"] if probe["status"] == "GAP"}
    assert ("change-read-only-input" in weaker) == ("host-sees-own-user" in weaker) == (ids == "one id"), weaker
    assert len(document["probes"]) >= 150 and all(control["red_seen"] for control in document["controls"])


# ---- the end ----

def test_kill_9_leaves_nothing(folder):
    own = f"{folder}/victim"
    os.makedirs(f"{own}/own")
    os.chown(f"{own}/own", VICTIM, VICTIM)
    for name in PROGRAMS:
        os.link(f"{folder}/{name}", f"{own}/{name}")
    with open(f"{own}/log", "wb") as log, \
            start(own, "--slots=2", f"--accept-gap={','.join(LOSSES['one id'])}", user=VICTIM, stdout=log, stderr=log) as process:
        try:
            crisol.wait_for(lambda: "sandboxd ready" in read(f"{own}/log"), 60, "sandboxd serves")
            caller = os.fork()
            if caller == 0:
                try:
                    run(own, "sleep 55 & setsid sleep 56 & sleep 57", runtime="shell", user=VICTIM, limits=pb.Limits(wall_time_ms=60000))
                finally:
                    os._exit(0)
            crisol.wait_for(lambda: any(command == "sleep 57" for _, command in crisol.processes().values()), 60, "the program runs")
        finally:
            process.send_signal(signal.SIGKILL)
            process.wait(60)
    os.waitpid(caller, 0)
    crisol.wait_for(lambda: not processes_of(VICTIM), 30, "everything of it has ended")
    assert not any(command in {"sleep 55", "sleep 56", "sleep 57"} for _, command in crisol.processes().values())
