/* SPDX-License-Identifier: Apache-2.0 */
#include "clients/gemini-replay/hostile_cases.h"

#include "common/auto.h"

#include <string.h>

#define PARTS(parts) "{'candidates':[{'content':{'role':'model','parts':[" parts "]}}]}"
#define TEXT(text) PARTS("{'text':'" text "'}")
#define THOUGHT(text) "{'text':'" text "','thought':true}"
#define USAGE "'usageMetadata':{'promptTokenCount':7,'candidatesTokenCount':3,'totalTokenCount':10}"
#define ENDS(text, reason)                                                                         \
    "{'candidates':[{'content':{'role':'model','parts':[{'text':'" text                            \
    "'}]},'finishReason':'" reason "','index':0}]," USAGE ",'modelVersion':'wire-1'}"
#define LAST(text) ENDS(text, "STOP")
#define GOOD                                                                                       \
    {                                                                                              \
        .events = TEXT("one ") "|" LAST("two")                                                     \
    }
#define ERROR(code, status, more)                                                                  \
    "{'error':{'code':" code ",'message':'of the wire walk','status':'" status "'" more "}}"
#define BUSY ERROR("503", "UNAVAILABLE", "")
#define RETRY(delay)                                                                               \
    ",'details':[{'@type':'type.googleapis.com/google.rpc.RetryInfo','retryDelay':'" delay "'}]"
#define QUOTA(id, value)                                                                           \
    "{'@type':'type.googleapis.com/google.rpc.QuotaFailure','violations':[{'quotaId':'" id         \
    "','quotaValue':'" value "'}]}"
#define JSON "application/json; charset=UTF-8"
#define HTML "<html><head><title>502 Bad Gateway</title></head><body>nginx</body></html>\n"

/* One answer, again and again. */
#define ALWAYS(case_name, ...)                                                                     \
    {                                                                                              \
        .name = (case_name), .answers = {{__VA_ARGS__}}, .answer_count = 1                         \
    }
/* One answer, then a good one. */
#define ONCE(case_name, ...)                                                                       \
    {                                                                                              \
        .name = (case_name), .answers = {{__VA_ARGS__}, GOOD}, .answer_count = 2                   \
    }
/* A finish reason that ends the matter, and one that is worth another try. */
#define FINISH(reason) ALWAYS("12-finish-" reason, .events = TEXT("one ") "|" ENDS("", "@NAME@"))
#define FINISH_ONCE(reason) ONCE("12-again-" reason, .events = TEXT("one ") "|" ENDS("", "@NAME@"))
#define QUOTA_ERROR(case_name, more)                                                               \
    ONCE(case_name, .status = "429 Too Many Requests", .type = JSON,                               \
         .body = ERROR("429", "RESOURCE_EXHAUSTED", more))

const struct hostile_case hostile_cases[] = {
    ALWAYS("01-blocked-SAFETY", .events = "{'promptFeedback':{'blockReason':'@NAME@'}," USAGE "}"),
    ALWAYS("01-blocked-INVENTED",
           .events = "{'promptFeedback':{'blockReason':'@NAME@'}," USAGE "}"),
    ONCE("02-no-candidates", .events = "{'candidates':[]," USAGE "}"),
    ALWAYS("02-never-candidates", .events = "{'candidates':[]," USAGE "}"),
    ONCE("03-no-content", .events = "{'candidates':[{'finishReason':'STOP','index':0}]}"),
    ONCE("04-no-parts",
         .events = "{'candidates':[{'content':{'role':'model'},'finishReason':'STOP'}]}"),
    ONCE("05-empty-parts",
         .events = "{'candidates':[{'content':{'parts':[]},'finishReason':'STOP'}]}"),
    ALWAYS("06-empty-text", .events = TEXT("") "|" TEXT("one ") "|" TEXT("") "|" LAST("two")),
    ONCE("07-stop-without-text", .events = TEXT("") "|" LAST("")),
    ALWAYS("07-always-without-text", .events = TEXT("") "|" LAST("")),
    ALWAYS("08-many-parts",
           .events = PARTS("{'text':'o'},{'text':'n'},{'text':'e'},{'text':' '}") "|" LAST("two")),
    ALWAYS("09-thoughts", .events = PARTS(THOUGHT("a") ",{'text':'one'}," THOUGHT("b")) "|" TEXT(
                              " ") "|" PARTS(THOUGHT("c")) "|" LAST("two")),
    ALWAYS("10-signature", .events = TEXT("one ") "|" PARTS("{'text':'','thoughtSignature':"
                                                            "'c2lnbmF0dXJl'}") "|" LAST("two")),
    ALWAYS("11-cut-in-string",
           .events = TEXT("{\\'solution_py\\': \\'def f(") "|" ENDS("", "MAX_TOKENS")),
    ALWAYS("11-cut-in-escape",
           .events = TEXT("{\\'solution_py\\': \\'\\\\u12") "|" ENDS("", "MAX_TOKENS")),
    ALWAYS("11-cut-in-fence",
           .events = TEXT("```python path=solution.py\\ndef f(") "|" ENDS("", "MAX_TOKENS")),
    ONCE("11-eaten-by-thoughts",
         .events = "{'candidates':[{'content':{'parts':[{'text':'one'}]},'finishReason':"
                   "'MAX_TOKENS'}],'usageMetadata':{'promptTokenCount':7,'candidatesTokenCount':1,"
                   "'thoughtsTokenCount':3071,'totalTokenCount':3079}}"),
    FINISH("STOP"),
    FINISH("MAX_TOKENS"),
    FINISH("SAFETY"),
    FINISH("PROHIBITED_CONTENT"),
    FINISH("BLOCKLIST"),
    FINISH("SPII"),
    FINISH("MODEL_ARMOR"),
    FINISH("LANGUAGE"),
    FINISH("MISSING_THOUGHT_SIGNATURE"),
    FINISH("CONTINUATION"),
    FINISH("PUP_LIMITED_DISABLED"),
    FINISH("ESCALATION"),
    FINISH("RECITATION"),
    FINISH("FOO"),
    FINISH_ONCE("RECITATION"),
    FINISH_ONCE("MALFORMED_FUNCTION_CALL"),
    FINISH_ONCE("UNEXPECTED_TOOL_CALL"),
    FINISH_ONCE("MALFORMED_RESPONSE"),
    FINISH_ONCE("TOO_MANY_TOOL_CALLS"),
    FINISH_ONCE("OTHER"),
    FINISH_ONCE("IMAGE_SAFETY"),
    FINISH_ONCE("NO_IMAGE"),
    FINISH_ONCE("FINISH_REASON_UNSPECIFIED"),
    FINISH_ONCE("FOO"),
    ALWAYS("13-late-finish",
           .events = TEXT("one ") "|" TEXT("two") "|{'candidates':[{'finishReason':'STOP'}]}"),
    ALWAYS("14-no-usage", .events = TEXT("one ") "|{'candidates':[{'content':{'parts':[{'text':"
                                                 "'two'}]},'finishReason':'STOP'}]}"),
    ALWAYS("14-last-usage", .events = TEXT("one ") "|" LAST("two")),
    ALWAYS("14-cumulative-usage",
           .events =
               "{'candidates':[{'content':{'parts':[{'text':'one '}]}}],'usageMetadata':{"
               "'promptTokenCount':7,'candidatesTokenCount':1,'totalTokenCount':8}}|" LAST("two")),
    ALWAYS("15-usage-behind-the-end",
           .events = TEXT("one ") "|{'candidates':[{'content':{'parts':[{'text':'two'}]},"
                                  "'finishReason':'STOP'}]}|{" USAGE "}"),
    ALWAYS("16-bytes", .events = TEXT("one ") "|" LAST("two"), .chop = HOSTILE_CHOP_BYTES),
    ALWAYS("17-split-character", .events = TEXT("\xF0^\x9F^\x98^\x80") "|" LAST("\xC3^\xB1"),
           .chop = HOSTILE_CHOP_MARKS, .delay_ms = 2),
    ALWAYS("18-split-line-end",
           .body = "data: " TEXT("one ") "\r^\n\r^\ndata: " LAST("two") "\r^\n\r^\n",
           .chop = HOSTILE_CHOP_MARKS, .delay_ms = 2),
    ALWAYS("19-lf", .events = TEXT("one ") "|" LAST("two"), .lines = HOSTILE_LINES_LF),
    ALWAYS("19-cr", .events = TEXT("one ") "|" LAST("two"), .lines = HOSTILE_LINES_CR),
    ALWAYS("20-mark", .events = TEXT("one ") "|" LAST("two"), .is_marked = true),
    ALWAYS("21-comments", .events = TEXT("one ") "|" LAST("two"), .has_comments = true),
    ALWAYS("22-several-lines", .events = TEXT("one ") "|" LAST("two"), .is_split = true),
    ALWAYS("23-done", .events = TEXT("one ") "|" LAST("two") "|[DONE]"),
    ALWAYS("24-no-blank-line", .events = TEXT("one ") "|" LAST("two"), .lacks_end = true),
    ONCE("25-error-event", .events = TEXT("lost") "|" BUSY),
    ONCE("26-bare-error", .events = TEXT("lost"), .body = BUSY),
    ONCE("26-pretty-error", .events = TEXT("lost"),
         .body = "{\n  'error': {\n    'code': 503,\n\n    'message': 'of the wire walk',\n    "
                 "'status': 'UNAVAILABLE'\n  }\n}\n"),
    ONCE("26-array-error", .events = TEXT("lost"), .body = "[" BUSY "\n]\n"),
    ONCE("27-reset", .events = TEXT("lost"), .after = HOSTILE_RESET),
    ONCE("27-close", .events = TEXT("lost")),
    ONCE("27-cut-event", .events = TEXT("lost"), .body = "data: {'candid"),
    ONCE("28-html-502", .status = "502 Bad Gateway", .type = "text/html", .body = HTML),
    ONCE("28-empty-502", .status = "502 Bad Gateway", .type = "text/html"),
    ALWAYS("28-html-413", .status = "413 Payload Too Large", .type = "text/html", .body = HTML),
    ALWAYS("28-empty-413", .status = "413 Payload Too Large"),
    ONCE("28-gzip", .events = TEXT("one ") "|" LAST("two"), .is_compressed = true),
    ONCE("28-html-200", .type = "text/html", .body = HTML),
    ONCE("28-odd-type", .type = "text/html; charset=\xE9", .body = HTML),
    ALWAYS("28-other-type", .type = "text/plain", .events = TEXT("one ") "|" LAST("two")),
    QUOTA_ERROR("29-retry-0s", RETRY("0s")),
    QUOTA_ERROR("29-retry-1.5s", RETRY("1.5s")),
    QUOTA_ERROR("29-retry-86400s", RETRY("86400s")),
    QUOTA_ERROR("29-none", ""),
    QUOTA_ERROR("29-a-day", ",'details':[" QUOTA("GenerateRequestsPerDay-FreeTier", "50") "]"),
    QUOTA_ERROR("29-limit-0", ",'details':[" QUOTA("GenerateRequestsPerMinute", "0") "]"),
    QUOTA_ERROR("29-a-day-but-retry",
                ",'details':[" QUOTA(
                    "GenerateRequestsPerDay-FreeTier",
                    "50") ",{'@type':"
                          "'type.googleapis.com/google.rpc.RetryInfo','retryDelay':'0.1s'}]"),
    ONCE("29-date", .status = "429 Too Many Requests", .type = JSON,
         .headers = "Retry-After: @DATE@\r\n", .body = ERROR("429", "RESOURCE_EXHAUSTED", "")),
    ALWAYS("30-pair", .events = TEXT("\\ud83d\\ude00") "|" LAST("!")),
    ALWAYS("30-split-pair", .events = TEXT("\\ud83d") "|" LAST("\\ude00!")),
    ALWAYS("30-half", .events = TEXT("\\ud83d") "|" LAST("!")),
    ALWAYS("31-nul", .events = TEXT("one\\u0000") "|" LAST("two")),
    ALWAYS("31-line-separator", .events = TEXT("one\\u2028") "|" LAST("\xE2\x80\xA8two")),
    ALWAYS("31-del", .events = TEXT("one\x7F") "|" LAST("two")),
    ALWAYS("31-not-utf8", .events = TEXT("one\xFF\xC0\x80") "|" LAST("two")),
    ALWAYS("32-64-mib", .events = TEXT("one "), .lines = HOSTILE_LINES_LF,
           .fill = ": 0123456789012345678901234567890123456789012345678901234567890\n",
           .fill_count = 1U << 20, .tail = "data: " LAST("two") "\n\n"),
    ALWAYS("32-10-mib-line", .lines = HOSTILE_LINES_LF, .body = "data: {'x':'",
           .fill = "0123456789abcdef", .fill_count = 655360, .tail = "'}\n\n"),
    ALWAYS("32-deep", .lines = HOSTILE_LINES_LF, .body = "data: {'x':", .fill = "[",
           .fill_count = 1500, .tail = "\n\n"),
    ALWAYS("32-blank-lines", .events = TEXT("one "), .lines = HOSTILE_LINES_LF, .fill = "\n",
           .fill_count = 1U << 20, .tail = "data: " LAST("two") "\n\n"),
    ONCE("32-blanks", .body = "data: {'candidates':[{'content':{'parts':[{'text':'", .fill = " ",
         .fill_count = 1U << 20, .tail = "'}]}}]}\n\n"),
    ONCE("32-endless", .events = TEXT("ha "), .lines = HOSTILE_LINES_LF,
         .fill = "data: " TEXT("ha ha ha ha ha ") "\n\n", .fill_count = UINT32_MAX),
    ALWAYS("33-redirect-301", .status = "301 Moved Permanently",
           .headers = "Location: http://localhost:@PORT@/v1beta/models/gemini-wire-33-trap:"
                      "streamGenerateContent?alt=sse\r\n"),
    ALWAYS("33-redirect-307", .status = "307 Temporary Redirect",
           .headers = "Location: http://localhost:@PORT@/v1beta/models/gemini-wire-33-trap:"
                      "streamGenerateContent?alt=sse\r\n"),
    ALWAYS("33-trap", .events = TEXT("one ") "|" LAST("@KEY@")),
    ONCE("34-trickle", .body = "data: 0123456789012345678901234567890123456789",
         .chop = HOSTILE_CHOP_BYTES, .delay_ms = 60, .after = HOSTILE_HOLD),
    ONCE("34-slow-head", .is_silent = true, .after = HOSTILE_HOLD),
    ALWAYS("34-continue", .before = "HTTP/1.1 100 Continue\r\n\r\n",
           .events = TEXT("one ") "|" LAST("two")),
    ALWAYS("34-trailing", .events = TEXT("one ") " trailing|" LAST("two") " {'a':1}"),
    ALWAYS("34-duplicates",
           .events = "{'candidates':[{'content':{'parts':[{'text':'one ','text':'lost'}]}}],"
                     "'candidates':[{'content':{'parts':[{'text':'lost'}]}}]}|" LAST("two")),
    ALWAYS("34-no-index",
           .events = "{'candidates':[{'index':1,'content':{'parts':[{'text':'lost'}]}},{'content':"
                     "{'parts':[{'text':'one '}]}}]}|" LAST("two")),
    ALWAYS("34-numbers-as-strings",
           .events = TEXT("one ") "|{'candidates':[{'content':{'parts':[{'text':'two'}]},"
                                  "'finishReason':'STOP','index':'0'}],'usageMetadata':{"
                                  "'promptTokenCount':'7','candidatesTokenCount':'3',"
                                  "'totalTokenCount':'10'}}"),
    ALWAYS("34-key-in-error", .status = "400 Bad Request", .type = JSON,
           .body = "{'error':{'code':400,'message':'bad key @KEY@','status':'INVALID_ARGUMENT'}}"),
    ALWAYS("34-key-in-event",
           .events = "{'error':{'code':400,'message':'@KEY@','status':'INVALID_ARGUMENT'}}"),
    ALWAYS("34-key-in-text", .events = TEXT("one ") "|" LAST("@KEY@")),
    ALWAYS("e-400", .status = "400 Bad Request", .type = JSON,
           .body = ERROR("400", "FAILED_PRECONDITION", "")),
    ALWAYS("e-400-key", .status = "400 Bad Request", .type = JSON,
           .body = ERROR("400", "INVALID_ARGUMENT",
                         ",'details':[{'@type':'type.googleapis.com/google.rpc.ErrorInfo',"
                         "'reason':'API_KEY_INVALID','domain':'googleapis.com'}]")),
    ALWAYS("e-401", .status = "401 Unauthorized", .type = JSON,
           .body = ERROR("401", "UNAUTHENTICATED", "")),
    ALWAYS("e-403", .status = "403 Forbidden", .type = JSON,
           .body = ERROR("403", "PERMISSION_DENIED", "")),
    ALWAYS("e-404", .status = "404 Not Found", .type = JSON, .body = ERROR("404", "NOT_FOUND", "")),
    ONCE("e-408", .status = "408 Request Timeout"),
    ONCE("e-409", .status = "409 Conflict", .type = JSON, .body = ERROR("409", "ABORTED", "")),
    ONCE("e-499", .status = "499 Client Closed Request", .type = JSON,
         .body = ERROR("499", "CANCELLED", "")),
    ONCE("e-500", .status = "500 Internal Server Error", .type = JSON,
         .body = ERROR("500", "INTERNAL", "")),
    ONCE("e-503", .status = "503 Service Unavailable", .type = JSON, .body = BUSY),
    ONCE("e-504", .status = "504 Gateway Timeout", .type = JSON,
         .body = ERROR("504", "DEADLINE_EXCEEDED", "")),
    ALWAYS("34-key-in-reason",
           .events = "{'candidates':[{'finishReason':'SAFETY','finishMessage':'@KEY@'}]}"),
};

const size_t hostile_case_count = CR_ARRAY_SIZE(hostile_cases);

const struct hostile_case *hostile_case_find(const char *name, size_t size)
{
    for (size_t i = 0; i < hostile_case_count; i++) {
        if (strlen(hostile_cases[i].name) == size && memcmp(hostile_cases[i].name, name, size) == 0)
            return &hostile_cases[i];
    }
    return NULL;
}
