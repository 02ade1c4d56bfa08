/* SPDX-License-Identifier: GPL-2.0-or-later */
#include "scope.bpf.h"

#include "address.bpf.h"
#include "owner.bpf.h"

#include "drops.h"

#include "packet.bpf.h"

SCOPE_STREAM(drop);
SCOPE_SUMMARY(drop_summary)

/* Connections that a listener gets begin with the listener's owner. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC | BPF_F_CLONE);
	__type(key, int);
	__type(value, struct scope_owner);
} sockets SEC(".maps");

static __always_inline void own(void *socket, struct task_struct *task)
{
	struct scope_owner *owner = scope_new_socket(&sockets, socket);

	if (owner && !scope_is_owner(owner, task))
		scope_own(owner, task);
}

/* In socket(). Misses connections that are accepted, and sockets of the kernel. */
SEC("cgroup/sock_create")
int drops_created(struct bpf_sock *ctx)
{
	own(ctx, bpf_get_current_task_btf());
	return 1;
}

/* In every call that sends: a socket may be used by another process than the one that made it. Since 6.3. */
SEC("tp_btf/sock_send_length")
int BPF_PROG(drops_sent, struct sock *sk)
{
	own(sk, bpf_get_current_task_btf());
	return 0;
}

/* In every call that receives. */
SEC("tp_btf/sock_recv_length")
int BPF_PROG(drops_received, struct sock *sk)
{
	own(sk, bpf_get_current_task_btf());
	return 0;
}

/* Visits the open sockets of all processes: those of before the trace. */
SEC("iter/task_file")
int drops_find(struct bpf_iter__task_file *ctx)
{
	struct task_struct *task = ctx->task;
	struct scope_owner *owner;
	struct sock *sk = scope_visited_socket(ctx);

	if (!task || !sk)
		return 0;
	owner = scope_new_socket(&sockets, sk);
	if (owner && owner->state == SCOPE_OWNER_UNKNOWN)
		scope_own(owner, task);
	return 0;
}

static __always_inline void emit(struct sk_buff *skb, const struct drops_packet *packet, struct sock *sk,
				 const struct scope_owner *owner, __u64 location, __u32 reason)
{
	struct drop_event *event = scope_reserve_owned(owner, stream_drop, bpf_ktime_get_boot_ns(), sizeof(*event));

	if (!event)
		return;
	event->location = location;
	event->source = packet->source;
	event->destination = packet->destination;
	event->reason_number = reason;
	event->netns = read_device(skb, sk, &event->ifindex, event->device);
	event->bytes = BPF_CORE_READ(skb, len);
	event->protocol = packet->protocol;
	event->source_port = packet->source_port;
	event->destination_port = packet->destination_port;
	event->has_ports = packet->has_ports;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_drop, sizeof(*event));
}

static __always_inline void count(struct sk_buff *skb, const struct drops_packet *packet, struct sock *sk,
				  const struct scope_owner *owner, __u64 location, __u32 reason)
{
	struct drop_summary_key key = {.location = location, .reason_number = reason, .protocol = packet->protocol};
	struct drop_summary_value *value;

	if (owner->state == SCOPE_OWNER_KNOWN) {
		key.process.start_ns = owner->whose.start_ns;
		key.process.cgroup_id = owner->whose.cgroup_id;
		key.process.pid = owner->whose.pid;
		key.process.uid = owner->whose.uid;
		__builtin_memcpy(key.process.comm, owner->whose.comm, sizeof(key.process.comm));
	}
	key.netns = read_device(skb, sk, &key.ifindex, key.device);
	value = drop_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->count, 1);
	__sync_fetch_and_add(&value->bytes, BPF_CORE_READ(skb, len));
}

/*
 * Runs for each packet that the kernel drops, mostly in an interrupt. The socket is the one that the packet was for, or
 * the one that sends it. Misses packets that a device drops before the kernel has them, and those that XDP drops.
 */
SEC("tp_btf/kfree_skb")
int BPF_PROG(drops_dropped, struct sk_buff *skb, void *location)
{
	static struct scope_owner nobody;
	struct scope_owner *owner = NULL;
	struct drops_packet packet = {};
	struct sock *receiver = drop_receiver(ctx), *sender = skb->sk;
	struct sock *sk = receiver ? receiver : sender;

	if (!read_packet(&packet, skb, sk))
		return 0;
	if (receiver)
		owner = bpf_sk_storage_get(&sockets, receiver, 0, 0);
	else if (sender)
		owner = bpf_sk_storage_get(&sockets, sender, 0, 0);
	if (!owner)
		owner = &nobody;
	if (!scope_owner_passes(owner))
		return 0;
	if (scope_summarize)
		count(skb, &packet, sk, owner, (__u64)location, drop_reason(ctx));
	else
		emit(skb, &packet, sk, owner, (__u64)location, drop_reason(ctx));
	return 0;
}
