/* short NUMBER WHEN PROGRAM [ARGUMENTS]: runs the program, and lets a system call, the WHENth with that number, move half of what it was
 * asked to, as kernels may. WHEN 0 stands for every one. scripts/faults.py uses it: strace can make a call fail, but not shorten it.
 *
 * Halves are of whole sectors if the whole was: direct I/O is never cut within one. Less than 16 bytes are left alone, because files of
 * events take their 8 bytes or nothing. Ends as the program does; 77 if it may not trace, or on another processor than x86-64. */
#define _GNU_SOURCE
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __x86_64__
#include <sys/user.h>

#define THREADS 65536
static char entered[THREADS];

static void shorten(pid_t thread, struct user_regs_struct *registers, long number) {
    unsigned long long *length = number == SYS_copy_file_range ? &registers->r8 : number == SYS_sendfile ? &registers->r10 : &registers->rdx;
    unsigned long long half = *length / 2;
    if (number == SYS_readv || number == SYS_writev) {
        if (half == 0) return;
    } else {
        if (*length < 16) return;
        if (*length % 512 == 0) half = half / 512 * 512;
        if (half == 0) return;
    }
    *length = half;
    ptrace(PTRACE_SETREGS, thread, 0, registers);
}

int main(int count, char **words) {
    if (count < 4) return 2;
    long number = atol(words[1]), when = atol(words[2]), made = 0;
    pid_t child = fork();
    if (child == 0) {
        if (ptrace(PTRACE_TRACEME, 0, 0, 0) != 0) _exit(77);
        raise(SIGSTOP);
        execv(words[3], words + 3);
        _exit(127);
    }
    int status;
    if (waitpid(child, &status, 0) != child) return 2;
    if (!WIFSTOPPED(status)) return WEXITSTATUS(status);
    long options = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL;
    if (ptrace(PTRACE_SETOPTIONS, child, 0, options) != 0) return 77;
    ptrace(PTRACE_SYSCALL, child, 0, 0);
    int result = 2;
    for (;;) {
        pid_t thread = waitpid(-1, &status, __WALL);
        if (thread < 0) {
            if (errno == EINTR) continue;
            return result;
        }
        if (WIFEXITED(status) || WIFSIGNALED(status)) {
            if (thread == child) result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            entered[thread % THREADS] = 0;
            continue;
        }
        int signal = WSTOPSIG(status);
        if (signal == (SIGTRAP | 0x80)) {
            char *is_in = &entered[thread % THREADS];
            *is_in = !*is_in;
            struct user_regs_struct registers;
            if (*is_in && ptrace(PTRACE_GETREGS, thread, 0, &registers) == 0 && (long)registers.orig_rax == number &&
                (++made == when || when == 0))
                shorten(thread, &registers, number);
            signal = 0;
        } else if (signal == SIGTRAP || signal == SIGSTOP) {
            /* A new thread's first stop, and the events that announce it. */
            signal = 0;
        }
        ptrace(PTRACE_SYSCALL, thread, 0, signal);
    }
}
#else
int main(void) { return 77; }
#endif
