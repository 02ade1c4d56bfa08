/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "address.bpf.h"
#include "owner.bpf.h"

#include "udp.h"

SCOPE_STREAM(udp_flow);
SCOPE_SUMMARY(udp_summary)

const volatile __u64 report_ns; /* least time between two rows of a flow */
const volatile __u64 idle_ns;	/* a flow without datagrams ends after this time */

#include "datagram.bpf.h"

#include "flow.bpf.h"

#define EINTR 4
#define E2BIG 7
#define EAGAIN 11
#define ERESTARTSYS 512

static __always_inline void own(struct udp_socket *socket, struct task_struct *task)
{
	if (!scope_is_owner(&socket->owner, task))
		scope_own(&socket->owner, task);
}

/* In socket(). Misses sockets of the kernel. */
SEC("cgroup/sock_create")
int udp_created(struct bpf_sock *ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct udp_socket socket = {};
	__u64 cookie;

	if (ctx->protocol != IPPROTO_UDP || ctx->type != SOCK_DGRAM)
		return 1;
	cookie = bpf_get_socket_cookie(ctx);
	scope_own(&socket.owner, task);
	socket.netns = BPF_CORE_READ(task, nsproxy, net_ns, ns.inum);
	bpf_map_update_elem(&sockets, &cookie, &socket, BPF_ANY);
	return 1;
}

static __always_inline bool is_udp(struct sock *sk)
{
	return sk->sk_protocol == IPPROTO_UDP && sk->sk_type == SOCK_DGRAM &&
	       (sk->__sk_common.skc_family == AF_INET || sk->__sk_common.skc_family == AF_INET6);
}

/* Visits the open sockets of all processes: those of before the trace. */
SEC("iter/task_file")
int udp_find(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct udp_socket found = {};
	struct sock *sk = scope_visited_socket(ctx);
	__u64 cookie;

	if (!task || !sk || !is_udp(sk))
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	scope_own(&found.owner, task);
	found.netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
	found.existed = 1;
	bpf_map_update_elem(&sockets, &cookie, &found, BPF_NOEXIST);
	return 0;
}

/* Begins to keep a flow. NULL: there is no room, or no memory; either is counted. */
static __always_inline struct udp_flow *begin(const struct udp_flow_key *key, struct udp_socket *socket,
					      const struct udp_datagram *datagram, bool sent)
{
	struct udp_flow flow = {.local = datagram->local, .local_port = datagram->local_port};
	struct udp_summary_value *value;
	struct udp_flow *kept;
	long error;

	flow.began_ns = flow.last_ns = flow.told_ns = bpf_ktime_get_boot_ns();
	flow.direction = socket && socket->existed ? DIRECTION_UNKNOWN : sent ? DIRECTION_OUTGOING : DIRECTION_INCOMING;
	error = bpf_map_update_elem(&flows, key, &flow, BPF_NOEXIST);
	if (!error) {
		if (socket && !__sync_fetch_and_add(&socket->flows, 1))
			socket->first = key->peer;
		value = scope_summarize ? summary_of(key, &flow, socket) : NULL;
		if (value)
			add(&value->begun, 1);
	}
	kept = bpf_map_lookup_elem(&flows, key);
	if (!kept)
		scope_count_loss(scope_summarize ? stream_udp_summary : stream_udp_flow,
				 error == -E2BIG ? SCOPE_LOST_MAP_FULL : SCOPE_LOST_NO_STATE);
	return kept;
}

static __always_inline void transfer(struct udp_flow_key *key, struct udp_socket *socket,
				     const struct udp_datagram *datagram, bool sent)
{
	__u64 counts[COUNTS] = {};
	struct udp_flow *flow;

	key->peer.remote = datagram->remote;
	key->peer.remote_port = datagram->remote_port;
	flow = bpf_map_lookup_elem(&flows, key);
	if (!flow)
		flow = begin(key, socket, datagram, sent);
	if (!flow)
		return;
	flow->last_ns = bpf_ktime_get_boot_ns();
	counts[sent ? COUNT_SENT : COUNT_RECEIVED] = datagram->count;
	counts[sent ? COUNT_SENT_BYTES : COUNT_RECEIVED_BYTES] = datagram->bytes;
	count(key, flow, socket, counts);
}

/* Runs for each packet that a socket sends, in the thread that sends it. */
SEC("cgroup_skb/egress")
int SCOPE_UNPREEMPTED(udp_sent, struct __sk_buff *, skb)
{
	struct udp_datagram datagram = {};
	struct udp_flow_key key = {};
	struct udp_socket *socket;

	if (!read_datagram(skb, true, &datagram))
		return 1;
	key.socket = bpf_get_socket_cookie(skb);
	socket = bpf_map_lookup_elem(&sockets, &key.socket);
	if (socket)
		own(socket, bpf_get_current_task_btf());
	if (scope_owner_passes(owner_of(socket)))
		transfer(&key, socket, &datagram, true);
	return 1;
}

/* Runs for each packet that a socket gets, in an interrupt, before the socket has found room for it. */
SEC("cgroup_skb/ingress")
int SCOPE_UNPREEMPTED(udp_arrived, struct __sk_buff *, skb)
{
	struct udp_datagram datagram = {};
	struct udp_flow_key key = {};
	struct udp_socket *socket;

	if (!read_datagram(skb, false, &datagram))
		return 1;
	key.socket = bpf_get_socket_cookie(skb);
	socket = bpf_map_lookup_elem(&sockets, &key.socket);
	if (scope_owner_passes(owner_of(socket)))
		transfer(&key, socket, &datagram, false);
	return 1;
}

/* A datagram for which the socket has no room: it had arrived before. Since 6.10, the tracepoint tells which it was. */
SEC("tp_btf/udp_fail_queue_rcv_skb")
int BPF_PROG(udp_refused, int result, struct sock *sk, struct sk_buff *skb)
{
	const void *network = (void *)skb->head + skb->network_header,
		   *transport = (void *)skb->head + skb->transport_header;
	__u64 counts[COUNTS] = {[COUNT_DROPPED] = 1};
	struct udp_flow_key key = {};
	struct udp_socket *socket;
	struct ipv6hdr six;
	struct iphdr four;
	struct udp_flow *flow;
	__be16 port;

	if (bpf_probe_read_kernel(&four, sizeof(four), network) ||
	    bpf_probe_read_kernel(&port, sizeof(port), transport))
		return 0;
	if (four.version == 4)
		fill_address(&key.peer.remote, AF_INET, four.saddr, NULL);
	else if (!bpf_probe_read_kernel(&six, sizeof(six), network))
		fill_address(&key.peer.remote, AF_INET6, 0, six.saddr.in6_u.u6_addr32);
	key.peer.remote_port = bpf_ntohs(port);
	key.socket = bpf_get_socket_cookie(sk);
	flow = bpf_map_lookup_elem(&flows, &key);
	socket = bpf_map_lookup_elem(&sockets, &key.socket);
	if (flow && scope_owner_passes(owner_of(socket)))
		count(&key, flow, socket, counts);
	return 0;
}

/* A call that failed. Which peer it was for is known if the socket is connected. */
static __always_inline void failed(struct sock *sk, __u64 cookie, struct udp_socket *socket, int error)
{
	__u64 counts[COUNTS] = {[COUNT_ERRORS] = 1};
	struct udp_flow_key key = {.socket = cookie};
	struct udp_flow *flow;
	__u32 six[4];

	BPF_CORE_READ_INTO(&six, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32);
	fill_address(&key.peer.remote, sk->__sk_common.skc_family, sk->__sk_common.skc_daddr, six);
	key.peer.remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	flow = bpf_map_lookup_elem(&flows, &key);
	if (!flow || !scope_owner_passes(&socket->owner))
		return;
	flow->error = error;
	count(&key, flow, socket, counts);
}

static __always_inline int called(struct sock *sk, int result)
{
	struct udp_socket *socket;
	__u64 cookie;

	if (!is_udp(sk))
		return 0;
	cookie = bpf_get_socket_cookie(sk);
	socket = bpf_map_lookup_elem(&sockets, &cookie);
	if (!socket)
		return 0;
	own(socket, bpf_get_current_task_btf());
	if (result < 0 && result != -EAGAIN && result != -EINTR && result != -ERESTARTSYS)
		failed(sk, cookie, socket, result);
	return 0;
}

/* In every call that sends. Since 6.3. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(udp_send, struct sock *sk, int result)
{
	return called(sk, result);
}

/* In every call that receives: the socket may be read by another process than the one that made it. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(udp_receive, struct sock *sk, int result)
{
	return called(sk, result);
}

/* The last descriptor of a socket is closed. If it had several peers, udp_settle tells its flows. */
SEC("cgroup/sock_release")
int udp_released(struct bpf_sock *ctx)
{
	struct udp_flow_key key = {};
	struct udp_socket *socket;
	struct udp_flow *flow;

	key.socket = bpf_get_socket_cookie(ctx);
	socket = bpf_map_lookup_elem(&sockets, &key.socket);
	if (!socket)
		return 1;
	key.peer = socket->first;
	flow = socket->flows == 1 ? bpf_map_lookup_elem(&flows, &key) : NULL;
	if (socket->flows && !flow) {
		socket->closed_ns = bpf_ktime_get_boot_ns();
		return 1;
	}
	if (flow)
		finish(&key, flow, socket, ENDED_CLOSED);
	bpf_map_delete_elem(&sockets, &key.socket);
	return 1;
}

struct udp_settling {
	__u64 now_ns;
	bool all;
};

static long settle_flow(void *map, struct udp_flow_key *key, struct udp_flow *flow, struct udp_settling *settling)
{
	struct udp_socket *socket = bpf_map_lookup_elem(&sockets, &key->socket);
	bool is_closed = socket && socket->closed_ns;

	if (is_closed || flow->last_ns + idle_ns < settling->now_ns) {
		finish(key, flow, socket, is_closed ? ENDED_CLOSED : ENDED_IDLE);
		if (socket)
			__sync_fetch_and_sub(&socket->flows, 1);
	} else if (has_untold(flow) && (settling->all || flow->told_ns + report_ns < settling->now_ns)) {
		tell(key, flow, socket, ENDED_NOT_YET);
	}
	return 0;
}

static long forget_socket(void *map, __u64 *cookie, struct udp_socket *socket, struct udp_settling *settling)
{
	if (socket->closed_ns && !socket->flows)
		bpf_map_delete_elem(&sockets, cookie);
	return 0;
}

/* User space runs this program every second: rows that are due. Its argument is 1 at the end. */
SEC("raw_tp")
int udp_settle(struct bpf_raw_tracepoint_args *ctx)
{
	struct udp_settling settling = {.now_ns = bpf_ktime_get_boot_ns(), .all = ctx->args[0]};

	bpf_for_each_map_elem(&flows, settle_flow, &settling, 0);
	bpf_for_each_map_elem(&sockets, forget_socket, &settling, 0);
	return 0;
}
