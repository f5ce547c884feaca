#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
The images and the compose files, with a real engine on paths of its own and without any registry; compose_test.py reads the
files alone.

The engine has no bridge and changes no firewall, so containers have no networks between them: an override joins the
services by unix sockets on volumes, and the orchestrator shares the loopback of the scripted model. Everything else is as
in deploy/compose. The images' programs come from the build folder; with CRISOL_IMAGES_BUILD=1 (make images-check) they are
compiled by the Dockerfile, as a build with a registry does it.
"""
import atexit
import io
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import unittest

import lab

sys.path.insert(0, os.path.join(lab.SOURCE, "tests", "e2e"))
import engine as docker  # noqa: E402  # pylint: disable=wrong-import-position
import sandboxd_service as services  # noqa: E402  # pylint: disable=wrong-import-position

services.need_root()
COMPOSE = lab.tool("docker-compose")
FILES = os.path.join(lab.DEPLOY, "compose")
SLOWNESS = int(os.environ.get("CRISOL_SLOW_HOST", "1"))
IS_COMPILED = os.environ.get("CRISOL_IMAGES_BUILD") == "1"
DOCKER = "/usr/bin/docker"  # Debian's, which brings the builder with it
# Of the whole image. sandboxd's has Python and pytest, which its boxes run.
LARGEST = {"orchestrator": 40 << 20, "sandboxd": 220 << 20}
FORBIDDEN = re.compile(r"(^|/)(\.env(\..*)?|\.git|[^/]*\.(pem|key)|secrets)(/|$)")

# Certificates of authorities.
PUBLIC = re.compile(r"etc/ssl/certs/|usr/lib/ssl/cert\.pem|usr/share/(ca-certificates|grpc/roots\.pem)")


class Lab:
    """The engine, its images, and a folder for everything else."""

    def __init__(self):
        self.engine = docker.Engine()
        self.folder = tempfile.mkdtemp(prefix="crisol-deploy-")
        self.env = {"PATH": "/usr/bin:/bin", "HOME": self.folder, "DOCKER_HOST": f"unix://{self.engine.socket}", "DOCKER_BUILDKIT": "1"}
        if not os.path.exists(DOCKER):
            lab.skip("there is no /usr/bin/docker (scripts/deps.sh engine)")

    def start(self):
        self.engine.__enter__()
        self.load("sandboxd", "crisol-base-sandboxd")
        self.load("postgres", "crisol-base-postgres")
        if IS_COMPILED:
            self.load("build", "crisol-base-build")
            programs = ["--build-arg=BUILD_BASE=crisol-base-build:latest"]
        else:
            self.take_programs()
            # A stage of the Dockerfile that nothing needs is not built.
            programs = ["--build-arg=PROGRAMS=crisol-programs:latest", "--build-arg=BUILD_BASE=scratch"]
        for target in ("orchestrator", "sandboxd"):
            self.build(target, programs)
        self.build_postgres()

    def stop(self):
        self.engine.__exit__(None, None, None)
        shutil.rmtree(self.folder, True)

    def load(self, base, image):
        done = subprocess.run([os.path.join(lab.HERE, "bases.sh"), base], capture_output=True, text=True, timeout=1200, check=False)
        if done.returncode != 0:
            self.stop()  # skip() leaves the whole program
            lab.skip(f"no base '{base}' can be made here: {done.stderr[-800:]}")
        self.docker("import", done.stdout.strip(), f"{image}:latest")

    def docker(self, *argv, timeout=900, folder=lab.SOURCE):
        done = subprocess.run([DOCKER, *argv], capture_output=True, text=True, timeout=timeout, check=False, cwd=folder, env=self.env)
        assert done.returncode == 0, f"docker {' '.join(argv)}: {(done.stdout + done.stderr)[-3000:]}"
        return done.stdout

    def take_programs(self):
        """The stage 'build', but for its compiler: what is installed from the build folder, divided among the images."""
        tree, images = os.path.join(self.folder, "tree"), os.path.join(self.folder, "root", "images")
        subprocess.run(["cmake", "--install", lab.BUILD, "--strip", "--prefix", "/usr"], check=True, capture_output=True, timeout=120 * SLOWNESS,
                       env={"PATH": "/usr/bin:/bin", "DESTDIR": tree})
        subprocess.run([os.path.join(lab.DEPLOY, "image", "collect.sh"), os.path.join(tree), images], check=True, timeout=120 * SLOWNESS)
        archive = os.path.join(self.folder, "programs.tar")
        with tarfile.open(archive, "w") as tar:
            tar.add(os.path.join(self.folder, "root"), ".")
        self.docker("import", archive, "crisol-programs:latest")

    def build(self, target, programs):
        """Also with what must not come in lying about in the source: the context is what .dockerignore lets in."""
        begin = time.monotonic()
        self.docker("build", "-q", "--network=none", "-f", "deploy/Dockerfile", f"--target={target}", "-t", f"crisol-{target}:0.1.0",
                    "--build-arg=BASE=crisol-base-sandboxd:latest", *programs, ".", folder=self.source(), timeout=1500)
        print(f"image of {target}: {time.monotonic() - begin:.1f} s")

    def source(self):
        """A copy of the source as git has it, with a key and a repository in it."""
        copy = os.path.join(self.folder, "source")
        if not os.path.isdir(copy):
            os.makedirs(copy)
            names = subprocess.run(["git", "-C", lab.SOURCE, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
                                   capture_output=True, check=True).stdout
            subprocess.run(["tar", "-C", lab.SOURCE, "--null", "-T", "-", "-cf", os.path.join(self.folder, "source.tar")], input=names, check=True)
            subprocess.run(["tar", "-C", copy, "-xf", os.path.join(self.folder, "source.tar")], check=True)
            for path in (".env", "common/.env", "deploy/image/.env.local", "rpc/server.key", "deploy/compose/secrets/model_key", ".git/config"):
                os.makedirs(os.path.dirname(os.path.join(copy, path)) or copy, exist_ok=True)
                with open(os.path.join(copy, path), "w", encoding="utf-8") as file:
                    file.write(services.CANARY)
        return copy

    def build_postgres(self):
        folder = os.path.join(self.folder, "postgres")
        os.makedirs(folder)
        shutil.copy(os.path.join(lab.HERE, "postgres.sh"), folder)
        with open(os.path.join(folder, "Dockerfile"), "w", encoding="utf-8") as file:
            file.write("FROM crisol-base-postgres:latest\n"
                       "RUN usermod -u 999 postgres && groupmod -g 999 postgres && install -d -m 700 -o 999 -g 999 /var/lib/postgresql/data"
                       " && ln -sf /usr/lib/postgresql/*/bin/pg_isready /usr/bin/\n"
                       "COPY postgres.sh /usr/local/bin/\nENTRYPOINT [\"/usr/local/bin/postgres.sh\"]\n")
        self.docker("build", "-q", "--network=none", "-t", "crisol-postgres:17", ".", folder=folder)

    def layers(self, image):
        """[(name of the layer, names in it)] and the configuration."""
        archive = os.path.join(self.folder, "image.tar")
        self.docker("save", "-o", archive, image)
        with tarfile.open(archive) as tar:
            manifest = json.load(tar.extractfile("manifest.json"))[0]
            config = json.load(tar.extractfile(manifest["Config"]))
            found = []
            for name in manifest["Layers"]:
                layer = io.BytesIO(tar.extractfile(name).read())
                with tarfile.open(fileobj=layer) as inner:
                    found.append((name, [member.name for member in inner]))
                assert services.CANARY.encode() not in layer.getvalue(), f"{image}: a secret of the source is in layer {name}"
        os.unlink(archive)
        return found, config


LAB = Lab()


def setUpModule():
    atexit.register(shutil.rmtree, LAB.folder, True)
    unittest.addModuleCleanup(LAB.stop)  # also after a start that failed half-way
    begin = time.monotonic()
    LAB.start()
    print(f"engine, bases and images: {time.monotonic() - begin:.1f} s")


class Images(unittest.TestCase):
    def test_no_layer_has_a_secret_or_a_repository(self):
        for target in LARGEST:
            layers, config = LAB.layers(f"crisol-{target}:0.1.0")
            names = [name for _, members in layers for name in members]
            self.assertGreater(len(names), 20)
            self.assertEqual([name for name in names if FORBIDDEN.search(name) and not PUBLIC.search(name)], [])
            self.assertNotIn(services.CANARY, json.dumps(config))
            self.assertFalse([name for name in names if name.startswith("src/")], "the source is in no image")

    def test_the_context_would_hold_a_secret_without_its_list(self):
        """So the test above can fail."""
        self.assertTrue(os.path.exists(os.path.join(LAB.source(), "common", ".env")))
        with open(os.path.join(LAB.source(), ".dockerignore"), encoding="utf-8") as file:
            self.assertIn("\n*\n", file.read())

    def test_they_are_small(self):
        for target, most in LARGEST.items():
            size = json.loads(LAB.docker("inspect", f"crisol-{target}:0.1.0"))[0]["Size"]
            print(f"crisol-{target}: {size >> 20} MiB")
            self.assertLess(size, most)

    def test_the_orchestrators_has_no_root_and_no_shell(self):
        config = json.loads(LAB.docker("inspect", "crisol-orchestrator:0.1.0"))[0]["Config"]
        self.assertEqual(config["User"], "64902:64902")
        layers, _ = LAB.layers("crisol-orchestrator:0.1.0")
        programs = [name for _, members in layers for name in members if re.search(r"(^|/)s?bin/.|libexec/crisol/.", name)]
        self.assertEqual({os.path.basename(name) for name in programs}, {"orchestrator", "crisol"})
        self.assertTrue(any(name.endswith("var/lib/dpkg/status.d/libgrpc29") for _, members in layers for name in members))

    def test_health_is_asked_by_their_own_program(self):
        for target in LARGEST:
            config = json.loads(LAB.docker("inspect", f"crisol-{target}:0.1.0"))[0]["Config"]
            self.assertEqual(config["Healthcheck"]["Test"], ["CMD", "/usr/bin/crisol", "health", f"--only={target}"])

    def test_they_say_their_settings(self):
        for target in LARGEST:
            said = LAB.docker("run", "--rm", "--network=none", f"crisol-{target}:0.1.0", "--check-config", "--grace-ms=123")
            self.assertIn("grace-ms = 123\n", said)


class Stack:
    """The compose project with an override for an engine without networks."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="stack-", dir=LAB.folder)
        self.override = os.path.join(self.folder, "override.yaml")
        # A copy, because secrets and settings are put beside the files.
        self.files = shutil.copytree(FILES, os.path.join(self.folder, "deploy", "compose"), ignore=shutil.ignore_patterns("secrets", ".env"))
        subprocess.run([os.path.join(self.files, "setup.sh")], check=True, capture_output=True, timeout=60,
                       env={**LAB.env, "GEMINI_API_KEY": "replay-takes-any-key"})
        with open(self.override, "w", encoding="utf-8") as file:
            file.write(self.text())
        self.env = {**LAB.env, "POSTGRES_IMAGE": "crisol-postgres:17"}

    @staticmethod
    def sandboxd():
        """
        What 'privileged' is, one by one, where this host itself lacks a capability and so cannot give all of them (as
        in tests/e2e/privileged_test.py); else nothing but what compose.yaml says.
        """
        names = docker.own_capabilities()
        if names is None:
            return "  sandboxd: {}\n"
        remount = docker.REMOUNT.replace("$", "$$") + 'exec /usr/libexec/crisol/sandboxd \\"$$@\\"'
        # Nor may it raise a limit of open files.
        return (f"  sandboxd:\n    privileged: false\n    ulimits: !reset null\n    cap_add: [{', '.join(names)}]\n"
                f"    security_opt: [seccomp=unconfined, apparmor=unconfined, systempaths=unconfined]\n"
                f"    entrypoint: [/bin/sh, -c, \"{remount}\", sh]\n")

    def text(self):
        replay = os.path.join(lab.BIN, "gemini-replay")
        scripts = os.path.join(lab.SOURCE, "clients", "gemini-replay", "scripts")
        return (
            "services:\n" + self.sandboxd() +
            "  model:\n    image: crisol-orchestrator:0.1.0\n    network_mode: none\n    healthcheck: {test: [CMD, /usr/bin/crisol, --help], interval: 2s}\n"
            f"    volumes: ['{replay}:/replay:ro', '{scripts}:/scripts:ro']\n"
            "    entrypoint: [/replay, --listen=127.0.0.1:9000, --script=/scripts/lru_cache.json]\n"
            "  postgres:\n    networks: !reset null\n    network_mode: none\n    tmpfs: !override ['/tmp:size=64m,mode=1777']\n"
            "    volumes: ['database:/run/postgresql']\n"
            "  orchestrator:\n    ulimits: !reset null\n    networks: !reset null\n    ports: !reset []\n    network_mode: service:model\n"
            "    depends_on: {model: {condition: service_started}}\n"
            "    environment: {GEMINI_BASE_URL: 'http://127.0.0.1:9000', CRISOL_STORE: 'postgresql://crisol@/crisol?host=/run/postgresql&passfile=/run/secrets/postgres_passfile'}\n"
            "    command: !override [--listen=0.0.0.0:50051, --http=0.0.0.0:8000, --sandbox=unix:/run/crisol/sandboxd.sock, --health-listen=127.0.0.1:50061, --grace-ms=10000, --log-format=json]\n"
            "    volumes: ['database:/run/postgresql:ro']\n"
            "volumes:\n  database:\n    driver_opts: {type: tmpfs, device: tmpfs, o: 'size=1m,mode=0755,uid=999,gid=999'}\n")

    def compose(self, *argv, timeout=180 * SLOWNESS, check=True):
        done = subprocess.run([COMPOSE, "-f", os.path.join(self.files, "compose.yaml"), "-f", self.override, *argv], capture_output=True,
                              text=True, timeout=timeout, check=False, env=self.env, stdin=subprocess.DEVNULL)
        assert not check or done.returncode == 0, f"compose {' '.join(argv)}: {(done.stdout + done.stderr)[-3000:]}"
        return done

    def up(self):
        begin = time.monotonic()
        done = self.compose("up", "-d", "--wait", "--wait-timeout", str(120 * SLOWNESS), "--no-build", check=False)
        if done.returncode != 0:
            raise AssertionError(done.stderr[-1500:] + self.compose("logs", "--tail=30", check=False).stdout[-6000:])
        print(f"compose up: {time.monotonic() - begin:.1f} s")

    def crisol(self, service, *argv, check=True):
        return self.compose("exec", "-T", service, "/usr/bin/crisol", *argv, check=check)

    def inspect(self, service):
        name = self.compose("ps", "-q", "-a", service).stdout.strip()
        return json.loads(LAB.docker("inspect", name))[0]


class Compose(unittest.TestCase):
    def test_the_stack_serves_and_its_runs_outlive_down_and_up(self):
        stack = Stack()
        try:
            stack.up()
            self.serves(stack)
            begin = time.monotonic()
            code = stack.crisol("sandboxd", "exec", "--runtime=python", "--", "print(6 * 7)")
            self.assertEqual(code.stdout, "42\n")
            done = stack.crisol("orchestrator", "run", "--json", "Write an LRU cache in Python.")
            run = json.loads(done.stdout)
            self.assertEqual(run["status"], "SUCCESS", done.stdout[-800:])
            print(f"a program and a run: {time.monotonic() - begin:.1f} s")
            listed = stack.crisol("orchestrator", "runs").stdout
            self.assertEqual(len(re.findall(r"SUCCESS", listed)), 1, listed)
            begin = time.monotonic()
            stack.compose("down")
            print(f"compose down: {time.monotonic() - begin:.1f} s")
            self.assertEqual(LAB.engine.containers(), [])
            stack.up()
            self.assertEqual(stack.crisol("orchestrator", "runs").stdout, listed)
        finally:
            stack.compose("down", "--volumes", "--timeout", "20", check=False)
        self.assertNotIn("data", LAB.docker("volume", "ls", "-q"))

    def serves(self, stack):
        for service in ("sandboxd", "orchestrator", "postgres"):
            state = stack.inspect(service)
            self.assertEqual(state["State"]["Health"]["Status"], "healthy")
            self.assertTrue(state["HostConfig"]["ReadonlyRootfs"])
        orchestrator = stack.inspect("orchestrator")
        with open(f"/proc/{orchestrator['State']['Pid']}/status", encoding="utf-8") as file:
            status = dict(line.split(":\t", 1) for line in file.read().splitlines())
        self.assertEqual(status["Uid"].split(), ["64902"] * 4)
        self.assertEqual({status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapBnd")}, {"0" * 16})
        self.assertEqual(status["NoNewPrivs"], "1")


if __name__ == "__main__":
    unittest.main(verbosity=1)
