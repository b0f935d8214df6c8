/* SPDX-License-Identifier: MIT */
#include "agent/attempt/rendezvous.h"

#include <arpa/inet.h>
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fs.h"
#include "base/mem.h"
#include "base/str.h"

static void add(struct text_list *env, const char *name, const char *value)
{
	text_list_take(env, xasprintf("%s=%s", name, value));
}

static void add_number(struct text_list *env, const char *name, uint64_t n)
{
	text_list_take(env, xasprintf("%s=%llu", name, (unsigned long long)n));
}

void rank_env(const struct rank_place *p, struct text_list *env)
{
	uint64_t processes = p->gpus ? p->gpus : 1;

	add(env, "MASTER_ADDR", p->address);
	add_number(env, "MASTER_PORT", p->port);
	add_number(env, "NNODES", p->nodes);
	add_number(env, "NODE_RANK", p->rank);
	add_number(env, "WORLD_SIZE", p->nodes * processes);
	add_number(env, "PET_NNODES", p->nodes);
	add_number(env, "PET_NODE_RANK", p->rank);
	add(env, "PET_MASTER_ADDR", p->address);
	add_number(env, "PET_MASTER_PORT", p->port);
	add_number(env, "PET_NPROC_PER_NODE", processes);
}

/* ---- a port ---- */

/* Of all addresses of both kinds, as programs listen; where there is no IPv6, of the others. */
static int bind_port(unsigned int port, bool reuse)
{
	struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port) };
	struct sockaddr_in four = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	cleanup_fd int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int r, off = 0, on = reuse;

	if (fd >= 0) {
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
		(void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
		r = bind(fd, (struct sockaddr *)&six, sizeof(six)) < 0 ? -errno : 0;
		if (r == 0)
			return take_fd(fd);
		if (r == -EADDRINUSE)
			return r;
		fd = fd_close(fd);
	}
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0)
		(void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (fd < 0 || bind(fd, (struct sockaddr *)&four, sizeof(four)) < 0)
		return -errno;
	return take_fd(fd);
}

static uint32_t any_number(void)
{
	uint32_t n = 0;

	if (getrandom(&n, sizeof(n), GRND_NONBLOCK) != (ssize_t)sizeof(n))
		n = (uint32_t)(clock_mono_ns() ^ (uint64_t)getpid() << 16);
	return n;
}

static bool is_in(const struct port_range *r, unsigned int port)
{
	return port >= r->first && port <= r->last;
}

int rendezvous_take_port(const struct port_range *of, const struct port_range *others, int *ret_fd)
{
	unsigned int n = of->last - of->first + 1, start = any_number() % n;
	int fd = -EADDRINUSE;

	for (unsigned int i = 0; i < 2 * n; i++) {
		unsigned int port = of->first + (start + i) % n;

		if (is_in(others, port) != (i >= n))
			continue;
		fd = bind_port(port, false);
		if (fd >= 0) {
			*ret_fd = fd;
			return (int)port;
		}
		if (fd != -EADDRINUSE && fd != -EACCES)
			break;
	}
	return fd;
}

struct port_range rendezvous_kernels_ports(void)
{
	struct port_range r = { 0, 0 };
	cleanup_free char *text = NULL;
	size_t len;

	if (fs_read_file("/proc/sys/net/ipv4/ip_local_port_range", 64, &text, &len, NULL) < 0 ||
	    sscanf(text, "%u %u", &r.first, &r.last) != 2)
		return (struct port_range){ 0, 0 };
	return r;
}

bool rendezvous_is_taken(unsigned int port)
{
	int fd = bind_port(port, true);

	(void)fd_close(fd);
	return fd == -EADDRINUSE;
}

/* ---- an address ---- */

static bool take_address(const struct sockaddr *a, char ret[RENDEZVOUS_ADDRESS_MAX])
{
	struct sockaddr_in four;
	struct sockaddr_in6 six;

	if (a && a->sa_family == AF_INET) {
		(void)memcpy(&four, a, sizeof(four));
		return inet_ntop(AF_INET, &four.sin_addr, ret, RENDEZVOUS_ADDRESS_MAX);
	}
	if (!a || a->sa_family != AF_INET6)
		return false;
	(void)memcpy(&six, a, sizeof(six));
	return !IN6_IS_ADDR_LINKLOCAL(&six.sin6_addr) &&
	       inet_ntop(AF_INET6, &six.sin6_addr, ret, RENDEZVOUS_ADDRESS_MAX);
}

/* Of that interface; NULL: of the first that is up and no loopback. */
static bool of_interface(const char *name, int family, char ret[RENDEZVOUS_ADDRESS_MAX])
{
	struct ifaddrs *all = NULL;
	bool found = false;

	if (getifaddrs(&all) < 0)
		return false;
	for (const struct ifaddrs *i = all; i && !found; i = i->ifa_next) {
		bool usable = i->ifa_flags & IFF_UP && !(i->ifa_flags & IFF_LOOPBACK);

		if (i->ifa_addr && i->ifa_addr->sa_family == family &&
		    (name ? strcmp(i->ifa_name, name) == 0 : usable))
			found = take_address(i->ifa_addr, ret);
	}
	freeifaddrs(all);
	return found;
}

/* To ask for a route a datagram socket is connected: nothing is sent. The address is one for
 * documentation (RFC 5737), so it leads out by the default route. */
static bool of_route(char ret[RENDEZVOUS_ADDRESS_MAX])
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(9) };
	struct sockaddr_in own = { .sin_port = 0 };
	socklen_t size = sizeof(own);
	cleanup_fd int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)inet_pton(AF_INET, "192.0.2.1", &to.sin_addr);
	return fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof(to)) == 0 &&
	       getsockname(fd, (struct sockaddr *)&own, &size) == 0 && own.sin_addr.s_addr &&
	       take_address((struct sockaddr *)&own, ret);
}

const char *rendezvous_address(const char *said, char ret[RENDEZVOUS_ADDRESS_MAX])
{
	if (said && !of_interface(said, AF_INET, ret) && !of_interface(said, AF_INET6, ret))
		(void)str_copy(ret, RENDEZVOUS_ADDRESS_MAX, said);
	if (!said && !of_route(ret) && !of_interface(NULL, AF_INET, ret) &&
	    !of_interface(NULL, AF_INET6, ret))
		(void)str_copy(ret, RENDEZVOUS_ADDRESS_MAX, "127.0.0.1");
	return ret;
}
