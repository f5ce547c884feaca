#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""What runs are promised together fits into what the service itself was given."""
import os
import time

import lab
from lab import MIB, OK, grpc, pb, services, violations

GIVEN = 1024 * MIB
FOR_RUNS = GIVEN - GIVEN // 8


def memory_group():
    """(folder of this process in the hierarchy that limits memory, name of the limit)."""
    with open("/proc/self/cgroup", encoding="ascii") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    with open("/proc/self/mountinfo", encoding="utf-8") as file:
        mounts = [line.split() for line in file]
    for kind, name, own in (("cgroup", "memory.limit_in_bytes", next((path for _, names, path in lines if "memory" in names.split(",")), None)),
                            ("cgroup2", "memory.max", next((path for number, _, path in lines if number == "0"), None))):
        for mount in mounts:
            tail = mount[mount.index("-") + 1:]
            if own is not None and tail[0] == kind and (kind == "cgroup2" or "memory" in tail[2].split(",")):
                return mount[4] + own.rstrip("/"), name
    return None, None


class Admission(lab.unittest.TestCase):
    """A sandboxd in a control group of its own, as a container or a unit gives it one."""

    def setUp(self):
        self.parent, limit = memory_group()
        self.assertIsNotNone(self.parent, "no hierarchy limits memory here")
        self.group = os.path.join(self.parent, f"crisol-admission-{os.getpid()}")
        if limit == "memory.max":
            # The group of this process cannot hand controllers on; the root of what is mounted here can.
            self.group = os.path.join(self.parent.split("/cgroup")[0], "cgroup", os.path.basename(self.group))
        os.mkdir(self.group)
        self.addCleanup(self.remove)
        with open(os.path.join(self.group, limit), "w", encoding="ascii") as file:
            file.write(str(GIVEN))

    def remove(self):
        def gone():
            try:
                os.rmdir(self.group)
            except OSError:
                return not os.path.exists(self.group)
            return True
        lab.host.wait_for(gone, 10, "the control group of the test is empty")

    def start(self, *flags, slots):
        service = lab.start(*flags, slots=slots)
        service.argv = ["sh", "-c", f'echo $$ > {self.group}/cgroup.procs && exec "$@"', "sh", *service.argv]
        return service

    def test_security_50_limits_of_all_runs_together_fit_into_the_own_group(self):
        if lab.BACKEND != "native":
            return  # the engine's groups hold the runs: all of the machine counts
        with self.start(slots=4) as service:
            stub = services.SandboxServiceStub(service.channel)
            capabilities = stub.GetCapabilities(pb.GetCapabilitiesRequest())
            self.assertEqual(capabilities.maximum_limits.memory_bytes, FOR_RUNS)
            with self.assertRaises(grpc.RpcError) as caught:
                stub.Run(pb.RunRequest(runtime="shell", code=":", limits=pb.Limits(memory_bytes=FOR_RUNS + 1)), timeout=90)
            self.assertEqual(violations(caught.exception), {
                "limits.memory_bytes": f"{FOR_RUNS + 1} is more than the maximum of {FOR_RUNS}"})

            request = pb.RunRequest(runtime="shell", code="sleep 1.5", limits=pb.Limits(memory_bytes=360 * MIB))
            began = time.monotonic()
            results = [call.result().result for call in [stub.Run.future(request, timeout=60) for _ in range(4)]]
            took = time.monotonic() - began
            self.assertEqual([result.verdict.code for result in results], [OK] * 4)
            # Four slots, but two at a time: the others waited, and their time was not charged for it.
            self.assertGreaterEqual(sum(result.timing.queue_us > 300000 for result in results), 2)
            self.assertGreater(took, 3)

    def test_slots_follow_the_own_group(self):
        if lab.BACKEND != "native":
            return
        with self.start(slots=0) as service:
            stub = services.SandboxServiceStub(service.channel)
            self.assertEqual(stub.GetCapabilities(pb.GetCapabilitiesRequest()).slots, min(4, max(2, os.cpu_count())))


if __name__ == "__main__":
    lab.main()
