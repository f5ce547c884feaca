/* SPDX-License-Identifier: Apache-2.0 */
#include "orchestrator/verify/lint.h"
#include "tests/unit/orchestrator/verify/source.h"

#include <stdlib.h>

static unsigned lint(const char *text)
{
    struct source source = source_read(text);
    unsigned line = agt_lint_always_equal(&source.tokens, &source.outline);

    source_done(&source);
    return line;
}

static void objects_equal_to_everything_are_found(void **state)
{
    static const char *const texts[] = {
        "\nclass A:\n    def __eq__(self, other):\n        return True\n",
        "\n\nclass A(int):\n  def __eq__(self, other: object) -> bool: return 1 == 1\n",
        "\nclass A:\n    def __eq__(self, /, other):\n        \"\"\"x\"\"\"\n        x = True\n        return x\n",
        "\nclass A:\n    def __eq__(self, *args):\n        return not False\n",
        "\n\nA.__eq__ = lambda self, other: True\n",
        "\n\nA = type('A', (), {'__eq__': lambda self, other: True})\n",
        "\n\nsetattr(A, \"__eq__\", lambda s, o: True)\n",
        "\nfrom unittest.mock import ANY\nx = 1\n",
        "\nclass A:\n    def __eq__(*_):\n        return True\n",
        "\nclass A:\n    def __eq__(self, other):\n        del other\n        return True\n",
        "\nclass A:\n    def __eq__(self, other):\n        _ = other\n        return True\n",
        "def yes(a, b): return True\nclass A:\n    __eq__ = yes\n",
        "def yes(a, b): return True\n\nA.__eq__ = yes\n",
        "def yes(a, b): return True\n\nsetattr(A, '__eq__', yes)\n",
        "class A:\n    __eq__: object = lambda s, o: True\n",
        "class A(int):\n    __eq__ = int.__ne__\n",
        "class A(int):\n    __eq__ = __ne__\n",
        "class A(int):\n    __eq__ = int.__le__\n",
        "class A(str):\n    __eq__ = str.__gt__\n",
        "\nclass A:\n    def __eq__(self, other):\n        return other == other\n",
        "\nclass A:\n    def __eq__(self, o):\n        return (self and o is o) or True\n",
        "class A:\n    __eq__ = lambda self, other: other == other\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        unsigned line = lint(texts[i]);

        if (line < 2 || line > 4)
            fail_msg("case %zu: line %u", i, line);
    }
}

static void honest_comparisons_are_left_alone(void **state)
{
    static const char *const texts[] = {
        "class A:\n    def __eq__(self, other):\n        return self.x == other.x\n",
        "class A:\n    def __eq__(self, other):\n        return NotImplemented\n",
        "class A:\n    def __eq__(self, other):\n        return False\n",
        "class A:\n    def __eq__(self, other):\n        raise TypeError\n",
        "class A:\n    def __eq__(self, other):\n        '''x'''\n        if not isinstance(other, A):\n"
        "            return NotImplemented\n        return True\n",
        "class A:\n    __eq__ = lambda self, other: self.x == other.x\n",
        "class A:\n    __eq__ = object.__eq__\n",
        "class A:\n    def __eq__(self, other):\n        return self.other == other\n",
        "class A:\n    def __eq__(self, other):\n        return other == other.x\n",
        "class A:\n    def __eq__(self, other):\n        return other is other[0] or self.x\n",
        "class A:\n    def __eq__(self, other):\n        return 1 + other == other\n",
        "class A:\n    def __lt__(self, other): return self.x < other.x\n    __le__ = __lt__\n",
        "class A:\n    def __eq__(self, other):\n        _ = other.x\n        return self.x == _\n",
        "def same(a, b):\n    return a.x == b.x\nclass A:\n    __eq__ = same\n",
        "def yes(a, b):\n    return True\nclass A:\n    __eq__ = yes.same\n    x = yes\n",
        "def make(a, b):\n    return compare\nclass A:\n    __eq__ = make(1, 2)\n",
        "class A:\n    __eq__: object\n    def f(self): return self.__eq__\n",
        "def __eq__(self, other):\n    return True\n",
        "ANY = 1\n",
        "@dataclass(eq=True)\nclass A:\n    x: int\n",
    };

    (void)state;
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (lint(texts[i]) != 0)
            fail_msg("case %zu", i);
    }
}

/* As often as it fits, so that a look at the rest for each would take hours. */
static void many_suspicious_words_cost_one_look_each(void **state)
{
    static const char *const words[] = {"ANY ", "__eq__ = lambda "};

    (void)state;
    for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
        size_t size = strlen(words[i]);
        char *text = calloc(150000, size + 1);

        for (size_t k = 0; k < 150000; k++)
            memcpy(text + k * size, words[i], size);
        assert_int_equal(lint(text), 0);
        free(text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(objects_equal_to_everything_are_found),
        cmocka_unit_test(honest_comparisons_are_left_alone),
        cmocka_unit_test(many_suspicious_words_cost_one_look_each),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
