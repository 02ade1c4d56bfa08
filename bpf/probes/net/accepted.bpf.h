/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Who accepted the connections that no process has used yet. Not always does a process close its own: whoever looks at
 * its open files (lsof, ss -p, an iterator) holds each for a moment, and closes what the process closes meanwhile.
 */
#ifndef SCOPE_NET_ACCEPTED_BPF_H
#define SCOPE_NET_ACCEPTED_BPF_H

#include "calls_to_connect.bpf.h"

#if defined(__TARGET_ARCH_x86)
enum { CALL_ACCEPT = 43, CALL_ACCEPT4 = 288, CALL_ACCEPT4_32 = 364, CALL_ACCEPT_32 = CALL_ACCEPT4_32 };
#else
enum { CALL_ACCEPT = 202, CALL_ACCEPT4 = 242, CALL_ACCEPT4_32 = 366, CALL_ACCEPT_32 = 285 };
#endif
/* Of CALL_SOCKETCALL_32, include/uapi/linux/net.h. */
enum { SOCKETCALL_ACCEPT = 5, SOCKETCALL_ACCEPT4 = 18 };

struct net_accepted {
	struct scope_owner owner;
	__u64 accepted_ns;
};

/* By address of the socket. What is not here belongs to the first process that uses it. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u64);
	__type(value, struct net_accepted);
} accepted SEC(".maps");

static __always_inline bool may_accept_somehow(long nr)
{
	return nr == CALL_ACCEPT || nr == CALL_ACCEPT4 || nr == CALL_ACCEPT_32 || nr == CALL_ACCEPT4_32 ||
	       nr == CALL_SOCKETCALL_32;
}

static __always_inline bool accepts(struct pt_regs *regs, long nr, bool compat)
{
	__u32 number;

	if (!compat)
		return nr == CALL_ACCEPT || nr == CALL_ACCEPT4;
	if (nr != CALL_SOCKETCALL_32)
		return nr == CALL_ACCEPT_32 || nr == CALL_ACCEPT4_32;
	number = call_arg(regs, 0, true);
	return number == SOCKETCALL_ACCEPT || number == SOCKETCALL_ACCEPT4;
}

/* Notes that a task has accepted a connection, and has this descriptor for it. */
static __always_inline void note_accepted(struct task_struct *task, __s32 fd)
{
	struct net_accepted note = {};
	__u64 key = (__u64)tcp_of_file(file_of_fd(task, fd));

	if (!key)
		return;
	scope_own(&note.owner, task);
	note.accepted_ns = bpf_ktime_get_boot_ns();
	bpf_map_update_elem(&accepted, &key, &note, BPF_ANY);
}

/* The process that accepted a connection. NULL: none, or it is not known: what is noted is an earlier one's. */
static __always_inline const struct scope_owner *acceptor_of(struct sock *sk, const struct net_connection *connection)
{
	__u64 key = (__u64)sk;
	struct net_accepted *note = bpf_map_lookup_elem(&accepted, &key);

	return note && note->accepted_ns > connection->began_ns ? &note->owner : NULL;
}

#endif
