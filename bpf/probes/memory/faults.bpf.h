/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Page faults. Once a fault is served, the kernel counts it as a software event, once even if it was retried: so the
 * counts are those of `perf stat -e faults`. A tracepoint before says what the program did. A fault that ends in a
 * signal is not counted.
 */
#ifndef SCOPE_MEMORY_FAULTS_BPF_H
#define SCOPE_MEMORY_FAULTS_BPF_H

SCOPE_SHARED(enum, perf_sw_ids);

#define FAULT_OPEN (1ULL << 63)

/* enum x86_pf_error_code, arch/x86/include/asm/trap_pf.h; the codes of other architectures are not told apart. */
#define FAULT_PROTECTED 1
#define FAULT_WRITE 2
#define FAULT_EXEC 16

static __always_inline struct memory_faults_value *faults_of(struct task_struct *task)
{
	struct memory_faults_key key = {.start_ns = task_start_ns(task), .pid = task->tgid};

	return memory_faults_entry(&key);
}

SEC("tp_btf/page_fault_user")
int BPF_PROG(memory_fault_user, unsigned long address, struct pt_regs *regs, unsigned long error_code)
{
	struct memory_thread *thread = watched(bpf_get_current_task_btf(), stream_memory_faults);

	if (thread)
		thread->fault = error_code | FAULT_OPEN;
	return 0;
}

static __always_inline __u64 *cause_of(struct memory_faults_value *faults, __u64 fault)
{
	if (!(fault & FAULT_OPEN))
		return &faults->by_kernel;
#if defined(__TARGET_ARCH_x86)
	if (fault & FAULT_EXEC)
		return &faults->by_exec;
	if (fault & FAULT_WRITE)
		return fault & FAULT_PROTECTED ? &faults->by_copy : &faults->by_write;
#endif
	return &faults->by_read;
}

static __always_inline int count_fault(bool major)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct memory_thread *thread = watched(task, stream_memory_faults);
	struct memory_faults_value *faults = thread ? faults_of(task) : NULL;

	if (!faults)
		return 0;
	__sync_fetch_and_add(major ? &faults->major : &faults->minor, 1);
	__sync_fetch_and_add(cause_of(faults, thread->fault), 1);
	thread->fault = 0;
	return 0;
}

SEC("perf_event")
int memory_fault_minor(struct bpf_perf_event_data *ctx)
{
	return count_fault(false);
}

SEC("perf_event")
int memory_fault_major(struct bpf_perf_event_data *ctx)
{
	return count_fault(true);
}

#endif
