package mesh

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/discovery/configstore"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/reference"
)

// isDelegate reports whether a VirtualService has no hosts, but routes for others to delegate to.
func isDelegate(spec *networking.VirtualService) bool { return len(spec.GetHosts()) == 0 }

// delegateKeys are the delegates that a VirtualService names, each once.
func delegateKeys(r *kinds.Resource) []kinds.Key {
	var out []kinds.Key
	for _, d := range namedDelegates(r) {
		if key := delegateKey(d, r.Namespace); !slices.Contains(out, key) {
			out = append(out, key)
		}
	}
	return out
}

// delegatesOf lists the delegates that a VirtualService names, in the order of its routes; nil for
// one that does not exist.
func delegatesOf(snapshot *configstore.Snapshot, r *kinds.Resource) []*kinds.Resource {
	var out []*kinds.Resource
	for _, d := range namedDelegates(r) {
		out = append(out, snapshot.Get(delegateKey(d, r.Namespace)))
	}
	return out
}

func namedDelegates(r *kinds.Resource) []*networking.Delegate {
	return reference.Messages[*networking.Delegate](kindVirtualService, specOf[*networking.VirtualService](r))
}

func delegateKey(d *networking.Delegate, namespace string) kinds.Key {
	if d.GetNamespace() != "" {
		namespace = d.GetNamespace()
	}
	return kinds.Key{Kind: kindVirtualService, Namespace: namespace, Name: d.GetName()}
}

// delegation replaces the routes that delegate by those of their delegates.
type delegation struct {
	delegates     map[*kinds.Resource]*VirtualService // resolved
	exportDefault []string
}

// expand replaces the delegating routes of a resolved root. If a delegate is missing, or hidden
// from the root's namespace, its route alone is left out. So is a route of a delegate that
// contradicts the root's.
func (d delegation) expand(root *VirtualService) {
	var routes []*networking.HTTPRoute
	next := 0
	for i, route := range root.Spec.GetHttp() {
		if route.GetDelegate() == nil {
			routes = append(routes, route)
			continue
		}
		delegate := d.find(root.delegates[next])
		next++
		if delegate == nil || !delegate.visibility.includes(root.Resource.Namespace) {
			root.report(i, "there is no such delegate, or it is not exported to this namespace: the route is left out")
			continue
		}
		if !slices.Contains(root.included, delegate.Resource) {
			root.included = append(root.included, delegate.Resource)
		}
		for j, sub := range delegate.Spec.GetHttp() {
			if merged := narrowed(route, sub); merged != nil {
				routes = append(routes, merged)
			} else {
				root.report(i, fmt.Sprintf("http[%d] of the delegate matches requests that this route does not: it is left out", j))
			}
		}
	}
	root.Spec.Http = routes
}

// report records what is wrong with the delegate of the i-th route.
func (vs *VirtualService) report(i int, reason string) {
	vs.problems = append(vs.problems, Problem{Of: vs.Resource.Key(), Path: fmt.Sprintf("spec.http[%d].delegate", i), Reason: reason})
}

func (d delegation) find(r *kinds.Resource) *VirtualService {
	if r == nil || !isDelegate(specOf[*networking.VirtualService](r)) {
		return nil
	}
	if d.delegates[r] == nil {
		d.delegates[r] = resolveVirtualService(r, d.exportDefault)
	}
	return d.delegates[r]
}

// narrowed is a delegate's route, limited to the requests that the root's route is for, with what
// the delegate leaves out taken from the root. It is nil if a match of the delegate has requests
// that the root does not match.
func narrowed(root, delegate *networking.HTTPRoute) *networking.HTTPRoute {
	matches, ok := narrowedMatches(root.GetMatch(), delegate.GetMatch())
	if !ok {
		return nil
	}
	out := proto.CloneOf(delegate)
	out.Match, out.Name = matches, joined(root.GetName(), delegate.GetName())
	out.Rewrite = orElse(out.Rewrite, root.GetRewrite())
	out.DirectResponse = orElse(out.DirectResponse, root.GetDirectResponse())
	out.Timeout = orElse(out.Timeout, root.GetTimeout())
	out.Retries = orElse(out.Retries, root.GetRetries())
	out.Fault = orElse(out.Fault, root.GetFault())
	out.Mirror = orElse(out.Mirror, root.GetMirror())
	out.MirrorPercent = orElse(out.MirrorPercent, root.GetMirrorPercent()) //nolint:staticcheck // people still write it
	out.MirrorPercentage = orElse(out.MirrorPercentage, root.GetMirrorPercentage())
	out.CorsPolicy = orElse(out.CorsPolicy, root.GetCorsPolicy())
	out.Headers = orElse(out.Headers, root.GetHeaders())
	if out.Mirrors == nil {
		out.Mirrors = root.GetMirrors()
	}
	return out
}

// narrowedMatches combines each match of the delegate with each of the root's that it does not
// contradict. Every match of the delegate must have one.
func narrowedMatches(root, delegate []*networking.HTTPMatchRequest) (out []*networking.HTTPMatchRequest, ok bool) {
	switch {
	case len(root) == 0:
		return delegate, true
	case len(delegate) == 0:
		return root, true
	}
	for _, sub := range delegate {
		before := len(out)
		for _, m := range root {
			if !contradicts(m, sub) {
				out = append(out, bothMatch(m, sub))
			}
		}
		if len(out) == before {
			return nil, false
		}
	}
	return out, true
}

// bothMatch returns the match that requests meet if they meet both.
func bothMatch(root, delegate *networking.HTTPMatchRequest) *networking.HTTPMatchRequest {
	out := proto.CloneOf(delegate)
	out.Name = joined(root.GetName(), delegate.GetName())
	out.Uri = orElse(out.Uri, root.GetUri())
	out.Scheme = orElse(out.Scheme, root.GetScheme())
	out.Method = orElse(out.Method, root.GetMethod())
	out.Authority = orElse(out.Authority, root.GetAuthority())
	out.Headers = union(root.GetHeaders(), delegate.GetHeaders())
	out.WithoutHeaders = union(root.GetWithoutHeaders(), delegate.GetWithoutHeaders())
	out.QueryParams = union(root.GetQueryParams(), delegate.GetQueryParams())
	out.SourceLabels = union(root.GetSourceLabels(), delegate.GetSourceLabels())
	if out.GetPort() == 0 {
		out.Port = root.GetPort()
	}
	if out.GetSourceNamespace() == "" {
		out.SourceNamespace = root.GetSourceNamespace()
	}
	if len(out.GetGateways()) == 0 {
		out.Gateways = root.GetGateways()
	}
	if out.GetStatPrefix() == "" {
		out.StatPrefix = root.GetStatPrefix()
	}
	return out
}

// contradicts reports whether a delegate's match has requests that the root's does not have: a
// delegate may only narrow.
func contradicts(root, delegate *networking.HTTPMatchRequest) bool {
	return widens(root.GetUri(), delegate.GetUri()) || widens(root.GetScheme(), delegate.GetScheme()) ||
		widens(root.GetMethod(), delegate.GetMethod()) || widens(root.GetAuthority(), delegate.GetAuthority()) ||
		anyWidens(root.GetHeaders(), delegate.GetHeaders()) ||
		anyWidens(root.GetWithoutHeaders(), delegate.GetWithoutHeaders()) ||
		anyWidens(root.GetQueryParams(), delegate.GetQueryParams()) ||
		root.GetIgnoreUriCase() != delegate.GetIgnoreUriCase() ||
		root.GetPort() > 0 && delegate.GetPort() > 0 && root.GetPort() != delegate.GetPort() ||
		// Istio's own rule: a delegate must repeat the namespace, though it may leave the other
		// conditions to the root.
		root.GetSourceNamespace() != "" && delegate.GetSourceNamespace() != root.GetSourceNamespace() ||
		labelsDiffer(root.GetSourceLabels(), delegate.GetSourceLabels()) ||
		gatewaysBeyond(root.GetGateways(), delegate.GetGateways())
}

func labelsDiffer(root, delegate map[string]string) bool {
	for name, value := range delegate {
		if v, ok := root[name]; ok && v != value {
			return true
		}
	}
	return false
}

func gatewaysBeyond(root, delegate []string) bool {
	if len(root) == 0 || len(delegate) == 0 {
		return false
	}
	return len(delegate) > len(root) || slices.ContainsFunc(delegate, func(g string) bool { return !slices.Contains(root, g) })
}

func anyWidens(root, delegate map[string]*networking.StringMatch) bool {
	for name, m := range delegate {
		if widens(root[name], m) {
			return true
		}
	}
	return false
}

// widens reports whether a value can meet the delegate's condition and not the root's. Two regular
// expressions cannot be compared, nor one with anything else, so they count as widening; so does a
// condition that any value meets.
func widens(root, delegate *networking.StringMatch) bool {
	if root == nil || delegate == nil {
		return false
	}
	switch {
	case root.GetExact() != "" && delegate.GetRegex() == "":
		return delegate.GetPrefix() != "" || delegate.GetExact() != root.GetExact()
	case root.GetPrefix() != "" && delegate.GetPrefix() != "":
		return !strings.HasPrefix(delegate.GetPrefix(), root.GetPrefix())
	case root.GetPrefix() != "" && delegate.GetExact() != "":
		return !strings.HasPrefix(delegate.GetExact(), root.GetPrefix())
	default:
		return true
	}
}

// joined is the name of a route made from two.
func joined(root, delegate string) string {
	if root == "" || delegate == "" {
		return root + delegate
	}
	return root + "-" + delegate
}

func union[V any](root, delegate map[string]V) map[string]V {
	if len(root) == 0 {
		return delegate
	}
	out := maps.Clone(root)
	maps.Copy(out, delegate)
	return out
}

func orElse[T any](value, fallback *T) *T {
	if value != nil {
		return value
	}
	return fallback
}
