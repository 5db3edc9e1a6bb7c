// Package provider is what Terraform asks: which resources there are, whether a configuration is
// valid, what a plan would change, and to change it.
package provider

import (
	"context"

	"github.com/hashicorp/terraform-plugin-framework/datasource"
	"github.com/hashicorp/terraform-plugin-framework/provider"
	"github.com/hashicorp/terraform-plugin-framework/provider/schema"
	"github.com/hashicorp/terraform-plugin-framework/resource"

	"github.com/pgmesh/pgmesh/deploy/terraform/mesh"
	"github.com/pgmesh/pgmesh/kinds"
)

// New returns the function that makes the provider.
func New(version string) func() provider.Provider {
	return func() provider.Provider { return &pgmesh{version: version} }
}

type pgmesh struct{ version string }

// Metadata implements provider.Provider.
func (p *pgmesh) Metadata(_ context.Context, _ provider.MetadataRequest, resp *provider.MetadataResponse) {
	resp.TypeName, resp.Version = "pgmesh", p.version
}

// Schema implements provider.Provider.
func (p *pgmesh) Schema(_ context.Context, _ provider.SchemaRequest, resp *provider.SchemaResponse) {
	resp.Schema = schema.Schema{
		Description: "A mesh of machines, whose routing rules are rows in Postgres. An argument that is not given is taken from the environment that mcp-client has, " +
			"such as PGMESH_SERVER, or else from its context.",
		Attributes: arguments(),
	}
}

// Configure implements provider.Provider.
func (p *pgmesh) Configure(_ context.Context, req provider.ConfigureRequest, resp *provider.ConfigureResponse) {
	given, known, err := given(req.Config.Raw)
	if err == nil && !known {
		return // the server is made by this very plan: what it refuses is said later
	}
	var m *mesh.Mesh
	if err == nil {
		m, err = connect(given, p.version)
	}
	if err != nil {
		resp.Diagnostics.AddError("The mesh cannot be reached with these settings", inTerraform(err))
		return
	}
	resp.ResourceData, resp.DataSourceData = m, m
}

// Resources implements provider.Provider.
func (p *pgmesh) Resources(context.Context) []func() resource.Resource {
	all := []func() resource.Resource{func() resource.Resource { return &joinToken{} }}
	for _, k := range kinds.All() {
		all = append(all, func() resource.Resource { return newKind(k) })
	}
	return all
}

// DataSources implements provider.Provider.
func (p *pgmesh) DataSources(context.Context) []func() datasource.DataSource {
	return []func() datasource.DataSource{
		func() datasource.DataSource { return &problemList{} },
		func() datasource.DataSource { return &rollout{} },
		func() datasource.DataSource { return &stored{} },
	}
}

// configured takes the mesh from what Configure left. It is nil while there is none.
func configured(data any) *mesh.Mesh {
	m, _ := data.(*mesh.Mesh)
	return m
}
