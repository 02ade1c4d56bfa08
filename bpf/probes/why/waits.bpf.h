/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a blocked thread waits for. The programs read it when the thread leaves its CPU, from the registers saved at the
 * thread's entry to the kernel: they hold the call's number and arguments until the call ends, and -1 in a page fault
 * or an interrupt. So a syscall that does not block costs nothing.
 */
#ifndef SCOPE_WAITS_BPF_H
#define SCOPE_WAITS_BPF_H

/* How a call names the file that it waits for, by the architecture's call numbers; set at load. */
enum why_file {
	WHY_NO_FILE,
	WHY_FILE_OF_FD,	 /* the first argument is a descriptor */
	WHY_FILE_POLLED, /* the first argument is an array of struct pollfd, the second its length */
};

SCOPE_SHARED(enum, why_file);
SCOPE_SHARED(enum, why_blocked);

const volatile __u8 files_of_calls[SYSCALLS];
const volatile __u8 files_of_calls_32[SYSCALLS]; /* of 32-bit calls */
const volatile bool keep_stacks;

/* include/linux/sched.h */
#define TASK_STOPPED_OR_TRACED 0x0c
#define PF_IO_WORKER 0x10
#define PF_USER_WORKER 0x4000
#define MAKES_NO_CALLS (PF_IO_WORKER | PF_USER_WORKER) /* threads of a process that always stay in the kernel */

struct why_wait {
	struct scope_file file;
	__u64 stack_id;
	__s32 nr; /* of the call, or an enum why_blocked */
	__s32 fd;
	struct scope_address remote;
	__u16 remote_port;
	__u8 compat;
	__u8 pad;
};

/*
 * The descriptor that a thread polls; -1: several, or unknown. With several, nothing says which one will end the wait.
 * Only the memory of the running thread can be read, and only if it is not swapped out.
 */
static __always_inline __s32 polled_fd(struct task_struct *task, struct pt_regs *regs, bool compat)
{
	__s32 fd = -1;

	if (task == bpf_get_current_task_btf() && call_arg(regs, 1, compat) == 1)
		bpf_probe_read_user(&fd, sizeof(fd), (void *)call_arg(regs, 0, compat));
	return fd;
}

static __always_inline __u32 file_of_call(__s32 nr, bool compat)
{
	if ((__u32)nr >= SYSCALLS)
		return WHY_NO_FILE;
	return compat ? files_of_calls_32[nr & (SYSCALLS - 1)] : files_of_calls[nr & (SYSCALLS - 1)];
}

/* The peer of a socket of the internet; none: it listens, or nothing has connected it. */
static __always_inline void find_peer(struct file *file, struct why_wait *wait)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	__u32 six[4];

	if (family != AF_INET && family != AF_INET6)
		return;
	wait->remote_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (!wait->remote_port)
		return;
	BPF_CORE_READ_INTO(&six, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32);
	fill_address(&wait->remote, family, BPF_CORE_READ(sk, __sk_common.skc_daddr), six);
}

static __always_inline void find_file(struct task_struct *task, struct pt_regs *regs, struct why_wait *wait)
{
	__u32 kind = file_of_call(wait->nr, wait->compat);
	struct file *file;

	if (kind == WHY_NO_FILE)
		return;
	wait->fd =
		kind == WHY_FILE_OF_FD ? (__s32)call_arg(regs, 0, wait->compat) : polled_fd(task, regs, wait->compat);
	file = file_of_fd(task, wait->fd);
	if (!file)
		return;
	fill_file(&wait->file, file);
	if (wait->file.file_type == S_IFSOCK)
		find_peer(file, wait);
}

/* What a thread waits for; `state` is the task's, or 0 if it is runnable again. */
static __always_inline void find_wait(struct task_struct *task, __u32 state, bool faults, struct why_wait *wait)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	long nr = task->flags & MAKES_NO_CALLS ? -1 : syscall_number(regs);

	__builtin_memset(wait, 0, sizeof(*wait));
	if (state & TASK_STOPPED_OR_TRACED) {
		wait->nr = WHY_IN_STOP;
	} else if (nr < 0) {
		wait->nr = faults ? WHY_IN_PAGE_FAULT : WHY_IN_KERNEL;
	} else {
		wait->nr = nr;
		wait->compat = is_compat(task);
		find_file(task, regs, wait);
	}
}

/* Memory to walk a thread's stack. Separate from `threads`, because it is larger and rarely needed. */
SCOPE_THREAD_STATE(why_stacks, struct stack_memory);

/* The user stack of a thread that leaves its CPU; 0: not kept. */
static __always_inline __u64 find_stack(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct user_frame frame = {.outer = PT_REGS_FP(regs), .return_address = PT_REGS_IP(regs)};
	struct stack_memory *memory;

	if (!task->mm || task->flags & MAKES_NO_CALLS || is_32_bit_code(regs))
		return 0;
	memory = bpf_task_storage_get(&why_stacks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!memory) {
		scope_count_incomplete(stream_why_summary);
		return 0;
	}
	return keep_stack(task, &frame, PT_REGS_SP(regs), memory, stream_why_summary);
}

#endif
