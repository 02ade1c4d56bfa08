/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_FILES_H
#define SCOPE_FILES_H

/* The header has the time of entry. */
struct open_event {
	struct scope_header header;
	struct scope_path path;
	__u64 duration_ns;
	__u32 flags;
	__u32 mode;
	__s32 ret;
	__u8 path_read;	     /* 0: the name could not be read from the process's memory */
	__u8 path_truncated; /* the directories nearest to the root are missing */
	__u8 io_uring;
	__u8 pad;
};

enum file_op_kind {
	FILE_STAT,
	FILE_UNLINK,
	FILE_RMDIR,
	FILE_RENAME,
	FILE_MKDIR,
	FILE_LINK,
	FILE_SYMLINK,
	FILE_TRUNCATE,
	FILE_FSYNC,
	FILE_FDATASYNC,
	FILE_SYNC_FILE_RANGE,
};

/* The header has the time of entry. */
struct file_op_event {
	struct scope_header header;
	struct scope_path path;
	struct scope_path new_path; /* of FILE_RENAME and FILE_LINK */
	struct scope_text target;   /* of FILE_SYMLINK */
	__u64 duration_ns;
	enum file_op_kind operation;
	__s32 ret;
	__u8 path_read; /* 0: the name could not be read, or the descriptor's file has none */
	__u8 path_truncated;
	__u8 new_path_read;
	__u8 new_path_truncated;
	__u8 io_uring;
	__u8 target_read;
	__u8 pad[2];
};

struct file_summary_key {
	struct scope_process process;
	struct scope_file file;
};

struct file_summary_value {
	__u64 reads;
	__u64 read_bytes;
	__u64 read_errors;
	__u64 read_ns;
	__u64 writes;
	__u64 write_bytes;
	__u64 write_errors;
	__u64 write_ns;
	struct scope_histogram read_latency;
	struct scope_histogram write_latency;
};

struct file_name_event {
	struct scope_file_path path;
};

#endif
