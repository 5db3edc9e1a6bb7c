// Package manual writes the manual pages of a program, one for each command, from its help texts.
//
// It writes roff directly. cobra's own generator goes through Markdown: it would take the asterisks
// and angle brackets of our texts for markup, and would link a Markdown parser into every program.
package manual

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Command returns the hidden command that writes a program's manual pages.
func Command(version func() string) *cobra.Command {
	return &cobra.Command{
		Use:    "man FOLDER",
		Short:  "Write the manual pages of this program into a folder",
		Hidden: true,
		Args:   cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("make the folder for manual pages: %w", err)
			}
			root := cmd.Root()
			root.InitDefaultCompletionCmd()
			return write(args[0], root, version())
		},
	}
}

// write writes the page of a command and of its subcommands.
func write(folder string, cmd *cobra.Command, version string) error {
	file := filepath.Join(folder, name(cmd)+".1")
	if err := os.WriteFile(file, []byte(page(cmd, version)), 0o644); err != nil {
		return fmt.Errorf("write a manual page: %w", err)
	}
	for _, below := range cmd.Commands() {
		if !shown(below) {
			continue
		}
		if err := write(folder, below, version); err != nil {
			return err
		}
	}
	return nil
}

func shown(cmd *cobra.Command) bool { return !cmd.Hidden && cmd.Name() != "help" }

// name returns the name of a command's page: mesh-agent-run.
func name(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

func page(cmd *cobra.Command, version string) string {
	cmd.InitDefaultHelpFlag()
	var b strings.Builder
	program := cmd.Root().Name()
	fmt.Fprintf(&b, ".TH %q 1 \"\" %q %q\n", strings.ToUpper(name(cmd)), "pgmesh "+version, program)
	fmt.Fprintf(&b, ".nh\n.ad l\n.SH NAME\n%s \\- %s\n.SH SYNOPSIS\n\\fB%s\\fR\n.SH DESCRIPTION\n", roff(name(cmd)), roff(lowered(cmd.Short)), roff(cmd.UseLine()))
	b.WriteString(paragraphs(described(cmd)))
	options(&b, "OPTIONS", cmd.NonInheritedFlags())
	options(&b, "OPTIONS OF ALL COMMANDS", cmd.InheritedFlags())
	if cmd.Example != "" {
		b.WriteString(".SH EXAMPLES\n" + verbatim(cmd.Example))
	}
	if related := related(cmd); len(related) > 0 {
		b.WriteString(".SH SEE ALSO\n" + strings.Join(related, ",\n") + "\n")
	}
	return b.String()
}

func described(cmd *cobra.Command) string {
	if cmd.Long != "" {
		return cmd.Long
	}
	return cmd.Short + "."
}

// lowered makes the first letter lower case, as in the lines of apropos(1), unless the sentence
// begins with a name.
func lowered(sentence string) string {
	if len(sentence) > 1 && sentence[1] >= 'a' && sentence[1] <= 'z' || strings.HasPrefix(sentence, "A ") {
		return strings.ToLower(sentence[:1]) + sentence[1:]
	}
	return sentence
}

// paragraphs keeps the lines of indented blocks (tables and examples) and lets roff fill the rest.
func paragraphs(text string) string {
	var b strings.Builder
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		b.WriteString(".PP\n")
		var prose []string
		var table []string
		end := func() {
			if len(table) > 0 {
				b.WriteString(verbatim(strings.Join(table, "\n")))
			}
			for _, line := range prose {
				b.WriteString(roff(line) + "\n")
			}
			prose, table = nil, nil
		}
		for line := range strings.SplitSeq(paragraph, "\n") {
			indented := strings.HasPrefix(line, " ") || strings.HasPrefix(line, "\t")
			if indented && len(prose) > 0 || !indented && len(table) > 0 {
				end()
			}
			if indented {
				table = append(table, line)
			} else {
				prose = append(prose, line)
			}
		}
		end()
	}
	return b.String()
}

func verbatim(text string) string {
	var b strings.Builder
	b.WriteString(".PP\n.nf\n")
	for line := range strings.Lines(strings.Trim(text, "\n") + "\n") {
		b.WriteString(roff(strings.TrimSuffix(line, "\n")) + "\n")
	}
	b.WriteString(".fi\n")
	return b.String()
}

func options(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Deprecated != "" {
			return
		}
		takes, about := pflag.UnquoteUsage(f)
		b.WriteString(".TP\n")
		if f.Shorthand != "" {
			fmt.Fprintf(b, "\\fB\\-%s\\fR, ", roff(f.Shorthand))
		}
		fmt.Fprintf(b, "\\fB\\-\\-%s\\fR", roff(f.Name))
		if takes != "" {
			fmt.Fprintf(b, " \\fI%s\\fR", roff(takes))
		}
		fmt.Fprintf(b, "\n%s\n", roff(about+byDefault(f)))
	})
}

func byDefault(f *pflag.Flag) string {
	switch {
	case strings.Contains(f.Usage, "(default"):
		return ""
	case f.DefValue == "" || f.DefValue == "false" || f.DefValue == "0" || f.DefValue == "0s" || f.DefValue == "[]" || f.DefValue == "<nil>":
		return ""
	default:
		return " (default " + f.DefValue + ")"
	}
}

// related returns the pages of the parent command and of the subcommands.
func related(cmd *cobra.Command) []string {
	var pages []string
	refer := func(c *cobra.Command) { pages = append(pages, "\\fB"+roff(name(c))+"\\fR(1)") }
	if cmd.HasParent() {
		refer(cmd.Parent())
	}
	for _, below := range cmd.Commands() {
		if shown(below) {
			refer(below)
		}
	}
	return pages
}

// roff escapes a line so that roff prints every character as it is.
func roff(line string) string {
	line = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", "\\(ga", "^", `\(ha`, "~", `\(ti`).Replace(line)
	if strings.HasPrefix(line, ".") {
		line = `\&` + line
	}
	var b strings.Builder
	for _, r := range strings.ReplaceAll(line, "\n", " ") {
		if r < utf8.RuneSelf {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\[u%04X]`, r) // roff reads Latin-1
		}
	}
	return b.String()
}
