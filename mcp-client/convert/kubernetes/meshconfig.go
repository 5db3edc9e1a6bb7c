package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/pgmesh/pgmesh/mcp-client/convert/report"
	"github.com/pgmesh/pgmesh/mcp-client/convert/result"
)

// ofMesh are the keys of Istio's ConfigMap, and what they become.
var ofMesh = map[string]string{"mesh": "MeshConfig", "meshNetworks": "MeshNetworks"}

// meshConfig writes what the ConfigMap of Istio says. Another ConfigMap is none of the mesh.
func (c *Conversion) meshConfig(m *configMap) {
	if m.Metadata.Name != "istio" && !strings.HasPrefix(m.Metadata.Name, "istio-") || m.Data["mesh"] == "" {
		c.others["ConfigMap"]++
		return
	}
	for _, name := range slices.Sorted(maps.Keys(ofMesh)) {
		at := m.at.In("data.%s", name)
		spec := map[string]any{}
		if err := yaml.Unmarshal([]byte(m.Data[name]), &spec); err != nil {
			c.Lose(at, "it is no YAML: "+err.Error(), "look at it with kubectl get configmap "+m.Metadata.Name+" -o yaml")
			continue
		}
		if networks, is := spec["networks"].(map[string]any); is && len(networks) == 0 {
			continue // what istioctl install writes where there is one network
		}
		if c.keepKnown(ofMesh[name], spec, at); len(spec) > 0 {
			c.AddWith(ofMesh[name], result.Metadata{Name: m.Metadata.Name, Namespace: m.Metadata.Namespace}, spec, at)
		}
	}
	if m.Metadata.Name != "istio" {
		c.Note(m.at, "it is the configuration of one revision of Istio, and becomes that of the whole mesh", "keep one MeshConfig: docs/sources.md")
	}
}

// keepKnown takes away fields that are not valid, such as those of an Istio that is older or newer, and tells which.
func (c *Conversion) keepKnown(kind string, spec map[string]any, at report.Place) {
	for {
		wrong := result.Wrong(kind, at.Namespace, spec)
		if len(wrong) == 0 {
			return
		}
		field, _, _ := strings.Cut(strings.TrimPrefix(wrong[0].Path, "spec."), ".")
		field, _, _ = strings.Cut(field, "[")
		if _, there := spec[field]; !there {
			c.Lose(at, fmt.Sprintf("it is not valid, and is left out: %s: %s", wrong[0].Path, wrong[0].Reason), "write the MeshConfig by hand")
			clear(spec)
			return
		}
		hint := wrong[0].Hint
		if strings.HasPrefix(wrong[0].Reason, "unknown field") {
			hint = "it is one of another version of Istio, or a typing error"
		}
		c.Lose(at.In("%s", field), "it is left out: "+wrong[0].Reason, hint)
		delete(spec, field)
	}
}
