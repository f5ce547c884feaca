/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "sandboxd/wire/msg.h"

#include <stdint.h>

/*
 * Between the backend and a template: a SOCK_SEQPACKET pair, fixed-width
 * messages of one build. A template is the interpreter of a runtime, started
 * once and forked for each box. It reads these messages and nothing else; no
 * byte of a box ever reaches it.
 *
 * In a container nothing is forked: each that waits has an interpreter of its
 * own, which becomes the program of the one run that it serves. It is told
 * ALONE by its sandbox-init, answers READY or FAILED, and from there on the two
 * speak as boxctl.h says of a program that exists already.
 *
 * File descriptors of a template at exec. 0 to 2 are three pipes of its own:
 * by them it finds later what the interpreter made of its streams. Everything
 * else is high, so that the fds of a program have the numbers that they would
 * have without a template.
 */
#define SBX_TEMPLATE_FD_FIRST 200
#define SBX_TEMPLATE_FD_CONTROL 200
#define SBX_TEMPLATE_FD_INIT 201    /* sandbox-init, O_PATH; none in a container */
#define SBX_TEMPLATE_FD_SECCOMP 202 /* the filter of a program, a memfd */
#define SBX_TEMPLATE_FD_IMAGE 203   /* what is loaded into the interpreter; none likewise */
#define SBX_TEMPLATE_FD_USERNS 210  /* of place 0; the others follow */

/* What is loaded into the interpreter, in the image of the containers. */
#define SBX_TEMPLATE_IMAGE_PATH "/sbin/crisol-template.so"

/* Ids of a template's user namespace: its own user is 0; those of a place begin here. */
#define SBX_TEMPLATE_PLACE_ID(place) (((place) + 1U) * UINT32_C(65536))

enum sbx_template_kind {
    SBX_TEMPLATE_PYTHON,         /* runtime python, right before its main.py is opened */
    SBX_TEMPLATE_PYTEST,         /* runtime pytest, inside its collection ("deep") */
    SBX_TEMPLATE_PYTEST_SHALLOW, /* runtime pytest, right before pytest.main */
    SBX_TEMPLATE_KIND_COUNT,
};

enum sbx_template_op {
    SBX_TEMPLATE_BEGIN = 1, /* backend ▶ template, first: kind, places, slowness */
    SBX_TEMPLATE_ALONE,     /* sandbox-init ▶ template, in place of BEGIN: kind */
    SBX_TEMPLATE_READY,     /* template ▶ backend: memory_bytes; BOX may follow */
    SBX_TEMPLATE_BOX,       /* backend ▶ template: id, place, limits, fds */
    SBX_TEMPLATE_BOXED,     /* template ▶ backend: id, pid and error; on success the pidfd */
    SBX_TEMPLATE_FAILED,    /* template ▶ backend: text; the template ends */
};

/* The fds of BOX: control socket and workspace of the box, then the entry of each hierarchy. */
#define SBX_TEMPLATE_BOX_FDS_MIN 2U
#define SBX_TEMPLATE_GROUPS_MAX 5U
#define SBX_TEMPLATE_TEXT_MAX 160U
/* Of one in a container that does not come to wait: the text, and the end of what it wrote on
 * standard error. Terminated, of trusted code only. */
#define SBX_TEMPLATE_WORDS_MAX 400U

struct sbx_template_msg {
    uint32_t op;     /* enum sbx_template_op */
    uint32_t kind;   /* enum sbx_template_kind */
    uint64_t id;     /* the backend's number of the box */
    uint32_t place;  /* of the box: fixes its ids */
    uint32_t places; /* how many there are */
    int32_t pid;
    int32_t error;         /* errno */
    uint64_t memory_bytes; /* of its own: what a program that it forks has without a charge */
    uint64_t slowness;     /* of this machine (common/patience.h); 0: a usual one */
    struct sbx_limits limits;
    char text[SBX_TEMPLATE_TEXT_MAX]; /* terminated; of trusted code only */
};
