# fish completion for @PROGRAM@, made from the tables of its help.

# __@NAME@_at COMMAND [BELOW..]: the line is of that command, and of none of those below it.
function __@NAME@_at
	set -l line (commandline -opc)
	set -l path (string split -n ' ' -- $argv[1])
	set -l n (count $path)
	set -e line[1]
	test $n -eq 0; or test "$line[1..$n]" = "$argv[1]"; or return 1
	not contains -- "$line[$(math $n + 1)]" $argv[2..-1]
end

# The options of a command that take a value.
function __@NAME@_takes
	switch $argv[1]
@ROWS@	end
end

# __@NAME@_place COMMAND PLACE..: the word is the first argument, a further one, or behind "--".
function __@NAME@_place
	set -l line (commandline -opc)
	set -l takes (__@NAME@_takes $argv[1] | string split -n ' ')
	set -l place first
	set -l value ''
	for word in $line[(math 2 + (count (string split -n ' ' -- $argv[1])))..-1]
		if test -n "$value"
			set value ''
		else if test "$word" = --
			set place behind
			break
		else if contains -- "$word" $takes
			set value yes
		else if not string match -q -- '-*' "$word"
			set place further
		end
	end
	contains -- $place $argv[2..-1]
end

# __@NAME@_words KIND: what the program knows.
function __@NAME@_words
	set -l line (commandline -opc)
	set -l program (string replace -r '^~/' "$HOME/" -- $line[1])
	set -l where
	set -l opt ''
	if string match -q '*/*' -- $program; and test -x (path dirname $program)/tenure
		set program (path dirname $program)/tenure
	else
		set program tenure
	end
	for word in $line[2..-1]
		if test "$word" = --
			break
		else if test -n "$opt"
			set -a where $opt $word
			set opt ''
		else if contains -- "$word" -i --instance --root --dev-dir --runtime-dir --state-dir
			set opt $word
		else if string match -qr -- '^--(instance|root|dev-dir|runtime-dir|state-dir)=' "$word"
			set -a where $word
		end
	end
	command $program words $where -- $argv[1] 2>/dev/null
end

# __@NAME@_list KIND|WORD..: the next one of a list with commas.
function __@NAME@_list
	set -l cur (string replace -r '^--[^=]*=' '' -- (commandline -ct))
	set -l before (string match -r '^.*,' -- $cur)
	set -l had (string split , -- "$before")
	set -l lines $argv\t # words that are fixed mean nothing but themselves
	test (count $argv) -gt 1; or set lines (__@NAME@_words $argv[1])
	for line in $lines
		contains -- (string split \t -- $line)[1] $had; or printf '%s\n' "$before$line"
	end
end

# What may follow in a command that stands behind "--", or begins here without one.
function __@NAME@_behind
	set -l line (commandline -opc)
	set -l at (contains -i -- -- $line); or set at (count $line)
	complete -C (string join ' ' -- (string escape -- $line[(math $at + 1)..-1]) (commandline -ct))
end

complete -c @PROGRAM@ -e
complete -c @PROGRAM@ -f
@LINES@
