/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include <bpf/bpf_endian.h>

#include "datagrams.h"

#define AF_INET 2
#define AF_INET6 10
#define UDP 17

SCOPE_STREAM(datagram);

/* Runs when a process sends a packet of its own, before a device has it. */
SEC("tp_btf/net_dev_queue")
int BPF_PROG(datagram_sent, struct sk_buff *packet)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u8 *network = packet->head + packet->network_header, *transport = packet->head + packet->transport_header;
	struct datagram_event *event;
	__u8 first = 0, protocol = 0;
	bool six;
	__u16 port;

	if (!scope_passes(task))
		return 0;
	bpf_probe_read_kernel(&first, sizeof(first), network);
	six = first >> 4 == 6;
	bpf_probe_read_kernel(&protocol, sizeof(protocol), network + (six ? 6 : 9));
	if (protocol != UDP)
		return 0;
	event = scope_reserve(task, stream_datagram, bpf_ktime_get_boot_ns(), sizeof(*event));
	if (!event)
		return 0;
	event->source.family = event->destination.family = six ? AF_INET6 : AF_INET;
	bpf_probe_read_kernel(event->source.bytes, 16, network + (six ? 8 : 12)); /* of IPv4, more than the address */
	bpf_probe_read_kernel(event->destination.bytes, 16, network + (six ? 24 : 16));
	bpf_probe_read_kernel(&port, sizeof(port), transport + 2);
	event->port = bpf_ntohs(port);
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_datagram, sizeof(*event));
	return 0;
}
