/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What is kept with the socket of each connection, and what is read from it. */
#ifndef SCOPE_NET_SOCKET_BPF_H
#define SCOPE_NET_SOCKET_BPF_H

#define NET_USERS 8   /* processes that are told apart for certain */
#define NET_MORE 4    /* words of a bit for each remainder of their pids by 256 */
#define NET_STATES 16 /* room for the kernel's TCP_MAX_STATES */

/* Why a segment was sent again. */
enum net_cause {
	CAUSE_SYN, /* of the SYN or the SYN-ACK */
	CAUSE_TIMEOUT,
	CAUSE_FAST,
	CAUSE_PROBE, /* of a tail loss */
	CAUSE_UNSEEN,
	CAUSES,
};

/* Counters that rows have the increase of. */
enum net_counter {
	COUNTER_SENT_BYTES,
	COUNTER_RECEIVED_BYTES,
	COUNTER_RETRANSMITTED_BYTES,
	COUNTER_SENT_SEGMENTS, /* from here on, the kernel's counters have 32 bits */
	COUNTER_RECEIVED_SEGMENTS,
	COUNTER_RETRANSMITS,
	COUNTER_REORDERINGS,
	COUNTER_OUT_OF_ORDER,
	COUNTER_ZERO_WINDOWS,
	COUNTER_CAUSES,
	COUNTERS = COUNTER_CAUSES + CAUSES,
};

struct net_connection {
	struct scope_owner owner;
	__u64 began_ns;
	__u64 connect_ns;
	__u64 changed_ns;	       /* when it got into its state */
	__u64 in_state_ns[NET_STATES]; /* how long it was in each, without the one that it is in */
	__u64 told_ns;		       /* when the last row was emitted */
	__u64 told[COUNTERS];	       /* how much of each counter has been in rows */
	__u32 causes[CAUSES];
	__u32 retransmits; /* how much of the kernel's counter has a cause */
	__u32 zero_windows;
	__u32 users;
	__s32 user[NET_USERS];
	__u64 more_users[NET_MORE];
	__u32 direction; /* enum net_direction */
	__u32 ended;	 /* enum net_ended */
	__u8 existed;
	__u8 window_is_closed; /* the peer's */
	__u8 rows;	       /* 1: there was one */
	__u8 pad;
	__u32 over; /* the last row was emitted */
};

SCOPE_SOCKETS(struct net_connection);

static __always_inline bool is_tcp_of(__u16 protocol, __u16 family)
{
	return protocol == IPPROTO_TCP && (family == AF_INET || family == AF_INET6);
}

static __always_inline bool is_tcp(struct sock *sk)
{
	return is_tcp_of(sk->sk_protocol, sk->__sk_common.skc_family);
}

/* The TCP socket of a file; NULL: it is none. */
static __always_inline struct sock *tcp_of_file(struct file *file)
{
	struct socket *socket;
	struct sock *sk;

	if (!file || (BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT) != S_IFSOCK)
		return NULL;
	socket = BPF_CORE_READ(file, private_data);
	sk = BPF_CORE_READ(socket, sk);
	return sk && is_tcp_of(BPF_CORE_READ(sk, sk_protocol), BPF_CORE_READ(sk, __sk_common.skc_family)) ? sk : NULL;
}

static __always_inline struct net_connection *connection_of(struct sock *sk)
{
	return bpf_sk_storage_get(&sockets, sk, 0, 0);
}

static __always_inline bool has_flag(struct sock *sk, enum sock_flags flag)
{
	return sk->__sk_common.skc_flags >> flag & 1;
}

static __always_inline void fill_ends(struct net_ends *ends, struct sock *sk)
{
	struct inet_sock *inet = (void *)sk;
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	__u32 local[4], remote[4];
	__be16 port = 0;

	BPF_CORE_READ_INTO(&local, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32);
	BPF_CORE_READ_INTO(&remote, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32);
	BPF_CORE_READ_INTO(&port, inet, inet_sport); /* the port's number is gone when a connection has ended */
	fill_address(&ends->local, family, BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr), local);
	fill_address(&ends->remote, family, BPF_CORE_READ(sk, __sk_common.skc_daddr), remote);
	ends->local_port = bpf_ntohs(port);
	ends->remote_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	ends->netns = BPF_CORE_READ(sk, __sk_common.skc_net.net, ns.inum);
}

/* The same with plain loads, which cost less: where the verifier knows that both are the socket. */
static __always_inline void load_ends(struct net_ends *ends, struct sock *sk, struct tcp_sock *tcp)
{
	__u16 family = sk->__sk_common.skc_family;
	__u32 local[4], remote[4];

#pragma unroll
	for (int i = 0; i < 4; i++) {
		local[i] = sk->__sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32[i];
		remote[i] = sk->__sk_common.skc_v6_daddr.in6_u.u6_addr32[i];
	}
	fill_address(&ends->local, family, sk->__sk_common.skc_rcv_saddr, local);
	fill_address(&ends->remote, family, sk->__sk_common.skc_daddr, remote);
	ends->local_port = bpf_ntohs(tcp->inet_conn.icsk_inet.inet_sport);
	ends->remote_port = bpf_ntohs(sk->__sk_common.skc_dport);
	ends->netns = sk->__sk_common.skc_net.net->ns.inum;
}

/* Bytes that the peer sent: a FIN counts as one in the kernel's counter. */
static __always_inline __u64 received_bytes(struct sock *sk, struct tcp_sock *tcp)
{
	return tcp->bytes_received - has_flag(sk, SOCK_DONE);
}

static __always_inline void read_counters(__u64 *now, struct sock *sk, struct tcp_sock *tcp,
					  const struct net_connection *connection)
{
	now[COUNTER_SENT_BYTES] = tcp->bytes_sent - tcp->bytes_retrans;
	now[COUNTER_RECEIVED_BYTES] = received_bytes(sk, tcp);
	now[COUNTER_RETRANSMITTED_BYTES] = tcp->bytes_retrans;
	now[COUNTER_SENT_SEGMENTS] = tcp->segs_out;
	now[COUNTER_RECEIVED_SEGMENTS] = tcp->segs_in;
	now[COUNTER_RETRANSMITS] = tcp->total_retrans;
	now[COUNTER_REORDERINGS] = tcp->reord_seen;
	now[COUNTER_OUT_OF_ORDER] = tcp->rcv_ooopack;
	now[COUNTER_ZERO_WINDOWS] = connection->zero_windows;
#pragma unroll
	for (int i = 0; i < CAUSES; i++)
		now[COUNTER_CAUSES + i] = connection->causes[i];
}

static __always_inline void leave_state(struct net_connection *connection, int state)
{
	__u64 now_ns = bpf_ktime_get_boot_ns();

	connection->in_state_ns[state & (NET_STATES - 1)] += now_ns - connection->changed_ns;
	connection->changed_ns = now_ns;
}

/*
 * Notes why the kernel's counter has grown: as many segments as the program has seen have this cause. It has not seen
 * those that could not be sent (before Linux 6.15), nor those of an interrupt that no program may run in.
 */
static __always_inline void count_retransmits(struct net_connection *connection, struct tcp_sock *tcp,
					      enum net_cause cause, __u32 seen)
{
	__u32 more = tcp->total_retrans - connection->retransmits;

	if (seen > more)
		seen = more;
	connection->causes[cause] += seen;
	connection->causes[CAUSE_UNSEEN] += more - seen;
	connection->retransmits = tcp->total_retrans;
}

/* One try of claim(). False: another CPU has told some of it meanwhile. */
static __always_inline bool try_claim(__u64 *told, __u64 now, bool is_short, __u64 *increase)
{
	__u64 before = *(volatile __u64 *)told;
	__u64 more = is_short ? (__u32)(now - before) : now - before;
	bool backwards = is_short ? (__s32)more <= 0 : (__s64)more <= 0;

	*increase = 0;
	if (backwards)
		return true;
	if (__sync_val_compare_and_swap(told, before, before + more) != before)
		return false;
	*increase = more;
	return true;
}

/*
 * The increase of a counter since it was last told. The end of a connection and the interval's reader may tell at the
 * same time: each increase is told by one of them. Not inlined: 6.1's verifier would follow all ways through all
 * counters.
 */
__noinline __u64 claim(__u64 *told, __u64 now, int is_short)
{
	__u64 increase = 0;

	if (told && !try_claim(told, now, is_short, &increase))
		try_claim(told, now, is_short, &increase);
	return increase;
}

static __always_inline void claim_all(struct net_connection *connection, const __u64 *now, __u64 *increases)
{
#pragma unroll
	for (int i = 0; i < COUNTERS; i++)
		increases[i] = claim(&connection->told[i], now[i], i >= COUNTER_SENT_SEGMENTS);
}

#endif
