// Package proxies has the commands that ask which proxies there are, and what they have.
package proxies

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	adminv3 "github.com/envoyproxy/go-control-plane/envoy/admin/v3"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/session"
)

// program is a run of mcp-client, with the commands of this package.
type program struct{ *session.Session }

// Only discovery knows what its proxies have. It serves that as JSON pages, which docs/debugging.md
// describes.

// connectedProxy is an entry of /debug/proxies.
type connectedProxy struct {
	Proxy     string      `json:"proxy"`
	Role      string      `json:"role"`
	Namespace string      `json:"namespace"`
	Address   string      `json:"address"`
	Form      string      `json:"form"`
	Envoy     string      `json:"envoy"`
	Connected time.Time   `json:"connected"`
	Class     string      `json:"class"`
	Current   bool        `json:"current"`
	Revision  string      `json:"revision"`
	Newest    string      `json:"newest"`
	Types     []proxyType `json:"types"`
}

// proxyType is the state of one type in a proxy.
type proxyType struct {
	Type      string        `json:"type"`
	Status    string        `json:"status"`
	Resources int           `json:"resources"`
	Sent      *proxyMessage `json:"sent"`
	Acked     *proxyMessage `json:"acked"`
	Nacked    *proxyMessage `json:"nacked"`
	Refused   []struct {
		Name   string    `json:"name"`
		Reason string    `json:"reason"`
		Since  time.Time `json:"since"`
	} `json:"refused"`
}

// proxyMessage is a response to a proxy, or a proxy's answer.
type proxyMessage struct {
	Revision string    `json:"revision"`
	At       time.Time `json:"at"`
	Reason   string    `json:"reason"`
}

// proxyCluster is an entry of /debug/clusters.
type proxyCluster struct {
	Name      string          `json:"name"`
	Type      string          `json:"type"`
	Endpoints []proxyEndpoint `json:"endpoints"`
}

type proxyEndpoint struct {
	Address  string `json:"address"`
	Health   string `json:"health"`
	Locality string `json:"locality"`
	Priority int    `json:"priority"`
	Weight   int    `json:"weight"`
}

// page gets a page from discovery.
func (p program) page(ctx context.Context, path string, query url.Values) ([]byte, error) {
	at := p.Discovery
	if !strings.Contains(at, "://") {
		at = "http://" + at
	}
	notice := p.Notice("asking " + at)
	defer notice.End()
	ctx, cancel := context.WithTimeout(ctx, p.Server.Timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(at, "/")+path+"?"+query.Encode(), http.NoBody)
	if err != nil {
		return nil, failure.Usage(nil, fmt.Errorf("--discovery %s: %w", p.Discovery, err))
	}
	if p.DiscoveryToken != "" {
		token, err := os.ReadFile(p.DiscoveryToken)
		if err != nil {
			return nil, failure.Usage(nil, fmt.Errorf("--discovery-token-file: %w", err))
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	response, err := (&http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}).Do(request)
	if err != nil {
		return nil, p.noDiscovery(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, p.noDiscovery(err)
	}
	text := strings.TrimSpace(string(body))
	switch {
	case response.StatusCode == http.StatusServiceUnavailable:
		return nil, &failure.Unreachable{Text: fmt.Sprintf("discovery at %s: %s", p.Discovery, text)}
	case response.StatusCode == http.StatusUnauthorized:
		return nil, fmt.Errorf("discovery at %s: %s (mcp-client: --discovery-token-file)", p.Discovery, text)
	case response.StatusCode != http.StatusOK:
		return nil, errors.New(text)
	}
	return body, nil
}

func (p program) noDiscovery(err error) error {
	if refused, ok := errors.AsType[*url.Error](err); ok {
		err = refused.Err
	}
	return &failure.Unreachable{Text: fmt.Sprintf("cannot reach discovery at %s: %v. Its pages are at its --http, which listens on the loopback of its own machine "+
		"unless told otherwise: run this there, or name another with --discovery or PGMESH_DISCOVERY", p.Discovery, err)}
}

// readPage gets a page and decodes it.
func (p program) readPage(ctx context.Context, into any, path string, query url.Values) error {
	body, err := p.page(ctx, path, query)
	if err == nil {
		err = json.Unmarshal(body, into)
	}
	return err
}

// dump gets a proxy's configuration dump of one type.
func (p program) dump(ctx context.Context, query url.Values, into ...proto.Message) error {
	body, err := p.page(ctx, "/debug/config_dump", query)
	if err != nil {
		return err
	}
	all := &adminv3.ConfigDump{}
	if err := protojson.Unmarshal(body, all); err != nil {
		return fmt.Errorf("read what discovery at %s has for a proxy: %w", p.Discovery, err)
	}
	for _, c := range all.GetConfigs() {
		for _, m := range into {
			if !c.MessageIs(m) {
				continue
			}
			if err := c.UnmarshalTo(m); err != nil {
				return err
			}
		}
	}
	return nil
}

// completeProxies completes the names of connected proxies.
func (p program) completeProxies(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) > 0 || p.BeginCompletion(cmd) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var all []connectedProxy
	if p.readPage(cmd.Context(), &all, "/debug/proxies", nil) != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for _, one := range all {
		names = append(names, one.Proxy)
	}
	return arguments.Distinct(names), cobra.ShellCompDirectiveNoFileComp
}
