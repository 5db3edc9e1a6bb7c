package provider

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/deploy/terraform/spec"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
	"github.com/pgmesh/pgmesh/mcp-client/cli/problems"
)

// ValidateConfig implements resource.ResourceWithValidateConfig. It needs no server.
func (k *kind) ValidateConfig(_ context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	_, wrong := k.wanted(req.Config.Raw)
	wrong.tell(&resp.Diagnostics)
}

// wanted reads a configuration or a plan, and says what is wrong with it, as far as it is known.
func (k *kind) wanted(value tftypes.Value) (*mesh.Resource, refusal) {
	wrong := refusal{kind: k}
	reading, err := k.document.read(value)
	if err != nil {
		wrong.err = err
		return nil, wrong
	}
	r := k.resource(reading)
	if k.Namespaced && r.Key.Namespace == "" {
		r.Key.Namespace = k.namespace()
	}
	if len(reading.Unknown) > 0 {
		wrong.problems = k.knownProblems(reading, r)
		return r, wrong
	}
	wrong.problems = slices.Concat(reading.Problems, k.problems(r))
	return r, wrong
}

func (k *kind) problems(r *mesh.Resource) []schema.Problem {
	meta := &kinds.Meta{Name: r.Key.Name, Namespace: r.Key.Namespace, Labels: r.Labels, Annotations: r.Annotations}
	_, problems := schema.Validate(k.document.spec, "spec", r.Spec, meta)
	for _, v := range kinds.CheckMetadata(&kinds.Resource{Kind: k.Kind, Namespace: r.Key.Namespace, Name: r.Key.Name, Labels: r.Labels, Annotations: r.Annotations}) {
		problems = append(problems, schema.Problem{Path: v.Path, Reason: v.Reason, Hint: v.Hint})
	}
	return problems
}

// knownProblems leaves out what may be mended by values that are not known yet. Rules between fields
// wait until all are.
func (k *kind) knownProblems(reading *spec.Reading, r *mesh.Resource) []schema.Problem {
	_, problems := schema.Check(k.document.spec, "spec", r.Spec)
	return slices.DeleteFunc(slices.Concat(reading.Problems, problems), func(p schema.Problem) bool {
		return slices.ContainsFunc(reading.Unknown, func(unknown string) bool {
			return strings.HasPrefix(p.Path, unknown) || strings.HasPrefix(unknown, p.Path)
		})
	})
}

// ModifyPlan implements resource.ResourceWithModifyPlan. It has the server check the change, and
// plans none where two spellings mean the same.
func (k *kind) ModifyPlan(ctx context.Context, req resource.ModifyPlanRequest, resp *resource.ModifyPlanResponse) {
	if k.mesh == nil {
		return
	}
	if req.Plan.Raw.IsNull() {
		k.tryDeletion(ctx, req.State.Raw, &resp.Diagnostics)
		return
	}
	plan, err := k.document.read(req.Plan.Raw)
	if err != nil || len(plan.Unknown) > 0 || len(plan.Problems) > 0 {
		return // what is wrong was said, and what is not known is checked by the server in the end
	}
	r := k.resource(plan)
	state, err := k.document.read(req.State.Raw)
	if err != nil {
		return
	}
	changes := state.Tree != nil && k.key(state) == r.Key // it is neither new nor put in the place of another
	if changes {
		kept := spec.Keep(k.document.whole, state.Tree, plan.Tree)
		if resp.Plan.Raw, err = spec.Value(k.document.whole, kept, req.Plan.Schema.Type().TerraformType(ctx)); err != nil {
			resp.Diagnostics.AddError("The plan cannot be written", err.Error())
			return
		}
		if resp.Plan.Raw.Equal(req.State.Raw) {
			return
		}
		seen, diagnostics := req.Private.GetKey(ctx, revision)
		resp.Diagnostics.Append(diagnostics...)
		r.Revision = read(seen)
	}
	k.tryOut(ctx, r, changes, resp)
}

// tryOut has the server check a change without making it. Of a new resource it says no warnings: what
// it refers to may be made by the same plan, and [kind.Create] tells.
func (k *kind) tryOut(ctx context.Context, r *mesh.Resource, warn bool, resp *resource.ModifyPlanResponse) {
	change, err := k.mesh.Apply(ctx, r, true)
	if err != nil {
		k.refused(r, err).tell(&resp.Diagnostics)
		return
	}
	if warn {
		k.warn(r.Key, "The mesh would have a problem, unless the plan mends it elsewhere", change.Warnings.Problems, &resp.Diagnostics)
	}
}

// tryDeletion tells what would lead nowhere without a resource.
func (k *kind) tryDeletion(ctx context.Context, state tftypes.Value, to *diag.Diagnostics) {
	before, err := k.document.read(state)
	if err != nil {
		return
	}
	change, err := k.mesh.Delete(ctx, k.key(before), 0, true)
	if err != nil {
		to.AddError(fmt.Sprintf("The %s cannot be deleted", k.Name), inTerraform(err))
		return
	}
	k.warn(k.key(before), "The mesh would have a problem without this "+k.Name+", unless the plan mends it elsewhere", change.Warnings.Problems, to)
}

// warn tells of problems between resources, each where it was written if that is in this resource.
func (k *kind) warn(of kinds.Key, title string, all []problems.Problem, to *diag.Diagnostics) {
	for _, p := range all {
		place := path.Empty()
		if p.Kind == k.Name && p.Space == of.Namespace && p.Name == of.Name {
			place = k.place(p.Path)
		}
		to.AddAttributeWarning(place, title, p.String())
	}
}

// refused turns an error of the server into what is wrong.
func (k *kind) refused(r *mesh.Resource, err error) refusal {
	wrong := refusal{kind: k, resource: r, err: err}
	if refused, is := errors.AsType[*failure.Refused](err); is {
		wrong.err = nil
		for _, v := range refused.Violations {
			wrong.problems = append(wrong.problems, schema.Problem{Path: v.Path, Reason: v.Reason, Hint: v.Hint})
		}
	}
	return wrong
}
