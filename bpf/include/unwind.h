/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Rows of unwind tables. The extension makes them from a file's .eh_frame; BPF programs look them up. */
#ifndef SCOPE_UNWIND_H
#define SCOPE_UNWIND_H

/* How the caller's frame is found: from the CFA, the stack pointer's value before the call. */
enum unwind_rule {
	UNWIND_UNKNOWN, /* not at all */
	UNWIND_SP,	/* CFA: stack pointer + cfa words */
	UNWIND_FP,	/* CFA: frame pointer + cfa words */
	UNWIND_FP_AT,	/* CFA: the word at the frame pointer + cfa words */
	UNWIND_PLT,	/* CFA: stack pointer + 8; 16 from byte `cfa` of a linkage table's entry on */
	UNWIND_SIGNAL,	/* the stack pointer points to a struct ucontext */
	UNWIND_END,	/* there is no caller */
};

#define UNWIND_SAVED_AT_FP 1 /* instead of an offset from the CFA: the frame pointer points to the caller's */

/* The rule from an instruction on, until the next row's. */
struct unwind_row {
	__u32 pc; /* from the address of the file's first segment on */
	__s16 cfa;
	__u8 rule; /* enum unwind_rule */
	__s8 fp;   /* where the caller's frame pointer is saved, in words from the CFA; 0: it was not changed */
};

#endif
