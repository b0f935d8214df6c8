/* SPDX-License-Identifier: MIT */
#include "notify/transfer.h"

#include <errno.h>

#include "base/mem.h"
#include "base/units.h"

static char reason[CURL_ERROR_SIZE]; /* of the one transfer of this process */

/* libcurl's words are for programmers; NULL: they do. */
static const struct {
	CURLcode code;
	const char *words;
} all[] = {
	{ CURLE_COULDNT_RESOLVE_HOST, "the name of its host is not known" },
	{ CURLE_COULDNT_CONNECT, "nobody answers there" },
	{ CURLE_OPERATION_TIMEDOUT, "it did not answer in time" },
	{ CURLE_LOGIN_DENIED, "it refuses the login; look at user and password" },
	{ CURLE_PEER_FAILED_VERIFICATION,
	  "its certificate is not one that is trusted here; ca_file names another authority" },
	{ CURLE_SSL_CACERT_BADFILE, "ca_file cannot be read" },
	{ CURLE_SSL_CONNECT_ERROR, "TLS does not come about" },
	{ CURLE_USE_SSL_FAILED,
	  "it does not offer TLS (STARTTLS), and without it nothing is sent; tls: none allows that" },
	{ CURLE_GOT_NOTHING, "it hangs up without an answer" },
	{ CURLE_SEND_ERROR, "the connection broke" },
	{ CURLE_RECV_ERROR, "the connection broke" },
	{ CURLE_WEIRD_SERVER_REPLY, "what answers there is no such server" },
	{ CURLE_UNSUPPORTED_PROTOCOL, "this libcurl has not been built for it" },
};

CURL *transfer_new(const struct channel *ch, struct err *e)
{
	CURL *curl = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK ? curl_easy_init() : NULL;

	if (!curl) {
		(void)err_set(e, -EIO, "libcurl cannot be used");
		return NULL;
	}
	(void)curl_easy_setopt(curl, CURLOPT_ERRORBUFFER, reason);
	(void)curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
	(void)curl_easy_setopt(curl, CURLOPT_TIMEOUT_MS, (long)ch->time_limit_ms);
	(void)curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT_MS, (long)ch->time_limit_ms);
	(void)curl_easy_setopt(curl, CURLOPT_SSL_VERIFYPEER, ch->verify ? 1L : 0L);
	(void)curl_easy_setopt(curl, CURLOPT_SSL_VERIFYHOST, ch->verify ? 2L : 0L);
	/* A netrc of the user's is for other things. */
	(void)curl_easy_setopt(curl, CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
	if (ch->ca_file)
		(void)curl_easy_setopt(curl, CURLOPT_CAINFO, ch->ca_file);
	return curl;
}

int transfer_run(CURL *curl, const struct channel *ch, struct err *e)
{
	CURLcode code = curl_easy_perform(curl);
	const char *words = NULL;

	if (code == CURLE_OK)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		if (all[i].code == code)
			words = all[i].words;
	return err_set(e, code == CURLE_OPERATION_TIMEDOUT ? -ETIMEDOUT : -EIO, "%s%s%s%s",
		       words ? words : curl_easy_strerror(code), reason[0] ? " (" : "", reason,
		       reason[0] ? ")" : "");
}
