/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls that change an address space. Misses the calls of 32-bit programs, and what an exec maps. */
#ifndef SCOPE_MEMORY_MAPPINGS_BPF_H
#define SCOPE_MEMORY_MAPPINGS_BPF_H

#define MAP_ANONYMOUS 0x20 /* include/uapi/asm-generic/mman-common.h */
#define MOST_ERRORS 4095   /* MAX_ERRNO */

#if defined(__TARGET_ARCH_x86)
enum { CALL_MMAP = 9, CALL_MUNMAP = 11, CALL_BRK = 12, CALL_MREMAP = 25 };
#else
enum { CALL_BRK = 214, CALL_MUNMAP = 215, CALL_MREMAP = 216, CALL_MMAP = 222 };
#endif

static __always_inline int kind_of(long nr)
{
	return nr == CALL_MMAP	   ? MAPPING_CALL_MMAP
	       : nr == CALL_MUNMAP ? MAPPING_CALL_MUNMAP
	       : nr == CALL_BRK	   ? MAPPING_CALL_BRK
	       : nr == CALL_MREMAP ? MAPPING_CALL_MREMAP
				   : -1;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(mapping_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	int call = kind_of(nr);
	struct memory_thread *thread;

	if (call < 0 || is_compat(task) || !task->mm)
		return 0;
	thread = watched(task, stream_mapping);
	if (!thread)
		return 0;
	thread->call_args[0] = syscall_arg(regs, 0);
	thread->call_args[1] = syscall_arg(regs, 1);
	thread->call_args[2] = syscall_arg(regs, 2);
	thread->call_args[3] = syscall_arg(regs, 3);
	thread->total_pages = task->mm->total_vm;
	thread->brk = task->mm->brk;
	thread->called = call + 1;
	return 0;
}

static __always_inline void emit_mapping(struct task_struct *task, struct memory_thread *thread, __u32 call, long ret,
					 __u64 stack)
{
	bool failed = (unsigned long)ret >= -(unsigned long)MOST_ERRORS, is_map = call == MAPPING_CALL_MMAP;
	__u64 now = task->mm->total_vm;
	struct mapping_event *event = scope_reserve(task, stream_mapping, bpf_ktime_get_boot_ns(), sizeof(*event));

	if (!event)
		return;
	event->grown_bytes = (__s64)(now - thread->total_pages) << scope_page_shift;
	event->length_bytes = thread->call_args[call == MAPPING_CALL_MREMAP ? 2 : 1];
	event->address = call == MAPPING_CALL_MUNMAP || failed ? thread->call_args[0] : ret;
	event->error = failed ? ret : 0;
	if (call == MAPPING_CALL_BRK) { /* returns the end, whatever it was asked for */
		event->length_bytes = 0;
		event->error = thread->call_args[0] != ret ? -12 : 0; /* ENOMEM */
	}
	event->total_bytes = now << scope_page_shift;
	event->stack_id = stack;
	event->call = call;
	event->prot = thread->call_args[2];
	event->flags = thread->call_args[3];
	event->is_map = is_map;
	event->anonymous = is_map && thread->call_args[3] & MAP_ANONYMOUS;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_mapping, sizeof(*event));
}

SEC("tp_btf/sys_exit")
int BPF_PROG(mapping_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct user_frame frame = {.outer = PT_REGS_FP(regs), .return_address = PT_REGS_IP(regs)};
	struct memory_thread *thread;
	__u64 stack = 0;
	__u32 call;

	if (kind_of(syscall_number(regs)) < 0)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!thread || !thread->called || !task->mm)
		return 0;
	call = thread->called - 1;
	thread->called = 0;
	if (call == MAPPING_CALL_BRK && !thread->call_args[0]) /* it only asks where the end is */
		return 0;
	if (keep_stacks)
		stack = keep_stack(task, &frame, PT_REGS_SP(regs), &thread->stacks, stream_mapping);
	emit_mapping(task, thread, call, ret, stack);
	return 0;
}

#endif
