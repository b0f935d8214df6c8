#!/bin/sh
# SPDX-License-Identifier: MIT
# What a user does with the archive of tools/dist, on a simulated machine with two GPUs: hold both, run a task from the
# queue and one in the foreground, let go.
#
#     tenure sim --gpus 2 -- distsession.sh DIRECTORY    where it was unpacked
set -eu
tenure=$1/bin/tenure
"$tenure" on --idle-for 0s
i=0
until [ "$("$tenure" status | grep -c '^ *[01]  held')" = 2 ]; do
	i=$((i + 1))
	[ $i -lt 600 ]
	sleep 0.1
done
echo 'both held'
# shellcheck disable=SC2016 # they are the task's
SPECIAL='what the shell has' "$tenure" submit -g 1 -n first -- sh -c 'echo "device $CUDA_VISIBLE_DEVICES, $SPECIAL"' >/dev/null
"$tenure" wait first
"$tenure" logs first | grep '^device'
"$tenure" run -- sh -c 'exit 7' || echo "code $?"
"$tenure" off
