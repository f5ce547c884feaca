#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the structure of the source tree; exits non-zero and names each breach.

  layers   which folder may include which (docs/architecture.md has the table)
  banned   functions that must not be called
  linkage  what the root process is linked against (needs the build folder)
  headers  each header compiles alone
  spdx     each source names its licence

Usage: structure.py CHECK SOURCE_DIR [BUILD_DIR]
"""
import os
import re
import subprocess
import sys

# Folder -> folders whose headers it may include, besides its own.
LAYERS = {
    "common": [],
    "tls": ["common"],
    "rpc": ["common", "tls", "proto", "generated"],
    "sandboxd/wire": ["common"],
    "sandboxd/runtimes": ["common", "sandboxd/wire"],
    "sandboxd/init": ["common", "sandboxd/wire", "sandboxd/backend"],
    "sandboxd/backend": ["common", "sandboxd/wire", "sandboxd/runtimes"],
    "sandboxd/template": ["common", "sandboxd/wire", "sandboxd/runtimes", "sandboxd/backend", "sandboxd/init"],
    "sandboxd/native": ["common", "sandboxd/wire", "sandboxd/runtimes", "sandboxd/backend", "sandboxd/template"],
    "sandboxd/docker": ["common", "sandboxd/wire", "sandboxd/runtimes", "sandboxd/backend",
                        "sandboxd/init", "sandboxd/template"],
    "sandboxd/front": ["common", "rpc", "tls", "sandboxd/wire", "sandboxd/runtimes", "proto", "generated"],
    "sandboxd/supervisor": ["common", "sandboxd/wire", "sandboxd/runtimes"],
    "sandboxd/builder": ["common", "rpc", "sandboxd/wire", "sandboxd/runtimes", "sandboxd/supervisor", "generated"],
    "sandboxd/selftest": ["common", "rpc", "sandboxd/wire", "sandboxd/runtimes", "sandboxd/backend",
                          "sandboxd/supervisor", "generated"],
    "orchestrator/model": ["common"],
    "orchestrator/sandbox": ["common", "rpc", "generated"],
    "orchestrator/verify": ["common", "generated"],
    "orchestrator/receipt": ["common", "generated"],
    "orchestrator/graph": ["common", "rpc", "generated", "orchestrator/model", "orchestrator/sandbox",
                           "orchestrator/prompts", "orchestrator/store", "orchestrator/verify",
                           "orchestrator/receipt", "orchestrator/meter", "orchestrator/trace"],
    "orchestrator/meter": ["common", "generated"],
    "orchestrator/trace": ["common"],
    "orchestrator/prompts": ["common"],
    "orchestrator/runs": ["common", "rpc", "generated", "orchestrator/graph", "orchestrator/store"],
    "orchestrator/store": ["common"],
    "orchestrator/replay": ["common", "generated", "orchestrator/graph", "orchestrator/model",
                            "orchestrator/receipt", "orchestrator/sandbox", "orchestrator/store"],
    "orchestrator/http": ["common", "rpc", "tls", "generated", "orchestrator/graph", "orchestrator/meter",
                          "orchestrator/runs", "orchestrator/sandbox"],
    "orchestrator/service": ["common", "rpc", "generated", "orchestrator/graph", "orchestrator/runs"],
    "orchestrator": ["common", "rpc", "tls", "proto", "generated", "orchestrator/model", "orchestrator/sandbox",
                     "orchestrator/graph", "orchestrator/http", "orchestrator/meter", "orchestrator/trace", "orchestrator/receipt",
                     "orchestrator/runs",
                     "orchestrator/service",
                     "orchestrator/store"],
    "clients/crisol": ["common", "rpc", "generated", "orchestrator/receipt", "orchestrator/replay"],
    "clients/gemini-replay": ["common"],
}
# Third-party headers that only these folders may see.
THIRD_PARTY = {
    "grpc/": ["rpc"],
    "curl/": ["orchestrator/model", "orchestrator/trace", "sandboxd/docker"],
    "Python.h": ["sandboxd/template"],
    "sqlite3.h": ["orchestrator/store"],
    "libpq-fe.h": ["orchestrator/store"],
    "microhttpd": ["orchestrator/http", "clients/gemini-replay"],
    "seccomp.h": ["sandboxd/native", "sandboxd/docker"],
}
BANNED = ("strcpy strcat sprintf vsprintf gets strtok atoi atol strerror system popen alloca tmpnam usleep "
          "signal").split()
ROOT_BINARIES = {
    "sandboxd-native": {"libc", "libseccomp", "libcap"},
    "sandboxd": {"libc"},
    "sandbox-init": set(),
    "crisol-template.so": {"libc"},
}


def sources(root, endings):
    for top in ("common", "tls", "rpc", "sandboxd", "orchestrator", "clients", "proto"):
        for folder, _, names in os.walk(os.path.join(root, top)):
            for name in sorted(names):
                if name.endswith(endings):
                    yield os.path.relpath(os.path.join(folder, name), root)


def layer_of(path):
    folder = os.path.dirname(path)
    while folder and folder not in LAYERS:
        folder = os.path.dirname(folder)
    return folder


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def check_layers(root, _build):
    problems = []
    for path in sources(root, (".c", ".h")):
        layer = layer_of(path)
        if not layer:
            if not path.startswith("proto/"):
                problems.append(f"{path}: its folder has no row in the table of layers")
            continue
        for kind, name in re.findall(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', read(root, path), re.M):
            if kind == '"':
                target = "generated" if name.endswith(".pb-c.h") else layer_of(name)
                if name.startswith("proto/"):
                    target = "proto"
                if target != layer and target not in LAYERS[layer]:
                    problems.append(f'{path}: {layer} must not include "{name}"')
            else:
                for prefix, owners in THIRD_PARTY.items():
                    if name.startswith(prefix) and layer not in owners:
                        problems.append(f"{path}: only {', '.join(owners)} may include <{name}>")
    return problems


def strip_comments(text):
    text = re.sub(r"/\*.*?\*/", lambda m: "\n" * m.group(0).count("\n"), text, flags=re.S)
    text = re.sub(r"//[^\n]*", "", text)
    return re.sub(r'"(?:\\.|[^"\\\n])*"', '""', text)


def check_banned(root, _build):
    problems = []
    pattern = re.compile(r"(?<![\w.>])(" + "|".join(BANNED) + r")\s*\(")
    for path in sources(root, (".c", ".h")):
        for number, line in enumerate(strip_comments(read(root, path)).split("\n"), 1):
            for match in pattern.finditer(line):
                problems.append(f"{path}:{number}: {match.group(1)}() is banned")
    return problems


def check_linkage(_root, build):
    problems = []
    for binary, allowed in ROOT_BINARIES.items():
        path = os.path.join(build, "bin", binary)
        out = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True).stdout
        needed = {lib.split(".so")[0] for lib in re.findall(r"NEEDED.*\[([^\]]+)\]", out)}
        for lib in sorted(needed - allowed):
            problems.append(f"{binary} is linked against {lib}; allowed: {', '.join(sorted(allowed)) or 'nothing'}")
    return problems


def check_headers(root, build):
    flags = subprocess.run(["pkg-config", "--cflags", "python3", "grpc", "libprotobuf-c", "libcjson", "libmicrohttpd",
                            "libpq"],
                           capture_output=True, text=True, check=True).stdout.split()
    problems = []
    for path in sources(root, (".h",)):
        out = subprocess.run(
            ["gcc", "-x", "c", "-std=gnu17", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
             "-I", root, "-isystem", os.path.join(build, "generated"), *flags, "-"],
            input=f'#include "{path}"\n', capture_output=True, text=True, check=False)
        if out.returncode != 0:
            problems.append(f"{path} does not compile alone:\n{out.stderr}")
    return problems


def check_spdx(root, _build):
    return [f"{path}: no SPDX line at the top" for path in sources(root, (".c", ".h", ".S"))
            if "SPDX-License-Identifier: Apache-2.0" not in read(root, path).split("\n", 1)[0]]


def main():
    checks = {"layers": check_layers, "banned": check_banned, "linkage": check_linkage,
              "headers": check_headers, "spdx": check_spdx}
    name, root = sys.argv[1], sys.argv[2]
    problems = checks[name](root, sys.argv[3] if len(sys.argv) > 3 else "")
    for problem in problems:
        print(problem)
    print(f"{name}: {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())
