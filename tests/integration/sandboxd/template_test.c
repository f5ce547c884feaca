/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Real templates and boxes, with this test in the place of the backend.
 * Needs root.
 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/log.h"
#include "sandboxd/backend/userns.h"
#include "sandboxd/native/native.h"
#include "sandboxd/native/needs.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/template/kind.h"
#include "sandboxd/template/template.h"
#include "sandboxd/wire/boxctl.h"
#include "sandboxd/wire/fds.h"
#include "sandboxd/wire/payload.h"
#include "tests/harness/test.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <sys/socket.h>
#include <sys/wait.h>

#define SLOTS 2
#define DEADLINE_MS 60000
#define OUTPUT_MAX 65536
#define UID_BASE_STEP (16U * SBX_USERNS_RANGE)

/* What the backend would hold. */
static struct sbx_native native;
static struct sbx_template_host host = {.image_fd = -1, .userns_fd = -1};
static struct sbx_template templates[SBX_TEMPLATE_KIND_COUNT];
static uint32_t next_group = 1;

struct spec {
    const char *file_name;
    const char *file_text;
    const char *arg; /* one more behind those of the runtime; NULL: none */
    const char *env; /* value of a variable NAME; NULL: none */
};

/* A box from asking for it to its end. */
struct box {
    enum sbx_template_kind kind;
    uint32_t slot;
    uint32_t number;
    struct sbx_cgroup group;
    int workspace_fd;
    int control_fd;
    int pidfd;
    pid_t pid;
    int output_fds[2]; /* read ends: stdout, stderr */
    char output[2][OUTPUT_MAX];
    int wait_status;
};

static void assert_ok(int r, const struct cr_err *err)
{
    if (r < 0)
        fail_msg("%d %s", r, err->text);
}

static int start_all(void **state)
{
    struct sbx_native_settings settings = {
        .slots = SLOTS,
        .uid_base = SBX_USERNS_DEFAULT_BASE + UID_BASE_STEP,
        .init_path = (char[]){SANDBOX_INIT},
    };
    struct cr_err err = CR_ERR_INIT;

    (void)state;
    cr_log_setup("template_test", CR_LOG_INFO, CR_LOG_TEXT);
    for (size_t i = 0; i < CR_ARRAY_SIZE(templates); i++)
        templates[i] = (struct sbx_template)SBX_TEMPLATE_INIT;
    sbx_native_init(&settings, &native);
    assert_ok(sbx_template_image_load(TEMPLATE_IMAGE, &host.image_fd, &err), &err);
    assert_ok(sbx_template_userns_make((uint32_t)settings.uid_base, SLOTS, &host.userns_fd, &err),
              &err);
    assert_ok(sbx_needs_meet(&settings, &native, &err), &err);
    host.init_fd = native.init_fd;
    host.seccomp_fd = native.seccomp_fd;
    host.places = SLOTS;
    return 0;
}

static int stop_all(void **state)
{
    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(templates); i++)
        sbx_template_stop(&templates[i]);
    cr_close_fd(&host.image_fd);
    cr_close_fd(&host.userns_fd);
    sbx_native_stop(&native);
    return 0;
}

static struct sbx_template_event await_event(struct sbx_template *template)
{
    struct pollfd watch = {.fd = template->fd, .events = POLLIN};
    struct sbx_template_event event = {.pidfd = -1};

    assert_int_equal(poll(&watch, 1, DEADLINE_MS), 1);
    assert_int_equal(sbx_template_receive(template, &event), 0);
    return event;
}

/* The template of that kind, started when there is none. */
static struct sbx_template *get_template(enum sbx_template_kind kind)
{
    struct sbx_template *template = &templates[kind];
    struct cr_err err = CR_ERR_INIT;

    if (template->pid > 0)
        return template;
    assert_ok(sbx_template_start(&host, kind, template, &err), &err);
    assert_int_equal(await_event(template).kind, SBX_TEMPLATE_EVENT_READY);
    return template;
}

static void receive(const struct box *box, uint32_t event, struct sbx_init_msg *ret_msg)
{
    struct pollfd watch = {.fd = box->control_fd, .events = POLLIN};

    assert_int_equal(poll(&watch, 1, DEADLINE_MS), 1);
    assert_int_equal(recv(box->control_fd, ret_msg, sizeof(*ret_msg), 0), sizeof(*ret_msg));
    if (ret_msg->event != event)
        fail_msg("event %u instead of %u, stage %s, errno %d", ret_msg->event, event,
                 sbx_stage_name(ret_msg->stage), ret_msg->error);
}

/* Up to WAITING. */
static void make_box(enum sbx_template_kind kind, uint32_t slot, struct box *ret_box)
{
    struct sbx_template *template = get_template(kind);
    const struct sbx_limits *limits = &sbx_default_limits;
    uid_t owner = native.uid_base + slot * SBX_USERNS_RANGE + SBX_USERNS_PROGRAM_ID;
    struct cr_err err = CR_ERR_INIT;
    struct sbx_template_event event;
    struct sbx_init_msg msg;

    *ret_box = (struct box){.kind = kind, .slot = slot, .number = next_group++};
    assert_ok(sbx_cgroup_make(&native.base.cgroups, ret_box->number, &err), &err);
    assert_ok(sbx_cgroup_open(&native.base.cgroups, ret_box->number, &ret_box->group, &err), &err);
    assert_ok(sbx_cgroup_open_files(&ret_box->group, &err), &err);
    assert_ok(sbx_cgroup_limit(&ret_box->group, limits, &err), &err);
    assert_ok(sbx_workspace_make(limits->value[SBX_LIMIT_WORKSPACE_BYTES],
                                 limits->value[SBX_LIMIT_WORKSPACE_INODES], owner,
                                 &ret_box->workspace_fd, &err),
              &err);
    assert_ok(sbx_template_ask(template,
                               &(struct sbx_template_box){.group = &ret_box->group,
                                                          .limits = limits,
                                                          .workspace_fd = ret_box->workspace_fd,
                                                          .place = slot,
                                                          .id = ret_box->number},
                               &ret_box->control_fd, &err),
              &err);
    event = await_event(template);
    assert_int_equal(event.error, 0);
    assert_int_equal(event.id, ret_box->number);
    ret_box->pidfd = event.pidfd;
    ret_box->pid = event.pid;
    receive(ret_box, SBX_INIT_WAITING, &msg);
}

static void add(struct cr_buf *buf, enum sbx_payload_kind kind, const char *name, const char *data)
{
    assert_int_equal(sbx_payload_add(buf, kind, 0, 0, name, strlen(name), data, strlen(data)), 0);
}

static void add_environment(struct cr_buf *buf, const char *const *lines)
{
    for (; *lines; lines++) {
        size_t size = strcspn(*lines, "=");

        assert_int_equal(sbx_payload_add(buf, SBX_PAYLOAD_ENV, 0, 0, *lines, size,
                                         *lines + size + 1, strlen(*lines + size + 1)),
                         0);
    }
}

/* As the front does. */
static int make_payload(enum sbx_template_kind kind, const struct spec *spec)
{
    const struct sbx_runtime *runtime = sbx_template_runtime(kind);
    CR_AUTO_BUF struct cr_buf buf;
    int fd;

    cr_buf_init(&buf, SBX_PAYLOAD_MAX);
    assert_int_equal(sbx_payload_begin(&buf), 0);
    for (const char *const *arg = runtime->argv; *arg; arg++)
        add(&buf, SBX_PAYLOAD_ARG, "", *arg);
    if (spec->arg)
        add(&buf, SBX_PAYLOAD_ARG, "", spec->arg);
    add_environment(&buf, sbx_environment);
    add_environment(&buf, runtime->environment);
    if (spec->env)
        add(&buf, SBX_PAYLOAD_ENV, "NAME", spec->env);
    if (spec->file_name)
        add(&buf, SBX_PAYLOAD_FILE, spec->file_name, spec->file_text);
    sbx_payload_end(&buf);
    fd = sbx_payload_seal(&buf, NULL);
    assert_true(fd >= 0);
    return fd;
}

static void load(struct box *box, const struct spec *spec)
{
    const struct sbx_init_msg msg = {.event = SBX_INIT_LOAD};
    int payload_fd = make_payload(box->kind, spec);
    int in[2];
    int out[2];
    int err[2];

    assert_int_equal(pipe2(in, O_CLOEXEC) | pipe2(out, O_CLOEXEC) | pipe2(err, O_CLOEXEC), 0);
    assert_int_equal(sbx_fds_send(box->control_fd, &msg, sizeof(msg),
                                  (int[]){payload_fd, in[0], out[1], err[1]}, SBX_INIT_LOAD_FDS),
                     0);
    (void)(close(payload_fd) | close(in[0]) | close(in[1]) | close(out[1]) | close(err[1]));
    box->output_fds[0] = out[0];
    box->output_fds[1] = err[0];
}

static void go(const struct box *box)
{
    const struct sbx_init_msg msg = {.event = SBX_INIT_GO};
    struct sbx_init_msg ready;

    receive(box, SBX_INIT_READY, &ready);
    assert_int_equal(send(box->control_fd, &msg, sizeof(msg), MSG_NOSIGNAL), sizeof(msg));
}

static void read_output(struct box *box)
{
    for (int i = 0; i < 2; i++) {
        size_t size = 0;
        ssize_t n;

        while ((n = read(box->output_fds[i], box->output[i] + size, OUTPUT_MAX - 1 - size)) > 0)
            size += (size_t)n;
        box->output[i][size] = '\0';
        cr_close_fd(&box->output_fds[i]);
    }
}

static void remove_box(struct box *box)
{
    int64_t deadline_ns = cr_clock_mono_ns() + DEADLINE_MS * CR_NS_PER_MS;
    siginfo_t info;

    assert_int_equal(waitid(P_PIDFD, (id_t)box->pidfd, &info, WEXITED), 0);
    cr_close_fd(&box->pidfd);
    cr_close_fd(&box->control_fd);
    cr_close_fd(&box->workspace_fd);
    sbx_cgroup_close(&box->group);
    while (sbx_cgroup_remove(&native.base.cgroups, box->number) == -EBUSY &&
           cr_clock_mono_ns() < deadline_ns)
        (void)poll(NULL, 0, 1);
}

static void finish(struct box *box)
{
    struct sbx_init_msg msg;

    receive(box, SBX_INIT_EXITED, &msg);
    box->wait_status = msg.wait_status;
    read_output(box);
    remove_box(box);
}

static void run(enum sbx_template_kind kind, const struct spec *spec, struct box *ret_box)
{
    make_box(kind, 0, ret_box);
    load(ret_box, spec);
    go(ret_box);
    finish(ret_box);
}

static struct box box; /* large */
static struct box neighbour;

static void run_text(enum sbx_template_kind kind, const char *text)
{
    const char *name = sbx_template_runtime(kind)->entry_file;

    run(kind, &(struct spec){.file_name = name, .file_text = text}, &box);
}

static void assert_clean(const char *expected)
{
    assert_string_equal(box.output[1], "");
    assert_string_equal(box.output[0], expected);
    assert_int_equal(box.wait_status, 0);
}

/* ---- what comes out ---- */

static void python_runs_main(void **state)
{
    (void)state;
    run_text(SBX_TEMPLATE_PYTHON, "print(6 * 7)");

    assert_clean("42\n");
}

static void python_takes_arguments(void **state)
{
    (void)state;
    run(SBX_TEMPLATE_PYTHON,
        &(struct spec){
            .file_name = "main.py", .file_text = "import sys; print(sys.argv)", .arg = "more"},
        &box);

    assert_clean("['main.py', 'more']\n");
}

static void pytest_runs_tests(void **state)
{
    (void)state;
    run_text(SBX_TEMPLATE_PYTEST, "def test_a(): assert 1 == 2\ndef test_b(): pass\n");

    assert_int_equal(box.wait_status, 1 << 8);
    assert_non_null(strstr(box.output[0], "E   assert 1 == 2\n"));
    assert_non_null(strstr(box.output[0], "1 failed, 1 passed in "));
}

static void shallow_pytest_takes_arguments(void **state)
{
    (void)state;
    run(SBX_TEMPLATE_PYTEST_SHALLOW,
        &(struct spec){.file_name = "test_main.py",
                       .file_text = "def test_a(): pass\ndef test_b(): pass\n",
                       .arg = "-ktest_b"},
        &box);

    assert_int_equal(box.wait_status, 0);
    assert_non_null(strstr(box.output[0], "1 passed, 1 deselected in "));
}

/* What a template cannot do, its child executes: argv, environment, streams and rights as ever. */
static void an_environment_of_its_own_gets_an_interpreter_of_its_own(void **state)
{
    (void)state;
    run(SBX_TEMPLATE_PYTHON,
        &(struct spec){.file_name = "main.py",
                       .file_text = "import os, sys\n"
                                    "print(os.environ['NAME'], sys.argv, os.getuid())\n"
                                    "print(sorted(os.listdir('/proc/self/fd'))[:3])\n"
                                    "print(open('/proc/self/status').read().count('Seccomp:\\t2'))",
                       .env = "value"},
        &box);

    assert_clean("value ['main.py'] 1000\n['0', '1', '2']\n1\n");
}

static void deep_pytest_with_arguments_gets_an_interpreter_of_its_own(void **state)
{
    (void)state;
    run(SBX_TEMPLATE_PYTEST,
        &(struct spec){.file_name = "test_main.py",
                       .file_text = "def test_a(): pass\ndef test_b(): pass\n",
                       .arg = "-ktest_b"},
        &box);

    assert_int_equal(box.wait_status, 0);
    assert_non_null(strstr(box.output[0], "1 passed, 1 deselected in "));
}

/* ---- what a program has and what it has not ---- */

static const char look_at_process[] =
    "import ctypes, os\n"
    "status = dict(l.strip().split(':', 1) for l in open('/proc/self/status'))\n"
    "for name in ('Uid', 'Groups', 'CapInh', 'CapPrm', 'CapEff', 'CapBnd', 'CapAmb', 'NoNewPrivs',\n"
    "             'Seccomp', 'NSpid', 'Threads'):\n"
    "    print(name, *status[name].split())\n"
    "signal = ctypes.c_int()\n"
    "ctypes.CDLL(None).prctl(2, ctypes.byref(signal))\n" /* PR_GET_PDEATHSIG */
    "print('death', signal.value, 'dumpable', ctypes.CDLL(None).prctl(3), 'parent', os.getppid())\n"
    "print('owner', os.stat('/proc/self/maps').st_uid, len(open('/proc/self/pagemap', 'rb').read(8)))\n"
    "print('proc', sorted(os.listdir('/proc')))\n"
    "print('groups', {l.strip().split(':')[2] for l in open('/proc/self/cgroup')})\n"
    "print('environ', b'LD_' in open('/proc/self/environ', 'rb').read())\n"
    "print('shared', [l for l in open('/proc/self/maps') if l.split()[1] == 'rw-s'])\n"
    "files = {l.split()[5] for l in open('/proc/self/maps') if len(l.split()) > 5}\n"
    "print('host', [f for f in files if f[0] == '/' and not f.startswith(('/usr/', '/memfd:'))])\n";

static const char process_of_a_program[] =
    "Uid 1000 1000 1000 1000\nGroups\n"
    "CapInh 0000000000000000\nCapPrm 0000000000000000\nCapEff 0000000000000000\n"
    "CapBnd 0000000000000000\nCapAmb 0000000000000000\n"
    "NoNewPrivs 1\nSeccomp 2\nNSpid 3\nThreads 1\n"
    "death 9 dumpable 1 parent 1\nowner 1000 8\nproc ['3', 'self', 'thread-self']\n"
    "groups {'/'}\nenviron False\nshared []\nhost []\n";

static void a_program_has_given_up_everything(void **state)
{
    (void)state;
    run_text(SBX_TEMPLATE_PYTHON, look_at_process);

    assert_clean(process_of_a_program);
}

static void a_test_has_given_up_everything(void **state)
{
    char text[4096];

    (void)state;
    (void)snprintf(text, sizeof(text),
                   "import sys\nsys.stdout = open('/workspace/seen', 'w')\n%ssys.stdout.close()\n"
                   "sys.stdout = sys.__stdout__\n"
                   "def test_seen(capsys):\n"
                   "    with capsys.disabled(): print(open('/workspace/seen').read(), end='|')\n",
                   look_at_process);
    run_text(SBX_TEMPLATE_PYTEST, text);

    assert_int_equal(box.wait_status, 0);
    assert_non_null(strstr(box.output[0], process_of_a_program));
}

static void a_program_has_three_descriptors(void **state)
{
    (void)state;
    run_text(SBX_TEMPLATE_PYTHON, "import os\n"
                                  "for fd in range(1200):\n"
                                  "    try: os.fstat(fd); print(fd, end=' ')\n"
                                  "    except OSError: pass\n");

    assert_clean("0 1 2 ");
}

static void a_waiting_box_is_small(void **state)
{
    uint64_t bytes = 0;

    (void)state;
    make_box(SBX_TEMPLATE_PYTEST, 0, &box);
    assert_int_equal(sbx_cgroup_memory_bytes(&box.group, &bytes), 0);
    load(&box, &(struct spec){.file_name = "test_main.py", .file_text = "def test(): pass\n"});
    go(&box);
    finish(&box);

    assert_in_range(bytes, 1U << 20, 13U << 20); /* about 10 MiB of it are pages made ahead */
}

/* ---- neighbours ---- */

/* Leaves what it can wherever it can, and stays. */
static const char leave_traces[] =
    "import os, socket, time\n"
    "SECRET = 'seventeen ' + 'crowns'\n"
    "def test_traces():\n"
    "    for place in ('/tmp', '/dev/shm', '/workspace'):\n"
    "        with open(place + '/trace', 'w') as file: file.write(SECRET)\n"
    "    os.write(1, SECRET.encode()); os.write(2, SECRET.encode())\n"
    "    os.environ['TRACE'] = SECRET\n"
    "    abstract = socket.socket(socket.AF_UNIX); abstract.bind('\\0trace'); abstract.listen()\n"
    "    local = socket.create_server(('127.0.0.1', 4711))\n"
    "    os.memfd_create('trace')\n"
    "    with open('/workspace/ready', 'w'): pass\n"
    "    time.sleep(60)\n";

static const char look_for_traces[] =
    "import os, socket, stat\n"
    "SECRET = ('seventeen ' + 'crowns').encode()\n"
    "def test_files():\n"
    "    assert [p for p in ('/tmp/trace', '/dev/shm/trace', '/workspace/trace') if os.path.exists(p)] == []\n"
    "    assert 'TRACE' not in os.environ\n"
    "def test_descriptors():\n"
    "    for fd in map(int, os.listdir('/proc/self/fd')):\n"
    "        try: kind = os.fstat(fd).st_mode\n"
    "        except OSError: continue\n"
    "        if stat.S_ISREG(kind): assert SECRET not in os.pread(fd, 1 << 20, 0)\n"
    "        assert not stat.S_ISSOCK(kind)\n"
    "def test_sockets():\n"
    "    for family, address in ((socket.AF_UNIX, '\\0trace'), (socket.AF_INET, ('127.0.0.1', 4711))):\n"
    "        assert socket.socket(family).connect_ex(address) == 111\n"
    "def test_processes():\n"
    "    assert [n for n in os.listdir('/proc') if n.isdigit()] == [str(os.getpid())]\n"
    "    for pid in (1, 2, 4, 5):\n"
    "        try: os.kill(pid, 9); raise AssertionError(pid)\n"
    "        except (PermissionError, ProcessLookupError): pass\n"
    "def test_memory():\n"
    "    with open('/proc/self/maps') as maps:\n"
    "        assert [line for line in maps if line.split()[1] == 'rw-s'] == []\n";

static void await_file(const struct box *of, const char *path)
{
    int64_t deadline_ns = cr_clock_mono_ns() + DEADLINE_MS * CR_NS_PER_MS;

    while (faccessat(of->workspace_fd, path, F_OK, 0) < 0) {
        assert_true(cr_clock_mono_ns() < deadline_ns);
        (void)poll(NULL, 0, 2);
    }
}

/* One that was never loaded has no output. */
static void kill_waiting(struct box *of)
{
    assert_int_equal(kill(of->pid, SIGKILL), 0);
    remove_box(of);
}

static void kill_box(struct box *of)
{
    assert_int_equal(kill(of->pid, SIGKILL), 0);
    read_output(of);
    remove_box(of);
}

static void siblings_find_nothing_of_each_other(void **state)
{
    (void)state;
    make_box(SBX_TEMPLATE_PYTEST, 1, &neighbour);
    load(&neighbour, &(struct spec){.file_name = "test_main.py", .file_text = leave_traces});
    go(&neighbour);
    await_file(&neighbour, "w/ready");

    run_text(SBX_TEMPLATE_PYTEST, look_for_traces);

    kill_box(&neighbour);
    if (box.wait_status != 0)
        fail_msg("%s", box.output[0]);
    assert_non_null(strstr(box.output[0], "5 passed in "));
}

static void siblings_draw_different_random_numbers(void **state)
{
    static const char text[] = "import random, uuid\nprint(random.random(), uuid.uuid4())\n";
    char first[OUTPUT_MAX];

    (void)state;
    run_text(SBX_TEMPLATE_PYTHON, text);
    (void)memcpy(first, box.output[0], OUTPUT_MAX);
    run_text(SBX_TEMPLATE_PYTHON, text);

    assert_string_not_equal(first, box.output[0]);
}

/* It is the same for the boxes of one template: the reason why templates are replaced. */
static void another_template_has_another_seed_of_hashes(void **state)
{
    static const char text[] = "print(hash('text'))\n";
    char first[OUTPUT_MAX];

    (void)state;
    run_text(SBX_TEMPLATE_PYTHON, text);
    (void)memcpy(first, box.output[0], OUTPUT_MAX);
    sbx_template_stop(&templates[SBX_TEMPLATE_PYTHON]);
    run_text(SBX_TEMPLATE_PYTHON, text);

    assert_string_not_equal(first, box.output[0]);
}

/* ---- the life of a template ---- */

static void boxes_outlive_their_template(void **state)
{
    struct sbx_template *template = get_template(SBX_TEMPLATE_PYTHON);
    struct pollfd watch = {.fd = template->fd, .events = POLLIN};
    struct sbx_template_event event;

    (void)state;
    make_box(SBX_TEMPLATE_PYTHON, 0, &box);
    assert_int_equal(kill(template->pid, SIGKILL), 0);
    assert_int_equal(poll(&watch, 1, DEADLINE_MS), 1);
    assert_int_equal(sbx_template_receive(template, &event), -EPIPE);
    sbx_template_stop(template);
    assert_int_equal(template->pid, -1);
    load(&box, &(struct spec){.file_name = "main.py", .file_text = "print('still here')"});
    go(&box);
    finish(&box);

    assert_clean("still here\n");
}

static void a_place_that_is_none_is_refused(void **state)
{
    struct sbx_template *template = get_template(SBX_TEMPLATE_PYTHON);
    struct sbx_template_event event;
    struct cr_err err = CR_ERR_INIT;
    int control_fd = -1;

    (void)state;
    make_box(SBX_TEMPLATE_PYTHON, 0, &box);
    assert_ok(sbx_template_ask(template,
                               &(struct sbx_template_box){.group = &box.group,
                                                          .limits = &sbx_default_limits,
                                                          .workspace_fd = box.workspace_fd,
                                                          .place = SLOTS,
                                                          .id = 77},
                               &control_fd, &err),
              &err);
    event = await_event(template);
    (void)close(control_fd);
    kill_waiting(&box);

    assert_int_equal(event.kind, SBX_TEMPLATE_EVENT_NO_BOX);
    assert_int_equal(event.id, 77);
    assert_int_equal(event.error, EPROTO);
}

static void a_template_gets_old(void **state)
{
    struct sbx_template *template = get_template(SBX_TEMPLATE_PYTHON);
    uint64_t packages = template->packages;

    (void)state;
    assert_false(sbx_template_is_stale(template, template->boxes + 1, INT64_MAX));
    assert_true(sbx_template_is_stale(template, template->boxes, INT64_MAX));
    assert_true(sbx_template_is_stale(template, UINT32_MAX, 1));
    template->packages = ~packages; /* as if one had been installed since */
    assert_true(sbx_template_is_stale(template, UINT32_MAX, INT64_MAX));
    template->packages = packages;
}

/* There is no /proc here to list them. */
static int count_fds(void)
{
    int count = 0;

    for (int fd = 0; fd < 1024; fd++)
        count += fcntl(fd, F_GETFD) >= 0;
    return count;
}

static void templates_and_boxes_leave_no_descriptors(void **state)
{
    int before;

    (void)state;
    run_text(SBX_TEMPLATE_PYTHON, "pass");
    sbx_template_stop(&templates[SBX_TEMPLATE_PYTHON]);
    before = count_fds();
    run_text(SBX_TEMPLATE_PYTHON, "pass");
    sbx_template_stop(&templates[SBX_TEMPLATE_PYTHON]);

    assert_int_equal(count_fds(), before);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(python_runs_main),
        cmocka_unit_test(python_takes_arguments),
        cmocka_unit_test(pytest_runs_tests),
        cmocka_unit_test(shallow_pytest_takes_arguments),
        cmocka_unit_test(an_environment_of_its_own_gets_an_interpreter_of_its_own),
        cmocka_unit_test(deep_pytest_with_arguments_gets_an_interpreter_of_its_own),
        cmocka_unit_test(a_program_has_given_up_everything),
        cmocka_unit_test(a_test_has_given_up_everything),
        cmocka_unit_test(a_program_has_three_descriptors),
        cmocka_unit_test(a_waiting_box_is_small),
        cmocka_unit_test(siblings_find_nothing_of_each_other),
        cmocka_unit_test(siblings_draw_different_random_numbers),
        cmocka_unit_test(another_template_has_another_seed_of_hashes),
        cmocka_unit_test(boxes_outlive_their_template),
        cmocka_unit_test(a_place_that_is_none_is_refused),
        cmocka_unit_test(a_template_gets_old),
        cmocka_unit_test(templates_and_boxes_leave_no_descriptors),
    };

    if (geteuid() != 0) {
        (void)fprintf(stderr, "needs root for namespaces and control groups\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, start_all, stop_all);
}
