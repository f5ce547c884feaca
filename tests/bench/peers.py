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


def trouble(command, prefix=()):
    """None when the command, with a number of its own, ends well here; else what it said."""
    argv = [*prefix, *command.replace("{n}", "probe").split()]
    try:
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)[:200]
    return None if done.returncode == 0 else f"ended with {done.returncode}: {done.stderr.strip()[-200:]}"


# What is compared without a daemon, and how much it isolates.
NATIVE = {"bwrap": "namespaces alone: no limit, no filter, no user of its own",
          "crun": "namespaces, control groups, user 1000; no filter",
          "runc": "namespaces, control groups, user 1000; no filter"}
# crun refuses a host whose control groups are of both versions; in a mount namespace without the
# second one it runs. All that is compared with it runs there, too.
ONE_VERSION = ("/usr/bin/unshare", "--mount", "--propagation=private", "/bin/sh", "-c",
               'umount -l /sys/fs/cgroup/unified && exec "$@"', "sh")


def oci(folder, argv, name):
    place = os.path.join(folder, name)
    os.makedirs(place, exist_ok=True)
    bundle(place, argv)
    return f"{shutil.which(name)} --root {place}/state run -b {place} crisol-bench-{{n}}"


def native(folder, argv):
    """name -> command of what needs no daemon and runs here; name -> why it does not."""
    found, reasons = {}, {}
    for name in NATIVE:
        if not shutil.which(name):
            reasons[name] = "is not installed"
            continue
        command = " ".join([shutil.which(name), *BWRAP, *argv]) if name == "bwrap" else oci(folder, argv, name)
        why = trouble(command)
        if why:
            reasons[name] = why
        else:
            found[name] = command
    return found, reasons


def run_of(server, argv, options=()):
    """The `docker run` of an argv on this engine."""
    return " ".join(["/usr/bin/env", f"DOCKER_HOST=unix://{server.socket}", shutil.which("docker"), "run", "--rm",
                     *DOCKER, *options, engine.BASE, *argv])


def exec_in(server, container, argv):
    """The `docker exec` of an argv in a container that runs."""
    return " ".join(["/usr/bin/env", f"DOCKER_HOST=unix://{server.socket}", shutil.which("docker"), "exec", container,
                     *argv])


def start_container(server, options=()):
    """A container that waits, with the policy of a sandbox: its id."""
    words = run_of(server, ["/usr/bin/sleep", "infinity"], ["--detach", *options]).split()
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.strip()


@contextlib.contextmanager
def docker():
    """An engine of its own with the base image; a text that says why there is none."""
    if not shutil.which("docker"):
        yield "there is no docker command"
        return
    server = engine.Engine()
    try:
        server.__enter__()
        server.load_base()
    except SystemExit:  # it has said why on standard output
        yield "no docker engine starts here"
        return
    try:
        yield server
    finally:
        server.__exit__(None, None, None)
