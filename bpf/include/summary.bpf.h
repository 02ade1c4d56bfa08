/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Summaries: counts, sums and histograms per key, kept in the kernel and read once per interval. User space puts an
 * empty map into the slot. The update of a map in maps waits until no program uses the old map; then user space reads
 * the old map. So no event is missed or counted twice.
 *
 * The maps are preallocated, because allocation on demand fails in bursts of events before a map is full. All CPUs
 * share them, because copies for each CPU would take gigabytes on a large host.
 */
#ifndef SCOPE_SUMMARY_BPF_H
#define SCOPE_SUMMARY_BPF_H

bool scope_summarize SEC(".data.mode"); /* summaries instead of events; may change while the programs run */

/*
 * Declares the slot for the map `NAME`, from struct NAME_key to struct NAME_value, whose members are all __u64. NAME is
 * also the stream's name. NAME_first only defines the type of map; user space creates the maps that are used.
 */
#define SCOPE_SUMMARY(name)                                                                                            \
	struct name##_inner {                                                                                          \
		__uint(type, BPF_MAP_TYPE_HASH);                                                                       \
		__uint(max_entries, 1);                                                                                \
		__type(key, struct name##_key);                                                                        \
		__type(value, struct name##_value);                                                                    \
	} name##_first SEC(".maps");                                                                                   \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);                                                              \
		__uint(max_entries, 1);                                                                                \
		__type(key, __u32);                                                                                    \
		__array(values, struct name##_inner);                                                                  \
	} name SEC(".maps")                                                                                            \
	= {.values = {&name##_first}};                                                                                 \
	const volatile __u16 stream_##name;                                                                            \
	static const struct name##_value name##_zero;                                                                  \
	static __always_inline struct name##_value *name##_slot(const struct name##_key *key)                          \
	{                                                                                                              \
		return scope_summary_slot(&name, key, &name##_zero, stream_##name);                                    \
	}

/*
 * Declares the map `NAME` of a lasting state, from struct NAME_key to struct NAME_value. User space reads it once per
 * interval, in every mode, and deletes ended states.
 */
#define SCOPE_GAUGE(name, entries)                                                                                     \
	struct {                                                                                                       \
		__uint(type, BPF_MAP_TYPE_HASH);                                                                       \
		__uint(max_entries, entries);                                                                          \
		__uint(map_flags, BPF_F_NO_PREALLOC);                                                                  \
		__type(key, struct name##_key);                                                                        \
		__type(value, struct name##_value);                                                                    \
	} name SEC(".maps");                                                                                           \
	const volatile __u16 stream_##name

/* Makes an entry, unless another CPU just has, and returns it. NULL: the map is full, which is counted as a loss. */
static __always_inline void *scope_insert(void *map, const void *key, const void *first, __u16 stream)
{
	void *value;

	bpf_map_update_elem(map, key, first, BPF_NOEXIST);
	value = bpf_map_lookup_elem(map, key);
	if (!value)
		scope_count_loss(stream, SCOPE_LOST_MAP_FULL);
	return value;
}

static __always_inline void *scope_summary_slot(void *slots, const void *key, const void *zero, __u16 stream)
{
	__u32 first = 0;
	void *map = bpf_map_lookup_elem(slots, &first), *value;

	if (!map)
		return NULL;
	value = bpf_map_lookup_elem(map, key);
	return value ? value : scope_insert(map, key, zero, stream);
}

/* floor(log2(value)), in steps that the verifier of every kernel accepts. */
static __always_inline __u32 scope_log2(__u64 value)
{
	__u32 shift, log = 0;

	shift = (value > 0xffffffff) << 5;
	value >>= shift;
	log |= shift;
	shift = (value > 0xffff) << 4;
	value >>= shift;
	log |= shift;
	shift = (value > 0xff) << 3;
	value >>= shift;
	log |= shift;
	shift = (value > 0xf) << 2;
	value >>= shift;
	log |= shift;
	shift = (value > 0x3) << 1;
	value >>= shift;
	log |= shift;
	return log | (value >> 1);
}

/* Additions are atomic: an interrupt may count in the same slot in between. */
static __always_inline void scope_histogram_add(struct scope_histogram *histogram, __u64 ns)
{
	__u32 bucket = scope_log2(ns);

	barrier_var(bucket); /* keeps bound check and use in one register, as 6.1's verifier requires */
	if (bucket >= SCOPE_HISTOGRAM_BUCKETS)
		bucket = SCOPE_HISTOGRAM_BUCKETS - 1;
	__sync_fetch_and_add(&histogram->bucket[bucket], 1);
}

#endif
