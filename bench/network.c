/*
 * Does one thing over the loopback interface COUNT times, and prints its CPU time each time, in ns: of this process and
 * its child, since on a busy machine other programs take time in between.
 *
 * usage: network stream|connections|datagrams COUNT
 *
 * stream: a write of 128 KiB that another process reads, as iperf3 does; connections: a connection that is closed at
 * once; datagrams: one of 512 bytes is sent and received.
 */
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define HOSTS 64 /* addresses to connect to, so that ports last: closed connections keep theirs for a minute */

static char buffer[128 << 10];

static double spent_ns(int whose)
{
	struct rusage used;

	getrusage(whose, &used);
	return (used.ru_utime.tv_sec + used.ru_stime.tv_sec) * 1e9 +
	       (used.ru_utime.tv_usec + used.ru_stime.tv_usec) * 1e3;
}

static struct sockaddr_in local(int sock, int number)
{
	struct sockaddr_in address;
	socklen_t size = sizeof(address);

	if (getsockname(sock, (void *)&address, &size))
		err(1, "getsockname");
	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number % HOSTS);
	return address;
}

static int bound(int type)
{
	struct sockaddr_in any = {.sin_family = AF_INET};
	int sock = socket(AF_INET, type, 0);

	if (bind(sock, (void *)&any, sizeof(any)) || (type == SOCK_STREAM && listen(sock, 128)))
		err(1, "bind");
	return sock;
}

static int connected(int to, int number)
{
	struct sockaddr_in address = local(to, number);
	int client = socket(AF_INET, SOCK_STREAM, 0);

	if (connect(client, (void *)&address, sizeof(address)))
		err(1, "connect");
	return client;
}

static void stream(int count)
{
	int listener = bound(SOCK_STREAM), client = connected(listener, 0), server = accept(listener, NULL, NULL);

	if (!fork()) {
		close(client);
		while (read(server, buffer, sizeof(buffer)) > 0)
			;
		_exit(0);
	}
	for (int i = 0; i < count; i++)
		if (write(client, buffer, sizeof(buffer)) != sizeof(buffer))
			err(1, "write");
	close(client);
	wait(NULL);
}

static void connections(int count)
{
	int listener = bound(SOCK_STREAM);

	for (int i = 0; i < count; i++) {
		int client = connected(listener, i), server = accept(listener, NULL, NULL);

		close(client);
		close(server);
	}
}

static void datagrams(int count)
{
	int receiver = bound(SOCK_DGRAM), sender = socket(AF_INET, SOCK_DGRAM, 0);
	struct sockaddr_in address = local(receiver, 0);

	if (connect(sender, (void *)&address, sizeof(address)))
		err(1, "connect");
	for (int i = 0; i < count; i++)
		if (send(sender, buffer, 512, 0) != 512 || recv(receiver, buffer, sizeof(buffer), 0) != 512)
			err(1, "datagram");
}

int main(int argc, char **argv)
{
	int count = atoi(argv[2]);
	double before = spent_ns(RUSAGE_SELF);

	if (!strcmp(argv[1], "stream"))
		stream(count);
	else if (!strcmp(argv[1], "connections"))
		connections(count);
	else
		datagrams(count);
	printf("%.1f\n", (spent_ns(RUSAGE_SELF) + spent_ns(RUSAGE_CHILDREN) - before) / count);
	return 0;
}
