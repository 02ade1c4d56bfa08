/* SPDX-License-Identifier: GPL-3.0-or-later */
/*
 * Makes tables from a file's .eh_frame: for each range of code, where the caller's frame is (unwind.bpf.h); and where
 * functions begin and end.
 */
#include <errno.h>
#include <stdlib.h>

#include "frame_rules.h"
#include "shim.h"

#define WORD 8
#define MOST_ROWS (1 << 25) /* before tidying: 256 MB */

struct rows {
	struct unwind_row *rows;
	size_t count;
	size_t room;
	uint64_t base;
	int error;
};

static void add_row(void *table, uint64_t pc, const struct frame_rules *rules)
{
	struct rows *rows = table;
	struct unwind_row row = {.pc = pc - rows->base, .rule = rules->rule};

	if (rows->error || pc < rows->base || pc - rows->base > UINT32_MAX)
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
		struct unwind_row *more = room > MOST_ROWS ? NULL : realloc(rows->rows, room * sizeof(*more));

		if (!more) {
			rows->error = room > MOST_ROWS ? -E2BIG : -ENOMEM;
			return;
		}
		rows->rows = more;
		rows->room = room;
	}
	rows->rows[rows->count++] = row;
}

/* Adds the rows of one function, whose CIE has the rules `first`. */
static void add_function(struct rows *rows, const struct eh_function *function, const struct frame_rules *first)
{
	static const struct frame_rules none = {.rule = UNWIND_UNKNOWN}, signal = {.rule = UNWIND_SIGNAL};
	size_t count = rows->count;

	if (function->common->is_signal) {
		add_row(rows, function->start, &signal);
	} else if (!frame_rules_run(function, first, add_row, rows)) {
		rows->count = count;
		add_row(rows, function->start, &none);
	}
	add_row(rows, function->start + function->size, &none);
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
 * `found` to the rows, which the caller frees, and returns their number, -ENOMEM, or -E2BIG if the section makes too
 * much work or too many rows. What is damaged is left out.
 */
int64_t scope_unwind_rows(const uint8_t *section, size_t size, uint64_t address, uint64_t base,
			  struct unwind_row **found)
{
	struct eh_frame frame = eh_frame_open(section, size, address);
	struct rows rows = {.base = base};
	struct eh_function function;
	struct frame_rules first;
	const uint8_t *first_of = NULL;
	bool is_known = false;
	int more;

	while (!rows.error && (more = eh_frame_next(&frame, &function)) > 0) {
		if (function.common->at != first_of) {
			first_of = function.common->at;
			is_known = frame_rules_begin(function.common, &first);
		}
		if (is_known || function.common->is_signal)
			add_function(&rows, &function, &first);
	}
	if (rows.error || more < 0) {
		free(rows.rows);
		return rows.error ? rows.error : more;
	}
	if (rows.count)
		tidy(&rows);
	*found = rows.rows;
	return rows.count;
}

static int compare_functions(const void *a, const void *b)
{
	const scope_function *left = a, *right = b;

	return (left->start > right->start) - (left->start < right->start);
}

/*
 * The functions that a section describes, in order of address, but not more than `room`: without `found`, only their
 * number. Returns the number, or -E2BIG if the section makes too much work.
 */
int64_t scope_unwind_functions(const uint8_t *section, size_t size, uint64_t address, scope_function *found,
			       size_t room)
{
	struct eh_frame frame = eh_frame_open(section, size, address);
	struct eh_function function;
	size_t count = 0;
	int more;

	while ((more = eh_frame_next(&frame, &function)) > 0) {
		if (function.common->is_signal) /* begins before its code */
			continue;
		if (found && count < room)
			found[count] = (scope_function){function.start, function.start + function.size};
		count++;
	}
	if (more < 0)
		return more;
	if (found)
		qsort(found, count < room ? count : room, sizeof(*found), compare_functions);
	return count;
}
