package caller

import (
	"fmt"
	"slices"
)

// Within lists the namespaces in which the caller may do v to resources of every kind. If all is
// true it may do so everywhere, also to what belongs to no namespace. This permission also covers
// what is in a namespace but is not a resource, such as its machines.
func (c *Caller) Within(v Verb) (namespaces []string, all bool) {
	if c.Unlimited(v) {
		return nil, true
	}
	for _, s := range c.Scopes() {
		if s.Verb.includes(v) && s.Kinds == nil {
			namespaces = append(namespaces, s.Namespaces...)
		}
	}
	slices.Sort(namespaces)
	return slices.Compact(namespaces), false
}

// RequireWithin returns a [DeniedError] unless the caller may do v to resources of every kind in a
// namespace. The error names the denied action with what.
func (c *Caller) RequireWithin(v Verb, namespace, what string) error {
	namespaces, all := c.Within(v)
	if all || namespace != "" && slices.Contains(namespaces, namespace) {
		return nil
	}
	if namespace == "" {
		return c.denied(what + " of what belongs to no namespace")
	}
	return c.denied(fmt.Sprintf("%s of the namespace %q", what, namespace))
}

// Readable returns the namespaces that a request covers: those it names, or else all that the
// caller may read. Nil means all, including what belongs to no namespace.
func (c *Caller) Readable(named []string, what string) ([]string, error) {
	for _, n := range named {
		if err := c.RequireWithin(Read, n, what); err != nil {
			return nil, err
		}
	}
	if len(named) > 0 {
		return named, nil
	}
	namespaces, all := c.Within(Read)
	if !all && len(namespaces) == 0 {
		return nil, c.RequireWithin(Read, "", what)
	}
	return namespaces, nil
}
