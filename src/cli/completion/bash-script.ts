/** The completion of bash 3.2 and newer: the text before the cursor is passed to `tidemark __complete`. */

export const BASH_SCRIPT = `# tidemark: completion for bash, written by \`tidemark completion bash\`.

_tidemark() {
  local program=$1 rest=$COMP_LINE piece trimmed typed before word description index last=-1 length
  local -a words=() limit=()
  # Readline breaks words at : and = too; what stands together in the line is one word again, up to the cursor.
  for ((index = 0; index <= COMP_CWORD; index++)); do
    piece=\${COMP_WORDS[index]}
    trimmed=\${rest#"\${rest%%[![:space:]]*}"}
    if ((index == COMP_CWORD)); then
      length=$((COMP_POINT - \${#COMP_LINE} + \${#trimmed}))
      piece=\${piece:0:length > 0 ? length : 0}
    fi
    if ((last < 0)) || [[ $trimmed != "$rest" ]]; then
      ((last += 1))
      words[last]=$piece
    else
      words[last]+=$piece
    fi
    rest=\${trimmed#"$piece"}
  done
  # Readline replaces only what follows the last break.
  typed=\${words[last]}
  before=''
  if [[ $typed != [\\"\\']* ]]; then
    [[ $COMP_WORDBREAKS == *=* && $typed == *=* ]] && before=\${typed%"\${typed##*=}"}
    [[ $COMP_WORDBREAKS == *:* && \${typed#"$before"} == *:* ]] && before=\${typed%"\${typed##*:}"}
  fi
  # The program that is being typed; an alias is none.
  program=\${program/#\\~\\//$HOME/}
  case $(type -t -- "$program") in
    file) type -P timeout >/dev/null && limit=(timeout 2) ;;
    function) ;;
    *) program=tidemark ;;
  esac
  COMPREPLY=()
  while IFS=$'\\t' read -r word description; do
    case $word in
      '') ;;
      :files) _tidemark_paths default -f "$description" ;;
      :directories) _tidemark_paths dirnames -d "$description" ;;
      *)
        word=\${word#"$before"}
        [[ $typed == [\\"\\']* ]] || printf -v word %q "$word"
        COMPREPLY+=("$word")
        ;;
    esac
  done <<<"$(\${limit[@]+"\${limit[@]}"} "$program" __complete --shell bash -- "\${words[@]:1}" 2>/dev/null </dev/null)"
  if ((\${#COMPREPLY[@]} == 1)) && [[ \${COMPREPLY[0]} == *: ]]; then
    compopt -o nospace 2>/dev/null
  fi
}

# Readline's own completion of names, which knows about quotes and ~; where it sees another word, or cannot be asked
# (bash 3), their list.
_tidemark_paths() {
  local word
  if [[ -z $3 || $COMP_WORDBREAKS == *"\${3: -1}"* ]] && compopt -o "$1" 2>/dev/null; then
    return
  fi
  while IFS= read -r word; do
    printf -v word %q "$3$word"
    COMPREPLY+=("\${word#"$before"}")
  done <<<"$(compgen "$2" -- "\${typed#"$3"}")"
}

complete -o nosort -F _tidemark tidemark 2>/dev/null || complete -F _tidemark tidemark
`;
