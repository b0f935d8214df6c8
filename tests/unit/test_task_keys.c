/* SPDX-License-Identifier: MIT */

/*
 * What every key of a task takes, of a person and of a program, what is written of it, and what is
 * said of what it does not take: these words are in scripts, in logs and in the manual.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/mem.h"
#include "base/str.h"
#include "spool/task_spec.h"
#include "spool/task_text.h"

#define A4   "aaaa"
#define A16  A4 A4 A4 A4
#define A64  A16 A16 A16 A16
#define A65  A64 "a"
#define M64  "mmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmmm"
#define M256 M64 M64 M64 M64
#define M257 M256 "m"
/* Too long to be written here: so many d behind a slash. */
#define D4096 "(4096)"
#define D4097 "(4097)"

enum how {
	TEXT, /* an option, or a key = value of an edit */
	JSON, /* a file */
};

/* expected: the key's value as it is written, "-" where it is not; or "!" and what is wrong. */
static const struct {
	const char *key;
	enum how how;
	const char *given, *expected;
} cases[] = {
	{ "version", TEXT, "1", "1" },
	{ "version", TEXT, "2", "!version: 2 is out of range, 1 to 1" },
	{ "version", TEXT, "0", "!version: 0 is out of range, 1 to 1" },
	{ "version", TEXT, "x", "!version: must be a whole number" },
	{ "version", JSON, "1", "1" },
	{ "version", JSON, "2", "!version: 2 is out of range, 1 to 1" },
	{ "version", JSON, "0", "!version: 0 is out of range, 1 to 1" },
	{ "version", JSON, "\"1\"", "!version: must be a whole number" },
	{ "version", JSON, "1.0", "!version: must be a whole number" },
	{ "version", JSON, "1.5", "!version: must be a whole number" },
	{ "version", JSON, "true", "!version: must be a whole number" },
	{ "version", JSON, "null", "1" },
	{ "name", TEXT, "train", "\"train\"" },
	{ "name", TEXT, "a b",
	  "!name: \"a b\" is not a name; use up to 64 bytes of letters, digits and . _ + - and begin with a letter, a digit, _ or +" },
	{ "name", TEXT, "",
	  "!name: \"\" is not a name; use up to 64 bytes of letters, digits and . _ + - and begin with a letter, a digit, _ or +" },
	{ "name", TEXT, "-x",
	  "!name: \"-x\" is not a name; use up to 64 bytes of letters, digits and . _ + - and begin with a letter, a digit, _ or +" },
	{ "name", TEXT, ".x",
	  "!name: \".x\" is not a name; use up to 64 bytes of letters, digits and . _ + - and begin with a letter, a digit, _ or +" },
	{ "name", TEXT, "+x", "\"+x\"" },
	{ "name", TEXT, "_x", "\"_x\"" },
	{ "name", TEXT, "\303\251t\303\251", "\"\303\251t\303\251\"" },
	{ "name", TEXT, "42", "\"42\"" },
	{ "name", TEXT, "all", "\"all\"" },
	{ "name", TEXT, "\377\376", "!name: the text is not UTF-8" },
	{ "name", TEXT, A65,
	  "!name: \"" A65
	  "\" is not a name; use up to 64 bytes of letters, digits and . _ + - and begin with a letter, a digit, _ or +" },
	{ "name", TEXT, A64, "\"" A64 "\"" },
	{ "name", JSON, "\"x\"", "\"x\"" },
	{ "name", JSON, "5",
	  "!name: \"?\" is not a name; use up to 64 bytes of letters, digits and . _ + - and begin with a letter, a digit, _ or +" },
	{ "name", JSON, "null", "-" },
	{ "name", JSON, "{\"base64\":\"eA==\"}",
	  "!name: \"?\" is not a name; use up to 64 bytes of letters, digits and . _ + - and begin with a letter, a digit, _ or +" },
	{ "name", JSON, "\"\"",
	  "!name: \"\" is not a name; use up to 64 bytes of letters, digits and . _ + - and begin with a letter, a digit, _ or +" },
	{ "gpus", TEXT, "2", "2" },
	{ "gpus", TEXT, "all", "\"all\"" },
	{ "gpus", TEXT, "0", "0" },
	{ "gpus", TEXT, "1024", "1024" },
	{ "gpus", TEXT, "1025", "!gpus: 1025 is out of range, 0 to 1024" },
	{ "gpus", TEXT, "-1", "!gpus: must be a whole number or all" },
	{ "gpus", TEXT, "x", "!gpus: must be a whole number or all" },
	{ "gpus", TEXT, "ALL", "!gpus: must be a whole number or all" },
	{ "gpus", TEXT, "forever", "!gpus: must be a whole number or all" },
	{ "gpus", TEXT, "2.0", "!gpus: must be a whole number or all" },
	{ "gpus", TEXT, "1.5", "!gpus: must be a whole number or all" },
	{ "gpus", TEXT, " 2", "!gpus: must be a whole number or all" },
	{ "gpus", TEXT, "0x2", "!gpus: must be a whole number or all" },
	{ "gpus", TEXT, "2k", "!gpus: must be a whole number or all" },
	{ "gpus", TEXT, "99999999999999999999", "!gpus: must be a whole number or all" },
	{ "gpus", TEXT, "", "!gpus: must be a whole number or all" },
	{ "gpus", JSON, "2", "2" },
	{ "gpus", JSON, "\"all\"", "\"all\"" },
	{ "gpus", JSON, "\"2\"", "!gpus: must be a whole number or all" },
	{ "gpus", JSON, "2.0", "!gpus: must be a whole number or all" },
	{ "gpus", JSON, "2.5", "!gpus: must be a whole number or all" },
	{ "gpus", JSON, "1e3", "!gpus: must be a whole number or all" },
	{ "gpus", JSON, "-1", "!gpus: must be a whole number or all" },
	{ "gpus", JSON, "true", "!gpus: must be a whole number or all" },
	{ "gpus", JSON, "1025", "!gpus: 1025 is out of range, 0 to 1024" },
	{ "gpus", JSON, "[]", "!gpus: must be a whole number or all" },
	{ "gpus", JSON, "null", "-" },
	{ "gpus", JSON, "\"ALL\"", "!gpus: must be a whole number or all" },
	{ "nodes", TEXT, "2", "2" },
	{ "nodes", TEXT, "1", "1" },
	{ "nodes", TEXT, "1024", "1024" },
	{ "nodes", TEXT, "0", "!nodes: 0 is out of range, 1 to 1024" },
	{ "nodes", TEXT, "1025", "!nodes: 1025 is out of range, 1 to 1024" },
	{ "nodes", JSON, "4", "4" },
	{ "nodes", JSON, "null", "-" },
	{ "memory", TEXT, "20G", "\"20G\"" },
	{ "memory", TEXT, "0", "-" },
	{ "memory", TEXT, "1.5G", "\"1.5G\"" },
	{ "memory", TEXT, "20", "!memory: \"20\" has no unit; did you mean 20G?" },
	{ "memory", TEXT, "x", "!memory: \"x\" is not a size; write it like 38G, 1.5G or 512M" },
	{ "memory", TEXT, "-1G",
	  "!memory: \"-1G\" is not a size; write it like 38G, 1.5G or 512M" },
	{ "memory", TEXT, "", "!memory: \"\" is not a size; write it like 38G, 1.5G or 512M" },
	{ "memory", TEXT, "9999999999G", "!memory: \"9999999999G\" is too large" },
	{ "memory", TEXT, "20GB", "\"20G\"" },
	{ "memory", TEXT, "20 G", "\"20G\"" },
	{ "memory", TEXT, "20g", "\"20G\"" },
	{ "memory", TEXT, "1T", "\"1T\"" },
	{ "memory", TEXT, "18446744073709551615",
	  "!memory: \"18446744073709551615\" has no unit; did you mean 18446744073709551615G?" },
	{ "memory", TEXT, "auto", "\"auto\"" },
	{ "memory", TEXT, "Auto",
	  "!memory: \"Auto\" is not a size; write it like 38G, 1.5G or 512M" },
	{ "memory", JSON, "\"auto\"", "\"auto\"" },
	{ "memory", JSON, "1024", "\"1K\"" },
	{ "memory", JSON, "1.5", "!memory: must be bytes, or a text like \"20G\"" },
	{ "memory", JSON, "\"20G\"", "\"20G\"" },
	{ "memory", JSON, "-1", "!memory: must be bytes, or a text like \"20G\"" },
	{ "memory", JSON, "true", "!memory: must be bytes, or a text like \"20G\"" },
	{ "memory", JSON, "1e18", "!memory: must be bytes, or a text like \"20G\"" },
	{ "memory", JSON, "1e30", "!memory: must be bytes, or a text like \"20G\"" },
	{ "memory", JSON, "\"\"", "!memory: \"\" is not a size; write it like 38G, 1.5G or 512M" },
	{ "memory", JSON, "null", "-" },
	{ "memory", JSON, "0", "-" },
	{ "shared", TEXT, "true", "true" },
	{ "shared", TEXT, "yes", "true" },
	{ "shared", TEXT, "on", "true" },
	{ "shared", TEXT, "1", "true" },
	{ "shared", TEXT, "", "true" },
	{ "shared", TEXT, "false", "-" },
	{ "shared", TEXT, "no", "-" },
	{ "shared", TEXT, "off", "-" },
	{ "shared", TEXT, "0", "-" },
	{ "shared", TEXT, "TRUE", "!shared: must be true or false" },
	{ "shared", TEXT, "x", "!shared: must be true or false" },
	{ "shared", JSON, "true", "true" },
	{ "shared", JSON, "false", "-" },
	{ "shared", JSON, "1", "!shared: must be true or false" },
	{ "shared", JSON, "\"true\"", "!shared: must be true or false" },
	{ "shared", JSON, "null", "-" },
	{ "model", TEXT, "*H200*", "\"*H200*\"" },
	{ "model", TEXT, "", "\"\"" },
	{ "model", TEXT, "\377", "!model: the text is not UTF-8" },
	{ "model", TEXT, M256, "\"" M256 "\"" },
	{ "model", TEXT, M257, "!model: longer than 256B" },
	{ "model", JSON, "3", "!model: must be a text" },
	{ "model", JSON, "\"x\"", "\"x\"" },
	{ "model", JSON, "null", "-" },
	{ "priority", TEXT, "5", "5" },
	{ "priority", TEXT, "0", "0" },
	{ "priority", TEXT, "99999", "99999" },
	{ "priority", TEXT, "100000", "!priority: 100000 is out of range, 0 to 99999" },
	{ "priority", TEXT, "-1", "!priority: must be a whole number" },
	{ "priority", TEXT, "x", "!priority: must be a whole number" },
	{ "priority", TEXT, "5.0", "!priority: must be a whole number" },
	{ "priority", TEXT, "1e2", "!priority: must be a whole number" },
	{ "priority", TEXT, "5.5", "!priority: must be a whole number" },
	{ "priority", TEXT, "", "!priority: must be a whole number" },
	{ "priority", JSON, "5", "5" },
	{ "priority", JSON, "\"5\"", "!priority: must be a whole number" },
	{ "priority", JSON, "5.0", "!priority: must be a whole number" },
	{ "priority", JSON, "-5", "!priority: must be a whole number" },
	{ "priority", JSON, "100000", "!priority: 100000 is out of range, 0 to 99999" },
	{ "priority", JSON, "true", "!priority: must be a whole number" },
	{ "priority", JSON, "null", "-" },
	{ "lane", TEXT, "a", "\"a\"" },
	{ "lane", TEXT, "a/b",
	  "!lane: \"a/b\" is not a name; use up to 64 bytes of letters, digits and . _ + - and begin with a letter, a digit, _ or +" },
	{ "lane", JSON, "\"a\"", "\"a\"" },
	{ "lane", JSON, "[]",
	  "!lane: \"?\" is not a name; use up to 64 bytes of letters, digits and . _ + - and begin with a letter, a digit, _ or +" },
	{ "retries", TEXT, "3", "3" },
	{ "retries", TEXT, "0", "-" },
	{ "retries", TEXT, "forever", "\"forever\"" },
	{ "retries", TEXT, "1000000", "1000000" },
	{ "retries", TEXT, "1000001", "!retries: 1000001 is out of range, 0 to 1000000" },
	{ "retries", TEXT, "all", "!retries: must be a whole number or forever" },
	{ "retries", TEXT, "x", "!retries: must be a whole number or forever" },
	{ "retries", TEXT, "-1", "!retries: must be a whole number or forever" },
	{ "retries", TEXT, "3.0", "!retries: must be a whole number or forever" },
	{ "retries", JSON, "3", "3" },
	{ "retries", JSON, "\"forever\"", "\"forever\"" },
	{ "retries", JSON, "\"all\"", "!retries: must be a whole number or forever" },
	{ "retries", JSON, "\"3\"", "!retries: must be a whole number or forever" },
	{ "retries", JSON, "2.5", "!retries: must be a whole number or forever" },
	{ "retries", JSON, "-1", "!retries: must be a whole number or forever" },
	{ "retries", JSON, "null", "-" },
	{ "retry_every", TEXT, "0", "!retry_every: 0 is out of range, 1 to 1000000" },
	{ "retry_every", TEXT, "1", "1" },
	{ "retry_every", TEXT, "3", "-" },
	{ "retry_every", TEXT, "1000000", "1000000" },
	{ "retry_every", TEXT, "1000001", "!retry_every: 1000001 is out of range, 1 to 1000000" },
	{ "retry_every", JSON, "0", "!retry_every: 0 is out of range, 1 to 1000000" },
	{ "retry_every", JSON, "5", "5" },
	{ "backoff", TEXT, "10m", "-" },
	{ "backoff", TEXT, "600", "!backoff: \"600\" has no unit; did you mean 600m?" },
	{ "backoff", TEXT, "0", "\"0\"" },
	{ "backoff", TEXT, "365d", "\"365d\"" },
	{ "backoff", TEXT, "366d", "!backoff: 366d is out of range, 0 to 365d" },
	{ "backoff", TEXT, "1.5h", "\"1h30m\"" },
	{ "backoff", TEXT, "x",
	  "!backoff: \"x\" is not a duration; write it like 90s, 5m, 1h30m or 2d" },
	{ "backoff", TEXT, "",
	  "!backoff: \"\" is not a duration; write it like 90s, 5m, 1h30m or 2d" },
	{ "backoff", TEXT, "-1",
	  "!backoff: \"-1\" is not a duration; write it like 90s, 5m, 1h30m or 2d" },
	{ "backoff", TEXT, "1h30m", "\"1h30m\"" },
	{ "backoff", TEXT, "5ms", "\"5ms\"" },
	{ "backoff", JSON, "600", "-" },
	{ "backoff", JSON, "0.5", "\"500ms\"" },
	{ "backoff", JSON, "\"10m\"", "-" },
	{ "backoff", JSON, "-1", "!backoff: must be seconds, or a text like \"10m\"" },
	{ "backoff", JSON, "1e12", "!backoff: 11574074d1h46m40s is out of range, 0 to 365d" },
	{ "backoff", JSON, "\"x\"",
	  "!backoff: \"x\" is not a duration; write it like 90s, 5m, 1h30m or 2d" },
	{ "backoff", JSON, "0", "\"0\"" },
	{ "backoff", JSON, "true", "!backoff: must be seconds, or a text like \"10m\"" },
	{ "backoff", JSON, "null", "-" },
	{ "timeout", TEXT, "1h", "\"1h\"" },
	{ "timeout", TEXT, "0", "-" },
	{ "timeout", TEXT, "3650d", "\"3650d\"" },
	{ "timeout", TEXT, "3651d", "!timeout: 3651d is out of range, 0 to 3650d" },
	{ "timeout", JSON, "3600", "\"1h\"" },
	{ "timeout", JSON, "\"1h\"", "\"1h\"" },
	{ "timeout", JSON, "1e15", "!timeout: 11574074074d1h46m40s is out of range, 0 to 3650d" },
	{ "after", TEXT, "42", "[42]" },
	{ "after", TEXT, "42 43", "[42,43]" },
	{ "after", TEXT, "42,43", "[42,43]" },
	{ "after", TEXT, "42, 43", "[42,43]" },
	{ "after", TEXT, "3,,4", "!after: entry 2: must be the id of a task, a number" },
	{ "after", TEXT, "3,", "!after: entry 2: must be the id of a task, a number" },
	{ "after", TEXT, "x", "!after: entry 1: must be the id of a task, a number" },
	{ "after", TEXT, "0", "!after: entry 1: 0 is less than 1" },
	{ "after", TEXT, "42.1", "!after: entry 1: must be the id of a task, a number" },
	{ "after", TEXT, "", "!after: entry 1: must be the id of a task, a number" },
	{ "after", TEXT, " 5", "[5]" },
	{ "after", TEXT, "5 ", "[5]" },
	{ "after", TEXT, "7,x", "!after: entry 2: must be the id of a task, a number" },
	{ "after", TEXT, "-1", "!after: entry 1: must be the id of a task, a number" },
	{ "after", TEXT, "18446744073709551615",
	  "!after: entry 1: must be the id of a task, a number" },
	{ "after", TEXT, "9223372036854775807", "[9223372036854775807]" },
	{ "after", JSON, "[1,2]", "[1,2]" },
	{ "after", JSON, "[0]", "!after: entry 1: 0 is less than 1" },
	{ "after", JSON, "[\"1\"]", "!after: entry 1: must be the id of a task, a number" },
	{ "after", JSON, "[1.5]", "!after: entry 1: must be the id of a task, a number" },
	{ "after", JSON, "[1.0]", "!after: entry 1: must be the id of a task, a number" },
	{ "after", JSON, "\"1\"", "!after: must be a list" },
	{ "after", JSON, "{}", "!after: must be a list" },
	{ "after", JSON, "[]", "-" },
	{ "after", JSON, "5", "!after: must be a list" },
	{ "after", JSON, "[1,0]", "!after: entry 2: 0 is less than 1" },
	{ "after", JSON, "null", "-" },
	{ "after_any", TEXT, "42", "[42]" },
	{ "after_any", JSON, "[3]", "[3]" },
	{ "after_any", JSON, "[-3]", "!after_any: entry 1: must be the id of a task, a number" },
	{ "array", TEXT, "1-100%4", "\"1-100%4\"" },
	{ "array", TEXT, "1-1", "\"1-1\"" },
	{ "array", TEXT, "9-1", "!array: \"9-1\" ends before it begins" },
	{ "array", TEXT, "1-",
	  "!array: \"1-\" is no range of indices; write 1-100, or 1-100%4 for four at once" },
	{ "array", TEXT, "x",
	  "!array: \"x\" is no range of indices; write 1-100, or 1-100%4 for four at once" },
	{ "array", TEXT, "",
	  "!array: \"\" is no range of indices; write 1-100, or 1-100%4 for four at once" },
	{ "array", TEXT, "0-9", "\"0-9\"" },
	{ "array", TEXT, "1-100%0",
	  "!array: \"1-100%0\" is no range of indices; write 1-100, or 1-100%4 for four at once" },
	{ "array", TEXT, "5", "\"5-5\"" },
	{ "array", TEXT, "1-2000000", "!array: \"1-2000000\" has more than 1000000 elements" },
	{ "array", TEXT, "1-1000000", "\"1-1000000\"" },
	{ "array", TEXT, "1-3 ",
	  "!array: \"1-3 \" is no range of indices; write 1-100, or 1-100%4 for four at once" },
	{ "array", JSON, "\"1-3\"", "\"1-3\"" },
	{ "array", JSON, "3", "!array: must be a text like \"1-100%4\"" },
	{ "array", JSON, "[]", "!array: must be a text like \"1-100%4\"" },
	{ "array", JSON, "null", "-" },
	{ "sweep", TEXT, "lr=0.1,0.01", "[\"lr=0.1,0.01\"]" },
	{ "sweep", TEXT, "x", "[\"x\"]" },
	{ "sweep", TEXT, "", "[\"\"]" },
	{ "sweep", JSON, "[\"a=1\"]", "[\"a=1\"]" },
	{ "sweep", JSON, "\"a=1\"", "!sweep: must be a list" },
	{ "sweep", JSON, "[1]", "!sweep: entry 1 must be a text" },
	{ "sweep", JSON, "[]", "-" },
	{ "sweep", JSON, "[\"a=1\",\"b=2\"]", "[\"a=1\",\"b=2\"]" },
	{ "sweep", JSON, "[{\"base64\":\"eA==\"}]", "!sweep: entry 1 must be a text" },
	{ "sweep", JSON, "null", "-" },
	{ "preemptible", TEXT, "yes", "true" },
	{ "preemptible", TEXT, "maybe", "!preemptible: must be true or false" },
	{ "signal", TEXT, "USR1", "\"USR1\"" },
	{ "signal", TEXT, "SIGUSR1", "\"USR1\"" },
	{ "signal", TEXT, "usr1", "\"USR1\"" },
	{ "signal", TEXT, "10", "\"USR1\"" },
	{ "signal", TEXT, "x",
	  "!signal: \"x\" is no signal; write a name like TERM, INT or USR1, or its number" },
	{ "signal", TEXT, "0",
	  "!signal: \"0\" is no signal; write a name like TERM, INT or USR1, or its number" },
	{ "signal", TEXT, "99",
	  "!signal: \"99\" is no signal; write a name like TERM, INT or USR1, or its number" },
	{ "signal", TEXT, "",
	  "!signal: \"\" is no signal; write a name like TERM, INT or USR1, or its number" },
	{ "signal", TEXT, "-1",
	  "!signal: \"-1\" is no signal; write a name like TERM, INT or USR1, or its number" },
	{ "signal", JSON, "10", "\"USR1\"" },
	{ "signal", JSON, "\"TERM\"", "\"TERM\"" },
	{ "signal", JSON, "10.5", "!signal: must be the name of a signal, or its number" },
	{ "signal", JSON, "\"SIGINT\"", "\"INT\"" },
	{ "signal", JSON, "99",
	  "!signal: \"99\" is no signal; write a name like TERM, INT or USR1, or its number" },
	{ "signal", JSON, "true", "!signal: must be the name of a signal, or its number" },
	{ "signal", JSON, "null", "-" },
	{ "grace", TEXT, "30s", "-" },
	{ "grace", TEXT, "0", "\"0\"" },
	{ "grace", TEXT, "1d", "\"1d\"" },
	{ "grace", TEXT, "25h", "!grace: 1d1h is out of range, 0 to 1d" },
	{ "grace", JSON, "30", "-" },
	{ "grace", JSON, "86401", "!grace: 1d1s is out of range, 0 to 1d" },
	{ "env", TEXT, "A=1", "[\"A=1\"]" },
	{ "env", TEXT, "A", "[\"A\"]" },
	{ "env", TEXT, "", "[\"\"]" },
	{ "env", TEXT, "A=1,2", "[\"A=1,2\"]" },
	{ "env", TEXT, "A=\377", "[{\"base64\":\"QT3/\"}]" },
	{ "env", JSON, "[\"A=1\"]", "[\"A=1\"]" },
	{ "env", JSON, "[{\"base64\":\"QT3/\"}]", "[{\"base64\":\"QT3/\"}]" },
	{ "env", JSON, "[{\"base64\":\"!\"}]",
	  "!env: entry 1 must be a text, or {\"base64\":\"..\"}" },
	{ "env", JSON, "[1]", "!env: entry 1 must be a text, or {\"base64\":\"..\"}" },
	{ "env", JSON, "{}", "!env: must be a list" },
	{ "env", JSON, "\"A=1\"", "!env: must be a list" },
	{ "env", JSON, "[{\"base64\":\"QQ==\",\"x\":1}]",
	  "!env: entry 1 must be a text, or {\"base64\":\"..\"}" },
	{ "env", JSON, "null", "-" },
	{ "cwd", TEXT, "/tmp", "\"/tmp\"" },
	{ "cwd", TEXT, "tmp", "!cwd: \"tmp\" is not an absolute path" },
	{ "cwd", TEXT, "~/x", "!cwd: \"~/x\" is not an absolute path" },
	{ "cwd", TEXT, "", "!cwd: \"\" is not an absolute path" },
	{ "cwd", TEXT, "/\377", "{\"base64\":\"L/8=\"}" },
	{ "cwd", TEXT, D4096, "\"/ddd" },
	{ "cwd", TEXT, D4097, "!cwd: longer than 4K" },
	{ "cwd", JSON, "\"/tmp\"", "\"/tmp\"" },
	{ "cwd", JSON, "{\"base64\":\"L/8=\"}", "{\"base64\":\"L/8=\"}" },
	{ "cwd", JSON, "{\"base64\":\"eA==\"}", "!cwd: \"x\" is not an absolute path" },
	{ "cwd", JSON, "{\"base64\":1}", "!cwd: must be a text, or {\"base64\":\"..\"}" },
	{ "cwd", JSON, "5", "!cwd: must be a text, or {\"base64\":\"..\"}" },
	{ "cwd", JSON, "null", "-" },
	{ "output", TEXT, "/x/%j.%a.log", "\"/x/%j.%a.log\"" },
	{ "output", TEXT, "x.log", "!output: \"x.log\" is not an absolute path" },
	{ "output", JSON, "5", "!output: must be a text, or {\"base64\":\"..\"}" },
	{ "error", TEXT, "/x", "\"/x\"" },
	{ "error", TEXT, D4097, "!error: longer than 4K" },
	{ "on_end", TEXT, "rsync -a out/ nas:", "\"rsync -a out/ nas:\"" },
	{ "on_end", TEXT, D4097, "!on_end: longer than 4K" },
	{ "on_end", JSON, "5", "!on_end: must be a text" },
	{ "on_end", JSON, "null", "-" },
	{ "umask", TEXT, "022", "\"022\"" },
	{ "umask", TEXT, "0777", "\"777\"" },
	{ "umask", TEXT, "1000", "!umask: must be a text of octal digits, as \"022\"" },
	{ "umask", TEXT, "8", "!umask: must be a text of octal digits, as \"022\"" },
	{ "umask", TEXT, "", "!umask: must be a text of octal digits, as \"022\"" },
	{ "umask", TEXT, "22", "\"022\"" },
	{ "umask", TEXT, "777", "\"777\"" },
	{ "umask", TEXT, "0", "\"000\"" },
	{ "umask", JSON, "18", "!umask: must be a text of octal digits, as \"022\"" },
	{ "umask", JSON, "\"022\"", "\"022\"" },
	{ "umask", JSON, "\"0\"", "\"000\"" },
	{ "umask", JSON, "null", "-" },
	{ "begin", TEXT, "2099-01-02", "\"2099-01-02T00:00:00.000+01:00\"" },
	{ "begin", TEXT, "2099-01-02T03:04:05", "\"2099-01-02T03:04:05.000+01:00\"" },
	{ "begin", TEXT, "2099-01-02 03:04", "\"2099-01-02T03:04:00.000+01:00\"" },
	{ "begin", TEXT, "x",
	  "!begin: \"x\" is not a time; write it like 18:30, +1h30m, tomorrow, \"tomorrow 08:00\" or \"2026-11-22 08:00\"" },
	{ "begin", TEXT, "",
	  "!begin: \"\" is not a time; write it like 18:30, +1h30m, tomorrow, \"tomorrow 08:00\" or \"2026-11-22 08:00\"" },
	{ "begin", TEXT, "1999-01-01", "!begin: \"1999-01-01\" has no date" },
	{ "begin", TEXT, "2020-01-01T00:00:00Z", "\"2020-01-01T01:00:00.000+01:00\"" },
	{ "begin", TEXT, "18:30", "!begin: \"18:30\" has no date" },
	{ "begin", TEXT, "0",
	  "!begin: \"0\" is not a time; write it like 18:30, +1h30m, tomorrow, \"tomorrow 08:00\" or \"2026-11-22 08:00\"" },
	{ "begin", TEXT, "1770000000",
	  "!begin: \"1770000000\" is not a time; write it like 18:30, +1h30m, tomorrow, \"tomorrow 08:00\" or \"2026-11-22 08:00\"" },
	{ "begin", TEXT, "1970-01-01T00:00:00Z", "!begin: \"1970-01-01T00:00:00Z\" has passed" },
	{ "begin", JSON, "1770000000", "\"2026-02-02T03:40:00.000+01:00\"" },
	{ "begin", JSON, "0", "-" },
	{ "begin", JSON, "1500000000.5", "\"2017-07-14T04:40:00.500+02:00\"" },
	{ "begin", JSON, "-1", "!begin: must be a time like \"2026-11-22T08:00:00+01:00\"" },
	{ "begin", JSON, "\"2020-01-01T00:00:00Z\"", "\"2020-01-01T01:00:00.000+01:00\"" },
	{ "begin", JSON, "true", "!begin: must be a time like \"2026-11-22T08:00:00+01:00\"" },
	{ "begin", JSON, "1", "!begin: a number is seconds since 1970, and this one before 2001" },
	{ "begin", JSON, "\"18:30\"", "!begin: \"18:30\" has no date" },
	{ "begin", JSON, "1e30", "!begin: must be a time like \"2026-11-22T08:00:00+01:00\"" },
	{ "begin", JSON, "null", "-" },
	{ "paused", TEXT, "on", "true" },
	{ "retry_memory", TEXT, "1.5", "1.5" },
	{ "retry_memory", TEXT, "x1.5", "1.5" },
	{ "retry_memory", TEXT, "0.5", "!retry_memory: 0.5 is out of range, 1 to 100" },
	{ "retry_memory", TEXT, "1", "1.0" },
	{ "retry_memory", TEXT, "100", "100.0" },
	{ "retry_memory", TEXT, "101", "!retry_memory: 101 is out of range, 1 to 100" },
	{ "retry_memory", TEXT, "nan", "!retry_memory: must be a number like 1.5" },
	{ "retry_memory", TEXT, "inf", "!retry_memory: must be a number like 1.5" },
	{ "retry_memory", TEXT, "x", "!retry_memory: 0 is out of range, 1 to 100" },
	{ "retry_memory", TEXT, "", "!retry_memory: must be a number like 1.5" },
	{ "retry_memory", TEXT, "0", "!retry_memory: 0 is out of range, 1 to 100" },
	{ "retry_memory", TEXT, "1.5x", "!retry_memory: must be a number like 1.5" },
	{ "retry_memory", TEXT, "xx2", "!retry_memory: must be a number like 1.5" },
	{ "retry_memory", JSON, "1.5", "1.5" },
	{ "retry_memory", JSON, "2", "2.0" },
	{ "retry_memory", JSON, "\"1.5\"", "!retry_memory: must be a number like 1.5" },
	{ "retry_memory", JSON, "0", "!retry_memory: 0 is out of range, 1 to 100" },
	{ "retry_memory", JSON, "1000", "!retry_memory: 1000 is out of range, 1 to 100" },
	{ "retry_memory", JSON, "null", "-" },
	{ "gpus_min", TEXT, "2", "2" },
	{ "gpus_min", TEXT, "all", "!gpus_min: must be a whole number" },
	{ "gpus_max", TEXT, "4", "4" },
	{ "gpus_max", TEXT, "0", "-" },
	{ "gpus_max", TEXT, "1025", "!gpus_max: 1025 is out of range, 0 to 1024" },
	{ "gpus_max", JSON, "4", "4" },
	{ "gpus_max", JSON, "null", "-" },
	{ "scale_up", TEXT, "90", "\"90%\"" },
	{ "scale_up", TEXT, "87.5 %", "\"87.5%\"" },
	{ "scale_up", TEXT, "80%", "-" },
	{ "scale_up", TEXT, "0.9", "\"0.9%\"" },
	{ "scale_up", TEXT, "100%", "!scale_up: 100% is out of range, 0.1% to 99.9%" },
	{ "scale_up", TEXT, "x", "!scale_up: \"x\" is not a percentage; write it like 75%" },
	{ "scale_up", JSON, "90", "\"90%\"" },
	{ "scale_up", JSON, "87.5", "\"87.5%\"" },
	{ "scale_up", JSON, "\"90%\"", "\"90%\"" },
	{ "scale_up", JSON, "800", "!scale_up: 800% is out of range, 0.1% to 99.9%" },
	{ "scale_up", JSON, "true", "!scale_up: must be per cent, or a text like \"75%\"" },
	{ "scale_up", JSON, "-1", "!scale_up: must be per cent, or a text like \"75%\"" },
	{ "scale_down", TEXT, "0", "\"0%\"" },
	{ "scale_down", TEXT, "30%", "-" },
	{ "scale_window", TEXT, "90s", "\"1m30s\"" },
	{ "scale_window", TEXT, "500ms", "!scale_window: 500ms is out of range, 1s to 1d" },
	{ "scale_window", JSON, "60", "-" },
	{ "scale_cooldown", TEXT, "0", "\"0\"" },
	{ "scale_cooldown", TEXT, "5m", "-" },
	{ "scale_cooldown", TEXT, "2d", "!scale_cooldown: 2d is out of range, 0 to 1d" },
	{ "no_requeue", TEXT, "1", "true" },
	{ "no_requeue", TEXT, "2", "!no_requeue: must be true or false" },
	{ "clean", TEXT, "gpu", "\"gpu\"" },
	{ "clean", TEXT, "none", "-" },
	{ "clean", TEXT, "python", "\"python\"" },
	{ "clean", TEXT, "GPU", "!clean: must be one of none, gpu, python" },
	{ "clean", TEXT, "x", "!clean: must be one of none, gpu, python" },
	{ "clean", TEXT, "", "!clean: must be one of none, gpu, python" },
	{ "clean", JSON, "\"gpu\"", "\"gpu\"" },
	{ "clean", JSON, "1", "!clean: must be one of none, gpu, python" },
	{ "clean", JSON, "\"none\"", "-" },
	{ "clean", JSON, "\"pyth\"", "!clean: must be one of none, gpu, python" },
	{ "clean", JSON, "null", "-" },
	{ "script", TEXT, "#!/bin/sh\n", "\"#!/bin/sh\\n\"" },
	{ "script", TEXT, "", "\"\"" },
	{ "script", TEXT, "\377", "!script: the text is not UTF-8" },
	{ "script", JSON, "\"x\"", "\"x\"" },
	{ "script", JSON, "5", "!script: must be a text" },
	{ "args", TEXT, "a", "[\"a\"]" },
	{ "args", TEXT, "", "[\"\"]" },
	{ "args", TEXT, "a b", "[\"a b\"]" },
	{ "args", TEXT, "\377", "[{\"base64\":\"/w==\"}]" },
	{ "args", JSON, "[\"a\"]", "[\"a\"]" },
	{ "args", JSON, "[1]", "!args: entry 1 must be a text, or {\"base64\":\"..\"}" },
	{ "argv", TEXT, "a", "[\"a\"]" },
	{ "argv", TEXT, "", "[\"\"]" },
	{ "argv", JSON, "[\"a\",\"b\"]", "[\"a\",\"b\"]" },
	{ "argv", JSON, "[null]", "!argv: entry 1 must be a text, or {\"base64\":\"..\"}" },
	{ "commands", TEXT, "a", "[\"a\"]" },
	{ "commands", TEXT, "", "[\"\"]" },
	{ "commands", TEXT, "\377", "!commands: the text is not UTF-8" },
	{ "commands", JSON, "[\"a\",\"b\"]", "[\"a\",\"b\"]" },
	{ "commands", JSON, "[1]", "!commands: entry 1 must be a text" },
	{ "commands", JSON, "\"a\"", "!commands: must be a list" },
	{ "host", TEXT, "h", "\"h\"" },
	{ "user", TEXT, "\303\274", "\"\303\274\"" },
	{ "uid", TEXT, "0", "-" },
	{ "uid", TEXT, "4294967295", "4294967295" },
	{ "uid", TEXT, "4294967296", "!uid: 4294967296 is out of range, 0 to 4294967295" },
	{ "uid", TEXT, "x", "!uid: must be a whole number" },
	{ "uid", JSON, "1000", "1000" },
	{ "submitted", JSON, "1770000000", "\"2026-02-02T03:40:00.000+01:00\"" },
	{ "submitted", TEXT, "2020-01-01T00:00:00Z", "\"2020-01-01T01:00:00.000+01:00\"" },
	{ "rules", TEXT, "compete", "\"compete\"" },
	{ "rules", TEXT, "compete-max", "\"compete-max\"" },
	{ "rules", TEXT, "tenure", "-" },
	{ "rules", TEXT, "x", "!rules: must be one of tenure, compete, compete-max" },
	{ "raw", TEXT, "true", "true" },
	{ "raw", JSON, "true", "true" },
	{ "nothing", TEXT, "1", "!unknown key \"nothing\"; docs/spool.md lists them" },
	{ "memori", TEXT, "1", "!unknown key \"memori\"; did you mean \"memory\"?" },
	{ "memori", JSON, "1", "!unknown key \"memori\"; did you mean \"memory\"?" },
	{ "no-requeue", TEXT, "1", "!unknown key \"no-requeue\"; did you mean \"no_requeue\"?" },
};

static int set(struct task_spec *s, size_t i, struct err *e)
{
	const char *given = cases[i].given;
	char path[4098];

	*e = (struct err)ERR_INIT;
	if (given[0] == '(') {
		size_t len = strtoul(given + 1, NULL, 10);

		(void)memset(path, 'd', len);
		path[0] = '/';
		path[len] = '\0';
		given = path;
	}
	if (cases[i].how == TEXT)
		return spec_set_text(s, cases[i].key, given, e);

	json_t *value = json_loads(given, JSON_DECODE_ANY, NULL);

	if (!value)
		fail_msg("%s is no JSON", given);

	int r = spec_set_json(s, cases[i].key, value, e);

	json_decref(value);
	return r;
}

static char *written(const struct task_spec *s, const char *key)
{
	json_t *all = spec_json(s), *value = json_object_get(all, key);
	char *text = value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : xstrdup("-");

	json_decref(all);
	return text;
}

static bool is_bad(size_t i)
{
	return cases[i].expected[0] == '!';
}

static void test_one_by_one(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct task_spec *s = spec_new();
		struct err e;
		int r = set(s, i, &e);
		cleanup_free char *json = written(s, cases[i].key);
		cleanup_free char *got = r < 0 ? xasprintf("!%s", e.text) : xstrdup(json);

		if (strlen(got) > 4000)
			got[strlen("\"/ddd")] = '\0';
		if (strcmp(got, cases[i].expected) != 0)
			fail_msg("%s of %s: %s instead of %s", cases[i].key, cases[i].given, got,
				 cases[i].expected);
		(void)spec_free(s);
	}
}

/* What is refused leaves what was there. */
static void test_refused(void **state)
{
	for (size_t i = 0, good = 0; i < ARRAY_LEN(cases); i++) {
		struct task_spec *s = spec_new();
		struct err e;

		good = is_bad(i) ? good : i;
		if (is_bad(i) && strcmp(cases[good].key, cases[i].key) == 0) {
			assert_int_equal(set(s, good, &e), 0);

			cleanup_free char *before = written(s, cases[i].key);

			assert_true(set(s, i, &e) < 0);

			cleanup_free char *after = written(s, cases[i].key);

			if (strcmp(before, after) != 0)
				fail_msg("%s of %s: %s was %s", cases[i].key, cases[i].given, after,
					 before);
		}
		(void)spec_free(s);
	}
}

/* The JSON of an edit means what its text would have meant. */
static void test_edits(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct task_spec *a = spec_new(), *b = spec_new();
		bool long_one = cases[i].given[0] == '(';
		struct err e = ERR_INIT;
		json_t *value = cases[i].how == TEXT && !long_one
					? spec_value(cases[i].key, cases[i].given, &e)
					: NULL;

		if (cases[i].how == TEXT && !long_one && !value != is_bad(i))
			fail_msg("%s of %s: %s", cases[i].key, cases[i].given, e.text);
		if (value) {
			assert_int_equal(set(a, i, &e), 0);
			assert_int_equal(spec_set_json(b, cases[i].key, value, &e), 0);

			cleanup_free char *x = written(a, cases[i].key);
			cleanup_free char *y = written(b, cases[i].key);

			assert_string_equal(x, y);
		}
		json_decref(value);
		(void)spec_free(a);
		(void)spec_free(b);
	}
}

/* null is what a key is without being said; an element has a copy of its own of everything. */
static void test_copies(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct task_spec *s = spec_new(), *copy;
		json_t *null = json_null();
		struct err e;

		if (set(s, i, &e) == 0) {
			cleanup_free char *before = written(s, cases[i].key);

			copy = spec_for_element(s, 1);
			assert_int_equal(spec_set_json(s, cases[i].key, null, &e), 0);

			cleanup_free char *none = written(s, cases[i].key);
			cleanup_free char *of_copy = written(copy, cases[i].key);

			assert_string_equal(none, strcmp(cases[i].key, "version") == 0 ? "1" : "-");
			/* Of commands it has its own. */
			if (strcmp(cases[i].key, "commands") != 0)
				assert_string_equal(before, of_copy);
			(void)spec_free(copy);
		}
		(void)spec_free(s);
	}
}

/* A person's text adds to a list; a program's list takes its place. */
static void test_lists(void **state)
{
	static const struct {
		const char *key, *texts[3], *expected;
	} lists[] = {
		{ "after", { "1", "2,3" }, "[1,2,3]" },
		{ "after_any", { "3 2", "1" }, "[3,2,1]" },
		{ "env", { "A=1", "B=2,3" }, "[\"A=1\",\"B=2,3\"]" },
		{ "env", { "A=\xff", "B=2" }, "[{\"base64\":\"QT3/\"},\"B=2\"]" },
		{ "sweep", { "a=1,2", "b=3" }, "[\"a=1,2\",\"b=3\"]" },
		{ "argv", { "a b", "" }, "[\"a b\",\"\"]" },
		{ "args", { "1,2", "3" }, "[\"1,2\",\"3\"]" },
		{ "commands", { "echo a", "echo b" }, "[\"echo a\",\"echo b\"]" },
	};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct task_spec *s = spec_new();
		json_t *one = str_has_prefix(lists[i].key, "after") ? json_pack("[i]", 9)
								    : json_pack("[s]", "A=9");
		struct err e = ERR_INIT;

		for (size_t j = 0; lists[i].texts[j]; j++)
			assert_int_equal(spec_set_text(s, lists[i].key, lists[i].texts[j], &e), 0);

		cleanup_free char *all = written(s, lists[i].key);

		assert_string_equal(all, lists[i].expected);
		assert_int_equal(spec_set_json(s, lists[i].key, one, &e), 0);

		cleanup_free char *now = written(s, lists[i].key);

		assert_non_null(strstr("[9] [\"A=9\"]", now));
		json_decref(one);
		(void)spec_free(s);
	}
}

/* A default is written twice in a row: as what a field has, and as help shows it. */
static void test_rows(void **state)
{
	const struct task_option *row;

	for (size_t i = 0; (row = task_option_at(i)); i++) {
		struct value v = { 0 };

		assert_ptr_equal(task_option_find(row->key), row);
		if (row->opt.name)
			assert_ptr_equal(task_option_find(row->opt.name), row);
		if (!value_is(row->opt.spec.type, VALUE_IS_NUMBER)) {
			assert_null(row->opt.def);
			continue;
		}
		if (row->opt.name && row->def)
			assert_non_null(row->opt.def);
		if (!row->opt.def)
			continue;
		assert_int_equal(value_parse(&row->opt.spec, row->opt.def, &v, NULL), 0);
		assert_true(v.num == row->def);
	}
	assert_null(task_option_find("retry"));
	assert_null(task_option_find("gpusx"));
	assert_null(task_option_find(""));
}

/* expected as in cases, of the whole task without its version; words are split at blanks. */
static const struct {
	const char *words, *expected;
} options[] = {
	{ "", "{}" },
	{ "-g 2 -m 20G --shared --model *H200*",
	  "{\"gpus\":2,\"memory\":\"20G\",\"shared\":true,\"model\":\"*H200*\"}" },
	{ "--gpus all --retries forever -p 7 -l week -n a",
	  "{\"name\":\"a\",\"gpus\":\"all\",\"priority\":7,\"lane\":\"week\",\"retries\":\"forever\"}" },
	{ "--gpus 1 --retries 0 --backoff 10m --grace 30s --clean none", "{}" },
	{ "--after 3,4 --after 5 --after-any 6", "{\"after\":[3,4,5],\"after_any\":[6]}" },
	{ "--after 3 script.sh", "{\"after\":[3]}" },
	{ "--array 1-9%2 --no-requeue --no-shared --paused --preemptible",
	  "{\"no_requeue\":true,\"array\":\"1-9%2\",\"preemptible\":true,\"paused\":true}" },
	{ "--sweep lr=1,2 --sweep seed=1..5", "{\"sweep\":[\"lr=1,2\",\"seed=1..5\"]}" },
	{ "--env A=1,2 --env B= --env A=3", "{\"env\":[\"A=3\",\"B=\"]}" },
	{ "--env A=\xff", "{\"env\":[{\"base64\":\"QT3/\"}]}" },
	{ "--begin 2099-01-02T03:04:05 --signal usr1 --timeout 90m --retry-memory x1.5 --rules compete",
	  "{\"retry_memory\":1.5,\"timeout\":\"1h30m\",\"signal\":\"USR1\",\"begin\":\"2099-01-02T03:04:05.000+01:00\","
	  "\"rules\":\"compete\"}" },
	{ "--gpus-max 4 --gpus-min 1 --scale-up 90% --scale-down 20 --scale-window 10s --scale-cooldown 1m",
	  "{\"gpus_min\":1,\"gpus_max\":4,\"scale_up\":\"90%\",\"scale_down\":\"20%\","
	  "\"scale_window\":\"10s\",\"scale_cooldown\":\"1m\"}" },
	{ "--scale-up 101", "!--scale-up: \"101\" is more than 100%" },
	{ "--cwd somewhere", "{}" }, /* the submitter's to read */
	{ "--gpus x", "!--gpus: must be a whole number or all" },
	{ "--gpus -1", "!--gpus: must be a whole number or all" },
	{ "--gpus 1025", "!--gpus: 1025 is out of range, 0 to 1024" },
	{ "--memory 20", "!--memory: \"20\" has no unit; did you mean 20G?" },
	{ "--shared=maybe", "!--shared: \"maybe\" is neither true nor false" },
	{ "--priority x", "!--priority: \"x\" is not a whole number" },
	{ "--priority 100000", "!--priority: \"100000\" is out of range, 0 to 99999" },
	{ "--retry-every 0", "!--retry-every: \"0\" is out of range, 1 to 1000000" },
	{ "--retry-memory 0.5", "!--retry-memory: 0.5 is out of range, 1 to 100" },
	{ "--backoff 366d", "!--backoff: \"366d\" is out of range, 0 to 365d" },
	{ "--after 3,,4", "!--after: entry 2: must be the id of a task, a number, or last" },
	{ "--after 0", "!--after: entry 1: 0 is less than 1" },
	{ "--after",
	  "!--after needs a value, ID,.. (when these are done; last: what you submitted last; may be repeated)" },
	{ "--gpus", "!--gpus needs a value, N (GPUs: a number (0 too) or all)" },
	{ "--memory", "!--memory needs a value: a size like 38G" },
	{ "--clean gpus", "!--clean: \"gpus\" is not one of none, gpu, python; did you mean gpu?" },
	{ "--signal x",
	  "!--signal: \"x\" is no signal; write a name like TERM, INT or USR1, or its number" },
	{ "--env 1A=1",
	  "!--env: \"1A\" cannot be the name of a variable; use letters, digits and _, and no digit first" },
	{ "--sweep \xff", "!--sweep: the text is not UTF-8" },
	{ "--begin 18",
	  "!--begin: \"18\" is not a time; write it like 18:30, +1h30m, tomorrow, \"tomorrow 08:00\" or \"2026-11-22 08:00\"" },
	{ "--begin 2009-01-02", "!--begin: \"2009-01-02\" has passed" },
};

static void add_options(struct opts *o)
{
	const struct task_option *row;

	for (size_t i = 0; (row = task_option_at(i)); i++)
		if (row->opt.name)
			opts_add_row(o, &row->opt);
}

static void test_options(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(options); i++) {
		cleanup_free char *line = xasprintf("submit %s", options[i].words), *got = NULL;
		char *argv[16] = { NULL }, *save = NULL;
		struct opts *o = opts_new();
		struct task_spec *s = spec_new();
		struct err e = ERR_INIT;
		json_t *json;
		int argc = 0, r;

		for (char *w = strtok_r(line, " ", &save); w && argc < 15;
		     w = strtok_r(NULL, " ", &save))
			argv[argc++] = w;
		add_options(o);
		r = opts_parse(o, argc, argv, OPTS_DEFAULT, &e);
		r = r == 0 ? spec_take_options(s, o, &e) : r;
		json = spec_json(s);
		(void)json_object_del(json, "version");
		got = r < 0 ? xasprintf("!%s", e.text) : json_dumps(json, JSON_COMPACT);
		if (strcmp(got, options[i].expected) != 0)
			fail_msg("%s: %s instead of %s", options[i].words, got,
				 options[i].expected);
		json_decref(json);
		(void)spec_free(s);
		(void)opts_free(o);
	}
}

/* What is inherited is in the task before the options. */
static void test_inherited(void **state)
{
	char name[] = "submit", first[] = "--env=B=2", second[] = "--env=C=3";
	char *argv[] = { name, first, second };
	struct opts *o = opts_new();
	struct task_spec *s = spec_new();
	struct err e = ERR_INIT;

	add_options(o);
	text_list_add(&s->env, "A=0");
	text_list_add(&s->env, "B=0");
	assert_int_equal(opts_parse(o, 3, argv, OPTS_DEFAULT, &e), 0);
	assert_int_equal(spec_take_options(s, o, &e), 0);
	assert_int_equal(s->env.n, 3);
	assert_string_equal(s->env.texts[1], "B=2");
	assert_string_equal(s->env.texts[2], "C=3");
	(void)spec_free(s);
	(void)opts_free(o);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_by_one), cmocka_unit_test(test_refused),
		cmocka_unit_test(test_edits),	   cmocka_unit_test(test_copies),
		cmocka_unit_test(test_lists),	   cmocka_unit_test(test_rows),
		cmocka_unit_test(test_options),	   cmocka_unit_test(test_inherited),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
