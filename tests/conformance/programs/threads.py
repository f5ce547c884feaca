# SPDX-License-Identifier: Apache-2.0
import asyncio
import concurrent.futures
import ctypes
import mmap
import multiprocessing
import os
import select
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time


def square(n):
    return n * n


async def echo():
    async def serve(reader, writer):
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    answers = []
    for i in range(20):
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"line %d\n" % i)
        answers.append(await reader.read())
        writer.close()
    child = await asyncio.create_subprocess_exec("cat", stdin=-1, stdout=-1)
    answers.append((await child.communicate(b"piped"))[0])
    server.close()
    return answers


def main():
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.map(square, range(100)) == [n * n for n in range(100)]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        assert pool.map(square, range(9)) == [n * n for n in range(9)]
    queue, lock = multiprocessing.Queue(), multiprocessing.Lock()
    with lock:
        child = multiprocessing.Process(target=queue.put, args=("from a child",))
        child.start()
        assert queue.get(timeout=20) == "from a child"
        child.join()
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        assert sum(pool.map(square, range(1000))) == 332833500
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "data.sqlite")
        for mode in ("wal", "delete"):
            with sqlite3.connect(path) as db:
                db.execute(f"pragma journal_mode={mode}")
                db.execute("create table if not exists t (x)")
                db.executemany("insert into t values (?)", [(i,) for i in range(1000)])
                assert db.execute("select max(x) from t").fetchone() == (999,)
            db.close()
    answers = asyncio.run(echo())
    assert answers[7] == b"line 7\n" and answers[-1] == b"piped", answers
    assert subprocess.run("printf '%s\n' b a | sort | tr a-z A-Z", shell=True, capture_output=True,
                          text=True, check=True).stdout == "A\nB\n"
    assert subprocess.run([sys.executable, "-c", "exit(7)"], check=False).returncode == 7
    got = threading.Event()
    signal.signal(signal.SIGALRM, lambda *_: got.set())
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    while not got.is_set():
        time.sleep(0.005)
    with mmap.mmap(-1, 1 << 20) as shared:
        if os.fork() == 0:
            shared[0:5] = b"child"
            os._exit(0)
        os.wait()
        assert shared[0:5] == b"child"
    poll = select.epoll()
    fd = os.eventfd(0)
    poll.register(fd, select.EPOLLIN)
    os.eventfd_write(fd, 3)
    assert poll.poll(1) == [(fd, select.EPOLLIN)] and os.eventfd_read(fd) == 3
    assert ctypes.CDLL(None).getpid() == os.getpid()
    print("fine")


if __name__ == "__main__":
    main()
