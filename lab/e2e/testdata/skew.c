// A library for LD_PRELOAD that sets the wall clock of a process SKEW seconds
// ahead. Libraries that replace libc's functions do not reach Go, which asks
// the vDSO itself. So this library replaces the code of the vDSO in the process's
// private copy. The monotonic clock remains unchanged. x86-64 only.
#include <elf.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long skew;

static long ask(long number, long a, void *b) {
	long r;
	__asm__ volatile("syscall" : "=a"(r) : "a"(number), "D"(a), "S"(b) : "rcx", "r11", "memory");
	return r;
}

static long shifted_clock_gettime(long id, struct timespec *ts) {
	long r = ask(SYS_clock_gettime, id, ts);
	if (r == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE)) ts->tv_sec += skew;
	return r;
}

static long shifted_gettimeofday(struct timeval *tv, void *zone) {
	long r = ask(SYS_gettimeofday, (long)tv, zone);
	if (r == 0 && tv) tv->tv_sec += skew;
	return r;
}

static time_t shifted_time(time_t *t) {
	time_t now = ask(SYS_time, 0, NULL) + skew;
	if (t) *t = now;
	return now;
}

static void die(const char *why) {
	fprintf(stderr, "skew: %s\n", why);
	_exit(99);
}

// replace overwrites the start of a function with a jump to another.
static void replace(char *at, void *by) {
	unsigned char jump[12] = {0x48, 0xb8, [10] = 0xff, 0xe0}; // movabs by, %rax; jmp *%rax
	memcpy(jump + 2, &by, sizeof by);
	uintptr_t page = (uintptr_t)at & ~(uintptr_t)4095;
	if (mprotect((void *)page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) &&
	    mprotect((void *)page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC))
		die("the vDSO cannot be written");
	memcpy(at, jump, sizeof jump);
}

__attribute__((constructor)) static void begin(void) {
#ifdef ALWAYS // linked into a program whose children get another environment
	const char *text = ALWAYS;
#else
	const char *text = getenv("SKEW");
#endif
	char *base = (char *)getauxval(AT_SYSINFO_EHDR);
	if (!text || !(skew = atol(text))) return;
	if (!base) die("no vDSO");
	Elf64_Phdr *ph = (Elf64_Phdr *)(base + ((Elf64_Ehdr *)base)->e_phoff);
	char *load = base, *strings = NULL;
	Elf64_Sym *symbols = NULL;
	for (int i = 0; i < ((Elf64_Ehdr *)base)->e_phnum; i++)
		if (ph[i].p_type == PT_LOAD) load = base + ph[i].p_offset - ph[i].p_vaddr;
	for (int i = 0; i < ((Elf64_Ehdr *)base)->e_phnum; i++) {
		if (ph[i].p_type != PT_DYNAMIC) continue;
		for (Elf64_Dyn *d = (Elf64_Dyn *)(base + ph[i].p_offset); d->d_tag; d++) {
			if (d->d_tag == DT_SYMTAB) symbols = (Elf64_Sym *)(load + d->d_un.d_ptr);
			if (d->d_tag == DT_STRTAB) strings = load + d->d_un.d_ptr;
		}
	}
	if (!symbols || !strings) die("the vDSO has no symbols");
	int replaced = 0;
	for (Elf64_Sym *s = symbols; (char *)(s + 1) <= strings; s++) { // the strings follow the symbols
		const char *name = strings + s->st_name;
		void *by = !strcmp(name, "__vdso_clock_gettime") ? (void *)shifted_clock_gettime
			: !strcmp(name, "__vdso_gettimeofday")       ? (void *)shifted_gettimeofday
			: !strcmp(name, "__vdso_time")               ? (void *)shifted_time
			                                             : NULL;
		if (by) replace(load + s->st_value, by), replaced++;
	}
	if (replaced < 2) die("the vDSO lacks the clock");
}
