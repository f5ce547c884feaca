# SPDX-License-Identifier: Apache-2.0
"""The programs that every runtime is tried with, each in its own language."""

PYTHON = {
    "hello": 'print("hello")',
    "echo": "import sys\nsys.stdout.write(sys.stdin.read())",
    "broken": "def f(:\n    pass",
    "loop": "while True:\n    pass",
    "memory": "blocks = []\nwhile True:\n    blocks.append(bytearray(1 << 20))",
    "threads": "import threading\nsums = []\n"
               "threads = [threading.Thread(target=lambda n=n: sums.append(n)) for n in range(8)]\n"
               "[t.start() for t in threads]\n[t.join() for t in threads]\nprint(sum(sums))",
    "files": 'text = open("in.txt").read()\nopen("out.txt", "w").write(text.upper())',
}
C = {
    "hello": '#include <stdio.h>\nint main(void) { puts("hello"); return 0; }',
    "echo": "#include <stdio.h>\nint main(void) { int c; while ((c = getchar()) != EOF) putchar(c); return 0; }",
    "broken": "int main(void) { return missing; }",
    "loop": "int main(void) { for (volatile int i = 0;; i++) ; }",
    "memory": "#include <stdlib.h>\n#include <string.h>\n"
              "int main(void) { for (;;) { char *p = malloc(1 << 20); if (!p) return 9; memset(p, 1, 1 << 20); } }",
    "threads": "#include <pthread.h>\n#include <stdio.h>\nstatic int sums[8];\n"
               "static void *add(void *at) { *(int *)at = (int)((int *)at - sums); return 0; }\n"
               "int main(void) { pthread_t t[8]; int sum = 0;\n"
               "for (int i = 0; i < 8; i++) pthread_create(&t[i], 0, add, &sums[i]);\n"
               'for (int i = 0; i < 8; i++) { pthread_join(t[i], 0); sum += sums[i]; }\nprintf("%d\\n", sum); return 0; }',
    "files": "#include <stdio.h>\n#include <ctype.h>\nint main(void) { FILE *in = fopen(\"in.txt\", \"r\");\n"
             "FILE *out = fopen(\"out.txt\", \"w\"); int c;\n"
             "while ((c = fgetc(in)) != EOF) fputc(toupper(c), out); return fclose(out); }",
}
CPP = {
    "hello": '#include <iostream>\nint main() { std::cout << "hello\\n"; }',
    "echo": "#include <iostream>\nint main() { std::cout << std::cin.rdbuf(); }",
    "broken": "int main() { return missing; }",
    "loop": "int main() { for (volatile int i = 0;; i = i + 1) ; }",
    "memory": "#include <string>\n#include <list>\nint main() { std::list<std::string> l; for (;;) l.emplace_back(1 << 20, 'x'); }",
    "threads": "#include <thread>\n#include <vector>\n#include <atomic>\n#include <cstdio>\n"
               "int main() { std::atomic<int> sum{0}; std::vector<std::thread> t;\n"
               "for (int i = 0; i < 8; i++) t.emplace_back([i, &sum] { sum += i; });\n"
               'for (auto &x : t) x.join(); std::printf("%d\\n", sum.load()); }',
    "files": "#include <fstream>\n#include <cctype>\nint main() { std::ifstream in(\"in.txt\"); std::ofstream out(\"out.txt\"); char c;\n"
             "while (in.get(c)) out.put(static_cast<char>(std::toupper(c))); }",
}
GO = {
    "hello": 'package main\n\nimport "fmt"\n\nfunc main() { fmt.Println("hello") }',
    "echo": 'package main\n\nimport (\n"io"\n"os"\n)\n\nfunc main() { io.Copy(os.Stdout, os.Stdin) }',
    "broken": "package main\n\nfunc main() { return missing }",
    "loop": "package main\n\nfunc main() { for { } }",
    "memory": "package main\n\nfunc main() { var l [][]byte; for { b := make([]byte, 1<<20); for i := range b { b[i] = 1 }; l = append(l, b) } }",
    "threads": 'package main\n\nimport (\n"fmt"\n"sync"\n"sync/atomic"\n)\n\nfunc main() { var w sync.WaitGroup; var s int64\n'
               "for i := int64(0); i < 8; i++ { w.Add(1); go func(n int64) { atomic.AddInt64(&s, n); w.Done() }(i) }\n"
               "w.Wait(); fmt.Println(s) }",
    "files": 'package main\n\nimport (\n"bytes"\n"os"\n)\n\nfunc main() { b, _ := os.ReadFile("in.txt"); os.WriteFile("out.txt", bytes.ToUpper(b), 0o644) }',
}
JAVA = {name: "import java.nio.file.*;\nimport java.util.*;\n"
              f"public class Main {{ public static void main(String[] a) throws Exception {{ {body} }} }}"
        for name, body in {
            "hello": 'System.out.println("hello");',
            "echo": "System.in.transferTo(System.out); System.out.flush();",
            "broken": "return missing;",
            "loop": "for (;;) ;",
            "memory": "List<byte[]> l = new ArrayList<>(); for (;;) l.add(new byte[1 << 20]);",
            "threads": "int[] s = new int[8]; Thread[] t = new Thread[8];"
                       " for (int i = 0; i < 8; i++) { int n = i; t[i] = new Thread(() -> s[n] = n); t[i].start(); }"
                       " for (Thread x : t) x.join(); System.out.println(Arrays.stream(s).sum());",
            "files": 'Files.writeString(Path.of("out.txt"), Files.readString(Path.of("in.txt")).toUpperCase());',
        }.items()}
RUST = {
    "hello": 'fn main() { println!("hello"); }',
    "echo": "use std::io;\nfn main() { io::copy(&mut io::stdin(), &mut io::stdout()).unwrap(); }",
    "broken": "fn main() { missing }",
    "loop": "fn main() { loop {} }",
    "memory": "fn main() { let mut l = Vec::new(); loop { l.push(vec![1u8; 1 << 20]); } }",
    "threads": "use std::thread;\nfn main() { let t: Vec<_> = (0..8).map(|n| thread::spawn(move || n)).collect();\n"
               'println!("{}", t.into_iter().map(|x| x.join().unwrap()).sum::<i32>()); }',
    "files": "use std::fs;\nfn main() { let s = fs::read_to_string(\"in.txt\").unwrap(); fs::write(\"out.txt\", s.to_uppercase()).unwrap(); }",
}
NODE = {
    "hello": 'console.log("hello")',
    "echo": "process.stdin.pipe(process.stdout)",
    "broken": "function (",
    "loop": "for (;;) ;",
    "memory": "const l = []; for (;;) l.push(Buffer.alloc(1 << 20, 1))",
    "threads": 'const { Worker } = require("worker_threads"); let s = 0, left = 2;\n'
               "for (const n of [13, 15]) new Worker(`require('worker_threads').parentPort.postMessage(${n})`, { eval: true })"
               ".on('message', (m) => { s += m; if (--left === 0) console.log(s) })",
    "files": 'const fs = require("fs"); fs.writeFileSync("out.txt", fs.readFileSync("in.txt", "utf8").toUpperCase())',
}
SHELL = {
    "hello": "echo hello",
    "echo": "cat",
    "broken": "if true; then",
    "loop": "while :; do :; done",
    "memory": "x=$(head -c 200000000 /dev/zero | tr '\\0' a); echo ${#x}",
    "threads": "for i in 0 1 2 3 4 5 6 7; do echo $i & done | (s=0; while read n; do s=$((s + n)); done; echo $s)",
    "files": "tr a-z A-Z <in.txt >out.txt",
}
PYTEST = {
    "hello": 'def test_it():\n    print("hello")',
    "broken": "def test_it(:\n    pass",
    "loop": "def test_it():\n    while True:\n        pass",
    "memory": "def test_it():\n    blocks = []\n    while True:\n        blocks.append(bytearray(1 << 20))",
    "threads": "import threading\n\ndef test_it():\n    t = threading.Thread(target=int)\n    t.start()\n    t.join()",
    "files": 'def test_it():\n    open("out.txt", "w").write(open("in.txt").read().upper())',
}
# A page has no input but files, and one that is wrong is a page like others: heavy_built.py tries both.
BROWSER = {
    "hello": '<p id="p"></p><script>document.getElementById("p").textContent = "he" + "llo"</script>',
    "loop": "<script>for (;;) ;</script>",
    "memory": "<script>const l = []; for (;;) l.push(new Uint8Array(1 << 20).fill(1))</script>",
    # The clock of the page runs ahead whenever it has nothing to do, and would be over before the workers have begun.
    "threads": '<p id="p"></p><script>const source = new Blob(["onmessage = (m) => postMessage(m.data)"]); let s = 0, left = 8;\n'
               "const busy = setInterval(() => { for (let i = 0; i < 3e7; i++) ; }, 10);\n"
               "for (let n = 0; n < 8; n++) { const w = new Worker(URL.createObjectURL(source)); w.postMessage(n); w.onmessage = (m) => {\n"
               's += m.data; if (--left === 0) { document.getElementById("p").textContent = s; clearInterval(busy) } } }</script>',
}
LANGUAGES = {"c": C, "c++": CPP, "go": GO, "java": JAVA, "node": NODE, "pytest": PYTEST, "python": PYTHON, "rust": RUST,
             "shell": SHELL, "python-data": PYTHON, "browser": BROWSER}
# Those that have no host's tools in place of a root of their own.
ALWAYS_BUILT = {"browser", "python-data"}
# Those whose program is made by a stage of its own.
COMPILED = {"c", "c++", "go", "java", "rust"}
# A collector of garbage that gives up before the kernel does is the program's own end.
OWN_MEMORY_LIMIT = {"java", "node"}
# Its code is charged, too: at its limit the kernel may read that again and again rather than kill, until its time is over.
SLOW_AT_MEMORY_LIMIT = {"browser"}
# What the program itself needs before it can loop or take too much.
START_MS = {"browser": 8000}
START_MIB = {"browser": 304}
