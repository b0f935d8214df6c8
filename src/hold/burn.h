/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_BURN_H
#define TENURE_HOLD_BURN_H

/*
 * A burn: a hold whose load is a test of the device. What is to be tested travels with the policy
 * (hold/policy.h) from the client to the guard and on to the holders; what each of them has found
 * travels back. A device that burns is held like any other: the guard yields it to a newcomer, and
 * the memory is free as soon as that of any hold.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

enum burn_load {
	BURN_TENSOR, /* products on the tensor cores, each compared with what the host knows */
	BURN_FP32,   /* the same in single precision, without tensor cores */
	BURN_FP64,   /* in double precision, on tensor cores where they have it */
	BURN_MEMORY, /* all that is held is written and read in patterns */
	BURN_COPIES, /* between memory of the host and of the device, each word compared */
	BURN_MIXED,  /* by turns */
	BURN_LOAD_MAX
};

/* Of the elements of a product; sums are single precision, or that of the elements if it is more.
 */
enum precision {
	PRECISION_F16,
	PRECISION_BF16,
	PRECISION_TF32,
	PRECISION_E4M3, /* fp8 */
	PRECISION_F32,
	PRECISION_F64,
	PRECISION_MAX
};

#define PRECISION_BEST 0xffU /* bf16, or fp16 where a card has no bf16 */

/* By which kernels products are computed. */
enum burn_kernel {
	BURN_KERNEL_AUTO, /* whichever is the faster for the card: of equal ones, ours */
	BURN_KERNEL_OWN,
	BURN_KERNEL_CUBLAS, /* NVIDIA's cuBLASLt */
	BURN_KERNEL_MAX
};

/* What is to be tested, as policies and holders are told. */
struct burn_test {
	uint8_t load;	   /* enum burn_load */
	uint8_t precision; /* enum precision, of products on the tensor cores; or PRECISION_BEST */
	uint8_t kernel;	   /* enum burn_kernel */
	uint8_t exclusive; /* no task of ours ends it, but newcomers do */
	uint32_t id;	   /* another one than that of the burn before: what is told has it */
};

#define BURN_RECORDS 4

/* One thing that was found wrong. */
struct burn_record {
	uint64_t at;	    /* row * n + column of a product, or a byte of the hold */
	uint32_t got, want; /* bits: of a float, of a double as product_word() folds them, or of a
			     * word of memory */
};

enum burn_way {
	BURN_TO, /* to the device, and nothing else meanwhile */
	BURN_FROM,
	BURN_BOTH, /* at once; bytes of both are added up */
	BURN_WAY_MAX
};

/* Copies between a device and what is beside it: pinned memory of the host, or another device. */
struct burn_copies {
	uint64_t copies[BURN_WAY_MAX];	    /* whose time was taken */
	uint64_t bytes_per_s[BURN_WAY_MAX]; /* the median of the last ones */
	uint64_t words;			    /* that were compared, of 32 bits */
	uint64_t wrong[BURN_BOTH];	    /* of these, by the way on which they went wrong */
	uint32_t records;		    /* in record[] */
	int32_t code; /* 0; or why there are none: -ENOMEM no memory of the host is to be had,
			 -ENOSPC the hold is too small, -EHOSTUNREACH it cannot reach that device,
			 -EIO anything else */
	struct burn_record record[BURN_RECORDS]; /* the first; at is a byte of a copy */
};

/*
 * Copies between two devices that burn. Each has a window of its own memory, which the holders of
 * the others open (CUDA IPC) and copy to and from; so what is copied comes and goes, and where a
 * word went wrong is not known: wrong[BURN_TO] has them all. In a window each of the others has a
 * part of its own, that of its slot, because nobody waits for anybody.
 */
#define BURN_PEERS_MAX	  16
#define BURN_WINDOW_MOST  (256ULL << 20)
#define BURN_WINDOW_LEAST (32ULL << 20)
#define BURN_HANDLE_BYTES 64

struct burn_window {
	uint64_t bytes;
	uint32_t slot, pad; /* of its device */
	uint8_t handle[BURN_HANDLE_BYTES];
};

/* The windows of all devices that burn, in the order of their slots, and whose table it is. */
struct burn_peers {
	uint32_t n, own; /* own: position of this device's, or n */
	struct burn_window windows[BURN_PEERS_MAX];
};

struct burn_link {
	uint32_t slot;	      /* of the other device */
	uint32_t gpu, nvlink; /* its number, and whether NVLink joins them: by whoever shows it */
	uint32_t pad;
	struct burn_copies copies;
};

/* What a holder has found since its burn began. Counters only grow. */
struct burn_report {
	uint32_t id; /* of the order */
	/* Products. */
	uint64_t product_ns;	  /* of launches for which the host has asked in time */
	uint64_t gflop;		  /* 10^9 operations in that time */
	uint64_t elements;	  /* that were compared */
	uint64_t wrong, nan, inf; /* of these, each apart */
	uint64_t repeated;	  /* wrong ones that were so before, at the same place */
	uint64_t reference_wrong; /* words of what is compared with that have changed */
	/* Memory. */
	uint64_t memory_ns;    /* of launches for which the host has asked in time */
	uint64_t memory_bytes; /* that were read or written in that time */
	uint64_t words;	       /* of 32 bits, that were compared */
	uint64_t words_wrong, words_repeated;
	uint32_t passes;		/* whole ones */
	uint32_t n;			/* of n x n products; 0: none was made yet */
	uint32_t precision;		/* enum precision of them */
	uint32_t records, word_records; /* in record[] and word[] */
	char kernel[16];		/* which products: "9.0", "8.0", "7.0", "cuBLASLt 13.1" */
	struct burn_record record[BURN_RECORDS], word[BURN_RECORDS]; /* the first of each */
	struct burn_copies copies;				     /* over PCIe */
	uint32_t n_links;
	uint32_t cuda; /* the error with which a kernel of it has ended; 0: none has */
	struct burn_link links[BURN_PEERS_MAX];
};

/* 0, or -EINVAL and e: numbers are out of range. */
int burn_test_check(const struct burn_test *o, struct err *e);

/* Terminate its strings and bound its numbers: it came over a socket. */
void burn_report_end(struct burn_report *r);

/* All that was found wrong, of every kind. */
uint64_t burn_report_errors(const struct burn_report *r);

/* Whether it is also between devices. */
bool burn_copies_to_peers(uint32_t load);

/* Each load and kernel by its number, and the precisions that can be chosen by theirs, to NULL:
 * words of options. */
extern const char *const burn_load_words[], *const precision_words[], *const burn_kernel_words[];
/* Of these; "?" out of range. */
const char *burn_load_name(uint32_t load);
/* "fp16", "bf16", "tf32", "fp8", "fp32", "fp64"; "?" out of range. */
const char *precision_name(uint32_t precision);
/* Of an element; 0 out of range. */
uint32_t precision_bytes(uint32_t precision);

/* Of the products of such a load on a card of that compute capability (90 is 9.0): its own, or that
 * which was chosen. Pure. */
enum precision burn_precision(enum burn_load load, uint32_t chosen, int capability);
/* Products are a part of it. */
bool burn_has_products(enum burn_load load);

#endif
