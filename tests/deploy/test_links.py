# SPDX-License-Identifier: Apache-2.0
"""TLS on every link of the real services: who is let in, what is said of those who are not, and new
certificates while calls go on."""
import http.client
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request

import exposition
import pytest
import services as crisol
from certificates import Authority, flags
from fleet import AGENT, FIRST_UID, NAME, Fleet, free_port

WEB = "web.test"
TOKEN = "a-token-of-the-links-test"


class Links:
    """One sandboxd and one orchestrator, TLS throughout; callers are AGENT and WEB."""

    def __init__(self):
        # A machine that is free makes more connections from one address than a caller may.
        self.fleet = Fleet(1, sandboxd_flags=(f"--tls-client={WEB}", "--grpc-address-accepts=1000/1000"))
        self.folder = self.fleet.folder
        self.web = self.fleet.authority.make(WEB, os.path.join(self.folder, "web"))
        self.stranger = Authority(os.path.join(self.folder, "stranger"), "a stranger")
        # As a volume of Kubernetes: the files are links through one that is replaced.
        self.volume = os.path.join(self.folder, "volume")
        os.makedirs(self.volume)
        self.put_into_volume(self.fleet.authority.make("localhost", os.path.join(self.volume, "..1"), san="DNS:localhost,IP:127.0.0.1"))
        for name in ("tls.crt", "tls.key", "ca.crt"):
            os.symlink(f"..data/{name}", os.path.join(self.volume, name))
        self.orchestrator = crisol.Process("orchestrator", [
            os.path.join(crisol.BIN, "orchestrator"), "--listen=127.0.0.1:0", "--http=127.0.0.1:0",
            f"--user={crisol.SERVICE_UID}", *self.fleet.agent_flags(), *flags(self.volume), f"--tls-client={WEB}"],
            os.path.join(self.folder, "orchestrator.log"), env={"PATH": "/usr/bin:/bin"})
        ready = self.orchestrator.match(r" ready .*grpc=(\S+) .*http=(\S+)")
        self.grpc, self.http = ready.group(1), ready.group(2)
        self.sandboxd = self.fleet.members[0]

    def put_into_volume(self, folder):
        """One rename, as the kubelet does it."""
        self.fleet.give_to_agent(folder)
        link = os.path.join(self.volume, "..data")
        os.symlink(os.path.basename(folder), link + "_new")
        os.rename(link + "_new", link)

    def crisol(self, *argv, files=None, authority=None, name=NAME, address=None):
        links = []
        if authority is not False:
            links.append(f"--tls-ca={authority or self.fleet.authority.certificate}")
            links.append(f"--tls-name={name}")
        if files:
            links += [f"--tls-cert={files}/tls.crt", f"--tls-key={files}/tls.key"]
        return subprocess.run([os.path.join(crisol.BIN, "crisol"), *links, *argv], capture_output=True, check=False,
                              timeout=60 * crisol.SLOWNESS, text=True, env={
                                  "PATH": "/usr/bin:/bin", "CRISOL_ORCHESTRATOR": self.grpc,
                                  "CRISOL_SANDBOX": address or f"{self.sandboxd.address}:{self.fleet.port}"})

    def exec(self, **how):
        return self.crisol("exec", "--runtime", "shell", "--", "echo through", **how)

    def rest(self, files, path="/api/v1/health"):
        context = ssl.create_default_context(cafile=self.fleet.authority.certificate)
        if files:
            context.load_cert_chain(f"{files}/tls.crt", f"{files}/tls.key")
        host, port = self.http.rsplit(":", 1)
        connection = http.client.HTTPSConnection(host, int(port), timeout=90, context=context)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            serial = ssl.DER_cert_to_PEM_cert(connection.sock.getpeercert(True)) if connection.sock else None
            return answer.status, answer.read(), serial
        finally:
            connection.close()

    def certificate_of(self, files):
        """What the orchestrator shows, as ssl tells it."""
        context = ssl.create_default_context(cafile=self.fleet.authority.certificate)
        context.load_cert_chain(f"{files}/tls.crt", f"{files}/tls.key")
        host, port = self.http.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 90) as plain, context.wrap_socket(plain, server_hostname=host) as secure:
            return secure.getpeercert()

    def close(self):
        code = self.orchestrator.stop()
        self.fleet.close()
        assert code == 0


@pytest.fixture(scope="module", name="links")
def make_links():
    links = Links()
    yield links
    links.close()


def runs(done):
    assert (done.returncode, done.stdout) == (0, "through\n"), f"exit {done.returncode}, {done.stdout!r}, {done.stderr}"
    return True


def test_callers_with_a_certificate_are_served_on_every_port(links):
    runs(links.exec(files=links.web))
    assert links.crisol("runs", files=links.web, name="localhost").returncode == 0
    status, body, _ = links.rest(links.web)
    assert status == 200 and json.loads(body)["sandbox_available"] is True, body
    # The name of the certificate is the caller's, for the audit as for quotas and owners.
    with open(links.sandboxd.audit, encoding="utf-8") as file:
        assert f"caller=san:{WEB} " in file.read()


def test_others_are_refused_and_the_log_says_why(links):
    make = links.fleet.authority.make
    cases = [
        ("no name that is allowed (first: other.test)", make("other.test", os.path.join(links.folder, "other"))),
        ("authority that is not ours", links.stranger.make(WEB, os.path.join(links.folder, "foreign"))),
        ("shows no certificate", None),
        ("has expired", make(WEB, os.path.join(links.folder, "old"), days=-1)),
    ]
    for said, files in cases:
        if "expired" in said:  # our own client refuses to show it
            connect_by_openssl(links, files)
        else:
            assert links.exec(files=files).returncode == 125
        crisol.wait_for(lambda said=said: said in links.sandboxd.log(), 10, f"the log says: {said}")
    assert links.exec(authority=False).returncode == 125
    crisol.wait_for(lambda: "plain text on a port of TLS" in links.sandboxd.log(), 10, "plain text is refused")
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        links.rest(None)
    crisol.wait_for(lambda: "shows no certificate" in links.orchestrator.log(), 10, "REST refuses")
    refusals = [line for line in (links.sandboxd.log() + links.orchestrator.log()).splitlines() if "TLS:" in line]
    assert refusals and not any(links.folder in line or "PRIVATE" in line for line in refusals), refusals
    runs(links.exec(files=links.web))


def connect_by_openssl(links, files):
    subprocess.run(["openssl", "s_client", "-connect", f"{links.sandboxd.address}:{links.fleet.port}", "-alpn", "h2",
                    "-cert", f"{files}/tls.crt", "-key", f"{files}/tls.key"], input=b"", capture_output=True, check=False,
                   timeout=90)


def renewals(links):
    """Certificates that the orchestrator has refused and taken, and when the one in use ends, as its metrics tell."""
    _, samples = exposition.parse(links.rest(links.web, "/metrics")[1].decode())
    return [exposition.value(samples, "secret_renewals_total", kind="certificate", outcome=outcome) for outcome in ("refused", "taken")], \
        exposition.value(samples, "tls_certificate_not_after_seconds")


def test_new_certificates_are_taken_while_calls_go_on(links):
    """Under load, with a stream in flight that began before; the old pair is not shown any more."""
    before, (_, taken) = links.rest(links.web)[2], renewals(links)[0]
    long_one = subprocess.Popen([
        os.path.join(crisol.BIN, "crisol"), f"--tls-ca={links.fleet.authority.certificate}", f"--tls-name={NAME}",
        f"--tls-cert={links.web}/tls.crt", f"--tls-key={links.web}/tls.key", "exec", "--wall-ms=30000", "--runtime", "shell", "--",
        "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 1; done"], stdout=subprocess.PIPE, text=True, env={
            "PATH": "/usr/bin:/bin", "CRISOL_SANDBOX": f"{links.sandboxd.address}:{links.fleet.port}"})
    assert long_one.stdout.readline() == "1\n"
    results, must_end = [], threading.Event()

    def load():
        while not must_end.is_set():
            results.append(links.exec(files=links.web))
    thread = threading.Thread(target=load)
    thread.start()
    try:
        make = links.fleet.authority.make
        links.put_into_volume(make("localhost", os.path.join(links.volume, "..2"), san="DNS:localhost,IP:127.0.0.1"))
        shutil.copytree(make(NAME, os.path.join(links.folder, "server-2")), links.fleet.server_files, dirs_exist_ok=True)
        links.sandboxd.process.popen.send_signal(signal.SIGHUP)  # the orchestrator looks by itself
        begin = time.monotonic()
        crisol.wait_for(lambda: links.rest(links.web)[2] != before, 15, "the new certificate is shown")
        crisol.wait_for(lambda: renewals(links)[0][1] > taken, 15, "it is counted")
        print(f"shown {time.monotonic() - begin:.1f} s after the change")
        crisol.wait_for(lambda: links.sandboxd.log().count("certificate in use") == 2, 15, "sandboxd takes it")
        assert long_one.stdout.read() == "2\n3\n4\n5\n6\n7\n8\n" and long_one.wait(90) == 0
    finally:
        must_end.set()
        thread.join()
    failed = [done.stderr for done in results if (done.returncode, done.stdout) != (0, "through\n")]
    refusals = [line for line in links.sandboxd.log().splitlines() if "refused" in line or "closed" in line]
    assert results and not failed, f"{len(failed)} of {len(results)} calls, first: {failed[:2]} {refusals[-5:]}"


def test_a_mixed_pair_is_refused_and_the_old_one_kept(links):
    before = links.rest(links.web)[2]
    (refused, taken), ends = renewals(links)
    assert ends == ssl.cert_time_to_seconds(links.certificate_of(links.web)["notAfter"])
    make = links.fleet.authority.make
    mixed = make("localhost", os.path.join(links.volume, "..3"), san="DNS:localhost,IP:127.0.0.1")
    other = make(NAME, os.path.join(links.folder, "server-3"))
    shutil.copy(f"{other}/tls.key", f"{mixed}/tls.key")
    links.put_into_volume(mixed)
    shutil.copy(f"{other}/tls.key", f"{links.fleet.server_files}/tls.key")
    said = "the key does not belong to the certificate; keeping the old ones"
    links.sandboxd.process.popen.send_signal(signal.SIGHUP)
    for who, log in (("orchestrator", links.orchestrator.log), ("sandboxd", links.sandboxd.log)):
        crisol.wait_for(lambda log=log: said in log(), 15, f"{who} refuses the pair")
    assert links.rest(links.web)[2] == before
    assert renewals(links) == ([refused + 1, taken], ends)
    runs(links.exec(files=links.web))
    # A front that is started anew begins with the pair that was good.
    links.sandboxd.signal_front(signal.SIGKILL)
    crisol.wait_for(lambda: links.exec(files=links.web).returncode == 0, 40, "a new front serves with the old pair")
    shutil.copy(f"{other}/tls.crt", f"{links.fleet.server_files}/tls.crt")
    crisol.wait_for(lambda: links.sandboxd.log().count("certificate in use") == 4, 15, "the whole pair is taken")
    runs(links.exec(files=links.web))


def test_tokens_have_names_and_are_read_again(links):
    """TLS without client certificates asks for a token; a new file of them is taken, a bad one is not."""
    tokens = os.path.join(links.folder, "tokens")

    def write(text):
        with open(tokens, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(tokens, 0o600)
        os.chown(tokens, crisol.SERVICE_UID, -1)
    write(f"# callers\nci {TOKEN}\n")
    process = crisol.Process("orchestrator", [
        os.path.join(crisol.BIN, "orchestrator"), "--listen=127.0.0.1:0", "--http=127.0.0.1:0",
        f"--user={crisol.SERVICE_UID}", *links.fleet.agent_flags(), f"--token-file={tokens}"],
        os.path.join(links.folder, "tokens.log"), env={"PATH": "/usr/bin:/bin"})
    try:
        ready = process.match(r" ready .*grpc=(\S+) .*http=(\S+)")

        def ask(token):
            done = subprocess.run([os.path.join(crisol.BIN, "crisol"), "runs"], capture_output=True, check=False, env={
                "CRISOL_ORCHESTRATOR": ready.group(1), "CRISOL_TOKEN": token}, timeout=60)
            connection = http.client.HTTPConnection(*ready.group(2).rsplit(":", 1), timeout=90)
            connection.request("GET", "/api/v1/runs", headers={"Authorization": f"Bearer {token}"})
            status = connection.getresponse().status
            connection.close()
            return done.returncode, status
        assert ask(TOKEN) == (0, 200) and ask(TOKEN + "x") == (125, 401)
        write("ci short\n")
        process.popen.send_signal(signal.SIGHUP)
        process.match(r"new tokens: line 1 is neither.*keeping the old ones")
        assert ask(TOKEN) == (0, 200)
        write(f"ci {TOKEN}2\n")
        process.match(r"new tokens in use count=1")  # by itself
        assert ask(TOKEN) == (125, 401) and ask(TOKEN + "2") == (0, 200)
        assert not re.search(TOKEN, process.log())
    finally:
        assert process.stop() == 0


def test_the_token_for_sandboxd_is_read_again(links):
    """Both sides get a new one without a restart, in any order; between the two calls are refused, and no more."""
    port = free_port(["127.0.0.1"])
    folder = os.path.join(links.folder, "by-token")
    os.makedirs(folder)
    os.chmod(folder, 0o711)

    def write(name, text, owner=-1):
        path = os.path.join(folder, name)
        with open(path + "-new", "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(path + "-new", 0o600)
        os.chown(path + "-new", owner, -1)
        os.rename(path + "-new", path)
        return path

    def readyz():
        try:
            with urllib.request.urlopen(f"http://{http_address}/readyz", timeout=90) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    theirs, ours = write("theirs", f"agent {TOKEN}1\n"), write("ours", f"{TOKEN}1\n", crisol.SERVICE_UID)
    sandboxd = crisol.Process("sandboxd", [
        os.path.join(crisol.BIN, "sandboxd"), f"--socket={folder}/s/sandboxd.sock", f"--listen=127.0.0.1:{port}", f"--token-file={theirs}",
        "--backend=native", "--preload=off", "--pool=0", "--slots=1", f"--uid-base={FIRST_UID + 0x4000000}", "--front-user=64480"],
        os.path.join(folder, "sandboxd.log"))
    sandboxd.match(r" sandboxd ready ", 60)
    orchestrator = crisol.Process("orchestrator", [
        os.path.join(crisol.BIN, "orchestrator"), "--listen=127.0.0.1:0", "--http=127.0.0.1:0", f"--user={crisol.SERVICE_UID}",
        f"--sandbox=127.0.0.1:{port}", f"--sandbox-token-file={ours}"], os.path.join(folder, "orchestrator.log"), env={"PATH": "/usr/bin:/bin"})
    try:
        http_address = orchestrator.match(r" ready .*http=(\S+)").group(1)
        crisol.wait_for(lambda: readyz() == 200, 30, "the first token is taken")
        write("theirs", f"agent {TOKEN}2\n")
        sandboxd.popen.send_signal(signal.SIGHUP)
        crisol.wait_for(lambda: readyz() == 503, 30, "the first token is no longer taken")
        write("ours", "", crisol.SERVICE_UID)
        orchestrator.popen.send_signal(signal.SIGHUP)
        orchestrator.match(r"new token for sandboxd: .* is empty; keeping the old one")
        write("ours", f"{TOKEN}2\n", crisol.SERVICE_UID)
        orchestrator.match(r"new token for sandboxd in use")  # by itself
        crisol.wait_for(lambda: readyz() == 200, 30, "the second token is taken")
        assert not re.search(TOKEN, orchestrator.log() + sandboxd.log())
    finally:
        codes = [orchestrator.stop(60), sandboxd.stop(60)]
    assert codes == [0, 0]


def test_a_caller_has_so_many_runs_and_is_told_when_to_come_again(links):
    """By the name of its certificate, at sandboxd."""
    flags_before = links.fleet.sandboxd_flags
    links.fleet.sandboxd_flags = (*flags_before, "--caller-runs=1", "--caller-runs-per-minute=100")
    member = links.fleet.add()
    address = f"{member.address}:{links.fleet.port}"
    one = subprocess.Popen([
        os.path.join(crisol.BIN, "crisol"), f"--tls-ca={links.fleet.authority.certificate}", f"--tls-name={NAME}",
        f"--tls-cert={links.web}/tls.crt", f"--tls-key={links.web}/tls.key", "exec", "--runtime", "shell", "--",
        "echo begun; sleep 8"], stdout=subprocess.PIPE, text=True, env={"CRISOL_SANDBOX": address})
    assert one.stdout.readline() == "begun\n"
    done = links.exec(files=links.web, address=address)
    assert done.returncode == 125 and "one caller may have 1 runs at one time" in done.stderr, done
    runs(links.exec(files=links.fleet.agent_files, address=address))
    assert one.wait(90) == 0
    runs(links.exec(files=links.web, address=address))
    with open(member.audit, encoding="utf-8") as file:
        assert "verdict=RESOURCE_EXHAUSTED reason=CALLER_LIVE_LIMIT" in file.read()
    links.fleet.sandboxd_flags = flags_before
