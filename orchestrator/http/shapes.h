/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "orchestrator/http/schema.h"

/* The objects that REST alone has, for its description. Static storage. */
extern const struct agt_schema_shape agt_shape_routes;
extern const struct agt_schema_shape agt_shape_ok;
extern const struct agt_schema_shape agt_shape_health;
extern const struct agt_schema_shape agt_shape_run;
extern const struct agt_schema_shape agt_shape_run_page;
extern const struct agt_schema_shape agt_shape_run_id;
extern const struct agt_schema_shape agt_shape_cancelled;
extern const struct agt_schema_shape agt_shape_resume;
extern const struct agt_schema_shape agt_shape_resumed;
extern const struct agt_schema_shape agt_shape_fork;
extern const struct agt_schema_shape agt_shape_nothing;
extern const struct agt_schema_shape agt_shape_execution;
extern const struct agt_schema_shape agt_shape_judge_answer;
extern const struct agt_schema_shape agt_shape_judge_runtime;
extern const struct agt_schema_shape agt_shape_judge_package;
extern const struct agt_schema_shape agt_shape_judge_refusal;
extern const struct agt_schema_shape agt_shape_error;
extern const struct agt_schema_shape agt_shape_invalid;
