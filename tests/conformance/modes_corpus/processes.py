# SPDX-License-Identifier: Apache-2.0
"""Processes and threads."""
from .cases import add

add("threads", """
    import threading
    from concurrent.futures import ThreadPoolExecutor

    def test_pool():
        with ThreadPoolExecutor(3) as pool:
            assert list(pool.map(abs, [-1, -2, -3])) == [1, 2, 3]

    def test_failing_thread():
        thread = threading.Thread(target=int, args=("x",), name="worker")
        thread.start()
        thread.join()

    def test_identity():
        print(threading.main_thread().native_id == threading.get_native_id(), threading.active_count())
        print(threading.current_thread(), threading.stack_size())
        assert False
""")
add("late_thread", """
    import os
    import threading
    import time

    def work():
        threading.main_thread().join()  # over as soon as the interpreter begins to end, however long the session took
        time.sleep(0.1)
        os.write(1, b"thread ends after the session\\n")

    def test_leaves_one():
        threading.Thread(target=work).start()
""")
add("forks", """
    import os
    import sys

    def test_exit_code():
        pid = os.fork()
        if pid == 0:
            os._exit(5)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 5

    def test_child_raises():
        pid = os.fork()
        if pid == 0:
            print("in the child")
            sys.exit(6)
        print(os.waitpid(pid, 0)[1] >> 8)
        assert False
""")
add("multiprocessing", """
    import multiprocessing as mp
    import pytest
    from solution import square

    @pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
    def test_pool(method):
        with mp.get_context(method).Pool(1) as pool:
            assert pool.map(square, [2, 3]) == [4, 10]

    def test_queue():
        queue = mp.Queue()
        process = mp.Process(target=queue.put, args=("item",))
        process.start()
        assert queue.get(timeout=5) == "item"
        process.join()
""", {"solution.py": "def square(number):\n    return number * number\n"})
add("asynchronous", """
    import asyncio

    async def test_is_not_awaited():
        assert False

    def test_gather():
        async def wait(number):
            await asyncio.sleep(0)
            return number

        async def all_of_them():
            return await asyncio.gather(wait(1), wait(2))

        assert asyncio.run(all_of_them()) == [1, 3]
""")
add("child_pytest", """
    import subprocess
    import sys

    def test_inside():
        with open("/tmp/test_inner.py", "w", encoding="utf-8") as file:
            file.write("def test_inner(): assert 0\\n")
        done = subprocess.run([sys.executable, "-I", "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider",
                               "--rootdir=/tmp", "/tmp/test_inner.py"], capture_output=True, text=True)
        print(done.returncode, done.stdout, done.stderr)
        assert False
""")
add("server", """
    import http.server
    import threading
    import urllib.request

    def test_asks_itself():
        server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
        threading.Thread(target=server.handle_request).start()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/") as answer:
            assert answer.status == 200
""")
