package world

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Resource is a resource of the mesh before it is written.
type Resource struct {
	Kind, Namespace, Name string
	Spec                  Object
}

// Object is an object of JSON.
type Object = map[string]any

// Networking is the API group of all of them.
const Networking = "networking.istio.io"

// Document returns the resource as a line of YAML.
func (r Resource) Document() string {
	return Text(Object{
		"apiVersion": Networking + "/v1", "kind": r.Kind,
		"metadata": Object{"namespace": r.Namespace, "name": r.Name}, "spec": r.Spec,
	})
}

// Documents returns resources as one file.
func Documents(resources []Resource) string {
	var b strings.Builder
	for _, r := range resources {
		fmt.Fprintf(&b, "---\n%s\n", r.Document())
	}
	return b.String()
}

// Text returns JSON, which is also YAML.
func Text(o Object) string {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // nothing in these resources can fail to encode
	}
	return string(data)
}
