#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Boxes that wait for runs: used once, replaced when they die, and of no effect on a result."""
import contextlib
import os
import signal
import time
import unittest

import lab
from lab import MEMORY, MIB, OK, PROCESSES, pb, processes
from sandboxd_service import descendants, wait_for

# What the limits of a run look like from inside.
LIMITS = """
import os, resource
for name in ('NOFILE', 'FSIZE', 'STACK', 'CORE', 'MEMLOCK'):
    print(name, *resource.getrlimit(getattr(resource, 'RLIMIT_' + name)))
"""
ALLOCATE = "x = bytearray({bytes})\nx[::4096] = b'x' * len(x[::4096])\n"


def pool_of(stub):
    return stub.GetCapabilities(pb.GetCapabilitiesRequest(), timeout=90).pool


def of_user(service, inside):
    """pids of that user of a box, in all boxes."""
    found = []
    for pid in descendants(service.process.pid, with_zombies=False):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            user = processes.user_of(pid)
            if user >= processes.FIRST_BOX_UID and user % processes.BOX_UIDS == inside:
                found.append(pid)
    return found


class Suite(lab.Suite):
    flags = ("--pool=plain=2", "--preload=off")

    def warm(self, code, **fields):
        """The answer of a run that found a box waiting."""
        def ask():
            answer = self.run_code(code, **fields)
            return answer if answer.result.timing.is_pool_hit else None
        return wait_for(ask, 10, "a box that waits is taken")


class Pool(Suite):
    def boxes(self):
        """pids of sandbox-inits that wait or are about to: each is the user 0 of its box."""
        return of_user(self.service, 0)

    def test_a_run_takes_a_box_that_waits_and_says_so(self):
        def hit_counts():
            before = pool_of(self.stub)
            if not self.must(OK, self.shell("true")).timing.is_pool_hit:
                return None
            after = pool_of(self.stub)
            # Not beside a run of sandboxd's own, which is counted as well.
            return (after.slots, after.hits - before.hits, after.misses - before.misses) == (2, 1, 0)
        wait_for(hit_counts, 10, "a box that waits is taken")

    def test_another_size_of_the_workspace_makes_a_box_of_its_own(self):
        for limits in ({"workspace_bytes": 8 * MIB}, {"workspace_inodes": 100}):
            def is_one_miss(limits=limits):
                before = pool_of(self.stub)
                self.assertFalse(self.must(OK, self.shell("true", limits=limits)).timing.is_pool_hit)
                return pool_of(self.stub).misses == before.misses + 1  # but for a run of sandboxd's own beside it
            wait_for(is_one_miss, 10, "one miss is counted")

    @unittest.skipUnless(lab.BACKEND == "native", "e2e/docker_modes_test.py does this with containers")
    def test_sandbox_43_a_box_that_died_is_replaced_and_nobody_notices(self):
        self.warm("pass")
        dead = wait_for(self.boxes, 10, "a box waits")
        for pid in dead:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in dead), 10, "the dead are reaped")
        self.must(OK, self.shell("true"))
        self.warm("pass")
        self.assertFalse(set(dead) & set(self.boxes()))

    @unittest.skipUnless(lab.BACKEND == "native", "e2e/docker_modes_test.py does this with containers")
    def test_sandbox_43_a_program_that_died_as_it_waited_is_no_run_s_program(self):
        """Each is larger than its sandbox-init: the kernel kills it first when the machine is short of memory."""
        with lab.start("--pool=0,plain=1,python=1,pytest=1") as service:
            stub = lab.services.SandboxServiceStub(service.channel)
            def are_missed():
                """Each kind; a run of sandboxd's own may take a box in between, so that another has to die."""
                for pid in of_user(service, 1000) if pool_of(stub).ready == 3 else []:
                    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                        if processes.is_waiting(pid):
                            os.kill(pid, signal.SIGKILL)
                return all(f"a box of the pool died, making another kind={kind}\n" in service.log()
                           for kind in ("plain", "python", "pytest"))
            wait_for(are_missed, 30, "they are missed")
            for runtime, code in (("shell", "true"), ("python", "pass"), ("pytest", "def test(): pass")):
                def is_hit(request=pb.RunRequest(runtime=runtime, code=code)):
                    return self.must(OK, stub.Run(request, timeout=90)).timing.is_pool_hit
                wait_for(is_hit, 30, "another waits")

    @unittest.skipUnless(lab.BACKEND == "native", "e2e/docker_modes_test.py kills what waits there")
    def test_boxes_that_die_as_soon_as_they_wait_are_not_made_one_after_the_other(self):
        """A machine without memory kills the next one, too: a second passes in between."""
        with lab.start("--pool=0,plain=1") as service:
            stub = lab.services.SandboxServiceStub(service.channel)
            wait_for(lambda: pool_of(stub).ready == 1, 30, "a box waits")
            begin = time.monotonic()

            def deaths():
                for pid in of_user(service, 1000):
                    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
                        if processes.is_waiting(pid):
                            os.kill(pid, signal.SIGKILL)
                count = service.log().count("a box of the pool died, making another")
                return count if time.monotonic() > begin + 3 else None
            found = wait_for(deaths, 30, "one dies")
            self.assertLessEqual(found, 2 + (time.monotonic() - begin))

    def test_sandbox_45_no_box_is_used_twice(self):
        look = ("ls -A /workspace /tmp /dev/shm | grep -c marker; "
                "touch /workspace/marker /tmp/marker /dev/shm/marker")
        for _ in range(6):
            self.assertEqual(self.warm(look, runtime="shell").stdout_data, b"0\n")

    def test_a_network_is_used_again_only_when_nobody_made_a_socket_in_it(self):
        """A closed connection keeps its port for a minute; nobody else may meet it."""
        own = "readlink /proc/self/ns/net"
        wait_for(lambda: len({self.shell(own).stdout_data for _ in range(12)}) < 12, 20, "a network is used again")
        leave = ("import socket\na = socket.socket()\na.bind(('127.0.0.1', 45678))\na.listen()\n"
                 "b = socket.create_connection(('127.0.0.1', 45678))\nc = a.accept()[0]\nc.close()\nb.close()\n")
        for _ in range(12):  # more than there are networks at one time
            self.must(OK, self.run_code(leave))

    def test_limits_of_a_request_are_in_force_in_a_box_that_waited(self):
        limits = {"open_files": 100, "file_size_bytes": 5 * MIB, "stack_bytes": 16 * MIB}
        self.assertEqual(self.warm(LIMITS, limits=limits).stdout_data.decode().split("\n")[:3],
                         ["NOFILE 100 100", f"FSIZE {5 * MIB} {5 * MIB}", f"STACK {16 * MIB} {16 * MIB}"])
        for memory in (16 * MIB, 300 * MIB):  # lowered and raised
            result = self.must(MEMORY, self.warm(ALLOCATE.format(bytes=memory), limits={"memory_bytes": memory}))
            self.assertEqual(result.limit_hit.value, memory)
            self.assertLessEqual(result.limit_hit.observed, memory)
        self.must(PROCESSES, self.warm("import os, time\nfor i in range(9):\n    os.fork() or time.sleep(5)\n",
                                       limits={"processes": 4}))


class Modes(Suite):
    """The same requests with a pool and without."""

    def test_without_a_pool_nothing_waits_and_nothing_hits(self):
        with lab.start("--pool=0") as service:
            stub = lab.services.SandboxServiceStub(service.channel)
            answer = stub.Run(pb.RunRequest(runtime="shell", code="true"), timeout=90)
            self.assertFalse(self.must(OK, answer).timing.is_pool_hit)
            self.assertEqual((pool_of(stub).slots, pool_of(stub).ready, pool_of(stub).hits), (0, 0, 0))

    def test_the_resource_limits_are_the_same_in_both_modes(self):
        with lab.start("--pool=0") as service:
            stub = lab.services.SandboxServiceStub(service.channel)
            cold = stub.Run(pb.RunRequest(runtime="python", code=LIMITS), timeout=90)
        self.assertFalse(self.must(OK, cold).timing.is_pool_hit)
        warm = self.warm(LIMITS)
        self.assertTrue(self.must(OK, warm).timing.is_pool_hit)
        self.assertEqual(warm.stdout_data, cold.stdout_data)

    def test_a_program_has_the_same_memory_in_both_modes(self):
        """What fits into a box made for the run but for 1 MiB, fits into one that waited; 2 MiB more fit into neither."""
        limit = 64 * MIB
        with lab.start("--pool=0") as service:
            stub = lab.services.SandboxServiceStub(service.channel)

            def cold(code):
                return stub.Run(pb.RunRequest(runtime="python", code=code, limits=pb.Limits(memory_bytes=limit)), timeout=90)
            # Who is the first to read a file from the disk is charged for that, too, but can do without it.
            own = [self.must(OK, cold("pass")).usage.memory_peak_bytes for _ in range(3)]
            sizes = ((limit - max(own) - MIB, OK), (limit - min(own) + 3 * MIB, MEMORY))
            for size, verdict in sizes:
                self.must(verdict, cold(ALLOCATE.format(bytes=size)))
        for size, verdict in sizes:
            result = self.must(verdict, self.warm(ALLOCATE.format(bytes=size), limits={"memory_bytes": limit}))
            self.assertTrue(result.timing.is_pool_hit)


if __name__ == "__main__":
    lab.main()
