// Package caller authenticates the callers of a server and authorizes what they do.
//
// A caller is identified by its client certificate (a SPIFFE id on an allow list) or its bearer
// token. For each call, over gRPC or HTTP, a [Guard] identifies the [Caller] and puts it into the
// context. Package access asks the Caller for what a method always takes. Only handlers know which
// resources a call touches, so they ask for these.
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
	author   string // to record in revisions
	scopes   []Scope
	session  *session // nil for a unary call
	exposed  bool     // answers to it could be read by others: no TLS, not from this machine
}

// The identities of callers with neither a certificate nor a token.
const (
	Anonymous = "anonymous" // over TLS, if the server allows it
	Local     = "insecure"  // without TLS
)

// tokenPrefix begins the identity of a token's bearer.
const tokenPrefix = "token:"

// Identity returns a SPIFFE id, "token:" and the token's name, Anonymous, or Local.
func (c *Caller) Identity() string {
	if c == nil {
		return ""
	}
	return c.identity
}

// Author returns the author to record in revisions. It is empty for an unauthenticated caller,
// which may name an author itself.
func (c *Caller) Author() string {
	if c == nil {
		return ""
	}
	return c.author
}

// Bearer reports whether the caller presented a token.
func (c *Caller) Bearer() bool { return strings.HasPrefix(c.Identity(), tokenPrefix) }

// Scopes returns a copy of the caller's scopes.
func (c *Caller) Scopes() []Scope {
	if c == nil {
		return nil
	}
	return slices.Clone(c.scopes)
}

// May reports whether the caller may do v to resources of a kind in a namespace.
func (c *Caller) May(v Verb, namespace string, k *kinds.Kind) bool {
	return c != nil && slices.ContainsFunc(c.scopes, func(s Scope) bool { return s.Allows(v, namespace, k) })
}

// Unlimited reports whether the caller may do v to all resources.
func (c *Caller) Unlimited(v Verb) bool {
	return c != nil && slices.ContainsFunc(c.scopes, func(s Scope) bool {
		return s.Verb.includes(v) && s.Namespaces == nil && s.Kinds == nil
	})
}

// MaySecrets reports whether the caller may read the secrets of a namespace. With write permission
// there, it may also change them.
func (c *Caller) MaySecrets(namespace string) bool {
	return slices.ContainsFunc(c.SecretScopes(), func(s Scope) bool { return s.Namespaces == nil || slices.Contains(s.Namespaces, namespace) })
}

// SecretScopes returns the scopes that allow reading secrets. There are none for a caller from
// another machine without TLS.
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

// Require returns a [DeniedError] unless the caller may do v to resources of a kind in a namespace.
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

// RequireUnlimited returns a [DeniedError] unless the caller may do v to all resources.
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

// DeniedError says what an authenticated caller may not do.
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

// errNoSession is returned for a Caller that no Guard let in.
var errNoSession = errors.New("the call has no session")

// End ends the caller's stream with an error, which should carry a gRPC status. Unary calls are not
// ended.
func (c *Caller) End(err error) error {
	if c == nil || c.session == nil {
		return errNoSession
	}
	c.session.end(err)
	return nil
}

type contextKey struct{}

// With returns ctx with the caller in it.
func With(ctx context.Context, c *Caller) context.Context {
	return context.WithValue(ctx, contextKey{}, c)
}

// From returns the caller of a context, or nil if no guard let the call in. A nil Caller may do
// nothing.
func From(ctx context.Context) *Caller {
	c, _ := ctx.Value(contextKey{}).(*Caller)
	return c
}

// Trusted returns a caller that may do everything, for servers without TLS.
func Trusted() *Caller { return &Caller{identity: Local, scopes: []Scope{Everything}} }

// New returns an authenticated caller.
func New(identity string, scopes ...Scope) *Caller {
	return &Caller{identity: identity, author: strings.TrimPrefix(identity, tokenPrefix), scopes: scopes}
}

// same reports whether two callers have the same identity and scopes.
func (c *Caller) same(other *Caller) bool {
	return c.identity == other.identity && slices.Equal(Texts(c.scopes), Texts(other.scopes))
}
