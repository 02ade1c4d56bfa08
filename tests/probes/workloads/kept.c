// Accepts connections that it never uses, and closes them while another process holds them, which closes them later.
//
// usage: kept COUNT FLAGS    FLAGS: those of accept4(); prints the pids of both, and the port
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <err.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static int asked[2], answered[2]; // pipes

static void keep(int of)
{
	int fd, kept;

	prctl(PR_SET_NAME, "net-keeper");
	close(asked[1]);
	while (read(asked[0], &fd, sizeof(fd)) == sizeof(fd)) {
		kept = syscall(SYS_pidfd_getfd, of, fd, 0);
		if (kept < 0)
			err(1, "pidfd_getfd");
		write(answered[1], &kept, 1);
		read(asked[0], &fd, sizeof(fd));
		close(kept);
		write(answered[1], &kept, 1);
	}
	_exit(0);
}

static void tell(int fd)
{
	char reply;

	if (write(asked[1], &fd, sizeof(fd)) != sizeof(fd) || read(answered[0], &reply, 1) != 1)
		errx(1, "the keeper has ended");
}

int main(int argc, char **argv)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), flags = atoi(argv[2]), client, accepted;
	struct sockaddr_in server = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(server);
	pid_t keeper;

	(void)argc;
	if (bind(listener, (void *)&server, size) || listen(listener, 8) || pipe(asked) || pipe(answered))
		err(1, "cannot listen");
	getsockname(listener, (void *)&server, &size);
	keeper = fork();
	if (!keeper)
		keep(syscall(SYS_pidfd_open, getppid(), 0));
	for (int i = 0; i < atoi(argv[1]); i++) {
		client = socket(AF_INET, SOCK_STREAM, 0);
		if (connect(client, (void *)&server, size))
			err(1, "connect");
		accepted = flags ? accept4(listener, NULL, NULL, flags) : accept(listener, NULL, NULL);
		if (accepted < 0)
			err(1, "accept");
		tell(accepted);
		close(client);
		close(accepted);
		tell(-1);
	}
	close(asked[1]);
	wait(NULL);
	printf("%d %d %d\n", getpid(), keeper, ntohs(server.sin_port));
	return 0;
}
