package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// referenceCommand writes docs/cli.md, so the page always matches the program.
func referenceCommand(s *session.Session) *cobra.Command {
	p := program{s}
	return &cobra.Command{
		Use:    "reference",
		Short:  "Write the reference of this program, in Markdown",
		Hidden: true,
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cmd.Root().InitDefaultCompletionCmd()
			return writeReference(p.Out, cmd.Root())
		},
	}
}

func writeReference(out io.Writer, root *cobra.Command) error {
	var b strings.Builder
	fmt.Fprint(&b, "<!-- Written by go generate ./mcp-client from the help texts. -->\n# mcp-client\n\n")
	intro, _, _ := strings.Cut(root.Long, "\n\nExit codes:")
	fmt.Fprintf(&b, "%s\n\n", intro)
	for _, g := range root.Groups() {
		fmt.Fprintf(&b, "| %s | |\n|---|---|\n", strings.TrimSuffix(g.Title, ":"))
		for _, c := range root.Commands() {
			if c.GroupID == g.ID && !c.Hidden && c.Name() != "help" {
				fmt.Fprintf(&b, "| [%s](#%s) | %s |\n", c.Name(), anchor(c), c.Short)
			}
		}
		fmt.Fprintln(&b)
	}
	fmt.Fprintf(&b, "## Exit codes\n\n%s\n", codeBlock("", failure.ExitCodes[len("Exit codes:\n"):]))
	fmt.Fprintf(&b, "## Flags of all commands\n\n%s\n", codeBlock("", root.PersistentFlags().FlagUsagesWrapped(130)))
	fmt.Fprintf(&b, "%s\n%s\n", session.SettingsHelp+"\n", codeBlock("", session.EnvironmentList()))
	fmt.Fprintf(&b, "## Output\n\n%s\n", outputHelp)
	fmt.Fprintf(&b, "## Protocols\n\n%s\n", protocolsHelp)
	for _, c := range root.Commands() {
		if !c.Hidden && c.Name() != "help" {
			referTo(&b, c)
		}
	}
	_, err := io.WriteString(out, strings.TrimRight(b.String(), "\n")+"\n")
	return err
}

// referTo describes a command and its subcommands.
func referTo(b *strings.Builder, c *cobra.Command) {
	title := strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" ")
	fmt.Fprintf(b, "## %s\n\n", title)
	if len(c.Commands()) == 0 {
		fmt.Fprintln(b, codeBlock("", c.UseLine()))
	}
	text := c.Long
	if text == "" {
		text = c.Short + "."
	}
	if c.Name() == "completion" {
		fmt.Fprint(b, completionHelp)
		return
	}
	for paragraph := range strings.SplitSeq(text, "\n\n") {
		if strings.HasPrefix(paragraph, "  ") { // a table, whose line breaks must stay
			paragraph = strings.TrimSuffix(codeBlock("", paragraph), "\n")
		}
		fmt.Fprintf(b, "%s\n\n", paragraph)
	}
	if c.Example != "" {
		fmt.Fprintln(b, codeBlock("sh", unindented(c.Example)))
	}
	if flags := ownFlags(c); flags != "" {
		fmt.Fprintln(b, codeBlock("", flags))
	}
	for _, below := range c.Commands() {
		referTo(b, below)
	}
}

// ownFlags describes the flags of this command only, without --help.
func ownFlags(c *cobra.Command) string {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			own.AddFlag(f)
		}
	})
	return own.FlagUsagesWrapped(130)
}

func anchor(c *cobra.Command) string {
	return strings.ReplaceAll(strings.TrimPrefix(c.CommandPath(), c.Root().Name()+" "), " ", "-")
}

func codeBlock(language, text string) string {
	return "```" + language + "\n" + strings.Trim(text, "\n") + "\n```\n"
}

func unindented(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimPrefix(line, "  "))
	}
	return b.String()
}

const (
	outputHelp = "`-o` chooses how to print. `table` is for people, and `wide` has more columns. `name` prints one reference a line, which `get` and\n" +
		"`delete` take back. `yaml` and `json` have everything; resources are in the form that `apply` takes, and in JSON one that was asked for\n" +
		"by its name is itself, while anything else is a `List`. `jsonpath=TEMPLATE` and `custom-columns=TITLE:PATH,...` are kubectl's, read by the\n" +
		"library of the Kubernetes client: `{.spec.hosts[0]}`, `{range .items[*]}{.metadata.name}{\"\\n\"}{end}`, `{.items[?(@.kind==\"Gateway\")]}`.\n" +
		"`go-template=TEMPLATE` is Go's, with kubectl's `exists` and `base64decode`: `{{range .items}}{{.metadata.name}}{{\"\\n\"}}{{end}}`; what is\n" +
		"missing prints `<no value>`. `jsonpath-file=FILE` and `go-template-file=FILE` have the template in a file.\n" +
		"Columns of one's own are of resources; a watch has none.\n\n" +
		"Colours are for terminals: not where the output goes elsewhere, nor where `NO_COLOR` is set, unless `--color` says otherwise. Whatever\n" +
		"takes more than a second says on a terminal what it does.\n"

	protocolsHelp = "Servers speak MCP in several forms, and `--protocol` chooses the one to read by. `auto` takes the best that the server has: `delta` of a\n" +
		"pgmesh server, which sends what changed and says where a revision ends; else `xds`, the state of the world, as istiod does; else\n" +
		"`legacy`, the first generation, which Galley spoke and Nacos speaks too. Only a pgmesh server numbers revisions.\n"

	completionHelp = "`mcp-client completion (bash | zsh | fish | powershell)` prints a script that completes commands, flags, kinds, contexts, and the names of\n" +
		"resources as the server has them at the moment. `mcp-client completion bash --help` tells where to put it.\n\n"
)
