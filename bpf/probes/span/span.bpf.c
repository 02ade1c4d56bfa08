/* SPDX-License-Identifier: GPL-2.0-or-later */
/*
 * Calls of functions in user space, and USDT probes. Each place has data about what is kept of its calls; its number is
 * the low half of its cookie.
 */
#define STACK_UNWOUND

#include "scope.bpf.h"

#include "calls.bpf.h"
#include "stack.bpf.h"
#include "usdt.bpf.h"
#include "where.bpf.h"

#include "span.h"

#include "keep.bpf.h"

SCOPE_STREAM(span);
SCOPE_SUMMARY(span_summary);

const volatile bool keep_stacks;
const volatile bool keep_where;
const volatile __u32 one_in = 1; /* events: record one in so many calls */
const volatile __u64 min_ns;	 /* events: record only calls that last as long */

#define SPAN_DEPTH 64
#define SPAN_TEXTS 16 /* the outermost calls may keep a text at entry */

struct span_frame {
	struct scope_call call;
	__u64 address;
	__u64 stack_id;
	__u64 value[SPAN_VALUES];
	__u8 kept;
	__u8 pad;
	__u16 text; /* bytes, including the NUL; 0: none */
	__u32 pad2;
};

struct span_thread {
	struct scope_thread thread;
	struct scope_calls calls;
	struct span_frame frames[SPAN_DEPTH];
	struct { /* an event being composed */
		struct span_event event;
		char text[SPAN_TEXT];
	} made;
	struct span_frame unreturning; /* a call whose end is not recorded */
	__u64 pointed;		       /* address of the text at a USDT site */
	struct where_mark ended;
	struct scope_where where; /* of a call that ended just now */
};

SCOPE_THREADS(struct span_thread);
SCOPE_CALLS(struct span_thread, struct span_frame);
SCOPE_THREAD_STATE(span_stacks, struct stack_memory);

/* The texts of the outermost calls, read at their entry. */
struct span_texts {
	char text[SPAN_TEXTS][SPAN_TEXT];
};

SCOPE_THREAD_STATE(span_texts, struct span_texts);

/* Where the thread's time had gone when each call began; with keep_where. */
struct span_marks {
	struct where_mark begun[SPAN_DEPTH];
};

SCOPE_THREAD_STATE(span_marks, struct span_marks);

static __always_inline __u16 counting_stream(void)
{
	return scope_summarize ? stream_span_summary : stream_span;
}

/* Keeps the values that begin as the result, or as one of the arguments. */
static __always_inline void keep_values(struct span_frame *frame, const struct span_place *place,
					const __u64 args[CALL_ARGUMENTS], __u64 result)
{
	for (__u32 i = 0; i < SPAN_VALUES; i++) {
		const struct span_kept *kept = &place->value[i];
		bool found;

		if (kept->source == SPAN_NOTHING || (kept->source == SPAN_RESULT) != !args)
			continue;
		found = follow(kept, args ? args[kept->source & (CALL_ARGUMENTS - 1)] : result, &frame->value[i]);
		if (found)
			frame->kept |= 1 << i;
	}
}

/* Reads a string. Returns its bytes, including the NUL; 0: there is none. */
static __noinline __u16 read_string(__u64 at, char *text)
{
	long length;

	if (!at || !text)
		return 0;
	length = read_user_string(text, SPAN_TEXT, (void *)at);
	return length > 0 ? length : 0;
}

/* Reads the text that begins with `from`. Returns its bytes, including the NUL; 0: there is none. */
static __noinline __u16 read_text(const struct span_kept *kept, __u64 from, char *text)
{
	__u64 at = 0;

	if (!kept || !text || !follow(kept, from, &at))
		return 0;
	return read_string(at, text);
}

/* Reads what is kept of an argument at a USDT site. Returns whether it could be read. */
static __noinline bool read_of_site(struct pt_regs *ctx, const struct usdt_site *site, const struct span_kept *kept,
				    __u64 *value)
{
	__u32 source;
	__u64 from = 0;

	if (!site || !kept)
		return false;
	source = kept->source;
	barrier_var(source);
	return source < USDT_ARGUMENTS && usdt_read(ctx, &site->argument[source], &from) && follow(kept, from, value);
}

static __always_inline __u64 frame_pointer(struct pt_regs *ctx)
{
#if defined(__TARGET_ARCH_x86)
	return ctx->bp;
#else
	return ((struct user_pt_regs *)ctx)->regs[29];
#endif
}

static __always_inline void count(struct span_thread *thread, struct span_frame *frame, __u32 place, bool timed,
				  bool explained, __u64 duration_ns)
{
	struct span_summary_key key = {.address = frame->address, .place = place};
	struct span_summary_value *value;

	fill_running_process(&key.process);
	value = span_summary_slot(&key);
	if (!value)
		return;
	__sync_fetch_and_add(&value->count, 1);
	if (!timed)
		return;
	__sync_fetch_and_add(&value->timed, 1);
	__sync_fetch_and_add(&value->total_ns, duration_ns);
	scope_histogram_add(&value->latency, duration_ns);
	if (!explained)
		return;
	if (thread->where.unknown_ns)
		scope_count_incomplete(stream_span_summary);
	__sync_fetch_and_add(&value->explained, 1);
	__sync_fetch_and_add(&value->where.on_cpu_ns, thread->where.on_cpu_ns);
	__sync_fetch_and_add(&value->where.run_queue_ns, thread->where.run_queue_ns);
	__sync_fetch_and_add(&value->where.blocked_ns, thread->where.blocked_ns);
	__sync_fetch_and_add(&value->where.stopped_ns, thread->where.stopped_ns);
	__sync_fetch_and_add(&value->where.unknown_ns, thread->where.unknown_ns);
	__sync_fetch_and_add(&value->where.page_fault_ns, thread->where.page_fault_ns);
}

/* Emits a call. Its text, if it has one, is in `made.text` already. */
static __always_inline void emit(struct task_struct *task, struct span_thread *thread, struct span_frame *frame,
				 __u32 place, __u32 depth, enum span_ended ended, bool explained, __u64 duration_ns)
{
	struct span_event *event = &thread->made.event;
	__u32 length = frame->text;

	if (length > SPAN_TEXT)
		return;
	event->duration_ns = duration_ns;
	event->address = frame->address;
	event->stack_id = frame->stack_id;
	event->value0 = frame->value[0];
	event->value1 = frame->value[1];
	event->value2 = frame->value[2];
	event->value3 = frame->value[3];
	event->value4 = frame->value[4];
	event->value5 = frame->value[5];
	event->has_where = explained;
	event->where = thread->where;
	event->text.offset = 0;
	event->text.length = length ? length - 1 : 0;
	event->has_text = length > 0;
	event->place = place;
	event->depth = depth;
	event->kept = frame->kept;
	event->has_duration = ended < SPAN_NOT_RECORDED;
	event->ended = ended;
	if (event->has_where && event->where.unknown_ns)
		scope_count_incomplete(stream_span);
	scope_output(&event->header, task, stream_span, frame->call.entered_ns, sizeof(*event) + length);
}

/* The mark of the call with `depth` calls around it; NULL: without keep_where, or it cannot be kept. */
static __always_inline struct where_mark *begun_of(struct task_struct *task, __u32 depth, __u64 flags)
{
	struct span_marks *marks = keep_where ? bpf_task_storage_get(&span_marks, task, 0, flags) : NULL;

	barrier_var(depth);
	return marks ? &marks->begun[depth & (SPAN_DEPTH - 1)] : NULL;
}

/* The time now. With a mark, also where the thread's time has gone until now. */
static __always_inline __u64 mark_now(struct where_mark *mark)
{
	if (!keep_where || !mark)
		return bpf_ktime_get_boot_ns();
	where_mark(mark);
	return mark->at_ns;
}

/* Finds where the time of a call has gone that was left just now. Returns whether it is known. */
static __always_inline bool explain(struct task_struct *task, struct span_thread *thread, struct span_frame *frame)
{
	struct where_mark *begun = begun_of(task, thread->calls.depth, 0);

	if (!keep_where)
		return false;
	if (!begun || begun->at_ns != frame->call.entered_ns) { /* there was no memory at its entry */
		scope_count_incomplete(counting_stream());
		return false;
	}
	where_between(begun, &thread->ended, &thread->where);
	return true;
}

/* Counts or emits a call that ended at `now_ns`. Its text, if it has one, is in `made.text` already. */
static __always_inline void finish(struct task_struct *task, struct span_thread *thread, struct span_frame *frame,
				   enum span_ended ended, __u64 now_ns)
{
	__u64 duration_ns = now_ns - frame->call.entered_ns;
	bool explained = explain(task, thread, frame);

	if (scope_summarize)
		count(thread, frame, frame->call.place, ended == SPAN_RETURNED, explained, duration_ns);
	else if (duration_ns >= min_ns)
		emit(task, thread, frame, frame->call.place, thread->calls.depth, ended, explained, duration_ns);
}

/* Where a call with `depth` calls around it keeps the text of an argument; NULL: it has none, or no room. */
static __always_inline char *room_for_text(struct task_struct *task, const struct span_place *place, __u32 depth)
{
	struct span_texts *texts;

	if (scope_summarize || place->text.source >= CALL_ARGUMENTS || depth >= SPAN_TEXTS)
		return NULL;
	texts = bpf_task_storage_get(&span_texts, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!texts) {
		scope_count_incomplete(stream_span);
		return NULL;
	}
	barrier_var(depth);
	return texts->text[depth & (SPAN_TEXTS - 1)];
}

/* Gets the text of a call that was left just now, kept at its entry. */
static __always_inline void take_text(struct task_struct *task, struct span_thread *thread, struct span_frame *frame)
{
	struct span_texts *texts = frame->text ? bpf_task_storage_get(&span_texts, task, 0, 0) : NULL;
	__u32 depth = thread->calls.depth;

	if (texts && depth < SPAN_TEXTS)
		__builtin_memcpy(thread->made.text, texts->text[depth & (SPAN_TEXTS - 1)], SPAN_TEXT);
}

/* The number of the stack at a frame; 0: there is none. */
static __always_inline __u64 stack_of(struct task_struct *task, const struct user_frame *frame, __u64 at)
{
	struct stack_memory *memory;

	if (!keep_stacks)
		return 0;
	memory = bpf_task_storage_get(&span_stacks, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!memory) {
		scope_count_incomplete(stream_span);
		return 0;
	}
	return keep_stack(task, frame, at, memory, stream_span);
}

/* Fills a new call, except its time. `text` has room for its text; NULL: it keeps none. */
static __always_inline void begin(struct pt_regs *ctx, struct task_struct *task, struct span_frame *frame,
				  const struct span_place *place, char *text)
{
	__u64 args[CALL_ARGUMENTS] = {};
	struct user_frame entry;

	read_entry(ctx, &entry, args, place->arguments);
	frame->address = PT_REGS_IP(ctx);
	frame->kept = 0;
	frame->text = 0;
	frame->stack_id = 0;
	if (scope_summarize)
		return;
	keep_values(frame, place, args, 0);
	if (text && place->text.source < CALL_ARGUMENTS)
		frame->text = read_text(&place->text, args[place->text.source & (CALL_ARGUMENTS - 1)], text);
	frame->stack_id = stack_of(task, &entry, return_stack(ctx));
}

static __always_inline bool is_chosen(void)
{
	return scope_summarize || one_in <= 1 || !(bpf_get_prandom_u32() % one_in);
}

/* At the first instruction of a function whose return is recorded too. */
SEC("uprobe")
int SCOPE_UNPREEMPTED(span_enter, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx), depth;
	const struct span_place *place = place_numbered(number);
	struct span_thread *thread;
	struct span_frame *frame;

	if (!place)
		return 0;
	thread = calling_thread(task, number, counting_stream());
	if (!thread || !is_chosen())
		return 0;
	frame = enter_call(ctx, thread, number, counting_stream());
	if (!frame)
		return 0;
	depth = thread->calls.depth - 1;
	begin(ctx, task, frame, place, room_for_text(task, place, depth));
	frame->call.entered_ns = mark_now(begun_of(task, depth, BPF_LOCAL_STORAGE_GET_F_CREATE));
	return 0;
}

SEC("uretprobe")
int SCOPE_UNPREEMPTED(span_return, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	struct span_thread *thread = bpf_task_storage_get(&threads, task, 0, 0);
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct span_place *place = place_numbered(number);
	struct span_frame *frame;
	__u64 now_ns;

	if (!thread || !place)
		return 0;
	now_ns = mark_now(&thread->ended);
	frame = leave_call(ctx, thread, number);
	if (!frame)
		return 0;
	if (!scope_summarize) {
		keep_values(frame, place, NULL, PT_REGS_RC(ctx));
		if (place->text.source == SPAN_RESULT)
			frame->text = read_text(&place->text, PT_REGS_RC(ctx), thread->made.text);
		else
			take_text(task, thread, frame);
	}
	finish(task, thread, frame, SPAN_RETURNED, now_ns);
	return 0;
}

/* At the first instruction of a function whose return cannot be recorded without harm. */
SEC("uprobe")
int SCOPE_UNPREEMPTED(span_call, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct span_place *place = place_numbered(number);
	struct span_thread *thread;

	if (!place)
		return 0;
	thread = calling_thread(task, number, counting_stream());
	if (!thread || !is_chosen() || (min_ns && !scope_summarize))
		return 0;
	begin(ctx, task, &thread->unreturning, place, thread->made.text);
	thread->unreturning.call.entered_ns = bpf_ktime_get_boot_ns();
	if (scope_summarize)
		count(thread, &thread->unreturning, number, false, false, 0);
	else
		emit(task, thread, &thread->unreturning, number, thread->calls.depth, SPAN_NOT_RECORDED, false, 0);
	return 0;
}

/* Fills `unreturning` for a USDT site. Arguments that cannot be read there are absent. */
static __always_inline void begin_moment(struct pt_regs *ctx, struct task_struct *task, struct span_thread *thread,
					 const struct span_place *place, const struct usdt_site *site)
{
	struct user_frame here = {.outer = frame_pointer(ctx), .return_address = PT_REGS_IP(ctx) + 1};
	struct span_frame *moment = &thread->unreturning;

	moment->address = PT_REGS_IP(ctx);
	moment->kept = 0;
	moment->text = 0;
	moment->stack_id = 0;
	if (scope_summarize)
		return;
	for (__u32 i = 0; i < SPAN_VALUES; i++)
		if (read_of_site(ctx, site, &place->value[i], &moment->value[i]))
			moment->kept |= 1 << i;
	if (read_of_site(ctx, site, &place->text, &thread->pointed))
		moment->text = read_string(thread->pointed, thread->made.text);
	moment->stack_id = stack_of(task, &here, PT_REGS_SP(ctx));
}

/* At a site of a USDT probe: one moment, in the middle of a function. */
SEC("uprobe")
int SCOPE_UNPREEMPTED(span_moment, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u64 cookie = bpf_get_attach_cookie(ctx);
	const struct span_place *place = place_numbered(cookie);
	const struct usdt_site *site = usdt_site(cookie);
	struct span_thread *thread;
	__u32 number = cookie;

	if (!place || !site)
		return 0;
	thread = calling_thread(task, number, counting_stream());
	if (!thread || !is_chosen() || (min_ns && !scope_summarize))
		return 0;
	thread->unreturning.call.entered_ns = bpf_ktime_get_boot_ns();
	begin_moment(ctx, task, thread, place, site);
	if (scope_summarize)
		count(thread, &thread->unreturning, number, false, false, 0);
	else
		emit(task, thread, &thread->unreturning, number, thread->calls.depth, SPAN_MOMENT, false, 0);
	return 0;
}

static __always_inline void abandon(struct task_struct *task, struct span_thread *thread, struct span_frame *frame)
{
	take_text(task, thread, frame);
	finish(task, thread, frame, SPAN_THREAD_ENDED, mark_now(&thread->ended));
}

SCOPE_ABANDON(span_abandon, struct span_thread, struct span_frame, abandon)

SEC("tp_btf/sched_process_exec")
int BPF_PROG(span_replace, struct task_struct *task)
{
	leave_calls_at_exec(task);
	return 0;
}
