package provider

import (
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/deploy/terraform/spec"
	"github.com/pgmesh/pgmesh/internal/terraform"
	"github.com/pgmesh/pgmesh/kinds/schema"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
)

// refusal is why a resource cannot be what it is to be.
type refusal struct {
	kind     *kind
	resource *mesh.Resource // nil if it could not be read
	problems []schema.Problem
	err      error
}

// tell adds what is wrong to the diagnostics, each where it was written, and reports whether there is
// anything.
func (r refusal) tell(to *diag.Diagnostics) bool {
	for _, p := range r.problems {
		to.AddAttributeError(r.kind.place(p.Path), "The "+r.kind.Name+" is wrong", said(p))
	}
	if r.err == nil {
		return len(r.problems) > 0
	}
	text := inTerraform(r.err) + adviceOn(r.err)
	if _, conflict := errors.AsType[*failure.Conflict](r.err); conflict && r.resource.Revision == 0 {
		text = fmt.Sprintf("%s.\n\nIt is there, and is not Terraform's yet. Import it: terraform import %s.NAME %s",
			inTerraform(r.err), terraform.ResourceType(r.kind.Kind), r.resource.Key.FullName())
	}
	to.AddError(titleOf(r.err, r.kind.Name), text)
	return true
}

// titleOf says what could not be done: that of a server is not the fault of a resource.
func titleOf(err error, kind string) string {
	if _, is := errors.AsType[*failure.Unreachable](err); is {
		return "The mesh cannot be reached"
	}
	if _, is := errors.AsType[*failure.Denied](err); is {
		return "The mesh does not allow it"
	}
	return fmt.Sprintf("The %s cannot be what it is to be", kind)
}

// adviceOn says what to do if somebody was faster.
func adviceOn(err error) string {
	if _, conflict := errors.AsType[*failure.Conflict](err); conflict {
		return ".\n\nPlan again, so that you see what changed."
	}
	return ""
}

func said(p schema.Problem) string {
	text := p.Reason
	if p.Path != "" {
		text = p.Path + ": " + text
	}
	if p.Hint != "" {
		text += " (" + p.Hint + ")"
	}
	return text
}

// place is where the path of a problem is in the configuration: as near as there is something.
func (k *kind) place(at string) path.Path {
	at = strings.TrimPrefix(at, "metadata.")
	return spec.Place(k.document.whole, at)
}
