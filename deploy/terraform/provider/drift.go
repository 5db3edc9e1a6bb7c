package provider

import (
	"context"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/diag"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// drifted tells who has changed or deleted a resource since a revision. One that is only now imported has none.
func (k *kind) drifted(ctx context.Context, key kinds.Key, since int64, to *diag.Diagnostics) {
	if since == 0 {
		return
	}
	switch tell, last := k.mesh.Tells(); {
	case last:
		to.AddWarning("More was changed outside of Terraform", "Who changed what, mcp-client history tells.")
		return
	case !tell:
		return
	}
	text, err := k.mesh.Changed(ctx, key, since)
	if err != nil { // who may not read the history, or it does not reach that far
		text = "it is not known by whom: " + inTerraform(err)
	}
	// Terraform shows only one of the warnings of one title.
	to.AddWarning(fmt.Sprintf("%s %s was changed outside of Terraform", k.Name, key.FullName()),
		fmt.Sprintf("The state is of revision %d; %s.\n\n%s --diff shows what.", since, text, mesh.HistoryOf(key)))
}
