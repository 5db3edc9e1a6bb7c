package resources

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/mcp-client/cli/output"
)

// pathsOf are the paths to all that a tree has.
func pathsOf(at string, tree any) (all []string) {
	switch tree := tree.(type) {
	case map[string]any:
		for name, value := range tree {
			all = append(all, pathsOf(at+"['"+name+"']", value)...)
		}
	case []any:
		for _, item := range tree {
			all = append(all, pathsOf(at+"[0]", item)...)
			all = append(all, pathsOf(at+"[*]", item)...)
		}
	}
	return append(all, at)
}

// Whatever a resource has, there is a path to it.
func TestPathsOfWhatResourcesHaveAreTaken(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../kinds/testdata/every-kind.yaml")
	require.NoError(t, err)
	documents, err := kinds.Parse("every-kind.yaml", text)
	require.NoError(t, err)
	seen := 0
	for _, d := range documents {
		d.Resource.Annotations = map[string]string{"example.com/owner": "shop"}
		written, err := kinds.MarshalJSON(d.Resource)
		require.NoError(t, err)
		var tree map[string]any
		require.NoError(t, json.Unmarshal(written, &tree))
		for field, value := range tree {
			for _, text := range pathsOf("."+field, value) {
				path, err := output.ParsePath("{" + text + "}")
				require.NoError(t, err, text)
				require.NoError(t, checkPath(path, []*kinds.Kind{d.Resource.Kind}), "%s of %s", text, d.Resource.Kind.Name)
				seen++
			}
		}
	}
	require.Greater(t, seen, 500)
}

func TestPathsThatLeadNowhere(t *testing.T) {
	t.Parallel()
	kind := func(name string) *kinds.Kind {
		k, err := kinds.ByName(name)
		require.NoError(t, err)
		return k
	}
	vs, dr, filter := kind("vs"), kind("dr"), kind("envoyfilter")
	for text, c := range map[string]struct {
		of   []*kinds.Kind
		says string
	}{
		".metadata.nme":                     {[]*kinds.Kind{vs, dr}, `VirtualService.metadata has no field "nme" (did you mean "name"?)`},
		".metadata.generation":              {[]*kinds.Kind{vs}, `VirtualService.metadata has no field "generation"`},
		".metadata.name.first":              {[]*kinds.Kind{vs}, "VirtualService.metadata.name has no fields of its own"},
		".metdata.name":                     {[]*kinds.Kind{vs}, `VirtualService has no field "metdata" (did you mean "metadata"?)`},
		"name":                              {[]*kinds.Kind{vs}, `VirtualService has no field "name" (did you mean "metadata.name"?)`},
		".hosts":                            {[]*kinds.Kind{vs}, `VirtualService has no field "hosts" (did you mean "spec.hosts"?)`},
		".kind.x":                           {[]*kinds.Kind{vs}, "VirtualService.kind has no fields of its own"},
		".spec.hots":                        {[]*kinds.Kind{vs}, `VirtualService.spec has no field "hots" (did you mean "hosts"?)`},
		"{.spec.http[*].rote}":              {[]*kinds.Kind{vs}, `VirtualService.spec.http has no field "rote" (did you mean "route"?)`},
		"{.metadata.name}/{.spec.hots}":     {[]*kinds.Kind{vs}, `has no field "hots"`},
		".spec.http.timeout":                {[]*kinds.Kind{vs}, "VirtualService.spec.http is a list: its items are http[0], or all of them http[*]"},
		".spec.http[0].timeout.seconds":     {[]*kinds.Kind{vs}, "VirtualService.spec.http.timeout has no fields of its own"},
		".spec[0]":                          {[]*kinds.Kind{vs}, "VirtualService.spec is no list"},
		".spec.http[?(@.name=='a')].timeut": {[]*kinds.Kind{vs}, `(did you mean "timeout"?)`},
		".spec.host":                        {[]*kinds.Kind{vs, dr}, ""},
		".status.anything":                  {[]*kinds.Kind{vs}, ""},
		".metadata.resourceVersion":         {[]*kinds.Kind{vs}, ""},
		`.metadata.labels.app\.kubernetes\.io/name`:    {[]*kinds.Kind{vs}, ""},
		".metadata.annotations":                        {[]*kinds.Kind{vs}, ""},
		"$.spec.hosts[0]":                              {[]*kinds.Kind{vs}, ""},
		"{@.spec..anything}":                           {[]*kinds.Kind{vs}, ""},
		".spec.*.anything":                             {[]*kinds.Kind{vs}, ""},
		".spec.configPatches[0].patch.value.anything":  {[]*kinds.Kind{filter}, ""},
		"{range .spec.hosts[*]}{@}{end}":               {[]*kinds.Kind{vs}, ""},
		".spec.http[0].headers.request.set.x-anything": {[]*kinds.Kind{vs}, ""},
	} {
		path, err := output.ParsePath(text)
		require.NoError(t, err, text)
		err = checkPath(path, c.of)
		if c.says == "" {
			require.NoError(t, err, text)
		} else {
			require.ErrorContains(t, err, c.says, text)
		}
	}
}
