/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Calls about names and files that neither open, read nor write: stat, rename, fsync and so on. */
#ifndef SCOPE_FILES_OPS_BPF_H
#define SCOPE_FILES_OPS_BPF_H

#define AT_REMOVEDIR 0x200 /* include/uapi/linux/fcntl.h */

struct file_op_record {
	struct file_op_event event;
	char paths[4 * PATH_BYTES]; /* goes with the event: both paths, or path and target */
	struct path_buffer path;
	bool cut;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FILE_WRITERS);
	__type(key, __u32);
	__type(value, struct file_op_record);
} file_op_records SEC(".maps");

static __always_inline void enter_op(struct task_struct *task, struct file_thread *call, __u32 op, const __u64 *args)
{
	struct file *file;

	call->op = op;
	call->fd = AT_FDCWD;
	switch (call->call) {
	case CALL_NAME:
		call->name = (const char *)args[0];
		break;
	case CALL_NAME_AT:
		call->fd = args[0];
		call->name = (const char *)args[1];
		if (op == FILE_UNLINK && args[2] & AT_REMOVEDIR)
			call->op = FILE_RMDIR;
		break;
	case CALL_NAMES:
		call->name = (const char *)args[0];
		call->new_fd = AT_FDCWD;
		call->second = (const char *)args[1];
		break;
	case CALL_NAMES_AT:
		call->fd = args[0];
		call->name = (const char *)args[1];
		call->new_fd = args[2];
		call->second = (const char *)args[3];
		break;
	case CALL_SYMLINK:
		call->second = (const char *)args[0];
		call->name = (const char *)args[1];
		break;
	case CALL_SYMLINKAT:
		call->second = (const char *)args[0];
		call->fd = args[1];
		call->name = (const char *)args[2];
		break;
	default:
		call->fd = args[0];
		call->file.inode = 0;
		file = file_of_fd(task, call->fd);
		if (file)
			fill_file(&call->file, file);
	}
}

/* Does the descriptor still have the file that it had at entry? */
static __always_inline bool has_same_file(struct task_struct *task, struct file_thread *call)
{
	struct file *file = file_of_fd(task, call->fd);
	struct scope_file now;

	if (!file || !call->file.inode)
		return false;
	fill_file(&now, file);
	return now.inode == call->file.inode && now.device == call->file.device;
}

/* Where a name is. */
enum op_name {
	NAME_IS_NONE, /* the path is that of the descriptor's file */
	NAME_IN_USER_MEMORY,
	NAME_IN_KERNEL,
};

/*
 * Writes the path of a name into the record's paths. Returns the size; 0: there is none. Global, because the verifier
 * checks a global function only once.
 */
__noinline int write_op_path(enum file_writer writer, __s32 fd, __u64 name, enum op_name is, __u32 offset)
{
	struct task_struct *task = (struct task_struct *)bpf_get_current_task();
	__u32 number = writer, length;
	struct file_op_record *record = bpf_map_lookup_elem(&file_op_records, &number);
	const char nothing[1] = {};
	bool cut = false;

	if (!record)
		return 0;
	length = write_absolute_path(&record->path, task, fd, is == NAME_IS_NONE ? nothing : (const char *)name,
				     is == NAME_IN_USER_MEMORY, false, &cut);
	barrier_var(length); /* older verifiers forget what was found of a copy */
	barrier_var(offset);
	if (!length || length > 2 * PATH_BYTES || offset > 2 * PATH_BYTES)
		return 0;
	if (bpf_probe_read_kernel(record->paths + offset, length, record->path.bytes))
		return 0;
	record->cut = cut;
	return length;
}

/* Writes the target of a symbolic link behind its path, as it was given. Returns the size; 0: it is unreadable. */
__noinline int write_op_target(enum file_writer writer, __u64 target, enum op_name is, __u32 offset)
{
	__u32 number = writer;
	struct file_op_record *record = bpf_map_lookup_elem(&file_op_records, &number);
	long length;

	barrier_var(offset);
	if (!record || offset > 2 * PATH_BYTES)
		return 0;
	length = read_name(record->paths + offset, PATH_BYTES, (const char *)target, is == NAME_IN_USER_MEMORY);
	return length > 0 ? length - 1 : 0;
}

static __always_inline bool has_new_path(__u32 call)
{
	return call == CALL_NAMES || call == CALL_NAMES_AT;
}

static __always_inline bool has_target(__u32 call)
{
	return call == CALL_SYMLINK || call == CALL_SYMLINKAT;
}

/* Where the event's paths are. The second one is the new path, or the target. */
static __always_inline void place_paths(struct file_op_event *event, __u32 call, __u32 length, __u32 second)
{
	bool is_target = has_target(call);

	event->path.offset = 0;
	event->path.length = length;
	event->path_read = length > 0;
	event->new_path.offset = event->target.offset = length;
	event->new_path.length = is_target ? 0 : second;
	event->new_path_read = event->new_path.length > 0;
	event->target.length = is_target ? second : 0;
	event->target_read = event->target.length > 0;
}

/* The same of a struct file, at its address: its own path, as the first one. */
__noinline int write_op_path_of_file(enum file_writer writer, __u64 address)
{
	__u32 number = writer, length;
	struct file_op_record *record = bpf_map_lookup_elem(&file_op_records, &number);
	struct file *file = (struct file *)address;
	bool cut = false;

	if (!record || !file || !has_path(&file->f_path))
		return 0;
	length = write_directories(&record->path, &file->f_path, &cut);
	barrier_var(length);
	if (length > PATH_BYTES + 1 || bpf_probe_read_kernel(record->paths, length, record->path.bytes))
		return 0;
	record->cut = cut;
	return length;
}

static __always_inline void emit_op(struct task_struct *task, struct file_thread *call, __s64 ret)
{
	__u32 writer = OF_CALL, length = 0, second = 0, size;
	struct file_op_record *record = bpf_map_lookup_elem(&file_op_records, &writer);
	bool named = call->call != CALL_FD;
	struct file_op_event *event;

	if (!record)
		return;
	event = &record->event;
	event->duration_ns = bpf_ktime_get_boot_ns() - call->entered_ns;
	event->operation = call->op;
	event->ret = ret;
	record->cut = false;
	if (named || has_same_file(task, call))
		length = write_op_path(OF_CALL, call->fd, (__u64)call->name, named ? NAME_IN_USER_MEMORY : NAME_IS_NONE,
				       0);
	if (length > 2 * PATH_BYTES)
		length = 0;
	event->path_truncated = record->cut;
	record->cut = false;
	if (has_new_path(call->call))
		second = write_op_path(OF_CALL, call->new_fd, (__u64)call->second, NAME_IN_USER_MEMORY, length);
	else if (has_target(call->call))
		second = write_op_target(OF_CALL, (__u64)call->second, NAME_IN_USER_MEMORY, length);
	if (second > 2 * PATH_BYTES)
		second = 0;
	event->new_path_truncated = record->cut;
	place_paths(event, call->call, length, second);
	event->io_uring = 0;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	size = sizeof(*event) + length + second;
	barrier_var(size); /* so that what is checked is what is used */
	if (size > sizeof(*event) + sizeof(record->paths))
		return;
	scope_output(&event->header, task, stream_file_op, call->entered_ns, size);
}

#endif
