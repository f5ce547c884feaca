#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that the documents speak of what is there; exits non-zero and names each breach.

  controls  README.md and docs/threat-model.md have one row per control, and every proof is a test; so is that
            of what is protected
  verdicts  docs/verdicts.md has one row per verdict code of the contract
  settings  .env.example names what scripts/run.sh reads, and no more; docs/ names every variable of the environment
            that a program reads
  reasons   docs/clients.md has every reason that a refusal may have, and no other
  links     relative links, their anchors, and paths in backticks lead somewhere
  commands  every make target, command of ours and flag that is named is there
  names     every test, function, field and source file that is named in backticks is there
  manual    crisol(1) has every command, sandboxd(8) every subcommand
  spanish   README.es.md has the first two commands of README.md, and no other

Usage: docs.py CHECK SOURCE_DIR BUILD_DIR
"""
import glob
import os
import re
import subprocess
import sys

TOPS = "common/ rpc/ sandboxd/ orchestrator/ clients/ tests/ docs/ scripts/ proto/ deploy/ build/bin/".split()


def read(root, path):
    with open(os.path.join(root, path), encoding="utf-8") as file:
        return file.read()


def documents(root):
    return ["README.md", "README.es.md", "SECURITY.md", *sorted(os.path.relpath(path, root)
                                                for path in glob.glob(os.path.join(root, "docs", "*.md")))]


def rows(text):
    """The rows of every table whose first cell is a name in backticks: [first cell, others…]."""
    found = []
    for line in text.split("\n"):
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip())[1:-1]]
        if len(cells) > 2 and re.fullmatch(r"`\w+`", cells[0]):
            found.append([cells[0].strip("`"), *cells[1:]])
    return found


def test_names(root):
    """Names of every test function, and the numbers of the probes of the self-test and the escape tests."""
    names, probes = set(), set()
    for path in glob.glob(os.path.join(root, "sandboxd", "selftest", "*.c")):
        probes.update(re.findall(r'(?:\{|\.id = )"([A-Z]\d\d)"', read(root, path)))
    for folder, _, files in os.walk(os.path.join(root, "tests")):
        for name in files:
            if not name.endswith((".c", ".py")):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                text = file.read()
            names.update(re.findall(r"^static void (\w+)\(void \*\*state\)", text, re.M))
            names.update(re.findall(r"^ *def (test_\w+)\(", text, re.M))
            if os.path.basename(folder) == "escape":
                probes.update(re.findall(r'\{"([A-Z]\d\d)"', text))
                probes.update(name.upper() for name in re.findall(r"\b([a-z]\d\d)_\w+\(void \*\*state", text))
    return names, probes


def check_controls(root):
    problems = []
    controls = set(re.findall(r'\[SBX_CONTROL_\w+\] = "(\w+)"', read(root, "sandboxd/wire/msg.c")))
    names, probes = test_names(root)
    for path in ("README.md", "docs/threat-model.md"):
        table = {row[0]: row for row in rows(read(root, path))}
        problems += [f"{path}: no row for the control '{name}'" for name in sorted(controls - set(table))]
        for name in sorted(controls & set(table)):
            proof = table[name][-1]
            tests = re.findall(r"`(\w+)`", proof)
            numbers = re.findall(r"\b[A-Z]\d\d\b", proof)
            problems += [f"{path}: {name}: there is no test '{test}'" for test in tests if test not in names]
            problems += [f"{path}: {name}: there is no probe {number}" for number in numbers if number not in probes]
            if not tests and not numbers and "crisol attack" not in proof:
                problems.append(f"{path}: {name}: no test proves it")
    return problems + check_assets(root, names)


def check_assets(root, names):
    """The first table of the threat model: what its last column names are tests."""
    table = re.search(r"^## What is protected.*?\n(\|.*?)\n\n", read(root, "docs/threat-model.md"), re.S | re.M).group(1)
    problems = []
    for line in table.split("\n")[2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        tests = re.findall(r"`(\w+)`", cells[-1])
        problems += [f"docs/threat-model.md: {cells[0]}: there is no test '{test}'" for test in tests if test not in names]
        if len(cells) != 4 or not (tests or "(#the-probes)" in cells[-1]):
            problems.append(f"docs/threat-model.md: {cells[0]}: no test proves it")
    return problems


def check_verdicts(root):
    codes = set(re.findall(r"^  VERDICT_CODE_(\w+) = [1-9]", read(root, "proto/crisol/sandbox/v1/sandbox.proto"), re.M))
    named = {row[0] for row in rows(read(root, "docs/verdicts.md"))}
    return ([f"docs/verdicts.md: no row for {code}" for code in sorted(codes - named)] +
            [f"docs/verdicts.md: {code} is no verdict code" for code in sorted(named - codes)])


def check_settings(root):
    script = read(root, "scripts/run.sh")
    names = re.search(r"case \$name in\n\s*(.*?)\)", script, re.S).group(1)
    read_by_script = set(re.sub(r"[\s\\]", "", names).split("|"))
    shown = set(re.findall(r"^#? ?([A-Z][A-Z_]+)=", read(root, ".env.example"), re.M))
    return ([f".env.example: '{name}' is missing" for name in sorted(read_by_script - shown)] +
            [f".env.example: scripts/run.sh knows no '{name}'" for name in sorted(shown - read_by_script)] +
            check_environment(root))


# Of gemini-replay, which is for tests, and those that a program of ours sets for itself.
INNER_VARIABLES = {"GEMINI_REPLAY_KEY", "CRISOL_LEAVE_OUT", "PGSERVICE"}


def sources(root, *tops):
    """The text of every source file below these folders."""
    for top in tops:
        for path in sorted(glob.glob(os.path.join(root, top, "**", "*.[ch]"), recursive=True)):
            yield read(root, path)


def check_environment(root):
    names = set()
    for text in sources(root, "common", "rpc", "tls", "sandboxd", "orchestrator", "clients"):
        names.update(re.findall(r'getenv\("(\w+)"\)', text))
        names.update(re.findall(r'"((?:CRISOL|GEMINI|OPENAI|GOOGLE|OTEL|PG)_?[A-Z_]*[A-Z])"', text))
    names = {name for name in names if "_" in name or name.startswith("PG")} - INNER_VARIABLES
    documents_of_it = "".join(read(root, path) for path in documents(root))
    return [f"docs/settings.md: no word of the variable {name}" for name in sorted(names)
            if not re.search(rf"\b{name}\b", documents_of_it)]


# Names in capitals that are no reason: of verdicts and codes, and of a refusal that no caller is told.
NO_REASONS = {"RES_OPTIONS", "GIVES_WAY"}


def check_reasons(root):
    """A reason is a name in capitals that is given with a refusal: behind `reason`, or as an argument of its own."""
    known = set()
    for text in sources(root, "sandboxd/front", "orchestrator", "rpc"):
        known.update(re.findall(r'\b(?:\w*reason|\w*refuse|finish_exists)\b(?:[^;{}"]|"[^"]*")*?"([A-Z]+(?:_[A-Z]+)+)"', text))
        known.update(re.findall(r'refuse\(\w+, RPC_\w+, "([A-Z]+)"', text))  # of one word, too
        known.update(re.findall(r'\[SBX_\w+\] = \{"(SANDBOX_[A-Z]+)"', text))
        known.update(re.findall(r'define RPC_REASON_\w+ "([A-Z_]+)"', text))
        known.update(re.findall(r': "(SANDBOX_[A-Z_]+)"', text))
    shown = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)*)`", "".join(line for line in read(root, "docs/clients.md").split("\n")
                                                           if line.startswith("| `"))))
    return ([f"docs/clients.md: no row for the reason {name}" for name in sorted(known - NO_REASONS - shown)] +
            [f"docs/clients.md: no refusal has the reason {name}" for name in sorted(shown - known)])


def check_manual(root):
    crisol, sandboxd = (read(root, f"deploy/debian/{name}").replace("\\-", "-") for name in ("crisol.1", "sandboxd.8"))
    commands = re.findall(r'^    \{"([\w-]+)", cli_\w+, "(.*)"\}', read(root, "clients/crisol/main.c"), re.M)
    problems = [f"crisol.1: no '{name}', or it does something else" for name, help_text in commands
                if f"\n.B {name}\n{help_text}" not in crisol]
    problems += [f"crisol.1: there is no command '{name}'" for name in re.findall(r"^\.TP\n\.B ([a-z-]+)$", crisol, re.M)
                 if name not in dict(commands)]
    return problems + [f"sandboxd.8: no '{name}'" for name in sorted(SUBCOMMANDS) if f"\n.B sandboxd {name}" not in sandboxd]


def anchors(text):
    """The anchors of a document's headings, as they are made of their words."""
    names = re.findall(r"^#+ (.*)$", re.sub(r"```.*?```", "", text, flags=re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", name.lower()).replace(" ", "-") for name in names}


def check_anchors(root):
    problems = []
    for path in documents(root):
        for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", read(root, path)):
            file = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
            if os.path.exists(os.path.join(root, file)) and anchor not in anchors(read(root, file)):
                problems.append(f"{path}: {file} has no heading for '#{anchor}'")
    return problems


SUBCOMMANDS = {"check", "gc", "selftest", "runtime"}  # of sandboxd
FOREIGN_FLAGS = {"clean"}  # of pg_restore, which nothing but a document calls


def words_of_the_tree(root):
    """Every flag and every quoted name that is anywhere but in a document."""
    words = set(FOREIGN_FLAGS)
    for folder, folders, files in os.walk(root):
        folders[:] = [name for name in folders if name not in ("docs", "corpus") and not name.startswith((".git", "build"))]
        for name in files:
            if name.endswith(".md"):
                continue
            with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                text = file.read()
            words.update(re.findall(r"--([a-z][a-z0-9-]+)", text))
            words.update(re.findall(r'"([a-z][a-z0-9-]+)"', text))
    return words


def check_commands(root):
    targets = set(re.findall(r"^([a-z][\w-]*(?: [a-z][\w-]*)*):", read(root, "Makefile"), re.M))
    targets = {word for line in targets for word in line.split()}
    ours = {"crisol": set(re.findall(r'^    \{"([\w-]+)", cli_', read(root, "clients/crisol/main.c"), re.M)),
            "sandboxd": SUBCOMMANDS}
    words = words_of_the_tree(root)
    problems = []
    for path in documents(root):
        text = read(root, path)
        code = "\n".join(re.findall(r"```\w*\n(.*?)```", text, re.S) + re.findall(r"`([^`\n]+)`", text))
        problems += [f"{path}: there is no 'make {name}'" for name in re.findall(r"\bmake ([a-z][\w-]*)", code)
                     if name not in targets]
        problems += [f"{path}: there is no '{program} {name}'" for program, name
                     in re.findall(r"(?:^|[/'])(crisol|sandboxd) ([a-z][\w-]*)", code, re.M) if name not in ours[program]]
        problems += [f"{path}: nothing has a flag --{name}" for name in re.findall(r"(?<![\w-])--([a-z][a-z0-9-]+)", code)
                     if name not in words and name + "-file" not in words and name.removesuffix("-file") not in words]
    return sorted(set(problems))


# Of the kernel and of other programs.
FOREIGN_NAMES = {"sched_autogroup_enabled", "cpu_shares", "pg_dump", "grpc_tools"}
# Of programs that run in a sandbox, of clients and of other programs.
FOREIGN_FILES = {"solution.py", "test_solution.py", "cart.py", "sitecustomize.py", "main.py"}
# Its figures are named by what a bench puts together.
WITHOUT_NAMES = "docs/performance.md"


def names_of_the_tree(root):
    """Every word with an underscore, and every file, that is anywhere but in a document."""
    words, files = set(FOREIGN_NAMES), set(FOREIGN_FILES)
    for folder, folders, names in os.walk(root):
        folders[:] = [name for name in folders if name not in ("docs", "corpus") and not name.startswith((".git", "build"))]
        files.update(names)
        for name in names:
            if not name.endswith(".md"):
                with open(os.path.join(folder, name), encoding="utf-8", errors="replace") as file:
                    words.update(re.findall(r"\w+_\w+", file.read()))
    return words, files


def check_names(root):
    words, files = names_of_the_tree(root)
    shown = subprocess.run(["ctest", "--test-dir", sys.argv[3], "-N"], capture_output=True, text=True, check=True).stdout
    words.update(re.findall(r"^ +Test +#\d+: (\S+)", shown, re.M))
    problems = []
    for path in documents(root):
        for code in re.findall(r"`([^`\n]+)`", read(root, path) if path != WITHOUT_NAMES else ""):
            problems += [f"{path}: nothing is named '{name}'" for name
                         in re.findall(r"(?<!\w)[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?!\w)", code) if name not in words]
            problems += [f"{path}: there is no file '{name}'" for name
                         in re.findall(r"(?<![\w*])[\w-]+\.(?:c|h|py|sh|proto)(?!\w)", code) if name not in files]
    return sorted(set(problems))


def check_links(root):
    problems = []
    for path in documents(root):
        text = read(root, path)
        folder = os.path.dirname(path)
        targets = [os.path.join(folder, target.split("#")[0]) for target in re.findall(r"\]\(([^)#:]+[^):]*)\)", text)]
        targets += [name for name in re.findall(r"`([\w./-]+)`", text)
                    if name.startswith(tuple(TOPS)) and not name.startswith("build/")]
        problems += [f"{path}: there is no '{target}'" for target in targets
                     if not os.path.exists(os.path.join(root, target))]
        problems += [f"{path}: placeholder {found}" for found in re.findall(r"@[A-Z_]+@", text)]
    return problems + check_anchors(root)


def check_spanish(root):
    ours, theirs = (re.findall(r"```sh\n(.*?)```", read(root, path), re.S) for path in ("README.es.md", "README.md"))
    problems = [] if ours == theirs[:3] else [f"README.es.md: its commands are {ours}, those of README.md begin with {theirs[:3]}"]
    targets = set(re.findall(r"^(?:make )([\w-]+)", "".join(theirs), re.M)) | set(re.findall(r"`make ([\w-]+)", read(root, "README.md")))
    problems += [f"README.es.md: README.md has no 'make {name}'" for name in re.findall(r"`make ([\w-]+)", read(root, "README.es.md"))
                 if name not in targets]
    return problems


def main():
    checks = {"controls": check_controls, "verdicts": check_verdicts, "settings": check_settings,
              "reasons": check_reasons, "links": check_links, "commands": check_commands, "names": check_names,
              "manual": check_manual, "spanish": check_spanish}
    name, root = sys.argv[1], sys.argv[2]
    problems = checks[name](root)
    for problem in problems:
        print(problem)
    print(f"{name}: {len(problems)} problems")
    return 1 if problems else 0


sys.exit(main())
