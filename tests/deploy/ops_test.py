#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Public reports of services like these under load, in odd places and on odd hosts, as tests; cases.tsv has the whole list."""
import os
import subprocess
import sys
import tempfile
import time
import unittest

import grpc

import lab

sys.path.insert(0, os.path.join(lab.SOURCE, "tests", "e2e"))
import sandboxd_service as host  # noqa: E402  # pylint: disable=wrong-import-position

host.need_root()
from sandbox_calls import pb, services  # noqa: E402  # pylint: disable=wrong-import-position
from grpc.health.v1 import health_pb2, health_pb2_grpc  # noqa: E402  # pylint: disable=wrong-import-position

MIB = 1 << 20
# uid of nobody we know, for what must own nothing
STRANGER = 64999
PROGRAMS = ("sandboxd", "sandboxd-native", "sandboxd-front", "sandbox-init", "sandboxd-docker", "crisol-template.so")


def check_times(channel, count):
    """How long each of `count` health checks took, in seconds."""
    stub = health_pb2_grpc.HealthStub(channel)
    times = []
    for _ in range(count):
        begin = time.monotonic()
        stub.Check(health_pb2.HealthCheckRequest(), timeout=90)
        times.append(time.monotonic() - begin)
    return sorted(times)


class Load(unittest.TestCase):
    def test_ops_8_five_hundred_calls_on_one_connection_are_served_or_refused_and_none_hangs(self):
        with host.Service("--queue=1", slots=2) as service:
            stub = services.SandboxServiceStub(service.channel)
            begin = time.monotonic()
            calls = [stub.Run.future(pb.RunRequest(runtime="shell", code="sleep 3"), timeout=150) for _ in range(500)]
            with grpc.insecure_channel(f"unix:{service.socket}") as other:
                health = check_times(other, 20)
            refused, served, last_refusal = 0, 0, 0.0
            for call in calls:
                if call.exception() is None:
                    served += 1
                    continue
                self.assertEqual(call.exception().code(), grpc.StatusCode.RESOURCE_EXHAUSTED, call.exception())
                self.assertIn("grpc-status-details-bin", dict(call.exception().trailing_metadata()))
                refused, last_refusal = refused + 1, time.monotonic() - begin
            print(f"{served} served, {refused} refused, the last one after {last_refusal:.1f} s; health at most {health[-1] * 1000:.0f} ms")
            self.assertGreaterEqual(served, 2)
            self.assertEqual(served + refused, 500)
            self.assertLess(health[-1], 8 * host_slowness())
            self.assertLess(time.monotonic() - begin, 120 * host_slowness())

    def test_ops_11_health_answers_while_every_slot_and_core_is_busy(self):
        with host.Service(slots=4) as service:
            stub = services.SandboxServiceStub(service.channel)
            spinner = "\n".join(["import threading", "for _ in range(8): threading.Thread(target=lambda: exec('while True: pass')).start()"])
            calls = [stub.Run.future(pb.RunRequest(runtime="python", code=spinner, limits=pb.Limits(wall_time_ms=4000)), timeout=60)
                     for _ in range(4)]
            time.sleep(0.5)
            with grpc.insecure_channel(f"unix:{service.socket}") as other:
                times = check_times(other, 200)
            for call in calls:
                self.assertIn(call.result().result.verdict.code, (pb.VERDICT_CODE_WALL_TIME_LIMIT, pb.VERDICT_CODE_CPU_TIME_LIMIT))
            p99 = times[int(len(times) * 0.99) - 1]
            print(f"health of 200: median {times[100] * 1000:.1f} ms, p99 {p99 * 1000:.1f} ms")
            self.assertLess(p99, 3 * host_slowness())

    def test_ops_21_ten_gigabytes_end_at_the_quota_of_the_run(self):
        with host.Service(slots=1) as service:
            stub = services.SandboxServiceStub(service.channel)
            result = stub.Run(pb.RunRequest(runtime="shell", code="head -c 10000000000 /dev/zero > f; stat -c %s f", output_text=True), timeout=60)
            self.assertLessEqual(int(result.stdout_text or 0), 64 * MIB)
            self.assertIn("No space left", result.stderr_text)
            again = stub.Run(pb.RunRequest(runtime="shell", code="head -c 60000000 /dev/zero > f && echo fits", output_text=True), timeout=60)
            self.assertEqual(again.stdout_text, "fits\n")

    def test_ops_30_a_line_of_fifty_megabytes_comes_in_small_pieces(self):
        with host.Service("--max-output-bytes=67108864", slots=1) as service:
            stub = services.SandboxServiceStub(service.channel)
            code = "import sys; piece = 'x' * 65536\nfor _ in range(800): sys.stdout.write(piece)"
            sizes = []
            for event in stub.Execute(pb.ExecuteRequest(runtime="python", code=code, limits=pb.Limits(
                    output_bytes=64 * MIB, wall_time_ms=100000)), timeout=120):
                if event.WhichOneof("event") == "output":
                    sizes.append(len(event.output.data))
            self.assertEqual(sum(sizes), 800 * 65536)
            self.assertLessEqual(max(sizes), 65536)


class Places(unittest.TestCase):
    def test_ops_14_what_runs_use_is_charged_below_the_group_that_the_service_was_put_in(self):
        group = self.own_group("memory", {"memory.limit_in_bytes": 700 * MIB, "memory.max": 700 * MIB})
        with self.service_in(group) as service:
            stub = services.SandboxServiceStub(service.channel)
            before = self.usage(group)
            events = stub.Execute(pb.ExecuteRequest(runtime="python", code="x = bytearray(100 << 20); print('up', flush=True)\n"
                                                    "import time; time.sleep(4)", limits=pb.Limits(memory_bytes=128 * MIB)), timeout=60)
            peak = 0
            for _ in events:
                peak = max(peak, self.usage(group))
            self.assertGreater(peak - before, 90 * MIB)
            native = service.child("sandboxd-native")
            for folder in host.control_groups(native):
                if "/memory/" in folder or os.path.exists(os.path.join(folder, "memory.max")):
                    self.assertIn(os.path.basename(group), folder)

    def test_a_quota_on_the_group_of_the_service_is_the_most_that_a_run_may_ask_for(self):
        """As in a pod with a limit of 300m: version 1 refuses a group with more than the one above it has."""
        group = self.own_group("cpu", {"cpu.cfs_quota_us": 30000, "cpu.max": "30000 100000"})
        with self.service_in(group) as service:
            stub = services.SandboxServiceStub(service.channel)
            request = pb.RunRequest(runtime="shell", code="echo hi", limits=pb.Limits(wall_time_ms=100000))
            result = stub.Run(request, timeout=90).result  # the default of half a core is more, and lowered
            self.assertEqual(result.verdict.code, pb.VERDICT_CODE_OK, result.summary)
            self.assertEqual(stub.GetCapabilities(pb.GetCapabilitiesRequest(), timeout=90).maximum_limits.cpu_millicores, 300)
            request.limits.cpu_millicores = 301
            with self.assertRaises(grpc.RpcError) as caught:
                stub.Run(request, timeout=90)
            self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
            self.assertIn("limits.cpu_millicores: 301 is more than the maximum of 300", caught.exception.details())

    @staticmethod
    def service_in(group):
        service = host.Service(slots=1)
        service.argv = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *service.argv]
        return service

    def own_group(self, controller, settings):
        """A new group of the controller's hierarchy (version 1) or of the only one, with what of `settings` it knows."""
        for root in (f"/sys/fs/cgroup/{controller}", "/sys/fs/cgroup"):
            path = os.path.join(root, f"crisol-ops-{os.getpid()}")
            if not os.path.exists(os.path.join(root, "cgroup.procs")):
                continue
            os.makedirs(path, exist_ok=True)
            known = [name for name in settings if os.path.exists(os.path.join(path, name))]
            for name in known:
                with open(os.path.join(path, name), "w", encoding="ascii") as file:
                    file.write(str(settings[name]))
            if known:
                self.addCleanup(host.wait_for, lambda: self.remove(path), 10, "the group is empty")
                return path
            os.rmdir(path)
        return self.skipTest(f"no {controller} controller here")

    @staticmethod
    def remove(path):
        try:
            os.rmdir(path)
        except OSError:
            return False
        return True

    @staticmethod
    def usage(group):
        for name in ("memory.usage_in_bytes", "memory.current"):
            if os.path.exists(os.path.join(group, name)):
                with open(os.path.join(group, name), encoding="ascii") as file:
                    return int(file.read())
        raise AssertionError("no usage")

    def test_ops_16_groups_that_belong_to_somebody_else_are_named(self):
        """As in a pod that is privileged and has a user namespace: root inside, and the group is nobody's."""
        with tempfile.TemporaryDirectory(prefix="crisol-ops-") as folder:
            os.chmod(folder, 0o777)
            for name in PROGRAMS:
                host.shutil.copy(os.path.join(lab.BIN, name), folder)
            done = subprocess.run(["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", "unshare", "--user", "--map-root-user",
                                   "--mount", os.path.join(folder, "sandboxd"), "check", "--backend=native", f"--socket={folder}/s/s.sock"],
                                  capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"FAIL +control groups: a folder of our own: .*(denied|not permitted|not ours|owner)")

    def test_in_a_user_namespace_with_its_own_groups_programs_run_and_meet_their_limits(self):
        """As in a pod with hostUsers: false whose runtime lets it write its groups: nobody on the host, and yet everything holds."""
        group = f"crisol-userns-{os.getpid()}"
        with tempfile.TemporaryDirectory(prefix="crisol-ops-") as folder:
            os.chmod(folder, 0o755)
            os.makedirs(os.path.join(folder, "own"))
            os.chown(os.path.join(folder, "own"), 1000000000, 1000000000)
            for name in (*PROGRAMS, "crisol"):
                host.shutil.copy(os.path.join(lab.BIN, name), folder)
            script = host.shutil.copy(os.path.join(lab.HERE, "in_userns.sh"), folder)
            done = subprocess.run([sys.executable, "-B", os.path.join(lab.HERE, "in_userns.py"), group, script, folder], capture_output=True,
                                  text=True, timeout=120, check=False)
        for root, _, _ in os.walk("/sys/fs/cgroup", topdown=False):
            if f"/{group}" in root:
                host.wait_for(lambda path=root: self.remove(path), 10, "the group is empty")
        said = done.stdout
        print(said)
        self.assertIn("sandboxd would start here\n", said, done.stderr)
        self.assertIn("42 1000 2 8\nexit 0\n", said)
        self.assertIn("['self', 'thread-self'] False\nexit 0\n", said)  # the /proc below that of the box is out of reach
        self.assertRegex(said, r"MEMORY_LIMIT.*\nexit 124\n")
        self.assertRegex(said, r"(PROCESS_LIMIT|WALL_TIME_LIMIT|fork).*\nexit \d+\n")
        self.assertTrue(said.endswith("ended 0\n"), said)

    def test_ops_28_without_ipv6_addresses_of_ipv4_serve_and_others_are_named(self):
        # Two words of one shell: a network of its own, in which the kernel has no IPv6.
        alone = ["unshare", "--net", "sh", "-c", "ip link set lo up && echo 1 > /proc/sys/net/ipv6/conf/all/disable_ipv6 && exec \"$@\"", "sh"]
        orchestrator = os.path.join(lab.BIN, "orchestrator")
        with tempfile.TemporaryDirectory(prefix="crisol-ops-") as folder:
            sandbox = f"--sandbox=unix:{folder}/none.sock"
            server = host.Process("orchestrator", [*alone, orchestrator, "--listen=0.0.0.0:0", "--http=localhost:0", sandbox, "--user=64902"],
                                  os.path.join(folder, "log"))
            server.match(r" ready .*grpc=\S+ .*http=\S+")
            self.assertEqual(server.stop(), 0)
            done = subprocess.run([*alone, orchestrator, "--listen=[::1]:0", "--http=", sandbox, "--user=64902"], capture_output=True, text=True,
                                  timeout=90, check=False, env={"PATH": "/usr/bin:/bin"})
        self.assertNotEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"\[?::1\]?.*(Cannot assign requested address|Address family|IPv6)")


def host_slowness():
    return int(os.environ.get("CRISOL_SLOW_HOST", "1"))


if __name__ == "__main__":
    unittest.main(verbosity=1)
