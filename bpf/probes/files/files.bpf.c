/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

/* Whose records on a CPU: programs may interrupt each other, so each has its own. */
enum file_writer {
	OF_CALL,
	OF_BEGIN,
	OF_REFUSED,
	OF_END,
};

#define FILE_WRITERS 4
#define FILE_PATH_BUFFERS FILE_WRITERS

#include "file.bpf.h"
#include "unseen.bpf.h"

#include "files.h"

SCOPE_STREAM(open);
SCOPE_STREAM(file_op);
SCOPE_STREAM(file_name);
SCOPE_SUMMARY(file_summary)

/* The kinds of calls by their arguments, by the architecture's call numbers; set at load. */
enum file_call {
	CALL_NOT_OURS,
	CALL_AIO,     /* only counted: what it submits is not recorded */
	CALL_OPEN,    /* (name, flags, mode) */
	CALL_CREAT,   /* (name, mode) */
	CALL_OPENAT,  /* (dfd, name, flags, mode) */
	CALL_OPENAT2, /* (dfd, name, how) */
	/* The calls of file_op. */
	CALL_NAME,	/* (name, ...) */
	CALL_NAME_AT,	/* (dfd, name, ...) */
	CALL_NAMES,	/* (name, new name) */
	CALL_NAMES_AT,	/* (dfd, name, new dfd, new name, ...) */
	CALL_SYMLINK,	/* (target, name) */
	CALL_SYMLINKAT, /* (target, dfd, name) */
	CALL_FD,	/* (fd, ...) */
	/* The calls of file_summary. */
	CALL_READ,  /* (fd, ...) */
	CALL_WRITE, /* (fd, ...) */
	/* These read one file and write another. */
	CALL_COPY,     /* (source fd, offset, fd, ...) */
	CALL_SENDFILE, /* (fd, source fd, ...) */
};

SCOPE_SHARED(enum, file_call);

#define CREAT_FLAGS 01101 /* O_CREAT | O_WRONLY | O_TRUNC, include/uapi/asm-generic/fcntl.h */

const volatile __u8 file_calls[SYSCALLS];
const volatile __u8 file_calls_32[SYSCALLS]; /* of 32-bit calls */

/* enum file_op_kind by call number. */
const volatile __u8 file_ops[SYSCALLS];
const volatile __u8 file_ops_32[SYSCALLS];

struct file_thread {
	struct scope_thread thread;
	__u64 entered_ns;	  /* 0: not in a watched call */
	__u64 resolve;		  /* of CALL_OPENAT2 */
	struct scope_file file;	  /* of CALL_FD and the calls of file_summary */
	struct scope_file source; /* of CALL_COPY and CALL_SENDFILE */
	const char *name;
	const char *second; /* the new name or target */
	__s32 fd;	    /* dfd, or that of `file` */
	__s32 new_fd;
	__s32 source_fd;
	__u32 flags;
	__u32 mode;
	__u32 call;
	__u32 op; /* enum file_op_kind */
	__u32 pad;
};

SCOPE_THREADS(struct file_thread);

struct open_record {
	struct open_event event;
	struct path_buffer path;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FILE_WRITERS);
	__type(key, __u32);
	__type(value, struct open_record);
} open_records SEC(".maps");

static __always_inline void enter_open(struct file_thread *call, const __u64 *args)
{
	struct open_how how = {};
	bool at = call->call == CALL_OPENAT || call->call == CALL_OPENAT2;

	call->fd = at ? (__s32)args[0] : AT_FDCWD;
	call->name = (const char *)args[at];
	call->resolve = 0;
	if (call->call == CALL_OPENAT2) {
		bpf_probe_read_user(&how, sizeof(how), (void *)args[2]);
		call->flags = how.flags;
		call->mode = how.mode;
		call->resolve = how.resolve;
	} else if (call->call == CALL_CREAT) {
		call->flags = CREAT_FLAGS;
		call->mode = args[1];
	} else {
		call->flags = args[1 + at];
		call->mode = args[2 + at];
	}
}

static __always_inline bool copies(__u32 call)
{
	return call >= CALL_COPY;
}

/* False: there is no file, and the call fails with EBADF. */
static __always_inline bool fill_file_of_fd(struct scope_file *to, struct task_struct *task, __s32 fd)
{
	struct file *file = file_of_fd(task, fd);

	if (!file)
		return false;
	fill_file(to, file);
	return true;
}

static __always_inline bool enter_io(struct task_struct *task, struct file_thread *call, const __u64 *args)
{
	call->fd = call->call == CALL_COPY ? args[2] : args[0];
	call->source_fd = call->call == CALL_SENDFILE ? args[1] : args[0];
	if (copies(call->call) && !fill_file_of_fd(&call->source, task, call->source_fd))
		return false;
	return fill_file_of_fd(&call->file, task, call->fd);
}

static __always_inline void emit_open(struct task_struct *task, struct file_thread *call, __s64 ret)
{
	__u32 writer = OF_CALL, length;
	struct open_record *record = bpf_map_lookup_elem(&open_records, &writer);
	struct open_event *event;
	bool cut = false;

	if (!record)
		return;
	event = &record->event;
	event->duration_ns = bpf_ktime_get_boot_ns() - call->entered_ns;
	event->flags = call->flags;
	event->mode = call->mode;
	event->ret = ret;
	length = write_absolute_path(&record->path, task, call->fd, call->name, true, call->resolve & RESOLVE_IN_ROOT,
				     &cut);
	if (length > 2 * PATH_BYTES)
		length = 0;
	event->path.offset = 0;
	event->path.length = length;
	event->path_read = length > 0;
	event->path_truncated = cut;
	event->io_uring = event->pad = 0;
	scope_output(&event->header, task, stream_open, call->entered_ns, sizeof(*event) + length);
}

static __always_inline void count_io(struct file_summary_value *value, bool reads, __s64 ret, __u64 duration_ns)
{
	if (reads) {
		__sync_fetch_and_add(&value->reads, 1);
		__sync_fetch_and_add(ret < 0 ? &value->read_errors : &value->read_bytes, ret < 0 ? 1 : ret);
		__sync_fetch_and_add(&value->read_ns, duration_ns);
		scope_histogram_add(&value->read_latency, duration_ns);
	} else {
		__sync_fetch_and_add(&value->writes, 1);
		__sync_fetch_and_add(ret < 0 ? &value->write_errors : &value->write_bytes, ret < 0 ? 1 : ret);
		__sync_fetch_and_add(&value->write_ns, duration_ns);
		scope_histogram_add(&value->write_latency, duration_ns);
	}
}

/* The file is a struct file's address or, if that is 0, the running task's fd. */
static __always_inline void summarize_file(struct file_summary_key *key, __u64 file, __s32 fd, bool reads, __s64 ret,
					   __u64 duration_ns, enum file_writer writer)
{
	struct file_summary_value *value = file_summary_slot(key);

	if (!value)
		return;
	if (!value->reads && !value->writes) {
		if (!file)
			file = (__u64)file_of_fd(bpf_get_current_task_btf(), fd);
		emit_path_of_file(file, &key->file, stream_file_name, writer);
	}
	count_io(value, reads, ret, duration_ns);
}

static __always_inline void summarize_io(struct task_struct *task, struct file_thread *call, __s64 ret)
{
	__u64 duration_ns = bpf_ktime_get_boot_ns() - call->entered_ns;
	struct file_summary_key key = {.file = call->file};

	fill_process(&key.process, task);
	summarize_file(&key, 0, call->fd, call->call == CALL_READ, ret, duration_ns, OF_CALL);
	if (!copies(call->call))
		return;
	key.file = call->source;
	summarize_file(&key, 0, call->source_fd, true, ret, duration_ns, OF_CALL);
}

static __always_inline bool is_op(__u32 kind)
{
	return kind > CALL_OPENAT2 && kind < CALL_READ;
}

#include "ops.bpf.h"

#include "operations.bpf.h"

static __always_inline __u32 call_by_number(unsigned long nr, bool compat)
{
	if (nr >= SYSCALLS)
		return CALL_NOT_OURS;
	return compat ? file_calls_32[nr & (SYSCALLS - 1)] : file_calls[nr & (SYSCALLS - 1)];
}

static __always_inline __u32 op_by_number(unsigned long nr, bool compat)
{
	return compat ? file_ops_32[nr & (SYSCALLS - 1)] : file_ops[nr & (SYSCALLS - 1)];
}

/* struct open_how has no pointers and the offsets are not read, so arguments mean the same in a 32-bit call. */
static __always_inline void read_args(__u64 *args, struct pt_regs *regs, bool compat)
{
	args[0] = call_arg(regs, 0, compat);
	args[1] = call_arg(regs, 1, compat);
	args[2] = call_arg(regs, 2, compat);
	args[3] = call_arg(regs, 3, compat);
}

/*
 * The raw tracepoints see all calls, independent of inlining in the kernel, and cost other calls one table lookup. They
 * miss files that the kernel opens for exec.
 */
SEC("tp_btf/sys_enter")
int BPF_PROG(file_enter, struct pt_regs *regs, long nr)
{
	struct task_struct *task = bpf_get_current_task_btf();
	bool compat = is_compat(task);
	__u32 kind = call_by_number(nr, compat);
	struct file_thread *call;
	__u64 args[4];

	if (kind <= CALL_AIO || (kind >= CALL_READ) != scope_summarize)
		return 0;
	call = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!call) {
		if (scope_passes(task))
			scope_count_loss(scope_summarize ? stream_file_summary
					 : is_op(kind)	 ? stream_file_op
							 : stream_open,
					 SCOPE_LOST_NO_STATE);
		return 0;
	}
	if (!scope_thread_passes(task, &call->thread))
		return 0;
	call->call = kind;
	read_args(args, regs, compat);
	if (is_op(kind))
		enter_op(task, call, op_by_number(nr, compat), args);
	else if (kind < CALL_READ)
		enter_open(call, args);
	else if (!enter_io(task, call, args))
		return 0;
	call->entered_ns = bpf_ktime_get_boot_ns();
	return 0;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(file_exit, struct pt_regs *regs, long ret)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 kind = call_by_number(syscall_number(regs), is_compat(task));
	struct file_thread *call;

	if (kind == CALL_AIO && ret > 0 && scope_passes(task))
		scope_count_unseen(SCOPE_UNSEEN_AIO, ret);
	if (kind <= CALL_AIO)
		return 0;
	call = bpf_task_storage_get(&threads, task, 0, 0);
	if (!call || !call->entered_ns)
		return 0;
	if (is_op(call->call))
		emit_op(task, call, ret);
	else if (call->call < CALL_READ)
		emit_open(task, call, ret);
	else
		summarize_io(task, call, ret);
	call->entered_ns = 0;
	return 0;
}

/* For kernels on which io_uring's operations are not recorded. */
SEC("tp_btf/sys_exit")
int BPF_PROG(file_submissions, struct pt_regs *regs, long ret)
{
	scope_count_submissions(bpf_get_current_task_btf(), regs, ret);
	return 0;
}
