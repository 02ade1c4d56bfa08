// Stops itself, then calls reached() by 2^DEPTH different ways; each time one function deeper, until it is DEEPEST
// functions deep and begins again. Usage: paths DEPTH TIMES DEEPEST
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
	for (int time = 0; argc > 3 && time < atoi(argv[2]); time++) {
		raise(SIGSTOP);
		deeper(time % atoi(argv[3]), atoi(argv[1]));
	}
	return 0;
}
