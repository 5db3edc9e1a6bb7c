package main

import (
	"encoding/json"
	"fmt"
	"strings"
)

// resource is a resource of the mesh as it is written down.
type resource struct {
	kind, namespace, name string
	spec                  object
}

type object = map[string]any

const networking = "networking.istio.io"

// document is the resource as a line of YAML, for a file.
func (r resource) document() string {
	return text(object{
		"apiVersion": networking + "/v1", "kind": r.kind,
		"metadata": object{"namespace": r.namespace, "name": r.name}, "spec": r.spec,
	})
}

// documents are resources as one file.
func documents(resources []resource) string {
	var b strings.Builder
	for _, r := range resources {
		fmt.Fprintf(&b, "---\n%s\n", r.document())
	}
	return b.String()
}

// text is JSON, which is YAML too.
func text(o object) string {
	data, err := json.Marshal(o)
	if err != nil {
		panic(err) // there is nothing in a resource here that JSON could not say
	}
	return string(data)
}
