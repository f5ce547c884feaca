/* SPDX-License-Identifier: Apache-2.0 */
#include "rpc/reflection.h"

#include "common/err.h"
#include "common/unconst.h"
#include "grpc/reflection/v1/reflection.pb-c.h"
#include "rpc/call.h"
#include "rpc/descriptors.h"
#include "rpc/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SERVICES_MAX 64

typedef Grpc__Reflection__V1__ServerReflectionRequest reflection_request;
typedef Grpc__Reflection__V1__ServerReflectionResponse reflection_response;

#define REQUEST(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_REQUEST__MESSAGE_REQUEST_##name
#define RESPONSE(name) GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__MESSAGE_RESPONSE_##name

struct rpc_reflection {
    struct rpc_descriptors *descriptors;
    char *services[SERVICES_MAX]; /* sorted */
    size_t service_count;
};

/* Routes are sorted by path, so those of one service come together. */
static int list_services(struct rpc_reflection *reflection, const struct rpc_server *server)
{
    for (size_t i = 0; i < server->route_count; i++) {
        const char *name = server->routes[i].method->path + 1;
        size_t size = strcspn(name, "/");
        size_t count = reflection->service_count;
        const char *last = count > 0 ? reflection->services[count - 1] : "";

        if (strlen(last) == size && memcmp(last, name, size) == 0)
            continue;
        if (count == SERVICES_MAX)
            return -ENOSPC;
        reflection->services[count] = strndup(name, size);
        if (!reflection->services[count])
            return -ENOMEM;
        reflection->service_count++;
    }
    return 0;
}

int rpc_reflection_new(const struct rpc_server *server, struct rpc_reflection **ret_reflection,
                       struct cr_err *err)
{
    struct rpc_reflection *reflection = calloc(1, sizeof(*reflection));
    int r;

    if (!reflection)
        return cr_err_set(err, ENOMEM, "out of memory for reflection");
    r = list_services(reflection, server);
    if (r < 0)
        (void)cr_err_sys(err, -r, "list the services for reflection");
    else
        r = rpc_descriptors_new(server->options.descriptor_set, server->options.descriptor_set_size,
                                &reflection->descriptors, err);
    if (r < 0) {
        (void)rpc_reflection_free(reflection);
        return r;
    }
    *ret_reflection = reflection;
    return 0;
}

struct rpc_reflection *rpc_reflection_free(struct rpc_reflection *reflection)
{
    if (!reflection)
        return NULL;
    for (size_t i = 0; i < reflection->service_count; i++)
        free(reflection->services[i]);
    (void)rpc_descriptors_free(reflection->descriptors);
    free(reflection);
    return NULL;
}

/* Every answer repeats its request. */
static reflection_response begin_response(reflection_request *request)
{
    reflection_response response = GRPC__REFLECTION__V1__SERVER_REFLECTION_RESPONSE__INIT;

    response.valid_host = request->host;
    response.original_request = request;
    return response;
}

static void answer_services(struct rpc_call *call, reflection_request *request)
{
    reflection_response response = begin_response(request);
    const struct rpc_reflection *reflection = call->server->reflection;
    Grpc__Reflection__V1__ListServiceResponse answer =
        GRPC__REFLECTION__V1__LIST_SERVICE_RESPONSE__INIT;
    Grpc__Reflection__V1__ServiceResponse rows[SERVICES_MAX];
    Grpc__Reflection__V1__ServiceResponse *list[SERVICES_MAX];

    for (size_t i = 0; i < reflection->service_count; i++) {
        grpc__reflection__v1__service_response__init(&rows[i]);
        rows[i].name = reflection->services[i];
        list[i] = &rows[i];
    }
    answer.n_service = reflection->service_count;
    answer.service = list;
    response.message_response_case = RESPONSE(LIST_SERVICES_RESPONSE);
    response.list_services_response = &answer;
    (void)rpc_call_send(call, &response.base);
}

static void answer_error(struct rpc_call *call, reflection_request *request, enum rpc_code code,
                         const char *what)
{
    reflection_response response = begin_response(request);
    Grpc__Reflection__V1__ErrorResponse error = GRPC__REFLECTION__V1__ERROR_RESPONSE__INIT;
    char text[256];

    (void)snprintf(text, sizeof(text), "%s", what);
    error.error_code = (int32_t)code;
    error.error_message = text;
    response.message_response_case = RESPONSE(ERROR_RESPONSE);
    response.error_response = &error;
    (void)rpc_call_send(call, &response.base);
}

static void answer_file(struct rpc_call *call, reflection_request *request, int file,
                        const char *missing)
{
    reflection_response response = begin_response(request);
    Grpc__Reflection__V1__FileDescriptorResponse answer =
        GRPC__REFLECTION__V1__FILE_DESCRIPTOR_RESPONSE__INIT;
    struct rpc_descriptors_file files[RPC_DESCRIPTORS_FILES_MAX];
    ProtobufCBinaryData list[RPC_DESCRIPTORS_FILES_MAX];

    if (file < 0) {
        answer_error(call, request, RPC_NOT_FOUND, missing);
        return;
    }
    answer.n_file_descriptor_proto =
        rpc_descriptors_closure(call->server->reflection->descriptors, file, files);
    for (size_t i = 0; i < answer.n_file_descriptor_proto; i++) {
        list[i].data = cr_unconst(files[i].data); /* packing only reads it */
        list[i].len = files[i].size;
    }
    answer.file_descriptor_proto = list;
    response.message_response_case = RESPONSE(FILE_DESCRIPTOR_RESPONSE);
    response.file_descriptor_response = &answer;
    (void)rpc_call_send(call, &response.base);
}

/* proto3 has no extensions, so every message has none. */
static void answer_extensions(struct rpc_call *call, reflection_request *request, char *type)
{
    reflection_response response = begin_response(request);
    Grpc__Reflection__V1__ExtensionNumberResponse answer =
        GRPC__REFLECTION__V1__EXTENSION_NUMBER_RESPONSE__INIT;

    if (rpc_descriptors_find_message(call->server->reflection->descriptors, type) < 0) {
        answer_error(call, request, RPC_NOT_FOUND, "no such message type");
        return;
    }
    answer.base_type_name = type;
    response.message_response_case = RESPONSE(ALL_EXTENSION_NUMBERS_RESPONSE);
    response.all_extension_numbers_response = &answer;
    (void)rpc_call_send(call, &response.base);
}

static void on_message(struct rpc_call *call, const ProtobufCMessage *message)
{
    const struct rpc_descriptors *descriptors = call->server->reflection->descriptors;
    /* The answer repeats it; packing only reads it. */
    reflection_request *request = cr_unconst(message);

    switch (request->message_request_case) {
    case REQUEST(LIST_SERVICES):
        answer_services(call, request);
        break;
    case REQUEST(FILE_BY_FILENAME):
        answer_file(call, request,
                    rpc_descriptors_find_file(descriptors, request->file_by_filename),
                    "no such file");
        break;
    case REQUEST(FILE_CONTAINING_SYMBOL):
        answer_file(call, request,
                    rpc_descriptors_find_symbol(descriptors, request->file_containing_symbol),
                    "no such symbol");
        break;
    case REQUEST(FILE_CONTAINING_EXTENSION):
        answer_error(call, request, RPC_NOT_FOUND, "no such extension: proto3 has none");
        break;
    case REQUEST(ALL_EXTENSION_NUMBERS_OF_TYPE):
        answer_extensions(call, request, request->all_extension_numbers_of_type);
        break;
    default:
        answer_error(call, request, RPC_INVALID_ARGUMENT, "message_request: is not set");
        break;
    }
}

static void on_half_close(struct rpc_call *call)
{
    rpc_call_finish(call, NULL, NULL);
}

static void on_wake(struct rpc_call *call)
{
    struct rpc_status status;

    if (!rpc_server_is_draining(call->server))
        return;
    rpc_status_set_draining(&status);
    rpc_call_finish(call, &status, NULL);
}

#define REFLECTION_METHOD(version)                                                                 \
    {                                                                                              \
        .path = "/grpc.reflection." version ".ServerReflection/ServerReflectionInfo",              \
        .kind = RPC_BIDI, .request = &grpc__reflection__v1__server_reflection_request__descriptor, \
        .response = &grpc__reflection__v1__server_reflection_response__descriptor,                 \
        .on_message = on_message, .on_half_close = on_half_close, .on_writable = rpc_call_read,    \
        .on_wake = on_wake,                                                                        \
    }

const struct rpc_method rpc_reflection_methods[] = {
    REFLECTION_METHOD("v1"),
    REFLECTION_METHOD("v1alpha"),
    {.path = NULL},
};
