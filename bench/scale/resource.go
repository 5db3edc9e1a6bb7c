package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// resource is a resource of the mesh before it is written.
type resource struct {
	kind, namespace, name string
	spec                  object
}

type object = map[string]any

const networking = "networking.istio.io"

// document returns the resource as a line of YAML.
func (r resource) document() string {
	return text(object{
		"apiVersion": networking + "/v1", "kind": r.kind,
		"metadata": object{"namespace": r.namespace, "name": r.name}, "spec": r.spec,
	})
}

// documents returns resources as one file.
func documents(resources []resource) string {
	var b strings.Builder
	for _, r := range resources {
		fmt.Fprintf(&b, "---\n%s\n", r.document())
	}
	return b.String()
}

// text returns JSON, which is also YAML.
func text(o object) string {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // nothing in these resources can fail to encode
	}
	return string(data)
}
