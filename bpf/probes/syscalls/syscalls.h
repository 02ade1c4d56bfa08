/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_SYSCALLS_H
#define SCOPE_SYSCALLS_H

/* The header's time is the entry's. */
struct syscall_event {
	struct scope_header header;
	__s64 arg0;
	__s64 arg1;
	__s64 arg2;
	__s64 arg3;
	__s64 arg4;
	__s64 arg5;
	__s64 ret;
	__u64 duration_ns;
	__s32 nr;
	__u8 compat;   /* a 32-bit call on a 64-bit kernel: other numbers */
	__u8 returned; /* 0: the thread ended inside the call, as exit does */
	__u8 pad[2];
};

struct syscall_summary_key {
	struct scope_process process;
	__s32 nr;
	__u8 compat;
	__u8 pad[3];
};

struct syscall_summary_value {
	__u64 count;
	__u64 errors;
	__u64 total_ns;
	struct scope_histogram latency;
};

#endif
