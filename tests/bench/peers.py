# SPDX-License-Identifier: Apache-2.0
"""The other ways to run a program apart, as commands for latency_bench; those that are not here are left out."""
import contextlib
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "e2e"))
import engine  # noqa: E402 (needs the path above)

BWRAP = ("--unshare-all --die-with-parent --ro-bind /usr /usr --symlink usr/bin /bin --symlink usr/lib /lib "
         "--symlink usr/lib64 /lib64 --proc /proc --dev /dev --tmpfs /tmp --tmpfs /workspace --chdir /workspace").split()
# The policy of a sandbox, as far as docker's command line can say it without a comma, which separates peers.
DOCKER = ("--network=none --read-only --cap-drop=ALL --security-opt=no-new-privileges --memory=128m --memory-swap=128m "
          "--pids-limit=64 --cpus=0.5 --user=1000:1000 --log-driver=none --tmpfs=/tmp "
          "--tmpfs=/workspace --workdir=/workspace").split()


def bundle(folder, argv):
    """A bundle of the OCI runtime specification: the host's /usr read-only, namespaces, no network."""
    root = os.path.join(folder, "rootfs")
    for name in ("usr", "proc", "dev", "tmp", "workspace"):
        os.makedirs(os.path.join(root, name), exist_ok=True)
    for name in ("bin", "lib", "lib64"):
        if not os.path.lexists(os.path.join(root, name)):
            os.symlink(f"usr/{name}", os.path.join(root, name))
    tmpfs = ["nosuid", "nodev", "size=32m"]
    config = {
        "ociVersion": "1.0.2", "hostname": "sandbox", "root": {"path": "rootfs", "readonly": True},
        "process": {"args": argv, "cwd": "/workspace", "env": ["PATH=/usr/bin:/bin"],
                    "user": {"uid": 1000, "gid": 1000}, "noNewPrivileges": True},
        "mounts": [{"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro", "nosuid"]},
                   {"destination": "/proc", "type": "proc", "source": "proc"},
                   {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
                   {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": [*tmpfs, "noexec"]},
                   {"destination": "/workspace", "type": "tmpfs", "source": "tmpfs", "options": tmpfs}],
        "linux": {"namespaces": [{"type": name} for name in ("pid", "network", "ipc", "uts", "mount")],
                  "resources": {"memory": {"limit": 128 << 20}, "pids": {"limit": 64},
                                "cpu": {"quota": 50000, "period": 100000}}},
    }
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)


def works(command):
    """Whether the command, with a number of its own, ends well here."""
    argv = command.replace("{n}", "probe").split()
    try:
        return subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=60,
                              check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def native(folder, argv):
    """name -> command of what needs no daemon."""
    found = {}
    bwrap = shutil.which("bwrap")
    if bwrap:
        found["bwrap"] = " ".join([bwrap, *BWRAP, *argv])
    for name in ("crun", "runc"):
        program = shutil.which(name)
        if program:
            place = os.path.join(folder, name)
            os.makedirs(place, exist_ok=True)
            bundle(place, argv)
            found[name] = f"{program} --root {place}/state run -b {place} crisol-bench-{{n}}"
    return {name: command for name, command in found.items() if works(command)}


@contextlib.contextmanager
def docker():
    """A function that gives the `docker run` of an argv, on an engine of its own; None where there is none."""
    if not shutil.which("docker"):
        yield None
        return
    try:
        server = engine.Engine()
        server.__enter__()
        server.load_base()
    except SystemExit:  # it has said why
        yield None
        return
    try:
        yield lambda argv: " ".join(["/usr/bin/env", f"DOCKER_HOST=unix://{server.socket}", shutil.which("docker"),
                                     "run", "--rm", *DOCKER, engine.BASE, *argv])
    finally:
        server.__exit__(None, None, None)


@contextlib.contextmanager
def nothing():
    """As docker() where there is no engine."""
    yield None
