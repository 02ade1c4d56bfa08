/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Opens, reads and writes that io_uring does. A request has its entry's arguments once it is prepared, which its
 * submitter does, and its file and result when it completes, maybe in another thread: the state between is by request.
 */
#ifndef SCOPE_FILES_OPERATIONS_BPF_H
#define SCOPE_FILES_OPERATIONS_BPF_H

/* include/uapi/linux/io_uring.h; a request's flags begin with those of its entry. */
#define IOSQE_CQE_SKIP_SUCCESS (1U << 6)
#define OP_READV_FIXED 60
#define OP_WRITEV_FIXED 61

#define OPERATIONS 4096
#define OPERATION_PATH_BYTES 1024 /* a longer path is absent, and the row counted as incomplete */

struct file_operation {
	struct scope_identity whose;
	struct scope_process process;
	__u64 entered_ns;
	__u32 call;
	__u32 pad;
	struct open_event open;
	char path[OPERATION_PATH_BYTES]; /* goes with the event */
};

/* By address of the request. Preallocated: a program may submit thousands at once. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, OPERATIONS);
	__type(key, __u64);
	__type(value, struct file_operation);
} file_operations SEC(".maps");

static const struct file_operation no_operation;

/* Since 7.0, the kernel holds a name so until the request runs. */
struct delayed_filename___since_7_0 {
	struct filename *__incomplete_filename;
} __attribute__((preserve_access_index));

struct io_open___since_7_0 {
	struct delayed_filename___since_7_0 filename;
} __attribute__((preserve_access_index));

static __always_inline struct filename *name_of(struct io_open *open)
{
	struct io_open___since_7_0 *newer = (void *)open;

	if (bpf_core_field_exists(open->filename))
		return BPF_CORE_READ(open, filename);
	return BPF_CORE_READ(newer, filename.__incomplete_filename);
}

static __always_inline __u32 call_by_operation(__u8 operation)
{
	switch (operation) {
	case IORING_OP_OPENAT:
		return CALL_OPENAT;
	case IORING_OP_OPENAT2:
		return CALL_OPENAT2;
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
	default:
		return CALL_NOT_OURS;
	}
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
		scope_count_loss(scope_summarize ? stream_file_summary : stream_open, SCOPE_LOST_NO_STATE);
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
					 const char *name, bool of_user, bool in_root)
{
	__u32 zero = 0, length;
	struct open_record *record = bpf_map_lookup_elem(&open_records, &zero);
	bool cut = false;

	if (!record)
		return;
	length = write_absolute_path(&record->path, task, dfd, name, of_user, in_root, &cut);
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

static __always_inline void submit_operation(struct io_kiocb *request)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct file_operation *operation = begin_operation(task, request);
	struct io_open *open = (void *)request;

	if (!operation || operation->call >= CALL_READ)
		return;
	operation->open.flags = BPF_CORE_READ(open, how.flags);
	operation->open.mode = BPF_CORE_READ(open, how.mode);
	resolve_path(operation, task, BPF_CORE_READ(open, dfd), BPF_CORE_READ(name_of(open), name), false,
		     BPF_CORE_READ(open, how.resolve) & RESOLVE_IN_ROOT);
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
	struct open_how how = {};

	if (!operation || operation->call >= CALL_READ)
		return 0;
	if (operation->call == CALL_OPENAT2) {
		bpf_probe_read_user(&how, sizeof(how), (void *)BPF_CORE_READ(entry, addr2));
	} else {
		how.flags = BPF_CORE_READ(entry, open_flags);
		how.mode = BPF_CORE_READ(entry, len);
	}
	operation->open.flags = how.flags;
	operation->open.mode = how.mode;
	resolve_path(operation, task, BPF_CORE_READ(entry, fd), (const char *)BPF_CORE_READ(entry, addr), true,
		     how.resolve & RESOLVE_IN_ROOT);
	return 0;
}

static __always_inline void emit_operation(struct file_operation *operation, __s32 ret)
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

static __always_inline void summarize_operation(struct file_operation *operation, struct io_kiocb *request, __s32 ret)
{
	struct file *file = BPF_CORE_READ(request, file);
	struct file_summary_key key = {};
	struct file_summary_value *value;

	if (!file)
		return; /* EBADF, or cancelled before it had one */
	key.process = operation->process;
	fill_file(&key.file, file);
	value = file_summary_slot(&key);
	if (!value)
		return;
	if (!value->reads && !value->writes)
		emit_path_of_file((__u64)file, &key.file, stream_file_name, 0);
	count_io(value, operation->call, ret, bpf_ktime_get_boot_ns() - operation->entered_ns);
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
	if (operation->call < CALL_READ)
		emit_operation(operation, ret);
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
