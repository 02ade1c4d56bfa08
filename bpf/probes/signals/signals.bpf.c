/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "signals.h"

SCOPE_STREAM(signal);

/* include/uapi/asm-generic/siginfo.h and include/linux/sched/signal.h */
#define SIGCHLD 17
#define SI_USER 0
#define SI_QUEUE -1
#define SI_TKILL -6
#define SEND_SIG_PRIV 1L

/*
 * What siginfo says of the cause; 0 for the two values that are no address, SEND_SIG_NOINFO and SEND_SIG_PRIV. Because
 * of those, newer kernels' verifiers take the argument for a number.
 */
static __always_inline int code_of(struct kernel_siginfo *info)
{
	return (unsigned long)info > SEND_SIG_PRIV ? BPF_CORE_READ(info, si_code) : 0;
}

/* Does the running thread send the signal, by a call or by its end? Else the kernel does, whatever thread runs. */
static __always_inline bool is_by_process(int signal, struct kernel_siginfo *info)
{
	int code;

	if ((long)info == SEND_SIG_PRIV)
		return false;
	if (!info) /* SEND_SIG_NOINFO */
		return true;
	code = code_of(info);
	return code == SI_USER || code == SI_QUEUE || code == SI_TKILL || (signal == SIGCHLD && code > 0);
}

/* Runs when a signal is sent, before the receiver knows. Misses signals that the kernel forces on a thread's exit. */
SEC("tp_btf/signal_generate")
int BPF_PROG(signal_sent, int signal, struct kernel_siginfo *info, struct task_struct *receiver, int group, int result)
{
	struct task_struct *sender = bpf_get_current_task_btf();
	bool by_process = is_by_process(signal, info) && sender->pid;
	struct signal_event *event;

	if (!scope_passes(receiver) && !(by_process && scope_passes(sender)))
		return 0;
	event = scope_reserve(receiver, stream_signal, bpf_ktime_get_boot_ns(), sizeof(*event));
	if (!event)
		return 0;
	event->signal = signal;
	event->code = code_of(info);
	event->result = result;
	event->by_process = by_process;
	event->to_thread = !group;
	event->sender_start_ns = task_start_ns(sender);
	event->sender_pid = sender->tgid;
	event->sender_tid = sender->pid;
	event->sender_uid = untrusted(sender)->cred->uid.val;
	copy_comm(event->sender_comm, sender);
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_signal, sizeof(*event));
	return 0;
}
