/* Make the k-th call fail, or kill the process at it: between a program and its C library (LD_PRELOAD).

   Counted are calls that concern paths below one folder, or descriptors opened there, so that a program's own imports
   don't count; and allocations of at least 32 KiB (smaller ones hold the first frames of a thread: when that fails,
   Thread.start of Python 3.11 waits for ever, whatever we do). Nothing counts before fault_arm, which the harness calls
   after fork.

   What it can't see: calls from inside the C library itself (a thread's stack), and system calls made without it. */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPEN, READ, WRITE, FSYNC, RENAME, MKDIR, UNLINK, ALLOC, KINDS, ANY = KINDS };
#define LARGE (32 * 1024)
#define MOST_DESCRIPTORS 4096

static atomic_int armed;
static atomic_long *counts;           /* KINDS + 1 numbers that outlive the process: mapped by whoever asks */
static int chosen, with_error, kills, stays;
static long chosen_call;
static char root[4096];
static size_t root_length;
static atomic_char below[MOST_DESCRIPTORS];

void fault_arm(const char *folder, atomic_long *shared, int kind, long at, int error, int kill_instead, int sticky) {
    root_length = strlen(folder);
    memcpy(root, folder, root_length + 1);
    counts = shared, chosen = kind, chosen_call = at, with_error = error, kills = kill_instead, stays = sticky;
    atomic_store(&armed, 1);
}

/* Whether this call is to fail. It is counted, and this may be the last thing the process does. */
static int fails(int kind) {
    if (!atomic_load(&armed)) return 0;
    long number = atomic_fetch_add(&counts[kind], 1) + 1;
    long any = kind == ALLOC ? 0 : atomic_fetch_add(&counts[ANY], 1) + 1;
    if (chosen == ANY ? kind == ALLOC : kind != chosen) return 0;
    long now = chosen == ANY ? any : number;
    if (now != chosen_call && !(stays && now > chosen_call)) return 0;
    if (kills) kill(getpid(), SIGKILL);
    errno = with_error;
    return 1;
}

static int is_below(int directory, const char *path) {
    if (!atomic_load(&armed) || !path) return 0;
    if (path[0] == '/') return !strncmp(path, root, root_length) && (path[root_length] == '/' || !path[root_length]);
    return directory == AT_FDCWD || (directory >= 0 && directory < MOST_DESCRIPTORS && below[directory]);
}

static int is_marked(int descriptor) {
    return atomic_load(&armed) && descriptor >= 0 && descriptor < MOST_DESCRIPTORS && below[descriptor];
}

static int marked(int descriptor) {
    if (descriptor >= 0 && descriptor < MOST_DESCRIPTORS) below[descriptor] = 1;
    return descriptor;
}

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

/* Opening: what creates or what reads. */
#define OPENS(name) \
    int name(const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        if (!is_below(AT_FDCWD, path)) return real(path, flags, mode); \
        return fails(OPEN) ? -1 : marked(real(path, flags, mode)); \
    }
OPENS(open)
OPENS(open64)
#define OPENS_AT(name) \
    int name(int directory, const char *path, int flags, ...) { \
        REAL(name); \
        va_list more; va_start(more, flags); mode_t mode = va_arg(more, mode_t); va_end(more); \
        if (!is_below(directory, path)) return real(directory, path, flags, mode); \
        return fails(OPEN) ? -1 : marked(real(directory, path, flags, mode)); \
    }
OPENS_AT(openat)
OPENS_AT(openat64)
#define OPENS_STREAM(name) \
    FILE *name(const char *path, const char *mode) { \
        REAL(name); \
        return is_below(AT_FDCWD, path) && fails(OPEN) ? NULL : real(path, mode); \
    }
OPENS_STREAM(fopen)
OPENS_STREAM(fopen64)

int close(int descriptor) {
    REAL(close);
    if (descriptor >= 0 && descriptor < MOST_DESCRIPTORS) below[descriptor] = 0;
    return real(descriptor);
}

int fcntl64(int descriptor, int command, ...) {
    REAL(fcntl64);
    va_list more; va_start(more, command); void *argument = va_arg(more, void *); va_end(more);
    int answer = real(descriptor, command, argument);
    int copies = command == F_DUPFD || command == F_DUPFD_CLOEXEC;
    return copies && is_marked(descriptor) ? marked(answer) : answer;
}

int dup(int descriptor) {
    REAL(dup);
    int answer = real(descriptor);
    return is_marked(descriptor) ? marked(answer) : answer;
}

/* A descriptor first, and the answer is a length, or -1. */
#define ON_DESCRIPTOR(answer, name, kind, parameters, arguments) \
    answer name parameters { \
        REAL(name); \
        return is_marked(descriptor) && fails(kind) ? -1 : real arguments; \
    }
ON_DESCRIPTOR(ssize_t, read, READ, (int descriptor, void *to, size_t size), (descriptor, to, size))
ON_DESCRIPTOR(ssize_t, pread, READ, (int descriptor, void *to, size_t size, off_t at), (descriptor, to, size, at))
ON_DESCRIPTOR(ssize_t, pread64, READ, (int descriptor, void *to, size_t size, off64_t at), (descriptor, to, size, at))
ON_DESCRIPTOR(ssize_t, readv, READ, (int descriptor, const struct iovec *parts, int number), (descriptor, parts, number))
ON_DESCRIPTOR(ssize_t, write, WRITE, (int descriptor, const void *from, size_t size), (descriptor, from, size))
ON_DESCRIPTOR(ssize_t, pwrite, WRITE, (int descriptor, const void *from, size_t size, off_t at), (descriptor, from, size, at))
ON_DESCRIPTOR(ssize_t, pwrite64, WRITE, (int descriptor, const void *from, size_t size, off64_t at), (descriptor, from, size, at))
ON_DESCRIPTOR(ssize_t, writev, WRITE, (int descriptor, const struct iovec *parts, int number), (descriptor, parts, number))
ON_DESCRIPTOR(int, ftruncate, WRITE, (int descriptor, off_t size), (descriptor, size))
ON_DESCRIPTOR(int, ftruncate64, WRITE, (int descriptor, off64_t size), (descriptor, size))
ON_DESCRIPTOR(int, fsync, FSYNC, (int descriptor), (descriptor))
ON_DESCRIPTOR(int, fdatasync, FSYNC, (int descriptor), (descriptor))

/* Streams, as NumPy uses them for arrays: what they do inside the C library can't be seen, so the call itself counts. */
size_t fwrite(const void *from, size_t size, size_t number, FILE *stream) {
    REAL(fwrite);
    return is_marked(fileno(stream)) && fails(WRITE) ? 0 : real(from, size, number, stream);
}

size_t fread(void *to, size_t size, size_t number, FILE *stream) {
    REAL(fread);
    return is_marked(fileno(stream)) && fails(READ) ? 0 : real(to, size, number, stream);
}

/* These give the error as their answer. */
int posix_fallocate(int descriptor, off_t at, off_t size) {
    REAL(posix_fallocate);
    return is_marked(descriptor) && fails(WRITE) ? with_error : real(descriptor, at, size);
}

int posix_fallocate64(int descriptor, off64_t at, off64_t size) {
    REAL(posix_fallocate64);
    return is_marked(descriptor) && fails(WRITE) ? with_error : real(descriptor, at, size);
}

/* Paths. */
#define ON_PATH(name, kind, directory, path, parameters, arguments) \
    int name parameters { \
        REAL(name); \
        return is_below(directory, path) && fails(kind) ? -1 : real arguments; \
    }
ON_PATH(mkdir, MKDIR, AT_FDCWD, path, (const char *path, mode_t mode), (path, mode))
ON_PATH(mkdirat, MKDIR, directory, path, (int directory, const char *path, mode_t mode), (directory, path, mode))
ON_PATH(rename, RENAME, AT_FDCWD, to, (const char *from, const char *to), (from, to))
ON_PATH(renameat, RENAME, there, to, (int here, const char *from, int there, const char *to), (here, from, there, to))
ON_PATH(renameat2, RENAME, there, to, (int here, const char *from, int there, const char *to, unsigned flags),
        (here, from, there, to, flags))
ON_PATH(link, RENAME, AT_FDCWD, to, (const char *from, const char *to), (from, to))
ON_PATH(linkat, RENAME, there, to, (int here, const char *from, int there, const char *to, int flags),
        (here, from, there, to, flags))
ON_PATH(unlink, UNLINK, AT_FDCWD, path, (const char *path), (path))
ON_PATH(unlinkat, UNLINK, directory, path, (int directory, const char *path, int flags), (directory, path, flags))
ON_PATH(rmdir, UNLINK, AT_FDCWD, path, (const char *path), (path))

/* Memory. The C library has the real functions under other names too, which dlsym (it allocates) can't help with. */
extern void *__libc_malloc(size_t);
extern void *__libc_calloc(size_t, size_t);
extern void *__libc_realloc(void *, size_t);
extern void *__libc_memalign(size_t, size_t);

static int no_memory(size_t size) { return size >= LARGE && fails(ALLOC); }

void *malloc(size_t size) { return no_memory(size) ? NULL : __libc_malloc(size); }
void *calloc(size_t number, size_t size) { return no_memory(number * size) ? NULL : __libc_calloc(number, size); }
void *realloc(void *old, size_t size) { return no_memory(size) ? NULL : __libc_realloc(old, size); }
void *aligned_alloc(size_t to, size_t size) { return no_memory(size) ? NULL : __libc_memalign(to, size); }
int posix_memalign(void **place, size_t to, size_t size) {
    void *found = no_memory(size) ? NULL : __libc_memalign(to, size);
    if (!found) return ENOMEM;
    *place = found;
    return 0;
}

#define MAPS(name, offset) \
    void *name(void *at, size_t size, int protection, int flags, int descriptor, offset from) { \
        REAL(name); \
        if ((flags & MAP_ANONYMOUS) && no_memory(size)) return MAP_FAILED; \
        return is_marked(descriptor) && fails(READ) ? MAP_FAILED : real(at, size, protection, flags, descriptor, from); \
    }
MAPS(mmap, off_t)
MAPS(mmap64, off64_t)
