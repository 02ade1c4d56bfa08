/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls that change an address space. Misses what an exec maps. */
#ifndef SCOPE_MEMORY_MAPPINGS_BPF_H
#define SCOPE_MEMORY_MAPPINGS_BPF_H

#define MAP_ANONYMOUS 0x20 /* include/uapi/asm-generic/mman-common.h */
#define MOST_ERRORS 4095   /* MAX_ERRNO */

#if defined(__TARGET_ARCH_x86)
enum { CALL_MMAP = 9, CALL_MUNMAP = 11, CALL_BRK = 12, CALL_MREMAP = 25 };
#else
enum { CALL_BRK = 214, CALL_MUNMAP = 215, CALL_MREMAP = 216, CALL_MMAP = 222 };
#endif

/* 32-bit calls, of x86 as of ARM. */
enum {
	CALL_BRK_32 = 45,
	CALL_MMAP_32 = 90, /* its only argument is the address of six words, which are mmap's */
	CALL_MUNMAP_32 = 91,
	CALL_MREMAP_32 = 163,
	CALL_MMAP2_32 = 192,
};

static __always_inline int kind_of_32(long nr)
{
	return nr == CALL_MMAP2_32 || nr == CALL_MMAP_32 ? MAPPING_CALL_MMAP
	       : nr == CALL_MUNMAP_32			 ? MAPPING_CALL_MUNMAP
	       : nr == CALL_BRK_32			 ? MAPPING_CALL_BRK
	       : nr == CALL_MREMAP_32			 ? MAPPING_CALL_MREMAP
							 : -1;
}

static __always_inline int kind_of(long nr, bool compat)
{
	if (compat)
		return kind_of_32(nr);
	return nr == CALL_MMAP	   ? MAPPING_CALL_MMAP
	       : nr == CALL_MUNMAP ? MAPPING_CALL_MUNMAP
	       : nr == CALL_BRK	   ? MAPPING_CALL_BRK
	       : nr == CALL_MREMAP ? MAPPING_CALL_MREMAP
				   : -1;
}

static __always_inline void read_args(__u64 *args, struct pt_regs *regs, long nr, bool compat)
{
	__u32 words[4] = {};

	if (compat && nr == CALL_MMAP_32) {
		bpf_probe_read_user(words, sizeof(words), (void *)call_arg(regs, 0, compat));
		args[0] = words[0];
		args[1] = words[1];
		args[2] = words[2];
		args[3] = words[3];
		return;
	}
	args[0] = call_arg(regs, 0, compat);
	args[1] = call_arg(regs, 1, compat);
	args[2] = call_arg(regs, 2, compat);
	args[3] = call_arg(regs, 3, compat);
}

SEC("tp_btf/sys_enter")
int BPF_PROG(mapping_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool compat = is_compat(task);
	int call = kind_of(nr, compat);
	struct memory_thread *thread;

	if (call < 0 || !task->mm)
		return 0;
	thread = watched(task, stream_mapping);
	if (!thread)
		return 0;
	read_args(thread->call_args, regs, nr, compat);
	thread->total_pages = untrusted(task)->mm->total_vm;
	thread->brk = untrusted(task)->mm->brk;
	thread->called = call + 1;
	return 0;
}

static __always_inline void emit_mapping(struct task_struct *task, struct memory_thread *thread, __u32 call, long ret,
					 __u64 stack)
{
	bool failed = (unsigned long)ret >= -(unsigned long)MOST_ERRORS, is_map = call == MAPPING_CALL_MMAP;
	__u64 now = untrusted(task)->mm->total_vm;
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

	if (kind_of(syscall_number(regs), is_compat(task)) < 0)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, 0);
	if (!thread || !thread->called || !task->mm)
		return 0;
	call = thread->called - 1;
	thread->called = 0;
	if (call == MAPPING_CALL_BRK && !thread->call_args[0]) /* it only asks where the end is */
		return 0;
	if (keep_stacks && !is_32_bit_code(regs))
		stack = keep_stack(task, &frame, PT_REGS_SP(regs), &thread->stacks, stream_mapping);
	emit_mapping(task, thread, call, ret, stack);
	return 0;
}

#endif
