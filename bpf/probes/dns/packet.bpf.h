/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads DNS messages in packets, RFC 1035. A program for packets sees them from the network header on. */
#ifndef SCOPE_DNS_PACKET_BPF_H
#define SCOPE_DNS_PACKET_BPF_H

#define AF_INET 2
#define AF_INET6 10
#define DNS_PORT 53
#define NAME_BYTES 256 /* with the lengths of its labels; a power of two above the longest name */
#define MOST_ANSWERS 8 /* that are searched for an address */
#define MOST_LABELS 32 /* of the name of an answer */
#define UDP_HEADER 8
#define LEAST_QUESTION 5 /* bytes */
#define COMPRESSED 0xc0

#define FLAG_RESPONSE 0x8000
#define FLAG_TRUNCATED 0x0200
#define CODE_BITS 0x000f

struct dns_header {
	__be16 id;
	__be16 flags;
	__be16 questions;
	__be16 answers;
	__be16 authorities;
	__be16 additional;
};

/* The head of a record, after its name. */
struct dns_record {
	__be16 type;
	__be16 class;
	__be16 ttl[2];
	__be16 length;
};

struct dns_packet {
	struct scope_address server;
	__u16 server_port;
	__u8 protocol;
	__u32 message; /* offset of the DNS header */
	struct dns_header header;
};

/* The addresses and the protocol. Returns the offset of the transport's header; 0: another kind of packet. */
static __always_inline __u32 read_network(struct __sk_buff *skb, bool sent, struct dns_packet *packet)
{
	struct ipv6hdr six;
	struct iphdr four;
	__u8 first;

	if (bpf_skb_load_bytes(skb, 0, &first, sizeof(first)))
		return 0;
	if (first >> 4 == 4) {
		if (bpf_skb_load_bytes(skb, 0, &four, sizeof(four)))
			return 0;
		packet->protocol = four.protocol;
		packet->server.family = AF_INET;
		__builtin_memcpy(packet->server.bytes, sent ? &four.daddr : &four.saddr, 4);
		return (first & 0xf) * 4;
	}
	if (first >> 4 != 6 || bpf_skb_load_bytes(skb, 0, &six, sizeof(six)))
		return 0;
	packet->protocol = six.nexthdr;
	packet->server.family = AF_INET6;
	__builtin_memcpy(packet->server.bytes, sent ? &six.daddr : &six.saddr, 16);
	return sizeof(six);
}

/* Is this a packet between a client and port 53 that has a DNS message? Of TCP, only messages at its begin are seen. */
static __always_inline bool read_packet(struct __sk_buff *skb, bool sent, struct dns_packet *packet)
{
	__u32 transport = read_network(skb, sent, packet);
	__be16 ports[2];
	__u8 words;

	if (!transport || (packet->protocol != IPPROTO_UDP && packet->protocol != IPPROTO_TCP) ||
	    bpf_skb_load_bytes(skb, transport, ports, sizeof(ports)))
		return false;
	packet->server_port = bpf_ntohs(ports[sent]);
	if (packet->server_port != DNS_PORT)
		return false;
	packet->message = transport + UDP_HEADER;
	if (packet->protocol == IPPROTO_TCP) {
		if (bpf_skb_load_bytes(skb, transport + 12, &words, sizeof(words)))
			return false;
		packet->message = transport + (words >> 4) * 4 + 2; /* the message's length comes before it */
	}
	return !bpf_skb_load_bytes(skb, packet->message, &packet->header, sizeof(packet->header));
}

struct dns_labels {
	char *name;
	__u32 next; /* where the next label's length is */
	__u32 end;  /* where the last one, 0, is */
};

/* Joins labels by dots, in place: at each byte of a name. */
static long join_label(__u32 i, struct dns_labels *labels)
{
	__u64 at = i;
	__u8 length;

	if (i != labels->next)
		return 0;
	barrier_var(at); /* keeps bound and use in one register, as 6.1's verifier requires */
	if (at >= NAME_BYTES)
		return 1;
	length = labels->name[at];
	labels->end = i;
	if (!length)
		return 1;
	labels->next = length < COMPRESSED ? i + length + 1 : NAME_BYTES;
	labels->name[at] = '.';
	return 0;
}

/*
 * Reads the name and type of a question, at an offset. The name's labels are joined in place by dots; it begins at
 * name[1]. Returns the bytes of the question; 0: it is not one.
 */
static __always_inline __u32 read_question(struct __sk_buff *skb, __u32 offset, char *name, __u16 *type)
{
	struct dns_labels labels = {.name = name};
	__u32 there = skb->len - offset;
	__be16 asked;

	if (skb->len <= offset)
		return 0;
	if (there > NAME_BYTES - 1)
		there = NAME_BYTES - 1;
	barrier_var(there); /* 6.1's verifier wants both bounds checked in this register, one after the other */
	if (there > NAME_BYTES - 1)
		return 0;
	barrier_var(there);
	if (there < LEAST_QUESTION || bpf_skb_load_bytes(skb, offset, name, there))
		return 0;
	bpf_loop(NAME_BYTES - 1, join_label, &labels, 0);
	if (labels.end != labels.next || bpf_skb_load_bytes(skb, offset + labels.end + 1, &asked, sizeof(asked)))
		return 0;
	*type = bpf_ntohs(asked);
	return labels.end + 1 + 4;
}

/* The offset after a name; 0: it is not one. */
static __always_inline __u32 skip_name(struct __sk_buff *skb, __u32 offset)
{
	__u8 length;

	for (int i = 0; i < MOST_LABELS; i++) {
		if (bpf_skb_load_bytes(skb, offset, &length, sizeof(length)))
			return 0;
		if (length >= COMPRESSED)
			return offset + 2;
		offset += length + 1;
		if (!length)
			return offset;
	}
	return 0;
}

/* The first address among the answers; its family stays 0 if there is none. */
static __always_inline void read_answer(struct __sk_buff *skb, __u32 offset, __u32 answers, struct scope_address *found)
{
	struct dns_record record;
	__u16 type, length;

	for (__u32 i = 0; i < MOST_ANSWERS; i++) {
		if (i >= answers)
			return;
		offset = skip_name(skb, offset);
		if (!offset || bpf_skb_load_bytes(skb, offset, &record, sizeof(record)))
			return;
		offset += sizeof(record);
		type = bpf_ntohs(record.type);
		length = bpf_ntohs(record.length);
		if (type == TYPE_A && length == 4 && !bpf_skb_load_bytes(skb, offset, found->bytes, 4)) {
			found->family = AF_INET;
			return;
		}
		if (type == TYPE_AAAA && length == 16 && !bpf_skb_load_bytes(skb, offset, found->bytes, 16)) {
			found->family = AF_INET6;
			return;
		}
		offset += length;
	}
}

#endif
