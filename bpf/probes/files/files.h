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
	__u8 pad[2];
};

struct file_summary_key {
	struct scope_process process;
	__u64 inode;
	__u32 device;	 /* the kernel's dev_t: major << 20 | minor */
	__u32 file_type; /* S_IFMT bits of the mode */
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

/* The path of a file, emitted when a summary first counts the file in an interval. */
struct file_name_event {
	struct scope_header header;
	struct scope_path path;
	__u64 inode;
	__u32 device;
	__u8 path_truncated;
	__u8 pad[3];
};

#endif
