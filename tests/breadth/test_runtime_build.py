# SPDX-License-Identifier: Apache-2.0
"""`sandboxd runtime`: builds of folders and archives, registered, replaced, removed, interrupted; no network is needed.

The root file systems hold one static program, an interpreter of its own that prints files: a build takes a second.
"""
import hashlib
import io
import json
import os
import shutil
import signal
import subprocess
import tarfile
import time

import grpc
import pytest
import services as crisol
from sandbox_calls import pb, services as stubs

SANDBOXD = os.path.join(crisol.BIN, "sandboxd")
# `say FILE`: prints it, and its own version; `say --version` that alone.
SAY = r"""
#include <stdio.h>
#include <string.h>
#include <unistd.h>
int main(int argc, char **argv)
{
    int c;
    FILE *file;
    if (argc < 2 || strcmp(argv[1], "--version") == 0)
        return puts("say " VERSION) < 0;
    if (strcmp(argv[1], "--wait") == 0)
        return (int)sleep(60);
    file = fopen(argv[1], "r");
    if (!file)
        return 3;
    while ((c = getc(file)) != EOF)
        putchar(c);
    puts(VERSION);
    return 0;
}
"""
FILE = """\
name = say
version = {version}
description = Says what it is given
argv = /usr/bin/say
argv = main.txt
entry_file = main.txt
rootfs = build
{source}
smoke.code = hello
smoke.output = {output}
"""


@pytest.fixture(scope="module", name="place")
def make_place(tmp_path_factory):
    """A folder with a compiled `say` of versions one and two, each in a tree of its own."""
    folder = tmp_path_factory.mktemp("runtimes")
    (folder / "say.c").write_text(SAY)
    for version in ("one", "two"):
        tree = folder / version / "usr" / "bin"
        tree.mkdir(parents=True)
        subprocess.run(["gcc", "-static", f'-DVERSION="{version}"', "-o", str(tree / "say"), str(folder / "say.c")],
                       check=True, timeout=120)
    return folder


@pytest.fixture(name="state")
def make_state(tmp_path):
    return tmp_path / "state"


def write(place, version, source, output=None):
    path = place / f"say-{version}.runtime"
    path.write_text(FILE.format(version=version, source=source, output=f"hello\\n{version}" if output is None else output)
                    .replace("smoke.output = hello\\n" + version + "\n", ""))
    return str(path)


def runtime(*argv, state, ok=True, **kwargs):
    done = subprocess.run([SANDBOXD, "runtime", *argv, f"--state-dir={state}"], capture_output=True, text=True, timeout=150,
                          check=False, **kwargs)
    assert (done.returncode == 0) == ok, done.stderr
    assert "the port of the metrics is taken" not in done.stderr  # by a sandboxd that runs beside the smoke test
    return done.stdout if ok else done.stderr


def registered(state):
    folder = state / "runtimes"
    return sorted(name for name in os.listdir(folder) if name != ".lock") if folder.exists() else []


def say(address, name, code="hi\n"):
    with grpc.insecure_channel(address) as channel:
        return stubs.SandboxServiceStub(channel).Run(pb.RunRequest(runtime=name, code=code), timeout=60)


def test_two_versions_side_by_side_each_with_its_digest(place, state):
    digests = {}
    for version in ("one", "two"):
        name, digests[version] = runtime("build", write(place, version, f"build.folder = {version}"), state=state).split()
        assert name == f"say:{version}" and len(digests[version]) == 64
    assert digests["one"] != digests["two"]
    assert [line.split()[:2] for line in runtime("list", state=state).splitlines()] == [
        [f"say:{version}", digests[version]] for version in ("one", "two")]
    with crisol.Services(with_agent=False, sandboxd_flags=[f"--state-dir={state}", "--slots=2"]) as running:
        for version in ("one", "two"):
            answer = say(running.sandbox, f"say:{version}")
            assert answer.stdout_data.decode() == f"hi\n{version}\n", answer.result.summary
            assert answer.result.policy.rootfs_digest == digests[version]
            assert not answer.result.timing.is_pool_hit
        # One that is in use is neither removed nor, for its users, replaced.
        assert "is used by a sandboxd that runs" in runtime("remove", "say:one", state=state, ok=False)
        write(place, "one", "build.folder = one")
        (place / "one" / "usr" / "more").write_text("more")
        try:
            again = runtime("build", str(place / "say-one.runtime"), state=state).split()[1]
        finally:
            (place / "one" / "usr" / "more").unlink()
        assert again != digests["one"]
        answer = say(running.sandbox, "say:one")
        assert answer.stdout_data == b"hi\none\n" and answer.result.policy.rootfs_digest == digests["one"]
    runtime("remove", "say:one", state=state)
    assert registered(state) == ["say:two"]  # what was replaced went with the next command
    assert "no runtime 'say:one' is registered" in runtime("remove", "say:one", state=state, ok=False)


def test_packages_are_not_fetched_into_a_folder_that_apt_cannot_name(place, tmp_path):
    state = tmp_path / "a:b"
    assert "with a ':', move --state-dir" in runtime("build", write(place, "one", "build.package = dash"), state=state, ok=False)
    assert registered(state) == []


def test_the_digest_is_that_of_the_content(place, state):
    path = write(place, "one", "build.folder = one")
    first = runtime("build", path, state=state)
    os.utime(place / "one" / "usr" / "bin" / "say", (1, 1))
    assert runtime("build", path, state=state) == first
    os.chmod(place / "one" / "usr" / "bin" / "say", 0o744)
    try:
        assert "smoke test: " in runtime("build", path, state=state, ok=False)  # the program is another user
    finally:
        os.chmod(place / "one" / "usr" / "bin" / "say", 0o755)
    assert registered(state) == ["say:one"]


def add(archive, name, data=b"", **fields):
    member = tarfile.TarInfo(name)
    member.size = len(data)
    for field, value in fields.items():
        setattr(member, field, value)
    archive.addfile(member, io.BytesIO(data))


def layer(place, *, with_say):
    """Bytes of a layer: the interpreter, or one that hides a file and links out of the image."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as archive:
        if with_say:
            add(archive, "usr", type=tarfile.DIRTYPE, mode=0o755)
            archive.add(place / "one" / "usr" / "bin" / "say", "usr/bin/say")
            add(archive, "usr/lib/hidden", b"x")
            add(archive, "usr/out", type=tarfile.SYMTYPE, linkname=str(place))
        else:
            add(archive, "usr/lib/.wh.hidden")
            add(archive, "usr/out/planted", b"x")
            add(archive, "usr/lib/seen", b"x", mode=0o4755)
    return out.getvalue()


def docker_archive(place, path):
    with tarfile.open(path, "w") as archive:
        for number in (0, 1):
            add(archive, f"{number}/layer.tar", layer(place, with_say=number == 0))
        add(archive, "manifest.json", json.dumps([{"Layers": ["0/layer.tar", "1/layer.tar"]}]).encode())


def two_images(place, path):
    """`docker save one:1 two:1`: the first has the program, the second does not."""
    with tarfile.open(path, "w") as archive:
        for number in (0, 1):
            add(archive, f"{number}/layer.tar", layer(place, with_say=number == 0))
        add(archive, "manifest.json", json.dumps([{"RepoTags": [name], "Layers": [f"{number}/layer.tar"]}
                                                  for number, name in ((1, "two:1"), (0, "one:1"))]).encode())


def oci_archive(place, path):
    with tarfile.open(path, "w") as archive:
        def blob(data):
            digest = hashlib.sha256(data).hexdigest()
            add(archive, f"blobs/sha256/{digest}", data)
            return {"digest": f"sha256:{digest}", "size": len(data)}
        layers = [blob(layer(place, with_say=True)), blob(layer(place, with_say=False))]
        manifest = blob(json.dumps({"layers": layers}).encode())
        add(archive, "index.json", json.dumps({"manifests": [manifest]}).encode())


@pytest.mark.parametrize("pack", [docker_archive, oci_archive])
def test_images_are_unpacked_layer_by_layer(place, state, pack):
    pack(place, place / "image.tar")
    runtime("build", write(place, "one", "build.archive = image.tar"), state=state)
    root = state / "runtimes" / "say:one" / "root"
    assert not (root / "usr/lib/hidden").exists() and (root / "usr/lib/seen").exists()
    assert (root / "usr/lib/seen").stat().st_mode & 0o7777 == 0o755
    assert not (place / "planted").exists()  # the link of the lower layer was replaced, not followed


def test_one_of_several_images_must_be_named(place, state):
    two_images(place, place / "images.tar")
    source = "build.archive = images.tar"
    said = runtime("build", write(place, "one", source), state=state, ok=False)
    assert "build.archive: manifest.json: it holds 2 images: build.image says which of them: two:1, one:1" in said, said
    said = runtime("build", write(place, "one", f"{source}\nbuild.image = one:2"), state=state, ok=False)
    assert "it has no image 'one:2', but: two:1, one:1" in said and registered(state) == []
    runtime("build", write(place, "one", f"{source}\nbuild.image = one:1"), state=state)
    assert registered(state) == ["say:one"]


def test_a_plain_tree_as_archive(place, state):
    with tarfile.open(place / "tree.tar", "w") as archive:
        archive.add(place / "two", ".")
    runtime("build", write(place, "two", "build.archive = tree.tar"), state=state)
    assert registered(state) == ["say:two"]


def test_xz_unpacks_with_one_thread(place, state):
    """With another xz in the place of the host's: from 5.6 on it takes memory for each processor unless it is told."""
    tool, real = place / "xz", place / "xz-real"
    shutil.copy("/usr/bin/xz", real)
    tool.write_text(f'#!/bin/sh\ncase " $XZ_OPT " in *" -T1 "*) exec {real} "$@" ;; esac\necho "threads: $XZ_OPT" >&2\nexit 1\n')
    tool.chmod(0o755)
    with tarfile.open(place / "tree.tar.xz", "w:xz") as archive:
        archive.add(place / "one", ".")
    done = subprocess.run(["/usr/bin/unshare", "--mount", "/bin/sh", "-ec", f'mount --bind "{tool}" /usr/bin/xz; exec "$0" "$@"',
                           SANDBOXD, "runtime", "build", write(place, "one", "build.archive = tree.tar.xz"),
                           f"--state-dir={state}"], capture_output=True, text=True, timeout=150, check=False,
                          env={**os.environ, "XZ_OPT": "-T64"})
    assert done.returncode == 0 and registered(state) == ["say:one"], done.stderr


# ---- archives that mean harm ----

def image(place, path, *members, in_layer=True):
    """An image, or a tree, with the interpreter and behind it what `members` add."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as archive:
        archive.add(place / "one" / "usr" / "bin" / "say", "usr/bin/say")
        for name, fields in members:
            fields = dict(fields)
            add(archive, name, fields.pop("data", b""), **fields)
    if not in_layer:
        path.write_bytes(out.getvalue())
        return
    with tarfile.open(path, "w") as archive:
        add(archive, "layer.tar", out.getvalue())
        add(archive, "manifest.json", json.dumps([{"Layers": ["layer.tar"]}]).encode())


CHARACTER, BLOCK = {"type": tarfile.CHRTYPE, "devmajor": 1, "devminor": 3}, {"type": tarfile.BLKTYPE, "devmajor": 8}
HARMLESS = [
    ("/usr/lib/absolute", {"data": b"x"}),
    ("usr/lib/null", CHARACTER), ("usr/lib/disk", BLOCK), ("usr/lib/pipe", {"type": tarfile.FIFOTYPE}),
    ("usr/lib/setuid", {"data": b"x", "mode": 0o6777, "uid": 1000, "gid": 4}),
    ("usr/lib/capable", {"data": b"x", "pax_headers": {"SCHILY.xattr.security.capability": "\x01\0\0\x02\xff\xff" + "\0" * 14}}),
    ("usr/lib/twice", {"data": b"first"}), ("usr/lib/twice", {"data": b"second"}),
    ("usr/lib/linked", {"type": tarfile.SYMTYPE, "linkname": "twice"}), ("usr/lib/linked", {"data": b"a file"}),
    ("usr/lib/size", {"data": b"12345", "pax_headers": {"size": "3"}}),
    ("usr/lib/out", {"type": tarfile.SYMTYPE, "linkname": "/etc/shadow"}),
    ("usr/lib/.wh..wh.plnk", {"type": tarfile.DIRTYPE}), ("usr/lib/.wh..wh.plnk/kept", {"data": b"x"}),
    ("usr/lib/.wh.nothing", {}), ("usr/lib/.wh.\n", {}), ("usr/lib/-rf *\x1b[2J\n", {"data": b"x"}),
]


@pytest.mark.parametrize("in_layer", [True, False])
def test_what_an_archive_must_not_do_it_does_not(place, state, in_layer):
    image(place, place / "harmless.tar", *HARMLESS, in_layer=in_layer)
    runtime("build", write(place, "one", "build.archive = harmless.tar"), state=state)
    lib = state / "runtimes" / "say:one" / "root" / "usr" / "lib"
    assert sorted(os.listdir(lib)) == sorted(
        ["absolute", "setuid", "capable", "twice", "linked", "size", "out", "-rf *\x1b[2J\n"])
    setuid = os.stat(lib / "setuid")
    assert (setuid.st_mode & 0o7777, setuid.st_uid, setuid.st_gid) == (0o755, 0, 0)
    assert "security.capability" not in os.listxattr(lib / "capable")
    assert [(lib / name).read_bytes() for name in ("twice", "linked", "size")] == [b"second", b"a file", b"123"]
    assert os.readlink(lib / "out") == "/etc/shadow"  # where there is none in a sandbox


def deep(levels):
    return [("/".join(["usr"] + ["d"] * levels), {"type": tarfile.DIRTYPE, "mode": 0o755})]


@pytest.mark.parametrize("members, reason", [
    ([("../../../crisol-planted", {"data": b"x"})], "tar failed with 2"),
    ([("usr/../../../etc/crisol-planted", {"data": b"x"})], "tar failed with 2"),
    ([("usr/link", {"type": tarfile.LNKTYPE, "linkname": "/etc/shadow"})], "tar failed with 2"),
    ([("usr/link", {"type": tarfile.LNKTYPE, "linkname": "../../../../../../../../etc/shadow"})], "tar failed with 2"),
    ([("usr/etc", {"type": tarfile.SYMTYPE, "linkname": "/etc"}),
      ("usr/link", {"type": tarfile.LNKTYPE, "linkname": "usr/etc/shadow"})], "tar failed with 2"),
    ([("usr/etc", {"type": tarfile.SYMTYPE, "linkname": "/etc"}), ("usr/etc/crisol-planted", {"data": b"x"})], "tar failed with 2"),
    ([("usr/size", {"data": b"x", "pax_headers": {"size": "9223372036854775807"}})], "tar"),
    ([("usr/size", {"data": b"x", "pax_headers": {"size": "-1"}}), ("usr/b", {"type": b"S", "data": b"x"})], "tar failed with 2"),
    ([("usr/.wh.", {})], "lay a layer of the image over the others"),
    ([("usr/.wh..", {})], "lay a layer of the image over the others"),
    ([("usr/.wh...", {})], "lay a layer of the image over the others"),
    (deep(300), "lay a layer of the image over the others"),
])
def test_what_an_archive_cannot_mean_is_refused_and_leaves_nothing(place, state, members, reason):
    image(place, place / "refused.tar", *members)
    said = runtime("build", write(place, "one", "build.archive = refused.tar"), state=state, ok=False)
    assert f"build.archive: {reason}" in said, said
    assert registered(state) == []
    assert not [path for path in ("/etc/crisol-planted", "/crisol-planted", place / "crisol-planted") if os.path.exists(path)]


def test_files_of_holes_are_not_read(place, state):
    """One that is larger than what was free, and some that are together: kilobytes of an archive."""
    free = os.statvfs(place).f_bavail * os.statvfs(place).f_frsize
    said = []
    for count, size in ((1, free), (3, free * 3 // 10)):
        holes = place / f"holes-{count}"
        (holes / "usr").mkdir(parents=True)
        for number in range(count):
            os.truncate(os.open(holes / "usr" / f"file-{number}", os.O_CREAT | os.O_WRONLY), size)
        subprocess.run(["tar", "--sparse", "-C", str(holes), "-cf", str(place / "holes.tar"), "."], check=True, timeout=60)
        shutil.rmtree(holes)
        assert (place / "holes.tar").stat().st_size < 100_000
        said.append(runtime("build", write(place, "one", "build.archive = holes.tar"), state=state, ok=False))
        assert registered(state) == []
    assert "tar takes more than three quarters of what was free" in said[0], said
    assert "with their holes: more than three quarters of what was free" in said[1], said


@pytest.mark.parametrize("source, output, reason", [
    ("build.folder = nowhere", None, "build.folder: cp failed"),
    ("build.archive = say.c", None, "build.archive: tar failed"),
    ("build.folder = one", "another", "smoke test: it printed 'hello"),
    ("build.folder = one\nneeds = /usr/bin/more", None, "smoke test: sandboxd does not offer it"),
    ("build.folder = one\nbuild.image = one:1", None, "build.image: names an image of a build.archive"),
    ("build.folder = one\ncolour = red", None, "say-one.runtime:9: 'colour' is no key"),
    ("build.package = no-such-package-of-debian\nbuild.suite = nosuite", None, "build.package: mmdebstrap failed"),
])
def test_what_fails_says_why_and_leaves_nothing(place, state, source, output, reason):
    assert reason in runtime("build", write(place, "one", source, output), state=state, ok=False)
    assert registered(state) == []


@pytest.mark.parametrize("words, reason", [
    ("The following signatures couldn't be verified because the public key is not available: NO_PUBKEY 6ED0E7B82643E131",
     "this host does not have the key that signs the archive: install the package debian-archive-keyring"),
    ("The following signatures were invalid: EXPKEYSIG 6ED0E7B82643E131", "update the package debian-archive-keyring"),
    ("E: Unable to locate package nosuch", "the suite has no package of a name in build.package"),
    ("E: something else", "mmdebstrap failed with 25"),
])
@pytest.mark.parametrize("has_keyring", [True, False])
def test_what_apt_says_is_told_with_what_helps(place, state, words, reason, has_keyring):
    """With another mmdebstrap in the place of the host's, and an empty folder in that of its keys."""
    tool = place / "mmdebstrap"
    tool.write_text(f'#!/bin/sh\necho "$@" >&2\ncat >&2 <<END\n{words}\nEND\nexit 25\n')
    tool.chmod(0o755)
    (place / "empty").mkdir(exist_ok=True)
    keyrings = "/usr/share/keyrings"
    name = next((name for name in ("gpg", "pgp") if os.path.exists(f"{keyrings}/debian-archive-keyring.{name}")), None)
    keys = f"{keyrings}/debian-archive-keyring.{name}" if has_keyring and name else "/etc/apt/trusted.gpg.d"
    hidden = "" if has_keyring else f'mount --bind "{place}/empty" {keyrings}; '
    lent = f'mount --bind "{tool}" /usr/bin/mmdebstrap; {hidden}exec "$0" "$@"'
    done = subprocess.run(["/usr/bin/unshare", "--mount", "/bin/sh", "-ec", lent, SANDBOXD, "runtime", "build",
                           write(place, "one", "build.package = say"), f"--state-dir={state}"],
                          capture_output=True, text=True, timeout=150, check=False)
    assert done.returncode == 1 and registered(state) == []
    assert f"build.package: mmdebstrap failed{'' if 'with' in reason else ': '}" in done.stderr and reason in done.stderr, done.stderr
    assert f"--keyring={keys} " in done.stderr, done.stderr


def trial_of(state):
    """Command line of the sandboxd that tries what a build has made; None: there is none now."""
    return next((command for _, command in crisol.processes().values()
                 if command.startswith(f"{SANDBOXD} ") and f"--state-dir={state}/runtimes/.build-" in command), None)


def test_builds_come_one_at_a_time_and_leave_nothing_when_interrupted(place, state):
    slow = (place / "slow.runtime")
    slow.write_text(FILE.format(version="slow", source="build.folder = one", output="x")
                    .replace("argv = main.txt", "argv = --wait") + "limit.wall_time_ms = 60000\n")
    for number in (signal.SIGTERM, signal.SIGKILL):
        with subprocess.Popen([SANDBOXD, "runtime", "build", str(slow), f"--state-dir={state}"], stderr=subprocess.PIPE,
                              text=True, env={**os.environ, "CRISOL_SLOW_HOST": "3"}) as build:
            crisol.wait_for(lambda: any(name.startswith(".build-") for name in registered(state)), 30, "the build began")
            # The trial of what was built has the patience that the build was given.
            crisol.wait_for(lambda: trial_of(state), 60, "its sandboxd is there")
            assert "--slow-host=3" in trial_of(state).split()
            assert "another build or removal goes on" in runtime("build", str(slow), state=state, ok=False)
            time.sleep(1)
            build.send_signal(number)
            build.wait(90)
            assert build.returncode != 0
        assert "say:slow" not in registered(state)
        if number == signal.SIGTERM:
            assert registered(state) == []
    # The lock went with the killed one; its leftovers go with the next, once its sandboxd is gone.
    runtime("build", write(place, "two", "build.folder = two"), state=state)

    def is_clean():
        runtime("remove", "nothing", state=state, ok=False)
        return registered(state) == ["say:two"]
    crisol.wait_for(is_clean, 60, "what the killed build left is removed")


def test_a_build_that_takes_too_long_is_given_up(place, state):
    fifo = place / "fifo.tar"
    if not fifo.exists():
        os.mkfifo(fifo)
    path = write(place, "one", "build.archive = fifo.tar")
    began = time.monotonic()
    assert "tar does not end" in runtime("build", path, "--deadline-s=1", state=state, ok=False)
    assert time.monotonic() - began < 120 and registered(state) == []


def test_what_is_registered_must_be_whole_and_roots(place, state):
    runtime("build", write(place, "one", "build.folder = one"), state=state)
    digest = state / "runtimes" / "say:one" / "digest"
    digest.write_text("0123\n")
    done = subprocess.run([SANDBOXD, f"--socket={state}/socket", f"--state-dir={state}"], capture_output=True, text=True,
                          timeout=90, check=False)
    assert done.returncode == 1 and "--state-dir: runtime 'say:one': its digest is none" in done.stderr
    os.chmod(state / "runtimes", 0o777)
    done = subprocess.run([SANDBOXD, f"--socket={state}/socket", f"--state-dir={state}"], capture_output=True, text=True,
                          timeout=90, check=False)
    assert done.returncode == 1 and "others than root can write it" in done.stderr
