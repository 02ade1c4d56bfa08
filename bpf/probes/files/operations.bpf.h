/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens, reads, writes and what else of `files` io_uring does. A request has its entry's arguments once it is prepared,
 * which its submitter does, and its file and result when it completes, maybe in another thread: the state between is by
 * request.
 */
#ifndef SCOPE_FILES_OPERATIONS_BPF_H
#define SCOPE_FILES_OPERATIONS_BPF_H

#include "registered_file.bpf.h"

/* include/uapi/linux/io_uring.h; a request's flags begin with those of its entry. */
#define IOSQE_CQE_SKIP_SUCCESS (1U << 6)
#define OP_READV_FIXED 60
#define OP_WRITEV_FIXED 61
#define SPLICE_F_FD_IN_FIXED (1U << 31) /* the source is a registered file */

#define OPERATIONS 4096
#define OPERATION_PATH_BYTES                                                                                           \
	1024 /* a longer path is absent, and the row counted as incomplete; two may have twice that */

struct file_operation {
	struct scope_identity whose;
	struct scope_process process;
	__u64 entered_ns;
	__u32 call;
	__u32 pad;
	union {
		struct {
			struct open_event open;
			char path[OPERATION_PATH_BYTES]; /* goes with the event */
		};
		struct {
			struct file_op_event op;
			char paths[2 * OPERATION_PATH_BYTES]; /* likewise, both */
		};
		struct { /* of CALL_COPY */
			struct scope_file source;
			__u64 source_address; /* of its struct file */
		};
	};
};

/* By address of the request. Preallocated: a program may submit thousands at once. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OPERATIONS);
	__type(key, __u64);
	__type(value, struct file_operation);
} file_operations SEC(".maps");

static const struct file_operation no_operation;

#include "names.bpf.h"

static __always_inline __u32 call_by_operation(__u8 operation)
{
	switch (operation) {
	case IORING_OP_OPENAT:
		return CALL_OPENAT;
	case IORING_OP_OPENAT2:
		return CALL_OPENAT2;
	case IORING_OP_STATX:
	case IORING_OP_UNLINKAT:
	case IORING_OP_MKDIRAT:
		return CALL_NAME_AT;
	case IORING_OP_RENAMEAT:
	case IORING_OP_LINKAT:
		return CALL_NAMES_AT;
	case IORING_OP_SYMLINKAT:
		return CALL_SYMLINKAT;
	case IORING_OP_FSYNC:
	case IORING_OP_SYNC_FILE_RANGE:
	case IORING_OP_FTRUNCATE:
		return CALL_FD;
	case IORING_OP_READ:
	case IORING_OP_READV:
	case IORING_OP_READ_FIXED:
	case OP_READV_FIXED:
	case IORING_OP_READ_MULTISHOT:
		return CALL_READ;
	case IORING_OP_WRITE:
	case IORING_OP_WRITEV:
	case IORING_OP_WRITE_FIXED:
	case OP_WRITEV_FIXED:
		return CALL_WRITE;
	case IORING_OP_SPLICE:
		return CALL_COPY;
	default:
		return CALL_NOT_OURS;
	}
}

static __always_inline __u16 stream_of(__u32 call)
{
	return call >= CALL_READ ? stream_file_summary : is_op(call) ? stream_file_op : stream_open;
}

/* NULL: the operation is not recorded. */
static __always_inline struct file_operation *begin_operation(struct task_struct *task, struct io_kiocb *request)
{
	__u64 key = (__u64)request;
	__u8 code = BPF_CORE_READ(request, opcode);
	__u32 call = call_by_operation(code);
	struct file_operation *operation;

	bpf_map_delete_elem(&file_operations, &key); /* of a request that had no completion */
	if (call == CALL_NOT_OURS || (call >= CALL_READ) != scope_summarize || !scope_passes(task))
		return NULL;
	if (code == IORING_OP_READ_MULTISHOT || BPF_CORE_READ(request, flags) & IOSQE_CQE_SKIP_SUCCESS) {
		scope_count_unseen(SCOPE_UNSEEN_URING_ENDS, 1);
		return NULL;
	}
	bpf_map_update_elem(&file_operations, &key, &no_operation, BPF_ANY);
	operation = bpf_map_lookup_elem(&file_operations, &key);
	if (!operation) {
		scope_count_loss(stream_of(call), SCOPE_LOST_NO_STATE);
		return NULL;
	}
	fill_identity(&operation->whose, task);
	fill_process(&operation->process, task);
	operation->call = call;
	operation->entered_ns = bpf_ktime_get_boot_ns();
	return operation;
}

/* Resolves the path now: its directories may have other names when the request completes. */
static __always_inline void resolve_path(struct file_operation *operation, struct task_struct *task, __s32 dfd,
					 const char *name, bool in_root, enum file_writer writer)
{
	__u32 number = writer, length;
	struct open_record *record = bpf_map_lookup_elem(&open_records, &number);
	bool cut = false;

	if (!record)
		return;
	length = write_absolute_path(&record->path, task, dfd, name, writer == OF_REFUSED, in_root, &cut);
	if (length > OPERATION_PATH_BYTES) {
		scope_count_incomplete(stream_open);
		return;
	}
	if (!length || bpf_probe_read_kernel(operation->path, length, record->path.bytes))
		return;
	operation->open.path.length = length;
	operation->open.path_read = 1;
	operation->open.path_truncated = cut;
}

static __always_inline void submit_open(struct file_operation *operation, struct task_struct *task,
					struct io_open *open)
{
	operation->open.flags = BPF_CORE_READ(open, how.flags);
	operation->open.mode = BPF_CORE_READ(open, how.mode);
	resolve_path(operation, task, BPF_CORE_READ(open, dfd), PREPARED_NAME(open, io_open, filename),
		     BPF_CORE_READ(open, how.resolve) & RESOLVE_IN_ROOT, OF_BEGIN);
}

/* Keeps what the record has: a path, and a second one or a target behind it. */
static __always_inline void keep_paths(enum file_writer writer, struct file_operation *operation, __u32 length,
				       __u32 second, bool cut)
{
	__u32 number = writer, size = length + second;
	struct file_op_record *record = bpf_map_lookup_elem(&file_op_records, &number);
	struct file_op_event *event = &operation->op;

	barrier_var(size); /* so that what is checked is what is used */
	if (size > sizeof(operation->paths)) {
		scope_count_incomplete(stream_file_op);
		return;
	}
	if (!record || !size || bpf_probe_read_kernel(operation->paths, size, record->paths))
		return;
	place_paths(event, operation->call, length, second);
	event->path_truncated = cut;
	event->new_path_truncated = event->new_path_read && record->cut;
}

static __always_inline bool was_cut(enum file_writer writer)
{
	__u32 number = writer;
	struct file_op_record *record = bpf_map_lookup_elem(&file_op_records, &number);
	bool cut = record && record->cut;

	if (record)
		record->cut = false;
	return cut;
}

/* Writes the paths of an operation's names. */
static __always_inline void write_paths(struct file_operation *operation, const struct op_names *names,
					enum file_writer writer)
{
	enum op_name is = writer == OF_REFUSED ? NAME_IN_USER_MEMORY : NAME_IN_KERNEL;
	__u32 length, second = 0;
	bool cut;

	was_cut(writer);
	length = write_op_path(writer, names->fd, names->name, is, 0);
	cut = was_cut(writer);
	if (has_new_path(operation->call))
		second = write_op_path(writer, names->new_fd, names->second, is, length);
	else if (has_target(operation->call))
		second = write_op_target(writer, names->second, is, length);
	keep_paths(writer, operation, length, second, cut);
}

/* Notes the file that a splice reads. */
static __always_inline void note_source(struct file_operation *operation, struct task_struct *task,
					struct io_splice *splice)
{
	__s32 fd = BPF_CORE_READ(splice, splice_fd_in);
	struct file *file;

	if (BPF_CORE_READ(splice, flags) & SPLICE_F_FD_IN_FIXED)
		file = registered_file((void *)splice, fd);
	else
		file = file_of_fd(task, fd);
	if (!file)
		return; /* EBADF */
	fill_file(&operation->source, file);
	operation->source_address = (__u64)file;
}

static __always_inline void submit_operation(struct io_kiocb *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file_operation *operation = begin_operation(task, request);
	struct op_names names = {};

	if (operation && operation->call == CALL_COPY)
		note_source(operation, task, (void *)request);
	if (!operation || operation->call >= CALL_READ)
		return;
	if (!is_op(operation->call)) {
		submit_open(operation, task, (void *)request);
		return;
	}
	operation->op.operation = read_prepared(request, &names);
	if (operation->call != CALL_FD)
		write_paths(operation, &names, OF_BEGIN);
}

SEC("tp_btf/io_uring_submit_req")
int BPF_PROG(file_operation_begin, struct io_kiocb *request)
{
	submit_operation(request);
	return 0;
}

/* Its name before 6.5. */
SEC("tp_btf/io_uring_submit_sqe")
int BPF_PROG(file_operation_begin_sqe, struct io_kiocb *request)
{
	submit_operation(request);
	return 0;
}

/* The kernel could not prepare the request, for instance because the name is unreadable: it was not submitted. */
SEC("tp_btf/io_uring_req_failed")
int BPF_PROG(file_operation_refused, const struct io_uring_sqe *entry, struct io_kiocb *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file_operation *operation = begin_operation(task, request);
	struct op_names names = {};
	struct open_how how = {};

	if (!operation || operation->call >= CALL_READ)
		return 0;
	if (is_op(operation->call)) {
		operation->op.operation = read_entry(entry, &names);
		if (operation->call != CALL_FD)
			write_paths(operation, &names, OF_REFUSED);
		return 0;
	}
	if (operation->call == CALL_OPENAT2) {
		bpf_probe_read_user(&how, sizeof(how), (void *)BPF_CORE_READ(entry, addr2));
	} else {
		how.flags = BPF_CORE_READ(entry, open_flags);
		how.mode = BPF_CORE_READ(entry, len);
	}
	operation->open.flags = how.flags;
	operation->open.mode = how.mode;
	resolve_path(operation, task, BPF_CORE_READ(entry, fd), (const char *)BPF_CORE_READ(entry, addr),
		     how.resolve & RESOLVE_IN_ROOT, OF_REFUSED);
	return 0;
}

static __always_inline void emit_open_of_ring(struct file_operation *operation, __s32 ret)
{
	struct open_event *event = &operation->open;
	__u32 length = event->path.length;

	if (length > OPERATION_PATH_BYTES)
		return;
	event->ret = ret;
	event->io_uring = 1;
	event->duration_ns = bpf_ktime_get_boot_ns() - operation->entered_ns;
	scope_output_for(&event->header, &operation->whose, stream_open, operation->entered_ns,
			 sizeof(*event) + length);
}

static __always_inline void emit_op_of_ring(struct file_operation *operation, struct io_kiocb *request, __s32 ret)
{
	struct file *file = BPF_CORE_READ(request, file);
	struct file_op_event *event = &operation->op;
	__u32 size;

	if (operation->call == CALL_FD && file) { /* else it is EBADF, or cancelled before it had a file */
		was_cut(OF_END);
		size = write_op_path_of_file(OF_END, (__u64)file);
		keep_paths(OF_END, operation, size, 0, was_cut(OF_END));
	}
	size = event->path.length + event->new_path.length + event->target.length;
	barrier_var(size);
	if (size > sizeof(operation->paths))
		return;
	event->ret = ret;
	event->io_uring = 1;
	event->duration_ns = bpf_ktime_get_boot_ns() - operation->entered_ns;
	scope_output_for(&event->header, &operation->whose, stream_file_op, operation->entered_ns,
			 sizeof(*event) + size);
}

static __always_inline void summarize_operation(struct file_operation *operation, struct io_kiocb *request, __s32 ret)
{
	__u64 duration_ns = bpf_ktime_get_boot_ns() - operation->entered_ns;
	struct file *file = BPF_CORE_READ(request, file);
	struct file_summary_key key = {};

	if (!file)
		return; /* EBADF, or cancelled before it had one */
	key.process = operation->process;
	fill_file(&key.file, file);
	summarize_file(&key, (__u64)file, -1, operation->call == CALL_READ, ret, duration_ns, OF_END);
	if (operation->call != CALL_COPY || !operation->source.inode)
		return;
	key.file = operation->source;
	summarize_file(&key, operation->source_address, -1, true, ret, duration_ns, OF_END);
}

/* The result is read from the request: the tracepoint's other arguments differ between kernels. */
SEC("tp_btf/io_uring_complete")
int BPF_PROG(file_operation_end, void *ring, struct io_kiocb *request)
{
	__u64 key = (__u64)request;
	struct file_operation *operation = bpf_map_lookup_elem(&file_operations, &key);
	__s32 ret;

	if (!operation)
		return 0;
	ret = BPF_CORE_READ(request, cqe.res);
	if (is_op(operation->call))
		emit_op_of_ring(operation, request, ret);
	else if (operation->call < CALL_READ)
		emit_open_of_ring(operation, ret);
	else
		summarize_operation(operation, request, ret);
	bpf_map_delete_elem(&file_operations, &key);
	return 0;
}

/* The ring of completions was full. Nothing says which request this one is of. */
SEC("tp_btf/io_uring_cqe_overflow")
int BPF_PROG(file_operation_overflow)
{
	if (scope_passes(bpf_get_current_task_btf()))
		scope_count_unseen(SCOPE_UNSEEN_URING_ENDS, 1);
	return 0;
}

#endif
