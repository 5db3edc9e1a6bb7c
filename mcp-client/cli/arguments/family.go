package arguments

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// Family makes a command with subcommands. Without arguments it prints its help; an unknown
// subcommand is an error, which says what was probably meant.
func Family(cmd *cobra.Command, members ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args...)
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.SuggestionsMinimumDistance = 2
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[family] = "yes"
	cmd.AddCommand(members...)
	return cmd
}

// Listing is a Family that without arguments does what its first member does, which lists what the family is about. It takes the
// flags of that, too.
func Listing(cmd, list *cobra.Command, others ...*cobra.Command) *cobra.Command {
	Family(cmd, append([]*cobra.Command{list}, others...)...)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return list.RunE(cmd, nil) }
	cmd.Flags().AddFlagSet(list.Flags())
	cmd.Long += "\n\nWithout another word it is " + list.Name() + "."
	return cmd
}

// family is the annotation of commands that have no arguments but the names of their members.
const family = "family"

// unknownCommand is the error of a word that is no command, with the arguments behind it.
func unknownCommand(cmd *cobra.Command, words ...string) error {
	word := words[0]
	if says := meantBy(cmd, word); says != "" {
		return fmt.Errorf("unknown command %q (%s)", word, aboutResource(says, words[1:]))
	}
	if near := suggested(cmd, word); near != "" {
		return fmt.Errorf("unknown command %q (did you mean %q?)", word, near)
	}
	return fmt.Errorf("unknown command %q", word)
}

// NoFile explains a word where a file was expected: one of another program, or one that cannot be meant for a path. Of a path
// or a URL it says nothing, nor of the "-" of standard input: whoever reads those tells what is wrong.
func NoFile(cmd *cobra.Command, word string) error {
	_, err := os.Stat(word)
	switch {
	case err == nil || word == "-":
		return nil
	case meantBy(cmd, word) != "":
		return unknownCommand(cmd, word)
	case strings.ContainsAny(word, `./\:`):
		return nil
	}
	return fmt.Errorf("%s takes files: -f FILE names one, and there is none of the name %q", cmd.Name(), word)
}

// suggested is the name of a member that a word may be meant for, or another name of it; "" if none is near.
func suggested(cmd *cobra.Command, word string) string {
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		return near[0]
	}
	var others []string
	for _, member := range cmd.Commands() {
		if member.IsAvailableCommand() {
			others = append(others, member.Aliases...)
		}
	}
	return nearest.Word(word, others)
}

// FlagError says what was meant by a flag that cannot be parsed. If a word before it is no command, it says that in its
// place: the flag belongs to a command of another program.
func FlagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); len(words) > 0 && (cmd.Annotations[family] != "" || meantBy(cmd, words[0]) != "") {
		return unknownCommand(cmd, words...)
	}
	if elsewhere := flagElsewhere(cmd, err); elsewhere != nil {
		return elsewhere
	}
	return nearest.Flag(cmd.Flags(), err)
}

// FlagErrorAmong is FlagError for the words of a whole command line. If an unknown flag stands before all words, so that none of
// them was read, a word behind it that is no command may be what was meant; the first may be the value of the flag.
func FlagErrorAmong(args []string) func(*cobra.Command, error) error {
	return func(cmd *cobra.Command, err error) error {
		if missing, unknown := errors.AsType[*pflag.NotExistError](err); unknown && !cmd.HasParent() && len(cmd.Flags().Args()) == 0 {
			for _, word := range behind(args, missing.GetSpecifiedName()) {
				if meantBy(cmd, word) != "" || suggested(cmd, word) != "" {
					return unknownCommand(cmd, word)
				}
			}
		}
		return FlagError(cmd, err)
	}
}

// behind lists the words behind a flag, the first of them last.
func behind(args []string, flag string) (words []string) {
	at := slices.IndexFunc(args, func(arg string) bool { name, _, _ := strings.Cut(arg, "="); return strings.TrimLeft(name, "-") == flag })
	for _, arg := range args[at+1:] {
		if !strings.HasPrefix(arg, "-") {
			words = append(words, arg)
		}
	}
	if len(words) > 1 {
		words = append(words[1:], words[0])
	}
	return words
}

// meantBy says what a word of another program is here, "" if it is not known.
func meantBy(cmd *cobra.Command, word string) string {
	root := cmd.Root().Name()
	here := meant[strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), root)+" "+word)]
	if here == "" || unicode.IsUpper([]rune(here)[0]) {
		return here
	}
	return "here it is " + root + " " + here
}

// Meant returns the commands that words of other programs are said to be.
func Meant() map[string]string {
	commands := map[string]string{}
	for word, here := range meant {
		if !unicode.IsUpper([]rune(here)[0]) {
			commands[word] = here
		}
	}
	return commands
}
