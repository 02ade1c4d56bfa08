/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page faults of watched threads. A tracepoint marks the begin of a fault. Once the fault is served, the kernel counts
 * it as a software event, once even if it was retried. A fault that ends in a signal is not counted.
 */
#ifndef SCOPE_FAULTS_BPF_H
#define SCOPE_FAULTS_BPF_H

SCOPE_SHARED(enum, perf_sw_ids);

static __always_inline int fault_begins(struct task_struct *task)
{
	struct why_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);

	if (thread && thread->open)
		thread->fault_since_ns = bpf_ktime_get_boot_ns();
	return 0;
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(why_fault_user)
{
	return fault_begins(bpf_get_current_task_btf());
}

/* A fault within a call. While faults are disabled, as when BPF programs read memory, no fault is served. */
SEC("tp_btf/page_fault_kernel")
int BPF_PROG(why_fault_kernel)
{
	struct task_struct *task = bpf_get_current_task_btf();

	return task->pagefault_disabled ? 0 : fault_begins(task);
}

/* For architectures without these tracepoints. */
SEC("perf_event")
int why_fault_counted(struct bpf_perf_event_data *ctx)
{
	return fault_begins(bpf_get_current_task_btf());
}

static __always_inline int fault_ends(enum page_fault_kind kind)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct why_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	struct page_fault_summary_key key = {.kind = kind, .tid = task->pid};
	struct page_fault_summary_value *value;
	__u64 ns;

	if (!thread || !thread->fault_since_ns)
		return 0;
	ns = bpf_ktime_get_boot_ns() - thread->fault_since_ns;
	thread->fault_since_ns = 0;
	fill_running_process(&key.process);
	copy_comm(key.thread_comm, task);
	value = page_fault_summary_slot(&key);
	if (!value)
		return 0;
	__sync_fetch_and_add(&value->count, 1);
	__sync_fetch_and_add(&value->total_ns, ns);
	scope_histogram_add(&value->duration, ns);
	return 0;
}

SEC("perf_event")
int why_fault_minor(struct bpf_perf_event_data *ctx)
{
	return fault_ends(PAGE_FAULT_MINOR);
}

SEC("perf_event")
int why_fault_major(struct bpf_perf_event_data *ctx)
{
	return fault_ends(PAGE_FAULT_MAJOR);
}

#endif
