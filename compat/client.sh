# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# The commands of perpetual-motion.md's client over tenure: source this in bash or zsh.
#
#	export JOB_ID=train-exp1		which instance; gpu_use changes it
#	export GPU_QUEUE_ROOT=/mnt/queue	where the queues are (or TENURE_ROOT)
#	source client.sh
#	gpu_submit train.sh
#
# What is submitted here runs one after another, with all GPUs of the node: one lane. Everything else
# is tenure's, whose commands see the same queue. zsh: "path" and "status" are its own variables, words
# are not split, a pattern that matches nothing is an error.

_gpu_lane=gpu_queue

# Beside this file, in a build directory, or installed; else on PATH.
_gpu_find() {
	local here candidate
	if [ -n "${ZSH_VERSION-}" ]; then
		eval 'here=${(%):-%x}'
	else
		here=${BASH_SOURCE[0]}
	fi
	here=$(cd "$(dirname "$here")" 2>/dev/null && pwd)
	for candidate in "$here/tenure" "$here/../tenure" "$here/../build/tenure" "$here/../../bin/tenure"; do
		if [ -f "$candidate" ] && [ -x "$candidate" ]; then
			printf '%s\n' "$candidate"
			return
		fi
	done
	command -v tenure || printf '%s\n' tenure
}
_gpu_program=$(_gpu_find)

_gpu_say() {
	printf '%s\n' "$*" >&2
}

# tenure, for the instance and the root that are meant.
_gpu_tenure() {
	(
		if [ -n "${GPU_QUEUE_ROOT-}" ]; then
			export TENURE_ROOT="$GPU_QUEUE_ROOT"
		fi
		if [ -n "${JOB_ID-}" ]; then
			export TENURE_INSTANCE="$JOB_ID"
		fi
		exec "$_gpu_program" "$@"
	)
}

_gpu_instance() {
	_gpu_tenure use | sed -n '1s/ (.*//p'
}

_gpu_root() {
	local root
	root=$(_gpu_tenure config show --json 2>/dev/null |
		sed -n '/^ *"root": {/,/}/s/^ *"value": "\(.*\)",*$/\1/p')
	printf '%s\n' "${root:-${XDG_STATE_HOME:-$HOME/.local/state}/tenure}"
}

_gpu_dir() {
	printf '%s/%s\n' "$(_gpu_root)" "$(_gpu_instance)"
}

gpu_help() {
	cat <<HELP
GPU queue over tenure. Instance: $(_gpu_instance)

  gpu_use [NAME]            show the instance, or change to another one (JOB_ID)
  gpu_list                  all instances
  gpu_submit FILE [PRIO]    submit a script; a lower number runs first (001)
  gpu_run 'CMD'             submit a command
  gpu_status                what waits and what runs
  gpu_logs [NAME]           the list of logs, or the last one of a task (name or id)
  gpu_tail [NAME]           follow a log: of that task, or of the one that runs
  gpu_stop NAME|all [--sweep]
                            stop a task, or all that wait or run; with --sweep also
                            every other Python process of yours on the agent's node
  gpu_shutdown              end the agents of this instance

Tasks run one after another, each with all GPUs of the node. JOB_ID is the instance, GPU_QUEUE_ROOT
the directory of the queues. tenure's own commands work on the same queue: tenure help
HELP
}

# Scripts that are put into pending/ by hand are tasks like those of gpu_submit.
_gpu_defaults() {
	local dir
	dir=$(_gpu_dir)
	if [ -f "$dir/instance.json" ] && [ -O "$dir/instance.json" ] && ! grep -q '"defaults"' "$dir/instance.json"; then
		(
			umask 077 # as all files there are
			sed "s/}[[:space:]]*\$/,\"defaults\":{\"gpus\":\"all\",\"lane\":\"$_gpu_lane\"}}/" \
				"$dir/instance.json" >"$dir/tmp/instance.$$"
		) && mv -f "$dir/tmp/instance.$$" "$dir/instance.json"
	fi
}

gpu_use() {
	if [ $# -gt 0 ]; then
		# The name is checked by asking for it.
		JOB_ID=$1 _gpu_tenure use >/dev/null || return
		export JOB_ID="$1"
	fi
	printf 'Current instance: %s (%s)\n' "$(_gpu_instance)" "$(_gpu_dir)"
}

gpu_list() {
	_gpu_tenure instances
}

gpu_submit() {
	local id file=${1-}
	if [ $# -lt 1 ] || [ $# -gt 2 ]; then
		_gpu_say "Usage: gpu_submit FILE [PRIO]"
		return 2
	fi
	case $file in -*) file=./$file ;; esac
	id=$(_gpu_tenure submit -g all -l "$_gpu_lane" -p "${2:-500}" "$file") || return
	_gpu_defaults
	printf 'Submitted: %s as task %s of %s\n' "${1##*/}" "$id" "$(_gpu_instance)"
}

gpu_run() {
	local id name
	if [ $# -lt 1 ] || [ -z "$1" ]; then
		_gpu_say "Usage: gpu_run 'CMD'"
		return 2
	fi
	name=run_$(date +%Y%m%d_%H%M%S)
	id=$(_gpu_tenure submit -g all -l "$_gpu_lane" -n "$name" -- bash -c "$*") || return
	_gpu_defaults
	printf 'Submitted: %s as task %s of %s\n' "$name" "$id" "$(_gpu_instance)"
}

gpu_status() {
	local all state
	all=$(_gpu_tenure list --json -a) || return
	printf 'Instance: %s (%s)\n' "$(_gpu_instance)" "$(_gpu_dir)"
	for state in pending running 'done' failed cancelled; do
		printf '%s: %s  ' "$state" "$(printf '%s\n' "$all" | grep -c "\"state\":\"$state\"")"
	done
	printf '\n'
	_gpu_tenure list
}

# The newest log of a task, by its id or the beginning of its name; of any task without a word.
_gpu_log_of() {
	local dir file rest
	dir=$(_gpu_dir)/logs
	# As the name of a task becomes that of a file.
	[ $# -eq 0 ] || set -- "$(printf '%s' "$1" | LC_ALL=C tr -c 'A-Za-z0-9._+-' '[_*]')"
	# Names of logs have no blanks: ID[.ELEMENT]-NAME.ATTEMPT.log
	# shellcheck disable=SC2012
	ls -1t "$dir" 2>/dev/null | while IFS= read -r file; do
		rest=${file#*-}
		case $file in *.log) ;; *) continue ;; esac
		if [ $# -eq 0 ] || [ "${file%%-*}" = "$1" ] || [ "${rest#"$1"}" != "$rest" ]; then
			printf '%s/%s\n' "$dir" "$file"
			break
		fi
	done
}

gpu_logs() {
	local file
	if [ $# -eq 0 ]; then
		printf 'Logs in %s/logs, the newest first:\n' "$(_gpu_dir)"
		# shellcheck disable=SC2010,SC2012
		ls -1t "$(_gpu_dir)/logs" 2>/dev/null | grep '\.log$' | head -n 20
		return 0
	fi
	file=$(_gpu_log_of "$1")
	if [ -z "$file" ]; then
		_gpu_say "No log of \"$1\" in $(_gpu_dir)/logs"
		return 1
	fi
	cat -- "$file"
}

# Names of its pools, as submit.sh makes them.
_gpu_pools() {
	find "$(_gpu_dir)/pools" -name '*.json' 2>/dev/null | sed 's/.*\///; s/\.json$//'
}

# The id of what runs, the first one.
_gpu_running_id() {
	_gpu_tenure list --json -s running 2>/dev/null | sed -n 's/.*"id":\([0-9]*\),.*/\1/p' | head -n 1
}

gpu_tail() {
	local file='' word=${1-}
	[ -n "$word" ] || word=$(_gpu_running_id)
	if [ -n "$word" ]; then
		file=$(_gpu_log_of "$word")
	elif [ $# -eq 0 ]; then
		file=$(_gpu_log_of)
	fi
	if [ -z "$file" ]; then
		_gpu_say "No log${word:+ of \"$word\"} in $(_gpu_dir)/logs yet"
		return 1
	fi
	printf '==> %s <==\n' "$file"
	tail -n 50 -F -- "$file" 2>/dev/null
}

# "STATE ID NAME" of what waits or runs and is meant by a word, as tenure stop takes it: all, an id, a
# name, or the beginning of one name.
_gpu_meant() {
	_gpu_tenure list --json 2>/dev/null |
		sed -n 's/^{"id":\([0-9]*\),"state":"\([a-z]*\)","name":"\([^"]*\)".*/\2 \1 \3/p' |
		GPU_WORD=$1 awk '
			BEGIN { word = ENVIRON["GPU_WORD"] }
			{
				name = $0
				sub(/^[^ ]* [^ ]* /, "", name)
				if (word == "all" || $2 == word || name == word)
					exact[++n] = $0
				else if (index(name, word) == 1 && !($2 in seen))
					begins[++m] = $0
				seen[$2]
			}
			END {
				for (i = 1; i <= n; i++)
					print exact[i]
				if (!n && m == 1)
					print begins[1]
			}'
}

# "ID NAME" of those that run, a line each.
_gpu_running() {
	_gpu_meant "$1" | sed -n 's/^running //p'
}

# An order to the agent as the older client writes it; false: nobody took it within so many seconds.
# It is a link, so that it takes no other console's place and is known for ours.
_gpu_order() {
	local dir file end=$((SECONDS + $2))
	dir=$(_gpu_dir)
	file=$dir/tmp/order.$$
	printf '%s\n' "$1" >"$file" || return
	until ln "$file" "$dir/control.json" 2>/dev/null; do
		if [ ! -e "$dir/control.json" ]; then # a file system without links
			mv -f "$file" "$dir/control.json" || return
			break
		fi
		if [ "$SECONDS" -ge "$end" ]; then
			rm -f "$file"
			return 1
		fi
		sleep 0.1
	done
	while [ -e "$dir/control.json" ]; do
		if [ -e "$file" ] && ! [ "$file" -ef "$dir/control.json" ]; then
			break # ours was taken, and here is the next one
		fi
		if [ "$SECONDS" -ge "$end" ]; then
			rm -f "$dir/control.json" "$file"
			return 1
		fi
		sleep 0.1
	done
	rm -f "$file"
}

# Waits until none of these "ID NAME" runs any more. A task has 30 s of grace.
_gpu_wait_end() {
	local end=$((SECONDS + 45))
	while _gpu_running all | grep -qxF -e "$1"; do
		if [ "$SECONDS" -ge "$end" ]; then
			_gpu_say "It was told to stop and still runs; gpu_status shows it."
			return 1
		fi
		sleep 0.1
	done
}

# By the agent, wherever it runs: what runs, if anything does, and what else is to end with it.
_gpu_stop_there() {
	local order=stop_all more=''
	if [ "$1" != all ]; then
		order=$(_gpu_running "$1" | sed -n '1s/^[^ ]* //p')
		order="stop\",\"task\":\"${order:-$1}"
	fi
	[ -z "$2" ] || more=",\"sweep\":\"$2\""
	_gpu_order "{\"command\":\"$order\"$more}" 10
}

# The older tool ended every other Python process of the user on the node; here they are shown.
_gpu_show_python() {
	local list
	list=$(_gpu_tenure sweep python 2>/dev/null |
		sed -n 's/^PID \([0-9]*\) to be ended: /  \1 /p' | cut -c -100)
	if [ -n "$list" ]; then
		_gpu_say "Other Python processes of yours on this host are left alone (gpu_stop all --sweep ends"
		_gpu_say "those on the agent's node):"
		_gpu_say "$list"
	fi
}

gpu_stop() {
	local word what='' sweep='' said code meant running
	for word in "$@"; do
		case $word in
		--sweep) sweep=python ;;
		-*) what='' && break ;;
		*) [ -z "$what" ] && what=$word || what=' ' ;;
		esac
	done
	if [ -z "${what# }" ]; then
		_gpu_say "Usage: gpu_stop NAME|all [--sweep]"
		return 2
	fi
	meant=$(_gpu_meant "$what")
	said=$(_gpu_tenure stop --sweep none -- "$what" 2>&1)
	code=$?
	running=$(_gpu_running "$what")
	# No such task, one of several, or what was stopped, and what was not and why.
	if [ "$code" -ne 0 ]; then
		_gpu_say "$said"
		[ -n "$sweep" ] || return "$code"
		[ -n "$running" ] || [ "$what" = all ] || return "$code"
	fi
	if [ -n "$sweep" ] && ! _gpu_stop_there "$what" "$sweep"; then
		_gpu_say "No agent of $(_gpu_instance) took the order to stop and sweep."
		return 1
	fi
	if [ -n "$running" ]; then
		_gpu_wait_end "$running" || return
	fi
	if [ "$what" = all ] && [ -z "$meant" ]; then
		printf 'Nothing waits or runs in %s.\n' "$(_gpu_instance)"
	else
		printf 'Stopped: %s\n' "$what"
	fi
	[ -n "$sweep" ] || _gpu_show_python
}

# What gets it nodes is told first, or it would ask for others in place of those that end.
gpu_shutdown() {
	local running pool='' said code
	for pool in $(_gpu_pools); do
		_gpu_tenure down "$(_gpu_instance)" --pool "$pool" || return
	done
	said=$(_gpu_tenure shutdown 2>&1)
	code=$?
	# Its nodes' agents may have ended with it already.
	if [ "$code" -ne 0 ] && { [ "$code" -ne 3 ] || [ -z "$pool" ]; }; then
		_gpu_say "$said"
		return 1
	fi
	[ "$code" -ne 0 ] || [ -z "$said" ] || printf '%s\n' "$said"
	printf 'Shutting down: %s\n' "$(_gpu_instance)"
	running=$(_gpu_running all)
	[ -z "$running" ] || _gpu_say "It runs on, for the next agent (gpu_stop ends it): $running"
}
