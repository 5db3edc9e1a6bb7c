package resources

import (
	"fmt"
	"slices"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
	"github.com/pgmesh/pgmesh/mcp-client/cli/arguments"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
)

// checkPath returns an error for a path that leads to no field in any of these kinds, which would find nothing whatever they have.
// Where values decide what there is, as in labels, a path is taken as it is.
func checkPath(path output.Path, of []*kinds.Kind) error {
	for _, steps := range path.Steps() {
		var wrong error
		for _, kind := range of {
			err := checkSteps(kind, steps)
			if err == nil {
				wrong = nil
				break
			}
			if wrong == nil {
				wrong = err
			}
		}
		if wrong != nil {
			return wrong
		}
	}
	return nil
}

// Fields of resources of all kinds.
const (
	metadataField = "metadata"
	specField     = "spec"
	statusField   = "status"
	versionField  = "resourceVersion"
)

var topFields = []string{"apiVersion", "kind", metadataField, specField, statusField}

func checkSteps(kind *kinds.Kind, steps []string) error {
	first, rest := steps[0], steps[1:]
	switch first {
	case metadataField:
		return checkMetadata(kind, rest)
	case specField:
		return checkSpec(kind, rest)
	case statusField:
		return nil
	case "apiVersion", "kind":
		return checkNoSteps(kind.Name+"."+first, rest)
	}
	near := arguments.Nearest(first, topFields)
	if root, known := schema.Root(kind.Group, kind.Name); near == "" && known && root.Field(first) != nil {
		near = specField + "." + first
	}
	if near == "" && slices.ContainsFunc(metadata, func(e explained) bool { return e.Name == first }) {
		near = metadataField + "." + first
	}
	return noField(kind.Name, first, near)
}

func checkMetadata(kind *kinds.Kind, steps []string) error {
	if len(steps) == 0 {
		return nil
	}
	at := kind.Name + "." + metadataField
	var names []string
	for _, e := range metadata {
		if e.Name != steps[0] {
			names = append(names, e.Name)
			continue
		}
		if e.Type == "map[string]string" {
			return nil
		}
		return checkNoSteps(at+"."+e.Name, steps[1:])
	}
	return noField(at, steps[0], arguments.Nearest(steps[0], names))
}

// checkSpec follows a path as explain does, but by the names that are printed alone, and with a step for each list.
func checkSpec(kind *kinds.Kind, steps []string) error {
	at, known := schema.Root(kind.Group, kind.Name)
	var path []string
	for known && len(steps) > 0 {
		name := steps[0]
		if name == output.Items {
			return fmt.Errorf("%s is no list", where(kind, path))
		}
		f := at.Field(name)
		if f == nil {
			return unknownField(kind, path, at, name)
		}
		path, steps = append(path, name), steps[1:]
		if len(steps) > 0 && f.Repeated && steps[0] != output.Items {
			return fmt.Errorf("%s is a list: its items are %s[0], or all of them %[2]s[*]", where(kind, path), name)
		}
		if len(steps) > 0 && (f.Repeated || f.Map) { // the item, or the key
			steps = steps[1:]
		}
		switch f.Type {
		case schema.Message:
			at, known = schema.Types()[f.TypeRef]
		case schema.Struct:
			return nil
		default:
			return checkNoSteps(where(kind, path), steps)
		}
	}
	return nil
}

func checkNoSteps(at string, steps []string) error {
	if len(steps) == 0 {
		return nil
	}
	return fmt.Errorf("%s has no fields of its own", at)
}

func noField(at, name, near string) error {
	if near == "" {
		return fmt.Errorf("%s has no field %q", at, name)
	}
	return fmt.Errorf("%s has no field %q (did you mean %q?)", at, name, near)
}

// ofStatus reports whether a path leads to what is asked for beside the resources.
func ofStatus(path output.Path) bool {
	return slices.ContainsFunc(path.Steps(), func(steps []string) bool {
		return steps[0] == statusField || len(steps) > 1 && steps[0] == metadataField && steps[1] == versionField
	})
}
