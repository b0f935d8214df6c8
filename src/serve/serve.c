/* SPDX-License-Identifier: MIT */
#include "serve/serve.h"

void serve_reload_tokens(struct serve *s)
{
	struct access_tokens t = { .write = "" };

	if (web_token(false, false, t.write, NULL) < 0)
		t.write[0] = '\0';
	if (web_token(true, false, t.read, NULL) < 0)
		t.read[0] = '\0';
	(void)pthread_mutex_lock(&s->tokens_lock);
	s->tokens = t;
	(void)pthread_mutex_unlock(&s->tokens_lock);
}

void serve_tokens(struct serve *s, struct access_tokens *ret)
{
	(void)pthread_mutex_lock(&s->tokens_lock);
	*ret = s->tokens;
	(void)pthread_mutex_unlock(&s->tokens_lock);
}
