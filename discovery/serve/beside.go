package serve

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/internal/dial"
)

// besideFlag names further servers.
const besideFlag = "mcp-beside"

// Beside are further MCP servers. Each is followed at the same time as those of --mcp.
type Beside struct {
	Servers []string     // each of them one address, or several that stand by for each other
	Dial    dial.Options // how to connect; without flags of its own as with --mcp
}

// Flags declares the flags of further servers.
func (b *Beside) Flags(f *pflag.FlagSet) {
	f.StringArrayVar(&b.Servers, besideFlag, nil,
		"address of a further MCP server, such as a bridge of registries, to follow at the same time; can be repeated. Where several have a resource or claim a host, those of --mcp count first, then these in their order. Addresses separated by commas stand by for each other")
	b.Dial.Flags(f, besideFlag+"-")
}

// servers are the further servers with their settings: those of --mcp but for addresses and, where it
// is given, how to connect.
func (b *Beside) servers(like MCP) ([]MCP, error) {
	if len(b.Servers) > source.MostBehind {
		return nil, fmt.Errorf("--%s: these are %d servers, and %d are followed at most: let mcp-server read their registries (--registry)",
			besideFlag, len(b.Servers), source.MostBehind)
	}
	like.flag = besideFlag
	if b.given() {
		like.Dial = b.Dial
	}
	followed := map[string]bool{like.addresses(): true}
	all := make([]MCP, len(b.Servers))
	for i, addresses := range b.Servers {
		if followed[addresses] {
			return nil, fmt.Errorf("--%s %s: it is followed already", besideFlag, addresses)
		}
		followed[addresses] = true
		all[i] = like
		all[i].Addresses = strings.Split(addresses, ",")
	}
	return all, nil
}

func (b *Beside) given() bool {
	return b.Dial.TLS.Given() || b.Dial.Token != "" || b.Dial.TokenFile != ""
}
