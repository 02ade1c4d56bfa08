/* SPDX-License-Identifier: GPL-2.0-or-later */
/* The log of llama.cpp and Ollama: calls of functions (level, text, ...) that get its pieces. */
#ifndef SCOPE_OLLAMA_LOG_BPF_H
#define SCOPE_OLLAMA_LOG_BPF_H

const volatile __s32 least_level; /* known levels below are left out */

/* Is a piece of the log wanted? One that continues another is wanted if that is. */
static __always_inline bool is_level_wanted(struct ollama_thread *thread, bool known, __s32 level)
{
	if (!known || level != OLLAMA_LEVEL_CONT)
		thread->log_left_out = known && level != OLLAMA_LEVEL_NONE && level < least_level;
	return !thread->log_left_out;
}

/* At the first instruction of the function. The cookie is the place's number. */
SEC("uprobe")
int SCOPE_UNPREEMPTED(ollama_logs, struct pt_regs *, ctx)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 number = bpf_get_attach_cookie(ctx);
	const struct ollama_place *place = place_numbered(number);
	const char *text = (const char *)PT_REGS_PARM2(ctx);
	__s32 level = PT_REGS_PARM1(ctx);
	struct ollama_log_event *event;
	struct ollama_thread *thread;
	__u32 length = 0, last;
	char next = 0;
	bool known;
	long read;

	if (!place)
		return 0;
	thread = bpf_task_storage_get(&threads, task, 0, BPF_LOCAL_STORAGE_GET_F_CREATE);
	if (!thread ? !scope_passes(task) : !scope_thread_passes(task, &thread->thread))
		return 0;
	scope_count_hit(number);
	if (!thread) {
		scope_lose_hit(number, stream_ollama_log, SCOPE_LOST_NO_STATE);
		return 0;
	}
	known = place->function <= OLLAMA_COMMON_LOG_DEFAULT_CALLBACK && level >= OLLAMA_LEVEL_NONE &&
		level <= OLLAMA_LEVEL_CONT;
	if (!is_level_wanted(thread, known, level))
		return 0;
	event = &thread->made.event;
	read = read_user_string(thread->made.text, OLLAMA_TEXT, text);
	event->has_text = read > 0;
	if (read > 0)
		length = read - 1;
	else
		scope_count_incomplete(stream_ollama_log);
	if (length == OLLAMA_TEXT - 1)
		bpf_probe_read_user(&next, 1, text + length);
	event->text_truncated = next != 0;
	last = length - 1;
	event->ends_line = length && thread->made.text[last & (OLLAMA_TEXT - 1)] == '\n';
	if (event->ends_line)
		length--;
	event->text.offset = 0;
	event->text.length = length;
	event->level_number = level;
	event->level = level;
	event->source = place->function;
	event->has_level = known;
	barrier_var(length);
	if (length >= OLLAMA_TEXT)
		return 0;
	scope_output(&event->header, task, stream_ollama_log, bpf_ktime_get_boot_ns(), sizeof(*event) + length);
	return 0;
}

#endif
