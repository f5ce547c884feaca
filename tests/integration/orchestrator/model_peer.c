/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/integration/orchestrator/model_peer.h"

#include "common/err.h"
#include "tests/harness/test.h"

#include <stdio.h>
#include <string.h>

/* A peer that falls silent is given up soon; one that answers may be slow on a busy machine. */
static uint32_t silence_ms(const struct peer_line *lines, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (lines[i].after == PEER_HOLD || lines[i].delay_ms > 0)
            return 1000;
    }
    return 20000;
}

void model_peer_start(struct model_peer *fixture, const struct peer_line *lines, size_t count)
{
    char base_url[64];
    const struct agt_model_options options = {
        .api_key = KEY,
        .base_url = base_url,
        .connect_timeout_ms = 2000,
        .first_byte_timeout_ms = silence_ms(lines, count),
        .idle_timeout_ms = silence_ms(lines, count),
        .first_retry_delay_ms = 10,
    };
    struct cr_err err = CR_ERR_INIT;

    fixture->fds = test_count_fds();
    peer_start(&fixture->peer, lines, count);
    model_caller_init(&fixture->caller);
    (void)snprintf(base_url, sizeof(base_url), "http://127.0.0.1:%u", fixture->peer.port);
    if (agt_gemini_new(&options, &fixture->client, &err) < 0)
        fail_msg("%s", err.text);
}

void model_peer_stop(struct model_peer *fixture)
{
    fixture->client->ops->free(fixture->client);
    peer_stop(&fixture->peer);
    assert_int_equal(fixture->caller.ends, 1);
    assert_int_equal(test_count_fds(), fixture->fds);
    /* Whatever happened, the key went out in its header and came back nowhere. */
    for (size_t i = 0; i < fixture->peer.request_count; i++) {
        assert_non_null(strstr(fixture->peer.requests[i], "\r\nx-goog-api-key: " KEY "\r\n"));
        assert_ptr_equal(strstr(fixture->peer.requests[i], KEY),
                         strstr(fixture->peer.requests[i], ": " KEY) + 2);
    }
    assert_null(strstr(fixture->caller.message, KEY));
    assert_null(strstr(fixture->caller.retry_reason, KEY));
    assert_null(strstr(cr_buf_str(&fixture->caller.text), KEY));
    model_caller_done(&fixture->caller);
    peer_done(&fixture->peer);
}

void model_peer_play(struct model_peer *fixture, const struct peer_line *lines, size_t count,
                     uint32_t timeout_ms)
{
    model_peer_start(fixture, lines, count);
    model_caller_run(&fixture->caller, fixture->client, "system", "prompt", timeout_ms);
}
