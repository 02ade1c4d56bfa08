/*
 * COUNT LEFT: leaves LEFT communicators without an end. Then rank 0 of another one calls a collective COUNT times and
 * destroys its communicator; then rank 1, which is as far behind, calls it once more than that.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "nccl_stand_in.h"

#define FLOAT32 7

int main(int argc, char **argv)
{
	ncclComm_t comms[2];
	int count = atoi(argv[1]);

	dup2(open("/dev/null", O_WRONLY), 1); /* the stand-in's account */
	for (int n = atoi(argv[2]); n; n--)
		ncclCommInitAll(comms, 1, NULL);
	ncclCommInitAll(comms, 2, NULL);
	for (int rank = 0; rank < 2; rank++) {
		for (int n = 0; n < count + rank; n++)
			ncclAllReduce(NULL, NULL, 1, FLOAT32, 0, comms[rank], NULL);
		ncclCommDestroy(comms[rank]);
	}
	return 0;
}
