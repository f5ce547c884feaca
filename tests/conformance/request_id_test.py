#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A request id makes a retry get the first answer; the audit log has a line for each run."""
import os
import re
import stat
import threading

import lab
from lab import OK, execute, grpc, pb, reason, services

LINE = re.compile(r"^time=(\S+)Z caller=(\S+) request_id=(\S+) execution_id=(\S+) program_sha256=(\S+) "
                  r"policy_digest=(\S+) verdict=(\S+) reason=(\S+)$")
CLOCK = "import time; print(time.time_ns())"


class RequestId(lab.Suite):
    def test_retry_of_run_gets_the_first_answer(self):
        first = self.run_code(CLOCK, request_id="run-1", env={"A": "1", "B": "2"})
        again = self.run_code(CLOCK, request_id="run-1", env={"B": "2", "A": "1"})
        self.assertEqual(again, first)
        self.assertNotEqual(self.run_code(CLOCK).stdout_data, first.stdout_data)  # without an id it runs

    def test_retry_of_execute_gets_the_same_events(self):
        fields = {"runtime": "python", "request_id": "stream-1", "output_text": True,
                  "code": CLOCK + "\nimport sys; sys.stderr.write('x' * 200000)"}
        self.assertEqual(execute(self.stub, **fields), execute(self.stub, **fields))

    def test_failures_are_answers_too(self):
        answers = [self.shell("echo $$ $RANDOM; exit 9", request_id="fail-1") for _ in range(2)]
        self.must(lab.NONZERO, answers[1])
        self.assertEqual(answers[0], answers[1])

    def test_other_body_under_the_same_id_is_refused(self):
        self.run_code("pass", request_id="reuse-1")
        with self.refused(grpc.StatusCode.ALREADY_EXISTS) as error:
            self.run_code("pass # other", request_id="reuse-1")
        self.assertEqual(reason(error[0]), "REQUEST_ID_REUSED")
        with self.refused(grpc.StatusCode.ALREADY_EXISTS):
            execute(self.stub, runtime="python", code="pass", request_id="reuse-1")

    def test_retry_joins_a_run_in_flight(self):
        code = CLOCK + "; time.sleep(1)"
        request = pb.RunRequest(runtime="python", code=code, request_id="join-1")
        calls = [self.stub.Run.future(request, timeout=60) for _ in range(5)]
        answers = [call.result() for call in calls]
        self.must(OK, answers[0])
        self.assertEqual(answers, answers[:1] * 5)

    def test_retry_runs_when_the_first_caller_went_away(self):
        request = pb.ExecuteRequest(runtime="shell", request_id="gone-1", code="echo up; sleep 1; echo end")
        first = self.stub.Execute(request, timeout=60)
        next(first)
        next(first)
        events = []
        retry = threading.Thread(target=lambda: events.extend(self.stub.Execute(request, timeout=60)))
        retry.start()
        first.cancel()
        retry.join(60)
        self.assertEqual(events[-1].result.verdict.code, OK)
        self.assertNotEqual(events[-1].execution_id, "")
        self.assertEqual(lab.output_of(events), b"up\nend\n")

    def test_cancelled_by_name_stays_cancelled_for_whoever_joined(self):
        request = pb.RunRequest(runtime="shell", request_id="stop-1", code="sleep 30",
                                limits=pb.Limits(wall_time_ms=60000))
        calls = [self.stub.Run.future(request, timeout=60) for _ in range(2)]
        lab.host.wait_for(lambda: self.stub.Cancel(pb.CancelRequest(request_id="stop-1")).found, 10, "it runs")
        for call in calls:
            self.must(lab.CANCELLED, call.result())

    def test_answer_that_is_too_large_is_not_run_again(self):
        code = "import sys\nsys.stdout.write('x' * (9 << 20))"
        fields = {"runtime": "python", "code": code, "request_id": "big-1",
                  "limits": pb.Limits(output_bytes=16 << 20, wall_time_ms=60000)}
        self.assertEqual(len(lab.output_of(execute(self.stub, **fields))), 9 << 20)
        with self.refused(grpc.StatusCode.ALREADY_EXISTS) as error:
            execute(self.stub, **fields)
        self.assertEqual(reason(error[0]), "RESULT_NOT_KEPT")

    def test_refused_request_leaves_its_id_free(self):
        with self.refused(grpc.StatusCode.INVALID_ARGUMENT):
            self.run_code("pass", request_id="free-1", limits={"open_files": 1})
        self.must(OK, self.run_code("pass", request_id="free-1"))


class Audit(lab.Suite):
    @classmethod
    def setUpClass(cls):
        cls.folder = lab.host.tempfile.mkdtemp(prefix="crisol-audit-")
        cls.path = os.path.join(cls.folder, "audit.log")
        cls.flags = (f"--audit-log={cls.path}", "--queue=1")
        cls.slots = 1
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        lab.host.shutil.rmtree(cls.folder)

    def lines(self, request_id):
        """Lines about this request id: caller, request id, execution, program, policy, verdict, reason."""
        with open(self.path, encoding="utf-8") as file:
            found = [LINE.match(line.rstrip("\n")) for line in file]
        self.assertNotIn(None, found)
        return [match.groups()[1:] for match in found if match[3] == request_id]

    def line(self, request_id):
        found = lab.host.wait_for(lambda: self.lines(request_id), 5, f"a line for {request_id}")
        self.assertEqual(len(found), 1)
        return found[0]

    def test_file_is_private_and_only_the_front_has_it(self):
        info = os.stat(self.path)
        self.assertEqual(stat.S_IMODE(info.st_mode), 0o600)
        self.assertEqual(info.st_uid, 0)

    def test_finished_run_has_one_line(self):
        result = self.run_code("secret_marker = 1", request_id="audit-1", limits={"wall_time_ms": 4000}).result
        other = self.run_code("secret_marker = 2", request_id="audit-2").result
        caller, _, execution, program, policy, verdict, why = self.line("audit-1")
        self.assertEqual((caller, execution, verdict, why), ("uid:0", result.execution_id, "OK", "-"))
        self.assertRegex(program, "^[0-9a-f]{64}$")
        self.assertEqual(policy, result.policy.digest)
        self.assertNotEqual(program, self.line("audit-2")[3])
        self.assertNotEqual(policy, other.policy.digest)
        with open(self.path, encoding="utf-8") as file:
            self.assertNotIn("secret_marker", file.read())
        self.run_code("secret_marker = 1", request_id="audit-3")  # the same program under another policy
        self.assertEqual(self.line("audit-3")[3], program)

    def test_limit_and_vanished_caller_have_their_verdicts(self):
        self.run_code("while True: pass", request_id="audit-wall", limits={"wall_time_ms": 300})
        self.assertEqual(self.line("audit-wall")[5], "WALL_TIME_LIMIT")
        stream = self.stub.Execute(pb.ExecuteRequest(runtime="shell", code="echo; sleep 30", request_id="audit-gone"))
        next(stream)
        next(stream)
        stream.cancel()
        self.assertEqual(self.line("audit-gone")[5], "CANCELLED")

    def test_refusals_have_a_line_without_an_execution(self):
        with self.refused(grpc.StatusCode.INVALID_ARGUMENT):
            self.run_code("pass", request_id="audit-bad", limits={"open_files": 1})
        self.assertEqual(self.line("audit-bad")[2:], ("-", "-", "-", "INVALID_ARGUMENT", "-"))
        with self.refused(grpc.StatusCode.INVALID_ARGUMENT):
            self.run_code("pass", request_id="forged verdict=OK\ncaller=uid:7")
        self.assertFalse([line for line in self.lines("-") if line[0] == "uid:7"])

    def test_refusal_of_a_full_queue_has_a_line(self):
        calls = [self.stub.Run.future(pb.RunRequest(runtime="shell", code="sleep 2", request_id=f"audit-q{i}"),
                                      timeout=60) for i in range(4)]
        codes = [call.code() for call in calls]  # waits for each
        self.assertIn(grpc.StatusCode.RESOURCE_EXHAUSTED, codes)
        for i, code in enumerate(codes):
            expected = ("OK", "-") if code == grpc.StatusCode.OK else ("RESOURCE_EXHAUSTED", "QUEUE_FULL")
            self.assertEqual(self.line(f"audit-q{i}")[5:], expected)

    def test_retry_has_no_line_because_nothing_ran(self):
        for _ in range(3):
            self.run_code("pass", request_id="audit-retry")
        self.line("audit-retry")

    def test_front_that_is_restarted_goes_on_with_the_file(self):
        with lab.start(f"--audit-log={self.path}") as service:
            stub = services.SandboxServiceStub(service.channel)
            os.kill(service.child("sandboxd-front"), 9)
            service.wait_ready(2)
            stub.Run(pb.RunRequest(runtime="shell", code="true", request_id="audit-new"), wait_for_ready=True)
            self.assertEqual(self.line("audit-new")[5], "OK")


class AuditInTheLog(lab.unittest.TestCase):
    def test_without_a_file_the_lines_are_in_the_log(self):
        with lab.start() as service:
            stub = services.SandboxServiceStub(service.channel)
            stub.Run(pb.RunRequest(runtime="shell", code="true", request_id="in-the-log"))
            lab.host.wait_for(lambda: re.search(r"audit caller=uid:0 request_id=in-the-log .* verdict=OK",
                                                service.log()), 5, "the line")

    def test_bad_file_refuses_to_start(self):
        done = lab.host.subprocess.run(
            [lab.SANDBOXD, "--socket=/tmp/none/s", "--audit-log=/dev/null"],
            stdout=lab.host.subprocess.PIPE, stderr=lab.host.subprocess.STDOUT, text=True, timeout=90, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--audit-log", done.stdout)


if __name__ == "__main__":
    lab.main()
