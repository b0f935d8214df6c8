/* SPDX-License-Identifier: MIT */
#include "agent/attempt/login.h"

#include <pwd.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fs.h"
#include "base/mem.h"
#include "base/proc.h"
#include "task/program.h"

static char *shell_of(uid_t uid)
{
	struct passwd pw, *found = NULL;
	char buf[4096];

	if (getpwuid_r(uid, &pw, buf, sizeof(buf), &found) == 0 && found && pw.pw_shell &&
	    pw.pw_shell[0] == '/')
		return xstrdup(pw.pw_shell);
	return xstrdup("/bin/sh");
}

static void add(struct login *l, const char *name, const char *value)
{
	cleanup_free char *text = xasprintf("%s=%s", name, value);

	text_list_add(&l->env, text);
}

void login_read(struct login *ret)
{
	cleanup_free char *home = fs_home_dir(), *shell = shell_of(getuid());
	char user[64];
	struct stat st;

	*ret = (struct login){ .umask = proc_umask() };
	(void)user_name(getuid(), user, sizeof(user));
	add(ret, "HOME", home);
	add(ret, "USER", user);
	add(ret, "LOGNAME", user);
	add(ret, "SHELL", shell);
	add(ret, "PATH", PROGRAM_PATH);
	ret->home = stat(home, &st) == 0 && S_ISDIR(st.st_mode) ? take_ptr(home) : xstrdup("/");
}

void login_clear(struct login *l)
{
	text_list_clear(&l->env);
	free(take_ptr(l->home));
}
