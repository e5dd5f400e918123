/* Preloaded into the program under test: a call on a file whose name contains what the file
 * $HANG_DIR/CALL says does not return for as long as that file is there. While one hangs,
 * CALL.hung is there, too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

static int said(const char *call, char *text, size_t room) {
    const char *dir = getenv("HANG_DIR");
    char path[PATH_MAX];
    if (!dir) return 0;
    snprintf(path, sizeof path, "%s/%s", dir, call);
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t got = syscall(SYS_read, fd, text, room - 1);
    syscall(SYS_close, fd);
    text[got > 0 ? got : 0] = 0;
    return got > 0;
}

static void hang(const char *call, const char *name) {
    char text[256], path[PATH_MAX];
    if (!said(call, text, sizeof text) || !strstr(name, text)) return;
    snprintf(path, sizeof path, "%s/%s.hung", getenv("HANG_DIR"), call);
    int fd = syscall(SYS_openat, AT_FDCWD, path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
    if (fd >= 0) syscall(SYS_close, fd);
    while (said(call, text, sizeof text)) usleep(2000);
}

static void hang_on(const char *call, int fd) {
    char link[64], name[PATH_MAX];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t got = syscall(SYS_readlinkat, AT_FDCWD, link, name, sizeof name - 1);
    if (got <= 0) return;
    name[got] = 0;
    hang(call, name);
}

#define REAL(name) static __typeof__(name) *real; if (!real) real = (__typeof__(name) *)dlsym(RTLD_NEXT, #name)

ssize_t write(int fd, const void *octets, size_t count) { REAL(write); if (fd > 2) hang_on("write", fd); return real(fd, octets, count); }
ssize_t pwrite64(int fd, const void *octets, size_t count, off64_t at) { REAL(pwrite64); hang_on("write", fd); return real(fd, octets, count, at); }
ssize_t pread64(int fd, void *octets, size_t count, off64_t at) { REAL(pread64); hang_on("read", fd); return real(fd, octets, count, at); }
int fsync(int fd) { REAL(fsync); hang_on("fsync", fd); return real(fd); }
int fdatasync(int fd) { REAL(fdatasync); hang_on("fsync", fd); return real(fd); }
int rename(const char *from, const char *to) { REAL(rename); hang("rename", to); return real(from, to); }

int open64(const char *path, int flags, ...) {
    REAL(open64);
    va_list rest;
    va_start(rest, flags);
    mode_t mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
    va_end(rest);
    hang("open", path);
    return real(path, flags, mode);
}
