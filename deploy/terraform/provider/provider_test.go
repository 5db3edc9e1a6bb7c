package provider_test

import (
	"strings"
	"testing"

	"github.com/hashicorp/terraform-plugin-framework/providerserver"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/deploy/terraform/provider"
	"github.com/pgmesh/pgmesh/internal/terraform"
	"github.com/pgmesh/pgmesh/kinds"
)

// Terraform takes the schema, which has every kind, and says what each field is for.
func TestSchema(t *testing.T) {
	t.Parallel()
	server, err := providerserver.NewProtocol6WithError(provider.New("test")())()
	require.NoError(t, err)
	resp, err := server.GetProviderSchema(t.Context(), &tfprotov6.GetProviderSchemaRequest{})
	require.NoError(t, err)
	require.Empty(t, resp.Diagnostics)
	for _, k := range kinds.All() {
		require.Contains(t, resp.ResourceSchemas, terraform.ResourceType(k))
	}
	described, fields := count(resp.ResourceSchemas["pgmesh_virtual_service"].Block)
	require.Greater(t, fields, 100)
	require.Greater(t, described, fields*3/4, "fields of protobuf without a comment have none")
	for _, a := range resp.Provider.Block.Attributes {
		require.NotContains(t, a.Description, "--", "flags are not known here")
		require.True(t, a.Name != "token" || a.Sensitive)
	}
}

func count(b *tfprotov6.SchemaBlock) (described, fields int) {
	for _, a := range b.Attributes {
		fields++
		if strings.TrimSpace(a.Description) != "" {
			described++
		}
	}
	for _, inner := range b.BlockTypes {
		d, f := count(inner.Block)
		if inner.Block.Description != "" {
			d++
		}
		described, fields = described+d, fields+f+1
	}
	return described, fields
}
