/** The completion of zsh 5 and newer: the text before the cursor is passed to `tidemark __complete`. */

export const ZSH_SCRIPT = `#compdef tidemark
# tidemark: completion for zsh, written by \`tidemark completion zsh\`.

_tidemark() {
  local program=\${(Q)words[1]} line value description names before
  local -a limit asked closed open
  # The program that is being typed; an alias is none.
  program=\${program/#\\~\\//$HOME/}
  (( $+commands[$program] || $+functions[$program] )) || [[ -x $program && $program == */* ]] || program=tidemark
  (( $+commands[timeout] && ! $+functions[$program] )) && limit=(timeout 2)
  asked=("\${(@Q)words[2,CURRENT-1]}" "\${(Q)PREFIX}")
  for line in "\${(@f)$($limit $program __complete --shell zsh -- "$asked[@]" 2>/dev/null </dev/null)}"; do
    value=\${line%%$'\\t'*}
    description=\${line#*$'\\t'}
    case $value in
      '') ;;
      :files|:directories) names=\${value#:} before=$description ;;
      # More of the word is to follow.
      *:) open+=("\${\${value//\\\\/\\\\\\\\}//:/\\\\:}:$description") ;;
      *) closed+=("\${\${value//\\\\/\\\\\\\\}//:/\\\\:}:$description") ;;
    esac
  done
  (( $#closed )) && _describe -V tidemark closed
  (( $#open )) && _describe -V tidemark open -S ''
  if [[ -n $names ]]; then
    [[ -n $before ]] && compset -P "\${(b)before}"
    if [[ $names == files ]]; then _files; else _files -/; fi
  fi
}

if [[ $funcstack[1] == _tidemark ]]; then
  _tidemark "$@"
else
  compdef _tidemark tidemark
fi
`;
