package provider

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// stored reads one resource of any kind, which somebody else may look after.
type stored struct{ mesh *mesh.Mesh }

var _ datasource.DataSourceWithConfigure = (*stored)(nil)

// storedModel is the data source as Terraform has it.
type storedModel struct {
	Kind        types.String      `tfsdk:"kind"`
	Namespace   types.String      `tfsdk:"namespace"`
	Name        types.String      `tfsdk:"name"`
	Labels      map[string]string `tfsdk:"labels"`
	Annotations map[string]string `tfsdk:"annotations"`
	Revision    types.Int64       `tfsdk:"revision"`
	Spec        types.String      `tfsdk:"spec"`
}

// Metadata implements datasource.DataSource.
func (*stored) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "pgmesh_resource"
}

// Schema implements datasource.DataSource.
func (*stored) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	texts := func(description string) schema.MapAttribute {
		return schema.MapAttribute{Computed: true, ElementType: types.StringType, Description: description}
	}
	resp.Schema = schema.Schema{
		Description: "A resource as it stands in the mesh, whoever looks after it. It is an error if there is none.",
		Attributes: map[string]schema.Attribute{
			"kind":        schema.StringAttribute{Required: true, Description: "The kind, by any name that mcp-client kinds lists: VirtualService, vs, gateways.gateway.networking.k8s.io."},
			"namespace":   schema.StringAttribute{Optional: true, Computed: true, Description: "The namespace: default, if it is not given and the kind has one."},
			"name":        schema.StringAttribute{Required: true, Description: "The name."},
			"labels":      texts("Its labels."),
			"annotations": texts("Its annotations."),
			"revision":    schema.Int64Attribute{Computed: true, Description: "The revision that changed it last."},
			"spec":        schema.StringAttribute{Computed: true, Description: "Its spec as JSON, for jsondecode. Fields have the names that they have in YAML."},
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (s *stored) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	s.mesh = configured(req.ProviderData)
}

// Read implements datasource.DataSource.
func (s *stored) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	var model storedModel
	if resp.Diagnostics.Append(req.Config.Get(ctx, &model)...); resp.Diagnostics.HasError() {
		return
	}
	if err := s.read(ctx, &model); err != nil {
		resp.Diagnostics.AddError("The resource cannot be read", inTerraform(err))
		return
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}

func (s *stored) read(ctx context.Context, model *storedModel) error {
	k, err := kinds.ByName(model.Kind.ValueString())
	if err != nil {
		return err
	}
	key := kinds.Key{Kind: k, Namespace: model.Namespace.ValueString(), Name: model.Name.ValueString()}
	switch {
	case s.mesh == nil:
		return errNoMesh
	case !k.Namespaced && key.Namespace != "":
		return fmt.Errorf("a %s has no namespace: leave it out", k.Name)
	case k.Namespaced && key.Namespace == "":
		key.Namespace = newKind(k).namespace()
	}
	found, err := s.mesh.Get(ctx, key)
	if errors.Is(err, mesh.ErrAbsent) {
		return fmt.Errorf("there is no %s %s", k.Name, key.FullName())
	}
	if err != nil {
		return err
	}
	text, err := json.Marshal(found.Spec)
	if err != nil {
		return fmt.Errorf("write the spec of %s: %w", key, err)
	}
	model.Namespace, model.Revision, model.Spec = types.StringValue(key.Namespace), types.Int64Value(found.Revision), types.StringValue(string(text))
	model.Labels, model.Annotations = texts(object(found.Labels)), texts(object(found.Annotations)) // {} and not null
	return nil
}
