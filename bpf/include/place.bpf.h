/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The places in user space that a probe is attached to. Each place has a number, which is its cookie; data for the
 * programs, which user space fills in before attaching; and its own counts.
 */
#ifndef SCOPE_PLACE_BPF_H
#define SCOPE_PLACE_BPF_H

#include "code.bpf.h" /* user space uses it to identify files */

/* The counts of a place. */
struct scope_place_account {
	__u64 hits; /* calls by watched threads, including lost calls */
	__u64 lost[SCOPE_LOSS_REASONS];
};

/* By place and CPU. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1); /* replaced at load */
	__type(key, __u32);
	__type(value, struct scope_place_account);
} scope_place_accounts SEC(".maps");

/*
 * Declares the map `places` with the data of each place, a `struct NAME_place` defined by the probe; `place_numbered`
 * finds it. A probe that only needs the number does not declare it.
 */
#define SCOPE_PLACES(descriptor)                                                                                       \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY);                                                                      \
		__uint(max_entries, 1); /* replaced at load */                                                         \
		__type(key, __u32);                                                                                    \
		__type(value, descriptor);                                                                             \
	} places SEC(".maps");                                                                                         \
	static __always_inline const descriptor *place_numbered(__u32 number)                                          \
	{                                                                                                              \
		return bpf_map_lookup_elem(&places, &number);                                                          \
	}

/* Counts a call, lost or not. */
static __always_inline void scope_count_hit(__u32 place)
{
	struct scope_place_account *account = bpf_map_lookup_elem(&scope_place_accounts, &place);

	if (account)
		__sync_fetch_and_add(&account->hits, 1);
}

/* Counts the loss of a counted call, for the place and for its stream. Not inlined, since it is rare. */
static __noinline int scope_lose_hit(__u32 place, __u32 stream, enum scope_loss reason)
{
	struct scope_place_account *account = bpf_map_lookup_elem(&scope_place_accounts, &place);

	if (account)
		__sync_fetch_and_add(&account->lost[reason], 1);
	scope_count_loss(stream, reason);
	return 0;
}

#define SCOPE_NO_STREAM 0xffff /* for places whose calls make no rows: losses are counted only for the place */

#endif
