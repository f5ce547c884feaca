#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Whatever is sent, the answer names what was wrong, and nothing is left behind."""
import random
import socket
import time

import lab
from lab import OK, execute, grpc, pb, reason, retry_delay, violations

INVALID = grpc.StatusCode.INVALID_ARGUMENT
GOOD = b"\x12\x06python\x1a\x04pass"  # runtime and code, packed


def varint(value):
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


class BadInput(lab.Suite):
    flags = ("--queue=16",)
    slots = 4

    def setUp(self):
        self.raw = self.service.channel.unary_unary(f"/{lab.SERVICE}/Run", lambda data: data, pb.RunResponse.FromString)

    def refuse_raw(self, status, data):
        with self.refused(status) as error:
            self.raw(data, timeout=90)
        return error[0]

    # ---- fields ----

    def test_environment_with_equals_signs_and_nul(self):
        answer = self.run_code("import os; print(repr(os.environ['A']))", env={"A": "b=c=\n\t\"'$(x)"})
        self.must(OK, answer)
        self.assertEqual(answer.stdout_data.decode().strip(), repr("b=c=\n\t\"'$(x)"))
        for name in ("A=B", "", "1A", "A B", "A-B", "Ä", "A" * 257):
            with self.refused(INVALID) as error:
                self.run_code("pass", env={name: "x"})
            self.assertTrue(list(violations(error[0]))[0].startswith("env["), violations(error[0]))
        for entry in (b"\x0a\x03A\0B\x12\x01x", b"\x0a\x01A\x12\x03x\0y", b"\x0a\x01A\x12\x01\xff"):
            self.assertIn("env", self.refuse_raw(INVALID, GOOD + b"\x4a" + bytes([len(entry)]) + entry).details())
        with self.refused(INVALID) as error:
            self.run_code("pass", env={f"V{i}": "x" for i in range(257)})
        self.assertEqual(list(violations(error[0])), ["env"])

    def test_arguments_have_bounds(self):
        for fields, field in (({"args": ["x"] * 1025}, "args"), ({"args": ["x" * (1 << 17)]}, "args[0]"),
                              ({"command": ["/bin/true"] * 1025, "code": ""}, "command"), ({"command": ["true"], "code": ""}, "command[0]")):
            with self.refused(INVALID) as error:
                self.stub.Run(pb.RunRequest(runtime="python", **dict({"code": "pass"}, **fields)), timeout=90)
            self.assertIn(field, violations(error[0]))
        args = ["x" * 1000] * 1024
        with self.refused(INVALID):
            self.run_code("pass", args=args + ["y" * 100000] * 1)
        self.must(OK, self.run_code("import sys; assert len(sys.argv) == 801", args=args[:800]))

    def test_numbers_that_are_no_enum_value(self):
        for number in (4, 99, 2 ** 31 - 1, -1):
            with self.refused(INVALID) as error:
                self.run_code("pass", output=pb.OutputOptions(on_overflow=number))
            self.assertEqual(list(violations(error[0])), ["output.on_overflow"])
            with self.refused(INVALID) as error:
                self.run_code("pass", backend=number)
            self.assertEqual(list(violations(error[0])), ["backend"])

    def test_unknown_fields_are_ignored_as_the_protocol_says(self):
        self.assertEqual(self.raw(GOOD + b"\xfa\x3f\x03abc", timeout=90).result.verdict.code, OK)

    def test_request_ids_and_runtimes(self):
        for request_id in ("a b", "x" * 65, "é", "a/b", "a\nb"):
            with self.refused(INVALID) as error:
                self.run_code("pass", request_id=request_id)
            self.assertEqual(list(violations(error[0])), ["request_id"])
        self.must(OK, self.run_code("pass", request_id="x" * 64))
        for runtime in ("no", "Python", "python ", "../python", "x" * 100000):
            with self.refused(grpc.StatusCode.NOT_FOUND) as error:
                self.run_code("pass", runtime=runtime)
            self.assertLess(len(error[0].details()), 1024)

    # ---- messages ----

    def test_requests_over_four_mebibytes(self):
        size = (4 << 20) - 4096
        self.must(OK, self.run_code("pass", files=[pb.InputFile(path="f", data=bytes(size))]))
        for more in (8192, 4 << 20, 20 << 20):
            with self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED):
                self.run_code("pass", files=[pb.InputFile(path="f", data=bytes(size + more))])
        self.must(OK, self.run_code("pass"))

    def test_cut_and_broken_requests(self):
        whole = pb.RunRequest(runtime="python", code="pass", files=[pb.InputFile(path="f", text="x" * 50)], env={"A": "b"},
                              limits=pb.Limits(wall_time_ms=1000), collect=[pb.CollectSpec(path="f")]).SerializeToString()
        draw = random.Random(7)
        for cut in range(1, len(whole), 3):
            try:
                self.raw(whole[:cut], timeout=90)
            except grpc.RpcError as error:
                self.assertIn(error.code(), (INVALID, grpc.StatusCode.NOT_FOUND), cut)
        for _ in range(60):
            broken = bytearray(whole)
            broken[draw.randrange(len(broken))] ^= 1 << draw.randrange(8)
            try:
                self.raw(bytes(broken), timeout=90)
            except grpc.RpcError as error:
                self.assertIn(error.code(), (INVALID, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.UNIMPLEMENTED), bytes(broken))
        for junk in (b"\xff" * 20, b"\x0b" * 200, b"\x12" + varint(2 ** 63), b"\x52\x0a\x08" + varint(2 ** 64 - 1)[:5]):
            self.refuse_raw(INVALID, junk)
        self.must(OK, self.run_code("pass"))

    def test_two_messages_and_none_on_a_unary_call(self):
        for messages in ([GOOD, GOOD], [GOOD] * 9, []):
            stream = self.service.channel.stream_unary(f"/{lab.SERVICE}/Run", lambda data: data, pb.RunResponse.FromString)
            if messages:  # the first is the request; gRPC core never hands on what comes behind it
                self.must(OK, stream(iter(messages), timeout=90))
                continue
            with self.refused(INVALID) as error:
                stream(iter(messages), timeout=90)
            self.assertIn("no complete request message", error[0].details())
        self.must(OK, self.run_code("pass"))

    def test_unknown_methods_and_other_protocols(self):
        for path in (f"/{lab.SERVICE}/Nothing", "/no.such.Service/Run", "/", "//"):
            with self.refused(grpc.StatusCode.UNIMPLEMENTED):
                self.service.channel.unary_unary(path)(b"", timeout=90)
        for data in (b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x02\0\x01", bytes(100), b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\xff" * 100):
            with socket.socket(socket.AF_UNIX) as peer:
                peer.connect(self.service.socket)
                peer.settimeout(30)
                peer.sendall(data)
                try:
                    while peer.recv(4096):  # it is closed, not left open
                        pass
                except ConnectionResetError:
                    pass
        self.must(OK, self.run_code("pass"))

    # ---- load ----

    def test_sandbox_40_five_hundred_calls_on_four_slots(self):
        self.must(OK, self.run_code("pass"))
        calls = [self.stub.Run.future(pb.RunRequest(runtime="shell", code=f"echo {i}"), timeout=120) for i in range(500)]
        done = 0
        for i, call in enumerate(calls):
            if call.code() == grpc.StatusCode.OK:
                self.assertEqual(call.result().stdout_data, b"%d\n" % i)
                self.assertLess(call.result().result.timing.run_us, 5000000)
                done += 1
            else:
                self.assertEqual(call.code(), grpc.StatusCode.RESOURCE_EXHAUSTED)
                self.assertIn(reason(call.exception()), ("QUEUE_FULL",))
                self.assertGreater(retry_delay(call.exception()), 0)
        self.assertGreaterEqual(done, 19)  # four slots, of which the first run may still leave one, and a queue of sixteen

    def test_sandbox_40_waiting_is_not_charged_to_the_run(self):
        # The last ones wait for three others and run then: four seconds together, of which one is charged.
        calls = [self.stub.Run.future(pb.RunRequest(runtime="shell", code="sleep 1", limits=pb.Limits(wall_time_ms=3500)),
                                      timeout=60) for _ in range(16)]
        for call in calls:
            self.must(OK, call.result())
        self.assertGreater(max(call.result().result.timing.queue_us for call in calls), 500000)

    def test_a_retry_after_the_hint_succeeds(self):
        deadline = time.monotonic() + 60
        for _ in range(30):
            try:
                execute(self.stub, runtime="shell", code=":")
            except grpc.RpcError as error:
                lab.host.time.sleep(retry_delay(error))
            self.assertLess(time.monotonic(), deadline)


if __name__ == "__main__":
    lab.main()
