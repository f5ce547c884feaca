#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""
The manifests for Kubernetes: valid by the schema of a current version, strictly; the chart renders what the overlays do;
flags, ports, probes and times fit what the services themselves say.
"""
import copy
import functools
import os
import re
import subprocess
import sys
import tempfile
import unittest

import lab

KUSTOMIZE, HELM, VALIDATE = lab.tool("kustomize"), lab.tool("helm"), lab.tool("kubernetes")
sys.path.insert(0, VALIDATE)
import kubernetes_validate  # noqa: E402  # pylint: disable=wrong-import-position
import yaml  # noqa: E402  # pylint: disable=wrong-import-position

VERSION = kubernetes_validate.latest_version()
CHART = os.path.join(lab.DEPLOY, "helm", "crisol")
OVERLAYS = os.path.join(lab.DEPLOY, "kubernetes", "overlays")
# Each overlay, and the chart's settings that stand for it.
POSTGRES = ["postgres.enabled=true", "orchestrator.replicas=2"]
SETTINGS = {
    "native": [],
    "userns": ["sandboxd.isolation=userns", "sandboxd.runtimeClassName=runc-cgroup-writable"],
    "docker-socket": ["sandboxd.backend=docker"],
    "gvisor": ["sandboxd.runtimeClassName=gvisor"],
    "postgres": POSTGRES,
    "autoscaling": [*POSTGRES, "autoscaling.enabled=true"],
    "mtls": ["mtls.enabled=true"],
    "production": [*POSTGRES, "autoscaling.enabled=true", "mtls.enabled=true"],
}
# Of these no schema is part of Kubernetes.
FOREIGN = {"cert-manager.io/v1": {"ClusterIssuer", "Certificate"}}
PRIVILEGED_NAMESPACE, RESTRICTED_NAMESPACE = "crisol-sandbox", "crisol"


def documents(text):
    return [document for document in yaml.safe_load_all(text) if document]


@functools.cache
def from_kustomize(overlay):
    done = subprocess.run([KUSTOMIZE, "build", os.path.join(OVERLAYS, overlay)], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, f"{overlay}: {done.stderr}"
    assert not done.stderr, f"{overlay}: {done.stderr}"
    return documents(done.stdout)


@functools.cache
def helm(*settings):
    """(exit code, output, errors) of rendering the chart."""
    argv = [HELM, "template", "test", CHART, "--kube-version", f"{VERSION}"]
    for setting in settings:
        argv += ["--set", setting]
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False,
                              env={"PATH": "/usr/bin:/bin", "HOME": home})
    return done.returncode, done.stdout, done.stderr


def from_helm(overlay):
    code, text, errors = helm(*SETTINGS[overlay])
    assert code == 0, f"{overlay}: {errors}"
    return documents(text)


def key(document):
    return document["kind"], document["metadata"].get("namespace", ""), document["metadata"]["name"]


def plain(value):
    """Without the labels that say who made it."""
    if isinstance(value, list):
        return [plain(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {name: plain(item) for name, item in value.items()
            if name not in ("app.kubernetes.io/part-of", "app.kubernetes.io/managed-by", "app.kubernetes.io/instance",
                            "app.kubernetes.io/version", "helm.sh/chart") and item not in ({}, [])
            and not (name == "labels" and not plain(item))}


def template_of(document):
    """The pod's template of what has one."""
    spec = document.get("spec", {})
    if document["kind"] == "CronJob":
        spec = spec["jobTemplate"]["spec"]
    return spec.get("template") if document["kind"] in ("Deployment", "StatefulSet", "CronJob", "Job", "DaemonSet") else None


def pods(found):
    """(document, spec of its pods) of everything that makes pods."""
    return [(document, template_of(document)["spec"]) for document in found if template_of(document)]


def every_rendering():
    for overlay in SETTINGS:
        yield f"kustomize {overlay}", from_kustomize(overlay)
        yield f"helm {overlay}", from_helm(overlay)


def pick(found, kind, name):
    return next(document for document in found if document["kind"] == kind and document["metadata"]["name"] == name)


class Valid(unittest.TestCase):
    def test_the_overlays_are_those_that_are_rendered(self):
        self.assertEqual(sorted(os.listdir(OVERLAYS)), sorted(SETTINGS))

    def test_every_object_fits_the_schema_strictly(self):
        count = 0
        for name, found in every_rendering():
            for document in found:
                with self.subTest(rendering=name, object=key(document)):
                    if document["kind"] in FOREIGN.get(document["apiVersion"], ()):
                        continue
                    kubernetes_validate.validate(document, VERSION, strict=True)
                    count += 1
        print(f"{count} objects fit the schema of Kubernetes {VERSION}")
        self.assertGreater(count, 200)

    def test_the_schema_refuses_an_unknown_field(self):
        document = copy.deepcopy(pick(from_kustomize("native"), "Deployment", "sandboxd"))
        document["spec"]["template"]["spec"]["hostUser"] = False
        with self.assertRaises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(document, VERSION, strict=True)

    def test_the_chart_renders_what_the_overlays_do(self):
        self.maxDiff = None
        for overlay in SETTINGS:
            theirs = {key(document): plain(document) for document in from_kustomize(overlay)}
            ours = {key(document): plain(document) for document in from_helm(overlay)}
            with self.subTest(overlay=overlay):
                self.assertEqual(sorted(ours), sorted(theirs))
            for name in sorted(set(ours) & set(theirs)):
                with self.subTest(overlay=overlay, object=name):
                    self.assertEqual(ours[name], theirs[name])

    def test_helm_lint_is_clean(self):
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run([HELM, "lint", "--strict", CHART], capture_output=True, text=True, timeout=60, check=False,
                                  env={"PATH": "/usr/bin:/bin", "HOME": home})
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"1 chart\(s\) linted, 0 chart\(s\) failed")

    def test_the_chart_refuses_values_that_cannot_work(self):
        for setting, said in (("sandboxd.isolation=strong", "isolation"), ("unknown=1", "unknown"), ("sandboxd.slots=0", "slots"),
                              ("orchestrator.replicas=2", "postgres.enabled"), ("autoscaling.enabled=true", "postgres.enabled"),
                              ("sandboxd.graceMs=90000", "terminationGracePeriodSeconds"),
                              ("sandboxd.drainDelayMs=20000", "terminationGracePeriodSeconds"),
                              ("orchestrator.graceMs=60000", "terminationGracePeriodSeconds"),
                              ("namespaces.sandbox=crisol", "namespace"), ("orchestrator.extraArgs={max-runs=5}", "extraArgs"),
                              ("postgres.url=postgresql://crisol:secret@host/db", "url")):
            with self.subTest(setting=setting):
                code, text, errors = helm(setting)
                self.assertNotEqual(code, 0, text[:200])
                self.assertIn(said, errors)

    def test_ops_26_an_empty_runtime_class_is_no_field_at_all(self):
        for name, found in every_rendering():
            for document, spec in pods(found):
                with self.subTest(rendering=name, object=key(document)):
                    for field in ("runtimeClassName", "priorityClassName", "storageClassName"):
                        self.assertNotEqual(spec.get(field), "")
        code, text, _ = helm("sandboxd.runtimeClassName=")
        self.assertEqual(code, 0)
        self.assertNotIn("runtimeClassName", text)
        code, text, _ = helm("sandboxd.runtimeClassName=kata-qemu")
        self.assertIn("runtimeClassName: kata-qemu", text)


class Secure(unittest.TestCase):
    def test_two_namespaces_and_the_orchestrators_is_restricted(self):
        for name, found in every_rendering():
            with self.subTest(rendering=name):
                labels = {document["metadata"]["name"]: document["metadata"]["labels"] for document in found
                          if document["kind"] == "Namespace"}
                enforced = {namespace: label["pod-security.kubernetes.io/enforce"] for namespace, label in labels.items()}
                self.assertEqual(enforced, {RESTRICTED_NAMESPACE: "restricted", PRIVILEGED_NAMESPACE: "privileged"})

    def test_pods_of_the_restricted_namespace_pass_the_restricted_profile(self):
        for name, found in every_rendering():
            for document, spec in pods(found):
                if document["metadata"]["namespace"] == RESTRICTED_NAMESPACE:
                    with self.subTest(rendering=name, object=key(document)):
                        self.assertEqual(self.breaches(spec), [])

    @staticmethod
    def breaches(spec):
        """What the profile 'restricted' of Pod Security would refuse (all of its rules that could apply here)."""
        bad = [field for field in ("hostNetwork", "hostPID", "hostIPC") if spec.get(field)]
        pod = spec.get("securityContext", {})
        allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected", "secret"}
        bad += [f"volume {volume['name']}" for volume in spec.get("volumes", []) if not (set(volume) - {"name"}) <= allowed]
        for container in spec["containers"] + spec.get("initContainers", []):
            context = container.get("securityContext", {})
            rules = {
                "privileged": not context.get("privileged"),
                "allowPrivilegeEscalation": context.get("allowPrivilegeEscalation") is False,
                "capabilities": context.get("capabilities", {}).get("drop") == ["ALL"] and not context["capabilities"].get("add"),
                "runAsNonRoot": context.get("runAsNonRoot", pod.get("runAsNonRoot")) is True,
                "runAsUser": context.get("runAsUser", pod.get("runAsUser")) != 0,
                "seccompProfile": context.get("seccompProfile", pod.get("seccompProfile", {})).get("type") in ("RuntimeDefault", "Localhost"),
                "procMount": context.get("procMount", "Default") == "Default",
                "hostPort": not any(port.get("hostPort") for port in container.get("ports", [])),
            }
            bad += [f"{container['name']}: {rule}" for rule, holds in rules.items() if not holds]
        return bad

    def test_the_rules_of_the_profile_can_fail(self):
        spec = copy.deepcopy(template_of(pick(from_kustomize("native"), "Deployment", "orchestrator"))["spec"])
        del spec["containers"][0]["securityContext"]["capabilities"]
        spec["volumes"].append({"name": "x", "hostPath": {"path": "/"}})
        self.assertEqual(self.breaches(spec), ["volume x", "orchestrator: capabilities"])

    def test_no_pod_has_a_token_of_the_cluster_or_the_addresses_of_services(self):
        for name, found in every_rendering():
            accounts = [document for document in found if document["kind"] == "ServiceAccount"]
            self.assertTrue(accounts)
            for document in accounts:
                self.assertIs(document["automountServiceAccountToken"], False)
            self.assertEqual([document for document in found if document["kind"] in ("Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding")], [])
            for document, spec in pods(found):
                with self.subTest(rendering=name, object=key(document)):
                    self.assertIs(spec["automountServiceAccountToken"], False)
                    self.assertIs(spec["enableServiceLinks"], False)

    def test_root_file_systems_are_read_only_and_everything_has_a_limit(self):
        for name, found in every_rendering():
            for document, spec in pods(found):
                with self.subTest(rendering=name, object=key(document)):
                    for container in spec["containers"]:
                        self.assertRegex(container["image"], r":[\w.]+$")
                        self.assertIs(container["securityContext"]["readOnlyRootFilesystem"], True)
                        limits, requests = container["resources"]["limits"], container["resources"]["requests"]
                        self.assertEqual(limits["memory"], requests["memory"])
                        self.assertIn("ephemeral-storage", limits)
                        self.assertIn("cpu", requests)
                    for volume in spec.get("volumes", []):
                        if "emptyDir" in volume:
                            self.assertIn("sizeLimit", volume["emptyDir"], volume["name"])

    def test_privilege_is_what_the_overlay_says(self):
        def context(overlay):
            return template_of(pick(from_kustomize(overlay), "Deployment", "sandboxd"))["spec"]
        self.assertIs(context("native")["containers"][0]["securityContext"]["privileged"], True)
        userns = context("userns")
        self.assertIs(userns["hostUsers"], False)
        self.assertNotIn("privileged", userns["containers"][0]["securityContext"])
        self.assertEqual(userns["containers"][0]["securityContext"]["procMount"], "Unmasked")
        self.assertEqual(context("gvisor")["runtimeClassName"], "gvisor")
        docker = context("docker-socket")
        self.assertNotIn("privileged", docker["containers"][0]["securityContext"])
        self.assertEqual([volume["hostPath"]["path"] for volume in docker["volumes"] if "hostPath" in volume], ["/var/run/docker.sock"])
        for overlay in ("native", "userns", "gvisor", "mtls"):
            self.assertFalse([volume for volume in context(overlay)["volumes"] if "hostPath" in volume], overlay)

    def test_sandboxd_runs_on_nodes_of_its_own(self):
        for name, found in every_rendering():
            spec = template_of(pick(found, "Deployment", "sandboxd"))["spec"]
            with self.subTest(rendering=name):
                self.assertEqual(spec["nodeSelector"], {"crisol/sandbox": "true"})
                self.assertEqual([(one["key"], one["effect"]) for one in spec["tolerations"]], [("crisol/sandbox", "NoSchedule")])
                self.assertEqual([one["topologyKey"] for one in spec["topologySpreadConstraints"]],
                                 ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])


class Networks(unittest.TestCase):
    def test_everything_is_denied_that_is_not_named(self):
        for name, found in every_rendering():
            policies = [document for document in found if document["kind"] == "NetworkPolicy"]
            with self.subTest(rendering=name):
                denied = {document["metadata"]["namespace"] for document in policies
                          if document["spec"]["podSelector"] == {} and not document["spec"].get("ingress") and not document["spec"].get("egress")}
                self.assertEqual(denied, {RESTRICTED_NAMESPACE, PRIVILEGED_NAMESPACE})

    def test_sandboxd_is_called_by_the_orchestrator_alone_and_calls_nobody(self):
        for name, found in every_rendering():
            policy = next(document for document in found if document["kind"] == "NetworkPolicy" and document["metadata"]["name"] == "sandboxd")
            with self.subTest(rendering=name):
                self.assertFalse(policy["spec"].get("egress"))
                self.assertIn("Egress", policy["spec"]["policyTypes"])
                calls, metrics = policy["spec"]["ingress"]
                (peer,) = calls["from"]  # one item with both selectors: two would be 'or'
                self.assertEqual(set(peer), {"namespaceSelector", "podSelector"})
                self.assertEqual([[port["port"] for port in rule["ports"]] for rule in (calls, metrics)], [[50052], [9102]])

    def test_ops_25_names_are_found_also_through_a_cache_on_the_node(self):
        for name, found in every_rendering():
            policy = next(document for document in found if document["kind"] == "NetworkPolicy" and document["metadata"]["name"] == "orchestrator")
            dns = [rule for rule in policy["spec"]["egress"] if {port["port"] for port in rule["ports"]} == {53}]
            with self.subTest(rendering=name):
                self.assertEqual({port["protocol"] for port in dns[0]["ports"]}, {"UDP", "TCP"})
                self.assertIn({"ipBlock": {"cidr": "169.254.20.10/32"}}, dns[0]["to"])
        _, text, _ = helm("networkPolicies.dns.ipBlocks={10.96.0.10/32}")
        self.assertIn("10.96.0.10/32", text)

    def test_the_networks_at_home_are_out_of_the_orchestrators_reach(self):
        policy = next(document for document in from_kustomize("production")
                      if document["kind"] == "NetworkPolicy" and document["metadata"]["name"] == "orchestrator")
        (web,) = [rule for rule in policy["spec"]["egress"] if {port["port"] for port in rule["ports"]} == {443}]
        self.assertLessEqual({"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16"}, set(web["to"][0]["ipBlock"]["except"]))

    def test_policies_name_ports_that_the_pods_have(self):
        for name, found in every_rendering():
            ports = {}
            for document, spec in pods(found):
                label = template_of(document)["metadata"]["labels"]["app.kubernetes.io/name"]
                ports[label] = {port["containerPort"] for container in spec["containers"] for port in container.get("ports", [])}
            for policy in found:
                if policy["kind"] != "NetworkPolicy" or not policy["spec"]["podSelector"]:
                    continue
                label = policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/name"]
                named = {port["port"] for rule in policy["spec"].get("ingress", []) for port in rule["ports"]}
                with self.subTest(rendering=name, policy=key(policy)):
                    self.assertLessEqual(named, ports[label])


class Fitting(unittest.TestCase):
    """The values are those of the services."""

    @staticmethod
    def arguments(found, name, folder):
        """Its flags, with files of ours in place of those that are mounted."""
        container = template_of(pick(found, "Deployment", name))["spec"]["containers"][0]
        arguments = []
        for argument in container["args"]:
            argument = argument.replace("$(POD_IP)", "10.1.2.3")
            match = re.match(r"(--[\w-]+=)(/etc/crisol/.*)", argument)
            if match:
                path = os.path.join(folder, match.group(2).replace("/", "_"))
                with open(path, "w", encoding="utf-8") as file:
                    file.write("0123456789abcdef0123456789abcdef\n")
                os.chmod(path, 0o600)
                argument = match.group(1) + path
            arguments.append(argument)
        return arguments

    def test_the_services_take_their_flags(self):
        with tempfile.TemporaryDirectory() as folder:
            for name, found in every_rendering():
                for program in ("orchestrator", "sandboxd"):
                    with self.subTest(rendering=name, program=program):
                        self.settings(found, program, folder)

    def settings(self, found, program, folder):
        arguments = self.arguments(found, program, folder)
        unknown = {argument.split("=")[0] for argument in arguments} - lab.known_flags(program)
        self.assertEqual(unknown, set())
        return lab.settings_of(program, arguments)

    def test_listeners_ports_services_and_probes_are_of_one_mind(self):
        for name, found in every_rendering():
            for program, flags in (("orchestrator", ("listen", "http", "health-listen")),
                                   ("sandboxd", ("listen", "metrics", "health-listen"))):
                spec = template_of(pick(found, "Deployment", program))["spec"]
                (container,) = spec["containers"]
                given = dict(argument[2:].split("=", 1) for argument in container["args"])
                listeners = {int(given[flag].rsplit(":", 1)[1]) for flag in flags}
                ports = {port["name"]: port["containerPort"] for port in container["ports"]}
                with self.subTest(rendering=name, program=program):
                    self.assertEqual(listeners, set(ports.values()))
                    for probe in ("startup", "readiness", "liveness"):
                        self.probe_fits(probe, container[f"{probe}Probe"], ports)
                    for service in found:
                        if service["kind"] == "Service" and service["spec"]["selector"]["app.kubernetes.io/name"] == program:
                            for port in service["spec"]["ports"]:
                                self.assertEqual(ports[port["targetPort"]], port["port"])

    def probe_fits(self, name, probe, ports):
        """By the port of health, whose names are those of rpc/health_port.c, and with patience."""
        self.assertEqual(probe["grpc"], {"port": ports["health"], "service": name})
        self.assertGreaterEqual(probe["timeoutSeconds"], 3)  # the default of one second is a loop of restarts under load
        if name == "liveness":
            self.assertGreaterEqual(probe["failureThreshold"], 6)

    def test_the_port_of_health_knows_the_names_of_the_probes(self):
        with open(os.path.join(lab.SOURCE, "rpc", "health_port.c"), encoding="utf-8") as file:
            self.assertLessEqual({"startup", "readiness", "liveness"}, set(re.findall(r'"(\w+)"', file.read())))

    def test_the_target_of_the_orchestrator_is_the_service_of_sandboxd(self):
        for name, found in every_rendering():
            given = dict(argument[2:].split("=", 1) for argument in
                         template_of(pick(found, "Deployment", "orchestrator"))["spec"]["containers"][0]["args"])
            service = pick(found, "Service", "sandboxd")
            with self.subTest(rendering=name):
                self.assertEqual(given["sandbox"], f"dns:///sandboxd.{PRIVILEGED_NAMESPACE}.svc.cluster.local:{service['spec']['ports'][0]['port']}")
                self.assertEqual(service["spec"]["clusterIP"], "None")

    def test_pods_have_the_time_that_their_services_take_to_end(self):
        self.assertEqual(lab.end_constants(), lab.SANDBOXD_END_S)
        for name, found in every_rendering():
            for program, seconds in (("orchestrator", lab.ORCHESTRATOR_END_S), ("sandboxd", lab.SANDBOXD_END_S)):
                spec = template_of(pick(found, "Deployment", program))["spec"]
                given = dict(argument[2:].split("=", 1) for argument in spec["containers"][0]["args"])
                with self.subTest(rendering=name, program=program):
                    self.assertGreaterEqual(int(given["drain-delay-ms"]), 5000)  # balancers by DNS and health hear of it
                    needed = (int(given["drain-delay-ms"]) + int(given["grace-ms"])) / 1000 + seconds
                    self.assertLessEqual(needed, spec["terminationGracePeriodSeconds"])

    def test_every_service_has_a_budget_is_spread_and_survives_a_broken_pod(self):
        for name, found in every_rendering():
            budgets = {document["spec"]["selector"]["matchLabels"]["app.kubernetes.io/name"]: document
                       for document in found if document["kind"] == "PodDisruptionBudget"}
            with self.subTest(rendering=name):
                self.assertLessEqual({"orchestrator", "sandboxd"}, set(budgets))
                for service in ("orchestrator", "sandboxd"):
                    deployment = pick(found, "Deployment", service)
                    self.assertEqual(budgets[service]["metadata"]["namespace"], deployment["metadata"]["namespace"])
                    self.assertEqual(budgets[service]["spec"]["maxUnavailable"], 1)
                    spread = template_of(deployment)["spec"]["topologySpreadConstraints"]
                    self.assertEqual([one["topologyKey"] for one in spread], ["kubernetes.io/hostname", "topology.kubernetes.io/zone"])

    def test_leftovers_in_an_engine_are_removed_on_a_schedule_and_nowhere_else(self):
        """Where the native backend makes the sandboxes, nothing outlives it that would have to be collected."""
        for name, found in every_rendering():
            jobs = [document for document in found if document["kind"] == "CronJob"]
            with self.subTest(rendering=name):
                self.assertEqual([job["metadata"]["name"] for job in jobs], ["crisol-gc"] if name.endswith("docker-socket") else [])
                for job in jobs:
                    spec = template_of(job)["spec"]
                    (container,) = spec["containers"]
                    sandboxd = template_of(pick(found, "Deployment", "sandboxd"))["spec"]
                    given = set(sandboxd["containers"][0]["args"])
                    self.assertEqual(job["spec"]["concurrencyPolicy"], "Forbid")
                    self.assertEqual(container["image"], sandboxd["containers"][0]["image"])
                    self.assertEqual((container["command"], container["args"][0]), (["/usr/libexec/crisol/sandboxd"], "gc"))
                    self.assertLessEqual(set(container["args"][1:]), given)  # of the same engine, and the same image
                    self.assertEqual((spec["nodeSelector"], spec["tolerations"]), (sandboxd["nodeSelector"], sandboxd["tolerations"]))
                    self.assertEqual(sorted(volume["hostPath"]["path"] for volume in spec["volumes"]), ["/var/run/docker.sock"])

    def test_disruption_budgets_and_spreading_name_pods_that_there_are(self):
        for name, found in every_rendering():
            labels = [template_of(document)["metadata"]["labels"] for document, _ in pods(found)]
            selectors = [document["spec"]["selector"]["matchLabels"] for document in found if document["kind"] == "PodDisruptionBudget"]
            selectors += [one["labelSelector"]["matchLabels"] for _, spec in pods(found) for one in spec.get("topologySpreadConstraints", [])]
            with self.subTest(rendering=name):
                self.assertGreaterEqual(len(selectors), 6)
                for selector in selectors:
                    self.assertTrue(any(selector.items() <= label.items() for label in labels), selector)
                for document in found:
                    if document["kind"] == "PodDisruptionBudget":
                        self.assertEqual(document["spec"]["unhealthyPodEvictionPolicy"], "AlwaysAllow")

    def test_several_orchestrators_have_a_common_store(self):
        for name, found in every_rendering():
            deployment = pick(found, "Deployment", "orchestrator")
            given = dict(argument[2:].split("=", 1) for argument in template_of(deployment)["spec"]["containers"][0]["args"])
            with self.subTest(rendering=name):
                if deployment["spec"].get("replicas", 2) > 1:
                    self.assertTrue(given["store"].startswith("postgresql://"), given["store"])

    def test_who_is_scaled_has_no_fixed_number_and_shrinks_slowly(self):
        for name in ("autoscaling", "production"):
            for found in (from_kustomize(name), from_helm(name)):
                for document in found:
                    if document["kind"] == "HorizontalPodAutoscaler":
                        target = pick(found, "Deployment", document["spec"]["scaleTargetRef"]["name"])
                        self.assertNotIn("replicas", target["spec"])
                        down = document["spec"]["behavior"]["scaleDown"]
                        self.assertGreaterEqual(down["stabilizationWindowSeconds"], 300)
                        self.assertEqual(down["policies"], [{"type": "Pods", "value": 1, "periodSeconds": 60}])

    def test_what_they_are_scaled_by_is_a_metric_that_there_is_and_that_the_adapter_serves(self):
        with open(os.path.join(lab.DEPLOY, "monitoring", "adapter.yaml"), encoding="utf-8") as file:
            served = {re.match(r"\w+", rule["seriesQuery"]).group() for rule in yaml.safe_load(file)["rules"]["custom"]}
        sources = ""
        for path in (("orchestrator", "http", "metrics.c"), ("sandboxd", "front", "meter.c")):
            with open(os.path.join(lab.SOURCE, *path), encoding="utf-8") as file:
                sources += file.read()
        used = {metric["pods"]["metric"]["name"] for document in from_kustomize("autoscaling")
                if document["kind"] == "HorizontalPodAutoscaler" for metric in document["spec"]["metrics"] if metric["type"] == "Pods"}
        self.assertEqual(used, served)
        for name in used:
            self.assertIn(f'"{name}"', sources)

    def test_without_an_adapter_the_processor_alone_scales(self):
        code, text, _ = helm(*SETTINGS["autoscaling"], "autoscaling.sandboxd.slots=", "autoscaling.orchestrator.runs=")
        self.assertEqual(code, 0)
        self.assertNotIn("type: Pods\n      pods", text)
        self.assertEqual(text.count("type: Resource"), 2)


if __name__ == "__main__":
    unittest.main(verbosity=1)
