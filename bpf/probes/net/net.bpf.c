/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "address.bpf.h"
#include "owner.bpf.h"
#include "path.bpf.h"

#include "net.h"

#define ETIMEDOUT 110

SCOPE_STREAM(connection);
SCOPE_STREAM(connection_user);
SCOPE_SUMMARY(connection_summary)

const volatile __u64 report_ns; /* least time between two rows of an open connection */

#include "socket.bpf.h"

#include "report.bpf.h"

static __always_inline void count_lost(void)
{
	scope_count_loss(scope_summarize ? stream_connection_summary : stream_connection, SCOPE_LOST_NO_STATE);
}

#include "attempt.bpf.h"

/* Begins to keep a connection. NULL: no memory, which is counted. */
static __always_inline struct net_connection *begin(struct sock *sk, enum net_direction direction)
{
	struct net_connection *connection = scope_new_socket(&sockets, sk);

	if (!connection) {
		count_lost();
		return NULL;
	}
	__builtin_memset(connection, 0, sizeof(*connection)); /* a socket may be connected again */
	connection->began_ns = connection->told_ns = connection->changed_ns = bpf_ktime_get_boot_ns();
	connection->direction = direction;
	return connection;
}

/* Begins to keep a connection of before the trace: what it did until now is not told. */
static __always_inline struct net_connection *begin_late(struct sock *sk)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	struct net_connection *connection = tcp ? begin(sk, DIRECTION_UNKNOWN) : NULL;

	if (!connection)
		return NULL;
	connection->existed = 1;
	connection->retransmits = tcp->total_retrans;
	read_counters(connection->told, sk, tcp, connection);
	return connection;
}

static __always_inline void emit_user(struct sock *sk, struct task_struct *task, struct net_connection *connection)
{
	struct connection_user_event *event;

	if (scope_summarize || !scope_passes(task))
		return;
	event = scope_reserve(task, stream_connection_user, bpf_ktime_get_boot_ns(), sizeof(*event));
	if (!event)
		return;
	event->connection = bpf_get_socket_cookie(sk);
	fill_ends(&event->ends, sk);
	event->first_pid = connection->user[0];
	scope_submit(event, stream_connection_user, sizeof(*event));
}

/*
 * Is it the first time that a process uses the connection? From the ninth process on, only the remainders of their pids
 * are kept: no process counts twice, but two with the same remainder count once.
 */
static __always_inline bool is_new_user(struct net_connection *connection, __u32 pid)
{
	__u64 bit = 1ULL << (pid & 63);
	__u32 before;

#pragma unroll
	for (int i = 0; i < NET_USERS; i++) {
		before = __sync_val_compare_and_swap(&connection->user[i], 0, pid);
		if (!before || before == pid)
			return !before;
	}
	return !(__sync_fetch_and_or(&connection->more_users[pid >> 6 & (NET_MORE - 1)], bit) & bit);
}

/* Notes that a task's process uses the connection. */
static __always_inline void add_user(struct sock *sk, struct task_struct *task, struct net_connection *connection)
{
	if (is_new_user(connection, task->tgid) && __sync_fetch_and_add(&connection->users, 1))
		emit_user(sk, task, connection);
}

static __always_inline void own(struct sock *sk, struct net_connection *connection)
{
	struct task_struct *task = bpf_get_current_task_btf();

	if (scope_is_owner(&connection->owner, task))
		return;
	add_user(sk, task, connection);
	scope_own(&connection->owner, task);
}

/* Who has an unused connection: the process that accepted it, or else the task's. */
static __always_inline void own_unused(struct sock *sk, struct net_connection *connection, struct task_struct *task)
{
	const struct scope_owner *acceptor = acceptor_of(sk, connection);

	if (!acceptor) {
		add_user(sk, task, connection);
		scope_own(&connection->owner, task);
		return;
	}
	if (is_new_user(connection, acceptor->whose.pid))
		__sync_fetch_and_add(&connection->users, 1);
	scope_own_as(&connection->owner, acceptor);
}

static __always_inline void own_if_unknown(struct sock *sk, struct net_connection *connection)
{
	if (connection->owner.state == SCOPE_OWNER_UNKNOWN)
		own_unused(sk, connection, bpf_get_current_task_btf());
}

/* Takes the connection's last row: an interrupt may end what a visit tells of. */
static __always_inline bool takes_last_row(struct net_connection *connection)
{
	return !__sync_val_compare_and_swap(&connection->over, 0, 1);
}

static __always_inline void finish(struct sock *sk, struct net_connection *connection, __u64 now_ns)
{
	if (takes_last_row(connection))
		report(sk, connection, TCP_CLOSE, true, now_ns);
}

/*
 * How long the answer to a new connection's SYN-ACK took; 0: unknown. It is known to the us; in whole ms, it comes from
 * timestamps: then it began with the last of several SYN-ACKs, or the SYN-ACK had a cookie that alters its timestamp.
 */
static __always_inline __u64 synack_rtt_ns(struct tcp_sock *tcp)
{
	__u64 rtt_ns = smoothed_rtt_ns(tcp);

	return tcp->total_retrans || !(rtt_ns % NS_PER_MS) ? 0 : rtt_ns;
}

/* A new connection has counted its SYNs; one that came in has the times that its SYN-ACK was sent again. */
static __always_inline void established(struct sock *sk, struct net_connection *connection, int before)
{
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (!tcp)
		return;
	if (before == TCP_SYN_SENT)
		connection->connect_ns = connection->changed_ns - connection->began_ns;
	else
		connection->connect_ns = synack_rtt_ns(tcp);
	count_retransmits(connection, tcp, CAUSE_SYN, tcp->total_retrans);
}

static __always_inline void note_end(struct sock *sk, struct net_connection *connection, int before)
{
	if (before == TCP_SYN_SENT)
		connection->ended = ENDED_CONNECT_FAILED;
	else if (sk->sk_err == ETIMEDOUT)
		connection->ended = ENDED_TIMED_OUT;
	else if (connection->ended == ENDED_NOT_YET)
		connection->ended = ENDED_CLOSED_HERE;
}

/*
 * The states of every TCP socket. The first change of an outgoing connection runs in connect(), and those to FIN_WAIT1
 * and LAST_ACK in close() or shutdown(); others may run in an interrupt. Sockets in TIME_WAIT are others: a connection
 * ends when it would become one. Misses connects that fail before a SYN is sent, see attempt.bpf.h.
 */
SEC("tp_btf/inet_sock_set_state")
int BPF_PROG(net_state, struct sock *sk, int before, int after)
{
	struct net_connection *connection;

	if (!is_tcp(sk))
		return 0;
	if (after == TCP_SYN_SENT) {
		connection = begin(sk, DIRECTION_OUTGOING);
		if (connection)
			own(sk, connection);
		note_syn_sent(sk);
		return 0;
	}
	connection = connection_of(sk);
	if (!connection && after == TCP_ESTABLISHED)
		connection = begin(sk, before == TCP_SYN_SENT ? DIRECTION_OUTGOING : DIRECTION_INCOMING);
	else if (!connection && (before == TCP_ESTABLISHED || before == TCP_CLOSE_WAIT))
		connection = begin_late(sk);
	if (!connection || connection->over)
		return 0;
	leave_state(connection, before);
	if (after == TCP_ESTABLISHED) {
		established(sk, connection, before);
	} else if (after == TCP_FIN_WAIT1 || after == TCP_LAST_ACK) {
		own_if_unknown(sk, connection);
		if (connection->ended == ENDED_NOT_YET)
			connection->ended = ENDED_CLOSED_HERE;
	} else if (after == TCP_CLOSE_WAIT) {
		connection->ended = ENDED_CLOSED_BY_PEER;
	} else if (after == TCP_CLOSE && before == TCP_SYN_SENT && is_unsent(sk)) {
		connection->over = 1;
	} else if (after == TCP_CLOSE) {
		note_end(sk, connection, before);
		if (connection->owner.state == SCOPE_OWNER_KNOWN || has_flag(sk, SOCK_DEAD))
			finish(sk, connection, connection->changed_ns);
	}
	return 0;
}

/* A connection that ended before any process used it: the process that closes the socket, or the listener, runs. */
SEC("tp_btf/tcp_destroy_sock")
int BPF_PROG(net_destroy, struct sock *sk)
{
	struct net_connection *connection = connection_of(sk);

	if (!connection || connection->over)
		return 0;
	own_if_unknown(sk, connection);
	note_end(sk, connection, TCP_ESTABLISHED);
	finish(sk, connection, bpf_ktime_get_boot_ns());
	return 0;
}

static __always_inline int used(struct sock *sk)
{
	struct net_connection *connection = is_tcp(sk) ? connection_of(sk) : NULL;

	if (connection)
		own(sk, connection);
	return 0;
}

/* In every call that sends: write, send, sendmsg, sendfile, and by io_uring. Since 6.3. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(net_send, struct sock *sk)
{
	return used(sk);
}

/* In every call that receives. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(net_receive, struct sock *sk)
{
	return used(sk);
}

/* In every call that receives data: for kernels without the two above. Misses those that only send. */
SEC("tp_btf/tcp_rcv_space_adjust")
int BPF_PROG(net_received, struct sock *sk)
{
	return used(sk);
}

static __always_inline __u32 segments_of(struct sk_buff *packet)
{
	return BPF_CORE_READ((struct tcp_skb_cb *)packet->cb, tcp_gso_segs);
}

/* Runs once a packet that is sent again, when the socket has counted its segments. */
SEC("tp_btf/tcp_retransmit_skb")
int BPF_PROG(net_retransmit, struct sock *sk, struct sk_buff *packet)
{
	struct net_connection *connection = connection_of(sk);
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);
	enum net_cause cause = CAUSE_PROBE;
	__u32 congestion;

	if (!connection || !tcp)
		return 0;
	congestion = BPF_CORE_READ_BITFIELD_PROBED((struct inet_connection_sock *)sk, icsk_ca_state);
	if (sk->__sk_common.skc_state == TCP_SYN_SENT)
		cause = CAUSE_SYN;
	else if (congestion == TCP_CA_Loss)
		cause = CAUSE_TIMEOUT;
	else if (congestion == TCP_CA_Recovery)
		cause = CAUSE_FAST;
	count_retransmits(connection, tcp, cause, segments_of(packet));
	return 0;
}

/* Runs for each packet, before its window is taken over. */
SEC("tp_btf/tcp_probe")
int BPF_PROG(net_packet, struct sock *sk)
{
	struct net_connection *connection = connection_of(sk);
	struct tcp_sock *tcp = bpf_skc_to_tcp_sock(sk);

	if (!connection || !tcp)
		return 0;
	if (!tcp->snd_wnd && !connection->window_is_closed)
		connection->zero_windows++;
	connection->window_is_closed = !tcp->snd_wnd;
	return 0;
}

SEC("tp_btf/tcp_receive_reset")
int BPF_PROG(net_reset_received, struct sock *sk)
{
	struct net_connection *connection = connection_of(sk);

	if (connection)
		connection->ended = ENDED_RESET_BY_PEER;
	return 0;
}

/* The socket is NULL, or one in TIME_WAIT, for most packets that belong to no connection. */
SEC("tp_btf/tcp_send_reset")
int BPF_PROG(net_reset_sent, struct sock *sk)
{
	struct net_connection *connection = sk ? connection_of(sk) : NULL;

	if (connection)
		connection->ended = ENDED_RESET_HERE;
	return 0;
}

static __always_inline bool is_open(__u8 state)
{
	return state == TCP_ESTABLISHED || state == TCP_FIN_WAIT1 || state == TCP_FIN_WAIT2 || state == TCP_CLOSING ||
	       state == TCP_CLOSE_WAIT || state == TCP_LAST_ACK;
}

#define SAME_VISIT_NS 50000000 /* several processes may have one socket */

static __always_inline bool is_due(const struct net_connection *connection, __u64 now_ns)
{
	/* An interrupt may have told of it since `now_ns` was read. */
	return scope_settles_all || now_ns >= connection->told_ns + (scope_summarize ? SAME_VISIT_NS : report_ns);
}

/*
 * Visits the open sockets of all processes, in all network namespaces: begins to keep those of before the trace, and
 * emits the rows that are due. Misses connections that wait for accept(), and those that are closed but not yet over.
 */
SEC("iter/task_file")
int net_settle(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct net_connection *connection;
	struct sock *sk = scope_visited_socket(ctx);
	__u64 now_ns;

	if (!task || !sk || !is_tcp(sk) || !is_open(sk->__sk_common.skc_state))
		return 0;
	connection = connection_of(sk);
	if (!connection)
		connection = begin_late(sk);
	if (!connection || connection->over)
		return 0;
	if (connection->owner.state == SCOPE_OWNER_UNKNOWN)
		own_unused(sk, connection, task);
	now_ns = bpf_ktime_get_boot_ns();
	if (is_due(connection, now_ns) && (!scope_settles_all || takes_last_row(connection)))
		report(sk, connection, sk->__sk_common.skc_state, false, now_ns);
	return 0;
}
