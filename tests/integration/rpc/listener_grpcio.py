#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Calls a server behind rpc/listener with Google's own gRPC library.

Usage: listener_grpcio.py LISTENER_SERVER
"""
import os
import subprocess
import sys
import tempfile
from concurrent import futures

try:
    import grpc
    from google.protobuf import any_pb2
except ImportError:
    print("grpc for /usr/bin/python3 is not here (Debian: python3-grpcio python3-protobuf)")
    sys.exit(77)

SERVICE = "/crisol.test.v1.TestService/"
CANCELS = 1000
TIMEOUT_S = 90


def method(make, name):
    return make(
        SERVICE + name,
        request_serializer=any_pb2.Any.SerializeToString,
        response_deserializer=any_pb2.Any.FromString,
    )


def check_unary(channel):
    echo = method(channel.unary_unary, "Echo")
    for size in (0, 1, 16384, 1 << 20):
        request = any_pb2.Any(type_url="x", value=b"v" * size)
        assert echo(request, timeout=TIMEOUT_S) == request


def check_parallel(channel):
    echo = method(channel.unary_unary, "Echo")
    calls = [echo.future(any_pb2.Any(type_url=str(i)), timeout=TIMEOUT_S) for i in range(500)]
    assert [call.result().type_url for call in calls] == [str(i) for i in range(500)]


def check_stream(channel):
    count = method(channel.unary_stream, "Count")
    chunks = list(count(any_pb2.Any(value=b"50 100000"), timeout=TIMEOUT_S))
    assert [len(chunk.value) for chunk in chunks] == [100000] * 50


def check_bidi(channel):
    chat = method(channel.stream_stream, "Chat")
    said = [any_pb2.Any(type_url=str(i)) for i in range(100)]
    assert list(chat(iter(said), timeout=TIMEOUT_S)) == said


def check_error(channel):
    try:
        method(channel.unary_unary, "Nothing")(any_pb2.Any(), timeout=TIMEOUT_S)
        raise AssertionError("an unknown method answered")
    except grpc.RpcError as error:
        assert error.code() == grpc.StatusCode.UNIMPLEMENTED, error


def check_cancels(channel):
    """Each call has begun to answer when it is cancelled: no reason to close the connection."""
    count = method(channel.unary_stream, "Count")
    for _ in range(CANCELS):
        call = count(any_pb2.Any(value=b"1000 1000"), timeout=TIMEOUT_S)
        next(call)
        call.cancel()
    check_unary(channel)


def check_many_channels(address):
    """As many clients of one user as a judge or a test runner would start."""

    def one(index):
        options = [("grpc.use_local_subchannel_pool", 1), ("channel", index)]
        with grpc.insecure_channel(address, options=options) as channel:
            check_unary(channel)

    with futures.ThreadPoolExecutor(16) as pool:
        list(pool.map(one, range(48)))


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = "unix:" + os.path.join(folder, "a.sock")
        server = subprocess.Popen(
            [sys.argv[1], path, "127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        port = server.stdout.readline().split()[1].decode()
        for address in (path, "127.0.0.1:" + port):
            for check in (
                check_unary,
                check_parallel,
                check_stream,
                check_bidi,
                check_error,
                check_cancels,
            ):
                with grpc.insecure_channel(address) as channel:
                    check(channel)
                print(f"{address.split(':')[0]} {check.__name__} ok")
            check_many_channels(address)
        server.stdin.close()
        assert server.wait(timeout=90) == 0


if __name__ == "__main__":
    main()
