// Known counts of connects by io_uring and by sends with MSG_FASTOPEN; see test_net.py. Prints ports.
// Status 2: this kernel has no io_uring for us
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

#include "ring.h"

#define NOWHERE "127.255.255.255" // a broadcast address: no SYN is sent

static int enters(int number)
{
	return number % 2 ? IOSQE_ASYNC : 0; // by a worker thread
}

static struct sockaddr_in address(const char *host, int port)
{
	struct sockaddr_in made = {.sin_family = AF_INET, .sin_port = htons(port)};

	inet_pton(AF_INET, host, &made.sin_addr);
	return made;
}

static int by_ring(int fd, const struct sockaddr_in *to, int flags)
{
	struct io_uring_sqe *made = entry(IORING_OP_CONNECT, fd, to, 0);

	made->off = sizeof(*to);
	made->flags = flags;
	return run(1, 1);
}

// As the only registered file, in place of the descriptor.
static int by_registered(int fd, const struct sockaddr_in *to, int flags)
{
	syscall(SYS_io_uring_register, ring, IORING_UNREGISTER_FILES, NULL, 0);
	if (syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &fd, 1))
		return -1;
	return by_ring(0, to, flags | IOSQE_FIXED_FILE);
}

static int bound(const struct sockaddr_in *to)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	return bind(fd, (void *)to, sizeof(*to)) ? -1 : fd;
}

static int port_of(int fd)
{
	struct sockaddr_in own;
	socklen_t size = sizeof(own);

	getsockname(fd, (void *)&own, &size);
	return ntohs(own.sin_port);
}

// One of three calls.
static int fast(int fd, const struct sockaddr_in *to, int call)
{
	struct iovec data = {"x", 1};
	struct msghdr message = {.msg_name = (void *)to, .msg_namelen = sizeof(*to), .msg_iov = &data, .msg_iovlen = 1};
	struct mmsghdr messages[2] = {{message, 0}, {message, 0}};

	if (call == 1)
		return sendmsg(fd, &message, MSG_FASTOPEN);
	if (call == 2)
		return sendmmsg(fd, messages, 2, MSG_FASTOPEN);
	return sendto(fd, "x", 1, MSG_FASTOPEN, (void *)to, sizeof(*to));
}

int main(void)
{
	struct sockaddr_in any = address("127.0.0.1", 0), nowhere = address(NOWHERE, 1009),
			   faster = address(NOWHERE, 1013), registered = address(NOWHERE, 1019);
	struct sockaddr_in closed = any, server = any, taken = any;
	int listener = bound(&any), unused = bound(&any), first = bound(&any);

	if (!set_up())
		return 2;
	listen(listener, 50);
	server.sin_port = htons(port_of(listener));
	closed.sin_port = htons(port_of(unused));
	taken.sin_port = htons(port_of(first));
	connect(first, (void *)&server, sizeof(server));
	for (int n = 0; n < 6; n++)
		by_ring(socket(AF_INET, SOCK_STREAM, 0), &nowhere, enters(n));
	for (int n = 0; n < 4; n++)
		by_ring(socket(AF_INET, SOCK_STREAM, 0), &closed, enters(n));
	for (int n = 0; n < 2; n++)
		by_ring(socket(AF_INET, SOCK_STREAM, 0), &server, enters(n));
	for (int n = 0; n < 2; n++)
		by_ring(bound(&taken), &server, enters(n));
	for (int n = 0; n < 5; n++)
		by_registered(socket(AF_INET, SOCK_STREAM, 0), &registered, enters(n));
	by_ring(1, &nowhere, IOSQE_FIXED_FILE); // no file is registered there: that is no connect
	for (int n = 0; n < 7; n++)
		fast(socket(AF_INET, SOCK_STREAM, 0), &faster, 0);
	for (int n = 0; n < 3; n++)
		fast(socket(AF_INET, SOCK_STREAM, 0), &faster, 1);
	for (int n = 0; n < 5; n++)
		fast(socket(AF_INET, SOCK_STREAM, 0), &faster, 2);
	for (int n = 0; n < 3; n++)
		fast(bound(&taken), &server, n);
	printf("%d %d\n", port_of(listener), port_of(unused));
	return 0;
}
