// Package terraform calls kinds and resources what the provider for Terraform calls them.
package terraform

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/pgmesh/pgmesh/kinds"
)

// Name writes a name as Terraform has it: jwksUri is jwks_uri, and HTTPRoute http_route.
func Name(name string) string {
	var b strings.Builder
	letters := []rune(name)
	for i, r := range letters {
		if unicode.IsUpper(r) && i > 0 {
			begins := i+1 < len(letters) && unicode.IsLower(letters[i+1])
			if before := letters[i-1]; !unicode.IsUpper(before) && before != '_' || begins && unicode.IsUpper(before) {
				b.WriteByte('_')
			}
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// ResourceType is what Terraform calls the resources of a kind. Two groups have a Gateway.
func ResourceType(k *kinds.Kind) string {
	const gatewayAPI = "gateway.networking.k8s.io"
	if k.Name == "Gateway" && k.Group == gatewayAPI {
		return "pgmesh_gateway_api_gateway"
	}
	return "pgmesh_" + Name(k.Name)
}

// Imports writes a block of import for each resource. Each is called what it is called in the mesh, with its namespace
// before it where several of a kind have the name.
func Imports(all []kinds.Key) string {
	named := map[string]int{}
	for _, key := range all {
		named[address(key, key.Name)]++
	}
	var b strings.Builder
	taken := map[string]bool{}
	for _, key := range all {
		to := address(key, key.Name)
		if named[to] > 1 {
			to = address(key, key.Namespace+"_"+key.Name)
		}
		for n, first := 2, to; taken[to]; n++ {
			to = fmt.Sprintf("%s_%d", first, n)
		}
		taken[to] = true
		fmt.Fprintf(&b, "import {\n  to = %s\n  id = %q\n}\n", to, key.FullName())
	}
	return b.String()
}

var notInNames = regexp.MustCompile(`[^A-Za-z0-9_-]`)

// address is that of a resource which is called so. A name of Terraform begins with a letter or an underscore.
func address(key kinds.Key, called string) string {
	called = notInNames.ReplaceAllString(called, "_")
	if called == "" || !unicode.IsLetter(rune(called[0])) && called[0] != '_' {
		called = "_" + called
	}
	return ResourceType(key.Kind) + "." + called
}
