#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
The compose files, as Compose itself reads them: clean, strict, and of one mind with the services. No engine is needed;
containers_test.py starts them.
"""
import functools
import json
import os
import re
import subprocess
import tempfile
import unittest

import lab

COMPOSE = lab.tool("docker-compose")
FILES = os.path.join(lab.DEPLOY, "compose")
BASE, ENGINE = os.path.join(FILES, "compose.yaml"), os.path.join(FILES, "compose.docker.yaml")
VARIANTS = {"native": (BASE,), "docker": (BASE, ENGINE)}
HEALTH = {"sandboxd": ("--sandbox", 50062), "orchestrator": ("--orchestrator", 50061)}


def config(*files):
    with tempfile.TemporaryDirectory() as home:
        return subprocess.run([COMPOSE, *(word for file in files for word in ("-f", file)), "config", "--format=json"], capture_output=True,
                              text=True, timeout=60, check=False, env={"PATH": "/usr/bin:/bin", "HOME": home})


@functools.cache
def project(variant):
    done = config(*VARIANTS[variant])
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def changed(old, new):
    """What Compose says of compose.yaml with other words in it."""
    with open(BASE, encoding="utf-8") as file:
        text = file.read()
    assert old in text
    with tempfile.NamedTemporaryFile("w", suffix=".yaml", encoding="utf-8") as file:
        file.write(text.replace(old, new, 1))
        file.flush()
        return config(file.name)


def flags_of(service):
    return dict(flag[2:].split("=", 1) for flag in service["command"])


def seconds_of(text):
    parts = re.fullmatch(r"(?:(\d+)m)?(?:(\d+)s)?", text)
    return int(parts.group(1) or 0) * 60 + int(parts.group(2) or 0)


class Compose(unittest.TestCase):
    def test_every_variant_is_clean(self):
        for variant, files in VARIANTS.items():
            with self.subTest(variant=variant):
                done = config(*files)
                self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_misspelt_words_are_refused(self):
        for old, new in (("condition: service_healthy", "condition: service_healty"), ("stop_grace_period", "stop_grace_perod"),
                         ("pids_limit: 2048", "pids_limits: 2048")):
            with self.subTest(word=new):
                self.assertNotEqual(changed(old, new).returncode, 0)

    def test_the_services_take_their_flags_and_have_the_time_to_end(self):
        for variant in VARIANTS:
            for name, more in (("sandboxd", lab.SANDBOXD_END_S), ("orchestrator", lab.ORCHESTRATOR_END_S)):
                service = project(variant)["services"][name]
                flags = [re.sub(r"=/run/secrets/\S+", "=/dev/null", flag) for flag in service["command"]]
                with self.subTest(variant=variant, service=name):
                    self.assertEqual({flag.split("=")[0] for flag in flags} - lab.known_flags(name), set())
                    settings = lab.settings_of(name, flags, {key: value for key, value in service.get("environment", {}).items()
                                                             if key != "CRISOL_MODEL_KEY_FILE"})
                    needed = (int(settings["drain-delay-ms"]) + int(settings["grace-ms"])) / 1000 + more
                    self.assertLessEqual(needed, seconds_of(service["stop_grace_period"]))

    def test_health_has_a_port_of_its_own_and_is_asked_there(self):
        """In the calls' place it would wait behind them; and nobody outside of the project can ask."""
        for variant in VARIANTS:
            for name, (option, port) in HEALTH.items():
                service = project(variant)["services"][name]
                with self.subTest(variant=variant, service=name):
                    self.assertEqual(flags_of(service)["health-listen"].rsplit(":", 1)[1], str(port))
                    self.assertEqual(service["healthcheck"]["test"],
                                     ["CMD", "/usr/bin/crisol", "health", f"--only={name}", f"{option}=127.0.0.1:{port}"])
                    self.assertNotIn(str(port), [one["published"] for one in service.get("ports", [])])

    def test_who_goes_says_so_before_it_refuses(self):
        for variant in VARIANTS:
            for name in HEALTH:
                with self.subTest(variant=variant, service=name):
                    self.assertGreaterEqual(int(flags_of(project(variant)["services"][name])["drain-delay-ms"]), 2000)

    def test_nothing_is_open_to_other_hosts_and_nothing_has_more_than_it_needs(self):
        whole = project("native")
        self.assertEqual({port["host_ip"] for service in whole["services"].values() for port in service.get("ports", [])}, {"127.0.0.1"})
        self.assertNotIn("ports", whole["services"]["sandboxd"])
        self.assertEqual(whole["services"]["sandboxd"]["network_mode"], "none")
        self.assertIs(whole["networks"]["store"]["internal"], True)
        for name, service in whole["services"].items():
            self.assertIs(service["read_only"], True, name)
            self.assertTrue(service["mem_limit"] and service["pids_limit"] and service["cpus"], name)
            self.assertEqual(service["restart"], "unless-stopped")
            self.assertIn("healthcheck", service)
            if name != "sandboxd":
                self.assertEqual(service["cap_drop"], ["ALL"])
                self.assertIn("no-new-privileges:true", service["security_opt"])
        docker = project("docker")["services"]["sandboxd"]
        self.assertFalse(docker.get("privileged"))
        self.assertEqual(docker["cap_drop"], ["ALL"])
        self.assertEqual(docker["network_mode"], "none")


if __name__ == "__main__":
    unittest.main(verbosity=1)
