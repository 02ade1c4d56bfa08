// Stops itself, then calls reached() by 2^DEPTH different ways; each time one function deeper. Usage: paths DEPTH TIMES
#include <signal.h>
#include <stdlib.h>

#define KEPT __attribute__((noinline, noclone))

static volatile long sink;

KEPT void reached(void)
{
	sink++;
}

KEPT void walk(int depth)
{
	if (!depth) {
		reached();
		sink++;
		return;
	}
	walk(depth - 1);
	sink++;
	walk(depth - 1);
	sink++;
}

KEPT void deeper(int below, int depth)
{
	if (below)
		deeper(below - 1, depth);
	else
		walk(depth);
	sink++;
}

int main(int argc, char **argv)
{
	for (int below = 0; argc > 2 && below < atoi(argv[2]); below++) {
		raise(SIGSTOP);
		deeper(below, atoi(argv[1]));
	}
	return 0;
}
