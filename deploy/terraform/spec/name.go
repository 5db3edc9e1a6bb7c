package spec

import (
	"regexp"
	"slices"

	"github.com/pgmesh/pgmesh/internal/terraform"
	"github.com/pgmesh/pgmesh/kinds/schema"
)

// lower is a name that Terraform takes.
var lower = regexp.MustCompile(`^[a-z][a-z0-9]*(_[a-z0-9]+)*$`)

// FieldName is what Terraform calls a field: its name in protobuf, if it has one.
func FieldName(f *schema.Field) string {
	if i := slices.IndexFunc(f.Aliases, lower.MatchString); i >= 0 {
		return f.Aliases[i]
	}
	return terraform.Name(f.Name)
}
