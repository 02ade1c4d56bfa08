/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Makes unwind rows from a file's .eh_frame: for each range of code, where the caller's frame is (unwind.bpf.h).
 * Formats: DWARF 5, 6.4 (call frame information); Linux Standard Base 5, Core, 10.6 (.eh_frame); System V ABI, AMD64
 * supplement (register numbers). The file may be damaged or hostile: every read is checked.
 */
#include <errno.h>
#include <linux/types.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "shim.h"
#include "unwind.h"

#define REG_FP 6 /* rbp */
#define REG_SP 7 /* rsp */
#define REG_IP 16
#define WORD 8
#define MOST_REMEMBERED 16

/* Encodings of pointers. */
#define PE_ABSPTR 0x00
#define PE_UDATA4 0x03
#define PE_UDATA8 0x04
#define PE_SDATA4 0x0b
#define PE_SDATA8 0x0c
#define PE_PCREL 0x10

/* What is read; `ok` becomes false at the end, and stays so. */
struct input {
	const uint8_t *at;
	const uint8_t *end;
	bool ok;
};

static uint64_t number(struct input *in, size_t bytes)
{
	uint64_t value = 0;

	if (!in->ok || (size_t)(in->end - in->at) < bytes) {
		in->ok = false;
		return 0;
	}
	memcpy(&value, in->at, bytes); /* little-endian, like the files */
	in->at += bytes;
	return value;
}

static uint64_t leb128(struct input *in, bool is_signed)
{
	uint64_t value = 0;
	unsigned int shift = 0;
	uint8_t byte;

	do {
		byte = number(in, 1);
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		shift += 7;
	} while (in->ok && byte & 0x80);
	if (is_signed && shift < 64 && byte & 0x40)
		value |= ~0ULL << shift;
	return value;
}

/* Reads a pointer. `address`: of the input's first byte, `begin`. */
static uint64_t pointer(struct input *in, uint8_t encoding, const uint8_t *begin, uint64_t address)
{
	uint64_t here = address + (in->at - begin), value;

	switch (encoding & 0x0f) {
	case PE_ABSPTR:
	case PE_UDATA8:
	case PE_SDATA8:
		value = number(in, 8);
		break;
	case PE_UDATA4:
		value = number(in, 4);
		break;
	case PE_SDATA4:
		value = (int64_t)(int32_t)number(in, 4);
		break;
	default:
		in->ok = false;
		return 0;
	}
	switch (encoding & 0x70) {
	case 0:
		return value;
	case PE_PCREL:
		return value + here;
	default:
		in->ok = false;
		return 0;
	}
}

/* Common information of functions. */
struct common {
	uint64_t code_unit;
	int64_t data_unit;
	uint8_t encoding; /* of code addresses */
	bool has_data;	  /* augmentation data */
	bool is_signal;	  /* the frame of a signal handler's caller */
	struct input program;
};

static struct input part(const uint8_t *at, const uint8_t *end)
{
	return (struct input){.at = at, .end = end, .ok = at <= end};
}

/* Reads a CIE; `in` begins after its id. */
static bool read_common(struct input in, struct common *common, const uint8_t *begin, uint64_t address)
{
	const char *augmentation;
	size_t length;
	uint8_t version = number(&in, 1);

	if (!in.ok || (version != 1 && version != 3))
		return false;
	augmentation = (const char *)in.at;
	length = strnlen(augmentation, in.end - in.at);
	if (length == (size_t)(in.end - in.at))
		return false;
	in.at += length + 1;
	common->code_unit = leb128(&in, false);
	common->data_unit = leb128(&in, true);
	if (version == 1)
		number(&in, 1); /* the register with the return address */
	else
		leb128(&in, false);
	common->encoding = PE_ABSPTR;
	common->has_data = *augmentation == 'z';
	common->is_signal = false;
	if (*augmentation && !common->has_data)
		return false;
	if (common->has_data) {
		uint64_t size = leb128(&in, false);
		struct input data;

		if (!in.ok || size > (uint64_t)(in.end - in.at))
			return false;
		data = part(in.at, in.at + size);
		in.at += size;
		for (augmentation++; *augmentation; augmentation++) {
			if (*augmentation == 'R')
				common->encoding = number(&data, 1);
			else if (*augmentation == 'L')
				number(&data, 1);
			else if (*augmentation == 'P')
				pointer(&data, number(&data, 1) & 0x7f, begin, address);
			else if (*augmentation == 'S')
				common->is_signal = true;
		}
		if (!data.ok)
			return false;
	}
	common->program = in;
	return in.ok;
}

/* The rules at a place in the code. */
struct rules {
	enum unwind_rule rule;
	int64_t cfa; /* offset in bytes, or as the rule says */
	int64_t fp;  /* where the frame pointer is saved, from the CFA; 0: not saved */
	uint64_t cfa_register;
	bool ended;    /* there is no caller */
	bool fp_lost;  /* saved in a way that is not supported */
	bool fp_at_fp; /* saved where the frame pointer points to */
};

struct rows {
	struct unwind_row *rows;
	size_t count;
	size_t room;
	uint64_t base;
	bool failed; /* no memory */
};

static void add_row(struct rows *rows, uint64_t pc, const struct rules *rules)
{
	struct unwind_row row = {.pc = pc - rows->base, .rule = rules->rule};

	if (rows->failed || pc < rows->base || pc - rows->base > UINT32_MAX)
		return;
	if (rules->ended)
		row.rule = UNWIND_END;
	if (row.rule == UNWIND_SP || row.rule == UNWIND_FP || row.rule == UNWIND_FP_AT) {
		if (rules->cfa % WORD || rules->cfa / WORD > INT16_MAX || rules->cfa / WORD < INT16_MIN ||
		    rules->fp % WORD || rules->fp / WORD > INT8_MAX || rules->fp / WORD < INT8_MIN || rules->fp_lost)
			row.rule = UNWIND_UNKNOWN;
		row.cfa = rules->cfa / WORD;
		row.fp = rules->fp_at_fp ? UNWIND_SAVED_AT_FP : rules->fp / WORD;
	} else if (row.rule == UNWIND_PLT) {
		row.cfa = rules->cfa;
	}
	if (row.rule == UNWIND_UNKNOWN)
		row.cfa = row.fp = 0;
	if (rows->count == rows->room) {
		size_t room = rows->room ? rows->room * 2 : 4096;
		struct unwind_row *more = realloc(rows->rows, room * sizeof(*more));

		rows->failed = !more;
		if (!more)
			return;
		rows->rows = more;
		rows->room = room;
	}
	rows->rows[rows->count++] = row;
}

static void set_cfa(struct rules *rules, uint64_t number, int64_t offset)
{
	rules->cfa_register = number;
	rules->cfa = offset;
	rules->rule = number == REG_SP ? UNWIND_SP : number == REG_FP ? UNWIND_FP : UNWIND_UNKNOWN;
}

/*
 * Two expressions are known. Entries of the procedure linkage table push a word on their way, from byte N of 16 on:
 * rsp + 8 + ((rip & 15) >= N) * 8. Functions that align their stack keep the CFA in a word below rbp: *(rbp + N).
 */
static void set_expression(struct rules *rules, struct input in)
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
		rules->cfa = leb128(&in, true);
		if (in.end - in.at == 1 && *in.at == 0x06) /* deref */
			rules->rule = UNWIND_FP_AT;
	}
}

static void set_saved(struct rules *rules, uint64_t number, int64_t offset)
{
	if (number != REG_FP)
		return;
	rules->fp = offset;
	rules->fp_lost = offset >= 0; /* 0 means: not saved */
	rules->fp_at_fp = false;
}

static void restore_fp(struct rules *rules, const struct rules *from)
{
	rules->fp = from->fp;
	rules->fp_lost = from->fp_lost;
	rules->fp_at_fp = from->fp_at_fp;
}

/* A register is saved at the result of an expression; one is known: *(rbp + 0). */
static void set_saved_at(struct rules *rules, uint64_t number, struct input in)
{
	if (number == REG_IP)
		rules->rule = UNWIND_UNKNOWN;
	if (number != REG_FP)
		return;
	rules->fp_at_fp = in.end - in.at == 2 && in.at[0] == 0x70 + REG_FP && !in.at[1]; /* breg6 0 */
	rules->fp_lost = !rules->fp_at_fp;
	rules->fp = 0;
}

static struct input block(struct input *in)
{
	uint64_t size = leb128(in, false);
	struct input found;

	if (!in->ok || size > (uint64_t)(in->end - in->at)) {
		in->ok = false;
		return part(in->at, in->at);
	}
	found = part(in->at, in->at + size);
	in->at += size;
	return found;
}

/* Runs a program of call frame instructions from `pc` on. `rows`: NULL for the common one. */
static bool run(struct input in, const struct common *common, struct rules *rules, const struct rules *first,
		uint64_t pc, uint64_t end, struct rows *rows)
{
	static const struct rules unsaved;
	struct rules remembered[MOST_REMEMBERED];
	size_t depth = 0;

	while (in.ok && in.at < in.end) {
		uint8_t code = number(&in, 1), low = code & 0x3f;
		uint64_t more = 0, which;

		switch (code & 0xc0) {
		case 0x40: /* advance_loc */
			more = low * common->code_unit;
			break;
		case 0x80: /* offset */
			set_saved(rules, low, (int64_t)leb128(&in, false) * common->data_unit);
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
			more = number(&in, 1) * common->code_unit;
			break;
		case 0x03:
			more = number(&in, 2) * common->code_unit;
			break;
		case 0x04:
			more = number(&in, 4) * common->code_unit;
			break;
		case 0x05: /* offset_extended */
			which = leb128(&in, false);
			set_saved(rules, which, (int64_t)leb128(&in, false) * common->data_unit);
			continue;
		case 0x06: /* restore_extended */
			if (leb128(&in, false) == REG_FP)
				restore_fp(rules, first);
			continue;
		case 0x07: /* undefined */
			if (leb128(&in, false) == REG_IP)
				rules->ended = true;
			continue;
		case 0x08: /* same_value */
			if (leb128(&in, false) == REG_FP)
				restore_fp(rules, &unsaved);
			continue;
		case 0x09: /* register */
			if (leb128(&in, false) == REG_FP)
				rules->fp_lost = true;
			leb128(&in, false);
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
			which = leb128(&in, false);
			set_cfa(rules, which, leb128(&in, false));
			continue;
		case 0x0d: /* def_cfa_register */
			set_cfa(rules, leb128(&in, false), rules->cfa);
			continue;
		case 0x0e: /* def_cfa_offset */
			set_cfa(rules, rules->cfa_register, leb128(&in, false));
			continue;
		case 0x0f: /* def_cfa_expression */
			set_expression(rules, block(&in));
			continue;
		case 0x10: /* expression */
			which = leb128(&in, false);
			set_saved_at(rules, which, block(&in));
			continue;
		case 0x16: /* val_expression */
			which = leb128(&in, false);
			block(&in);
			rules->fp_lost |= which == REG_FP;
			if (which == REG_IP)
				rules->rule = UNWIND_UNKNOWN;
			continue;
		case 0x11: /* offset_extended_sf */
			which = leb128(&in, false);
			set_saved(rules, which, (int64_t)leb128(&in, true) * common->data_unit);
			continue;
		case 0x12: /* def_cfa_sf */
			which = leb128(&in, false);
			set_cfa(rules, which, (int64_t)leb128(&in, true) * common->data_unit);
			continue;
		case 0x13: /* def_cfa_offset_sf */
			set_cfa(rules, rules->cfa_register, (int64_t)leb128(&in, true) * common->data_unit);
			continue;
		case 0x2e: /* GNU_args_size */
			leb128(&in, false);
			continue;
		default:
			if (code & 0xc0)
				break;
			return false;
		}
		if (rows && more) {
			add_row(rows, pc, rules);
			pc += more;
			if (pc >= end)
				return in.ok;
		}
	}
	if (rows)
		add_row(rows, pc, rules);
	return in.ok;
}

/* Adds the rows of one function; `in` begins after the pointer to its CIE. */
static void read_function(struct input in, const struct common *common, const uint8_t *begin, uint64_t address,
			  struct rows *rows)
{
	uint64_t start = pointer(&in, common->encoding, begin, address);
	uint64_t size = pointer(&in, common->encoding & 0x0f, begin, address);
	struct rules rules = {}, first, none = {.rule = UNWIND_UNKNOWN};
	size_t count = rows->count;

	if (common->has_data)
		block(&in);
	if (!in.ok || !size || start + size < start)
		return;
	if (common->is_signal) {
		rules.rule = UNWIND_SIGNAL;
		add_row(rows, start, &rules);
	} else {
		if (!run(common->program, common, &rules, &none, 0, 0, NULL))
			return;
		first = rules;
		if (!run(in, common, &rules, &first, start, start + size, rows)) {
			rows->count = count;
			add_row(rows, start, &none);
		}
	}
	add_row(rows, start + size, &none);
}

static int compare(const void *a, const void *b)
{
	const struct unwind_row *left = a, *right = b;

	if (left->pc != right->pc)
		return left->pc < right->pc ? -1 : 1;
	return (left->rule == UNWIND_UNKNOWN) -
	       (right->rule == UNWIND_UNKNOWN); /* a function's begin wins over an end */
}

/* Sorts, and leaves out rows that say nothing new. */
static void tidy(struct rows *rows)
{
	size_t kept = 0;
	uint32_t pc = 0;

	qsort(rows->rows, rows->count, sizeof(*rows->rows), compare);
	for (size_t i = 0; i < rows->count; i++) {
		struct unwind_row *row = &rows->rows[i], *last = kept ? &rows->rows[kept - 1] : NULL;
		bool is_second = i && row->pc == pc;

		pc = row->pc;
		if (is_second)
			continue;
		if (last && last->rule == row->rule && last->cfa == row->cfa && last->fp == row->fp)
			continue;
		rows->rows[kept++] = *row;
	}
	rows->count = kept;
}

/*
 * section: `size` bytes of .eh_frame, at `address` in the file's memory. Addresses in the rows are from `base` on. Sets
 * `found` to the rows, which the caller frees, and returns their number, or -ENOMEM. What is damaged is left out.
 */
int64_t scope_unwind_rows(const uint8_t *section, size_t size, uint64_t address, uint64_t base,
			  struct unwind_row **found)
{
	struct rows rows = {.base = base};
	struct input all = part(section, section + size);
	const uint8_t *known_at = NULL;
	struct common known;
	bool known_ok = false;

	while (all.ok && all.at < all.end) {
		uint64_t length = number(&all, 4);
		const uint8_t *id_at, *common_at;
		struct input entry, other;
		uint32_t id;

		if (length == 0xffffffff)
			length = number(&all, 8);
		if (!all.ok || !length || length > (uint64_t)(all.end - all.at))
			break;
		entry = part(all.at, all.at + length);
		all.at += length;
		id_at = entry.at;
		id = number(&entry, 4);
		if (!entry.ok || !id) /* a CIE is read when a function refers to it */
			continue;
		if (id > (uint64_t)(id_at - section))
			continue;
		common_at = id_at - id;
		if (common_at != known_at) {
			other = part(common_at, section + size);
			length = number(&other, 4);
			if (length == 0xffffffff)
				length = number(&other, 8);
			known_ok = other.ok && length <= (uint64_t)(other.end - other.at);
			if (known_ok) {
				other.end = other.at + length;
				known_ok = !number(&other, 4) && read_common(other, &known, section, address);
			}
			known_at = common_at;
		}
		if (known_ok)
			read_function(entry, &known, section, address, &rows);
	}
	if (rows.failed) {
		free(rows.rows);
		return -ENOMEM;
	}
	if (rows.count)
		tidy(&rows);
	*found = rows.rows;
	return rows.count;
}
