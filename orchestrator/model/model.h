/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct cr_err;

/*
 * A provider of model answers behind one small interface. All calls of a
 * provider share one loop thread (libcurl's multi interface); thousands may
 * be in flight.
 */
struct agt_model;

/* A call in flight. */
struct agt_model_call;

/* How a call ended. */
enum agt_model_end {
    AGT_MODEL_OK,          /* a complete answer: some text, or a call */
    AGT_MODEL_TRUNCATED,   /* MAX_TOKENS: never to be used as an answer */
    AGT_MODEL_BLOCKED,     /* policy, of the prompt or of the answer */
    AGT_MODEL_QUOTA,       /* quota used up, or the wait would pass the deadline */
    AGT_MODEL_AUTH,        /* the key was refused */
    AGT_MODEL_GONE,        /* the model does not exist (any more) */
    AGT_MODEL_BAD_REQUEST, /* refused as malformed */
    AGT_MODEL_BAD_ANSWER,  /* not understood, empty, or cut before its end */
    AGT_MODEL_UNAVAILABLE, /* could not be reached, or failed, retries used up */
    AGT_MODEL_DEADLINE,
    AGT_MODEL_CANCELLED,
    AGT_MODEL_END_COUNT,
};

/* What the model may call in place of a final answer. */
struct agt_model_function {
    const char *name;        /* letters, digits and '_' */
    const char *description; /* one sentence, for the model */
    const char *parameters;  /* JSON Schema of an object */
};

/* A call that the model made before, in the same question, and what came of it. */
struct agt_model_turn {
    const char *name;
    const char *arguments; /* a JSON object */
    const char *id;        /* as the provider gave them, to be sent back unchanged; "": none … */
    const char *signature; /* … */
    const char *output;    /* UTF-8 */
    uint32_t group;        /* calls behind each other with one number were made in one turn; 0: each
                              in one of its own */
};

/* A call that the model makes. */
struct agt_model_called {
    const char *name;
    const char *arguments;
    const char *id;        /* "": none */
    const char *signature; /* "": none */
};

#define AGT_MODEL_CALLS_MAX 8 /* of one turn; further ones are left out */

#define AGT_MODEL_FUNCTIONS_MAX 2

struct agt_model_request {
    const char *model;   /* NULL: the provider's default. No "..", "?", "&", "#" or white space */
    const char *system;  /* system instruction, UTF-8; NULL: none */
    const char *prompt;  /* user turn, UTF-8 */
    const char *purpose; /* "plan", "code" or "repair": for logs; also what a scripted server keys
                            on through the prompt */
    uint32_t max_output_tokens; /* 0: the provider's default */
    bool wants_variety;         /* another seed than the provider's: a way not taken before */
    int64_t deadline_ns;        /* CLOCK_MONOTONIC */
    const char *schema;         /* the answer is to be such a JSON object; NULL: free text */
    struct agt_model_function functions[AGT_MODEL_FUNCTIONS_MAX];
    size_t function_count;
    bool has_temperature; /* else the model's own */
    double temperature;
    bool has_thinking;       /* else the model's own */
    int32_t thinking_budget; /* tokens; -1: as the model likes */
    bool must_call;          /* one of the functions has to be called … */
    const char *only;        /* … this one; NULL: any of them */
    bool may_not_call;       /* none of them: they are there for the turns alone */
    uint32_t max_calls;      /* requests that may be sent, each of which may be charged; 0: the
                                provider's default */
    const struct agt_model_turn *turns; /* oldest first */
    size_t turn_count;
};

struct agt_model_usage {
    uint32_t prompt_tokens;
    uint32_t answer_tokens;
    uint32_t thought_tokens;
    uint32_t total_tokens;
};

struct agt_model_retry {
    const char *reason; /* short, shown to users, no key in it */
    uint32_t delay_ms;
    uint32_t attempt; /* number of the coming attempt, from 2 */
    bool is_restart;  /* text was delivered: the answer starts again at offset 0 */
};

struct agt_model_answer {
    enum agt_model_end end;
    const char *text; /* the whole answer without thoughts, UTF-8; "" unless OK or TRUNCATED */
    size_t text_size;
    const char *call_name;      /* function that the model calls; "": none … */
    const char *call_arguments; /* … a JSON object, not checked against the schema … */
    const char *call_id;        /* … */
    const char *call_signature;
    const struct agt_model_called *more_calls; /* of the same turn, behind that one */
    size_t more_call_count;
    const char *message; /* why it failed, shown to users, no key in it; "" when OK */
    const char *model_requested;
    const char *model_served;     /* modelVersion; "" when unknown */
    const char *finish_reason;    /* as the provider named it; "" when absent */
    struct agt_model_usage usage; /* of all its requests */
    uint32_t calls;               /* requests sent to the model, each of which may be charged */
    uint32_t elapsed_ms;
};

/* All run on the provider's thread; everything passed is valid until the return. None may block. */
struct agt_model_handlers {
    void (*on_delta)(void *user, uint32_t offset, const char *text, size_t size, bool is_thought);
    void (*on_retry)(void *user, const struct agt_model_retry *retry);
    /* Exactly once per call that was started, also after a cancel. Last. */
    void (*on_end)(void *user, const struct agt_model_answer *answer);
    void *user;
};

/* What came of asking for the models. Everything is valid until the return. */
struct agt_model_list {
    enum agt_model_end end;   /* OK, or why there are none */
    const char *message;      /* why it failed, shown to users, no key in it; "" when OK */
    const char *const *names; /* as a request names them, in the provider's order */
    size_t count;
};

struct agt_model_ops {
    /* Any thread. On success *ret_call is a reference. On failure no handler runs. */
    int (*start)(struct agt_model *model, const struct agt_model_request *request,
                 const struct agt_model_handlers *handlers, struct agt_model_call **ret_call,
                 struct cr_err *err);
    /* Any thread. Safe to repeat and after the end. */
    void (*cancel)(struct agt_model_call *call);
    void (*unref)(struct agt_model_call *call);
    /*
     * Any thread. Asks for the models that can answer; on_list runs exactly once, on the
     * provider's thread, when this returned 0. NULL: the provider has no list.
     */
    int (*list)(struct agt_model *model, int64_t deadline_ns,
                void (*on_list)(void *user, const struct agt_model_list *list), void *user,
                struct cr_err *err);
    const char *(*default_model)(const struct agt_model *model);
    /* A key (or whatever the provider needs) is there. */
    bool (*is_configured)(const struct agt_model *model);
    /* Any thread. Turns of the provider's thread (common/turns.h). */
    uint64_t (*turns)(const struct agt_model *model);
    /* Cancels everything, waits for every on_end. */
    void (*free)(struct agt_model *model);
};

/* First member of every provider. */
struct agt_model {
    const struct agt_model_ops *ops;
};

/* Gemini over HTTPS (orchestrator/model/gemini.c), and what other providers take of the same. */
struct agt_model_options {
    const char *api_key;   /* copied, wiped at the end; NULL or "": not configured */
    const char *key_file;  /* that api_key was read from; read again when it changes. NULL: none */
    const char *base_url;  /* NULL: the public endpoint. http:// only for loopback */
    const char *model;     /* NULL: gemini-2.5-flash */
    const char *ca_file;   /* NULL: the system's */
    uint32_t max_requests; /* at one time, less when fds are short; 0: 4,096 */
    const char *vertex_project;  /* Vertex AI: the project; "": by key alone (express mode) … */
    const char *vertex_location; /* … and the region, "global"; NULL: AI Studio */
    bool is_bearer;              /* the key is an access token of OAuth */
    uint32_t connect_timeout_ms; /* 0: 10,000 */
    uint32_t first_byte_timeout_ms; /* 0: 120,000 */
    uint32_t idle_timeout_ms;       /* 0: 60,000 */
    uint32_t max_attempts;          /* HTTP requests per call, retries included; 0: 4 */
    const char *proxy;              /* "http://host:port"; NULL: none, environment or not */
    uint32_t first_retry_delay_ms;  /* doubled each time, unless the server names one; 0: 1,000 */
};

int agt_gemini_new(const struct agt_model_options *options, struct agt_model **ret_model,
                   struct cr_err *err);

/*
 * A server that speaks OpenAI's chat completions: Ollama, vLLM, the server of
 * llama.cpp, and most hosted models (orchestrator/model/openai.c). Of the
 * options, api_key may be missing, base_url is "…/v1" (NULL: Ollama on this
 * machine), and model is needed; those of Vertex say nothing.
 */
int agt_openai_new(const struct agt_model_options *options, struct agt_model **ret_model,
                   struct cr_err *err);

/* The sentence for a person who has no key: what to set and where. */
extern const char agt_gemini_no_key_help[];
