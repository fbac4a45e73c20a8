/* Starts a program of a slow start once for many runs: without arguments it waits for lines of input, and forks for each of them.
 *
 * Loaded before the program (LD_PRELOAD). A line holds words between tabs: a file for all that the run prints, then its arguments. The
 * answer is a line with its exit status, or with the negative number of the signal that ended it. What libraries do when they are
 * loaded is done then: under an emulator that is most of the time of a small run. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS 512

typedef int (*Main)(int, char **, char **);
typedef int (*Start)(Main, int, char **, void (*)(void), void (*)(void), void (*)(void), void *);

static Main program;

static int run(char *name, char *line, char **environment) {
  char *words[WORDS] = {name};
  int count = 1;
  char *log = strtok(line, "\t");
  if (!log || !freopen(log, "w", stderr) || dup2(fileno(stderr), STDOUT_FILENO) < 0 || !freopen("/dev/null", "r", stdin)) return 2;
  for (char *word; count < WORDS - 1 && (word = strtok(NULL, "\t"));) words[count++] = word;
  return program(count, words, environment);
}

static int serve(int count, char **words, char **environment) {
  char *line = NULL;
  size_t size = 0;
  (void)count;
  for (ssize_t length; (length = getline(&line, &size, stdin)) > 0;) {
    line[length - 1] = 0;
    pid_t child = fork();
    if (!child) exit(run(words[0], line, environment));
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) < 0) return 1;
    printf("%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    fflush(stdout);
  }
  return 0;
}

int __libc_start_main(Main main, int count, char **words, void (*init)(void), void (*fini)(void), void (*end)(void), void *stack) {
  Start start = (Start)dlsym(RTLD_NEXT, "__libc_start_main");
  program = main;
  return start(count > 1 ? main : serve, count, words, init, fini, end, stack);
}
