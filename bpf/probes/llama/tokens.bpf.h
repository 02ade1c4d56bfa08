/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Tokens: each reading of an output of the latest batch gives one token, however often that output is read. A token's
 * time is that since the token before: partly in calls that compute batches, partly in calls that wait for the results
 * (on a GPU, batches are computed after the call returned), and partly outside of both.
 */
#ifndef SCOPE_LLAMA_TOKENS_BPF_H
#define SCOPE_LLAMA_TOKENS_BPF_H

/* Adds a call that ended. `spent`: where its time went. */
static __always_inline void add_call(struct llama_context_state *context, __u64 duration_ns, __u32 tokens, bool waits,
				     const struct llama_spent *spent)
{
	context->sums.tokens += tokens;
	context->sums.prompt_tokens += tokens ? context->prompt_tokens : 0;
	if (waits)
		context->sums.wait_ns += duration_ns;
	else
		context->sums.decode_ns += duration_ns;
	add_spent(&context->sums.spent, spent);
}

/* Of the tokens in the batches since a request's latest token, those of other requests' prompts. */
static __always_inline __u32 others_prompts(const struct llama_sums *now, const struct llama_request_state *request)
{
	__s64 tokens = now->prompt_tokens - request->then.prompt_tokens;

	if (!request->generated)
		tokens -= request->at.prompt_tokens;
	return tokens > 0 ? tokens : 0;
}

static __always_inline void emit_token(struct task_struct *task, const struct llama_contexts_key *of,
				       const struct llama_context_state *context,
				       const struct llama_request_state *request, __s32 sequence, __u64 now_ns)
{
	const struct llama_sums *now = &context->sums, *then = &request->then;
	struct llama_token_event *event = scope_reserve(task, stream_llama_token, now_ns, sizeof(*event));

	if (!event)
		return;
	event->duration_ns = now_ns - request->last_ns;
	event->context = of->context;
	event->request = request->number;
	event->decode_ns = now->decode_ns - then->decode_ns;
	event->wait_ns = now->wait_ns - then->wait_ns;
	event->outside_ns = event->duration_ns - event->decode_ns - event->wait_ns;
	event->others_run_queue_ns = now->others_run_queue_ns - then->others_run_queue_ns;
	subtract_spent(&event->spent, &now->spent, &then->spent);
	subtract_outside(&event->outside, &now->outside, &then->outside);
	event->sequence = sequence;
	event->number = request->generated;
	event->batch_tokens = now->tokens - then->tokens;
	event->others_prompt_tokens = others_prompts(now, request);
	event->draft = context->draft;
	event->has_parts = event->decode_ns + event->wait_ns <= event->duration_ns;
	event->has_outside = event->has_parts && sum_of_outside(&event->outside) == event->outside_ns;
	event->has_others = bpf_core_field_exists(task->sched_info.run_delay);
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	if (event->spent.where.unknown_ns)
		scope_count_incomplete(stream_llama_token);
	scope_submit(event, stream_llama_token, sizeof(*event));
}

/* The program got the output with this index in the latest batch; -1: the last output. */
static __always_inline void take_output(struct task_struct *task, const struct llama_contexts_key *of,
					struct llama_context_state *context, __s32 index, __u64 now_ns)
{
	struct llama_sampled_key key = {.start_ns = of->start_ns, .pid = of->pid};
	struct llama_sampled sampled = {.context = of->context, .ktime_ns = now_ns};
	struct llama_request_state *request;
	__u32 entry;

	context->read = 1;
	if (index == -1)
		index = context->last_output;
	if (index < 0 || index >= LLAMA_BATCH || context->unknown_outputs) { /* counted from the end, or too many */
		scope_count_loss(stream_llama_token, SCOPE_LOST_NO_STATE);
		return;
	}
	entry = context->output[index & (LLAMA_BATCH - 1)];
	if (entry != output_entry(context->decodes, entry)) /* not an output of this batch */
		return;
	request = find_request(of, entry & (LLAMA_SEQUENCES - 1));
	if (request && (request->decode != context->decodes || request->at.output == index + 1))
		return;
	if (request && request->told)
		request = resume_request(of, context, request, entry & (LLAMA_SEQUENCES - 1), now_ns);
	if (!request) {
		scope_count_loss(stream_llama_token, SCOPE_LOST_NO_STATE);
		return;
	}
	emit_token(task, of, context, request, entry & (LLAMA_SEQUENCES - 1), now_ns);
	request->at.output = index + 1;
	request->at.sampled++;
	request->generated++;
	key.sequence = entry & (LLAMA_SEQUENCES - 1);
	sampled.position = request->at.position + (__s32)request->at.sampled;
	bpf_map_update_elem(&llama_sampled, &key, &sampled, BPF_ANY);
	if (!request->first_ns)
		request->first_ns = now_ns;
	request->last_ns = request->seen_ns = now_ns;
	request->then = context->sums;
}

#endif
