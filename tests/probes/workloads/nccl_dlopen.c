/*
 * LIBRARY GATE ACCOUNT: opens the stand-in and uses it 1 ms later: a communicator sends one element more each
 * millisecond, until the gate is a file. Then another one sends 17 times. The stand-in's account goes to a file.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "nccl_stand_in.h"

#define FUNCTION(name) typeof(&name) call_##name = (typeof(&name))dlsym(library, #name)

int main(int argc, char **argv)
{
	void *library = dlopen(argv[1], RTLD_NOW);
	FUNCTION(ncclGetUniqueId);
	FUNCTION(ncclCommInitRank);
	FUNCTION(ncclSend);
	size_t count = 0;
	ncclUniqueId id;
	ncclComm_t comm;

	dup2(open(argv[3], O_WRONLY | O_CREAT | O_APPEND, 0600), 1);
	usleep(1000);
	call_ncclGetUniqueId(&id);
	call_ncclCommInitRank(&comm, 5, id, 2);
	while (access(argv[2], F_OK)) {
		usleep(1000);
		call_ncclSend(NULL, ++count, INT8, 1, comm, NULL);
	}
	call_ncclCommInitRank(&comm, 5, id, 3);
	for (int i = 0; i < 17; i++)
		call_ncclSend(NULL, ++count, INT8, 1, comm, NULL);
	shm_unlink(id.internal);
	return 0;
}
