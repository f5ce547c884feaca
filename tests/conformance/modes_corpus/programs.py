# SPDX-License-Identifier: Apache-2.0
"""Programs without pytest."""
from .cases import PYTHON, program

program("hello", "print('hello')\n")
program("identity", """
    import os, sys, platform
    print(__name__, __file__, __spec__, __package__, __cached__, sorted(globals()), type(__loader__))
    print(sys.argv, sys.orig_argv, sys.path, sys.flags, sys.executable)
    print(os.getpid(), os.getppid(), os.getuid(), os.getcwd(), os.getsid(0), platform.node(), oct(os.umask(0o22)))
    print(sorted(os.environ.items()))
    print(open("/proc/self/cmdline", "rb").read())
""")
program("modules", "import sys\nprint('\\n'.join(sorted(sys.modules)))\nprint(sorted(sys.path_importer_cache))\n")
program("streams", """
    import os, sys, fcntl
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        print(stream, stream.isatty(), stream.line_buffering, stream.buffer, stream.errors)
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        if os.path.exists(f"/proc/self/fd/{name}"):
            print(name, os.readlink(f"/proc/self/fd/{name}").split("[")[0], fcntl.fcntl(int(name), fcntl.F_GETFL))
    print(repr(sys.stdin.read()))
""")
program("helper", "import helper\nprint(helper.value, helper.__file__)\n", **{"helper.py": "value = 8\n"})
program("error", "def fail():\n    raise ValueError('in here')\n\n\nfail()\n")
program("syntax", "print('never'\n")
program("exit_code", "import sys\nsys.exit(17)\n")
program("exit_text", "import sys\nprint('out')\nsys.exit('a reason')\n")
program("destructor", """
    class Noisy:
        def __del__(self):
            print("gone")
    kept = Noisy()
    file = open("left.txt", "w")
    file.write("flushed at the end")
""")
program("at_exit", "import atexit\natexit.register(print, 'last')\nprint('first')\n")
program("frames", """
    import sys
    def depth(number=0):
        try:
            return depth(number + 1)
        except RecursionError:
            return number
    print(sys._getframe().f_back, depth())
""")
program("segfault", "import faulthandler, ctypes\nfaulthandler.enable()\nctypes.string_at(1)\n")
program("processes", """
    import multiprocessing, subprocess, sys
    def work(number):
        return number + 1
    if __name__ == "__main__":
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(work, [1, 2]))
        print(subprocess.run([sys.executable, "-c", "import os; print(os.getpid() > 3)"], capture_output=True).stdout)
""")
program("threads", """
    import asyncio, threading
    thread = threading.Thread(target=print, args=("from a thread",))
    thread.start()
    thread.join()
    print(threading.main_thread().native_id == threading.get_native_id())
    asyncio.run(asyncio.sleep(0))
""")
program("randomness", "import random\nrandom.seed(1)\nprint(random.random())\nprint(random.Random().random() != 0.5)\n")
program("signals", """
    import signal
    print([(number, signal.getsignal(number)) for number in sorted(signal.valid_signals())
           if signal.getsignal(number) != signal.SIG_DFL])
    signal.raise_signal(signal.SIGTERM)
""")
program("interrupt", "import signal\nsignal.raise_signal(signal.SIGINT)\n")
program("collector", "import gc\nprint(gc.get_freeze_count(), gc.get_threshold(), gc.isenabled())\n")
program("limits", """
    import resource
    print([(name, resource.getrlimit(getattr(resource, name))) for name in sorted(vars(resource))
           if name.startswith("RLIMIT_")])
    print([line for line in open("/proc/self/status") if line.startswith(("Uid", "Gid", "Groups", "NSpid", "Cap"))])
""")
PYTHON["missing"] = {"other.py": "print('never')\n"}
PYTHON["folder"] = {"main.py/__main__.py": "import sys\nprint('a folder', sys.path[0])\n"}
