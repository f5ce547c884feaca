/* SPDX-License-Identifier: Apache-2.0 */

/* What a program of a template has and what it has not, and what it finds of its neighbours. */
#include "common/clock.h"
#include "tests/integration/sandboxd/template_box.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
    template_run_text(SBX_TEMPLATE_PYTHON, look_at_process);

    template_assert_clean(process_of_a_program);
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
    template_run_text(SBX_TEMPLATE_PYTEST, text);

    assert_int_equal(box.wait_status, 0);
    assert_non_null(strstr(box.output[0], process_of_a_program));
}

static void a_program_has_three_descriptors(void **state)
{
    (void)state;
    template_run_text(SBX_TEMPLATE_PYTHON, "import os\n"
                                           "for fd in range(1200):\n"
                                           "    try: os.fstat(fd); print(fd, end=' ')\n"
                                           "    except OSError: pass\n");

    template_assert_clean("0 1 2 ");
}

static void a_waiting_box_is_small(void **state)
{
    uint64_t bytes = 0;

    (void)state;
    template_box_make(SBX_TEMPLATE_PYTEST, 0, &box);
    assert_int_equal(sbx_cgroup_memory_bytes(&box.group, &bytes), 0);
    template_box_load(&box, &(struct template_spec){.file_name = "test_main.py",
                                                    .file_text = "def test(): pass\n"});
    template_box_go(&box);
    template_box_finish(&box);

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

static void await_file(const struct template_box *of, const char *path)
{
    int64_t deadline_ns = cr_clock_mono_ns() + TEMPLATE_DEADLINE_MS * CR_NS_PER_MS;

    while (faccessat(of->workspace_fd, path, F_OK, 0) < 0) {
        assert_true(cr_clock_mono_ns() < deadline_ns);
        (void)poll(NULL, 0, 2);
    }
}

static void kill_box(struct template_box *of)
{
    assert_int_equal(kill(of->pid, SIGKILL), 0);
    template_box_read(of);
    template_box_remove(of);
}

static void siblings_find_nothing_of_each_other(void **state)
{
    (void)state;
    template_box_make(SBX_TEMPLATE_PYTEST, 1, &neighbour);
    template_box_load(&neighbour, &(struct template_spec){.file_name = "test_main.py",
                                                          .file_text = leave_traces});
    template_box_go(&neighbour);
    await_file(&neighbour, "w/ready");

    template_run_text(SBX_TEMPLATE_PYTEST, look_for_traces);

    kill_box(&neighbour);
    if (box.wait_status != 0)
        fail_msg("%s", box.output[0]);
    assert_non_null(strstr(box.output[0], "5 passed in "));
}

static void siblings_draw_different_random_numbers(void **state)
{
    static const char text[] = "import random, uuid\nprint(random.random(), uuid.uuid4())\n";
    char first[TEMPLATE_OUTPUT_MAX];

    (void)state;
    template_run_text(SBX_TEMPLATE_PYTHON, text);
    (void)memcpy(first, box.output[0], TEMPLATE_OUTPUT_MAX);
    template_run_text(SBX_TEMPLATE_PYTHON, text);

    assert_string_not_equal(first, box.output[0]);
}

/* It is the same for the boxes of one template: the reason why templates are replaced. */
static void another_template_has_another_seed_of_hashes(void **state)
{
    static const char text[] = "print(hash('text'))\n";
    char first[TEMPLATE_OUTPUT_MAX];

    (void)state;
    template_run_text(SBX_TEMPLATE_PYTHON, text);
    (void)memcpy(first, box.output[0], TEMPLATE_OUTPUT_MAX);
    template_stop(SBX_TEMPLATE_PYTHON);
    template_run_text(SBX_TEMPLATE_PYTHON, text);

    assert_string_not_equal(first, box.output[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_program_has_given_up_everything),
        cmocka_unit_test(a_test_has_given_up_everything),
        cmocka_unit_test(a_program_has_three_descriptors),
        cmocka_unit_test(a_waiting_box_is_small),
        cmocka_unit_test(siblings_find_nothing_of_each_other),
        cmocka_unit_test(siblings_draw_different_random_numbers),
        cmocka_unit_test(another_template_has_another_seed_of_hashes),
    };

    if (geteuid() != 0) {
        (void)fprintf(stderr, "needs root for namespaces and control groups\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, template_set_up, template_tear_down);
}
