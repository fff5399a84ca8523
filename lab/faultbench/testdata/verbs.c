// A libibverbs that answers from verbs.txt beside it: a line for each device,
// "mlx5_0 0", with the errno of an attempt to open it. Built with the version
// IBVERBS_1.1, by which launch asks for its functions.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ibv_device {
    char name[64];
    int errno_;
};

struct ibv_device **ibv_get_device_list(int *count) {
    Dl_info self;
    char path[4096];
    struct ibv_device d, **list = calloc(256, sizeof *list);
    *count = 0;
    if (!dladdr((void *)ibv_get_device_list, &self))
        abort();
    snprintf(path, sizeof path, "%.*s/verbs.txt", (int)(strrchr(self.dli_fname, '/') - self.dli_fname), self.dli_fname);
    FILE *f = fopen(path, "r");
    while (f && *count < 255 && fscanf(f, "%63s %d", d.name, &d.errno_) == 2) {
        list[*count] = malloc(sizeof d);
        *list[(*count)++] = d;
    }
    return list;
}

void ibv_free_device_list(struct ibv_device **list) { free(list); }
const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }
int ibv_close_device(void *context) { return context == NULL; }

void *ibv_open_device(struct ibv_device *d) {
    errno = d->errno_;
    return d->errno_ ? NULL : d;
}
