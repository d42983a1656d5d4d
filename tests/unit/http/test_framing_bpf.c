/* SPDX-License-Identifier: BSD-2-Clause OR GPL-2.0-only */
/* The framing machine compiled for BPF passes the verifier within its budget, and
 * does in the kernel what it does on the host, byte for byte. */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "kvsteer/http_framing.h"

#define L2 14 /* BPF_PROG_TEST_RUN wants an Ethernet header before the data */
#define INSNS_MAX 300000u /* the project's bound for every program */

/* The map value of tests/bpf/framing_check.bpf.c. */
struct framing_check {
	struct http_framing framing;
	struct http_framing_span out;
	uint32_t from;
	int32_t status;
	uint32_t pad;
};

static char object[] = "/tmp/kvsteer-framing-XXXXXX";
static int prog_fd = -1, map_fd = -1;

static long bpf_call(int cmd, union bpf_attr *attr)
{
	return syscall(__NR_bpf, cmd, attr, sizeof(*attr));
}

/* Compiles the program with the first clang found. Returns 0, or 77 if there is none. */
static int compile(void)
{
	static const char *const clangs[] = { "clang-14", "clang-15", "clang-16", "clang-17", "clang-18", "clang-19", "clang" };
	char cmd[512];
	int fd = mkstemp(object);

	if (fd < 0)
		return 1;
	close(fd);
	for (size_t i = 0; i < sizeof(clangs) / sizeof(clangs[0]); i++) {
		snprintf(cmd, sizeof(cmd), "command -v %s >/dev/null 2>&1", clangs[i]);
		if (system(cmd))
			continue;
		snprintf(cmd, sizeof(cmd),
			 "%s -O2 -target bpf -mcpu=v3 -Wall -Wextra -Werror -Iinclude -I/usr/include/$(uname -m)-linux-gnu"
			 " -c tests/bpf/framing_check.bpf.c -o %s", clangs[i], object);
		return system(cmd) ? 1 : 0;
	}
	return 77;
}

/* The program's instructions. They refer to one map only, so that patching every
 * 64-bit immediate load stands in for a loader. */
static void *read_section(const char *name, size_t *size)
{
	int fd = open(object, O_RDONLY);
	struct stat st;
	char *file, *out = NULL;
	Elf64_Ehdr *eh;
	Elf64_Shdr *sh;
	const char *names;

	if (fd < 0 || fstat(fd, &st))
		return NULL;
	file = malloc((size_t)st.st_size);
	if (read(fd, file, (size_t)st.st_size) == st.st_size) {
		eh = (Elf64_Ehdr *)file;
		sh = (Elf64_Shdr *)(file + eh->e_shoff);
		names = file + sh[eh->e_shstrndx].sh_offset;
		for (int i = 0; i < eh->e_shnum; i++)
			if (!strcmp(names + sh[i].sh_name, name)) {
				*size = sh[i].sh_size;
				out = malloc(*size);
				memcpy(out, file + sh[i].sh_offset, *size);
			}
	}
	close(fd);
	free(file);
	return out;
}

static int load(char *log, size_t log_size)
{
	union bpf_attr attr;
	size_t size = 0;
	struct bpf_insn *insns = read_section("tc", &size);
	int fd;

	if (!insns)
		return -ENOENT;
	memset(&attr, 0, sizeof(attr));
	attr.map_type = BPF_MAP_TYPE_ARRAY;
	attr.key_size = 4;
	attr.value_size = sizeof(struct framing_check);
	attr.max_entries = 1;
	map_fd = (int)bpf_call(BPF_MAP_CREATE, &attr);
	if (map_fd < 0) {
		fd = -errno;
		free(insns);
		return fd;
	}
	for (size_t i = 0; i + 1 < size / sizeof(*insns); i++)
		if (insns[i].code == (BPF_LD | BPF_IMM | BPF_DW)) {
			/* real 64-bit constants exist too; the map's is the unresolved one */
			if (insns[i].imm || insns[i + 1].imm)
				continue;
			insns[i].src_reg = BPF_PSEUDO_MAP_FD;
			insns[i].imm = map_fd;
		}
	memset(&attr, 0, sizeof(attr));
	attr.prog_type = BPF_PROG_TYPE_SCHED_CLS;
	attr.insns = (uintptr_t)insns;
	attr.insn_cnt = (uint32_t)(size / sizeof(*insns));
	attr.license = (uintptr_t) "GPL";
	attr.log_buf = (uintptr_t)log;
	attr.log_size = (uint32_t)log_size;
	attr.log_level = 4; /* statistics only */
	fd = (int)bpf_call(BPF_PROG_LOAD, &attr);
	if (fd < 0)
		fd = -errno;
	free(insns);
	return fd;
}

static void map_io(int cmd, struct framing_check *c)
{
	union bpf_attr attr;
	uint32_t key = 0;

	memset(&attr, 0, sizeof(attr));
	attr.map_fd = (uint32_t)map_fd;
	attr.key = (uintptr_t)&key;
	attr.value = (uintptr_t)c;
	assert_int_equal(bpf_call(cmd, &attr), 0);
}

static int kernel_step(struct http_framing *f, const char *packet, uint32_t from, uint32_t len,
		       struct http_framing_span *out)
{
	struct framing_check c = { .framing = *f, .from = from };
	union bpf_attr attr;

	map_io(BPF_MAP_UPDATE_ELEM, &c);
	memset(&attr, 0, sizeof(attr));
	attr.test.prog_fd = (uint32_t)prog_fd;
	attr.test.data_in = (uintptr_t)packet;
	attr.test.data_size_in = len;
	assert_int_equal(bpf_call(BPF_PROG_TEST_RUN, &attr), 0);
	assert_int_equal(attr.test.retval, 0);
	map_io(BPF_MAP_LOOKUP_ELEM, &c);
	*f = c.framing;
	*out = c.out;
	return c.status;
}

static unsigned int seed = 7;

static size_t put(char *p, const char *s)
{
	size_t n = strlen(s);

	memcpy(p, s, n);
	return n;
}

/* A chunked body with extensions and trailers, sometimes damaged. */
static size_t make_body(char *p, bool *damaged)
{
	size_t n = 0;
	int chunks = rand_r(&seed) % 6;

	for (int i = 0; i < chunks; i++) {
		int len = 1 + rand_r(&seed) % (rand_r(&seed) % 4 ? 20 : 300);

		n += (size_t)sprintf(p + n, rand_r(&seed) % 2 ? "%x" : "%04X", len);
		if (rand_r(&seed) % 4 == 0)
			n += put(p + n, ";a=b;c=\"d e\"");
		n += put(p + n, "\r\n");
		for (int k = 0; k < len; k++)
			p[n++] = "\r\n0;:x"[rand_r(&seed) % 6];
		n += put(p + n, "\r\n");
	}
	n += put(p + n, "0\r\n");
	if (rand_r(&seed) % 3 == 0)
		n += put(p + n, "X-Sum: 1\r\nEmpty:\r\n");
	n += put(p + n, "\r\nHTTP/1.1 200 OK\r\n");
	*damaged = rand_r(&seed) % 2;
	if (*damaged)
		p[(size_t)rand_r(&seed) % n] = (char)rand_r(&seed);
	return n;
}

static void test_same_as_host(void **state)
{
	unsigned int ends = 0, errors = 0;

	for (int round = 0; round < 1500; round++) {
		char packet[L2 + 4096] = { 0 };
		struct http_framing host, kernel;
		bool damaged;
		uint32_t len = L2 + (uint32_t)make_body(packet + L2, &damaged), from = L2, end = len;
		int status;

		http_framing_init(&host, HTTP_BODY_CHUNKED, 0);
		kernel = host;
		do {
			struct http_framing_span h = { 0, 0, 0 }, k = { 0, 0, 0 };

			/* now and then a packet ends early: the state crosses it */
			end = from + 1 + (uint32_t)rand_r(&seed) % (len - from);
			status = http_framing_advance(&host, packet, packet + end, from, end, &h);
			assert_int_equal(kernel_step(&kernel, packet, from, end, &k), status);
			assert_int_equal(k.consumed, h.consumed);
			assert_int_equal(k.len, h.len);
			if (h.len)
				assert_int_equal(k.off, h.off);
			assert_memory_equal(&kernel, &host, sizeof(host));
			from += h.consumed;
		} while (status == HTTP_FRAMING_MORE && from < len);
		ends += status == HTTP_FRAMING_END;
		errors += status == HTTP_FRAMING_ERROR;
		if (!damaged) {
			assert_int_equal(status, HTTP_FRAMING_END);
			assert_int_equal(len - from, strlen("HTTP/1.1 200 OK\r\n"));
		}
	}
	/* both outcomes must really have been compared */
	assert_true(ends > 700);
	assert_true(errors > 100);
}

static void test_lengths(void **state)
{
	static const uint64_t lengths[] = { 1, 100, 0xffffffffull, 0x100000000ull, 4617089843ull };
	char packet[L2 + 256] = { 0 };

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct http_framing host, kernel;
		struct http_framing_span h, k;

		http_framing_init(&host, HTTP_BODY_LENGTH, lengths[i]);
		kernel = host;
		assert_int_equal(kernel_step(&kernel, packet, L2, sizeof(packet), &k),
				 http_framing_advance(&host, packet, packet + sizeof(packet), L2, sizeof(packet), &h));
		assert_memory_equal(&kernel, &host, sizeof(host));
		assert_int_equal(k.len, lengths[i] < 256 ? lengths[i] : 256);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_same_as_host),
		cmocka_unit_test(test_lengths),
	};
	static char log[65536];
	const char *stat;
	unsigned int insns;
	int res = compile();

	if (res) {
		fprintf(stderr, res == 77 ? "skipped: no clang\n" : "http_framing.h does not compile for BPF\n");
		unlink(object);
		return res;
	}
	prog_fd = load(log, sizeof(log));
	unlink(object);
	if (prog_fd == -EPERM || prog_fd == -ENOSYS) {
		fprintf(stderr, "skipped: bpf() not permitted\n");
		return 77;
	}
	stat = strstr(log, "processed ");
	if (prog_fd < 0 || !stat || sscanf(stat, "processed %u insns", &insns) != 1) {
		fprintf(stderr, "the verifier refused: %s\n%s\n", strerror(-prog_fd), log);
		return 1;
	}
	fprintf(stderr, "verifier: %u instructions processed\n", insns);
	if (insns >= INSNS_MAX) {
		fprintf(stderr, "more than %u instructions\n", INSNS_MAX);
		return 1;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
