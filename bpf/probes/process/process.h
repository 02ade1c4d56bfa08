/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_PROCESS_H
#define SCOPE_PROCESS_H

/* The header describes the process after a successful exec; after a failed exec, the process is unchanged. */
struct exec_event {
	struct scope_header header;
	struct scope_text filename;
	struct scope_text_list args;
	struct scope_path cwd;
	__s32 ppid;
	__s32 ret;
	__u8 args_truncated;
	__u8 cwd_truncated;
	__u8 filename_read; /* 0: unreadable in the process's memory */
	__u8 args_read;
	__u8 pad[4];
};

/* The header describes the parent: the thread that called fork or clone. */
struct fork_event {
	struct scope_header header;
	__u64 child_start_ns;
	__s32 child_pid;
	__s32 child_tid; /* different from child_pid: a thread of the same process */
};

/* The end of a process, when its last thread ends. The header describes its main thread. */
struct exit_event {
	struct scope_header header;
	__u64 lifetime_ns; /* without the time that the command was held */
	__u64 user_ns;
	__u64 system_ns;
	__u64 peak_rss_bytes;
	__u64 read_bytes;
	__u64 write_bytes;
	__s32 ppid;
	__s32 exit_code;
	__s32 signal;
	__u8 core_dumped;
	__u8 pad[3];
};

#endif
