/* SPDX-License-Identifier: GPL-3.0-or-later */
/* Runs call frame instructions, see frame_rules.c. */
#ifndef SCOPE_FRAME_RULES_H
#define SCOPE_FRAME_RULES_H

#include <linux/types.h>

#include "eh_frame.h"
#include "unwind.h"

/* The rules at a place in the code. */
struct frame_rules {
	enum unwind_rule rule;
	int64_t cfa; /* offset in bytes, or as the rule says */
	int64_t fp;  /* where the frame pointer is saved, from the CFA; 0: not saved */
	uint64_t cfa_register;
	bool ended;    /* there is no caller */
	bool fp_lost;  /* saved in a way that is not supported */
	bool fp_at_fp; /* saved where the frame pointer points to */
};

/* Is told the rules that hold from an address on. */
typedef void (*frame_rules_from)(void *table, uint64_t pc, const struct frame_rules *rules);

bool frame_rules_begin(const struct eh_common *common, struct frame_rules *rules);
bool frame_rules_run(const struct eh_function *function, const struct frame_rules *first, frame_rules_from add,
		     void *table);

#endif
