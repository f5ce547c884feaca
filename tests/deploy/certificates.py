# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests, by the openssl program."""
import os
import subprocess


def openssl(*argv):
    subprocess.run(["openssl", *argv], check=True, capture_output=True, timeout=60)


class Authority:
    """Signs certificates; each lies in a folder with its key and the authority, as a volume of secrets has them."""

    def __init__(self, folder, name="an authority"):
        self.folder, self.serial = folder, 100
        os.makedirs(folder, exist_ok=True)
        self.key, self.certificate = os.path.join(folder, "ca.key"), os.path.join(folder, "ca.crt")
        openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2",
                "-subj", f"/CN={name}", "-keyout", self.key, "-out", self.certificate)

    def make(self, name, folder, days=1, san=None, start=None):
        """tls.crt, tls.key and ca.crt in `folder`, which is made. Returns it. `start` and a past end: as openssl ca."""
        os.makedirs(folder, exist_ok=True)
        self.serial += 1
        key, request = os.path.join(folder, "tls.key"), os.path.join(folder, "request")
        extensions = os.path.join(folder, "extensions")
        with open(extensions, "w", encoding="utf-8") as file:
            file.write(f"subjectAltName={san or 'DNS:' + name}\nextendedKeyUsage=serverAuth,clientAuth\n")
        openssl("req", "-new", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", f"/CN={name}",
                "-keyout", key, "-out", request)
        openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey", self.key, "-set_serial",
                str(self.serial), "-days", str(days), "-extfile", extensions, "-out", os.path.join(folder, "tls.crt"))
        with open(self.certificate, encoding="utf-8") as source, \
                open(os.path.join(folder, "ca.crt"), "w", encoding="utf-8") as copy:
            copy.write(source.read())
        os.chmod(key, 0o600)
        os.remove(request)
        os.remove(extensions)
        return folder


def flags(folder, prefix="tls", authority="client-ca"):
    """The settings that name what make() has made."""
    return [f"--{prefix}-cert={folder}/tls.crt", f"--{prefix}-key={folder}/tls.key", f"--{prefix}-{authority}={folder}/ca.crt"]
