/* SPDX-License-Identifier: GPL-2.0-or-later */
/* What a dropped packet says about itself: its headers, else the socket that sends it. */
#ifndef SCOPE_DROPS_PACKET_BPF_H
#define SCOPE_DROPS_PACKET_BPF_H

#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define AF_PACKET 17
#define HOP_BY_HOP 0 /* extension headers of IPv6 */
#define ROUTING 43
#define FRAGMENT 44
#define DESTINATION 60
#define MOST_EXTENSIONS 4	   /* headers of IPv6 before the transport's */
#define FRAGMENT_OFFSET 0x1fff	   /* of IPv4 */
#define FRAGMENT_OFFSET_6 0xfff8   /* of IPv6 */
#define LEAST_NAMESPACE 0xefffff00 /* numbers of namespaces are above, include/linux/proc_ns.h */

struct drops_packet {
	struct scope_address source;
	struct scope_address destination;
	__u16 source_port;
	__u16 destination_port;
	__u32 protocol; /* enum drop_protocol */
	bool has_ports;
};

static __always_inline void read_ports(struct drops_packet *packet, const void *transport)
{
	__be16 ports[2];

	if (packet->protocol != PROTOCOL_TCP && packet->protocol != PROTOCOL_UDP && packet->protocol != PROTOCOL_SCTP)
		return;
	if (bpf_probe_read_kernel(ports, sizeof(ports), transport))
		return;
	packet->source_port = bpf_ntohs(ports[0]);
	packet->destination_port = bpf_ntohs(ports[1]);
	packet->has_ports = true;
}

static __always_inline bool read_ipv4(struct drops_packet *packet, const void *network)
{
	struct iphdr header;

	if (bpf_probe_read_kernel(&header, sizeof(header), network) || header.version != 4)
		return false;
	packet->protocol = header.protocol;
	fill_address(&packet->source, AF_INET, header.saddr, NULL);
	fill_address(&packet->destination, AF_INET, header.daddr, NULL);
	if (!(header.frag_off & bpf_htons(FRAGMENT_OFFSET)))
		read_ports(packet, network + header.ihl * 4);
	return true;
}

static __always_inline bool is_extension(__u8 type)
{
	return type == HOP_BY_HOP || type == ROUTING || type == DESTINATION || type == FRAGMENT;
}

static __always_inline bool read_ipv6(struct drops_packet *packet, const void *network)
{
	struct ipv6hdr header;
	__u8 type, extension[8];
	bool is_later = false;

	if (bpf_probe_read_kernel(&header, sizeof(header), network) || header.version != 6)
		return false;
	fill_address(&packet->source, AF_INET6, 0, header.saddr.in6_u.u6_addr32);
	fill_address(&packet->destination, AF_INET6, 0, header.daddr.in6_u.u6_addr32);
	type = header.nexthdr;
	network += sizeof(header);
	for (int i = 0; i < MOST_EXTENSIONS && is_extension(type); i++) {
		if (bpf_probe_read_kernel(extension, sizeof(extension), network))
			break;
		if (type == FRAGMENT)
			is_later |= ((extension[2] << 8 | extension[3]) & FRAGMENT_OFFSET_6) != 0;
		network += type == FRAGMENT ? 8 : (extension[1] + 1) * 8;
		type = extension[0];
	}
	packet->protocol = type;
	if (!is_later)
		read_ports(packet, network);
	return true;
}

/* A packet that has no header yet. */
static __always_inline void read_socket(struct drops_packet *packet, struct sock *sk)
{
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);
	struct inet_sock *inet = (void *)sk;
	__u32 from[4], to[4];

	BPF_CORE_READ_INTO(&from, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr32);
	BPF_CORE_READ_INTO(&to, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr32);
	packet->protocol = BPF_CORE_READ(sk, sk_protocol);
	fill_address(&packet->source, family, BPF_CORE_READ(sk, __sk_common.skc_rcv_saddr), from);
	fill_address(&packet->destination, family, BPF_CORE_READ(sk, __sk_common.skc_daddr), to);
	packet->source_port = bpf_ntohs(BPF_CORE_READ(inet, inet_sport));
	packet->destination_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	packet->has_ports = packet->protocol == PROTOCOL_TCP || packet->protocol == PROTOCOL_UDP;
}

/* False: it is not a packet of a network, but what local sockets pass to each other. */
static __always_inline bool read_packet(struct drops_packet *packet, struct sk_buff *skb, struct sock *sk)
{
	__u16 type = bpf_ntohs(BPF_CORE_READ(skb, protocol));
	__u16 family = sk ? BPF_CORE_READ(sk, __sk_common.skc_family) : 0;
	const void *network = BPF_CORE_READ(skb, head) + BPF_CORE_READ(skb, network_header);

	if (type == ETH_P_IP && read_ipv4(packet, network))
		return true;
	if (type == ETH_P_IPV6 && read_ipv6(packet, network))
		return true;
	if (family == AF_INET || family == AF_INET6) {
		read_socket(packet, sk);
		return true;
	}
	packet->protocol = type;
	return type || family == AF_PACKET;
}

static __always_inline __u32 netns_of(const struct net *net)
{
	__u32 number = BPF_CORE_READ(net, ns.inum);

	return number < LEAST_NAMESPACE ? 0 : number;
}

/*
 * The device, and the network namespace. Sockets put something else in the place of the device (dev_scratch, rbnode):
 * then there is no namespace behind it.
 */
static __always_inline __u32 read_device(struct sk_buff *skb, struct sock *sk, __u32 *ifindex, char *name)
{
	struct net_device *device = BPF_CORE_READ(skb, dev);
	__u32 netns = device ? netns_of(BPF_CORE_READ(device, nd_net.net)) : 0;

	*ifindex = 0;
	__builtin_memset(name, 0, DROPS_DEVICE_SIZE);
	if (netns) {
		*ifindex = BPF_CORE_READ(device, ifindex);
		bpf_probe_read_kernel_str(name, DROPS_DEVICE_SIZE, device->name);
	} else if (sk) {
		netns = netns_of(BPF_CORE_READ(sk, __sk_common.skc_net.net));
	}
	return netns;
}

#endif
