package provider

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/hashicorp/terraform-plugin-framework/diag"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/tfsdk"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/deploy/terraform/spec"
	"github.com/pgmesh/pgmesh/internal/terraform"
	"github.com/pgmesh/pgmesh/kinds"
)

// kind makes a resource of Terraform of a kind of the mesh.
type kind struct {
	*kinds.Kind
	document document
	mesh     *mesh.Mesh // nil until it is known
}

var (
	_ resource.ResourceWithConfigure      = (*kind)(nil)
	_ resource.ResourceWithImportState    = (*kind)(nil)
	_ resource.ResourceWithModifyPlan     = (*kind)(nil)
	_ resource.ResourceWithValidateConfig = (*kind)(nil)
)

func newKind(k *kinds.Kind) *kind { return &kind{Kind: k, document: documentOf(k)} }

// Metadata implements resource.Resource.
func (k *kind) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = terraform.ResourceType(k.Kind)
}

// Schema implements resource.Resource.
func (k *kind) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	texts := func(description string) schema.MapAttribute {
		return schema.MapAttribute{Optional: true, Description: description, ElementType: types.StringType}
	}
	arguments := map[string]schema.Attribute{
		"name":        schema.StringAttribute{Required: true, Description: "The name.", PlanModifiers: replace},
		"labels":      texts("Labels, by which resources are selected."),
		"annotations": texts("Annotations."),
	}
	if k.Namespaced {
		arguments["namespace"] = schema.StringAttribute{
			Optional: true, Computed: true, Description: "The namespace: " + k.namespace() + ", if it is not given.",
			Default: stringdefault.StaticString(k.namespace()), PlanModifiers: replace,
		}
	}
	resp.Schema = schema.Schema{
		Description: fmt.Sprintf("A %s of %s. Its spec is what one writes in YAML, with names_like_this.", k.Name, k.APIVersion()),
		Attributes:  arguments,
		Blocks:      map[string]schema.Block{"spec": spec.Block(k.document.spec, "What the "+k.Name+" says.")},
	}
}

// namespace is where a resource is that names none.
func (k *kind) namespace() string {
	if k.Bare {
		return kinds.MeshNamespace
	}
	return "default"
}

// Configure implements resource.ResourceWithConfigure.
func (k *kind) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	k.mesh = configured(req.ProviderData)
}

// revision is the key of the private state that says which revision changed the resource last, as
// Terraform saw it.
const revision = "revision"

// Create implements resource.Resource.
func (k *kind) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	k.change(ctx, req.Plan, 0, &resp.State, resp.Private, &resp.Diagnostics)
}

// Update implements resource.Resource. It refuses to overwrite what somebody has changed since the
// plan was made.
func (k *kind) Update(ctx context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	seen, diagnostics := req.Private.GetKey(ctx, revision)
	resp.Diagnostics.Append(diagnostics...)
	k.change(ctx, req.Plan, read(seen), &resp.State, resp.Private, &resp.Diagnostics)
}

// private is the private state.
type private interface {
	SetKey(ctx context.Context, key string, value []byte) diag.Diagnostics
}

// change makes the resource what the plan says, if it is still at a revision.
func (k *kind) change(ctx context.Context, plan tfsdk.Plan, at int64, state *tfsdk.State, notes private, to *diag.Diagnostics) {
	r, wrong := k.wanted(plan.Raw)
	if wrong.tell(to) {
		return
	}
	r.Revision = at
	if k.mesh == nil {
		to.AddError(fmt.Sprintf("The %s is not changed", k.Name), errNoMesh.Error())
		return
	}
	changed, err := k.mesh.Apply(ctx, r, false)
	if err != nil {
		k.refused(r, err).tell(to)
		return
	}
	state.Raw = plan.Raw
	if changed.Revision > 0 {
		at = changed.Revision // a resource that is already as it is to be keeps its own
	}
	to.Append(notes.SetKey(ctx, revision, written(at))...)
	if r.Revision == 0 {
		k.warn(r.Key, "The mesh has a problem, unless something of this apply mends it", changed.Warnings.Problems, to)
	}
}

var errNoMesh = errors.New("the settings of the provider are not known")

// Read implements resource.Resource. It tells who has made the resource another one than it was.
func (k *kind) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	before, err := k.document.read(req.State.Raw)
	if err != nil {
		resp.Diagnostics.AddError("The state cannot be read", err.Error())
		return
	}
	if k.mesh == nil {
		return
	}
	private, diagnostics := req.Private.GetKey(ctx, revision)
	resp.Diagnostics.Append(diagnostics...)
	seen := read(private)
	stored, err := k.mesh.Get(ctx, k.key(before))
	if errors.Is(err, mesh.ErrAbsent) {
		k.drifted(ctx, k.key(before), seen, &resp.Diagnostics)
		resp.State.RemoveResource(ctx)
		return
	}
	if err == nil {
		resp.State.Raw, err = k.document.stored(stored, before, resp.State.Schema.Type().TerraformType(ctx))
	}
	if err != nil {
		k.refused(k.resource(before), err).tell(&resp.Diagnostics)
		return
	}
	if stored.Revision != seen && !resp.State.Raw.Equal(req.State.Raw) {
		k.drifted(ctx, k.key(before), seen, &resp.Diagnostics)
	}
	resp.Diagnostics.Append(resp.Private.SetKey(ctx, revision, written(stored.Revision))...)
}

// Delete implements resource.Resource. It refuses to delete what somebody has changed since the plan
// was made.
func (k *kind) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	seen, diagnostics := req.Private.GetKey(ctx, revision)
	resp.Diagnostics.Append(diagnostics...)
	before, err := k.document.read(req.State.Raw)
	switch {
	case err != nil:
	case k.mesh == nil:
		err = errNoMesh
	default:
		_, err = k.mesh.Delete(ctx, k.key(before), read(seen), false)
	}
	if err != nil {
		resp.Diagnostics.AddError(fmt.Sprintf("The %s is not deleted", k.Name), inTerraform(err)+adviceOn(err))
	}
}

// ImportState implements resource.ResourceWithImportState. What was named is then read.
func (k *kind) ImportState(ctx context.Context, req resource.ImportStateRequest, resp *resource.ImportStateResponse) {
	form := "NAME"
	namespace, name, both := strings.Cut(req.ID, "/")
	if k.Namespaced {
		form = "NAMESPACE/NAME"
	} else {
		name, both = req.ID, !both
	}
	if !both || name == "" || strings.Contains(name, "/") {
		resp.Diagnostics.AddError(fmt.Sprintf("%q names no %s", req.ID, k.Name), "Write "+form+".")
		return
	}
	tree := map[string]any{"name": name}
	if k.Namespaced {
		tree["namespace"] = namespace
	}
	raw, err := spec.Value(k.document.whole, tree, resp.State.Schema.Type().TerraformType(ctx))
	if err != nil {
		resp.Diagnostics.AddError("The state cannot be written", err.Error())
		return
	}
	resp.State.Raw = raw
}
