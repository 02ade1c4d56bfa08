/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads datagrams. A program for packets sees them from the network's header on. */
#ifndef SCOPE_UDP_DATAGRAM_BPF_H
#define SCOPE_UDP_DATAGRAM_BPF_H

#define SOCK_DGRAM 2
#define UDP_HEADER 8
#define HOP_BY_HOP 0 /* extension headers of IPv6 */
#define ROUTING 43
#define FRAGMENT 44
#define DESTINATION 60
#define MOST_EXTENSIONS 4

struct udp_datagram {
	struct scope_address local;
	struct scope_address remote;
	__u16 local_port;
	__u16 remote_port;
	__u32 bytes; /* of the program */
	__u32 count; /* of datagrams: a packet may stand for several */
};

/* The offset after the extension headers of IPv6. */
static __always_inline __u32 after_extensions(struct __sk_buff *skb, __u8 type)
{
	__u32 offset = sizeof(struct ipv6hdr);
	__u8 extension[2];

	for (int i = 0; i < MOST_EXTENSIONS; i++) {
		if (type != HOP_BY_HOP && type != ROUTING && type != FRAGMENT && type != DESTINATION)
			break;
		if (bpf_skb_load_bytes(skb, offset, extension, sizeof(extension)))
			break;
		offset += type == FRAGMENT ? 8 : (extension[1] + 1) * 8;
		type = extension[0];
	}
	return offset;
}

/* The addresses. Returns the offset of the datagram's header; 0: it cannot be read. */
static __always_inline __u32 read_network(struct __sk_buff *skb, bool sent, struct udp_datagram *datagram)
{
	struct scope_address *source = sent ? &datagram->local : &datagram->remote;
	struct scope_address *destination = sent ? &datagram->remote : &datagram->local;
	struct ipv6hdr six;
	struct iphdr four;
	__u8 first;

	if (bpf_skb_load_bytes(skb, 0, &first, sizeof(first)))
		return 0;
	if (first >> 4 == 4) {
		if (bpf_skb_load_bytes(skb, 0, &four, sizeof(four)))
			return 0;
		fill_address(source, AF_INET, four.saddr, NULL);
		fill_address(destination, AF_INET, four.daddr, NULL);
		return (first & 0xf) * 4;
	}
	if (first >> 4 != 6 || bpf_skb_load_bytes(skb, 0, &six, sizeof(six)))
		return 0;
	fill_address(source, AF_INET6, 0, six.saddr.in6_u.u6_addr32);
	fill_address(destination, AF_INET6, 0, six.daddr.in6_u.u6_addr32);
	return after_extensions(skb, six.nexthdr);
}

/* Is this a datagram of a UDP socket? */
static __always_inline bool read_datagram(struct __sk_buff *skb, bool sent, struct udp_datagram *datagram)
{
	struct bpf_sock *sk = skb->sk;
	__u32 transport;
	__be16 ports[2];

	sk = sk ? bpf_sk_fullsock(sk) : NULL;
	if (!sk || sk->protocol != IPPROTO_UDP || sk->type != SOCK_DGRAM)
		return false;
	transport = read_network(skb, sent, datagram);
	if (!transport || bpf_skb_load_bytes(skb, transport, ports, sizeof(ports)))
		return false;
	datagram->local_port = bpf_ntohs(ports[!sent]);
	datagram->remote_port = bpf_ntohs(ports[sent]);
	datagram->bytes = skb->len - transport - UDP_HEADER;
	datagram->count = skb->gso_segs ? skb->gso_segs : 1;
	return true;
}

#endif
