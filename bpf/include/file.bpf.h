/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Files behind descriptors, for summaries that count by file. */
#ifndef SCOPE_FILE_BPF_H
#define SCOPE_FILE_BPF_H

#include "path.bpf.h"

/* Programs that may interrupt each other need a buffer each. */
#ifndef FILE_PATH_BUFFERS
#define FILE_PATH_BUFFERS 1
#endif

struct file_path_record {
	struct scope_file_path event;
	struct path_buffer path;
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, FILE_PATH_BUFFERS);
	__type(key, __u32);
	__type(value, struct file_path_record);
} file_path_records SEC(".maps");

static __always_inline void fill_file(struct scope_file *to, struct file *file)
{
	struct inode *inode = BPF_CORE_READ(file, f_inode);

	to->inode = BPF_CORE_READ(inode, i_ino);
	to->device = BPF_CORE_READ(inode, i_sb, s_dev);
	to->file_type = BPF_CORE_READ(inode, i_mode) & S_IFMT;
}

/*
 * Emits the path of a file, in a stream of struct scope_file_path. Emits nothing if it is another one than wanted.
 * Global, because the verifier checks a global function only once.
 */
__noinline int emit_path_of_file(__u64 address, const struct scope_file *wanted, __u16 stream, __u32 buffer)
{
	struct file_path_record *record = bpf_map_lookup_elem(&file_path_records, &buffer);
	struct file *file = (struct file *)address;
	struct scope_file_path *event;
	bool cut = false;
	__u32 length;

	if (!wanted || !record || !file || !has_path(&file->f_path))
		return 0;
	event = &record->event;
	fill_file(&event->file, file);
	if (event->file.inode != wanted->inode || event->file.device != wanted->device)
		return 0;
	length = write_directories(&record->path, &file->f_path, &cut);
	if (length > PATH_BYTES + 1)
		return 0;
	event->path.offset = 0;
	event->path.length = length;
	event->path_truncated = cut;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_output(&event->header, bpf_get_current_task_btf(), stream, bpf_ktime_get_boot_ns(),
		     sizeof(*event) + length);
	return 0;
}

/* The same of the file that a task has open as fd; the descriptor may have got another file meanwhile. */
static __always_inline void emit_file_path(__u64 task, __s32 fd, const struct scope_file *wanted, __u16 stream,
					   __u32 buffer)
{
	emit_path_of_file((__u64)file_of_fd((struct task_struct *)task, fd), wanted, stream, buffer);
}

#endif
