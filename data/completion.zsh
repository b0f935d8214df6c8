#compdef @PROGRAM@
# zsh completion for @PROGRAM@, made from the tables of its help.

# What may follow a command: sets subs, opts, takes, args and stop of _@NAME@.
_@NAME@_row() {
	subs=() opts=() takes=() args=('' '' '') stop=
	case $1 in
@ROWS@	esac
}

# _@NAME@_values KIND
_@NAME@_values() {
	local kind=$1 line had=,
	local -a lines described
	if [[ $kind == ,* ]]; then
		kind=${kind#,}
		compset -P '*,' && had=,${IPREFIX#*=}
	fi
	case $kind in
	'') _message value ;;
	'='*)
		lines=(${=kind#=})
		for line in "${(@)lines}"; do
			[[ $had == *,$line,* ]] || described+=("$line")
		done
		compadd -- "${(@)described}"
		;;
	files) _files ;;
	dirs) _files -/ ;;
	command) _alternative 'commands:command:_command_names -e' 'files:file:_files' ;;
	*)
		lines=("${(@f)$("$program" words "${(@)where}" -- "$kind" 2>/dev/null)}")
		for line in "${(@)lines}"; do
			[[ -z $line || $had == *,${line%%$'\t'*},* ]] || described+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
		done
		_describe -V -t "$kind" "${kind//-/ }" described
		;;
	esac
}

_@NAME@() {
	local opt row stop word value program=${(Q)words[1]}
	local -a subs opts args where
	local -A takes
	integer i n=0 behind=0

	program=${program/#\~\//$HOME/}
	[[ $program == */* && -x ${program%/*}/tenure ]] && program=${program%/*}/tenure || program=tenure
	_@NAME@_row ''
	for ((i = 2; i < CURRENT; i++)); do
		word=${words[i]} value=
		if [[ -n $opt ]]; then
			value=$word word=
		elif [[ $word == --*=* ]]; then
			opt=${word%%=*} value=${word#*=} word=
		fi
		if [[ -n $opt ]]; then
			case $opt in
			-i | --instance | --root | --dev-dir | --runtime-dir | --state-dir)
				where+=("$opt" "${(Q)value}")
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
		-*) ((! ${+takes[$word]})) || opt=$word ;;
		*)
			if ((n == 0)) && [[ -n ${subs[(r)${(b)word}:*]} ]]; then
				row+=${row:+ }$word
				_@NAME@_row "$row"
				continue
			fi
			((n += 1))
			[[ -z $stop ]] || break
			;;
		esac
	done
	if [[ -n $opt ]]; then
		_@NAME@_values "${takes[$opt]}"
	elif ((behind)) && [[ ${args[3]} == command ]]; then
		words=("${(@)words[behind,-1]}")
		((CURRENT -= behind - 1))
		_normal
	elif ((behind)); then
		_@NAME@_values "${args[3]}"
	elif [[ $PREFIX == --*=* ]]; then
		opt=${PREFIX%%=*}
		compset -P '*='
		_@NAME@_values "${takes[$opt]-}"
	elif [[ $PREFIX == -* ]] && ! { [[ -n $stop ]] && ((n)); }; then
		_describe -o option opts
	elif ((n == 0 && ${#subs})); then
		_describe command subs
	else
		_@NAME@_values "${args[n > 0 ? 2 : 1]}"
	fi
}

if [[ ${funcstack[1]} == _@PROGRAM@ ]]; then # autoloaded: this file is the function
	_@NAME@ "$@"
else
	compdef _@NAME@ @PROGRAM@
fi
