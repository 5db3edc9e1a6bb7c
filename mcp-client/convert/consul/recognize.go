package consul

import (
	"errors"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/pgmesh/pgmesh/mcp-client/convert/fields"
	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
)

// hasEntry finds a config entry in HCL, which much else is written in.
var hasEntry = regexp.MustCompile(`(?mi)^\s*Kind\s*=\s*"[a-z-]+"`)

// errStranger ends the look at a file.
var errStranger = errors.New("it may be of others")

// Recognizes reports whether a file is certainly of Consul: config entries, or answers of its catalog, and nothing else. What else an
// agent is configured with could be of others, too.
func Recognizes(file string, data []byte) bool {
	if isHCL(data) && !slices.Contains(yamlEndings, filepath.Ext(file)) && !hasEntry.Match(data) {
		return false
	}
	certain := false
	err := values(file, data, func(value any, at report.Place) error {
		list, isList := value.([]any)
		if !isList {
			list = []any{value}
		}
		for _, each := range list {
			fits, is := recognizes(each, at)
			if certain = certain || is; !fits {
				return errStranger
			}
		}
		return nil
	})
	return err == nil && certain
}

// recognizes reports whether a value may be of Consul, and whether it certainly is.
func recognizes(value any, at report.Place) (fits, certain bool) {
	o := fields.New(value, at, fields.AnyCase)
	switch {
	case o == nil:
		return false, false
	case o.Has("Kind"):
		return recognizesEntry(o)
	case o.Has("ServiceName") && o.Has("Node"), o.Object("Service") != nil && o.Object("Node") != nil:
		return true, true
	case slices.ContainsFunc(o.Object("config_entries").Objects("bootstrap"), func(e *fields.Object) bool { _, certain := recognizesEntry(e); return certain }):
		return true, true
	case o.Object("DebugConfig") != nil: // an agent of itself
		return true, false
	}
	return false, false
}

func recognizesEntry(o *fields.Object) (fits, certain bool) {
	kind := o.Text("Kind")
	fits = !o.Has("apiVersion") && isEntry(kind) && (o.Has("Name") || kind == proxyDefaults)
	return fits, fits && strings.Contains(kind, "-") // others have a mesh, too
}
