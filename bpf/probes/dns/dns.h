/* SPDX-License-Identifier: GPL-2.0-or-later */
#ifndef SCOPE_DNS_H
#define SCOPE_DNS_H

/* What is asked for: www.iana.org/assignments/dns-parameters. */
enum dns_type {
	TYPE_A = 1,
	TYPE_NS = 2,
	TYPE_CNAME = 5,
	TYPE_SOA = 6,
	TYPE_PTR = 12,
	TYPE_MX = 15,
	TYPE_TXT = 16,
	TYPE_AAAA = 28,
	TYPE_SRV = 33,
	TYPE_DS = 43,
	TYPE_DNSKEY = 48,
	TYPE_SVCB = 64,
	TYPE_HTTPS = 65,
	TYPE_ANY = 255,
};

/* The server's answer, or none. */
enum dns_code {
	CODE_NOERROR = 0,
	CODE_FORMERR = 1,
	CODE_SERVFAIL = 2,
	CODE_NXDOMAIN = 3,
	CODE_NOTIMP = 4,
	CODE_REFUSED = 5,
	CODE_TIMEOUT = 256,    /* none came in time */
	CODE_UNANSWERED = 257, /* none came before the trace ended */
};

enum dns_protocol {
	PROTOCOL_TCP = 6,
	PROTOCOL_UDP = 17,
};

/* A query and its answer. The header has the time of the query, and who asked. */
struct dns_event {
	struct scope_header header;
	struct scope_text name;
	__u64 duration_ns;
	struct scope_address server;
	struct scope_address answer; /* the first one */
	enum dns_type type;
	enum dns_code code;
	enum dns_protocol protocol;
	__u16 server_port;
	__u16 answers;
	__u16 attempts;
	__u8 truncated;
	__u8 failed;
};

#endif
