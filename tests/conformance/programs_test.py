#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Honest programs of every kind do their work under the system call policy, again and again.

The files of programs/ are run through the service with the limits that an operator gives to builds. A name that the
box does not have is a failure on native, where scripts/deps.sh installs it; an image may lack all but Python.
"""
import os
import time

import lab
from lab import MIB, OK, SECURITY, pb

FOLDER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "programs")
LIMITS = {"memory_bytes": 1024 * MIB, "processes": 400, "cpu_millicores": 2000, "wall_time_ms": 200000, "open_files": 4096,
          "workspace_bytes": 256 * MIB}
ROUNDS = int(os.environ.get("CRISOL_PROGRAM_ROUNDS", "2"))
JAVA = "/usr/lib/jvm/default-java"
# Debian keeps the settings of a Java in /etc, which is not the host's in a box: it is given the one that it cannot do without.
JAVA_SETTINGS = "conf/security/java.security"

# name -> (file, shell command, what it prints, the programs that it needs)
PROGRAMS = {
    "python": ("threads.py", "/usr/bin/python3 threads.py", "fine\n", ["/usr/bin/python3"]),
    "numpy": ("arrays.py", "/usr/bin/python3 arrays.py", "fine\n", ["/usr/lib/python3/dist-packages/numpy/__init__.py"]),
    "gcc": ("program.c", "gcc -O1 -Wall -pthread program.c -o p -lm && ./p", "child 1.414\n", ["/usr/bin/gcc"]),
    "g++": ("program.cc", "g++ -std=c++17 -O1 -pthread program.cc -o p && ./p", "42 2\n", ["/usr/bin/g++"]),
    "node": ("program.js", "node program.js", "7 /path 100000 100000 hi 3 16\n", ["/usr/bin/node"]),
    "java": ("Program.java", f"ln -s {JAVA}/lib jdk/lib; D=-Djava.home=/workspace/jdk; {JAVA}/bin/javac -J$D Program.java "
             f"&& {JAVA}/bin/java $D -Djava.io.tmpdir=/tmp -cp . Program", "66 text 5 3 669\n", [f"{JAVA}/bin/javac"]),
    "go": ("program.go", "export GOCACHE=/workspace/.cache GOTMPDIR=/workspace GO111MODULE=off CGO_ENABLED=0; /usr/bin/go run program.go",
           "4950 hello child\n", ["/usr/bin/go"]),
    "tools": ("tools.sh", "sh tools.sh", "2000\n6\n3\nsymbolic link\n2001\nlocked\nfour-2\n", ["/usr/bin/make", "/usr/bin/awk"]),
}
ALWAYS = {"python"}  # on every backend

# The two other doors into the kernel of an x86-64 machine: getpid by int 0x80, and with the bit of x32.
DOORS = {"i386": r'long r; __asm__ volatile("int $0x80" : "=a"(r) : "a"(20) : "memory");',
         "x32": r'long r; __asm__ volatile("syscall" : "=a"(r) : "a"(0x40000000L | 39) : "rcx", "r11", "memory");'}


def read(name):
    with open(os.path.join(FOLDER, name), encoding="utf-8") as file:
        return file.read()


class Programs(lab.Suite):
    def start(self, name):
        file, command, _, _ = PROGRAMS[name]
        files = [pb.InputFile(path=file, text=read(file))]
        if name == "java":
            with open(os.path.join(JAVA, JAVA_SETTINGS), encoding="utf-8") as settings:
                files.append(pb.InputFile(path=f"jdk/{JAVA_SETTINGS}", text=settings.read()))
        return self.stub.Run.future(pb.RunRequest(runtime="shell", code=command, files=files, limits=pb.Limits(**LIMITS)), timeout=220)

    def available(self):
        """Names of the programs that this box can run."""
        found = set()
        for name, (_, _, _, needs) in PROGRAMS.items():
            test = " && ".join(f"test -e {path}" for path in needs)
            if self.shell(test).result.verdict.code == OK:
                found.add(name)
        if lab.BACKEND == "native":
            self.assertEqual(found, set(PROGRAMS), "scripts/deps.sh test installs what is missing")
        self.assertLessEqual(ALWAYS, found)
        return sorted(found)

    def test_sandbox_35_51_security_21_programs_in_seven_languages_do_their_work(self):
        names = self.available()
        began = time.monotonic()
        for _ in range(ROUNDS):
            for name, call in [(name, self.start(name)) for name in names]:
                answer = call.result()
                self.must(OK, answer)
                self.assertEqual(answer.stdout_data.decode(), PROGRAMS[name][2], name)
        print(f"{ROUNDS * len(names)} runs of {', '.join(names)} in {time.monotonic() - began:.1f} s")

    def test_sandbox_51_security_21_pytest_uses_all_of_itself(self):
        files = [pb.InputFile(path="test_many.py", text=read("test_many.py"))]
        for _ in range(ROUNDS):
            answer = self.run_code("", runtime="pytest", files=files, limits=LIMITS, timeout=220)
            self.assertEqual(self.must(OK, answer).test_report.passed, 43)

    def test_security_18_the_32_bit_and_the_x32_door_end_the_run(self):
        if os.uname().machine != "x86_64" or "gcc" not in self.available():
            return  # another machine has no such doors; an image has no compiler, the self-test brings its own program
        for name, door in DOORS.items():
            source = "int main(void)\n{\n    %s\n    return r > 0 ? 0 : 1;\n}\n" % door
            files = [pb.InputFile(path="door.c", text=source)]
            answer = self.shell("gcc -static-pie door.c -o door || gcc door.c -o door; exec ./door", files=files, limits=LIMITS, timeout=220)
            result = self.must(SECURITY, answer)
            self.assertEqual(result.signal, 31, name)
            self.assertIn("another ABI", result.forbidden_call)


if __name__ == "__main__":
    lab.main()
