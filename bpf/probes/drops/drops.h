/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_DROPS_H
#define SCOPE_DROPS_H

#define DROPS_DEVICE_SIZE 16 /* IFNAMSIZ */

/* Below 256: IP protocols (include/uapi/linux/in.h); above: EtherTypes of packets without IP (if_ether.h). */
enum drop_protocol {
	PROTOCOL_UNKNOWN = 0,
	PROTOCOL_ICMP = 1,
	PROTOCOL_IGMP = 2,
	PROTOCOL_IPIP = 4,
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
	PROTOCOL_IPV6 = 41,
	PROTOCOL_GRE = 47,
	PROTOCOL_ESP = 50,
	PROTOCOL_AH = 51,
	PROTOCOL_ICMPV6 = 58,
	PROTOCOL_SCTP = 132,
	PROTOCOL_ARP = 0x0806,
	PROTOCOL_LLDP = 0x88cc,
};

struct drop_event {
	struct scope_header header;
	__u64 location; /* the address that the function which dropped the packet returns to */
	struct scope_address source;
	struct scope_address destination;
	__u32 reason_number; /* the kernel's number; 0: the kernel tells none */
	__u32 netns;	     /* 0: unknown */
	__u32 ifindex;	     /* 0: unknown */
	__u32 bytes;
	enum drop_protocol protocol;
	__u16 source_port;
	__u16 destination_port;
	char device[DROPS_DEVICE_SIZE];
	__u8 has_ports;
	__u8 pad[7];
};

struct drop_summary_key {
	struct scope_process process;
	__u64 location;
	__u32 reason_number;
	__u32 netns;
	__u32 ifindex;
	enum drop_protocol protocol;
	char device[DROPS_DEVICE_SIZE];
};

struct drop_summary_value {
	__u64 count;
	__u64 bytes;
};

#endif
