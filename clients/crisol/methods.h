/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "rpc/client.h"

/* The methods that the command line calls. */
extern const struct rpc_client_method cli_method_execute;
extern const struct rpc_client_method cli_method_run;
extern const struct rpc_client_method cli_method_execute_interactive;
extern const struct rpc_client_method cli_method_run_batch;
extern const struct rpc_client_method cli_method_get_capabilities;
extern const struct rpc_client_method cli_method_generate_stream;
extern const struct rpc_client_method cli_method_submit_run;
extern const struct rpc_client_method cli_method_list_runs;
extern const struct rpc_client_method cli_method_watch_run;
extern const struct rpc_client_method cli_method_resume_run;
extern const struct rpc_client_method cli_method_fork_run;
extern const struct rpc_client_method cli_method_cancel_run;
extern const struct rpc_client_method cli_method_delete_run;
extern const struct rpc_client_method cli_method_export_run;
extern const struct rpc_client_method cli_method_health_check;
