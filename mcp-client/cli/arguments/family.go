package arguments

import (
	"fmt"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/internal/kit/nearest"
)

// Family makes a command with subcommands. Without arguments it prints its help; an unknown
// subcommand is an error, which says what was probably meant.
func Family(cmd *cobra.Command, members ...*cobra.Command) *cobra.Command {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return nil
		}
		return unknownCommand(cmd, args[0])
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	cmd.SuggestionsMinimumDistance = 2
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

func unknownCommand(cmd *cobra.Command, word string) error {
	if says := meantBy(cmd, word); says != "" {
		return fmt.Errorf("unknown command %q (%s)", word, says)
	}
	if near := cmd.SuggestionsFor(word); len(near) > 0 {
		return fmt.Errorf("unknown command %q (did you mean %q?)", word, near[0])
	}
	return fmt.Errorf("unknown command %q", word)
}

// FlagError says what was meant by a flag that cannot be parsed. If a word before it is no command, it says that in its
// place: the flag belongs to a command of another program.
func FlagError(cmd *cobra.Command, err error) error {
	if words := cmd.Flags().Args(); cmd.HasSubCommands() && len(words) > 0 {
		return unknownCommand(cmd, words[0])
	}
	return nearest.Flag(cmd.Flags(), err)
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
