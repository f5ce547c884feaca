/* SPDX-License-Identifier: Apache-2.0 */

/* What a program sees and reaches from inside a box. */
#include "common/auto.h"
#include "tests/harness/test.h"
#include "tests/integration/sandboxd/native_client.h"
#include "tests/integration/sandboxd/native_host.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct native_client client;

static int start(void **state)
{
    (void)state;
    native_client_start(&client, NULL);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    native_client_stop(&client);
    return 0;
}

static void expect_python(const char *program, const char *out)
{
    struct native_run run;

    native_client_run(&client, &(struct native_spec){.python = program}, &run);
    if (run.result.verdict != SBX_VERDICT_OK)
        print_error("%s\n%s\n", sbx_verdict_name(run.result.verdict), cr_buf_str(&run.out[1]));
    assert_string_equal(cr_buf_str(&run.out[0]), out);
    assert_int_equal(run.result.verdict, SBX_VERDICT_OK);
    native_run_done(&run);
}

static void expect_shell(const char *script, const char *out)
{
    struct native_run run;

    native_client_run(&client, &(struct native_spec){.shell = script}, &run);
    assert_string_equal(cr_buf_str(&run.out[0]), out);
    native_run_done(&run);
}

static void the_identity_has_no_power(void **state)
{
    (void)state;
    expect_shell("grep -E '^(Uid|Gid|Groups|Cap|NoNewPrivs|Seccomp:)' /proc/self/status"
                 " | tr '\\t' ' '",
                 "Uid: 1000 1000 1000 1000\n"
                 "Gid: 1000 1000 1000 1000\n"
                 "Groups:  \n"
                 "CapInh: 0000000000000000\n"
                 "CapPrm: 0000000000000000\n"
                 "CapEff: 0000000000000000\n"
                 "CapBnd: 0000000000000000\n"
                 "CapAmb: 0000000000000000\n"
                 "NoNewPrivs: 1\n"
                 "Seccomp: 2\n");
    expect_shell("id -un; id -gn; hostname; pwd; echo $HOME",
                 "sandbox\nsandbox\nsandbox\n/workspace\n/workspace\n");
}

static void only_own_processes_are_seen(void **state)
{
    (void)state;
    expect_python("import os\n"
                  "print(set(os.listdir('/proc')) - {'self', 'thread-self', str(os.getpid())})",
                  "set()\n");
    expect_shell("cat /proc/1/status /proc/1/environ 2>&1 | grep -c 'No such file'", "2\n");
}

static void no_file_descriptor_leaks_in(void **state)
{
    (void)state;
    expect_python("import os\n"
                  "print([fd for fd in range(1024) if os.path.lexists('/proc/self/fd/%d' % fd)])",
                  "[0, 1, 2]\n");
}

static void the_network_is_empty_but_for_loopback(void **state)
{
    (void)state;
    expect_python("import errno, socket\n"
                  "s = socket.socket()\n"
                  "s.settimeout(2)\n"
                  "print(errno.errorcode[s.connect_ex(('1.1.1.1', 53))])\n"
                  "a = socket.create_server(('127.0.0.1', 0))\n"
                  "b = socket.create_connection(a.getsockname(), 2)\n"
                  "c, _ = a.accept()\n"
                  "b.sendall(b'loop')\n"
                  "print(c.recv(9).decode())\n",
                  "ENETUNREACH\nloop\n");
}

static void the_root_is_read_only(void **state)
{
    (void)state;
    expect_python("import errno\n"
                  "for path in ('/x', '/usr/x', '/etc/x', '/dev/x', '/run/x', '/var/tmp/x',\n"
                  "             '/usr/bin/sh', '/etc/passwd'):\n"
                  "    try:\n"
                  "        open(path, 'w')\n"
                  "        print(path, 'written')\n"
                  "    except OSError as e:\n"
                  "        print(errno.errorcode[e.errno], end=' ')\n",
                  "EROFS EROFS EROFS EROFS EROFS EROFS EROFS EROFS ");
}

static void the_hosts_files_are_not_there(void **state)
{
    (void)state;
    expect_shell("ls -A /home /run /usr/local /usr/src /var/tmp | grep -v ':$' | tr -d '\\n'", "");
    expect_shell("for f in /etc/shadow /root /sys /etc/machine-id /var/run/docker.sock; do"
                 " test -e $f && echo $f; done; true",
                 "");
    expect_shell("ls /dev | tr '\\n' ' '",
                 "fd full null random shm stderr stdin stdout urandom zero ");
}

static void folders_are_writable_and_executable_as_said(void **state)
{
    (void)state;
    expect_shell("for d in /workspace /tmp /dev/shm; do"
                 " printf '#!/bin/sh\\necho ran\\n' > $d/x; chmod 755 $d/x; $d/x 2>/dev/null"
                 " || echo refused; done",
                 "ran\nrefused\nrefused\n");
    expect_python("import os\n"
                  "for d in ('/workspace', '/tmp', '/dev/shm'):\n"
                  "    s = os.statvfs(d)\n"
                  "    print(s.f_blocks * s.f_frsize >> 20, s.f_files, s.f_flag & 14)\n",
                  "64 4100 6\n64 4100 14\n64 4100 14\n");
}

static void limits_of_resources_are_set(void **state)
{
    (void)state;
    expect_python("import resource as r\n"
                  "for n in ('CORE', 'NOFILE', 'FSIZE', 'STACK', 'MEMLOCK'):\n"
                  "    print(n, *r.getrlimit(getattr(r, 'RLIMIT_' + n)))\n",
                  "CORE 0 0\nNOFILE 1024 1024\nFSIZE 67108864 67108864\n"
                  "STACK 8388608 8388608\nMEMLOCK 65536 65536\n");
}

static void programs_come_last_when_the_machine_is_short(void **state)
{
    (void)state;
    expect_shell("nice; cat /proc/self/oom_score_adj", "5\n500\n");
}

static void honest_code_works(void **state)
{
    (void)state;
    expect_python("import asyncio, multiprocessing, sqlite3, tempfile, threading\n"
                  "t = threading.Thread(target=print, args=('thread',), kwargs={'flush': True})\n"
                  "t.start(); t.join()\n"
                  "with multiprocessing.get_context('fork').Pool(2) as p:\n"
                  "    print(p.map(abs, [-1, -2]), flush=True)\n"
                  "print(sqlite3.connect('a.db').execute('select 1').fetchall())\n"
                  "print(asyncio.run(asyncio.sleep(0, 'async')))\n"
                  "print(tempfile.gettempdir())\n",
                  "thread\n[1, 2]\n[(1,)]\nasync\n/tmp\n");
}

/* What one run leaves behind, the next in the same slot must not find. */
static void nothing_survives_a_run(void **state)
{
    static const char mark[] =
        "import ctypes, multiprocessing.shared_memory as m, os, socket\n"
        "for d in ('/tmp', '/dev/shm', '/workspace'): open(d + '/mark', 'w').write('x')\n"
        "print(ctypes.CDLL(None).shmget(77, 4096, 0o1666))\n";
    static const char look[] =
        "import ctypes, os\n"
        "print([d for d in ('/tmp', '/dev/shm', '/workspace') if os.listdir(d)],\n"
        "      ctypes.CDLL(None).shmget(77, 4096, 0))\n";

    (void)state;
    for (uint32_t i = 0; i < 2 * client.hello.slots; i++) {
        struct native_run run;

        native_client_run(&client, &(struct native_spec){.python = mark}, &run);
        assert_int_equal(run.result.verdict, SBX_VERDICT_OK);
        native_run_done(&run);
        expect_python(look, "[] -1\n");
    }
}

/* Boxes are copies of one process; their programs are not. */
static void programs_of_two_boxes_lie_at_different_addresses(void **state)
{
    static const char script[] = "grep -E 'sh$|libc|stack' /proc/self/maps";
    struct native_run runs[2];

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(runs); i++) {
        native_client_run(&client, &(struct native_spec){.shell = script}, &runs[i]);
        assert_int_equal(runs[i].result.verdict, SBX_VERDICT_OK);
    }
    assert_string_not_equal(cr_buf_str(&runs[0].out[0]), cr_buf_str(&runs[1].out[0]));
    for (size_t i = 0; i < CR_ARRAY_SIZE(runs); i++)
        native_run_done(&runs[i]);
}

/* Whether `text` is anywhere in what the process may write to. */
static bool holds(pid_t pid, const char *text)
{
    char path[64];
    char line[256];
    bool is_found = false;
    size_t sizes = 0;
    FILE *maps;
    int mem;

    (void)snprintf(path, sizeof(path), "/proc/%d/maps", pid);
    maps = fopen(path, "re");
    (void)snprintf(path, sizeof(path), "/proc/%d/mem", pid);
    mem = open(path, O_RDONLY | O_CLOEXEC);
    assert_true(maps && mem >= 0);
    while (fgets(line, sizeof(line), maps)) {
        uint64_t from = 0;
        uint64_t to = 0;
        char rights[5] = "";
        ssize_t size;
        void *data;

        // NOLINTNEXTLINE(cert-err34-c): the kernel's own format
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &from, &to, rights) != 3 ||
            rights[1] != 'w')
            continue;
        data = malloc(to - from);
        assert_non_null(data);
        size = pread(mem, data, to - from, (off_t)from);
        is_found = is_found || (size > 0 && memmem(data, (size_t)size, text, strlen(text)));
        sizes += size > 0 ? (size_t)size : 0;
        free(data);
    }
    (void)fclose(maps);
    (void)close(mem);
    assert_true(sizes > 4096); /* it could be looked into */
    return is_found;
}

/* What it held would be in every box that comes. */
static void the_spawner_has_nothing_of_a_run(void **state)
{
    static const char mark[] = "a-mark-of-one-caller";
    const pid_t spawner = native_client_find_child(&client, "crisol-spawner");
    const int fds = native_count_steady_fds(spawner);

    (void)state;
    expect_shell("echo a-mark-of-one-caller", "a-mark-of-one-caller\n");

    assert_int_equal(native_count_steady_fds(spawner), fds);
    assert_false(holds(spawner, mark));
    assert_true(holds(spawner, "--spawn")); /* argv lies on the stack: it would be found */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_identity_has_no_power),
        cmocka_unit_test(only_own_processes_are_seen),
        cmocka_unit_test(no_file_descriptor_leaks_in),
        cmocka_unit_test(the_network_is_empty_but_for_loopback),
        cmocka_unit_test(the_root_is_read_only),
        cmocka_unit_test(the_hosts_files_are_not_there),
        cmocka_unit_test(folders_are_writable_and_executable_as_said),
        cmocka_unit_test(limits_of_resources_are_set),
        cmocka_unit_test(programs_come_last_when_the_machine_is_short),
        cmocka_unit_test(honest_code_works),
        cmocka_unit_test(nothing_survives_a_run),
        cmocka_unit_test(programs_of_two_boxes_lie_at_different_addresses),
        cmocka_unit_test(the_spawner_has_nothing_of_a_run),
    };

    if (geteuid() != 0)
        return 77; /* boxes take root */
    return cmocka_run_group_tests(tests, start, stop);
}
