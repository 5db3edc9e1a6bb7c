package provider

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-go/tftypes"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/deploy/terraform/spec"
	"github.com/pgmesh/pgmesh/kinds"
	"github.com/pgmesh/pgmesh/kinds/schema"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
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
	if req.Plan.Raw.IsNull() || k.mesh == nil {
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
// it refers to may be made by the same plan.
func (k *kind) tryOut(ctx context.Context, r *mesh.Resource, warn bool, resp *resource.ModifyPlanResponse) {
	change, err := k.mesh.Apply(ctx, r, true)
	if err != nil {
		k.refused(r.Key, err).tell(&resp.Diagnostics)
		return
	}
	if !warn {
		return
	}
	for _, problem := range change.Warnings.Problems {
		place := path.Empty()
		if problem.Kind == k.Name && problem.Space == r.Key.Namespace && problem.Name == r.Key.Name {
			place = k.place(problem.Path)
		}
		resp.Diagnostics.AddAttributeWarning(place, "The mesh would have a problem, unless the plan mends it elsewhere", problem.String())
	}
}

// refused turns an error of the server into what is wrong.
func (k *kind) refused(key kinds.Key, err error) refusal {
	wrong := refusal{kind: k, key: key, err: err}
	if refused, is := errors.AsType[*failure.Refused](err); is {
		wrong.err = nil
		for _, v := range refused.Violations {
			wrong.problems = append(wrong.problems, schema.Problem{Path: v.Path, Reason: v.Reason, Hint: v.Hint})
		}
	}
	return wrong
}
