package serve

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/pgmesh/pgmesh/discovery/source"
	"github.com/pgmesh/pgmesh/discovery/source/files"
	"github.com/pgmesh/pgmesh/internal/dial"
	"github.com/pgmesh/pgmesh/internal/listen"
	"github.com/pgmesh/pgmesh/internal/monitor"
)

// Sources say where configuration comes from. If several have a resource, an MCP server's counts
// before that of further ones, before the directory's, and before those of a program that embeds
// discovery.
type Sources struct {
	MCP       MCP
	Beside    Beside
	Directory string
	Embedded  []source.Source
}

// Flags declares the flags of the sources.
func (s *Sources) Flags(f *pflag.FlagSet) {
	s.MCP.Flags(f)
	s.Beside.Flags(f)
	f.StringVar(&s.Directory, "config-dir", "",
		"directory of YAML files to serve, watched for changes; with --mcp beside it, what an MCP server has counts more, and without --mcp no server is followed")
}

// Given completes the sources once the flags are parsed: with a directory alone there is no MCP
// server.
func (s *Sources) Given(f *pflag.FlagSet) {
	if s.Directory != "" && !f.Changed("mcp") {
		s.MCP.Addresses = nil
	}
}

// open merges the sources, and returns the pages that show them.
func (s *Sources) open(plaintext listen.Plaintext, who dial.Identity, log *slog.Logger, metrics prometheus.Registerer) (source.Source, []monitor.Page, error) {
	var all []source.Source
	var pages []monitor.Page
	servers, err := s.follow(plaintext, who, log, metrics)
	if err != nil {
		return nil, nil, err
	}
	all = append(all, servers...)
	if s.Directory != "" {
		directory := files.New(s.Directory, log, metrics)
		pages = append(pages, filesPage(directory))
		all = append(all, directory)
	}
	switch all = append(all, s.Embedded...); len(all) {
	case 0:
		return nil, nil, errors.New("nothing to serve: name MCP servers with --mcp, or a directory with --config-dir")
	case 1:
		return all[0], pages, nil
	default:
		return source.Merge(log, metrics, all...), pages, nil
	}
}

// follow returns the MCP servers in the order in which they count.
func (s *Sources) follow(plaintext listen.Plaintext, who dial.Identity, log *slog.Logger, metrics prometheus.Registerer) ([]source.Source, error) {
	further, err := s.Beside.servers(s.MCP)
	if err != nil {
		return nil, err
	}
	var all []source.Source
	clients := sourceCollector{}
	for place, server := range append([]MCP{s.MCP}, further...) {
		if len(server.Addresses) == 0 {
			continue
		}
		client, err := server.client(plaintext, who, log)
		if err != nil {
			return nil, err
		}
		clients[server.addresses()] = client
		if place == 0 {
			all = append(all, client)
		} else {
			all = append(all, source.Behind(client, place))
		}
	}
	metrics.MustRegister(clients)
	return all, nil
}

// filesPage shows the files and what is wrong with them.
func filesPage(d *files.Directory) monitor.Page {
	return monitor.Page{Path: "/files", About: "Lists the files of --config-dir and what is wrong with them.", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		monitor.WriteJSON(w, d.Status())
	})}
}
