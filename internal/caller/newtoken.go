package caller

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/internal/kit/days"
)

// NewToken says what a bearer token that is to be made may do, and for how long.
type NewToken struct {
	Scopes   []string
	Lifetime time.Duration
}

// Flags declares the flags of commands that make tokens.
func (n *NewToken) Flags(f *pflag.FlagSet) {
	f.StringArrayVar(&n.Scopes, "scope", nil, "what its bearer may do: VERB, VERB:NAMESPACES or VERB:NAMESPACES:KINDS, "+
		"such as read, write:shop,cart:virtualservices or admin; may be given more than once")
	days.Var(f, &n.Lifetime, "expires-in", 90*24*time.Hour,
		"how long it is valid; 0 for ever, which a join token cannot be: that is valid for an hour if nothing is said")
}
