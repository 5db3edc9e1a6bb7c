package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/datasource/schema"
	"github.com/hashicorp/terraform-plugin-framework/types"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
)

// problemList tells what is wrong between resources, for check blocks.
type problemList struct{ mesh *mesh.Mesh }

var _ datasource.DataSourceWithConfigure = (*problemList)(nil)

// problemListModel is the data source as Terraform has it.
type problemListModel struct {
	Namespaces types.List     `tfsdk:"namespaces"`
	Problems   []problemModel `tfsdk:"problems"`
}

type problemModel struct {
	Severity  string `tfsdk:"severity"`
	Code      string `tfsdk:"code"`
	Kind      string `tfsdk:"kind"`
	Namespace string `tfsdk:"namespace"`
	Name      string `tfsdk:"name"`
	Path      string `tfsdk:"path"`
	Message   string `tfsdk:"message"`
	Hint      string `tfsdk:"hint"`
}

// Metadata implements datasource.DataSource.
func (*problemList) Metadata(_ context.Context, _ datasource.MetadataRequest, resp *datasource.MetadataResponse) {
	resp.TypeName = "pgmesh_problems"
}

// Schema implements datasource.DataSource.
func (*problemList) Schema(_ context.Context, _ datasource.SchemaRequest, resp *datasource.SchemaResponse) {
	told := func(description string) schema.StringAttribute {
		return schema.StringAttribute{Computed: true, Description: description}
	}
	resp.Schema = schema.Schema{
		Description: "What is wrong between resources as they stand: routes to hosts, ports and subsets that do not exist, and the like.",
		Attributes: map[string]schema.Attribute{
			"namespaces": schema.ListAttribute{Optional: true, ElementType: types.StringType, Description: "Of these namespaces alone."},
			"problems": schema.ListNestedAttribute{
				Computed: true, Description: "The problems.",
				NestedObject: schema.NestedAttributeObject{Attributes: map[string]schema.Attribute{
					"severity":  told("error, warning or info."),
					"code":      told("A short name for this sort of problem, such as unknown-subset."),
					"kind":      told("The kind of the resource."),
					"namespace": told("The namespace of the resource."),
					"name":      told("The name of the resource."),
					"path":      told("The field, if it is one."),
					"message":   told("What is wrong."),
					"hint":      told("What to do about it."),
				}},
			},
		},
	}
}

// Configure implements datasource.DataSourceWithConfigure.
func (l *problemList) Configure(_ context.Context, req datasource.ConfigureRequest, _ *datasource.ConfigureResponse) {
	l.mesh = configured(req.ProviderData)
}

// Read implements datasource.DataSource.
func (l *problemList) Read(ctx context.Context, req datasource.ReadRequest, resp *datasource.ReadResponse) {
	model := problemListModel{Problems: []problemModel{}}
	if resp.Diagnostics.Append(req.Config.Get(ctx, &model)...); resp.Diagnostics.HasError() {
		return
	}
	var namespaces []string
	resp.Diagnostics.Append(model.Namespaces.ElementsAs(ctx, &namespaces, false)...)
	if l.mesh == nil {
		resp.Diagnostics.AddError("The problems cannot be read", errNoMesh.Error())
		return
	}
	found, err := l.mesh.Problems(ctx, namespaces)
	if err != nil {
		resp.Diagnostics.AddError("The problems cannot be read", inTerraform(err))
		return
	}
	model.Problems = []problemModel{}
	for _, p := range found {
		model.Problems = append(model.Problems, problemModel{p.Severity, p.Code, p.Kind, p.Space, p.Name, p.Path, p.Message, p.Hint})
	}
	resp.Diagnostics.Append(resp.State.Set(ctx, &model)...)
}
