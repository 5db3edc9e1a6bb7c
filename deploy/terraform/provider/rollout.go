package provider

import (
	"context"
	"errors"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/mcp-client/cli/failure"
)

// rollout waits until proxies run what was changed. It is one wait for a whole apply, after the
// resources that its depends_on names.
type rollout struct{ mesh *mesh.Mesh }

var _ datasource.DataSourceWithConfigure = (*rollout)(nil)

// rolloutModel is the data source as Terraform has it.
type rolloutModel struct {
	Enough    types.String `tfsdk:"enough"`
	Timeout   types.String `tfsdk:"timeout"`
	Connected types.Int32  `tfsdk:"connected"`
	Running   types.Int32  `tfsdk:"running"`
	Revision  types.Int64  `tfsdk:"revision"`
	Complete  types.Bool   `tfsdk:"complete"`
	Message   types.String `tfsdk:"message"`
}

// Metadata implements datasource.DataSource.
func (*rollout) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "pgmesh_rollout"
}

// Schema implements datasource.DataSource.
func (*rollout) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "Waits until the connected proxies run the newest revision, those whose namespaces the token may read, and warns if they refuse it or are late. With depends_on it waits after these resources are changed.",
		Attributes: map[string]schema.Attribute{
			"enough":    schema.StringAttribute{Optional: true, Description: "How many proxies to wait for: all, a share such as 90%, or a number. All, if it is not given."},
			"timeout":   schema.StringAttribute{Optional: true, Description: `How long to wait, an hour at most: 30s, if it is not given.`},
			"connected": schema.Int32Attribute{Computed: true, Description: "How many proxies are connected, of those whose namespaces the token may read."},
			"running":   schema.Int32Attribute{Computed: true, Description: "How many of them run the revision."},
			"complete":  schema.BoolAttribute{Computed: true, Description: "Whether enough proxies run it."},
			"message":   schema.StringAttribute{Computed: true, Description: "Which do not, and why."},
			"revision":  schema.Int64Attribute{Computed: true, Description: "The revision that was waited for."},
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (r *rollout) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	r.mesh = configured(req.ProviderData)
}

// Read implements datasource.DataSource.
func (r *rollout) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model rolloutModel
	if resp.Diagnostics.Append(req.Config.Get(ctx, &model)...); resp.Diagnostics.HasError() {
		return
	}
	if r.mesh == nil {
		resp.Diagnostics.AddError("There is no waiting for proxies", errNoMesh.Error())
		return
	}
	last, err := r.mesh.Wait(ctx, model.Enough.ValueString(), model.Timeout.ValueString())
	model.Complete, model.Message = types.BoolValue(err == nil), types.StringValue("")
	switch _, late := errors.AsType[*failure.NotRun](err); {
	case late: // as an error it would stand in the way of the apply that mends it
		model.Message = types.StringValue(inTerraform(err))
		resp.Diagnostics.AddWarning("Proxies do not run the newest revision", "What was changed stays: "+inTerraform(err))
	case err != nil:
		resp.Diagnostics.AddError("There is no waiting for proxies", inTerraform(err))
		return
	}
	model.Connected, model.Running = types.Int32Value(last.GetConnected()), types.Int32Value(last.GetRunning())
	model.Revision = types.Int64Value(last.GetRevision())
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}
