/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Reads what a place keeps of a call: arguments, memory they point to, and the returned value. */
#ifndef SCOPE_SPAN_KEEP_BPF_H
#define SCOPE_SPAN_KEEP_BPF_H

#define SPAN_STEPS 4
#define SPAN_TEXT 256 /* bytes, including the NUL */

/* Where a kept value comes from; smaller numbers are arguments. */
enum span_source {
	SPAN_RESULT = CALL_ARGUMENTS,
	SPAN_NOTHING,
};

SCOPE_SHARED(enum, span_source);

/* One kept value: begins as an argument or the result, then follows pointers. */
struct span_kept {
	__u8 source;
	__u8 steps; /* pointers to follow: the value is at offset i from the value before */
	__u8 size;  /* bytes of the value at the last pointer */
	__u8 pad;
	__s32 offset[SPAN_STEPS];
};

/* What is kept of the calls at a place: numbers, and at most one text. */
struct span_place {
	struct span_kept value[SPAN_VALUES];
	struct span_kept text;
	__u8 arguments; /* number of arguments to read; of a USDT probe, all are read */
	__u8 pad[3];
};

SCOPE_PLACES(struct span_place);

/* Reads the value that begins with `from`. Returns whether all pointers on its way were readable. */
static __noinline bool follow(const struct span_kept *kept, __u64 from, __u64 *value)
{
	if (!kept || !value)
		return false;
	for (__u32 i = 0; i < SPAN_STEPS && i < kept->steps; i++) {
		__u64 next = 0;
		__u32 size = i + 1 < kept->steps ? sizeof(next) : kept->size;

		if (size > sizeof(next))
			size = sizeof(next);
		if (bpf_probe_read_user(&next, size, (void *)(from + kept->offset[i])))
			return false;
		from = next;
	}
	*value = from;
	return true;
}

#endif
