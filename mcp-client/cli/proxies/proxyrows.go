package proxies

import (
	"context"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	listenerv3 "github.com/envoyproxy/go-control-plane/envoy/config/listener/v3"
	routev3 "github.com/envoyproxy/go-control-plane/envoy/config/route/v3"
	tlsv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/transport_sockets/tls/v3"

	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
	"github.com/pgmesh/pgmesh/mcp-client/cli/words"
)

func listenerRows(ctx context.Context, p program, query url.Values) (rows [][]string, err error) {
	query.Set("type", "listeners")
	all := &adminv3.ListenersConfigDump{}
	if err := p.dump(ctx, query, all); err != nil {
		return nil, err
	}
	for _, d := range all.GetDynamicListeners() {
		l := &listenerv3.Listener{}
		if err := d.GetActiveState().GetListener().UnmarshalTo(l); err != nil {
			return nil, err
		}
		at := l.GetAddress().GetSocketAddress()
		address, port := at.GetAddress(), strconv.Itoa(int(at.GetPortValue()))
		if at == nil {
			address, port = "-", "-"
		}
		rows = append(rows, []string{address, port, l.GetName(), strconv.Itoa(len(l.GetFilterChains()))})
	}
	return rows, nil
}

// routeRows lists the routes of route configurations, including the scoped ones of a gateway with
// many hosts.
func routeRows(ctx context.Context, p program, query url.Values) (rows [][]string, err error) {
	query.Set("type", "routes")
	all, scopes := &adminv3.RoutesConfigDump{}, &adminv3.ScopedRoutesConfigDump{}
	if err := p.dump(ctx, query, all, scopes); err != nil {
		return nil, err
	}
	for _, d := range all.GetDynamicRouteConfigs() {
		c := &routev3.RouteConfiguration{}
		if err := d.GetRouteConfig().UnmarshalTo(c); err != nil {
			return nil, err
		}
		rows = append(rows, rowsOf(c)...)
	}
	for _, d := range scopes.GetDynamicScopedRouteConfigs() {
		for _, packed := range d.GetScopedRouteConfigs() {
			c := &routev3.ScopedRouteConfiguration{}
			if err := packed.UnmarshalTo(c); err != nil {
				return nil, err
			}
			rows = append(rows, rowsOf(c.GetRouteConfiguration())...)
		}
	}
	return rows, nil
}

func rowsOf(c *routev3.RouteConfiguration) (rows [][]string) {
	for _, host := range c.GetVirtualHosts() {
		for _, r := range host.GetRoutes() {
			rows = append(rows, []string{c.GetName(), host.GetName(), output.ShortList(host.GetDomains()), matchText(r.GetMatch()), targetText(r)})
		}
	}
	return rows
}

// matchText says which requests a route matches: by path, headers and parameters.
func matchText(m *routev3.RouteMatch) string {
	var parts []string
	switch path := m.GetPathSpecifier().(type) {
	case *routev3.RouteMatch_Prefix:
		parts = append(parts, path.Prefix+"*")
	case *routev3.RouteMatch_PathSeparatedPrefix:
		parts = append(parts, path.PathSeparatedPrefix+"/*")
	case *routev3.RouteMatch_Path:
		parts = append(parts, path.Path)
	case *routev3.RouteMatch_SafeRegex:
		parts = append(parts, "~"+path.SafeRegex.GetRegex())
	}
	for _, h := range m.GetHeaders() {
		parts = append(parts, h.GetName())
	}
	for _, q := range m.GetQueryParameters() {
		parts = append(parts, "?"+q.GetName())
	}
	return strings.Join(parts, " ")
}

func targetText(r *routev3.Route) string {
	switch {
	case r.GetRedirect() != nil:
		return "redirect"
	case r.GetDirectResponse() != nil:
		return fmt.Sprint(r.GetDirectResponse().GetStatus())
	}
	clusters := r.GetRoute().GetWeightedClusters().GetClusters()
	if len(clusters) == 0 {
		return words.OrDash(r.GetRoute().GetCluster())
	}
	var texts []string
	for _, c := range clusters {
		texts = append(texts, fmt.Sprintf("%s (%d)", c.GetName(), c.GetWeight().GetValue()))
	}
	return strings.Join(texts, ", ")
}

func secretRows(ctx context.Context, p program, query url.Values) (rows [][]string, err error) {
	query.Set("type", "secrets")
	all := &adminv3.SecretsConfigDump{}
	if err := p.dump(ctx, query, all); err != nil {
		return nil, err
	}
	for _, d := range all.GetDynamicActiveSecrets() {
		s := &tlsv3.Secret{}
		if err := d.GetSecret().UnmarshalTo(s); err != nil {
			return nil, err
		}
		typ, text := "authorities", s.GetValidationContext().GetTrustedCa().GetInlineBytes()
		if s.GetTlsCertificate() != nil {
			typ, text = "certificate", s.GetTlsCertificate().GetCertificateChain().GetInlineBytes()
		}
		names, until := certificateText(text)
		rows = append(rows, []string{s.GetName(), typ, names, until})
	}
	return rows, nil
}

// certificateText returns the names and the expiry of the first certificate in a chain.
func certificateText(text []byte) (names, until string) {
	block, _ := pem.Decode(text)
	if block == nil {
		return "-", "-"
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "-", "-"
	}
	all := c.DNSNames
	for _, uri := range c.URIs {
		all = append(all, uri.String())
	}
	if len(all) == 0 {
		all = []string{c.Subject.CommonName}
	}
	return output.ShortList(all), words.LocalTime(c.NotAfter)
}
