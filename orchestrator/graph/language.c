/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/graph/language.h"

#include "common/auto.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <strings.h>

/* Words that few texts of their language do without, and no text of the other one has. */
static const char *const spanish[] = {
    "de",      "la",      "que",      "el",       "en",    "los",        "una",  "para",  "con",
    "por",     "un",      "se",       "del",      "las",   "lo",         "su",   "al",    "es",
    "como",    "haz",     "escribe",  "escribir", "crea",  "implementa", "cada", "entre", "sin",
    "función", "números", "programa", "lista",    "clase", "devuelve",   "debe", "dado",
};

static const char *const english[] = {
    "the",  "of",   "and", "to",      "that",    "with",   "for",       "write",  "function",
    "is",   "are",  "it",  "which",   "returns", "return", "implement", "create", "class",
    "list", "from", "by",  "each",    "given",   "must",   "should",    "into",   "numbers",
    "an",   "or",   "add", "program", "string",  "all",    "if",        "when",   "as",
};

static bool is_word_byte(char c)
{
    return isalpha((unsigned char)c) || (unsigned char)c >= 0x80;
}

static bool is_among(const char *const *words, size_t count, const char *word, size_t size)
{
    for (size_t i = 0; i < count; i++) {
        if (strlen(words[i]) == size && strncasecmp(words[i], word, size) == 0)
            return true;
    }
    return false;
}

enum agt_language agt_language_of(const char *text)
{
    size_t es = 0;
    size_t en = 0;

    while (*text) {
        size_t size = 0;

        while (is_word_byte(text[size]))
            size++;
        es += is_among(spanish, CR_ARRAY_SIZE(spanish), text, size);
        en += is_among(english, CR_ARRAY_SIZE(english), text, size);
        if (size == 0)
            size = 1;
        text += size;
    }
    return es > en ? AGT_LANGUAGE_ES : AGT_LANGUAGE_EN;
}

enum agt_language agt_language_choose(const char *asked, const char *task)
{
    if (strcmp(asked, "es") == 0)
        return AGT_LANGUAGE_ES;
    return strcmp(asked, "en") == 0 ? AGT_LANGUAGE_EN : agt_language_of(task);
}
