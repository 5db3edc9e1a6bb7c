// Package reference is the one table of which fields of which kinds name something else, and of how a name that is written there is read:
// short names, hosts, names with namespaces. It is data (references.yaml). The queries by which the database finds what resources say of each
// other are generated out of it, discovery completes names by it, and the command line lists by it what belongs together.
package reference

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/kinds"
)

// Form is what stands where something is named.
type Form string

// The forms; references.yaml says what each is like.
const (
	HostForm        Form = "host"
	DestinationForm Form = "destination"
	FullHostForm    Form = "full-host"
	GatewayForm     Form = "gateway"
	DelegateForm    Form = "delegate"
	CredentialForm  Form = "credential"
	SecretForm      Form = "secret"
	AttachmentForm  Form = "attachment"
	BackendForm     Form = "backend"
	ClassForm       Form = "class"
)

// Named is a field that names something.
type Named struct {
	Form Form
	Role string // in mesh.links; "" if that has it otherwise, or not
	Path string // from the spec on: "http.route.destination"
}

// Steps are the fields on the way.
func (n *Named) Steps() []string { return strings.Split(n.Path, ".") }

// entry is one of the table: fields of some kinds that are alike.
type entry struct {
	Group string
	Kinds []string
	Form  Form
	Role  string
	Paths []string
	Told  string // who tells of names that stand for nothing, where mesh.problems does not
}

// other is one of those that look like names and are none. A test asks for each such field.
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
