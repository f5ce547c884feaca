# SPDX-License-Identifier: Apache-2.0
"""A PostgreSQL server of a test's own: private paths, a unix socket, no TCP, gone at its end.

Usage: postgres.py COMMAND [ARGUMENT]...   runs it with CRISOL_TEST_POSTGRES set; 77 without a server
"""
import glob
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time


def folder_of_programs():
    """Where Debian puts initdb and postgres; None when they are not installed."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/postgres"))
    return os.path.dirname(found[-1]) if found else None


class Postgres:
    def __init__(self, narrow_mib=0):
        """With `narrow_mib` it has a folder `narrow` of so much room, in memory, which it alone sees. Needs root."""
        self.folder = tempfile.mkdtemp(prefix="crisol-pg-")
        self.data = os.path.join(self.folder, "data")
        self.log = os.path.join(self.folder, "log")
        self.programs = folder_of_programs()
        self.narrow = os.path.join(self.folder, "narrow") if narrow_mib else None
        self.narrow_mib = narrow_mib
        self.popen = None
        os.chmod(self.folder, 0o755)
        self.uid, self.gid = os.geteuid(), os.getegid()
        if self.uid == 0:  # the server refuses to run as root
            user = pwd.getpwnam("postgres")
            self.uid, self.gid = user.pw_uid, user.pw_gid
            os.chown(self.folder, self.uid, self.gid)
        if self.narrow:
            os.mkdir(self.narrow)
        try:
            subprocess.run([os.path.join(self.programs, "initdb"), "-D", self.data, "-U", "crisol", "-A",
                            "trust", "--no-sync", "--no-locale", "-E", "UTF8"], check=True, timeout=300,
                           stdout=subprocess.DEVNULL, **self.identity())
            self.start()
        except BaseException:
            self.close()
            raise

    def identity(self):
        return {"user": self.uid, "group": self.gid, "extra_groups": [], "cwd": self.folder} \
            if os.geteuid() == 0 else {"cwd": self.folder}

    def command(self):
        argv = [os.path.join(self.programs, "postgres"), "-D", self.data, "-k", self.folder,
                "-c", "listen_addresses=", "-c", "fsync=off", "-c", "shared_buffers=16MB",
                "-c", "max_connections=20", "-c", "autovacuum=off"]
        if not self.narrow:
            return argv, self.identity()
        # A mount of the server's own, so that none is left whatever becomes of the test.
        mount = f"mount -t tmpfs -o size={self.narrow_mib}m,mode=0700,uid={self.uid},gid={self.gid} tmpfs \"$0\""
        return ["unshare", "--mount", "--propagation", "private", "sh", "-c", mount + ' && exec "$@"', self.narrow,
                "setpriv", f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups", *argv], {"cwd": self.folder}

    def start(self):
        argv, identity = self.command()
        with open(self.log, "a", encoding="utf-8") as log:
            self.popen = subprocess.Popen(argv, stdout=log, stderr=log, **identity)
        until = time.monotonic() + 120
        while subprocess.run([os.path.join(self.programs, "pg_isready"), "-q", "-h", self.folder],
                             check=False).returncode != 0:
            if self.popen.poll() is not None or time.monotonic() > until:
                with open(self.log, encoding="utf-8") as log:
                    raise RuntimeError("PostgreSQL does not start:\n" + log.read())
            time.sleep(0.02)

    def stop(self, how=signal.SIGQUIT):
        """SIGQUIT is its immediate shutdown, SIGINT the fast one."""
        if self.popen and self.popen.poll() is None:
            self.popen.send_signal(how)
            try:
                self.popen.wait(90)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        self.popen = None

    def create(self, name):
        """A database of this name; its address."""
        self.ask("postgres", f"CREATE DATABASE {name}")
        return self.uri(name)

    def uri(self, name):
        return f"postgresql://crisol@/{name}?host={self.folder}"

    def ask(self, name, statement):
        done = subprocess.run([os.path.join(self.programs, "psql"), "-h", self.folder, "-U", "crisol", "-d", name,
                               "-AtXq", "-c", statement], check=True, capture_output=True, text=True, timeout=90)
        return done.stdout.strip()

    def close(self):
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def main(command):
    if not folder_of_programs():
        print("no PostgreSQL server here: scripts/deps.sh test installs one")
        return 77
    server = Postgres()
    try:
        uri = server.create("crisol_test")
        return subprocess.run(command, check=False, env={**os.environ, "CRISOL_TEST_POSTGRES": uri}).returncode
    finally:
        server.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
