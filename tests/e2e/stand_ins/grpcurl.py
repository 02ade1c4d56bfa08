"""Stands in for grpcurl: calls a method that server reflection describes, without any .proto file.

usage: grpcurl -cacert FILE -cert FILE -key FILE -servername NAME [-d JSON] HOST:PORT PACKAGE.SERVICE/METHOD
"""

import argparse
import sys
from pathlib import Path

import grpc
from google.protobuf import descriptor_pool, json_format, message_factory
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("cacert", "cert", "key"):
        parser.add_argument(f"-{name}", type=Path, required=True)
    parser.add_argument("-servername", required=True)
    parser.add_argument("-d", default="{}", dest="data")
    parser.add_argument("address")
    parser.add_argument("method")
    arguments = parser.parse_args()
    credentials = grpc.ssl_channel_credentials(
        arguments.cacert.read_bytes(), arguments.key.read_bytes(), arguments.cert.read_bytes()
    )
    options = [("grpc.ssl_target_name_override", arguments.servername)]
    service, method = arguments.method.split("/")
    with grpc.secure_channel(arguments.address, credentials, options) as channel:
        described = _describe(channel, service).FindServiceByName(service).methods_by_name[method]
        call = channel.unary_unary(
            f"/{service}/{method}",
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=message_factory.GetMessageClass(described.output_type).FromString,
        )
        request = json_format.Parse(arguments.data, message_factory.GetMessageClass(described.input_type)())
        print(json_format.MessageToJson(call(request)))


def _describe(channel: grpc.Channel, service: str) -> descriptor_pool.DescriptorPool:
    """A pool with the service's file and all files that it imports."""
    pool, known = descriptor_pool.DescriptorPool(), set()
    stub = reflection_pb2_grpc.ServerReflectionStub(channel)

    def ask(**about: str) -> list[bytes]:
        request = reflection_pb2.ServerReflectionRequest(**about)
        (reply,) = stub.ServerReflectionInfo(iter([request]))
        return list(reply.file_descriptor_response.file_descriptor_proto)

    def add(files: list[bytes]) -> None:
        from google.protobuf import descriptor_pb2

        for data in files:
            file = descriptor_pb2.FileDescriptorProto.FromString(data)
            if file.name not in known:
                known.add(file.name)
                for dependency in file.dependency:
                    add(ask(file_by_filename=dependency))
                pool.AddSerializedFile(data)

    add(ask(file_containing_symbol=service))
    return pool


if __name__ == "__main__":
    try:
        main()
    except grpc.RpcError as error:
        sys.exit(f"{error.code().name}: {error.details()}")
