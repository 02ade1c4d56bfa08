/* Makes argv[1] getppid calls as fast as it can. */
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(int count, char **arguments)
{
	long calls = count > 1 ? atol(arguments[1]) : 0;

	while (calls-- > 0)
		syscall(SYS_getppid);
	return 0;
}
