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

/* What getaddrinfo() returned: EAI_* in netdb.h of glibc and musl. */
enum dns_lookup_result {
	RESULT_OK = 0,
	RESULT_BADFLAGS = -1,
	RESULT_NONAME = -2,
	RESULT_AGAIN = -3,
	RESULT_FAIL = -4,
	RESULT_NODATA = -5,
	RESULT_FAMILY = -6,
	RESULT_SOCKTYPE = -7,
	RESULT_SERVICE = -8,
	RESULT_ADDRFAMILY = -9,
	RESULT_MEMORY = -10,
	RESULT_SYSTEM = -11,
	RESULT_OVERFLOW = -12,
};

/* The addresses that a program wants. */
enum dns_lookup_family {
	FAMILY_ANY = 0,
	FAMILY_IPV4 = 2,
	FAMILY_IPV6 = 10,
};

/* A query and its answer. The header has the time of the query, and who asked. */
struct dns_event {
	struct scope_header header;
	struct scope_text name;
	struct scope_text looked_up;
	__u64 duration_ns;
	__u64 lookup; /* its number; 0: none */
	struct scope_address server;
	struct scope_address answer; /* the first one */
	enum dns_type qtype;
	enum dns_code code;
	enum dns_protocol protocol;
	__u16 server_port;
	__u16 answers;
	__u16 attempts;
	__u8 truncated;
	__u8 failed;
};

/* A call of getaddrinfo(). The header has the time of its entry. */
struct dns_lookup_event {
	struct scope_header header;
	struct scope_text name;
	__u64 duration_ns;
	__u64 lookup;
	struct scope_address answer; /* the first one */
	enum dns_lookup_family family;
	enum dns_lookup_result result;
	__u32 queries;
	__u8 failed;
	__u8 pad[3];
};

#endif
