#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# perpetual-motion.md's submit.sh, over tenure: jobs on a cluster that keep their GPUs in use and run what comes into
# the queue QUEUE_ROOT/JOB_ID, until they end by themselves (perpetual_motion says when).
#
#	./submit.sh train-exp1			2 GPUs on one node
#	./submit.sh train-exp2 4		4 GPUs
#	./submit.sh train-exp3 8 2		8 GPUs on each of two nodes

# This project's directory, with perpetual_motion and tenure, on a disk that the nodes have, too.
CODE_DIR="${CODE_DIR-$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)}"
# The directory of the queues, on such a disk.
QUEUE_ROOT="${QUEUE_ROOT-${GPU_QUEUE_ROOT-}}"
# What conda's activate is on the nodes, and the environment; nothing is activated where the first is empty.
CONDA_PATH="${CONDA_PATH-}"
CONDA_ENV="${CONDA_ENV-}"

# Jobs are called JOB_PREFIX-JOB_ID.
JOB_PREFIX="${JOB_PREFIX-ydj}"
# Who has the nodes: sco, or slurm, sge.
ENGINE="${ENGINE-sco}"
# What the engine needs besides, a line KEY=VALUE each: workspace=share-space, image=.., spec=.., aec2=.., mounts=..
# (docs/cluster.md). The first of these files that exists is read.
ENGINE_CONF="${ENGINE_CONF-}"

# --------------------------------------------------------------------------------------------------------------------

usage() {
	cat <<'HELP'
Usage: submit.sh JOB_ID [GPUS] [NODES]

Get NODES nodes (1) with GPUS GPUs each (2) for the queue JOB_ID, hold them and run what is submitted
there. The same JOB_ID again continues its queue. Paths stand at the head of this file.

  submit.sh train-exp1        2 GPUs on one node
  submit.sh train-exp2 4      4 GPUs on one node
  submit.sh train-exp3 8 2    8 GPUs on each of two nodes

Then, anywhere with the shared disk: export JOB_ID=train-exp1; source client.sh; gpu_help
HELP
}

die() {
	printf 'submit.sh: %s\n' "$1" >&2
	exit "${2:-1}"
}

wrong() {
	die "$1; submit.sh --help" 2
}

say() {
	printf '[INFO] %s\n' "$*"
}

# NAME VALUE MOST
check_count() {
	case $2 in
	'' | *[!0-9]*) wrong "the number of $1 is a whole number, not \"$2\"" ;;
	esac
	if [ "${#2}" -gt 4 ] || [ "$((10#$2))" -lt 1 ] || [ "$((10#$2))" -gt "$3" ]; then
		wrong "the number of $1 is from 1 to $3, not $2"
	fi
}

# NAME PATH: absolute, for nodes look for it there.
check_dir() {
	[ -n "$2" ] || die "$1 is not set: write it at the head of ${BASH_SOURCE[0]}" 2
	case $2 in
	/*) ;;
	*) die "$1=\"$2\" is no absolute path: write it at the head of ${BASH_SOURCE[0]}" 2 ;;
	esac
}

find_tenure() {
	local candidate
	for candidate in "$CODE_DIR/tenure" "$CODE_DIR/../tenure" "$CODE_DIR/../build/tenure" \
		"$CODE_DIR/../../bin/tenure"; do
		if [ -f "$candidate" ] && [ -x "$candidate" ]; then
			printf '%s\n' "$candidate"
			return
		fi
	done
	command -v tenure || die "tenure is neither in $CODE_DIR nor on PATH"
}

# The lines of the first file there is, as --set KEY=VALUE.
read_conf() {
	local file line files=("$ENGINE_CONF")
	if [ -z "$ENGINE_CONF" ]; then
		files=("$CODE_DIR/$ENGINE.conf" "$QUEUE_ROOT/$ENGINE.conf"
			"${XDG_CONFIG_HOME:-${HOME-}/.config}/tenure/$ENGINE.conf")
	elif [ ! -r "$ENGINE_CONF" ]; then
		die "cannot read ENGINE_CONF=$ENGINE_CONF"
	fi
	for file in "${files[@]}"; do
		[ -f "$file" ] || continue
		while IFS= read -r line || [ -n "$line" ]; do
			line=${line#"${line%%[![:space:]]*}"}
			line=${line%"${line##*[![:space:]]}"}
			case $line in
			'' | '#'*) ;;
			*=*) settings+=(--set "$line") ;;
			*) die "$file: \"$line\" is no KEY=VALUE" 2 ;;
			esac
		done <"$file"
		return
	done
}

quoted() {
	printf "'%s'" "${1//\'/\'\\\'\'}"
}

# A brace means something in a template.
literal() {
	quoted "${1//\{/\{\{}"
}

# The script of its jobs: the engine's own, with conda and the directory in front of the agent.
write_template() (
	umask 077
	new=$(mktemp "$1.XXXXXX") || exit
	{
		printf '#!/bin/bash\n{directives}{options}{setup}'
		if [ -n "$CONDA_PATH" ]; then
			printf 'source %s %s || echo "[WARN] conda: %s is not activated"\n' "$(literal "$CONDA_PATH")" \
				"$(literal "$CONDA_ENV")" "${CONDA_ENV//[!A-Za-z0-9._-]/_}"
		fi
		printf 'cd %s || exit\n' "$(literal "$CODE_DIR")"
		printf 'export TENURE_SUBMIT_JOB=%s\n' "$(literal "$job_id")"
		printf '%s --announce\n' "$(literal "$CODE_DIR/perpetual_motion")"
		printf '{launch}\n'
	} >"$new" && mv -fT "$new" "$1" && exit
	rm -f "$new"
	exit 1
)

case ${1-} in
-h | --help) usage && exit ;;
esac
[ $# -gt 0 ] || wrong "which JOB_ID"
[ $# -le 3 ] || wrong "too many words: JOB_ID, the number of GPUs and the number of nodes are all"
job_id=$1 gpus=${2-2} nodes=${3-1}
case $job_id in
-*) wrong "there is no option $job_id" ;;
esac
case $ENGINE in
sco | slurm | sge) ;;
*) die "ENGINE=\"$ENGINE\" is none of sco, slurm and sge; tenure up knows others" 2 ;;
esac
check_count GPUs "$gpus" 64
check_count nodes "$nodes" 256
check_dir CODE_DIR "$CODE_DIR"
check_dir QUEUE_ROOT "$QUEUE_ROOT"
[ -x "$CODE_DIR/perpetual_motion" ] || die "CODE_DIR=$CODE_DIR has no perpetual_motion" 2
if ! [ -d "$QUEUE_ROOT" ] && ! mkdir -m 700 "$QUEUE_ROOT"; then
	die "QUEUE_ROOT=$QUEUE_ROOT is no directory, and cannot be made" 2
fi
export TENURE_ROOT=$QUEUE_ROOT
unset TENURE_INSTANCE
tenure=$(find_tenure) || exit
"$tenure" use --instance "$job_id" >/dev/null || die "\"$job_id\" cannot be a JOB_ID" 2
hours=$("$CODE_DIR/perpetual_motion" --print-hours) || exit
agent_options=() settings=()
while IFS= read -r option; do
	agent_options+=("--agent-option=$option")
done < <("$CODE_DIR/perpetual_motion" --print-options)
[ "${#agent_options[@]}" -gt 0 ] || exit 2
read_conf
[ -d "$QUEUE_ROOT/$job_id" ] || mkdir -m 700 "$QUEUE_ROOT/$job_id" || die "cannot make $QUEUE_ROOT/$job_id"
template=$QUEUE_ROOT/$job_id/submit.template
write_template "$template" || die "cannot write $template"
say "Job $JOB_PREFIX-$job_id: $nodes x $gpus GPUs for ${hours}h, queue $QUEUE_ROOT/$job_id"
# --min 0: a job that somebody deletes is not replaced by itself while nothing waits in its queue.
up() {
	"$tenure" up "$job_id" --root "$QUEUE_ROOT" --engine "$ENGINE" --gpus "$gpus" --nodes "$nodes" --min 0 --time "${hours}h" --keep \
		--keep-for "${hours}h" --prefix "$JOB_PREFIX" --template "$template" "${agent_options[@]}" "${settings[@]}"
}

# An agent of before that was killed looks as if it were there until it has been silent for a while.
shows_life() {
	local mark i
	mark=$(mktemp "$QUEUE_ROOT/$job_id/tmp/submit.XXXXXX") || return 0
	for ((i = 0; i < 20; i++)); do
		sleep 1
		if [ -n "$(find "$QUEUE_ROOT/$job_id/agents" -newer "$mark" 2>/dev/null | head -n 1)" ]; then
			rm -f "$mark"
			return 0
		fi
	done
	rm -f "$mark"
	return 1
}

said=$(up)
code=$?
[ -z "$said" ] || printf '%s\n' "$said"
case $said in
*'Next: nothing: it has what it wants'*)
	say "There is a job of this JOB_ID: waiting for a sign of life"
	if ! shows_life; then
		up
		code=$?
	fi
	;;
esac
if [ "$code" -ne 0 ] && [ "${#settings[@]}" -eq 0 ]; then
	printf 'submit.sh: what %s needs besides goes into %s, a line KEY=VALUE each\n' "$ENGINE" \
		"${ENGINE_CONF:-$CODE_DIR/$ENGINE.conf}" >&2
fi
exit "$code"
