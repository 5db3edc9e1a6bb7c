// Package haproxy converts what HAProxy is told to do with requests by their host and path.
package haproxy

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/gateway"
	"github.com/pgmesh/pgmesh/mcp-client/convert/haproxycfg"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// Options say how to convert.
type Options struct {
	Namespace     string // of everything
	Class         string // of the Gateway
	Gateway       string // its name
	WholeSegments bool   // take prefixes for those of whole segments
}

type conversion struct {
	Options
	*gateway.Set

	backends  map[string]*backend
	listeners []gateway.Listener
	ofProcess map[string]bool
	mode      string          // of sections that say none
	each      *report.Counted // what is told of many places at once
}

// Convert converts the sections of a haproxy.cfg.
func Convert(file string, sections []*haproxycfg.Section, o Options, out *gateway.Set) {
	o.Gateway = cmp.Or(o.Gateway, "haproxy")
	c := &conversion{Options: o, Set: out, backends: map[string]*backend{}, ofProcess: map[string]bool{}, mode: "tcp", each: report.NewCounted(out.Report)}
	for _, s := range sections {
		if s.Kind == "backend" || s.Kind == "listen" {
			c.backends[s.Name()] = &backend{section: s}
		}
	}
	for _, s := range sections {
		switch s.Kind {
		case "defaults":
			c.defaults(s)
		case "frontend", "listen":
			c.frontend(s)
		case "backend":
		case "global", "resolvers", "peers", "mailers", "cache", "ring", "program", "log-forward", "log-profile", "traces":
			c.ofProcess[s.Kind] = true
		default:
			c.Lose(report.Place{File: s.File, Line: s.Line}, "the section "+s.Kind+" is not understood", "")
		}
	}
	c.each.Tell()
	if len(c.listeners) > 0 {
		c.Add("Gateway", c.Namespace, c.Gateway, gateway.Gateway{Class: c.Class, Listeners: c.listeners}, report.Place{File: file})
	}
	if len(c.ofProcess) > 0 {
		c.Note(report.Place{File: file}, "left out, as they are about HAProxy itself and not about answers: "+strings.Join(slices.Sorted(maps.Keys(c.ofProcess)), ", "), "")
	}
}

func place(l haproxycfg.Line) report.Place {
	return report.Place{File: l.File, Line: l.Line, Path: strings.Join(l.Words[:min(2, len(l.Words))], " ")}
}

func (c *conversion) defaults(s *haproxycfg.Section) {
	for _, l := range s.From {
		if l.Word(0) == "mode" {
			c.mode = l.Word(1)
		} else {
			c.other(l)
		}
	}
}

// process are words about how HAProxy works, and not about what it answers.
var process = []string{
	"log", "log-format", "log-tag", "maxconn", "fullconn", "description", "id", "disabled", "enabled", "stats", "monitor-uri", "unique-id-format", "unique-id-header",
	"option httplog", "option tcplog", "option dontlognull", "option http-server-close", "option httpclose", "option http-keep-alive", "option forwardfor", "option redispatch",
	"option log-health-checks", "option contstats", "option logasap", "option socket-stats", "option splice-auto", "option tcpka", "option clitcpka", "option srvtcpka",
	"option abortonclose", "option httpslog", "option prefer-last-server", "tcp-request inspect-delay", "tcp-request content", "http-reuse", "errorfile", "errorfiles",
	"timeout connect", "timeout client", "timeout queue", "timeout http-keep-alive", "timeout http-request", "timeout check", "timeout tunnel", "timeout client-fin",
	"timeout server-fin", "retries", "compression", "capture", "declare",
}

// other tells of a line that is not read.
func (c *conversion) other(l haproxycfg.Line) {
	word, two := l.Word(0), strings.Join(l.Words[:min(2, len(l.Words))], " ")
	switch {
	case slices.Contains(process, word):
		c.ofProcess[word] = true
	case slices.Contains(process, two):
		c.ofProcess[two] = true
	case word == "timeout":
		c.each.Lose(place(l), "the timeout has no counterpart", "write timeouts.request into the rules of the route")
	default:
		c.tell(l, word, two)
	}
}

// counterpart is what becomes of a line that no route has a field for, and what to do.
type counterpart struct{ what, instead string }

// unprobed is said of probes.
var unprobed = counterpart{"servers are not probed", "write outlierDetection into a DestinationRule, which leaves alone for a while who fails, or have mesh-agent probe them: docs/registration.md"}

// counterparts are those of the lines that people write most, by their first word, or by two.
var counterparts = map[string]counterpart{
	"option httpchk": unprobed, "option tcp-check": unprobed, "http-check": unprobed, "tcp-check": unprobed,
	"cookie":                 {"clients are not kept with their server", "write sessionPersistence into the rules of the route: docs/gateway-api.md"},
	"hash-type":              {"the hash is Envoy's own", "write loadBalancer.consistentHash into a DestinationRule"},
	"stick-table":            {"nothing is kept of clients", "to have them stay with a server write sessionPersistence into the rules of the route, and to limit them an EnvoyFilter with local_ratelimit: docs/envoyfilter.md"},
	"stick":                  {"clients are not kept with their server", "write sessionPersistence into the rules of the route: docs/gateway-api.md"},
	"default-server":         {"what it says of all servers is left out", "write it into each server, and convert again"},
	"errorloc":               {"errors are answered as Envoy does", "have the application answer with the page"},
	"rate-limit":             {"connections are not limited", "write an EnvoyFilter with local_ratelimit: docs/envoyfilter.md"},
	"http-request track-sc0": {"nothing is kept of clients", "to limit them write an EnvoyFilter with local_ratelimit: docs/envoyfilter.md"},
	"filter":                 {"filters of HAProxy are left out", "write an EnvoyFilter: docs/envoyfilter.md"},
}

// tell tells of a line that is in none of the lists: what becomes of it, once for all its places.
func (c *conversion) tell(l haproxycfg.Line, word, two string) {
	of, known := counterparts[two]
	if !known {
		of, known = counterparts[word]
	}
	if !known {
		of = counterpart{"the line is not known here, or has no counterpart", "if it matters to requests, say it by hand"}
	}
	c.each.Lose(place(l), of.what, of.instead)
}
