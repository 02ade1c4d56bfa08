/* Known counts of calls: 1009 getppid, 503 failing close(-1), 7 with an unknown number, 3 32-bit calls. */
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
	int i;

	for (i = 0; i < 1009; i++)
		syscall(SYS_getppid);
	for (i = 0; i < 503; i++)
		close(-1);
	for (i = 0; i < 7; i++)
		syscall(999);
	syscall(SYS_getpriority, 11L, -22L, 33L, -44L, 55L, -66L);
#if defined(__x86_64__)
	for (i = 0; i < 3; i++) {
		long number = 20; /* getpid in the 32-bit table, writev in the 64-bit one */

		__asm__ volatile("int $0x80" : "+a"(number) : : "memory", "r8", "r9", "r10", "r11");
	}
#endif
	return 0;
}
