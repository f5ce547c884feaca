/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct agt_exchange;

/*
 * One function per route. Loop thread, with the whole body in exchange->body,
 * which is gone after the return. Each either answers (agt_exchange_answer,
 * _fail, _begin_stream) or sets exchange->operation and answers later.
 */
void agt_handle_index(struct agt_exchange *exchange);
void agt_handle_livez(struct agt_exchange *exchange);
void agt_handle_readyz(struct agt_exchange *exchange);
void agt_handle_health(struct agt_exchange *exchange);
void agt_handle_metrics(struct agt_exchange *exchange);
void agt_handle_page(struct agt_exchange *exchange);
void agt_handle_openapi(struct agt_exchange *exchange);
void agt_handle_run_export(struct agt_exchange *exchange);
void agt_handle_run_receipt(struct agt_exchange *exchange);
void agt_handle_models(struct agt_exchange *exchange);
void agt_handle_runtimes(struct agt_exchange *exchange);
void agt_handle_generate(struct agt_exchange *exchange);
void agt_handle_stream(struct agt_exchange *exchange);
void agt_handle_execute(struct agt_exchange *exchange);
void agt_handle_judge_execute(struct agt_exchange *exchange);
void agt_handle_judge_list(struct agt_exchange *exchange);
void agt_handle_run_submit(struct agt_exchange *exchange);
void agt_handle_run_list(struct agt_exchange *exchange);
void agt_handle_run_get(struct agt_exchange *exchange);
void agt_handle_run_cancel(struct agt_exchange *exchange);
void agt_handle_run_resume(struct agt_exchange *exchange);
void agt_handle_run_fork(struct agt_exchange *exchange);
void agt_handle_run_forget(struct agt_exchange *exchange);
void agt_handle_run_events(struct agt_exchange *exchange);
void agt_handle_graph(struct agt_exchange *exchange);
