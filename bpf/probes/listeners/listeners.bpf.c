/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "address.bpf.h"
#include "owner.bpf.h"

#include "listeners.h"

SCOPE_STREAM(listener);

const volatile __u64 report_ns; /* least time between two rows of a socket */

struct listening {
	struct scope_owner owner;
	__u64 told_ns;
	__u32 drops; /* as of the last row */
	__u8 rows;   /* 1: there was one */
	__u8 over;   /* the last row was emitted */
	__u8 pad[2];
};

SCOPE_SOCKETS(struct listening);

static __always_inline __u32 drops_of(struct sock *sk)
{
	return BPF_CORE_READ(sk, sk_drops.counter);
}

static __always_inline struct listening *begin(struct sock *sk, struct task_struct *task, __u32 drops)
{
	struct listening *listener = scope_new_socket(&sockets, sk);

	if (!listener) {
		scope_count_loss(stream_listener, SCOPE_LOST_NO_STATE);
		return NULL;
	}
	__builtin_memset(listener, 0, sizeof(*listener)); /* a socket may listen again */
	listener->drops = drops;
	scope_own(&listener->owner, task);
	return listener;
}

static __always_inline void fill_local(struct listener_event *event, struct sock *sk)
{
	struct inet_sock *inet = (void *)sk;
	__u32 six[4];

	BPF_CORE_READ_INTO(&six, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32);
	fill_address(&event->local, sk->__sk_common.skc_family, sk->__sk_common.skc_rcv_saddr, six);
	event->local_port = bpf_ntohs(BPF_CORE_READ(inet, inet_sport)); /* its number is gone when it has stopped */
	event->netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
}

static __always_inline void tell(struct sock *sk, struct listening *listener, bool is_last)
{
	struct inet_connection_sock *connection = (void *)sk;
	__u64 now_ns = bpf_ktime_get_boot_ns();
	struct listener_event *event;
	__u32 drops = drops_of(sk);

	if (!scope_owner_passes(&listener->owner))
		return;
	event = scope_reserve_owned(&listener->owner, stream_listener, now_ns, sizeof(*event));
	if (!event)
		return;
	event->socket = bpf_get_socket_cookie(sk);
	fill_local(event, sk);
	event->is_first = !listener->rows;
	event->is_last = is_last;
	event->queued = sk->sk_ack_backlog;
	event->queue_limit = sk->sk_max_ack_backlog;
	event->shaking_hands = BPF_CORE_READ(connection, icsk_accept_queue.qlen.counter);
	event->dropped = drops - listener->drops;
	event->is_full = event->queued > event->queue_limit; /* sk_acceptq_is_full() */
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	listener->drops = drops;
	listener->rows = 1;
	listener->told_ns = now_ns;
	scope_submit(event, stream_listener, sizeof(*event));
}

/* Runs in listen(), and in close() or shutdown() of a socket that listens. */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(listeners_state, struct sock *sk, int before, int after)
{
	struct listening *listener;

	if (sk->sk_protocol != IPPROTO_TCP)
		return 0;
	if (after == TCP_LISTEN) {
		begin(sk, bpf_get_current_task_btf(), drops_of(sk));
	} else if (before == TCP_LISTEN) {
		listener = bpf_sk_storage_get(&sockets, sk, 0, 0);
		if (listener && !listener->over)
			tell(sk, listener, true);
	}
	return 0;
}

/* Visits the open sockets of all processes, in all network namespaces. Several processes may have a socket that
 * listens. */
SEC("iter/task_file")
int listeners_settle(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct listening *listener;
	struct sock *sk = scope_visited_socket(ctx);

	if (!task || !sk || sk->sk_protocol != IPPROTO_TCP || sk->__sk_common.skc_state != TCP_LISTEN)
		return 0;
	listener = bpf_sk_storage_get(&sockets, sk, 0, 0);
	if (!listener)
		listener = begin(sk, task, drops_of(sk));
	if (!listener || listener->over)
		return 0;
	if (scope_settles_all || bpf_ktime_get_boot_ns() - listener->told_ns >= report_ns) {
		listener->over = scope_settles_all;
		tell(sk, listener, false);
	}
	return 0;
}
