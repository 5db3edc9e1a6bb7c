// Package caller knows who calls a server, and what they may do.
//
// A caller is who its client certificate says (a SPIFFE id that a list allows), or who its bearer token belongs to. A [Guard]
// finds that out for each call, over gRPC and HTTP alike, and puts the [Caller] into the call's context. What a call is about is
// known to its handler alone, so handlers ask the Caller.
package caller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/kinds"
)

// Caller is who makes a call. A nil Caller may do nothing.
type Caller struct {
	identity string
	author   string
	scopes   []Scope
	session  *session
	exposed  bool // others can read what it is told
}

// The identities of those who have neither a certificate nor a token.
const (
	Anonymous = "anonymous" // over TLS, where that is allowed
	Local     = "insecure"  // without TLS
)

// tokenPrefix is what the identity of a token's bearer begins with.
const tokenPrefix = "token:"

// Identity is a SPIFFE id, "token:" and the name of a token, Anonymous, or Local.
func (c *Caller) Identity() string {
	if c == nil {
		return ""
	}
	return c.identity
}

// Author is whom revisions name as who made them. It is empty for a caller that nobody vouches for, who may say so by itself.
func (c *Caller) Author() string {
	if c == nil {
		return ""
	}
	return c.author
}

// Bearer tells whether the caller came with a token.
func (c *Caller) Bearer() bool { return strings.HasPrefix(c.Identity(), tokenPrefix) }

// Scopes are what the caller may do.
func (c *Caller) Scopes() []Scope {
	if c == nil {
		return nil
	}
	return slices.Clone(c.scopes)
}

// May tells whether the caller may do something to the resources of a kind in a namespace.
func (c *Caller) May(v Verb, namespace string, k *kinds.Kind) bool {
	return c != nil && slices.ContainsFunc(c.scopes, func(s Scope) bool { return s.Allows(v, namespace, k) })
}

// Unlimited tells whether the caller may do something to all resources.
func (c *Caller) Unlimited(v Verb) bool {
	return c != nil && slices.ContainsFunc(c.scopes, func(s Scope) bool {
		return s.Verb.includes(v) && s.Namespaces == nil && s.Kinds == nil
	})
}

// MaySecrets tells whether the caller may read the secrets of a namespace and, if it may write there, change them.
func (c *Caller) MaySecrets(namespace string) bool {
	return slices.ContainsFunc(c.SecretScopes(), func(s Scope) bool { return s.Namespaces == nil || slices.Contains(s.Namespaces, namespace) })
}

// SecretScopes are those of its scopes that let the caller see secrets. It has none while it comes without TLS from another machine.
func (c *Caller) SecretScopes() (scopes []Scope) {
	if c == nil || c.exposed {
		return nil
	}
	for _, s := range c.scopes {
		if s.Verb.includes(Secrets) {
			scopes = append(scopes, s)
		}
	}
	return scopes
}

// RequireSecrets returns a [DeniedError] unless the caller may read the secrets of a namespace.
func (c *Caller) RequireSecrets(namespace string) error {
	if c.MaySecrets(namespace) {
		return nil
	}
	if c != nil && c.exposed {
		return &DeniedError{Identity: c.identity, What: "see secrets, for it comes without TLS", Scopes: Texts(c.scopes)}
	}
	return c.denied(fmt.Sprintf("see secrets of the namespace %q", namespace))
}

// Require returns a [DeniedError] unless the caller may do something to the resources of a kind in a namespace.
func (c *Caller) Require(v Verb, namespace string, k *kinds.Kind) error {
	if c.May(v, namespace, k) {
		return nil
	}
	switch {
	case namespace == "":
		return c.denied(fmt.Sprintf("%s %s, which belongs to no namespace", v, KindWord(k)))
	case k.Bare:
		return c.denied(fmt.Sprintf("%s %s, which is the whole mesh's and takes the right to %[1]s everything", v, KindWord(k)))
	}
	return c.denied(fmt.Sprintf("%s %s in the namespace %q", v, KindWord(k), namespace))
}

// RequireUnlimited returns a [DeniedError] unless the caller may do something to all resources.
func (c *Caller) RequireUnlimited(v Verb) error {
	if c.Unlimited(v) {
		return nil
	}
	switch v {
	case Admin:
		return c.denied("administer who else may call")
	case Sign:
		return c.denied("ask for what gives others certificates")
	case Register:
		return c.denied("say which machines are there")
	}
	return c.denied(fmt.Sprintf("%s all resources of the mesh", v))
}

func (c *Caller) denied(what string) error {
	return &DeniedError{Identity: c.Identity(), What: what, Scopes: Texts(c.Scopes())}
}

// DeniedError is what a known caller may not do.
type DeniedError struct {
	Identity string
	What     string // such as "write VirtualService in the namespace "shop""
	Scopes   []string
}

func (e *DeniedError) Error() string {
	has := "may do nothing"
	if len(e.Scopes) > 0 {
		has = "has the scopes " + strings.Join(e.Scopes, ", ")
	}
	return fmt.Sprintf("%s may not %s: it %s", nameOf(e.Identity), e.What, has)
}

func nameOf(identity string) string {
	if identity == "" {
		return "a caller that nobody knows"
	}
	return identity
}

// errNoSession says that a caller was not let in by a guard.
var errNoSession = errors.New("the call has no session")

// End ends the caller's stream with an error, which should carry a gRPC status. Unary calls are not ended.
func (c *Caller) End(err error) error {
	if c == nil || c.session == nil {
		return errNoSession
	}
	c.session.end(err)
	return nil
}

type contextKey struct{}

// With returns a context of a call that the caller makes.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From returns who makes the call of a context, nil if no guard has let it in: then it may do nothing.
func From(ctx context.Context) *Caller {
	c, _ := ctx.Value(contextKey{}).(*Caller)
	return c
}

// Trusted is a caller that may do everything, for programs that serve without TLS.
func Trusted() *Caller { return &Caller{identity: Local, scopes: []Scope{Everything}} }

// New returns a caller with an identity that somebody vouches for.
func New(identity string, scopes ...Scope) *Caller {
	return &Caller{identity: identity, author: strings.TrimPrefix(identity, tokenPrefix), scopes: scopes}
}

// same tells whether nothing has changed in who a caller is and what it may do.
func (c *Caller) same(other *Caller) bool {
	return c.identity == other.identity && slices.Equal(Texts(c.scopes), Texts(other.scopes))
}
