package spec

import (
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
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

// lower is a name that Terraform takes.
var lower = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// FieldName is what Terraform calls a field: its name in protobuf, if it has one.
func FieldName(f *schema.Field) string {
	if i := slices.IndexFunc(f.Aliases, lower.MatchString); i >= 0 {
		return f.Aliases[i]
	}
	return Name(f.Name)
}

// ResourceType is what Terraform calls the resources of a kind. Two groups have a Gateway.
func ResourceType(k *kinds.Kind) string {
	const gatewayAPI = "gateway.networking.k8s.io"
	if k.Name == "Gateway" && k.Group == gatewayAPI {
		return "pgmesh_gateway_api_gateway"
	}
	return "pgmesh_" + Name(k.Name)
}
