/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * The system instructions, from the text files of this folder. The first line
 * of each is its version ("version: planner 1"), not part of the instruction:
 * whoever changes a text counts it up.
 */
extern const char agt_prompt_planner_file[];
extern const char agt_prompt_generator_file[];
extern const char agt_prompt_repair_file[];
