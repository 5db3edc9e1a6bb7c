// Package reference is the table of the fields that name another resource, host or secret, and of
// how each name is resolved: short names, hosts, names with namespaces. The table is data
// (references.yaml). The database's queries for links between resources are generated from it,
// discovery completes names by it, and the command line uses it to list related resources.
package reference

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Form is the notation of a reference.
type Form string

// The forms, which references.yaml describes.
const (
	HostForm        Form = "host"
	DestinationForm Form = "destination"
	FullHostForm    Form = "full-host"
	GatewayForm     Form = "gateway"
	DelegateForm    Form = "delegate"
	CredentialForm  Form = "credential"
	PullSecretForm  Form = "pull-secret"
	SecretForm      Form = "secret"
	AttachmentForm  Form = "attachment"
	BackendForm     Form = "backend"
	ClassForm       Form = "class"
)

// Named is a field that names something.
type Named struct {
	Form Form
	Role string // the role in mesh_internal.links; "" if that table has none for it, or derives it otherwise
	Path string // from the spec on: "http.route.destination"
}

// Steps are the fields on the path.
func (n *Named) Steps() []string { return strings.Split(n.Path, ".") }

// entry is one entry of the table: similar fields of some kinds.
type entry struct {
	Group string
	Kinds []string
	Form  Form
	Role  string
	Paths []string
	Told  string // who reports dangling references, if mesh.problems does not
}

// other lists fields that look like references and are none. A test demands a reason for each such
// field.
type other struct {
	Group  string
	Kinds  []string
	Paths  []string
	Reason string
}

//go:embed references.yaml
var file []byte

type list struct {
	Named  []entry
	Others []other
}

var table = sync.OnceValue(func() list {
	var l list
	if err := yaml.Unmarshal(file, &l); err != nil {
		panic("kinds/reference/references.yaml: " + err.Error()) // a test reads it
	}
	return l
})

// Of lists the fields of a kind that name something, in the order of the table.
func Of(k *kinds.Kind) []*Named {
	var all []*Named
	for _, e := range table().Named {
		if e.Group != k.Group || !slices.Contains(e.Kinds, k.Name) {
			continue
		}
		for _, path := range e.Paths {
			all = append(all, &Named{e.Form, e.Role, path})
		}
	}
	return all
}
