package spec

import (
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
