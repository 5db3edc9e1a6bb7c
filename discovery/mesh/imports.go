package mesh

import (
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/discovery/hostname"
)

// imports says which hosts of which namespaces an egress listener of a Sidecar is for.
type imports struct {
	own         string
	byNamespace map[string]*importedHosts
}

// importedHosts are the hosts of one namespace, or, under "*", of any.
type importedHosts struct {
	exact    map[string]bool
	all      []string
	excluded []string
}

const anyNamespace = "*"

// parseImports reads hosts of the form namespace/host. The namespace may be "*", "." for the
// Sidecar's own, or "~" for none. With "~" before it, the host is excluded from what the others
// include.
func parseImports(hosts []string, own string) imports {
	out := imports{own: own, byNamespace: map[string]*importedHosts{}}
	for _, text := range hosts {
		namespace, host, _ := strings.Cut(text, "/")
		host = strings.ToLower(host)
		namespace, excluded := strings.CutPrefix(namespace, exportNone)
		switch {
		case excluded && namespace == "":
			namespace = anyNamespace
		case namespace == exportPrivate:
			namespace = own
		}
		in := out.byNamespace[namespace]
		if in == nil {
			in = &importedHosts{exact: map[string]bool{}}
			out.byNamespace[namespace] = in
		}
		if excluded {
			in.excluded = append(in.excluded, host)
			continue
		}
		in.all = append(in.all, host)
		if !hostname.IsWildcard(host) {
			in.exact[host] = true
		}
	}
	return out
}

// everything is what a proxy sees that no Sidecar limits.
func everything(own string) imports { return parseImports([]string{"*/*"}, own) }

// namespaces are those that can contribute, unless all can.
func (i imports) namespaces() (list []string, all bool) {
	for namespace, in := range i.byNamespace {
		switch {
		case len(in.all) == 0:
		case namespace == anyNamespace:
			return nil, true
		default:
			list = append(list, namespace)
		}
	}
	slices.Sort(list)
	return list, false
}

// service reports whether a service of a namespace is wanted: every name that it stands for has to
// be.
func (i imports) service(namespace, host string) bool {
	return i.any(namespace, func(in *importedHosts) bool { return in.exact[host] || in.some(host, hostname.Within) }) && !i.excludes(namespace, host)
}

// virtualService reports whether a host of a VirtualService shares a name with what is wanted.
func (i imports) virtualService(namespace string, hosts []string) bool {
	return i.any(namespace, func(in *importedHosts) bool {
		return slices.ContainsFunc(hosts, func(host string) bool {
			return (in.exact[host] || in.some(host, hostname.Overlap)) && !i.excludes(namespace, host)
		})
	})
}

// route reports whether the host of a route of the Gateway API is wanted, as that of a service is.
func (i imports) route(namespace string, hosts []string) bool { return i.service(namespace, hosts[0]) }

func (i imports) any(namespace string, wanted func(*importedHosts) bool) bool {
	for _, from := range []string{namespace, anyNamespace} {
		if in := i.byNamespace[from]; in != nil && wanted(in) {
			return true
		}
	}
	return false
}

func (i imports) excludes(namespace, host string) bool {
	return i.any(namespace, func(in *importedHosts) bool {
		return slices.ContainsFunc(in.excluded, func(excluded string) bool { return hostname.Within(host, excluded) })
	})
}

// some matches the host against each imported one. Two names without a wildcard are equal or not,
// and exact knows that.
func (in *importedHosts) some(host string, match func(host, imported string) bool) bool {
	return slices.ContainsFunc(in.all, func(imported string) bool {
		return (hostname.IsWildcard(host) || hostname.IsWildcard(imported)) && match(host, imported)
	})
}
