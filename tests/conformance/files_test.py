#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Files in and out: whatever a program puts in the way, only its own plain files come back."""
import threading

import lab
from lab import COLLECT_FAILED, MIB, OK, grpc, pb, violations

FOUND, MISSING, IRREGULAR, LARGE = (pb.COLLECT_STATUS_OK, pb.COLLECT_STATUS_NOT_FOUND, pb.COLLECT_STATUS_NOT_REGULAR,
                                    pb.COLLECT_STATUS_TOO_LARGE)
BAD_NAMES = ["../x", "/abs", "a/../../x", "a//b", "a/./b", "", ".", "..", "a/", "a/..", "/", "x" * 256, "d/" * 600 + "x",
             "a/" * 16 + "x", "a\nb", "a\rb", "a\x1bb", "a\x7fb", ".crisol", ".crisol-report.xml"]
GOOD_NAMES = ["a/b.py", "unicode-é.py", "-rf", "~", "$(x)", " ", "CON", "A", "a ", "x" * 255, "d/" * 15 + "x", "...", "e\u0301", "é"]


class Files(lab.Suite):
    def collected(self, code, *paths, runtime="python", **fields):
        """path -> (status, data) of what is collected after the program."""
        answer = self.run_code(code, runtime=runtime, collect=[pb.CollectSpec(path=path) for path in paths], **fields)
        self.must(OK, answer)
        self.assertEqual([file.path for file in answer.result.files], list(paths))
        return {file.path: (file.status, file.data) for file in answer.result.files}

    def test_sandbox_47_security_1_2_42_only_plain_files_are_collected(self):
        code = """
import os, socket
open('plain', 'w').write('mine')
os.symlink('/etc/shadow', 'shadow'); os.symlink('/proc/self/environ', 'environ')
os.symlink('plain', 'to_plain'); os.symlink('loop', 'loop'); os.symlink('../../etc/passwd', 'relative')
os.symlink('/etc', 'etc'); os.symlink('.', 'here'); os.mkdir('folder'); os.mkfifo('fifo')
socket.socket(socket.AF_UNIX).bind('socket')
open('locked', 'w'); os.chmod('locked', 0); os.rename('folder', 'gone'); os.symlink('/', 'folder')
"""
        found = self.collected(code, "plain", "shadow", "environ", "to_plain", "loop", "relative", "etc/passwd", "etc",
                               "here/plain", "gone", "fifo", "socket", "folder/etc/passwd", "none", "plain/x", "locked")
        self.assertEqual(found.pop("plain"), (FOUND, b"mine"))
        self.assertEqual(found.pop("locked"), (pb.COLLECT_STATUS_UNREADABLE, b""))
        for path, (status, data) in found.items():
            self.assertEqual(data, b"", path)
            self.assertIn(status, (MISSING, IRREGULAR), path)

    def test_sandbox_47_sparse_and_large_files_are_not_read(self):
        code = ("import os\nfor name, size in (('sparse', 60 << 20), ('over', 1001), ('exact', 1000)):\n"
                "    os.truncate(os.open(name, os.O_CREAT | os.O_WRONLY), size)\n")
        specs = [pb.CollectSpec(path=path, max_bytes=1000) for path in ("sparse", "over", "exact")]
        files = self.must(OK, self.run_code(code, collect=specs)).files
        self.assertEqual([file.status for file in files], [LARGE, LARGE, FOUND])
        self.assertEqual(files[2].data, bytes(1000))
        with self.refused(grpc.StatusCode.INVALID_ARGUMENT):
            self.run_code("pass", collect=[pb.CollectSpec(path="x", max_bytes=MIB + 1)])

    def test_sandbox_47_hard_links_give_only_what_the_program_could_read(self):
        code = ("import os\nopen('a', 'w').write('own')\nos.link('a', 'b')\n"
                "for source in ('/etc/passwd', '/usr/bin/true'):\n    try:\n        os.link(source, 'host')\n"
                "    except OSError:\n        pass\n")
        found = self.collected(code, "b", "host")
        self.assertIn(found["b"], ((FOUND, b"own"), (IRREGULAR, b"")))
        self.assertEqual(found["host"], (MISSING, b""))

    def test_sandbox_47_nothing_moves_while_files_are_collected(self):
        code = ("import os, subprocess\nos.mkdir('d'); open('d/passwd', 'w').write('x' * 1000)\n"
                "swap = \"while :; do mv d e; ln -s /etc d; rm d; mv e d; done\"\n"
                "subprocess.Popen(['sh', '-c', swap], start_new_session=True)\nimport time; time.sleep(0.1)\n")
        for _ in range(5):
            status, data = self.collected(code, "d/passwd")["d/passwd"]  # there is one behind the link, too
            self.assertIn((status, data), ((FOUND, b"x" * 1000), (MISSING, b""), (IRREGULAR, b"")))

    # ---- patterns ----

    TREE = ("mkdir -p out/deep .hidden closed; echo a > a.txt; echo b > out/b.txt; echo c > out/deep/c.txt; echo d > .hidden/d.txt\n"
            "ln -s /etc etc; ln -s /etc/passwd p.txt; ln -s . here; mkfifo f.txt; ln a.txt twin.bin; echo x > \"$(printf 'n\\nl.txt')\"\n"
            "echo x > closed/x.txt; chmod 0 closed; rm twin.bin")

    def globbed(self, code, *patterns, verdict=OK, **spec):
        """[(index of the pattern, path, name of the status, data)] of what is collected."""
        specs = [pb.CollectSpec(glob=pattern, **spec) for pattern in patterns]
        files = self.must(verdict, self.shell(code, collect=specs)).files
        return [(file.spec, file.path, pb.CollectStatus.Name(file.status)[len("COLLECT_STATUS_"):], file.data) for file in files]

    def test_sandbox_47_patterns_give_only_plain_files_in_order(self):
        self.assertEqual(self.globbed(self.TREE, "*.txt", "**/*.txt", "out/**", "*.none"), [
            (0, "a.txt", "OK", b"a\n"),
            (1, ".hidden/d.txt", "OK", b"d\n"), (1, "a.txt", "OK", b"a\n"), (1, "out/b.txt", "OK", b"b\n"),
            (1, "out/deep/c.txt", "OK", b"c\n"),
            (2, "out/b.txt", "OK", b"b\n"), (2, "out/deep/c.txt", "OK", b"c\n"),
            (3, "*.none", "NOT_FOUND", b"")])

    def test_patterns_have_bounds_and_say_when_there_is_more(self):
        code = "i=0; while [ $i -lt 100 ]; do echo $i > f$i; i=$((i+1)); done"
        self.assertEqual(self.globbed(code, "f?", max_files=3), [
            (0, "f0", "OK", b"0\n"), (0, "f1", "OK", b"1\n"), (0, "f2", "OK", b"2\n"), (0, "f?", "TOO_MANY", b"")])
        self.assertEqual(len(self.globbed(code, "f*")), 65)  # 64 by default, and one that says so
        self.assertEqual(len(self.globbed(code, "f*", max_files=1024)), 100)
        self.assertEqual(self.globbed("echo 123456 > f", "f", max_bytes=6), [(0, "f", "TOO_LARGE", b"")])

    def test_required_patterns_need_every_file(self):
        self.globbed("echo a > f1", "f*", required=True)
        for code, fields in ((":", {}), ("echo a > f1; echo b > f2", {"max_files": 1}), ("echo 12345 > f1", {"max_bytes": 2})):
            self.globbed(code, "f*", required=True, verdict=COLLECT_FAILED, **fields)

    def test_bad_patterns_are_refused_by_name(self):
        for fields, name in (({"glob": "../*"}, "glob"), ({"glob": "/etc/*"}, "glob"), ({"glob": "a["}, "glob"), ({"glob": "a**"}, "glob"),
                             ({"glob": "*\n"}, "glob"), ({"glob": "*/" * 16 + "*"}, "glob"), ({"glob": "*", "path": "x"}, "glob"), ({}, "path"),
                             ({"glob": "*", "max_files": 1025}, "max_files"), ({"path": "x", "max_files": 1}, "max_files")):
            with self.refused(grpc.StatusCode.INVALID_ARGUMENT) as error:
                self.run_code("pass", collect=[pb.CollectSpec(**fields)])
            self.assertEqual(list(violations(error[0])), [f"collect[0].{name}"], fields)
        with self.refused(grpc.StatusCode.INVALID_ARGUMENT) as error:
            self.run_code("pass", collect=[pb.CollectSpec(glob="*", max_files=600)] * 2)
        self.assertEqual(list(violations(error[0])), ["collect"])

    def test_required_files_decide_and_the_rest_is_still_returned(self):
        specs = [pb.CollectSpec(path="a"), pb.CollectSpec(path="b", required=True)]
        for code, verdict in (("echo a > a", COLLECT_FAILED), ("echo a > a; ln -s a b", COLLECT_FAILED),
                              ("echo a > a; echo b > b", OK), ("echo a > a; exit 3", lab.NONZERO)):
            result = self.must(verdict, self.shell(code, collect=specs))
            self.assertEqual(result.files[0].data, b"a\n")

    def test_sandbox_48_security_6_7_links_of_one_run_are_not_followed_by_the_next(self):
        with open("/etc/passwd", "rb") as file:
            before = file.read()
        plant = "rm -f main.sh data; for n in main.sh data out /tmp/x /dev/shm/x; do ln -sf /etc/passwd $n; done; ls -a"
        for _ in range(3):
            self.must(OK, self.shell(plant, files=[pb.InputFile(path="data", text="x")]))
            answer = self.shell("cat data; ls /tmp /dev/shm; ls", files=[pb.InputFile(path="data", text="mine\n")])
            self.must(OK, answer)
            self.assertEqual(answer.stdout_data.split(b"\n")[0], b"mine")
            self.assertNotIn(b"x", answer.stdout_data.replace(b"/x:", b""))
        with open("/etc/passwd", "rb") as file:
            self.assertEqual(file.read(), before)

    def test_sandbox_50_concurrent_runs_have_their_own_input(self):
        calls = [self.stub.Run.future(pb.RunRequest(runtime="shell", code="sleep 0.05; cat", stdin_text=f"input {i}"),
                                      timeout=60) for i in range(16)]
        self.assertEqual([call.result().stdout_data for call in calls], [b"input %d" % i for i in range(16)])

    def test_sandbox_44_security_37_nothing_is_found_of_another_run(self):
        plant = """
import os, socket, ctypes, time
for folder in ('/tmp', '/dev/shm', '/workspace', os.environ['HOME'], '/var/tmp', '/run'):
    try: open(folder + '/marker-of-another-run', 'w').write('x')
    except OSError: pass
s = socket.socket(socket.AF_UNIX); s.bind('\\0marker-of-another-run')
libc = ctypes.CDLL(None, use_errno=True)
libc.shmget(0x4d41524b, 4096, 0o1666)
libc.mq_open(b'/marker', os.O_CREAT | os.O_RDWR, 0o666, None)
print('planted', flush=True)
time.sleep({seconds})
"""
        look = """
import os, socket, ctypes
# Not the kernel's folder, nor the host's, where /lib leads as well: both hold too much.
places = [e.path for e in os.scandir('/') if e.is_dir(follow_symlinks=False) and e.name not in ('proc', 'usr')]
found = [os.path.join(f, n) for place in places for f, _, names in os.walk(place) for n in names if 'marker-of' in n]
try:
    socket.socket(socket.AF_UNIX).connect('\\0marker-of-another-run'); found.append('abstract')
except OSError: pass
libc = ctypes.CDLL(None, use_errno=True)
if libc.shmget(0x4d41524b, 4096, 0) >= 0: found.append('shm')
if libc.mq_open(b'/marker', os.O_RDWR) >= 0: found.append('mq')
print(found)
"""
        self.must(OK, self.run_code(plant.replace("{seconds}", "0")))
        self.assertEqual(self.output(look), "[]\n")
        stream = self.stub.Execute(pb.ExecuteRequest(runtime="python", code=plant.replace("{seconds}", "9")), timeout=90)
        for event in stream:
            if event.WhichOneof("event") == "output":
                break
        self.assertEqual(self.output(look), "[]\n")  # nor of one that runs beside it
        stream.cancel()

    # ---- in ----

    def test_security_4_a_program_that_was_just_written_can_be_executed(self):
        with open("/bin/true", "rb") as file:
            binary = file.read()
        answers = []

        def run():
            answers.append(self.stub.Run(pb.RunRequest(
                runtime="shell", command=["/workspace/program"], files=[pb.InputFile(
                    path="program", data=binary, mode=0o755)]), timeout=60).result.summary)
        threads = [threading.Thread(target=run) for _ in range(64)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([summary for summary in answers if not summary.startswith("OK")], [])
        self.assertEqual(len(answers), 64)

    def test_bad_file_names_are_refused_by_name(self):
        for path in BAD_NAMES:
            for fields, name in (({"files": [pb.InputFile(path="ok"), pb.InputFile(path=path)]}, "files[1].path"),
                                 ({"collect": [pb.CollectSpec(path=path)]}, "collect[0].path")):
                with self.refused(grpc.StatusCode.INVALID_ARGUMENT) as error:
                    self.run_code("pass", **fields)
                self.assertEqual(list(violations(error[0])), [name], repr(path))

    def test_good_file_names_come_back_as_they_went_in(self):
        files = [pb.InputFile(path=path, text=path) for path in GOOD_NAMES if path != "A"] + [pb.InputFile(path="A", text="A")]
        collect = [pb.CollectSpec(path=path) for path in GOOD_NAMES]
        result = self.must(OK, self.shell(":", files=files, collect=collect))
        self.assertEqual([file.data.decode() for file in result.files], GOOD_NAMES)

    def test_names_that_clash_or_are_no_text_are_refused(self):
        for paths in (("x", "x"), ("a", "a/b"), ("a/b", "a"), ("a/b/c", "a/b")):
            with self.refused(grpc.StatusCode.INVALID_ARGUMENT) as error:
                self.run_code("pass", files=[pb.InputFile(path=path) for path in paths])
            self.assertIn("files[1].path", violations(error[0]))
        raw = self.service.channel.unary_unary(f"/{lab.SERVICE}/Run", lambda data: data, lambda data: data)
        for name in (b"a\0b", b"\xff", b"\xed\xa0\x80"):
            file = b"\x0a" + bytes([len(name)]) + name
            with self.refused(grpc.StatusCode.INVALID_ARGUMENT):
                raw(b"\x12\x06python\x1a\x01x" + b"\x32" + bytes([len(file)]) + file, timeout=90)

    def test_ten_thousand_files_are_refused_and_the_maximum_works(self):
        for count in (1025, 10000):
            with self.refused(grpc.StatusCode.INVALID_ARGUMENT) as error:
                self.run_code("pass", files=[pb.InputFile(path=f"f{i}") for i in range(count)])
            self.assertEqual(violations(error[0]), {"files": f"{count} files are more than the maximum of 1024"})
        files = [pb.InputFile(path=f"d{i % 9}/f{i}", text="x") for i in range(1024)]
        self.assertEqual(self.output("import os\nprint(sum(len(n) for _, _, n in os.walk('.')) - 1)", files=files), "1024\n")

    def test_modes_and_read_only_files_hold(self):
        files = [pb.InputFile(path="x", text="#!/bin/sh\necho ran\n", mode=0o755), pb.InputFile(path="plain", text="x"),
                 pb.InputFile(path="fixed", text="fixed", read_only=True)]
        code = ("./x; stat -c %a x plain; echo new 2>/dev/null > fixed; rm -f fixed 2>/dev/null; mv plain fixed 2>/dev/null; "
                "chmod 777 fixed 2>/dev/null; cat fixed")
        answer = self.shell(code, files=files)
        self.must(OK, answer)
        self.assertEqual(answer.stdout_data, b"ran\n755\n644\nfixed")
        for mode in (0o1000, 0o2755, 0o4755, 0o100644, 2 ** 32 - 1):
            with self.refused(grpc.StatusCode.INVALID_ARGUMENT) as error:
                self.run_code("pass", files=[pb.InputFile(path="x", mode=mode)])
            self.assertEqual(list(violations(error[0])), ["files[0].mode"])


if __name__ == "__main__":
    lab.main()
