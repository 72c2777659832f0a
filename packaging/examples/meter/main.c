/* Reads a meter, computes what was used since the last bill, asks when it is too much, and writes the bill, once.
 *
 * Shows: a workflow in C. It needs no library: it starts `bide` and reads what that prints. build.sh makes `main`, which
 * is what is run.
 *
 *   packaging/examples/meter/build.sh
 *   bide run meter --input '{"read": "cat /dev/meter0", "last": 11800, "cents": 32, "bills": "/srv/bills.txt"}'
 *
 * Input: read   a shell command that prints the meter as a whole number
 *        last   what it was at the last bill
 *        cents  the price of a unit
 *        bills  the file that the bill is added to
 *        most   more units than that are asked about (1000)
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { kText = 4096 };

/* Runs bide with these words and keeps what it prints, without its last line end. A verb returns 0 or does not return;
 * anything else is a fault of the machine, and ends the run. */
static void bide(char *out, char *const words[]) {
  int ends[2];
  if (pipe(ends) != 0) exit(70);
  pid_t child = fork();
  if (child < 0) exit(70);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execvp("bide", words);
    _exit(70);
  }
  close(ends[1]);
  size_t length = 0;
  for (;;) {
    ssize_t n = read(ends[0], out + length, kText - 1 - length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    length += (size_t)n;
  }
  close(ends[0]);
  while (length > 0 && out[length - 1] == '\n') --length;
  out[length] = '\0';
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) exit(70);
}

static long input_number(const char *name, const char *by_default) {
  char out[kText];
  bide(out, (char *[]){"bide", "input", (char *)name, by_default ? "--default" : NULL, (char *)by_default, NULL});
  return strtol(out, NULL, 10);
}

int main(void) {
  char read_command[kText], bills[kText], value[kText], ignored[kText], number[32], text[256], line[256];
  bide(read_command, (char *[]){"bide", "input", "read", NULL});
  bide(bills, (char *[]){"bide", "input", "bills", NULL});
  const long last = input_number("last", NULL);
  const long cents = input_number("cents", NULL);
  const long most = input_number("most", "1000");

  /* Recorded: the meter turns on, but this run goes on with what it read. */
  bide(value, (char *[]){"bide", "step", "read", "--effect", "pure", "--retries", "3", "--", "sh", "-c", read_command, NULL});
  const long now = strtol(value, NULL, 10);
  const long units = now - last;
  if (units < 0) {
    fprintf(stderr, "meter: it reads %ld and was %ld: was it changed?\n", now, last);
    return 1;
  }
  if (units > most) {
    snprintf(text, sizeof text, "%ld units since the last bill: more than %ld. Bill them?", units, most);
    bide(ignored, (char *[]){"bide", "wait", "approval", text, "--name", "much", NULL});
  }

  /* Added to a file, so it must not happen twice. The probe looks whether the line is there. */
  snprintf(number, sizeof number, "%ld", now);
  snprintf(line, sizeof line, "meter %ld units %ld cents %ld", now, units, units * cents);
  setenv("BILLS", bills, 1);
  setenv("LINE", line, 1);
  bide(ignored, (char *[]){"bide", "step", "bill", "--key", number, "--probe", "grep -qxF \"$LINE\" \"$BILLS\" || exit 100",
                           "--", "sh", "-c", "printf '%s\\n' \"$1\" >>\"$2\"", "bill", line, bills, NULL});
  snprintf(text, sizeof text, "{\"meter\":%ld,\"units\":%ld,\"cents\":%ld}", now, units, units * cents);
  bide(ignored, (char *[]){"bide", "result", text, NULL});
  return 0;
}
