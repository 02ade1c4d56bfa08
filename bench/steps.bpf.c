/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What the probe of syscalls does at a call, as far as a step: each does what those before it do, and more. */
#include "scope.bpf.h"

#include "syscalls.h"

SCOPE_STREAM(syscall);

enum step {
	TRACEPOINTS, /* two programs that do nothing */
	STATE,	     /* finds what is kept of the thread, and whether it is watched */
	CLOCK,	     /* reads the clock at entry and at exit */
	ARGUMENTS,   /* keeps them from the entry on */
	RING,	     /* makes room for a record and gives it to the reader */
	IDENTITY,    /* whose it is */
	RECORD,	     /* the rest of it */
};

const volatile __u32 step;

struct step_thread {
	struct scope_thread thread;
	__u64 entered_ns;
	__s64 args[6];
	__s32 nr;
	__u8 compat;
};

SCOPE_THREADS(struct step_thread);

SEC("tp_btf/sys_enter")
int BPF_PROG(step_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct step_thread *call;

	if (step < STATE)
		return 0;
	call = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call || !scope_thread_passes(task, &call->thread))
		return 0;
	call->entered_ns = 1;
	if (step < CLOCK)
		return 0;
	call->entered_ns = bpf_ktime_get_boot_ns();
	if (step < ARGUMENTS)
		return 0;
	call->nr = nr;
	call->compat = is_compat(task);
	call->args[0] = syscall_arg(regs, 0);
	call->args[1] = syscall_arg(regs, 1);
	call->args[2] = syscall_arg(regs, 2);
	call->args[3] = syscall_arg(regs, 3);
	call->args[4] = syscall_arg(regs, 4);
	call->args[5] = syscall_arg(regs, 5);
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(step_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct syscall_event *event;
	struct step_thread *call;
	__u64 left_ns;

	if (step < STATE)
		return 0;
	call = bpf_task_storage_get(&threads, task, 0, 0);
	if (!call || !call->entered_ns || step < CLOCK)
		return 0;
	left_ns = bpf_ktime_get_boot_ns();
	if (step < RING)
		return 0;
	event = scope_room(stream_syscall, sizeof(*event));
	if (!event)
		return 0;
	event->header.stream = stream_syscall;
	if (step >= IDENTITY)
		scope_fill_header(&event->header, task, stream_syscall, call->entered_ns);
	if (step >= RECORD) {
		event->arg0 = call->args[0];
		event->arg1 = call->args[1];
		event->arg2 = call->args[2];
		event->arg3 = call->args[3];
		event->arg4 = call->args[4];
		event->arg5 = call->args[5];
		event->ret = ret;
		event->duration_ns = left_ns - call->entered_ns;
		event->nr = call->nr;
		event->compat = call->compat;
		event->returned = 1;
		event->decoded = event->waited = 0;
	}
	scope_submit(event, stream_syscall, sizeof(*event));
	return 0;
}
