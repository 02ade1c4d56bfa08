/*
 * Floods a listener of its own, in its network namespace, and prints what the kernel counted.
 *
 * usage: flood SYNS CONNECTIONS    sends SYNS SYNs from addresses in 10.0.0.0/8 that never answer, and makes
 *                                  CONNECTIONS connections that are closed at once, evenly among them
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define ADDRESS "192.0.2.1" /* loopback addresses cannot be answered from */
#define HOSTS 16 /* addresses to connect to, so that ports last: closed connections keep theirs for a minute */

struct packet {
	struct iphdr ip;
	struct tcphdr tcp;
};

/* What the checksum of a segment counts besides the segment. */
struct pseudo_header {
	uint32_t source, destination;
	uint16_t protocol, length;
};

static uint32_t sum(const void *data, size_t bytes)
{
	const uint16_t *words = data;
	uint32_t total = 0;

	for (size_t i = 0; i < bytes / 2; i++)
		total += words[i];
	return total;
}

static void send_syn(int raw, const struct sockaddr_in *server, uint32_t number)
{
	struct packet packet = {
		.ip = {.version = 4, .ihl = 5, .ttl = 64, .protocol = IPPROTO_TCP, .tot_len = htons(sizeof(packet))},
		.tcp = {.syn = 1, .doff = 5, .seq = htonl(number), .window = htons(65535)},
	};
	struct pseudo_header pseudo = {.protocol = htons(IPPROTO_TCP), .length = htons(sizeof(packet.tcp))};
	uint32_t total;

	packet.ip.saddr = pseudo.source = htonl(0x0a010000 + number);
	packet.ip.daddr = pseudo.destination = server->sin_addr.s_addr;
	packet.tcp.source = htons(1024 + number % 60000);
	packet.tcp.dest = server->sin_port;
	total = sum(&pseudo, sizeof(pseudo)) + sum(&packet.tcp, sizeof(packet.tcp));
	total = (total & 0xffff) + (total >> 16);
	packet.tcp.check = ~((total & 0xffff) + (total >> 16));
	if (sendto(raw, &packet, sizeof(packet), 0, (const void *)server, sizeof(*server)) != sizeof(packet))
		err(1, "sendto");
}

static void connect_once(int listener, struct sockaddr_in server, uint32_t number)
{
	int client = socket(AF_INET, SOCK_STREAM, 0), accepted;

	server.sin_addr.s_addr = htonl(0x7f000001 + number % HOSTS);
	if (connect(client, (void *)&server, sizeof(server)))
		err(1, "connect");
	accepted = accept(listener, NULL, NULL);
	if (accepted < 0)
		err(1, "accept");
	close(client);
	close(accepted);
}

/* A counter of /proc/net/netstat. */
static unsigned long counted(const char *wanted)
{
	static char names[16384], values[16384];
	FILE *file = fopen("/proc/net/netstat", "r");
	char *name, *value, *more_names, *more_values;

	if (!file || !fgets(names, sizeof(names), file) || !fgets(values, sizeof(values), file))
		err(1, "netstat");
	fclose(file);
	name = strtok_r(names, " \n", &more_names);
	value = strtok_r(values, " \n", &more_values);
	while (name && strcmp(name, wanted)) {
		name = strtok_r(NULL, " \n", &more_names);
		value = strtok_r(NULL, " \n", &more_values);
	}
	return name ? strtoul(value, NULL, 10) : 0;
}

/* Whether a connection is still being closed, which a busy kernel does some time after close(). */
static int closing(void)
{
	static const char open_states[] = "01 04 05 08 09 0B"; /* of include/net/tcp_states.h */
	char line[256], state[3];
	FILE *file = fopen("/proc/net/tcp", "r");
	int found = 0;

	if (!file)
		err(1, "/proc/net/tcp");
	while (!found && fgets(line, sizeof(line), file))
		found = sscanf(line, " %*d: %*s %*s %2s ", state) == 1 && strstr(open_states, state);
	fclose(file);
	return found;
}

int main(int argc, char **argv)
{
	struct timespec began, ended;
	double seconds;
	uint32_t syns = atoi(argv[1]), connections = atoi(argv[2]), all = syns + connections, made = 0;
	int listener = socket(AF_INET, SOCK_STREAM, 0), raw = socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
	struct sockaddr_in server = {.sin_family = AF_INET};
	socklen_t size = sizeof(server);

	prctl(PR_SET_NAME, "flood");
	if (bind(listener, (void *)&server, size) || listen(listener, 128) || raw < 0)
		err(1, "socket");
	getsockname(listener, (void *)&server, &size);
	server.sin_addr.s_addr = inet_addr(ADDRESS);
	clock_gettime(CLOCK_MONOTONIC, &began);
	for (uint32_t i = 1; i <= all; i++) {
		if ((uint64_t)i * connections / all > made)
			connect_once(listener, server, made++);
		else
			send_syn(raw, &server, i);
	}
	clock_gettime(CLOCK_MONOTONIC, &ended);
	seconds = ended.tv_sec - began.tv_sec + (ended.tv_nsec - began.tv_nsec) / 1e9;
	close(listener);
	while (closing())
		usleep(1000);
	printf("{\"pid\": %d, \"port\": %d, \"drops\": %lu, \"cookies\": %lu, ", getpid(), ntohs(server.sin_port),
	       counted("ListenDrops"), counted("SyncookiesSent"));
	printf("\"syns_per_s\": %.0f, \"connections_per_s\": %.0f}\n", syns / seconds, connections / seconds);
	return 0;
}
