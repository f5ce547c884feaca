/* SPDX-License-Identifier: Apache-2.0 */
#include "common/auto.h"
#include "common/buf.h"
#include "common/err.h"
#include "sandboxd/docker/container.h"
#include "sandboxd/docker/json.h"
#include "sandboxd/runtimes/table.h"
#include "sandboxd/wire/msg.h"
#include "tests/harness/test.h"

#include <errno.h>
#include <string.h>

static const struct sbx_container_plan plan = {
    .image = "crisol-sandbox:1",
    .instance = "abc",
    .seccomp = "{\"defaultAction\":\"SCMP_ACT_ERRNO\"}",
};

static cJSON *make_body_of(const struct sbx_container_plan *wanted)
{
    CR_AUTO_BUF struct cr_buf text = {0};
    cJSON *body;

    cr_buf_init(&text, 64U << 10);
    assert_int_equal(sbx_container_body(wanted, &sbx_default_limits, &text, NULL), 0);
    body = cJSON_Parse(cr_buf_str(&text));
    assert_non_null(body);
    return body;
}

static cJSON *make_body(void)
{
    return make_body_of(&plan);
}

/* What an engine says of a container that it made as told: the body, sorted in its own way. */
static cJSON *make_inspection(int pid)
{
    cJSON *config = make_body();
    cJSON *host = cJSON_DetachItemFromObject(config, "HostConfig");
    cJSON *answer = cJSON_CreateObject();

    cJSON_AddStringToObject(host, "CgroupParent", ""); /* there is always more */
    assert_true(cJSON_AddItemToObject(answer, "Config", config));
    assert_true(cJSON_AddItemToObject(answer, "HostConfig", host));
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(answer, "State"), "Pid", pid);
    return answer;
}

static int check(const cJSON *answer, pid_t *ret_pid, struct cr_err *err)
{
    CR_AUTO_FREE char *text = cJSON_PrintUnformatted(answer);

    return sbx_container_check(&plan, &sbx_default_limits, text, ret_pid, err);
}

static double number_of(const cJSON *host, const char *key)
{
    return cJSON_GetNumberValue(cJSON_GetObjectItem(host, key));
}

static bool has_item(const cJSON *array, const char *text)
{
    for (const cJSON *item = array->child; item; item = item->next) {
        if (strcmp(item->valuestring, text) == 0)
            return true;
    }
    return false;
}

static void the_body_holds_the_policy(void **state)
{
    CR_AUTO_JSON cJSON *body = make_body();
    const cJSON *host = cJSON_GetObjectItem(body, "HostConfig");

    (void)state;
    assert_string_equal(cJSON_GetObjectItem(body, "User")->valuestring, "1000:1000");
    assert_string_equal(cJSON_GetObjectItem(host, "NetworkMode")->valuestring, "none");
    assert_true(number_of(host, "Memory") == 128 << 20);
    assert_true(number_of(host, "MemorySwap") == 128 << 20);
    assert_true(number_of(host, "CpuQuota") * 2 == number_of(host, "CpuPeriod"));
    assert_true(number_of(host, "PidsLimit") == 65);
    assert_string_equal(
        cJSON_GetObjectItem(cJSON_GetObjectItem(host, "Tmpfs"), "/dev/shm")->valuestring,
        "rw,noexec,nosuid,nodev,size=8388608,nr_inodes=512,mode=1777");
    assert_true(has_item(cJSON_GetObjectItem(host, "MaskedPaths"), "/sys"));
    assert_true(has_item(cJSON_GetObjectItem(host, "MaskedPaths"), "/proc/kcore"));
    assert_true(has_item(cJSON_GetObjectItem(host, "ReadonlyPaths"), "/proc/sys"));
    assert_true(cJSON_IsTrue(cJSON_GetObjectItem(host, "ReadonlyRootfs")));
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(host, "Privileged")));
    assert_string_equal(cJSON_GetArrayItem(cJSON_GetObjectItem(host, "CapDrop"), 0)->valuestring,
                        "ALL");
    assert_string_equal(
        cJSON_GetArrayItem(cJSON_GetObjectItem(host, "SecurityOpt"), 1)->valuestring,
        "seccomp={\"defaultAction\":\"SCMP_ACT_ERRNO\"}");
    assert_null(cJSON_GetObjectItem(host, "Runtime"));
}

/* Which member of the body each control stands or falls with. */
static const struct {
    enum sbx_control control;
    const char *member;
} weaknesses[] = {
    {SBX_CONTROL_NETWORK, "NetworkMode"},   {SBX_CONTROL_MEMORY, "Memory"},
    {SBX_CONTROL_SWAP, "MemorySwap"},       {SBX_CONTROL_CPU, "CpuQuota"},
    {SBX_CONTROL_PIDS, "PidsLimit"},        {SBX_CONTROL_NO_NEW_PRIVS, "SecurityOpt"},
    {SBX_CONTROL_CAPABILITIES, "CapDrop"},  {SBX_CONTROL_USER, "Tmpfs"},
    {SBX_CONTROL_ROOTFS, "ReadonlyRootfs"}, {SBX_CONTROL_TMPFS, "Tmpfs"},
    {SBX_CONTROL_SECCOMP, "SecurityOpt"},   {SBX_CONTROL_PROC, "MaskedPaths"},
    {SBX_CONTROL_DEV, "Devices"},           {SBX_CONTROL_IPC, "IpcMode"},
    {SBX_CONTROL_RLIMITS, "Ulimits"},
};

/* The policy, and an engine that is told something weaker, differ in that member. */
static void what_is_left_out_is_missing_from_the_body(void **state)
{
    CR_AUTO_JSON cJSON *whole = make_body();

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(weaknesses); i++) {
        const char *member = weaknesses[i].member;
        struct sbx_container_plan weak = plan;
        CR_AUTO_JSON cJSON *body = NULL;

        weak.left_out = UINT32_C(1) << weaknesses[i].control;
        body = make_body_of(&weak);
        assert_false(cJSON_Compare(
            cJSON_GetObjectItem(cJSON_GetObjectItem(whole, "HostConfig"), member),
            cJSON_GetObjectItem(cJSON_GetObjectItem(body, "HostConfig"), member), true));
    }
}

static void shares_add_up(void **state)
{
    static const uint64_t totals[] = {0, 1, 7, 64, 4096, 64 << 20, (64 << 20) + 5, 1 << 30};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(totals); i++) {
        struct sbx_container_shares shares = sbx_container_share(totals[i]);

        assert_int_equal(shares.workspace + shares.tmp + shares.shm, totals[i]);
        assert_true(shares.workspace >= shares.tmp && shares.tmp >= shares.shm);
    }
}

static void an_engine_that_did_as_told_is_believed(void **state)
{
    CR_AUTO_JSON cJSON *answer = make_inspection(4711);
    struct cr_err err = CR_ERR_INIT;
    pid_t pid = 0;

    (void)state;
    assert_int_equal(check(answer, &pid, &err), 0);
    assert_int_equal(pid, 4711);
}

/* Every value of the policy, one at a time: gone, or another. */
static void each_value_that_is_not_as_told_is_named(void **state)
{
    CR_AUTO_JSON cJSON *whole = make_inspection(4711);
    int count = cJSON_GetArraySize(cJSON_GetObjectItem(whole, "HostConfig")) - 1;

    (void)state;
    assert_true(count > 15);
    for (int i = 0; i < count; i++) {
        CR_AUTO_JSON cJSON *answer = cJSON_Duplicate(whole, true);
        cJSON *host = cJSON_GetObjectItem(answer, "HostConfig");
        struct cr_err err = CR_ERR_INIT;
        const char *name = cJSON_GetArrayItem(host, i)->string;
        char text[64];
        pid_t pid = 0;

        (void)snprintf(text, sizeof(text), "'HostConfig.%s", name);
        cJSON_DeleteItemFromArray(host, i);
        assert_int_equal(check(answer, &pid, &err), -EIO);
        assert_non_null(strstr(err.text, text));
    }
}

static void a_changed_value_is_named_with_its_path(void **state)
{
    CR_AUTO_JSON cJSON *answer = make_inspection(4711);
    cJSON *host = cJSON_GetObjectItem(answer, "HostConfig");
    struct cr_err err = CR_ERR_INIT;
    pid_t pid = 0;

    (void)state;
    cJSON_SetValuestring(cJSON_GetObjectItem(cJSON_GetObjectItem(host, "LogConfig"), "Type"),
                         "json");
    assert_int_equal(check(answer, &pid, &err), -EIO);
    assert_non_null(strstr(err.text, "'HostConfig.LogConfig.Type'"));
    assert_int_equal(pid, 0);
}

static void nonsense_is_refused(void **state)
{
    static const char *const answers[] = {
        "", "{", "null", "[]", "{}", "{\"Config\":1}", "{\"Config\":{},\"HostConfig\":[]}"};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(answers); i++) {
        pid_t pid = 0;

        assert_true(sbx_container_check(&plan, &sbx_default_limits, answers[i], &pid, NULL) < 0);
    }
}

static void a_pid_is_a_number_that_can_be_one(void **state)
{
    static const int pids[] = {0, 1, -5};

    (void)state;
    for (size_t i = 0; i < CR_ARRAY_SIZE(pids); i++) {
        CR_AUTO_JSON cJSON *answer = make_inspection(pids[i]);
        pid_t pid = -1;

        assert_int_equal(check(answer, &pid, NULL), 0);
        assert_int_equal(pid, 0);
    }
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

static void an_id_is_64_digits(void **state)
{
    char id[SBX_CONTAINER_ID_SIZE];

    (void)state;
    assert_int_equal(sbx_container_id("{\"Id\":\"" ID "\"}", id), 0);
    assert_string_equal(id, ID);
    assert_int_equal(sbx_container_id("{\"Id\":\"" ID "0\"}", id), -EPROTO);
    assert_int_equal(sbx_container_id("{\"Id\":\"../etc\"}", id), -EPROTO);
    assert_int_equal(sbx_container_id("{\"Id\":5}", id), -EPROTO);
    assert_int_equal(sbx_container_id("", id), -EPROTO);
}

static void a_box_that_is_read_from_inside_outlives_its_end(void **state)
{
    struct sbx_container_plan inside = plan;
    cJSON *body;
    const cJSON *host;

    (void)state;
    inside.is_inside = true;
    body = make_body_of(&inside);
    host = cJSON_GetObjectItem(body, "HostConfig");
    assert_true(cJSON_IsFalse(cJSON_GetObjectItem(host, "AutoRemove")));
    assert_string_equal(
        cJSON_GetStringValue(cJSON_GetArrayItem(cJSON_GetObjectItem(body, "Entrypoint"), 1)),
        "--stream-inside");
    assert_false(has_item(cJSON_GetObjectItem(host, "MaskedPaths"), "/sys")); /* has the counters */
    assert_true(has_item(cJSON_GetObjectItem(host, "MaskedPaths"), "/sys/kernel"));
    cJSON_Delete(body);
}

static void how_a_container_ended_is_read(void **state)
{
    static const char *const nonsense[] = {
        "nonsense",
        "{\"State\":{}}",
        "{\"State\":{\"OOMKilled\":true}}",
        "{\"State\":{\"OOMKilled\":1,\"FinishedAt\":\"2026-11-30T07:17:20Z\"}}",
        "{\"State\":{\"OOMKilled\":true,\"FinishedAt\":\"2026-11-30T07:17:20\"}}",
        "{\"State\":{\"OOMKilled\":true,\"FinishedAt\":\"2026-11-30T07:17:20.5+01:00\"}}",
        "{\"State\":{\"OOMKilled\":true,\"FinishedAt\":\"0001-01-01T00:00:00Z\"}}",
    };
    struct sbx_container_end ended;

    (void)state;
    assert_int_equal(sbx_container_read_end("{\"State\":{\"OOMKilled\":true,\"FinishedAt\":"
                                            "\"2026-11-30T07:17:20.277123456Z\"}}",
                                            &ended),
                     0);
    assert_true(ended.is_oom);
    assert_int_equal(ended.finish_s, 1796023040);
    assert_int_equal(sbx_container_read_end("{\"State\":{\"OOMKilled\":false,\"FinishedAt\":"
                                            "\"2026-11-30T07:17:21Z\"}}",
                                            &ended),
                     0);
    assert_false(ended.is_oom);
    assert_int_equal(ended.finish_s, 1796023041);
    for (size_t i = 0; i < CR_ARRAY_SIZE(nonsense); i++)
        assert_int_equal(sbx_container_read_end(nonsense[i], &ended), -EPROTO);
}

static void events_tell_what_the_engine_heard_too_late(void **state)
{
    char id[SBX_CONTAINER_ID_SIZE];
    char path[SBX_CONTAINER_OOM_PATH_SIZE];

    (void)state;
    memset(id, 'a', sizeof(id) - 1);
    id[sizeof(id) - 1] = '\0';
    assert_int_equal(sbx_container_oom_path(id, INT64_MAX - 2, path, sizeof(path)), 0);
    assert_int_equal(sbx_container_oom_path(id, 10, path, 100), -ENAMETOOLONG);
    assert_int_equal(sbx_container_oom_path("0b", 10, path, sizeof(path)), 0);
    assert_string_equal(path, "/events?since=0&until=12&filters=%7B%22container%22%3A%5B%220b%22"
                              "%5D%2C%22event%22%3A%5B%22oom%22%5D%7D");
    assert_true(sbx_container_has_oom("{\"status\":\"oom\",\"Action\":\"oom\"}\n{\"Action\":1}"));
    assert_false(sbx_container_has_oom("{\"Action\":\"die\"}"));
    assert_false(sbx_container_has_oom("{\"Action\":7}"));
    assert_false(sbx_container_has_oom(""));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_box_that_is_read_from_inside_outlives_its_end),
        cmocka_unit_test(how_a_container_ended_is_read),
        cmocka_unit_test(events_tell_what_the_engine_heard_too_late),
        cmocka_unit_test(the_body_holds_the_policy),
        cmocka_unit_test(what_is_left_out_is_missing_from_the_body),
        cmocka_unit_test(shares_add_up),
        cmocka_unit_test(an_engine_that_did_as_told_is_believed),
        cmocka_unit_test(each_value_that_is_not_as_told_is_named),
        cmocka_unit_test(a_changed_value_is_named_with_its_path),
        cmocka_unit_test(nonsense_is_refused),
        cmocka_unit_test(a_pid_is_a_number_that_can_be_one),
        cmocka_unit_test(an_id_is_64_digits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
