/* SPDX-License-Identifier: Apache-2.0 */
#include "common/buf.h"
#include "common/utf8.h"
#include "everything.pb-c.h"
#include "rpc/json.h"
#include "rpc/status.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

#define TEXT_BYTES ((size_t)1 << 20)

static const ProtobufCMessageDescriptor *const type = &crisol__test__v1__everything__descriptor;

static ProtobufCMessage *read_text(const void *text, size_t size)
{
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    int r = rpc_json_read(type, text, size, &message, &status);

    FUZZ_CHECK((r == 0) == (message != NULL));
    FUZZ_CHECK((r == 0) == (status.code == RPC_OK));
    FUZZ_CHECK(cr_utf8_is_valid(status.message, strlen(status.message)));
    return message;
}

static void write_text(const ProtobufCMessage *message, const struct rpc_json_style *style,
                       struct cr_buf *buf)
{
    cr_buf_init(buf, TEXT_BYTES);
    FUZZ_CHECK(rpc_json_write(message, style, buf) == 0);
    FUZZ_CHECK(cr_utf8_is_valid(buf->data, buf->size));
    FUZZ_CHECK(memchr(buf->data, '\n', buf->size) == NULL);
}

/* What was written reads as the same message, in every style. */
static void check_round_trip(const ProtobufCMessage *message, const struct rpc_json_style *style)
{
    CR_AUTO_BUF struct cr_buf first = {0};
    CR_AUTO_BUF struct cr_buf second = {0};
    ProtobufCMessage *again;

    write_text(message, style, &first);
    again = read_text(first.data, first.size);
    FUZZ_CHECK(again);
    write_text(again, style, &second);
    FUZZ_CHECK(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    protobuf_c_message_free_unpacked(again, NULL);
}

/* A lenient reader takes all that a strict one does, as the same. */
static void check_lenient(const void *text, size_t size, const ProtobufCMessage *strict)
{
    static const struct rpc_json_leniency leniency = {
        .skips_unknown = true, .takes_scalars = true, .rounds_up = true};
    static const struct rpc_json_style style = {.use_snake_case = false};
    struct rpc_status status = RPC_STATUS_INIT;
    ProtobufCMessage *message = NULL;
    CR_AUTO_BUF struct cr_buf first = {0};
    CR_AUTO_BUF struct cr_buf second = {0};
    int r = rpc_json_read_leniently(type, text, size, &leniency, &message, &status);

    FUZZ_CHECK((r == 0) == (status.code == RPC_OK));
    if (r < 0) {
        FUZZ_CHECK(!strict);
        return;
    }
    write_text(message, &style, &first);
    if (strict) {
        write_text(strict, &style, &second);
        FUZZ_CHECK(first.size == second.size && memcmp(first.data, second.data, first.size) == 0);
    }
    protobuf_c_message_free_unpacked(message, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const struct rpc_json_style PLAIN = {.use_snake_case = false};
    static const struct rpc_json_style OTHER = {.use_snake_case = true,
                                                .with_defaults = true,
                                                .int64_as_number = true,
                                                .strip_enum_prefix = true};
    ProtobufCMessage *message = read_text(data, size);

    check_lenient(data, size, message);
    if (!message)
        return 0;
    check_round_trip(message, &PLAIN);
    check_round_trip(message, &OTHER);
    protobuf_c_message_free_unpacked(message, NULL);
    return 0;
}
