/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Types and flags of HTTP/2 frames (RFC 9113, section 6). */

enum {
    DATA,
    HEADERS,
    PRIORITY,
    RESET,
    SETTINGS,
    PUSH,
    PING,
    GOAWAY,
    WINDOW,
    CONTINUATION
};

enum {
    NONE = 0,
    ACK = 1,
    END_STREAM = 1,
    END_HEADERS = 4
};
