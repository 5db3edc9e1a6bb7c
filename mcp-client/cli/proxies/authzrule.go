package proxies

import (
	"strings"

	security "istio.io/api/security/v1beta1"
)

// What rules of AuthorizationPolicies say, in words.

// said is a field of a rule with its values, of which one has to hold, and those of its opposite, of which none may.
type said struct {
	field    string
	are, not []string
}

func (s said) text() string {
	var parts []string
	if len(s.are) > 0 {
		parts = append(parts, s.field+" "+strings.Join(s.are, ", "))
	}
	if len(s.not) > 0 {
		parts = append(parts, s.field+" not "+strings.Join(s.not, ", "))
	}
	return strings.Join(parts, " and ")
}

// all says that all fields have to hold.
func all(fields ...said) string {
	var parts []string
	for _, f := range fields {
		if text := f.text(); text != "" {
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, " and ")
}

// anyOf says that one of several has to hold, or what it is if there are none, or one that says nothing.
func anyOf(alternatives []string, otherwise string) string {
	for i, text := range alternatives {
		if text == "" {
			alternatives[i] = otherwise
		}
	}
	if len(alternatives) == 0 {
		return otherwise
	}
	return strings.Join(alternatives, "; or ")
}

func fromText(r *security.Rule) string {
	var out []string
	for _, from := range r.GetFrom() {
		s := from.GetSource()
		out = append(out, all(
			said{"principal", s.GetPrincipals(), s.GetNotPrincipals()},
			said{"token of", s.GetRequestPrincipals(), s.GetNotRequestPrincipals()},
			said{"namespace", s.GetNamespaces(), s.GetNotNamespaces()},
			said{"service account", s.GetServiceAccounts(), s.GetNotServiceAccounts()},
			said{"address", s.GetIpBlocks(), s.GetNotIpBlocks()},
			said{"remote address", s.GetRemoteIpBlocks(), s.GetNotRemoteIpBlocks()},
			said{"trust domain", s.GetTrustDomains(), s.GetNotTrustDomains()},
		))
	}
	return anyOf(out, "anybody")
}

func toText(r *security.Rule) string {
	var out []string
	for _, to := range r.GetTo() {
		o := to.GetOperation()
		out = append(out, all(
			said{"method", o.GetMethods(), o.GetNotMethods()},
			said{"path", o.GetPaths(), o.GetNotPaths()},
			said{"host", o.GetHosts(), o.GetNotHosts()},
			said{"port", o.GetPorts(), o.GetNotPorts()},
		))
	}
	return anyOf(out, "anything")
}

func whenText(r *security.Rule) string {
	var fields []said
	for _, c := range r.GetWhen() {
		fields = append(fields, said{c.GetKey(), c.GetValues(), c.GetNotValues()})
	}
	return anyOf([]string{all(fields...)}, "always")
}
