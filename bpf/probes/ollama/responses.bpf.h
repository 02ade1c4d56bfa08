/* SPDX-License-Identifier: GPL-2.0-or-later */
/* Responses, from the bytes that a process writes to a connection. */
#ifndef SCOPE_OLLAMA_RESPONSES_BPF_H
#define SCOPE_OLLAMA_RESPONSES_BPF_H

#define STATUS_FROM 9 /* column of the status in "HTTP/1.1 200 OK" */
#define STATUS_TO 12
#define STATUS_UPGRADED 101
#define STATUS_FINAL 200
#define STATUS_NO_CONTENT 204
#define STATUS_NOT_MODIFIED 304

/* Counts the bytes of a body in the current write. */
static __always_inline void end_write(struct task_struct *task, struct ollama_connection *connection)
{
	struct ollama_asked *asked = room_for(connection, connection->answered);
	struct ollama_answer *answer = &connection->answer;
	__u64 now_ns = answer->last_ns, gap_ns = now_ns - answer->last_body_ns, bytes = answer->passed;
	struct ollama_chunk_event *event;
	__u32 number = answer->writes;

	if (!bytes)
		return;
	answer->passed = 0;
	answer->writes = number + 1;
	answer->last_body_ns = now_ns;
	if (!number)
		answer->first_body_ns = now_ns;
	else if (gap_ns > answer->longest_gap_ns)
		answer->longest_gap_ns = gap_ns;
	if (!is_recorded(asked, connection->answered))
		return;
	event = scope_reserve(task, stream_ollama_chunk, now_ns, sizeof(*event));
	if (!event)
		return;
	event->duration_ns = number ? gap_ns : now_ns - asked->began_ns;
	event->bytes = bytes;
	event->connection = connection->inode;
	event->request = asked->request;
	event->number = number;
	__builtin_memset(event->pad, 0, sizeof(event->pad));
	scope_submit(event, stream_ollama_chunk, sizeof(*event));
}

/*
 * A client that has closed its side may still want the response: how its connection ends tells that. But a response
 * without a body, as Go's servers write for a handler that was cancelled, is none.
 */
static __always_inline void end_whole_response(struct ollama_connection *connection, enum ollama_ended ended)
{
	end_write(bpf_get_current_task_btf(), connection);
	if (ended == OLLAMA_ENDED_COMPLETE && connection->peer_closed &&
	    connection->answered + 1 == connection->asked) {
		connection->answering.at = HTTP_UNTIL_CLOSE;
		if (connection->answer.writes)
			return;
		ended = OLLAMA_ENDED_PEER_CLOSED;
	}
	end_response(connection, ended);
}

/* A byte of a status line. False: it is none. */
static __always_inline bool take_status_line(struct ollama_connection *connection, char byte)
{
	struct http_message *answering = &connection->answering;
	struct ollama_answer *answer = &connection->answer;
	__u32 column = answering->column;

	if (column < sizeof(version_name) - 1 && byte != version_name[column & (sizeof(version_name) - 1)])
		return false;
	if (!column) {
		answer->first_ns = answer->last_ns;
		answer->status = 0;
	}
	answering->bytes++;
	if (byte == '\n') {
		answering->column = 0;
		answering->at = HTTP_FIELDS;
		return column >= STATUS_TO;
	}
	if (column >= STATUS_FROM && column < STATUS_TO) {
		if (byte < '0' || byte > '9')
			return false;
		answer->status = answer->status * 10 + byte - '0';
	}
	answering->column = column + 1;
	return true;
}

/* The head of a response was written: where does its body end? */
static __always_inline void end_response_fields(struct ollama_connection *connection)
{
	struct http_message *answering = &connection->answering;
	__u16 status = connection->answer.status;

	if (status == STATUS_UPGRADED) {
		connection->asking.at = HTTP_IGNORED;
		end_whole_response(connection, OLLAMA_ENDED_UPGRADED);
	} else if (status < STATUS_FINAL) { /* "100 Continue" and the like: the response is still to come */
		answering->at = HTTP_FIRST_LINE;
		answering->has_length = answering->chunked = 0;
		answering->length = 0;
		connection->answer.first_ns = 0;
		connection->answer.status = 0;
	} else if (connection->heads >> (connection->answered & 63) & 1 || status == STATUS_NO_CONTENT ||
		   status == STATUS_NOT_MODIFIED) {
		answering->chunked = 0;
		end_whole_response(connection, OLLAMA_ENDED_COMPLETE);
	} else if (answering->chunked) {
		answering->at = HTTP_CHUNK_SIZE;
		answering->left = 0;
	} else if (!answering->has_length) {
		answering->at = HTTP_UNTIL_CLOSE;
	} else if (answering->length) {
		answering->at = HTTP_BODY;
		answering->left = answering->length;
	} else {
		end_whole_response(connection, OLLAMA_ENDED_COMPLETE);
	}
}

/* Bytes that are no response, or one to nothing that was asked, are passed over. */
static __always_inline long pass_write(struct ollama_connection *connection, struct http_source *source)
{
	next_message(&connection->answering);
	connection->answer.first_ns = 0;
	source->total = 0;
	return 1;
}

static long take_answered(__u32 step, struct feeding *feeding)
{
	struct ollama_connection *connection = feeding->connection;
	struct http_source *source = feeding->source;
	struct http_message *answering = &connection->answering;
	enum http_ended ended;
	__u64 passed = 0;
	int byte;

	if (answering->at == HTTP_IGNORED || !find_segment(source))
		return 1;
	if (!source->segment)
		return 0;
	if (answering->at == HTTP_FIRST_LINE && connection->answered >= connection->asked)
		return pass_write(connection, source);
	if (in_body(answering)) {
		ended = take_body(answering, source, &passed);
		connection->answer.passed += passed;
	} else {
		byte = next_byte(source);
		if (byte < 0)
			return 1;
		if (answering->at == HTTP_FIRST_LINE)
			return take_status_line(connection, byte) ? 0 : pass_write(connection, source);
		answering->bytes++;
		ended = take_byte(answering, byte);
	}
	if (ended == HTTP_ENDED_FIELDS)
		end_response_fields(connection);
	else if (ended == HTTP_ENDED_MESSAGE)
		end_whole_response(connection, OLLAMA_ENDED_COMPLETE);
	return 0;
}

#endif
