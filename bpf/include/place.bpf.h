/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * The places in user space that a probe is attached to. Each has a number, which is its cookie; what the programs need
 * to know of it is data, filled in by user space when it attaches; and each has books of its own.
 */
#ifndef SCOPE_PLACE_BPF_H
#define SCOPE_PLACE_BPF_H

#include "code.bpf.h" /* by which user space tells files apart */

/* The books of a place. */
struct scope_place_account {
	__u64 hits; /* calls by watched threads, lost ones included */
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
 * Declares the map `places`: what user space says of each place, a `struct NAME_place` of the probe's own, found by
 * `place_numbered`. A probe that needs the number alone does without.
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

/* Counts a call, whatever becomes of it. */
static __always_inline void scope_count_hit(__u32 place)
{
	struct scope_place_account *account = bpf_map_lookup_elem(&scope_place_accounts, &place);

	if (account)
		__sync_fetch_and_add(&account->hits, 1);
}

/* A call that was counted becomes no row, of the stream that it would have been one of. A function, for it is rare. */
static __noinline int scope_lose_hit(__u32 place, __u32 stream, enum scope_loss reason)
{
	struct scope_place_account *account = bpf_map_lookup_elem(&scope_place_accounts, &place);

	if (account)
		__sync_fetch_and_add(&account->lost[reason], 1);
	scope_count_loss(stream, reason);
	return 0;
}

#define SCOPE_NO_STREAM 0xffff /* of places whose calls become no rows: what is lost is lost at the place only */

#endif
