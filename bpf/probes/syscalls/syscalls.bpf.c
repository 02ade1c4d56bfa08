/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "syscalls.h"
#include "unseen.bpf.h"

SCOPE_STREAM(syscall);
SCOPE_SUMMARY(syscall_summary)

const volatile bool select_by_name; /* only calls with a 1 below */
const volatile __u8 selected[SYSCALLS];
const volatile __u8 selected_32[SYSCALLS]; /* the same of 32-bit calls */
const volatile bool decoded;		   /* arguments are wanted as text, too */

struct syscall_thread {
	struct scope_thread thread;
	__u64 entered_ns; /* 0: not in a call that is watched */
	__u64 slept;	  /* times that the thread had given up its CPU to wait, when it entered */
	__s64 args[6];
	__s32 nr;
	__u8 compat;
};

SCOPE_THREADS(struct syscall_thread);

#include "reading.bpf.h"

/* Whether the thread has given up its CPU to wait since it entered the call. */
static __always_inline bool has_waited(struct task_struct *task, struct syscall_thread *call)
{
	return task->nvcsw != call->slept;
}

static __always_inline void summarize_call(struct task_struct *task, struct syscall_thread *call, __s64 ret,
					   __u64 duration_ns)
{
	struct syscall_summary_key key = {.nr = call->nr, .compat = call->compat, .waited = has_waited(task, call)};
	struct syscall_summary_value *value;

	fill_process(&key.process, task);
	value = syscall_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->count, 1);
	if (ret < 0 && ret >= -4095)
		__sync_fetch_and_add(&value->errors, 1);
	__sync_fetch_and_add(&value->total_ns, duration_ns);
	scope_histogram_add(&value->latency, duration_ns);
}

static __always_inline void fill_event(struct syscall_event *event, struct task_struct *task,
				       struct syscall_thread *call, __s64 ret, bool returned, __u64 duration_ns)
{
	event->arg0 = call->args[0];
	event->arg1 = call->args[1];
	event->arg2 = call->args[2];
	event->arg3 = call->args[3];
	event->arg4 = call->args[4];
	event->arg5 = call->args[5];
	event->ret = ret;
	event->duration_ns = duration_ns;
	event->nr = call->nr;
	event->compat = call->compat;
	event->returned = returned;
	event->decoded = decoded;
	event->waited = has_waited(task, call);
}

/* An event with what was read. False: nothing was, so that one without will do. */
static __always_inline bool emit_read(struct task_struct *task, struct syscall_thread *call, __u64 entered_ns,
				      __s64 ret, bool returned, __u64 duration_ns)
{
	struct reading *reading;

	if (!is_read(call))
		return false;
	reading = bpf_task_storage_get(&reading_threads, task, 0, 0);
	if (!reading || !reading->ready) {
		scope_count_incomplete(stream_syscall);
		return false;
	}
	reading->ready = 0;
	if (returned && is_read_at_exit(reading, call))
		read_at_exit(reading, call, ret);
	if (reading->left_out)
		scope_count_incomplete(stream_syscall);
	if (reading->end > TAIL_BYTES)
		return false;
	fill_event(&reading->event, task, call, ret, returned, duration_ns);
	scope_output(&reading->event.header, task, stream_syscall, entered_ns, sizeof(reading->event) + reading->end);
	return true;
}

static __always_inline void end_call(struct task_struct *task, struct syscall_thread *call, __s64 ret, bool returned)
{
	__u64 entered_ns = call->entered_ns, duration_ns = bpf_ktime_get_boot_ns() - entered_ns;
	struct syscall_event *event;

	call->entered_ns = 0;
	if (scope_summarize) {
		summarize_call(task, call, ret, duration_ns);
		return;
	}
	if (reads && emit_read(task, call, entered_ns, ret, returned, duration_ns))
		return;
	event = scope_reserve(task, stream_syscall, entered_ns, sizeof(*event));
	if (!event)
		return;
	fill_event(event, task, call, ret, returned, duration_ns);
	scope_submit(event, stream_syscall, sizeof(*event));
}

static __always_inline bool is_selected(unsigned long nr, bool compat)
{
	if (nr >= SYSCALLS)
		return false;
	return compat ? selected_32[nr & (SYSCALLS - 1)] : selected[nr & (SYSCALLS - 1)];
}

/*
 * The raw tracepoints fire for every syscall, whatever its number, and BTF types their arguments, so that the registers
 * are read by plain loads. They miss calls that io_uring makes for a process, whose submissions are counted, and calls
 * that seccomp or a debugger refused before they began. Arguments are kept from the entry: execve clears the registers.
 */
SEC("tp_btf/sys_enter")
int BPF_PROG(syscall_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct syscall_thread *call;
	bool compat = is_compat(task);

	if (select_by_name && !is_selected(nr, compat))
		return 0;
	call = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call) {
		if (scope_passes(task))
			scope_count_loss(scope_summarize ? stream_syscall_summary : stream_syscall,
					 SCOPE_LOST_NO_STATE);
		return 0;
	}
	if (!scope_thread_passes(task, &call->thread))
		return 0;
	call->compat = compat;
	call->slept = task->nvcsw;
	call->nr = nr;
	call->args[0] = call_arg(regs, 0, compat);
	call->args[1] = call_arg(regs, 1, compat);
	call->args[2] = call_arg(regs, 2, compat);
	call->args[3] = call_arg(regs, 3, compat);
	call->args[4] = call_arg(regs, 4, compat);
	call->args[5] = call_arg(regs, 5, compat);
	if (reads && !scope_summarize && is_read(call))
		read_at_entry(call);
	call->entered_ns = bpf_ktime_get_boot_ns();
	return 0;
}

/* The number is the entry's: rt_sigreturn leaves with another. */
SEC("tp_btf/sys_exit")
int BPF_PROG(syscall_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct syscall_thread *call = bpf_task_storage_get(&threads, task, 0, 0);

	scope_count_submissions(task, regs, ret);
	if (call && call->entered_ns)
		end_call(task, call, ret, true);
	return 0;
}

/* Calls that never return: exit and exit_group. A call that a fatal signal ends does return, with -ERESTART*. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(syscall_abandon, struct task_struct *task)
{
	struct syscall_thread *call = bpf_task_storage_get(&threads, task, 0, 0);

	if (call && call->entered_ns)
		end_call(task, call, 0, false);
	return 0;
}
