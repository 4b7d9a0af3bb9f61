/** `tidemark completion SHELL`: the script with which a shell calls `tidemark __complete`; and that command. */
import { type ExitCode, EXIT } from '../core/errors.ts';
import type { Shell } from './completion/value-type.ts';
import { type CommandContext, type CommandAction, printDocument } from './context.ts';
import { systemClock } from '../core/clock.ts';
import type { CommandRow } from './command-row.ts';
import { completionOf } from './completion/completion-of.ts';

export async function completion(
  context: CommandContext,
  { shell }: { readonly shell: Shell },
): Promise<ExitCode> {
  await printDocument(context, SCRIPTS[shell]);
  return EXIT.done;
}

/** No further mirror is read after this time: the scripts end the process after two seconds, if the system has `timeout`. */
const BUDGET_MS = 1500;

/**
 * `tidemark __complete -- WORD…`: prints what may replace the last word: a line per candidate, with its description after a tab. Then
 * `:files` or `:directories` if names of these are possible too, with the part of the word before them.
 */
export function complete(
  rows: readonly CommandRow[],
): CommandAction<{ readonly words?: readonly string[]; readonly shell?: Shell }> {
  return async (context, { words = [], shell }) => {
    const started = systemClock.monotonicMs();
    const { candidates, paths } = await completionOf(
      {
        words,
        // The other shells pass words without quotes.
        isQuoted: shell === 'bash',
        env: context.env,
        cwd: context.cwd,
        isLate: () => systemClock.monotonicMs() - started > BUDGET_MS,
      },
      rows,
    );
    const lines = candidates.map(({ value, description }) => `${value}\t${description}\n`);
    if (paths !== null) lines.push(`:${paths.what}\t${paths.before}\n`);
    if (lines.length > 0) await printDocument(context, lines.join(''));
    return EXIT.done;
  };
}

// The scripts: the text before the cursor is passed to `tidemark __complete`.

/** For bash 3.2 and newer. */
const BASH_SCRIPT = `# tidemark: completion for bash, written by \`tidemark completion bash\`.

_tidemark() {
  local program=$1 rest=$COMP_LINE piece trimmed typed before word description index last=-1 length
  local -a words=() limit=()
  # Readline breaks words at : and = too; pieces without a space between them are one word again, up to the cursor.
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

/** For zsh 5 and newer. */
const ZSH_SCRIPT = `#compdef tidemark
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

/** For fish 3 and newer. */
const FISH_SCRIPT = `# tidemark: completion for fish, written by \`tidemark completion fish\`.

function __tidemark_complete
    set -l words (commandline -opc)
    set -l typed (commandline -ct)
    set -l call tidemark
    # The program that is being typed, where it is one.
    if type -q -- $words[1]
        set call $words[1]
    end
    if type -q timeout; and not functions -q -- $call
        set call timeout 2 $call
    end
    for line in ($call __complete --shell fish -- $words[2..-1] "$typed" 2>/dev/null </dev/null)
        set -l parts (string split -m 1 \\t -- $line)
        switch $parts[1]
            case :files
                for path in (__fish_complete_path (string sub -s (math 1 + (string length -- $parts[2])) -- $typed))
                    printf '%s\\n' $parts[2]$path
                end
            case :directories
                for path in (__fish_complete_directories (string sub -s (math 1 + (string length -- $parts[2])) -- $typed) '')
                    printf '%s\\n' $parts[2]$path
                end
            case '*'
                printf '%s\\n' $line
        end
    end
end

complete -c tidemark -e
complete -c tidemark -f -k -a '(__tidemark_complete)'
`;

/** By shell. */
export const SCRIPTS: Readonly<Record<Shell, string>> = {
  bash: BASH_SCRIPT,
  zsh: ZSH_SCRIPT,
  fish: FISH_SCRIPT,
};
