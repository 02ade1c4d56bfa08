/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Runs call frame instructions: from where to where in a function which rules hold. Formats: DWARF 5, 6.4; System V
 * ABI, AMD64 supplement (register numbers).
 */
#include <string.h>

#include "frame_rules.h"

#define REG_FP 6 /* rbp */
#define REG_SP 7 /* rsp */
#define REG_IP 16
#define MOST_REMEMBERED 16

static void set_cfa(struct frame_rules *rules, uint64_t number, int64_t offset)
{
	rules->cfa_register = number;
	rules->cfa = offset;
	rules->rule = number == REG_SP ? UNWIND_SP : number == REG_FP ? UNWIND_FP : UNWIND_UNKNOWN;
}

/*
 * Two expressions are known. Entries of the procedure linkage table push a word on their way, from byte N of 16 on:
 * rsp + 8 + ((rip & 15) >= N) * 8. Functions that align their stack keep the CFA in a word below rbp: *(rbp + N).
 */
static void set_expression(struct frame_rules *rules, struct eh_input in)
{
	static const uint8_t before[] = {0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a}; /* breg7 8; breg16 0; lit15; and */
	static const uint8_t after[] = {0x2a, 0x33, 0x24, 0x22};	      /* ge; lit3; shl; plus */
	size_t size = in.end - in.at;

	rules->rule = UNWIND_UNKNOWN;
	if (size == sizeof(before) + 1 + sizeof(after) && !memcmp(in.at, before, sizeof(before)) &&
	    !memcmp(in.end - sizeof(after), after, sizeof(after))) {
		rules->rule = UNWIND_PLT;
		rules->cfa = in.at[sizeof(before)] - 0x30; /* lit0 */
	} else if (size && *in.at == 0x70 + REG_FP) {	   /* breg6 */
		in.at++;
		rules->cfa = eh_leb128(&in, true);
		if (in.end - in.at == 1 && *in.at == 0x06) /* deref */
			rules->rule = UNWIND_FP_AT;
	}
}

static void set_saved(struct frame_rules *rules, uint64_t number, int64_t offset)
{
	if (number != REG_FP)
		return;
	rules->fp = offset;
	rules->fp_lost = offset >= 0; /* 0 means: not saved */
	rules->fp_at_fp = false;
}

static void restore_fp(struct frame_rules *rules, const struct frame_rules *from)
{
	rules->fp = from->fp;
	rules->fp_lost = from->fp_lost;
	rules->fp_at_fp = from->fp_at_fp;
}

/* A register is saved at the result of an expression; one is known: *(rbp + 0). */
static void set_saved_at(struct frame_rules *rules, uint64_t number, struct eh_input in)
{
	if (number == REG_IP)
		rules->rule = UNWIND_UNKNOWN;
	if (number != REG_FP)
		return;
	rules->fp_at_fp = in.end - in.at == 2 && in.at[0] == 0x70 + REG_FP && !in.at[1]; /* breg6 0 */
	rules->fp_lost = !rules->fp_at_fp;
	rules->fp = 0;
}

static int64_t scaled(uint64_t number, const struct eh_common *common)
{
	return number * (uint64_t)common->data_unit; /* may be any number, and overflow */
}

/* Runs instructions from `pc` on. `add`: NULL for those of a CIE. */
static bool run(struct eh_input in, const struct eh_common *common, struct frame_rules *rules,
		const struct frame_rules *first, uint64_t pc, uint64_t end, frame_rules_from add, void *table)
{
	static const struct frame_rules unsaved;
	struct frame_rules remembered[MOST_REMEMBERED];
	size_t depth = 0;

	while (in.ok && in.at < in.end) {
		uint8_t code = eh_number(&in, 1), low = code & 0x3f;
		uint64_t more = 0, which;

		switch (code & 0xc0) {
		case 0x40: /* advance_loc */
			more = low * common->code_unit;
			break;
		case 0x80: /* offset */
			set_saved(rules, low, scaled(eh_leb128(&in, false), common));
			continue;
		case 0xc0: /* restore */
			if (low == REG_FP)
				restore_fp(rules, first);
			continue;
		}
		switch (code) {
		case 0x00: /* nop */
			continue;
		case 0x01: /* set_loc */
			return false;
		case 0x02: /* advance_loc1 */
			more = eh_number(&in, 1) * common->code_unit;
			break;
		case 0x03:
			more = eh_number(&in, 2) * common->code_unit;
			break;
		case 0x04:
			more = eh_number(&in, 4) * common->code_unit;
			break;
		case 0x05: /* offset_extended */
			which = eh_leb128(&in, false);
			set_saved(rules, which, scaled(eh_leb128(&in, false), common));
			continue;
		case 0x06: /* restore_extended */
			if (eh_leb128(&in, false) == REG_FP)
				restore_fp(rules, first);
			continue;
		case 0x07: /* undefined */
			if (eh_leb128(&in, false) == REG_IP)
				rules->ended = true;
			continue;
		case 0x08: /* same_value */
			if (eh_leb128(&in, false) == REG_FP)
				restore_fp(rules, &unsaved);
			continue;
		case 0x09: /* register */
			if (eh_leb128(&in, false) == REG_FP)
				rules->fp_lost = true;
			eh_leb128(&in, false);
			continue;
		case 0x0a: /* remember_state */
			if (depth == MOST_REMEMBERED)
				return false;
			remembered[depth++] = *rules;
			continue;
		case 0x0b: /* restore_state */
			if (!depth)
				return false;
			*rules = remembered[--depth];
			continue;
		case 0x0c: /* def_cfa */
			which = eh_leb128(&in, false);
			set_cfa(rules, which, eh_leb128(&in, false));
			continue;
		case 0x0d: /* def_cfa_register */
			set_cfa(rules, eh_leb128(&in, false), rules->cfa);
			continue;
		case 0x0e: /* def_cfa_offset */
			set_cfa(rules, rules->cfa_register, eh_leb128(&in, false));
			continue;
		case 0x0f: /* def_cfa_expression */
			set_expression(rules, eh_block(&in));
			continue;
		case 0x10: /* expression */
			which = eh_leb128(&in, false);
			set_saved_at(rules, which, eh_block(&in));
			continue;
		case 0x16: /* val_expression */
			which = eh_leb128(&in, false);
			eh_block(&in);
			rules->fp_lost |= which == REG_FP;
			if (which == REG_IP)
				rules->rule = UNWIND_UNKNOWN;
			continue;
		case 0x11: /* offset_extended_sf */
			which = eh_leb128(&in, false);
			set_saved(rules, which, scaled(eh_leb128(&in, true), common));
			continue;
		case 0x12: /* def_cfa_sf */
			which = eh_leb128(&in, false);
			set_cfa(rules, which, scaled(eh_leb128(&in, true), common));
			continue;
		case 0x13: /* def_cfa_offset_sf */
			set_cfa(rules, rules->cfa_register, scaled(eh_leb128(&in, true), common));
			continue;
		case 0x2e: /* GNU_args_size */
			eh_leb128(&in, false);
			continue;
		default:
			if (code & 0xc0)
				break;
			return false;
		}
		if (add && more) {
			add(table, pc, rules);
			if (more >= end - pc)
				return in.ok;
			pc += more;
		}
	}
	if (add)
		add(table, pc, rules);
	return in.ok;
}

/* The rules at the begin of functions with this CIE. Returns false if they are not known. */
bool frame_rules_begin(const struct eh_common *common, struct frame_rules *rules)
{
	static const struct frame_rules none = {.rule = UNWIND_UNKNOWN};

	*rules = none;
	return run(common->program, common, rules, &none, 0, 0, NULL, NULL);
}

/* Tells `add` the rules in a function, in order of address. Returns false if they are not known. */
bool frame_rules_run(const struct eh_function *function, const struct frame_rules *first, frame_rules_from add,
		     void *table)
{
	struct frame_rules rules = *first;

	return run(function->program, function->common, &rules, first, function->start,
		   function->start + function->size, add, table);
}
