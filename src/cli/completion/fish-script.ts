/** The completion of fish 3 and newer: the text before the cursor is passed to `tidemark __complete`. */

export const FISH_SCRIPT = `# tidemark: completion for fish, written by \`tidemark completion fish\`.

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
