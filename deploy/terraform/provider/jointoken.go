package provider

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/terraform-plugin-framework/path"
	"github.com/hashicorp/terraform-plugin-framework/resource"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int32default"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/int32planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/planmodifier"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringdefault"
	"github.com/hashicorp/terraform-plugin-framework/resource/schema/stringplanmodifier"
	"github.com/hashicorp/terraform-plugin-framework/types"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/internal/kit/days"
	adminv1 "github.com/pgmesh/pgmesh/proto/pgmesh/admin/v1"
)

// joinToken is a token by which machines become members. It stays in the state when it is used or
// has expired: a new one would make new machines, too.
type joinToken struct{ mesh *mesh.Mesh }

var (
	_ resource.ResourceWithConfigure      = (*joinToken)(nil)
	_ resource.ResourceWithValidateConfig = (*joinToken)(nil)
)

// revoked is the state of a token that was taken back.
const revoked = "revoked"

// joinTokenModel is the resource as Terraform has it.
type joinTokenModel struct {
	Namespace      types.String `tfsdk:"namespace"`
	WorkloadGroup  types.String `tfsdk:"workload_group"`
	ServiceAccount types.String `tfsdk:"service_account"`
	Uses           types.Int32  `tfsdk:"uses"`
	ExpiresIn      types.String `tfsdk:"expires_in"`
	Name           types.String `tfsdk:"name"`
	ExpiresAt      types.String `tfsdk:"expires_at"`
	Secret         types.String `tfsdk:"secret"`
}

// Metadata implements resource.Resource.
func (*joinToken) Metadata(_ context.Context, _ resource.MetadataRequest, resp *resource.MetadataResponse) {
	resp.TypeName = "pgmesh_join_token"
}

// Schema implements resource.Resource.
func (*joinToken) Schema(_ context.Context, _ resource.SchemaRequest, resp *resource.SchemaResponse) {
	replace := []planmodifier.String{stringplanmodifier.RequiresReplace()}
	keep := []planmodifier.String{stringplanmodifier.UseStateForUnknown()}
	resp.Schema = schema.Schema{
		Description: "A token by which machines join the mesh, for cloud-init and the like. The state has it: keep that secret. " +
			"Whoever has joined stays a member when the token is gone.",
		Attributes: map[string]schema.Attribute{
			"namespace":       schema.StringAttribute{Required: true, Description: "Where the machines belong.", PlanModifiers: replace},
			"workload_group":  schema.StringAttribute{Optional: true, Description: "The WorkloadGroup of the machines, or else their service_account.", PlanModifiers: replace},
			"service_account": schema.StringAttribute{Optional: true, Description: "The service account of the machines, or else their workload_group.", PlanModifiers: replace},
			"uses": schema.Int32Attribute{
				Optional: true, Computed: true, Description: "How many machines may join with it: 1, if it is not given.",
				Default: int32default.StaticInt32(1), PlanModifiers: []planmodifier.Int32{int32planmodifier.RequiresReplace()},
			},
			"expires_in": schema.StringAttribute{
				Optional: true, Computed: true, Description: `How long it counts, such as "24h" or "7d": 1h, if it is not given.`,
				Default: stringdefault.StaticString("1h"), PlanModifiers: replace,
			},
			"name":       schema.StringAttribute{Computed: true, Description: "What mcp-client token list calls it.", PlanModifiers: keep},
			"expires_at": schema.StringAttribute{Computed: true, Description: "Until when it counts.", PlanModifiers: keep},
			"secret":     schema.StringAttribute{Computed: true, Sensitive: true, Description: "The token itself.", PlanModifiers: keep},
		},
	}
}

// Configure implements resource.ResourceWithConfigure.
func (j *joinToken) Configure(_ context.Context, req resource.ConfigureRequest, _ *resource.ConfigureResponse) {
	j.mesh = configured(req.ProviderData)
}

// ValidateConfig implements resource.ResourceWithValidateConfig, as far as values are known.
func (*joinToken) ValidateConfig(ctx context.Context, req resource.ValidateConfigRequest, resp *resource.ValidateConfigResponse) {
	var model joinTokenModel
	if resp.Diagnostics.Append(req.Config.Get(ctx, &model)...); resp.Diagnostics.HasError() {
		return
	}
	const wrong = "The join token is wrong"
	if in := model.ExpiresIn; !in.IsNull() && !in.IsUnknown() {
		if _, err := lifetimeOf(in.ValueString()); err != nil {
			resp.Diagnostics.AddAttributeError(path.Root("expires_in"), wrong, err.Error())
		}
	}
	if uses := model.Uses; !uses.IsNull() && !uses.IsUnknown() && uses.ValueInt32() < 1 {
		resp.Diagnostics.AddAttributeError(path.Root("uses"), wrong, fmt.Sprintf("uses: %d: somebody has to join with it, so write 1 or more", uses.ValueInt32()))
	}
	if group, account := model.WorkloadGroup, model.ServiceAccount; !group.IsUnknown() && !account.IsUnknown() && named(group) == named(account) {
		resp.Diagnostics.AddError(wrong, errEither.Error())
	}
}

var errEither = errors.New("say either workload_group or service_account")

func named(value types.String) bool { return value.ValueString() != "" }

func lifetimeOf(text string) (time.Duration, error) {
	lifetime, err := days.Parse(text)
	if err != nil || lifetime <= 0 {
		return 0, fmt.Errorf("expires_in: %q is not a time such as 24h or 7d", text)
	}
	return lifetime, nil
}

// Create implements resource.Resource.
func (j *joinToken) Create(ctx context.Context, req resource.CreateRequest, resp *resource.CreateResponse) {
	var model joinTokenModel
	if resp.Diagnostics.Append(req.Plan.Get(ctx, &model)...); resp.Diagnostics.HasError() {
		return
	}
	made, err := j.create(ctx, &model)
	if err != nil {
		resp.Diagnostics.AddError("There is no join token", inTerraform(err))
		return
	}
	model.Name, model.Secret = types.StringValue(made.GetToken().GetName()), types.StringValue(made.GetSecret())
	model.ExpiresAt = types.StringValue(made.GetToken().GetExpiresAt().AsTime().Format(time.RFC3339))
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (j *joinToken) create(ctx context.Context, model *joinTokenModel) (*adminv1.CreateJoinTokenResponse, error) {
	lifetime, err := lifetimeOf(model.ExpiresIn.ValueString())
	switch {
	case j.mesh == nil:
		return nil, errNoMesh
	case err != nil:
		return nil, err
	case named(model.WorkloadGroup) == named(model.ServiceAccount):
		return nil, errEither
	}
	return j.mesh.CreateJoinToken(ctx, &adminv1.CreateJoinTokenRequest{
		Namespace: model.Namespace.ValueString(), WorkloadGroup: model.WorkloadGroup.ValueString(), ServiceAccount: model.ServiceAccount.ValueString(),
		MaxUses: model.Uses.ValueInt32(), ExpiresAt: timestamppb.New(time.Now().Add(lifetime)),
	})
}

// Read implements resource.Resource. A token that was taken back is gone.
func (j *joinToken) Read(ctx context.Context, req resource.ReadRequest, resp *resource.ReadResponse) {
	var model joinTokenModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &model)...); resp.Diagnostics.HasError() || j.mesh == nil {
		return
	}
	token, err := j.mesh.JoinToken(ctx, model.Namespace.ValueString(), model.Name.ValueString())
	switch {
	case errors.Is(err, mesh.ErrAbsent) || token.GetState() == revoked:
		resp.State.RemoveResource(ctx)
	case err != nil:
		resp.Diagnostics.AddError("The join token cannot be read", inTerraform(err))
	}
}

// Update implements resource.Resource. There is nothing that could be changed.
func (*joinToken) Update(_ context.Context, req resource.UpdateRequest, resp *resource.UpdateResponse) {
	resp.State.Raw = req.Plan.Raw
}

// Delete implements resource.Resource.
func (j *joinToken) Delete(ctx context.Context, req resource.DeleteRequest, resp *resource.DeleteResponse) {
	var model joinTokenModel
	if resp.Diagnostics.Append(req.State.Get(ctx, &model)...); resp.Diagnostics.HasError() {
		return
	}
	err := errNoMesh
	if j.mesh != nil {
		err = j.mesh.RevokeJoinToken(ctx, model.Name.ValueString())
	}
	if err != nil {
		resp.Diagnostics.AddError("The join token is not revoked", inTerraform(err))
	}
}
