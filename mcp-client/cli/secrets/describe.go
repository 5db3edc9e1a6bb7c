package secrets

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

// Describe tells everything about the secrets that arguments ask for but their values, for people.
func Describe(cmd *cobra.Command, s *session.Session, args []string) error {
	p := program{s}
	wanted, err := wantedBy(args)
	if err != nil {
		return failure.Usage(cmd, err)
	}
	list, missing, err := p.find(cmd.Context(), wanted, Choice{})
	if err != nil {
		return err
	}
	for i, secret := range list {
		if i > 0 {
			fmt.Fprintln(p.Out)
		}
		if err := p.Print(secret.described()); err != nil {
			return err
		}
	}
	return missing
}

func (s *secretInfo) described() string {
	var b strings.Builder
	w := output.NewRows(&b)
	w.Row("Name:", s.Name)
	w.Row("Namespace:", s.Namespace)
	w.Row("Kind:", "Secret (v1)")
	w.Row("Type:", s.Type)
	if s.Origin != "" {
		w.Row("Origin:", "the registry "+s.Origin)
	}
	w.Pairs("Labels:", s.Labels)
	w.Row("Keys:", strings.Join(s.Keys, ", ")+", whose values are never shown")
	w.Row("For:", words.OrDash(strings.Join(s.Names, ", ")))
	w.Row("Valid:", s.validity())
	w.Row("Service accounts:", words.OrDash(strings.Join(s.Accounts, ", ")))
	w.Row("Encrypted:", map[bool]string{true: "yes, by a key of the servers", false: "no"}[s.Encrypted])
	if s.Created != nil {
		w.Row("Created:", words.LocalTime(*s.Created)+", "+words.Age(*s.Created)+" ago")
	}
	if s.Updated != nil {
		w.Row("Updated:", words.LocalTime(*s.Updated)+", by "+words.OrDash(s.Author))
	}
	w.Flush() // writing to a strings.Builder cannot fail
	return b.String()
}

// validity says from when and until when the certificate holds.
func (s *secretInfo) validity() string {
	switch {
	case s.NotBefore == nil || s.NotAfter == nil:
		return "-"
	case time.Now().After(*s.NotAfter):
		return "no more: it ended " + words.LocalTime(*s.NotAfter) + ", " + words.Age(*s.NotAfter) + " ago"
	case time.Now().Before(*s.NotBefore):
		return "not yet: from " + words.LocalTime(*s.NotBefore) + " until " + words.LocalTime(*s.NotAfter)
	}
	return "until " + words.LocalTime(*s.NotAfter) + ", for another " + words.Span(time.Until(*s.NotAfter))
}
