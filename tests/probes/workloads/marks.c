/* USDT probes with arguments in registers, in memory and constant; tells what it passed. Built as a library, too. */
#define _SDT_HAS_SEMAPHORES 1
#include <sys/sdt.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__extension__ unsigned short marks_wide_semaphore __attribute__((unused)) __attribute__((section(".probes")));
__extension__ unsigned short marks_site_semaphore __attribute__((unused)) __attribute__((section(".probes")));
__extension__ unsigned short marks_guarded_semaphore __attribute__((unused)) __attribute__((section(".probes")));
__extension__ unsigned short marks_real_semaphore __attribute__((unused)) __attribute__((section(".probes")));
__extension__ unsigned short marks_silent_semaphore __attribute__((unused)) __attribute__((section(".probes")));
__extension__ unsigned short other_wide_semaphore __attribute__((unused)) __attribute__((section(".probes")));

struct record {
	int64_t before;
	int32_t number;
	const char *text;
};

int counter = -7; /* addressed by symbol(%rip) */

/* One probe with arguments of every size and sign, and with texts. */
__attribute__((noinline)) void wide(uint64_t i, const struct record *record)
{
	int8_t i8 = i * 7;
	uint8_t u8 = i * 7;
	int16_t i16 = -i * 301;
	uint16_t u16 = i * 40009;
	int32_t i32 = -i * 1000003;
	uint32_t u32 = i * 4000000007;
	int64_t i64 = -i * 10000000019;
	uint64_t u64 = i << 40;

	STAP_PROBE10(marks, wide, i8, u8, i16, u16, i32, u32, i64, u64, record->text, record);
}

/* One probe with four sites: a constant, a register, memory, a global variable. */
__attribute__((noinline)) void sites(int i)
{
	volatile int16_t kept[4] = {i, -i, i * 2, -i * 2};

	STAP_PROBE2(marks, site, 1, -5);
	STAP_PROBE2(marks, site, 2, i * 3);
	STAP_PROBE2(marks, site, 3, kept[i & 3]);
	STAP_PROBE2(marks, site, 4, counter);
}

/* Its arguments are made only while somebody looks. */
__attribute__((noinline)) void guarded(int i)
{
	static int made;

	if (marks_guarded_semaphore) {
		made++;
		STAP_PROBE2(marks, guarded, i, made);
	}
}

__attribute__((noinline)) void real(double number)
{
	double kept = number;

	__asm__ volatile("" : "+m"(kept));
	STAP_PROBE2(marks, real, kept, 11);
}

__attribute__((noinline)) void others(int i)
{
	STAP_PROBE(marks, silent);
	STAP_PROBE1(other, wide, i);
}

void run(int count)
{
	for (int i = 0; i < count; i++) {
		char text[32];
		struct record record = {.before = -1, .number = i * 11, .text = text};

		snprintf(text, sizeof(text), "mark %d é", i);
		wide(i, &record);
		sites(i);
		guarded(i);
		real(i * 0.25);
		others(i);
	}
	printf("%d %d %d\n", marks_wide_semaphore, marks_site_semaphore, marks_guarded_semaphore);
}

#ifndef LIBRARY
int main(int argc, char **argv)
{
	run(argc > 1 ? atoi(argv[1]) : 1);
	return 0;
}
#endif
