/* SPDX-License-Identifier: MIT */
#ifndef TENURE_HOLD_HOLDER_HOLDER_H
#define TENURE_HOLD_HOLDER_HOLDER_H

/*
 * The process that holds one device: child of the guard, started with argv[0] = HOLDER_ARGV0, its
 * end of a socket pair as descriptor HOLDER_FD and CUDA_VISIBLE_DEVICES naming its device. Speaks
 * hold/holder_proto.h. Ends when the guard does. The exit code means nothing to anybody.
 */
int holder_main(int argc, char **argv);

#endif
