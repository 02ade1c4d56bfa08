/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * What a blocked thread waits for. Found when it has left its CPU, from the registers with which it entered the kernel:
 * they keep the number of its call and the arguments until it leaves, and -1 in a page fault or an interrupt. So a
 * syscall that does not block costs nothing.
 */
#ifndef SCOPE_WAITS_BPF_H
#define SCOPE_WAITS_BPF_H

/* What says which file a call waits at, by the architecture's numbers; given at load. */
enum why_file {
	WHY_NO_FILE,
	WHY_FILE_OF_FD,	 /* the first argument is a descriptor */
	WHY_FILE_POLLED, /* the first argument is an array of struct pollfd, the second its length */
};

SCOPE_SHARED(enum, why_file);
SCOPE_SHARED(enum, why_blocked);

#define SYSCALLS 1024
#define S_IFMT 0170000

const volatile __u8 files_of_calls[SYSCALLS];
const volatile bool keep_stacks;

/* include/linux/sched.h */
#define TASK_STOPPED_OR_TRACED 0x0c
#define PF_IO_WORKER 0x10 /* these two are threads of a process that never leave the kernel, nor enter it by a call */
#define PF_USER_WORKER 0x4000

struct why_wait {
	__u64 inode; /* of the file; 0: none */
	__u32 device;
	__u32 file_type;
	__u64 stack_id;
	__s32 nr; /* of the call, or an enum why_blocked */
	__s32 fd;
	__u32 compat;
	__u32 pad;
};

struct blocked_file_record {
	struct blocked_file_event event;
	struct path_buffer path;
};

/* The iterator may be interrupted by the others, which run with interrupts off. */
enum why_buffer {
	WHY_BUFFER_SWITCH,
	WHY_BUFFER_ITERATOR,
	WHY_BUFFERS,
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, WHY_BUFFERS);
	__type(key, __u32);
	__type(value, struct blocked_file_record);
} blocked_file_records SEC(".maps");

/*
 * Of several descriptors it is not known which one ends the wait. Only the running thread's memory can be read, and
 * only if it is there.
 */
static __always_inline __s32 polled_fd(struct task_struct *task, struct pt_regs *regs)
{
	__s32 fd = -1;

	if (task == bpf_get_current_task_btf() && syscall_arg(regs, 1) == 1)
		bpf_probe_read_user(&fd, sizeof(fd), (void *)syscall_arg(regs, 0));
	return fd;
}

static __always_inline void find_file(struct task_struct *task, struct pt_regs *regs, struct why_wait *wait)
{
	__u32 kind = (__u32)wait->nr < SYSCALLS ? files_of_calls[wait->nr & (SYSCALLS - 1)] : WHY_NO_FILE;
	struct inode *inode;
	struct file *file;

	if (kind == WHY_NO_FILE || wait->compat)
		return;
	wait->fd = kind == WHY_FILE_OF_FD ? (__s32)syscall_arg(regs, 0) : polled_fd(task, regs);
	file = file_of_fd(task, wait->fd);
	if (!file)
		return;
	inode = BPF_CORE_READ(file, f_inode);
	wait->inode = BPF_CORE_READ(inode, i_ino);
	wait->device = BPF_CORE_READ(inode, i_sb, s_dev);
	wait->file_type = BPF_CORE_READ(inode, i_mode) & S_IFMT;
}

/* Of a thread that can not go on; `state` is the task's, while it has that still. */
static __always_inline void find_wait(struct task_struct *task, __u32 state, bool faults, struct why_wait *wait)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	long nr = task->flags & (PF_IO_WORKER | PF_USER_WORKER) ? -1 : syscall_number(regs);

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

/* Apart from what else is kept of a thread, since it takes more room than that. */
struct {
	__uint(type, BPF_MAP_TYPE_TASK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct stack_memory);
} why_stacks SEC(".maps");

/* Where in user space a thread that leaves its CPU had entered the kernel; 0: not kept. */
static __always_inline __u64 find_stack(struct task_struct *task)
{
	struct pt_regs *regs = (struct pt_regs *)bpf_task_pt_regs(task);
	struct user_frame frame = {.outer = PT_REGS_FP(regs), .return_address = PT_REGS_IP(regs)};
	struct stack_memory *memory;

	if (!task->mm || task->flags & (PF_IO_WORKER | PF_USER_WORKER))
		return 0;
	memory = bpf_task_storage_get(&why_stacks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!memory) {
		scope_count_incomplete(stream_why_summary);
		return 0;
	}
	return keep_stack(task, &frame, PT_REGS_SP(regs), memory, stream_why_summary);
}

/* Another file may be in the descriptor's place by now. */
static __always_inline bool is_still_there(const struct path *path, const struct why_wait *wait)
{
	struct inode *inode = BPF_CORE_READ(container_of(path, struct file, f_path), f_inode);

	return BPF_CORE_READ(inode, i_ino) == wait->inode && BPF_CORE_READ(inode, i_sb, s_dev) == wait->device;
}

/* Tells the path of the file that a thread waits at. Global, so that the verifier goes its many ways once. */
__noinline int emit_blocked_file(__u64 thread, const struct why_wait *wait, __u32 buffer)
{
	struct blocked_file_record *record = bpf_map_lookup_elem(&blocked_file_records, &buffer);
	struct task_struct *task = (void *)thread;
	const struct path *path;
	bool cut = false;
	__u32 length;

	if (!wait || !record)
		return 0;
	path = directory_of_fd(task, wait->fd);
	if (!path || !has_path(path) || !is_still_there(path, wait))
		return 0;
	length = write_directories(&record->path, path, &cut);
	if (length > PATH_BYTES + 1)
		return 0;
	record->event.inode = wait->inode;
	record->event.device = wait->device;
	record->event.path.offset = 0;
	record->event.path.length = length;
	record->event.path_truncated = cut;
	record->event.pad[0] = record->event.pad[1] = record->event.pad[2] = 0;
	scope_output(&record->event.header, bpf_get_current_task_btf(), stream_blocked_file, bpf_ktime_get_boot_ns(),
		     sizeof(record->event) + length);
	return 0;
}

#endif
