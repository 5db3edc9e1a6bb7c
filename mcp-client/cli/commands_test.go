package cli_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
)

var update = flag.Bool("update", false, "write the table of docs/commands.md anew")

const (
	pageOfCommands = "../../docs/commands.md"
	wordByWord     = "## Word by word\n"
)

// The page has what the program answers to words of other programs, so both say the same.
func TestThePageSaysWhatTheProgramAnswers(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(pageOfCommands)
	require.NoError(t, err)
	before, told, found := strings.Cut(string(text), wordByWord)
	require.True(t, found)
	intro, _, found := strings.Cut(told, "|")
	require.True(t, found)
	want := before + wordByWord + intro + table()
	if *update {
		require.NoError(t, os.WriteFile(pageOfCommands, []byte(want), 0o600))
		return
	}
	require.Equal(t, want, string(text), "go test ./mcp-client/cli -run TestThePageSaysWhatTheProgramAnswers -update writes it")
}

func table() string {
	var b strings.Builder
	b.WriteString("| there | here |\n|---|---|\n")
	for _, p := range arguments.Programs() {
		for _, word := range slices.Sorted(maps.Keys(p.Words)) {
			here := p.Words[word]
			if !unicode.IsUpper([]rune(here)[0]) {
				here = "`mcp-client " + here + "`"
			}
			if p.Name != "" {
				word = strings.Replace(word, "context ", "config ", 1) // which is an alias of context
			}
			fmt.Fprintf(&b, "| `%s` | %s |\n", strings.TrimSpace(p.Name+" "+word), strings.ReplaceAll(here, "|", `\|`))
		}
	}
	return b.String()
}

var (
	inPage     = regexp.MustCompile("`mcp-client ([^`]+)`")
	noCommand  = regexp.MustCompile(`^[^a-z]|[/:=.]`)
	pagesOfUse = []string{pageOfCommands, "../../docs/from-kuma.md"}
)

// Commands that the pages name are commands.
func TestCommandsOfThePagesExist(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, page := range pagesOfUse {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range inPage.FindAllStringSubmatch(string(text), -1) {
			words := strings.Fields(m[1])
			if end := slices.IndexFunc(words, noCommand.MatchString); end >= 0 {
				words = words[:end]
			}
			seen[strings.Join(words[:min(len(words), 2)], " ")] = true
		}
	}
	require.Greater(t, len(seen), 20)
	for words := range seen {
		r := clitest.Run(t.Context(), "", nil, append(strings.Fields(words), "--help")...)
		require.Zero(t, r.Code, words)
		require.Contains(t, r.Out, "mcp-client "+strings.Fields(words)[0], words)
	}
}

var inHint = regexp.MustCompile(`mcp-client ([a-z-]+(?: (?:list|create)\b)?)`)

// Commands that are named for kinds of other programs are commands, and a hint tells of each.
func TestKindsOfOtherProgramsAreAnsweredWithCommands(t *testing.T) {
	t.Parallel()
	named := 0
	for kind, here := range kinds.Counterparts() {
		if kind != "secret" { // which get asks the server for
			r := clitest.Run(t.Context(), "", nil, "get", kind)
			require.Equal(t, 2, r.Code, kind)
			require.Contains(t, r.Err, "unknown kind \""+kind+"\" ("+here+")")
		}
		for _, m := range inHint.FindAllStringSubmatch(here, -1) {
			named++
			r := clitest.Run(t.Context(), "", nil, append(strings.Fields(m[1]), "--help")...)
			require.Zero(t, r.Code, here)
			require.Contains(t, r.Out, "mcp-client "+m[1], here)
		}
	}
	require.Greater(t, named, 10)
}
