/* How broken the libraries of these tests are: the file "mode" beside them says,
 * in words with a number each, "open 13". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char text[4096] = " ";

__attribute__((constructor)) static void look(void)
{
	char path[4096];
	Dl_info self;
	FILE *f;

	if (!dladdr((void *)look, &self))
		abort();
	snprintf(path, sizeof path, "%.*s/mode", (int)(strrchr(self.dli_fname, '/') - self.dli_fname), self.dli_fname);
	f = fopen(path, "r");
	if (f == NULL)
		return;
	text[1 + fread(text + 1, 1, sizeof text - 2, f)] = 0;
	fclose(f);
}

/* mode is the number behind a word of the file; -1 where it is not there. */
static long mode(const char *word)
{
	size_t n = strlen(word);
	char *at;

	for (at = text; (at = strstr(at, word)) != NULL; at += n)
		if (at > text && at[-1] == ' ' && at[n] == ' ')
			return strtol(at + n, NULL, 0);
	return -1;
}
