/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Languages that a run can answer a person in. */
enum agt_language {
    AGT_LANGUAGE_EN,
    AGT_LANGUAGE_ES,
};

/* The language of a text, by its commonest words; English when it is neither. Pure. */
enum agt_language agt_language_of(const char *text);

/* "en" or "es" as asked for; anything else: that of the task. */
enum agt_language agt_language_choose(const char *asked, const char *task);
