/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is recorded of a call that ends: a row, or its share of a summary. */
#ifndef SCOPE_PYTHON_RECORD_BPF_H
#define SCOPE_PYTHON_RECORD_BPF_H

/* The names of the finished call are in `thread->names`. */
static __always_inline void emit(struct task_struct *task, struct calling_thread *thread, const struct open_call *frame,
				 enum python_ended ended, __u64 duration_ns)
{
	struct python_call_event *event = &thread->made.event;
	__u32 function = thread->names.function, file = thread->names.file, length = function + file;

	barrier_var(length);
	if (length > sizeof(thread->made.text))
		return;
	bpf_probe_read_kernel(thread->made.text, length, thread->names.text);
	event->duration_ns = duration_ns;
	event->self_ns = duration_ns - frame->inner_ns;
	event->function.offset = 0;
	event->function.length = function ? function - 1 : 0;
	event->file.offset = function;
	event->file.length = file ? file - 1 : 0;
	event->has_function = function > 0;
	event->has_file = file > 0;
	event->line = frame->line;
	event->depth = thread->depth;
	event->ended = ended;
	scope_output(&event->header, task, stream_python_call, frame->entered_ns, sizeof(*event) + length);
}

/* Emits the names of a function that a summary counts for the first time in its interval. */
static __noinline int emit_names(struct calling_thread *thread, __u64 code)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct python_code_event *event;
	__u32 function, file, length;

	if (!thread)
		return 0;
	event = &thread->named.event;
	function = thread->names.function;
	file = thread->names.file;
	length = function + file;
	barrier_var(length);
	if (length > sizeof(thread->named.text))
		return 0;
	bpf_probe_read_kernel(thread->named.text, length, thread->names.text);
	event->code = code;
	event->function.offset = 0;
	event->function.length = function ? function - 1 : 0;
	event->file.offset = function;
	event->file.length = file ? file - 1 : 0;
	event->has_function = function > 0;
	event->has_file = file > 0;
	scope_output(&event->header, task, stream_python_code, bpf_ktime_get_boot_ns(), sizeof(*event) + length);
	return 0;
}

static __always_inline void count(struct calling_thread *thread, const struct open_call *frame, __u64 duration_ns)
{
	struct python_call_summary_value *value;

	__builtin_memset(&thread->key, 0, sizeof(thread->key));
	fill_running_process(&thread->key.process);
	thread->key.code = hash_names(&thread->names);
	value = python_call_summary_slot(&thread->key);
	if (!value)
		return;
	if (!__sync_fetch_and_add(&value->calls, 1))
		emit_names(thread, thread->key.code);
	__sync_fetch_and_add(&value->total_ns, duration_ns);
	__sync_fetch_and_add(&value->self_ns, duration_ns - frame->inner_ns);
	scope_histogram_add(&value->latency, duration_ns);
}

/* Ends the innermost call: counts or emits it if the options want it, and drops it. */
static __always_inline void finish(struct task_struct *task, struct calling_thread *thread, struct open_call *frame,
				   __u64 function, __u64 file, enum python_ended ended, __u64 duration_ns)
{
	thread->depth--;
	if (scope_summarize || duration_ns >= min_ns) {
		read_names(&thread->names, function, file);
		if (is_wanted(&thread->names)) {
			if (scope_summarize)
				count(thread, frame, duration_ns);
			else
				emit(task, thread, frame, ended, duration_ns);
		}
	}
	thread->depth++;
	drop(task, thread);
}

#endif
