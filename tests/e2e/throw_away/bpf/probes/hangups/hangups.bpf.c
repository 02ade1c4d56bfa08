/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "owner.bpf.h"

#include "hangups.h"

SCOPE_STREAM(hangup);

struct hangup_socket {
	struct scope_owner owner;
};

SCOPE_SOCKETS(struct hangup_socket);

/* Runs in connect() for the first change of a client's socket, and in the peer's packet or close() for the last. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(hangup_state, struct sock *sk, int before, int after)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct hangup_socket *socket;
	struct hangup_event *event;

	if (before == TCP_CLOSE && after == TCP_SYN_SENT) {
		socket = scope_new_socket(&sockets, sk);
		if (socket)
			scope_own(&socket->owner, task);
		else
			scope_count_loss(stream_hangup, SCOPE_LOST_NO_STATE);
		return 0;
	}
	if (after != TCP_CLOSE)
		return 0;
	socket = scope_new_socket(&sockets, sk); /* a server's sockets have no owner here */
	if (!socket || !scope_owner_passes(&socket->owner))
		return 0;
	event = scope_reserve_owned(&socket->owner, stream_hangup, bpf_ktime_get_boot_ns(), sizeof(*event));
	if (!event)
		return 0;
	event->interrupted_pid = task->tgid;
	event->port = __builtin_bswap16(sk->__sk_common.skc_dport);
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_hangup, sizeof(*event));
	return 0;
}
