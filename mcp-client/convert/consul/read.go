package consul

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl"

	"github.com/pgmesh/pgmesh/mcp-client/convert/documents"
	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// Read reads a file of JSON, YAML or HCL. A file may have several values of JSON, one after the other, as a loop
// around consul config read writes them.
func (c *Conversion) Read(file string, data []byte) error { return values(file, data, c.value) }

// values calls a function with each value of a file, until it fails.
func values(file string, data []byte, do func(value any, at report.Place) error) error {
	if isHCL(data) && slices.Contains(yamlEndings, filepath.Ext(file)) {
		return documents.Each(file, data, func(d documents.Document) error {
			var value any
			if err := d.Decode(&value); err != nil {
				return err
			}
			return do(value, report.Place{File: file, Document: d.At.Document, Line: d.At.Line})
		})
	}
	if isHCL(data) {
		var value map[string]any
		if err := hcl.Unmarshal(data, &value); err != nil {
			return fmt.Errorf("%s: read it as HCL: %w", file, err)
		}
		return do(value, report.Place{File: file, Document: 1})
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	for document, end := 1, 0; ; document++ {
		var value any
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("%s: read value %d as JSON: %w", file, document, err)
		}
		text := data[end:decoder.InputOffset()]
		begin := end + len(text) - len(bytes.TrimLeft(text, " \t\r\n"))
		end = int(decoder.InputOffset())
		if err := do(value, report.Place{File: file, Document: document, Line: 1 + bytes.Count(data[:begin], []byte("\n"))}); err != nil {
			return err
		}
	}
}

var yamlEndings = []string{".yaml", ".yml"}

// isHCL reports whether a file is no JSON.
func isHCL(data []byte) bool {
	data = bytes.TrimSpace(data)
	return len(data) > 0 && data[0] != '{' && data[0] != '['
}

// value reads what one document has: a config entry, a list of them, an answer of the catalog, or what an
// agent is configured with.
func (c *Conversion) value(value any, at report.Place) error {
	if list, is := value.([]any); is {
		for _, each := range list {
			if err := c.value(each, at); err != nil {
				return err
			}
		}
		return nil
	}
	o := fields.New(value, at, fields.AnyCase)
	switch {
	case value == nil:
		return nil
	case o == nil:
		return fmt.Errorf("%s: document %d: it is no object: write what Consul answers as JSON, or its configuration", at.File, at.Document)
	case o.Has("Kind") && (o.Has("Name") || o.Text("Kind") == proxyDefaults):
		c.entryOf(o)
	case o.Has("ServiceName") && o.Has("Node"):
		c.ofCatalog(o)
	case o.Has("Service") && o.Has("Node"):
		c.ofHealth(o)
	case o.Has("SourceName") && o.Has("DestinationName"):
		c.Lose(at, "it is an intention as older versions of Consul have it, and is left out", "read it as a config entry: consul config read -kind service-intentions -name "+o.Text("DestinationName"))
	case c.ofAgent(o):
	case allServices(value):
		c.ofServices(value.(map[string]any), at) //nolint:forcetypeassert // it is what was asked
	default:
		c.Lose(at, "it is not known what this is of Consul, and it is left out",
			"read what /v1/catalog/service/NAME, /v1/health/service/NAME or /v1/agent/services answers, consul config read, or definitions of services")
	}
	return nil
}

// proxyDefaults is the entry that has no name of its own.
const proxyDefaults = "proxy-defaults"

// ofService has the config entries of a service, and where they are kept.
var ofService = map[string]func(*service) **fields.Object{
	"service-defaults":   func(s *service) **fields.Object { return &s.defaults },
	"service-resolver":   func(s *service) **fields.Object { return &s.resolver },
	"service-router":     func(s *service) **fields.Object { return &s.router },
	"service-splitter":   func(s *service) **fields.Object { return &s.splitter },
	"service-intentions": func(s *service) **fields.Object { return &s.intentions },
}

// isEntry reports whether there are config entries of a kind.
func isEntry(kind string) bool {
	return kind == proxyDefaults || ofService[kind] != nil || entries[kind] != ""
}

// entryOf reads a config entry.
func (c *Conversion) entryOf(o *fields.Object) {
	kind, name := o.Text("Kind"), o.Text("Name")
	namespace := o.Text("Namespace")
	o.Skip("CreateIndex", "ModifyIndex", "Meta", "Hash", "Partition")
	at := &o.At
	at.Kind, at.Name, at.Namespace = kind, name, c.key(namespace, "").namespace
	into := ofService[kind]
	partition := o.Text("Partition")
	switch {
	case partition != "" && partition != "default":
		c.Lose(o.At, "it is of the partition "+partition+", and is left out", "give each partition a mesh of its own")
	case kind == proxyDefaults:
		c.known = append(c.known, o)
		c.proxyDefaults(o)
	case into == nil:
		c.Lose(o.At, "a config entry of this kind is not converted: it is left out", cmp.Or(entries[strings.ToLower(kind)], "docs/from-consul.md has what takes the place of some"))
	default:
		c.known = append(c.known, o)
		at := into(c.named(namespace, name, o.At))
		if *at != nil {
			c.Lose(o.At, "there is another "+kind+" of this name: this one is left out", "convert one of them")
			return
		}
		*at = o
	}
}

// proxyDefaults reads what all services share.
func (c *Conversion) proxyDefaults(o *fields.Object) {
	config := o.Object("Config")
	c.protocol = config.Text("protocol")
	logs := o.Object("AccessLogs")
	if logs.Yes("Enabled") && !logs.Yes("DisableListenerLogs") {
		c.Add("Telemetry", c.namespace, "consul-access-logs", map[string]any{"accessLogging": []any{map[string]any{"providers": []any{map[string]any{"name": "envoy"}}}}}, o.At)
	}
	logs.Skip("DisableListenerLogs")
}

// ofAgent reads the configuration of an agent, with the services that it defines, or what it says of itself.
func (c *Conversion) ofAgent(o *fields.Object) bool {
	acl, self := o.Object("acl"), o.Object("DebugConfig")
	said := cmp.Or(self.Text("DefaultIntentionPolicy"), self.Object("ACLResolverSettings").Text("ACLDefaultPolicy"), self.Text("ACLDefaultPolicy"),
		o.Text("default_intention_policy"), acl.Text("default_policy"))
	if said == "allow" || said == "deny" {
		c.defaults = said
	}
	address := cmp.Or(o.Text("advertise_addr"), o.Text("bind_addr"))
	defined := o.Objects("services")
	if one := o.Object("service"); one != nil {
		defined = append(defined, one)
	} else {
		defined = append(defined, o.Objects("service")...) // HCL, with several blocks
	}
	for _, d := range defined {
		c.known = append(c.known, d)
		c.define(d, address)
	}
	for _, entry := range o.Object("config_entries").Objects("bootstrap") {
		c.entryOf(entry)
	}
	return said != "" || len(defined) > 0 || o.Has("config_entries") || acl != nil || self != nil
}

// allServices reports whether an object is what /v1/agent/services answers: services by their ids.
func allServices(value any) bool {
	all, is := value.(map[string]any)
	for _, each := range all {
		one, isOne := each.(map[string]any)
		if !isOne || one["Service"] == nil {
			return false
		}
	}
	return is
}

func (c *Conversion) ofServices(all map[string]any, at report.Place) {
	for _, id := range slices.Sorted(maps.Keys(all)) {
		o := fields.New(all[id], at.In("%s", strings.ReplaceAll(id, "%", "%%")), fields.AnyCase)
		c.add(o, o.Text("Service"), instance{datacenter: o.Text("Datacenter")}, "")
	}
}
