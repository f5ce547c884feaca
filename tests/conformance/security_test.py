#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What a program can reach, see and become. The probes of tests/escape go deeper; here is what callers were bitten by."""
import contextlib
import ctypes
import os
import re
import socket
import subprocess
import threading
import time

import lab
from lab import OK, grpc, pb, services

# syscall(number, …) -> errno, 0 when it worked
CALL = """
import ctypes, errno, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(number, *arguments):
    ctypes.set_errno(0)
    r = libc.syscall(number, *(ctypes.c_long(a) for a in arguments))
    return errno.errorcode[ctypes.get_errno()] if r == -1 else 'OK'
"""
FULL = """
import asyncio, concurrent.futures, json, multiprocessing, os, sqlite3, subprocess, tempfile, threading
def square(n): return n * n
if __name__ == '__main__':
    with multiprocessing.Pool(2) as pool: assert pool.map(square, range(9))[3] == 9
    with concurrent.futures.ThreadPoolExecutor(4) as pool: assert list(pool.map(square, range(9)))[4] == 16
    with sqlite3.connect(tempfile.mktemp()) as db: db.execute('create table t (x)'); db.execute('insert into t values (1)')
    async def server():
        async def serve(reader, writer): writer.write(await reader.read(9)); writer.close()
        s = await asyncio.start_server(serve, '127.0.0.1', 0)
        reader, writer = await asyncio.open_connection(*s.sockets[0].getsockname())
        writer.write(b'echo'); writer.write_eof(); assert await reader.read() == b'echo'
    asyncio.run(server())
    assert subprocess.run(['sh', '-c', 'echo $0'], capture_output=True, text=True).stdout == 'sh\\n'
    print('fine')
"""
ALLOWED_ENV = {"PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR", "PWD", "TERM", "HOSTNAME", "MINE",
               "PYTHONDONTWRITEBYTECODE", "PYTHONUNBUFFERED", "PYTHONHASHSEED", "LC_CTYPE", "OLDPWD", "_", "SHLVL"}


class Security(lab.Suite):
    def calls(self, **wanted):
        """Each name -> (expression, outcomes that are right)."""
        lines = "".join(f"print({name!r}, {code})\n" for name, (code, _) in wanted.items())
        found = dict(line.split() for line in self.output(CALL + lines).splitlines())
        self.assertEqual(set(found), set(wanted))
        for name, (_, right) in wanted.items():
            self.assertIn(found[name], right, name)

    # ---- seccomp ----

    def test_sandbox_51_57_security_27_40_what_is_refused_is_refused_with_an_errno(self):
        refused = ("EPERM", "ENOSYS", "EACCES")
        self.calls(io_uring=("call(425, 8, 0)", ("ENOSYS",)), clone3=("call(435, 0, 0)", ("ENOSYS",)),
                   unknown=("call(9999)", ("ENOSYS",)), newer=("call(600)", ("ENOSYS",)),
                   userns=("call(272, 0x10000000)", refused), mount=("call(165, 0, 0, 0, 0, 0)", refused),
                   userfaultfd=("call(323, 1)", refused),
                   perf=("call(298, 0, 0, 0, 0, 0)", refused), setns=("call(308, 0, 0)", refused))

    def test_security_46_calls_that_only_an_attack_makes_end_the_run_by_name(self):
        for number, name in ((101, "ptrace"), (155, "pivot_root"), (246, "kexec_load"), (304, "open_by_handle_at"),
                             (311, "process_vm_writev"), (321, "bpf")):
            result = self.must(lab.SECURITY, self.run_code(CALL + f"call({number}, 0, 0, 0)"))
            self.assertEqual(result.signal, 31)
            self.assertFalse(result.verdict.retryable)
            self.named(result, name)

    def named(self, result, name):
        """The filter told which call it was."""
        self.assertEqual((result.forbidden_call, result.verdict.confidence), (name, pb.CONFIDENCE_MEASURED))
        self.assertIn(name, result.verdict.message)

    def test_sandbox_51_a_forbidden_call_of_a_thread_ends_the_run_by_name(self):
        code = CALL + "import threading, time\nt = threading.Thread(target=call, args=(101, 0, 0, 0)); t.start(); t.join(); time.sleep(50)"
        began = time.monotonic()
        self.named(self.must(lab.SECURITY, self.run_code(code, limits={"wall_time_ms": 60000}, timeout=90)), "ptrace")
        self.assertLess(time.monotonic() - began, 40)

    def test_sandbox_51_a_forbidden_call_of_a_child_ends_the_run_by_name(self):
        for end in ("os.wait(); sys.exit(0)", "time.sleep(9); os._exit(0)"):  # with and without looking after it
            code = CALL + f"import time\nif os.fork() == 0:\n    call(321, 0, 0, 0)\n    os._exit(0)\n{end}"
            self.named(self.must(lab.SECURITY, self.run_code(code)), "bpf")

    def test_sandbox_51_no_unknown_call_kills(self):
        code = CALL + "print({call(n, -1, -1, -1, -1, -1, -1) for n in range(470, 601)})"
        self.assertLessEqual(set(eval(self.output(code))), {"ENOSYS", "EPERM"})  # pylint: disable=eval-used

    def test_sandbox_51_security_21_honest_programs_never_meet_the_filter(self):
        limits = {"cpu_millicores": 1000, "wall_time_ms": 60000, "memory_bytes": 256 << 20}
        for _ in range(8):
            self.assertEqual(self.output(FULL, limits=limits, timeout=90), "fine\n")
        files = [pb.InputFile(path="test_it.py", text="import pytest\n@pytest.mark.parametrize('n', range(50))\n"
                              "def test_it(n, tmp_path):\n    (tmp_path / 'f').write_text('x')\n")]
        for _ in range(3):
            result = self.must(OK, self.run_code("", runtime="pytest", files=files, limits=limits, timeout=90))
            self.assertEqual(result.test_report.passed, 50)

    def test_sandbox_58_security_29_no_terminal_can_be_typed_into(self):
        self.calls(TIOCSTI=("call(16, 0, 0x5412, 0)", ("EPERM",)), high=("call(16, 0, 0x5412 | 1 << 32, 0)", ("EPERM",)),
                   TIOCLINUX=("call(16, 0, 0x541C, 0)", ("EPERM",)))
        self.assertEqual(self.output("import os\nprint([os.isatty(i) for i in range(3)])\ntry: open('/dev/tty')\n"
                                     "except OSError: print('none')"), "[False, False, False]\nnone\n")

    def test_sandbox_59_security_18_46_channels_between_boxes_are_closed(self):
        refused = ("EPERM", "ENOSYS", "EAFNOSUPPORT", "EACCES", "ESOCKTNOSUPPORT", "EPROTONOSUPPORT")
        self.calls(keyring=("call(250, 0, -3, 1)", refused), add_key=("call(248, 0, 0, 0, 0, -3)", refused),
                   vsock=("call(41, 40, 1, 0)", refused), netlink=("call(41, 16, 3, 0)", refused),
                   packet=("call(41, 17, 3, 0)", refused), alg=("call(41, 38, 5, 0)", refused), raw=("call(41, 2, 3, 1)", refused),
                   shmget=("call(29, 1, 4096, 0o1666)", refused), mq=("call(240, 0, 0, 0, 0)", refused + ("EFAULT",)))

    # ---- network ----

    def test_security_8_nothing_can_be_reached(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            port = listener.getsockname()[1]
            code = ("import socket\nfor where in (('127.0.0.1', %d), ('169.254.169.254', 80), ('8.8.8.8', 53), ('10.0.0.1', 80)):\n"
                    "    s = socket.socket(); s.settimeout(2)\n    try: s.connect(where); print('reached', where)\n"
                    "    except OSError as e: print('no')\ntry: socket.getaddrinfo('example.com', 80); print('resolved')\n"
                    "except OSError: print('no')" % port)
            self.assertEqual(self.output(code), "no\n" * 5)
            listener.setblocking(False)
            self.assertRaises(BlockingIOError, listener.accept)

    # ---- other programs, and the host ----

    @contextlib.contextmanager
    def held(self, code):
        """A program that says something and then waits for the end of the block; a list, whose last item is then all it said."""
        must_end, said, ready = threading.Event(), [], threading.Event()

        def messages():
            yield pb.ExecuteInteractiveRequest(start=pb.ExecuteRequest(runtime="python", code=code, limits=pb.Limits(wall_time_ms=90000)))
            must_end.wait(120)
            yield pb.ExecuteInteractiveRequest(close_stdin=True)

        def follow():
            text = b""
            for answer in self.stub.ExecuteInteractive(messages(), timeout=120):
                if answer.event.WhichOneof("event") == "output":
                    text += answer.event.output.data
                    if b"ready\n" in text:
                        said.append(text.decode())
                        ready.set()
            said.append(text.decode())
            ready.set()
        thread = threading.Thread(target=follow)
        thread.start()
        try:
            self.assertTrue(ready.wait(120), "the program does not say that it is ready")
            yield said
        finally:
            must_end.set()
            thread.join()

    def test_sandbox_59_no_program_sees_what_others_open(self):
        """A watch is on the file itself, by whichever mount it is opened: those of /usr are shared with the host and all boxes."""
        code = CALL + """
import fcntl, signal
heard = []
signal.signal(signal.SIGIO, lambda *_: heard.append('signal'))
watch = libc.inotify_init1(os.O_NONBLOCK)
for path in ('/usr/bin', '/usr/bin/env'):
    libc.inotify_add_watch(watch, path.encode(), 0xfff)
try: fcntl.fcntl(os.open('/usr/bin', os.O_RDONLY), 1026, 0x80000001)  # F_NOTIFY: DN_ACCESS, DN_MULTISHOT
except OSError: pass
print('ready', flush=True)
sys.stdin.read()
try: heard += [os.read(watch, 65536)]
except OSError: pass
print('heard', len(heard))
"""
        with self.held(code) as said:
            self.must(OK, self.shell("for i in 1 2 3; do /usr/bin/env true; cat /usr/bin/env; done >/dev/null; ls /usr/bin >/dev/null"))
            subprocess.run(["/usr/bin/env", "true"], check=True)
            os.listdir("/usr/bin")
        self.assertEqual(said[-1], "ready\nheard 0\n")

    def test_security_49_timers_and_signals_of_a_box_are_not_roots(self):
        """The kernel counts them for who made the user namespace, too: without a limit, one box takes all that root may have."""
        code = CALL + """
made = 0
while made < 1000000 and libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p())) == 0:
    made += 1
print(made, errno.errorcode[ctypes.get_errno()], 'ready', flush=True)
sys.stdin.read()
"""
        libc = ctypes.CDLL(None)
        with self.held(code) as said:
            made, error, _ = said[-1].split()
            timer = ctypes.c_void_p()
            self.assertEqual(libc.timer_create(1, None, ctypes.byref(timer)), 0)
            libc.timer_delete(timer)
        self.assertEqual(error, "EAGAIN")
        self.assertLessEqual(int(made), 1024)

    def test_huge_pages_that_the_host_has_set_aside_are_not_for_programs(self):
        self.calls(file=("call(319, 0, 4)", ("ENOSYS",)), map=("call(9, 0, 2 << 20, 3, 0x40022, -1, 0)", ("ENOMEM",)))

    # ---- what is seen ----

    def test_sandbox_55_security_9_only_the_given_environment_is_there(self):
        code = "import os, json\nprint(json.dumps(dict(os.environ)))\nprint(json.dumps(open('/proc/self/environ').read()))"
        lines = self.output(code, env={"MINE": "1"}).splitlines()
        names = set(lab.json.loads(lines[0])) | {item.split("=")[0] for item in lab.json.loads(lines[1]).split("\0") if item}
        self.assertLessEqual(names, ALLOWED_ENV)
        self.assertIn("MINE", names)
        answer = self.shell("cat /proc/*/environ /proc/self/mountinfo /proc/self/cgroup /etc/hostname; hostname")
        for secret in (lab.host.CANARY, socket.gethostname(), self.service.folder, lab.processes.SOURCE):
            self.assertNotRegex(answer.stdout_data, rb"(?<!\w)" + re.escape(secret.encode()) + rb"(?!\w)")

    def test_security_33_31_no_mask_is_a_link_and_nothing_of_the_kernel_is_open(self):
        code = """
import os, stat
for name in ('null', 'zero', 'full', 'random', 'urandom'):
    info = os.lstat('/dev/' + name)
    assert stat.S_ISCHR(info.st_mode), name
    print(name, os.major(info.st_rdev), os.minor(info.st_rdev))
for path in ('/proc/sysrq-trigger', '/proc/sys/kernel/core_pattern'):
    try: open(path, 'r+b'); print('open', path)
    except OSError: pass
for path in ('/proc/kcore', '/proc/keys', '/sys/kernel', '/dev/mem', '/dev/kmsg'):
    try:
        with open(path, 'rb') as f:
            if f.read(1): print('open', path)
    except OSError: pass
"""
        self.assertEqual(self.output(code), "null 1 3\nzero 1 5\nfull 1 7\nrandom 1 8\nurandom 1 9\n")

    def test_sandbox_60_security_10_41_a_compile_step_is_a_run_like_any_other(self):
        code = """
import os
for path in ('/etc/shadow', '/etc/gshadow', '/proc/1/environ', '/proc/1/mem'):
    try: open(path).read(1); print('read', path)
    except OSError: pass
for path in ('/x', '/etc/x', '/usr/lib/x', '/usr/bin/x'):
    try: open(path, 'w'); print('wrote', path)
    except OSError: pass
print(sorted(line.split(':')[0] for line in open('/etc/passwd')))
"""
        lines = self.output(code).splitlines()
        self.assertEqual(len(lines), 1, lines)
        if lab.BACKEND == "native":  # its users are its own, not those of the host; an image has those of its base
            self.assertLess(len(eval(lines[0])), 5)  # pylint: disable=eval-used

    # ---- what a program is ----

    def test_sandbox_52_security_20_32_everything_is_dropped_before_the_first_instruction(self):
        code = ("import os\nkeep = ('Uid', 'Gid', 'Groups', 'Cap', 'NoNewPrivs', 'Seccomp:')\n"
                "print([l.split() for l in open('/proc/self/status') if l.startswith(keep)])\n")
        fields = {line[0]: line[1:] for line in eval(self.output(code))}  # pylint: disable=eval-used
        self.assertEqual((fields["Uid:"], fields["Gid:"]), (["1000"] * 4, ["1000"] * 4))
        self.assertEqual((fields["NoNewPrivs:"], fields["Seccomp:"]), (["1"], ["2"]))
        self.assertLessEqual(set(fields["Groups:"]), {"1000"})
        for name in ("CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"):
            self.assertEqual(int(fields[name][0], 16), 0, name)
        for name in ("LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PYTHONSTARTUP", "PYTHONHOME", "BASH_ENV", "NODE_OPTIONS", "PATH",
                     "GLIBC_TUNABLES"):
            with self.refused(grpc.StatusCode.INVALID_ARGUMENT) as error:
                self.run_code("pass", env={name: "/workspace/x"})
            self.assertEqual(list(lab.violations(error[0])), [f'env["{name}"]'])

    def test_security_43_a_test_run_cannot_talk_itself_green(self):
        failing = "def test_x():\n    assert False\n"
        for files in ({"test_a.py": "import os\nprint('5 passed')\nos._exit(0)\n"},
                      {"test_a.py": failing, "conftest.py": "def pytest_sessionfinish(session):\n    session.exitstatus = 0\n"},
                      {"test_a.py": failing, "pytest.ini": "[pytest]\naddopts = --collect-only\n"}):
            answer = self.run_code("", runtime="pytest", files=[pb.InputFile(path=path, text=text) for path, text in files.items()])
            report = answer.result.test_report
            is_green = (answer.result.verdict.code == OK and report.is_present and report.tests > 0
                        and report.passed == report.tests)
            self.assertFalse(is_green, answer.result.summary)

    # ---- the service ----

    def test_security_5_the_client_can_ask_what_is_enforced(self):
        capabilities = self.stub.GetCapabilities(pb.GetCapabilitiesRequest())
        names = [control.name for control in capabilities.controls]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreaterEqual(set(names), {"network", "memory", "cpu", "seccomp", "wall_time"})
        self.assertEqual(names, [control.name for control in self.must(OK, self.shell(":")).policy.controls])

    def test_security_15_every_killed_run_says_why_under_load(self):
        calls = [self.stub.Run.future(pb.RunRequest(runtime="python", code="x = bytearray(40 << 20)" if i % 2 else "pass", limits=pb.Limits(
            memory_bytes=32 << 20)), timeout=60) for i in range(24)]
        for i, call in enumerate(calls):
            self.must(lab.MEMORY if i % 2 else OK, call.result())


class Service(lab.unittest.TestCase):
    def start_fails(self, *flags):
        done = subprocess.run([lab.SANDBOXD, *flags], stdin=subprocess.DEVNULL, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        return done.stdout

    def test_sandbox_54_nobody_can_call_without_a_token_or_a_socket(self):
        self.assertIn("--token-file", self.start_fails("--socket=", "--listen=127.0.0.1:0"))
        self.assertIn("--token-file", self.start_fails("--socket=", "--listen=0.0.0.0:0"))
        with lab.start() as service:
            self.assertEqual(os.stat(service.socket).st_mode & 0o777, 0o600)
            self.assertEqual(os.stat(os.path.dirname(service.socket)).st_mode & 0o077 & ~0o011, 0)

    def test_sandbox_62_a_token_is_in_no_log(self):
        folder = lab.host.tempfile.mkdtemp(prefix="crisol-token-")
        path = os.path.join(folder, "token")
        token = "confidential-horse-battery"
        with open(os.open(path, os.O_CREAT | os.O_WRONLY, 0o600), "w", encoding="utf-8") as file:
            file.write(token + "\n")
        try:
            with lab.start("--listen=127.0.0.1:0", f"--token-file={path}", "--log-level=debug") as service:
                with grpc.insecure_channel(f"127.0.0.1:{service.port()}") as channel:
                    stub = services.SandboxServiceStub(channel)
                    request = pb.RunRequest(runtime="shell", code="env; cat /proc/*/environ /proc/*/cmdline")
                    answer = stub.Run(request, metadata=(("authorization", f"Bearer {token}"),), timeout=90)
                    self.assertNotIn(token.encode(), answer.stdout_data)
                    for wrong in (token[:-1], token + "x", token.upper()):
                        with self.assertRaises(grpc.RpcError) as caught:
                            stub.Run(request, metadata=(("authorization", f"Bearer {wrong}"),), timeout=90)
                        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAUTHENTICATED)
                for pid in service.family():
                    for name in ("environ", "cmdline"):
                        # A box that had its run may end while we look.
                        with contextlib.suppress(FileNotFoundError, ProcessLookupError), open(f"/proc/{pid}/{name}", "rb") as file:
                            self.assertNotIn(token.encode(), file.read())
                self.assertNotIn(token[:12], service.log())
        finally:
            lab.host.shutil.rmtree(folder)

    def test_sandbox_64_control_groups_that_are_read_only_are_named_before_the_start(self):
        if lab.BACKEND != "native":
            return  # the engine makes the groups: test_each_fault_of_an_engine_has_a_line_of_its_own
        script = ("for m in $(awk '/ - cgroup2? /{print $5}' /proc/self/mountinfo); do mount -o remount,bind,ro $m || exit 99; done\n"
                  'exec "$@"')
        read_only = ["unshare", "-m", "sh", "-c", script, "sh", lab.SANDBOXD]
        with lab.host.tempfile.TemporaryDirectory(prefix="crisol-cgroups-") as folder:
            flags = [f"--socket={folder}/s/sandboxd.sock", "--backend=native"]
            done = subprocess.run([*read_only, "check", *flags], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertRegex(done.stdout, r"FAIL +control groups: a folder of our own: .*[Rr]ead-only")
            done = subprocess.run([*read_only, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                                  check=False)
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertNotIn("sandboxd ready", done.stdout + done.stderr)

    def test_security_47_a_backend_that_was_asked_for_is_never_replaced(self):
        with lab.host.tempfile.TemporaryDirectory(prefix="crisol-none-") as folder:
            text = self.start_fails("--backend=docker", f"--docker-socket={folder}/docker.sock", f"--socket={folder}/s/s")
        self.assertIn("docker", text)
        self.assertNotIn("sandboxd ready", text)
        self.assertNotIn("native", text)

    def test_security_45_names_of_callers_cannot_forge_a_log_line(self):
        with lab.start() as service:
            stub = services.SandboxServiceStub(service.channel)
            for runtime in ("x\nsandboxd ready", "y\r\n2026 error", "z\x1b[31m"):
                with self.assertRaises(grpc.RpcError):
                    stub.Run(pb.RunRequest(runtime=runtime, code="x", request_id="a\nsandboxd ready"), timeout=90)
            self.assertEqual(service.log().count("sandboxd ready"), 1)
            self.assertNotIn("\x1b", service.log())


if __name__ == "__main__":
    threading.stack_size(1 << 20)
    lab.main()
