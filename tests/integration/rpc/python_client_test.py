#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""A foreign gRPC stack against our server: python_client_test.py SERVER_PROGRAM DESCRIPTOR_SET."""

import os
import signal
import subprocess
import sys
import tempfile
import unittest

try:
    import grpc
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

SERVER, DESCRIPTOR_SET = sys.argv[1:3]
SERVICE = "crisol.test.v1.TestService"
PATIENCE_S = 90


def make_pool(files):
    pool = descriptor_pool.DescriptorPool()
    for file in files:
        pool.Add(file)
    return pool


def message_class(pool, name):
    return message_factory.MessageFactory(pool).GetPrototype(pool.FindMessageTypeByName(name))


with open(DESCRIPTOR_SET, "rb") as set_file:
    POOL = make_pool(descriptor_pb2.FileDescriptorSet.FromString(set_file.read()).file)
Any = message_class(POOL, "google.protobuf.Any")


class ServerTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        path = os.path.join(self.folder.name, "s")
        env = {key: value for key, value in os.environ.items() if key.endswith("SAN_OPTIONS")}
        self.server = subprocess.Popen([SERVER, path], stdout=subprocess.PIPE, env=env)
        self.assertEqual(self.server.stdout.readline(), b"ready\n")
        self.channel = grpc.insecure_channel("unix:" + path)

    def tearDown(self):
        self.channel.close()
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(self.server.wait(PATIENCE_S), 0)
        self.server.stdout.close()
        self.folder.cleanup()

    def unary(self, path, request, response_class, **options):
        call = self.channel.unary_unary(path, lambda m: m.SerializeToString(), response_class.FromString)
        return call(request, timeout=PATIENCE_S, **options)

    def stream(self, path, request, response_class, timeout=PATIENCE_S):
        call = self.channel.unary_stream(path, lambda m: m.SerializeToString(), response_class.FromString)
        return call(request, timeout=timeout)

    def bidi(self, path, requests, response_class):
        call = self.channel.stream_stream(path, lambda m: m.SerializeToString(), response_class.FromString)
        return call(iter(requests), timeout=PATIENCE_S)

    def test_health(self):
        request = message_class(POOL, "grpc.health.v1.HealthCheckRequest")
        response = message_class(POOL, "grpc.health.v1.HealthCheckResponse")
        self.assertEqual(self.unary("/grpc.health.v1.Health/Check", request(), response).status, 1)
        with self.assertRaises(grpc.RpcError) as caught:
            self.unary("/grpc.health.v1.Health/Check", request(service="no.Service"), response)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.NOT_FOUND)
        watch = self.stream("/grpc.health.v1.Health/Watch", request(), response)
        self.assertEqual(next(watch).status, 1)
        self.server.send_signal(signal.SIGTERM)
        self.assertEqual(next(watch).status, 2)
        with self.assertRaises(grpc.RpcError) as caught:
            next(watch)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNAVAILABLE)

    def test_health_list(self):
        request = message_class(POOL, "grpc.health.v1.HealthListRequest")
        response = message_class(POOL, "grpc.health.v1.HealthListResponse")
        statuses = self.unary("/grpc.health.v1.Health/List", request(), response).statuses
        self.assertEqual({name: s.status for name, s in statuses.items()}, {"": 1, SERVICE: 2})

    def reflect(self, version, requests):
        request = message_class(POOL, f"grpc.reflection.{version}.ServerReflectionRequest")
        response = message_class(POOL, f"grpc.reflection.{version}.ServerReflectionResponse")
        path = f"/grpc.reflection.{version}.ServerReflection/ServerReflectionInfo"
        return list(self.bidi(path, [request(**r) for r in requests], response))

    def test_reflection(self):
        for version in ("v1", "v1alpha"):
            with self.subTest(version):
                listed, symbol, missing = self.reflect(version, [
                    {"list_services": ""},
                    {"file_containing_symbol": "crisol.sandbox.v1.SandboxService"},
                    {"file_containing_symbol": "no.such.Symbol"},
                ])
                names = [s.name for s in listed.list_services_response.service]
                self.assertEqual(names, sorted(names))
                self.assertIn(SERVICE, names)
                self.assertIn(f"grpc.reflection.{version}.ServerReflection", names)
                self.assertNotIn("crisol.sandbox.v1.SandboxService", names)
                self.assertEqual(missing.error_response.error_code, 5)
                # What came is enough to build the messages: the whole closure, no other source.
                files = [descriptor_pb2.FileDescriptorProto.FromString(data)
                         for data in symbol.file_descriptor_response.file_descriptor_proto]
                pool = descriptor_pool.DescriptorPool()
                for file in files:
                    pool.Add(file)
                execute = message_class(pool, "crisol.sandbox.v1.ExecuteRequest")
                self.assertEqual(execute(code="1").code, "1")

    def test_stream(self):
        chunks = list(self.stream(f"/{SERVICE}/Count", Any(value=b"200 30000"), Any))
        self.assertEqual(len(chunks), 200)
        self.assertEqual(sum(len(c.value) for c in chunks), 6000000)

    def test_stream_cancelled_in_the_middle(self):
        stream = self.stream(f"/{SERVICE}/Count", Any(value=b"100000 1000"), Any)
        next(stream)
        stream.cancel()
        with self.assertRaises(grpc.RpcError) as caught:
            for _ in stream:
                pass
        self.assertEqual(caught.exception.code(), grpc.StatusCode.CANCELLED)

    def test_bidi(self):
        sent = [Any(type_url=f"message {i}", value=bytes(i * 10)) for i in range(300)]
        received = list(self.bidi(f"/{SERVICE}/Chat", sent, Any))
        self.assertEqual(received, sent)

    def test_error_details(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.unary(f"/{SERVICE}/Echo", Any(type_url="fail"), Any)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.INVALID_ARGUMENT)
        trailers = dict(caught.exception.trailing_metadata())
        status = message_class(POOL, "google.rpc.Status").FromString(
            trailers["grpc-status-details-bin"])
        self.assertEqual(status.code, 3)
        self.assertEqual(status.message, caught.exception.details())
        found = {}
        for detail in status.details:
            name = detail.type_url.rpartition("/")[2]
            found[name] = message_class(POOL, name).FromString(detail.value)
        fields = [v.field for v in found["google.rpc.BadRequest"].field_violations]
        self.assertEqual(fields, ["limits.pids", "code"])
        delay = found["google.rpc.RetryInfo"].retry_delay
        self.assertEqual((delay.seconds, delay.nanos), (1, 250000000))
        self.assertEqual(found["google.rpc.ErrorInfo"].reason, "TEST_REASON")

    def test_gzip_is_refused_before_it_is_inflated(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.unary(f"/{SERVICE}/Echo", Any(value=bytes(1 << 20)), Any,
                       compression=grpc.Compression.Gzip)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_unknown_method(self):
        with self.assertRaises(grpc.RpcError) as caught:
            self.unary("/no.Service/Method", Any(), Any)
        self.assertEqual(caught.exception.code(), grpc.StatusCode.UNIMPLEMENTED)

    def test_a_large_message(self):
        request = Any(value=os.urandom(3 << 20))
        self.assertEqual(self.unary(f"/{SERVICE}/Echo", request, Any), request)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
