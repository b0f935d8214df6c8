#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# How many GPUs are free on each host of a group, in the lines of the CRC's tool of this name:
#
#	$ free_gpus.sh @crc_gpu
#	Free GPU cards on qa-a10-023 : 0
#	Free GPU cards on qa-a10-024 : 1

# Who has the hosts: sge, or slurm, k8s. Where it is empty, Grid Engine if SGE_ROOT says where that is, else whoever
# `tenure nodes` finds; on a machine of one's own that is this machine.
ENGINE="${ENGINE-}"
# The queue whose hosts a group is of, and the resource that counts GPUs.
GPU_QUEUE="${GPU_QUEUE-gpu}"
GPU_COMPLEX="${GPU_COMPLEX-gpu_card}"

# --------------------------------------------------------------------------------------------------------------------

usage() {
	cat <<'HELP'
Usage: free_gpus.sh [@GROUP | QUEUE]

Print how many GPUs a job could get now on each host of a group of hosts, or of a queue; without
either, of all hosts that have GPUs. A host that takes no jobs has none.

  free_gpus.sh @crc_gpu       hosts of a group, in the queue that stands at the head of this file
  free_gpus.sh long@@crc_gpu  of another queue

With Slurm (ENGINE=slurm) the word is a partition. tenure nodes shows more: what is blocked, what is
out of use and why.
HELP
}

die() {
	printf 'free_gpus.sh: %s\n' "$1" >&2
	exit "${2:-1}"
}

# Beside this file, in a build directory, or installed; else on PATH.
find_tenure() {
	local here candidate
	here=$(cd "$(dirname "$(readlink -f "$0")")" && pwd)
	for candidate in "$here/tenure" "$here/../tenure" "$here/../build/tenure" "$here/../../bin/tenure"; do
		if [ -f "$candidate" ] && [ -x "$candidate" ]; then
			printf '%s\n' "$candidate"
			return
		fi
	done
	command -v tenure || die "tenure is neither beside $0 nor on PATH"
}

# The words of `tenure nodes` for a group.
choose() {
	local group=$1
	case $engine in
	sge)
		words=(sge "complex=$GPU_COMPLEX")
		case $group in
		'') ;;
		@*) words+=("queue=$GPU_QUEUE@$group") ;;
		*) words+=("queue=$group") ;;
		esac
		;;
	slurm)
		words=(slurm)
		[ -z "$group" ] || words+=("partition=${group#@}")
		;;
	*)
		words=()
		[ -z "$engine" ] || words=("$engine")
		[ -z "$group" ] ||
			printf 'free_gpus.sh: groups are Grid Engine'\''s: these are all hosts, not those of %s\n' "$group" >&2
		;;
	esac
}

# A line for each host, whatever types of GPUs it has.
print_hosts() {
	awk '
		/^ *"nodes": \[/ { inside = 1 }
		/^ *"devices":/ { inside = 0 }
		inside && /^ *"name": "/ { split($0, part, "\""); name = part[4] }
		inside && /^ *"free": [0-9]/ {
			gsub(/[^0-9]/, "")
			if (!(name in free))
				order[++n] = name
			free[name] += $0
		}
		END {
			for (i = 1; i <= n; i++)
				printf "Free GPU cards on %s : %d\n", order[i], free[order[i]]
			exit !n
		}'
}

case ${1-} in
-h | --help) usage && exit ;;
-*) die "there is no option $1; free_gpus.sh --help" 2 ;;
esac
[ $# -le 1 ] || die "one group at a time, not \"$*\"; free_gpus.sh --help" 2
case ${1-} in
*[!A-Za-z0-9@._-]*) die "\"$1\" is no group of hosts and no queue; free_gpus.sh --help" 2 ;;
esac
engine=$ENGINE words=()
case $engine in
'' | sge | slurm | k8s | local) ;;
*) die "ENGINE=\"$engine\" is none of sge, slurm, k8s and local" 2 ;;
esac
if [ -z "$engine" ] && [ -n "${SGE_ROOT-}" ] && command -v qconf >/dev/null; then
	engine=sge
fi
choose "${1-}"
tenure=$(find_tenure) || exit
# What the engine said before is as good as nothing here: these lines do not say how old they are.
said=$("$tenure" nodes "${words[@]}" --json) || exit
printf '%s\n' "$said" | print_hosts || die "no host${1:+ of $1} has GPUs that can be counted"
