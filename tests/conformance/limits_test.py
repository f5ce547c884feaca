#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Every field of Limits is enforced, at its bounds and in between."""
import importlib
import inspect

import lab
import run as runner
from google.protobuf import descriptor_pb2
from lab import CPU, DISK, FILE_SIZE, MEMORY, MIB, OK, OUTPUT, PROCESSES, SIGNALED, WALL, grpc, pb, violations

PACKAGE = "crisol.sandbox.v1"


def reflected(channel, symbol):
    """The FileDescriptorProto that the running service itself gives for a symbol, over gRPC reflection."""
    messages = importlib.import_module("grpc.reflection.v1.reflection_pb2")
    call = channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                                 messages.ServerReflectionRequest.SerializeToString,
                                 messages.ServerReflectionResponse.FromString)
    answer = next(call(iter([messages.ServerReflectionRequest(file_containing_symbol=symbol)]), timeout=90))
    return descriptor_pb2.FileDescriptorProto.FromString(answer.file_descriptor_response.file_descriptor_proto[0])


class Limits(lab.Suite):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.capabilities = cls.stub.GetCapabilities(pb.GetCapabilitiesRequest())
        file = reflected(cls.service.channel, f"{PACKAGE}.Limits")
        cls.fields = next(message for message in file.message_type if message.name == "Limits").field
        cls.backends = {value.name[len("BACKEND_"):].lower()
                        for enum in file.enum_type if enum.name == "Backend" for value in enum.value if value.number}

    def test_sandbox_42_every_limit_of_the_contract_has_a_test_of_its_enforcement(self):
        self.assertGreaterEqual(len(self.fields), 11)
        for field in self.fields:
            test = getattr(type(self), f"test_limit_{field.name}_is_enforced", None)
            self.assertIsNotNone(test, f"{field.name}: a limit that nobody enforces must be UNIMPLEMENTED")
            # One and the same test for every backend: none is left out and none is treated apart.
            self.assertNotRegex(inspect.getsource(test), "BACKEND|skip", field.name)

    def test_this_suite_runs_on_every_backend_of_the_contract(self):
        self.assertEqual(set(runner.BACKENDS), self.backends)
        self.assertIn(lab.BACKEND, self.backends)

    def hit(self, verdict, answer, name, value):
        """The verdict that a run must have, for this limit."""
        result = self.must(verdict, answer)
        self.assertEqual((result.limit_hit.limit, result.limit_hit.value), (name, value))
        return result

    # ---- one test for each field; the first test finds them by name ----

    def test_limit_wall_time_ms_is_enforced(self):
        result = self.hit(WALL, self.shell("sleep 9", limits={"wall_time_ms": 300}), "wall_time_ms", 300)
        self.assertGreaterEqual(result.usage.wall_us, 300000)
        self.assertLess(result.usage.wall_us, 5000000)  # it would sleep for nine seconds

    def test_limit_cpu_time_ms_is_enforced(self):
        limits = {"cpu_time_ms": 200, "cpu_millicores": 1000, "wall_time_ms": 50000}
        for code in ("while True: pass", "import os\nfor _ in range(3): os.fork()\nwhile True: pass"):
            result = self.hit(CPU, self.run_code(code, limits=limits), "cpu_time_ms", 200)
            self.assertLess(result.usage.cpu_total_us, 1500000)  # it would use all that the wall time allows

    def test_limit_memory_bytes_is_enforced(self):
        result = self.hit(MEMORY, self.run_code("x = bytearray(60 << 20)", limits={"memory_bytes": 40 * MIB}),
                          "memory_bytes", 40 * MIB)
        self.assertEqual(result.limit_hit.killed_by, pb.KILLED_BY_OOM_KILLER)
        self.must(MEMORY, self.shell("head -c 30000000 /dev/zero > x", limits={"memory_bytes": 20 * MIB}))

    def test_limit_processes_is_enforced(self):
        code = "import os\nfor i in range(99):\n    if os.fork() == 0:\n        import time; time.sleep(9)\n"
        result = self.hit(PROCESSES, self.run_code(code, limits={"processes": 10}), "processes", 10)
        self.assertGreaterEqual(result.usage.process_limit_hits, 1)

    def test_limit_cpu_millicores_is_enforced(self):
        limits = {"cpu_millicores": 200, "wall_time_ms": 2000}
        usage = self.must(WALL, self.run_code("while True: pass", limits=limits)).usage
        self.assertLess(usage.cpu_total_us, usage.wall_us * 0.2 + 150000)
        if usage.cpu_total_us > usage.wall_us * 0.18:  # else the machine gave it less than its share
            self.assertGreater(usage.cpu_throttled_us, 0)

    def test_limit_open_files_is_enforced(self):
        code = ("import os\nn = 3\ntry:\n    while True:\n        os.dup(1); n += 1\nexcept OSError as e:\n"
                "    os.write(2, b'%d %d' % (n, e.errno))")
        for value in (16, 100):
            answer = self.run_code(code, limits={"open_files": value})
            self.must(OK, answer)
            self.assertEqual(answer.stderr_data, b"%d 24" % value)

    def test_limit_file_size_bytes_is_enforced(self):
        answer = self.shell("exec head -c 9000 /dev/zero > f", limits={"file_size_bytes": 8192},
                            collect=[pb.CollectSpec(path="f")])
        result = self.hit(FILE_SIZE, answer, "file_size_bytes", 8192)
        self.assertEqual(result.files[0].data, bytes(8192))

    def test_limit_workspace_bytes_is_enforced(self):
        for place in ("/workspace/f", "/tmp/f", "/dev/shm/f"):
            result = self.hit(DISK, self.shell(f"head -c 2000000 /dev/zero > {place} || exit 1", limits={
                "workspace_bytes": MIB}), "workspace_bytes", MIB)
            self.assertLessEqual(result.usage.workspace_bytes, MIB)

    def test_limit_workspace_inodes_is_enforced(self):
        result = self.hit(DISK, self.run_code("for i in range(999): open(f'f{i}', 'w').close()", limits={
            "workspace_inodes": 100}), "workspace_inodes", 100)
        self.assertLessEqual(result.usage.workspace_inodes, 100)

    def test_limit_stack_bytes_is_enforced(self):
        code = ("import sys\nsys.setrecursionlimit(10 ** 6)\ndef f(n):\n    return n and list(map(f, [n - 1]))\n"
                "f(1500)\nprint('deep')")
        answer = self.run_code(code, limits={"stack_bytes": 256 << 10})
        self.assertEqual(self.must(SIGNALED, answer).signal, 11)
        self.assertEqual(self.output(code), "deep\n")  # the default is enough

    def test_limit_output_bytes_is_enforced(self):
        answer = self.shell("yes", limits={"output_bytes": 1000})
        self.hit(OUTPUT, answer, "output_bytes", 1000)
        self.assertEqual(len(answer.stdout_data), 1000)
        answer = self.shell("yes >&2", limits={"output_bytes": 1000})
        self.hit(OUTPUT, answer, "output_bytes", 1000)

    # ---- bounds ----

    def test_zero_is_the_default_and_every_result_says_so(self):
        policy = self.must(OK, self.shell("true", limits={field.name: 0 for field in self.fields})).policy
        expected = self.capabilities.default_limits
        self.assertEqual(list(policy.requested), [])
        for field in self.fields:
            self.assertEqual(getattr(policy.limits, field.name), getattr(expected, field.name), field.name)

    def test_one_is_in_force_or_refused_by_name(self):
        for field in self.fields:
            try:
                result = self.shell(":", limits={field.name: 1}).result
            except grpc.RpcError as error:
                self.assertEqual(error.code(), grpc.StatusCode.INVALID_ARGUMENT)
                self.assertEqual(list(violations(error)), [f"limits.{field.name}"])
                self.assertIn("minimum", violations(error)[f"limits.{field.name}"])
            else:
                self.assertEqual(getattr(result.policy.limits, field.name), 1)
                self.assertLess(result.verdict.code, pb.VERDICT_CODE_SANDBOX_ERROR, result.summary)

    def test_the_maximum_is_in_force_and_one_more_is_refused_by_name(self):
        for field in self.fields:
            maximum = getattr(self.capabilities.maximum_limits, field.name)
            if field.name == "output_bytes":
                maximum = 16 * MIB  # of Run, as its comment says
            result = self.must(OK, self.shell(":", limits={field.name: maximum}))
            self.assertEqual(getattr(result.policy.limits, field.name), maximum, field.name)
            top = 2 ** 32 - 1 if field.type == field.TYPE_UINT32 else 2 ** 64 - 1
            for value in {maximum + 1, min(2 ** 63, top), top}:
                with self.refused(grpc.StatusCode.INVALID_ARGUMENT) as error:
                    self.shell(":", limits={field.name: value})
                self.assertEqual(violations(error[0]), {
                    f"limits.{field.name}": f"{value} is more than the maximum of {maximum}"})

    def test_all_bad_fields_are_named_at_once(self):
        with self.refused(grpc.StatusCode.INVALID_ARGUMENT) as error:
            self.shell(":", limits={field.name: 2 ** 32 - 1 if field.type == field.TYPE_UINT32 else 2 ** 63
                                    for field in self.fields})
        self.assertEqual(set(violations(error[0])), {f"limits.{field.name}" for field in self.fields})


if __name__ == "__main__":
    lab.main()
