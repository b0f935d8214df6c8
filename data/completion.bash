# bash completion for @PROGRAM@, made from the tables of its help.

# What may follow a command: sets subs, opts, takes, args and stop of _@NAME@.
_@NAME@_row() {
	subs=() opts=() takes=() args=('' '' '') stop=
	case $1 in
@ROWS@	esac
}

# _@NAME@_offer BEFORE CUR WORD..: those that begin with what was typed, and that a list does not have yet.
_@NAME@_offer() {
	local before=$1 cur=$2 word
	shift 2
	for word; do
		[[ -z $word || $word != "$cur"* || ${had-} == *",$word,"* ]] || COMPREPLY+=("$before$word")
	done
}

# _@NAME@_values KIND BEFORE CUR
_@NAME@_values() {
	local kind=$1 before=$2 cur=$3 program=$program had=,
	local -a lines=()
	if [[ $kind == ,* ]]; then
		kind=${kind#,}
		[[ $cur != *,* ]] || had+=${cur%,*},
		before+=${had#,}
		cur=${cur##*,}
		compopt -o nospace 2>/dev/null
	fi
	case $kind in
	'') ;;
	=*)
		read -ra lines <<<"${kind#=}"
		_@NAME@_offer "$before" "$cur" "${lines[@]}"
		;;
	files) compopt -o default 2>/dev/null ;;
	dirs) compopt -o dirnames 2>/dev/null ;;
	command)
		compopt -o default 2>/dev/null
		[[ $cur == */* || -z $cur ]] || mapfile -t COMPREPLY < <(compgen -c -- "$cur")
		;;
	*)
		mapfile -t lines < <("$program" words "${where[@]}" -- "$kind" "$cur" 2>/dev/null)
		_@NAME@_offer "$before" "$cur" "${lines[@]%%$'\t'*}"
		;;
	esac
}

_@NAME@() {
	local cur=${COMP_WORDS[COMP_CWORD]} program=${COMP_WORDS[0]/#\~\//$HOME/}
	local opt='' row='' stop='' behind='' word i n=0
	local -a subs opts args where=()
	local -A takes

	COMPREPLY=()
	[[ $program == */* && -x ${program%/*}/tenure ]] && program=${program%/*}/tenure || program=tenure
	_@NAME@_row ''
	for ((i = 1; i < COMP_CWORD; i++)); do
		word=${COMP_WORDS[i]}
		if [[ -n $opt ]]; then # its value, which bash has split off at "="
			[[ $word != '=' ]] || continue
			case $opt in
			-i | --instance | --root | --dev-dir | --runtime-dir | --state-dir)
				where+=("$opt" "${word//[\"\'\\]/}")
				;;
			esac
			opt=
			continue
		fi
		case $word in
		--)
			behind=$((i + 1))
			break
			;;
		-*) [[ -z ${takes[$word]+there} ]] || opt=$word ;;
		*)
			if [[ $n == 0 && " ${subs[*]} " == *" $word "* ]]; then
				row+=${row:+ }$word
				_@NAME@_row "$row"
				continue
			fi
			n=$((n + 1))
			[[ -z $stop ]] || break
			;;
		esac
	done
	if [[ -n $opt ]]; then
		[[ $cur != '=' ]] || cur=
		_@NAME@_values "${takes[$opt]}" '' "$cur"
	elif [[ -n $behind ]]; then
		if [[ ${args[2]} == command && $COMP_CWORD -gt $behind ]]; then
			_@NAME@_values files '' "$cur"
		else
			_@NAME@_values "${args[2]}" '' "$cur"
		fi
	elif [[ $cur == --*=* ]]; then
		_@NAME@_values "${takes[${cur%%=*}]-}" "${cur%%=*}=" "${cur#*=}"
	elif [[ $cur == -* && ! (-n $stop && $n -gt 0) ]]; then
		_@NAME@_offer '' "$cur" "${opts[@]}"
	elif [[ $n == 0 && ${#subs[@]} -gt 0 ]]; then
		_@NAME@_offer '' "$cur" "${subs[@]}"
	else
		_@NAME@_values "${args[n > 0 ? 1 : 0]}" '' "$cur"
	fi
}

complete -F _@NAME@ @PROGRAM@
