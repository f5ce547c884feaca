/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/model.h"

const char agt_gemini_no_key_help[] =
    "No model key: put GEMINI_API_KEY into the environment or into .env (without a key, `make run` "
    "shows the scripted demo).";
