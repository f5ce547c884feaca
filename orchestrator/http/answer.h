/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <microhttpd.h>

struct agt_exchange;

/*
 * Hands the answer of an exchange to libmicrohttpd, with the headers that
 * every answer has. The content of exchange->out is taken unless it streams.
 * Loop thread, within the request callback. MHD_NO closes the connection.
 */
enum MHD_Result agt_answer_queue(struct agt_exchange *exchange);
