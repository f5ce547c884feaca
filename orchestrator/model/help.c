/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/model/model.h"

const char agt_gemini_no_key_help[] =
    "No model key: put GEMINI_API_KEY into the environment or into .env, or use a model of your own "
    "(--provider=openai; without either, `make run` shows the scripted demo).";
