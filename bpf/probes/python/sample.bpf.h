/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Samples of processes whose interpreter has no place that all calls of Python functions pass. User space has told of
 * no other interpreters (python_interpreter.bpf.h).
 */
#ifndef SCOPE_PYTHON_SAMPLE_BPF_H
#define SCOPE_PYTHON_SAMPLE_BPF_H

/* Interrupts are off while the program here runs, so one memory per CPU is enough. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct stack_memory);
} python_stacks SEC(".maps");

/* The running thread's Python frames; 0: it runs none, or they were not kept. */
static __always_inline __u64 python_stack(struct task_struct *task, __u16 stream)
{
	__u32 zero = 0;
	struct stack_memory *memory = bpf_map_lookup_elem(&python_stacks, &zero);
	__u64 hash;

	if (!memory)
		return 0;
	memory->walked.user_depth = 0;
	memory->walked.flags = 0;
	hash = walk_python(memory, mix(running_start_ns(), 0));
	return memory->walked.python_depth ? put_stack(task, memory, hash, stream) : 0;
}

SEC("perf_event")
int python_sample(struct bpf_perf_event_data *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u16 stream = scope_summarize ? stream_python_sample_summary : stream_python_sample;
	struct python_sample_summary_key key = {};
	struct python_sample_summary_value *value;
	struct python_sample_event *event;
	__s32 pid = task->tgid;

	if (!bpf_map_lookup_elem(&python_processes, &pid) || !scope_passes(task))
		return 0;
	key.stack_id = python_stack(task, stream);
	if (!scope_summarize) {
		event = scope_reserve(task, stream, bpf_ktime_get_boot_ns(), sizeof(*event));
		if (!event)
			return 0;
		event->duration_ns = ctx->sample_period;
		event->stack_id = key.stack_id;
		scope_submit(event, stream, sizeof(*event));
		return 0;
	}
	fill_process(&key.process, task);
	value = python_sample_summary_slot(&key);
	if (!value)
		return 0;
	__sync_fetch_and_add(&value->count, 1);
	__sync_fetch_and_add(&value->total_ns, ctx->sample_period);
	return 0;
}

#endif
