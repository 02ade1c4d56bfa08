/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "path.bpf.h"

#include "process.h"

#define SIGNAL_GROUP_EXIT 0x4 /* include/linux/sched/signal.h */
#define PF_FORKNOEXEC 0x40    /* include/linux/sched.h: forked, no exec yet */

SCOPE_STREAM(exec);
SCOPE_STREAM(fork);
SCOPE_STREAM(exit);

const volatile __u32 page_size = 4096; /* set at load, like the next ones */
const volatile __s32 nr_execve = -1;
const volatile __s32 nr_execveat = -1;

#define ARGS_BYTES 12288 /* of all arguments, including NULs */
#define ARGS_SINGLY 512	 /* maximum number of arguments of a failed exec; they are read one by one */
#define ARG_SINGLY_BYTES 4096
/* A per-CPU value can have at most 32 KiB. */
#define TAIL_BYTES (2 * PATH_BYTES + NAME_BYTES + ARGS_BYTES + ARG_SINGLY_BYTES)

/* Whose record on a CPU: programs may interrupt each other, so each has its own. */
enum exec_writer {
	OF_DONE,
	OF_EXECVE,
	OF_EXECVEAT,
};

#define EXEC_WRITERS 3

/* An event being composed. Its tail: the working directory, then the filename, then the arguments. */
struct exec_record {
	struct exec_event event;
	union {
		struct path_buffer cwd;
		char tail[TAIL_BYTES];
	};
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, EXEC_WRITERS);
	__type(key, __u32);
	__type(value, struct exec_record);
} exec_records SEC(".maps");

/* The arguments of an exec that may fail, in the memory of its process; and data about the process. */
struct exec_thread {
	struct scope_thread thread;
	const char *filename; /* NULL: not in a watched call */
	const char *const *argv;
	__u64 released_ns; /* main thread: when a held command was released; 0: not a held command */
	__u32 ended;	   /* main thread: the process's exit was emitted */
};

SCOPE_THREADS(struct exec_thread);

/* Fills an event, except filename, arguments and result. Returns the size of the tail so far. */
static __always_inline __u32 begin_exec(struct exec_record *record, struct task_struct *task)
{
	struct exec_event *event = &record->event;
	struct fs_struct *fs = BPF_CORE_READ(task, fs);
	bool cut = false;
	__u32 end;

	end = write_directories(&record->cwd, &fs->pwd, &cut);
	event->cwd.offset = 0;
	event->cwd.length = end;
	event->cwd_truncated = cut;
	event->ppid = untrusted(task)->real_parent->tgid;
	event->args_truncated = event->args_read = event->filename_read = 0;
	event->pad[0] = event->pad[1] = event->pad[2] = event->pad[3] = 0;
	return end;
}

static __always_inline __u32 end_filename(struct exec_record *record, __u32 at, long length)
{
	record->event.filename.offset = at;
	record->event.filename.length = 0;
	if (length <= 0 || length > PATH_BYTES)
		return at;
	record->event.filename.length = length - 1;
	record->event.filename_read = 1;
	return at + length;
}

static __always_inline void emit_exec(struct exec_record *record, struct task_struct *task, __u32 end)
{
	record->event.args.length = end - record->event.args.offset;
	if (end <= TAIL_BYTES)
		scope_output(&record->event.header, task, stream_exec, bpf_ktime_get_boot_ns(),
			     sizeof(record->event) + end);
}

/*
 * A successful exec, in the new program before its first instruction. The arguments are those of the new program, as in
 * /proc/PID/cmdline: one block of memory, read at once.
 */
SEC("tp_btf/sched_process_exec")
int BPF_PROG(exec_done, struct task_struct *task, pid_t old_pid, struct linux_binprm *bprm)
{
	__u32 writer = OF_DONE, at, length;
	struct exec_record *record = bpf_map_lookup_elem(&exec_records, &writer);
	unsigned long start = untrusted(task)->mm->arg_start, end = untrusted(task)->mm->arg_end;

	if (!record || !scope_passes(task))
		return 0;
	at = begin_exec(record, task);
	if (!at || at > PATH_BYTES + 1)
		return 0;
	at = end_filename(record, at, bpf_probe_read_kernel_str(record->tail + at, PATH_BYTES, bprm->filename));
	if (at > 2 * PATH_BYTES + 1)
		return 0;
	record->event.ret = 0;
	record->event.args.offset = at;
	record->event.args_truncated = end - start > ARGS_BYTES;
	length = end - start > ARGS_BYTES ? ARGS_BYTES : end - start;
	if (length && length <= ARGS_BYTES && !bpf_probe_read_user(record->tail + at, length, (void *)start)) {
		record->event.args_read = 1;
		at += length;
	}
	emit_exec(record, task, at);
	return 0;
}

/* Is this a command that its parent, the tracer, has held? The tracer and its other children are excluded. */
static __always_inline bool is_held(struct task_struct *task)
{
	__s32 parent = untrusted(task)->real_parent->tgid;
	__u32 *mark = bpf_map_lookup_elem(&scope_pids, &parent);

	return task->flags & PF_FORKNOEXEC && mark && *mark == SCOPE_EXCLUDED;
}

static __always_inline int exec_enter(const char *filename, const char *const *argv)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct exec_thread *call = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);

	if (!call) {
		if (scope_passes(task))
			scope_count_loss(stream_exec, SCOPE_LOST_NO_STATE);
		return 0;
	}
	call->filename = scope_thread_passes(task, &call->thread) ? filename : NULL;
	call->argv = argv;
	if (call->filename && is_held(task))
		call->released_ns = bpf_ktime_get_boot_ns();
	return 0;
}

/*
 * Reads the arguments of a failed exec through pointers in user memory. Returns their end. A global function: the
 * verifier then follows its loop once, not once for each way that leads to it.
 */
__noinline __u32 read_args_singly(enum exec_writer writer, __u32 at, __u64 argv)
{
	__u32 first = at, number = writer;
	struct exec_record *record = bpf_map_lookup_elem(&exec_records, &number);
	int i;

	if (!record)
		return at;
	for (i = 0; i < ARGS_SINGLY; i++) {
		const char *arg = NULL;
		long length;

		if (bpf_probe_read_user(&arg, sizeof(arg), (const char *const *)argv + i)) {
			record->event.args_read = i > 0;
			break;
		}
		record->event.args_read = 1;
		if (!arg)
			return at;
		if (at > 2 * PATH_BYTES + ARGS_BYTES)
			break;
		length = read_user_string(record->tail + at, ARG_SINGLY_BYTES, arg);
		if (length <= 0 || length > ARG_SINGLY_BYTES)
			break;
		at += length;
		if (length == ARG_SINGLY_BYTES || at - first > ARGS_BYTES)
			break;
	}
	record->event.args_truncated = 1;
	return at;
}

static __always_inline int exec_exit(enum exec_writer writer, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct exec_thread *call = bpf_task_storage_get(&threads, task, 0, 0);
	struct exec_record *record;
	const char *filename;
	__u32 number = writer, at;

	if (!call || !call->filename)
		return 0;
	filename = call->filename;
	call->filename = NULL;
	record = bpf_map_lookup_elem(&exec_records, &number);
	if (ret >= 0 || !record)
		return 0; /* exec_done has emitted it */
	at = begin_exec(record, task);
	if (!at || at > PATH_BYTES + 1)
		return 0;
	at = end_filename(record, at, read_user_string(record->tail + at, PATH_BYTES, filename));
	if (at > 2 * PATH_BYTES + 1)
		return 0;
	record->event.ret = ret;
	record->event.args.offset = at;
	emit_exec(record, task, read_args_singly(writer, at, (__u64)call->argv));
	return 0;
}

/*
 * Failed execs are only visible in the calls themselves. These tracepoints run only for execs, unlike sys_enter. They
 * miss 32-bit processes, whose calls have no tracepoints.
 */
SEC("tracepoint/syscalls/sys_enter_execve")
int execve_enter(struct trace_event_raw_sys_enter *call)
{
	return exec_enter((const char *)call->args[0], (const char *const *)call->args[1]);
}

SEC("tracepoint/syscalls/sys_exit_execve")
int execve_exit(struct trace_event_raw_sys_exit *call)
{
	return exec_exit(OF_EXECVE, call->ret);
}

SEC("tracepoint/syscalls/sys_enter_execveat")
int execveat_enter(struct trace_event_raw_sys_enter *call)
{
	return exec_enter((const char *)call->args[1], (const char *const *)call->args[2]);
}

SEC("tracepoint/syscalls/sys_exit_execveat")
int execveat_exit(struct trace_event_raw_sys_exit *call)
{
	return exec_exit(OF_EXECVEAT, call->ret);
}

/* The same with raw tracepoints, which need no tracefs but run for every call. */
SEC("tp_btf/sys_enter")
int BPF_PROG(any_call_enter, struct pt_regs *regs, long nr)
{
	if ((nr != nr_execve && nr != nr_execveat) || is_compat(bpf_get_current_task_btf()))
		return 0;
	if (nr == nr_execve)
		return exec_enter((void *)syscall_arg(regs, 0), (void *)syscall_arg(regs, 1));
	return exec_enter((void *)syscall_arg(regs, 1), (void *)syscall_arg(regs, 2));
}

SEC("tp_btf/sys_exit")
int BPF_PROG(any_call_exit, struct pt_regs *regs, long ret)
{
	long nr = syscall_number(regs);

	return nr == nr_execve || nr == nr_execveat ? exec_exit(OF_EXECVE, ret) : 0;
}

/* In the parent, when the child is complete but has not run yet: its times and ids can be read. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(fork_done, struct task_struct *parent, struct task_struct *child)
{
	struct fork_event *event;

	if (!scope_passes(parent))
		return 0;
	event = scope_reserve(parent, stream_fork, bpf_ktime_get_boot_ns(), sizeof(*event));
	if (!event)
		return 0;
	event->child_start_ns = task_start_ns(child);
	event->child_pid = child->tgid;
	event->child_tid = child->pid;
	scope_submit(event, stream_fork, sizeof(*event));
	return 0;
}

/* total * numerator / denominator; exact up to 2^32 for each, above that to the microsecond. */
static __always_inline __u64 share(__u64 total, __u64 numerator, __u64 denominator)
{
	if (!denominator)
		return 0;
	if (total > 0xffffffff || numerator > 0xffffffff) {
		total /= 1000;
		return total * (numerator / 1000) / (denominator / 1000 ?: 1) * 1000;
	}
	return total * numerator / denominator;
}

#define THREADS_SUMMED 256 /* threads that are still exiting when the last one ends */

/*
 * User and system time of the process, as reported by wait4(): the exact run time, divided in proportion to the ticks
 * (cputime_adjust() in kernel/sched/cputime.c). The process has the times of released threads; threads not released
 * yet, such as the last one and perhaps the main one, still have their own.
 */
static __always_inline void fill_cpu_time(struct exit_event *event, struct task_struct *task)
{
	struct signal_struct *signal = untrusted(task)->signal;
	__u64 user = signal->utime, system = signal->stime, total = signal->sum_sched_runtime;
	struct list_head *head = &signal->thread_head, *at = signal->thread_head.next;
	int i;

	for (i = 0; i < THREADS_SUMMED && at != head; i++) {
		struct task_struct *thread = container_of(at, struct task_struct, thread_node);

		user += BPF_CORE_READ(thread, utime);
		system += BPF_CORE_READ(thread, stime);
		total += BPF_CORE_READ(thread, se.sum_exec_runtime);
		at = BPF_CORE_READ(at, next);
	}
	event->system_ns = user ? share(total, system, user + system) : system ? total : 0;
	event->user_ns = total - event->system_ns;
}

static __always_inline void fill_usage(struct exit_event *event, struct task_struct *task)
{
	struct signal_struct *signal = untrusted(task)->signal;

	fill_cpu_time(event, task);
	event->peak_rss_bytes = signal->maxrss * page_size;
	event->read_bytes = signal->ioac.read_bytes + task->ioac.read_bytes;
	event->write_bytes = signal->ioac.write_bytes + task->ioac.write_bytes;
}

/* If several threads seem to be the last one, the first is used; see is_last_thread(). */
static __always_inline bool is_first_exit(struct task_struct *task)
{
	struct exec_thread *leader;

	if (last_thread_is_told())
		return true;
	leader = scope_other_thread(&threads, task->group_leader);
	return !leader || !__sync_lock_test_and_set(&leader->ended, 1);
}

/*
 * The exit of a process's last thread. By then the kernel has set the exit code, but not released the data read here.
 * It has just stored the peak memory use in the signal struct.
 */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(exit_done, struct task_struct *task)
{
	__u64 now_ns = bpf_ktime_get_boot_ns();
	struct signal_struct *signal = untrusted(task)->signal;
	struct exec_thread *leader;
	struct exit_event *event;
	__u32 code;

	if (!is_last_thread(ctx, task) || !scope_passes(task) || !is_first_exit(task))
		return 0;
	event = scope_reserve(task->group_leader, stream_exit, now_ns, sizeof(*event)); /* comm is the process's name */
	if (!event)
		return 0;
	code = signal->flags & SIGNAL_GROUP_EXIT ? signal->group_exit_code : task->exit_code;
	leader = bpf_task_storage_get(&threads, task->group_leader, 0, 0);
	event->lifetime_ns = now_ns - (leader && leader->released_ns ? leader->released_ns : task_start_ns(task));
	event->ppid = untrusted(task)->real_parent->tgid;
	event->exit_code = code >> 8 & 0xff;
	event->signal = code & 0x7f;
	event->core_dumped = code >> 7 & 1;
	event->pad[0] = event->pad[1] = event->pad[2] = 0;
	fill_usage(event, task);
	scope_submit(event, stream_exit, sizeof(*event));
	return 0;
}
