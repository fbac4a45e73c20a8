/* Answers the CPUID instructions of a library as an x86 processor without VNNI and AVX-512 would.
 *
 * Each CPUID (0F A2) of the library was replaced by UD2 (0F 0B), which raises SIGILL. The answer is the processor's own, without
 * those features; all other illegal instructions end the process as ever. See without_vnni.py. */
#define _GNU_SOURCE
#include <cpuid.h>
#include <dlfcn.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <ucontext.h>

/* Bits of leaf 7, by the names of Intel's manual. */
static const uint32_t AVX512_EBX = 1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31;
static const uint32_t AVX512_ECX = 1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14;       /* VNNI is bit 11 */
static const uint32_t AVX512_AMX_EDX = 1u << 2 | 1u << 3 | 1u << 8 | 1u << 22 | 1u << 23 | 1u << 24 | 1u << 25;
static const uint32_t AVX_VNNI_EAX = 1u << 4 | 1u << 5 | 1u << 21 | 1u << 23;                /* subleaf 1 */
static const uint32_t AVX_VNNI_EDX = 1u << 4 | 1u << 5 | 1u << 10 | 1u << 19;

static void answer(int number, siginfo_t *info, void *context) {
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    const uint8_t *at = (const uint8_t *)registers[REG_RIP];
    uint32_t leaf = (uint32_t)registers[REG_RAX], subleaf = (uint32_t)registers[REG_RCX], a, b, c, d;
    (void)info;
    if (at[0] != 0x0f || at[1] != 0x0b) {
        signal(number, SIG_DFL);
        return;
    }
    __cpuid_count(leaf, subleaf, a, b, c, d);
    if (leaf == 7 && subleaf == 0) {
        b &= ~AVX512_EBX;
        c &= ~AVX512_ECX;
        d &= ~AVX512_AMX_EDX;
    } else if (leaf == 7 && subleaf == 1) {
        a &= ~AVX_VNNI_EAX;
        d &= ~AVX_VNNI_EDX;
    }
    registers[REG_RAX] = a;
    registers[REG_RBX] = b;
    registers[REG_RCX] = c;
    registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

typedef int (*change)(int, const struct sigaction *, struct sigaction *);

static int change_action(int number, const struct sigaction *action, struct sigaction *old) {
    return ((change)dlsym(RTLD_NEXT, "sigaction"))(number, action, old);
}

/* In place of the C library's: nobody else handles this signal, as Python's faulthandler would. */
int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    return change_action(number, number == SIGILL ? NULL : action, old);
}

__attribute__((constructor)) static void start(void) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    change_action(SIGILL, &action, NULL);
}
