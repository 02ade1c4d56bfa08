/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * USDT probes. A place of such a probe may have many sites, each with its arguments elsewhere: in a register, in
 * memory, or constant. User space reads the notes of the file and fills in the map; the high half of the cookie is the
 * number of the site's entry there, the low half is the place's number.
 */
#ifndef SCOPE_USDT_BPF_H
#define SCOPE_USDT_BPF_H

#include "place.bpf.h"

#define USDT_ARGUMENTS 12 /* the most that <sys/sdt.h> has */

enum usdt_kind {
	USDT_ABSENT, /* it cannot be read, for example from a floating-point register */
	USDT_CONSTANT,
	USDT_REGISTER,
	USDT_MEMORY,
};

SCOPE_SHARED(enum, usdt_kind);

#define USDT_NO_REGISTER 0xffff

/* Where an argument is. */
struct usdt_argument {
	__s64 number; /* the constant, or what is added to the address */
	__u16 base;   /* offset of a register in struct pt_regs */
	__u16 index;  /* likewise; its value times 2^scale is added to the address */
	__u8 kind;
	__u8 scale; /* of a register: its value is shifted right by so many bits */
	__u8 size;  /* bytes */
	__u8 is_signed;
};

struct usdt_site {
	struct usdt_argument argument[USDT_ARGUMENTS];
};

/* Sites with the same arguments share an entry. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* replaced at load */
	__type(key, __u32);
	__type(value, struct usdt_site);
} usdt_sites SEC(".maps");

static __always_inline const struct usdt_site *usdt_site(__u64 cookie)
{
	__u32 number = cookie >> 32;

	return bpf_map_lookup_elem(&usdt_sites, &number);
}

static __always_inline __u64 register_at(struct pt_regs *ctx, __u16 offset)
{
	__u64 value = 0;

	if (offset != USDT_NO_REGISTER)
		bpf_probe_read_kernel(&value, sizeof(value), (void *)ctx + offset);
	return value;
}

/* Reads an argument, extended to 64 bits by its sign if it has one. Returns whether it could be read. */
static __noinline bool usdt_read(struct pt_regs *ctx, const struct usdt_argument *argument, __u64 *value)
{
	__u64 found[2] = {}, at; /* two, so that a mask is enough for the verifier of 6.1 to know the bound */
	__u32 size, unused;

	if (!argument || !value)
		return false;
	size = argument->size & 15;
	if (argument->kind == USDT_CONSTANT) {
		found[0] = argument->number;
	} else if (argument->kind == USDT_REGISTER) {
		found[0] = register_at(ctx, argument->base) >> (argument->scale & 63);
	} else if (argument->kind == USDT_MEMORY) {
		at = register_at(ctx, argument->base) + argument->number;
		at += register_at(ctx, argument->index) << (argument->scale & 63);
		barrier_var(size);
		if (bpf_probe_read_user(found, size & 15, (void *)at))
			return false;
	} else {
		return false;
	}
	unused = (64 - 8 * size) & 63;
	*value = argument->is_signed ? (__u64)((__s64)(found[0] << unused) >> unused) : found[0] << unused >> unused;
	return true;
}

#endif
