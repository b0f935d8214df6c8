/* SPDX-License-Identifier: MIT */
#include "notify/mail.h"

#include <errno.h>
#include <netdb.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/proc.h"
#include "base/str.h"
#include "notify/local.h"
#include "notify/message.h"
#include "notify/transfer.h"

#define SMTP_REFUSED 550 /* and above: not this mail, and not to them */

struct letter {
	char host[256], from[512];
	struct strbuf text;
	size_t at;
};

/* From whom, and the mail itself. */
static void write_letter(const struct channel *ch, const json_t *event, struct letter *l)
{
	char user[128];

	*l = (struct letter){ .text = STRBUF_INIT };
	if (gethostname(l->host, sizeof(l->host) - 1) < 0 || !l->host[0])
		(void)str_copy(l->host, sizeof(l->host), "localhost");
	if (ch->from)
		(void)str_copy(l->from, sizeof(l->from), ch->from);
	else
		(void)str_print(l->from, sizeof(l->from), "%s@%s",
				user_name(geteuid(), user, sizeof(user)), l->host);
	message_mail(&(struct mail_head){ .from = l->from,
					  .to = &ch->to,
					  .now_s = clock_wall_ns() / NS_PER_S,
					  .host = l->host },
		     event, &l->text);
}

static size_t give(char *buf, size_t size, size_t n, void *user)
{
	struct letter *l = user;
	size_t left = l->text.len - l->at, take = left < size * n ? left : size * n;

	memcpy(buf, strbuf_str(&l->text) + l->at, take);
	l->at += take;
	return take;
}

/* Its login is sent in TLS alone, of which libcurl makes sure where it is told to. */
static int set_login(CURL *curl, const struct channel *ch, struct err *e)
{
	cleanup_free char *password = NULL;

	if (!ch->user)
		return 0;
	password = secret_read(&ch->password, "password", e);
	if (!password)
		return -EACCES;
	(void)curl_easy_setopt(curl, CURLOPT_USERNAME, ch->user);
	(void)curl_easy_setopt(curl, CURLOPT_PASSWORD, password);
	explicit_bzero(password, strlen(password));
	return 0;
}

static int send_letter(CURL *curl, const struct channel *ch, struct letter *l, enum delivered *how,
		       struct err *e)
{
	struct curl_slist *to = NULL;
	cleanup_free char *from = xasprintf("<%s>", l->from);
	long status = 0;
	int r;

	for (size_t i = 0; i < ch->to.n; i++) {
		cleanup_free char *address = xasprintf("<%s>", ch->to.texts[i]);

		to = curl_slist_append(to, address);
	}
	(void)curl_easy_setopt(curl, CURLOPT_URL, ch->server);
	(void)curl_easy_setopt(curl, CURLOPT_USE_SSL,
			       ch->tls == MAIL_TLS_NONE ? (long)CURLUSESSL_NONE
							: (long)CURLUSESSL_ALL);
	(void)curl_easy_setopt(curl, CURLOPT_MAIL_FROM, from);
	(void)curl_easy_setopt(curl, CURLOPT_MAIL_RCPT, to);
	(void)curl_easy_setopt(curl, CURLOPT_READFUNCTION, give);
	(void)curl_easy_setopt(curl, CURLOPT_READDATA, l);
	(void)curl_easy_setopt(curl, CURLOPT_UPLOAD, 1L);
	r = transfer_run(curl, ch, e);
	(void)curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &status);
	if (r < 0 && status >= SMTP_REFUSED && status < 600)
		*how = DELIVER_REFUSED;
	curl_slist_free_all(to);
	return r;
}

int mail_by_server(const struct channel *ch, const json_t *event, enum delivered *how,
		   struct err *e)
{
	CURL *curl = transfer_new(ch, e);
	struct letter l;
	int r;

	if (!curl)
		return -EIO;
	write_letter(ch, event, &l);
	r = set_login(curl, ch, e);
	if (r == 0)
		r = send_letter(curl, ch, &l, how, e);
	if (r < 0)
		(void)err_wrap(e, "%s", ch->server);
	strbuf_clear(&l.text);
	curl_easy_cleanup(curl);
	return r;
}

int mail_by_sendmail(const struct channel *ch, const json_t *event, enum delivered *how,
		     struct err *e)
{
	static const char *const places[] = { "/usr/sbin/sendmail", "/usr/lib/sendmail",
					      "/usr/local/sbin/sendmail" };
	const char *program = ch->program;
	struct text_list words = { .n = 0 };
	struct letter l;
	int r;

	for (size_t i = 0; !program && i < ARRAY_LEN(places); i++)
		if (access(places[i], X_OK) == 0)
			program = places[i];
	if (!program)
		return err_set(
			e, -ENOENT,
			"this machine has no sendmail, so mail needs a server: write server: "
			"smtps://HOST:465, or install a mail system");
	write_letter(ch, event, &l);
	text_list_add(&words, program);
	text_list_add(&words, "-i");
	text_list_add(&words, "-f");
	text_list_add(&words, l.from);
	text_list_add(&words, "--");
	for (size_t i = 0; i < ch->to.n; i++)
		text_list_add(&words, ch->to.texts[i]);
	r = local_run(&words, NULL, strbuf_str(&l.text), l.text.len, ch->time_limit_ms, e);
	text_list_clear(&words);
	strbuf_clear(&l.text);
	return r;
}
