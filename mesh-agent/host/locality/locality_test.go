package locality_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/mesh-agent/host/locality"
)

func TestEachCloudSaysWhereAMachineIs(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ document, want string }{
		"AWS":                  {`{"accountId":"1","region":"eu-west-1","availabilityZone":"eu-west-1a","instanceId":"i-1"}`, "eu-west-1/eu-west-1a"},
		"GCP":                  {`{"id":1,"zone":"projects/123/zones/europe-west1-b"}`, "europe-west1/europe-west1-b"},
		"GCP with the project": {`{"instance":{"zone":"projects/123/zones/us-central1-f"},"project":{"projectId":"p"}}`, "us-central1/us-central1-f"},
		"Azure":                {`{"compute":{"location":"westeurope","zone":"2","platformFaultDomain":"1"}}`, "westeurope/2/1"},
		"Azure without zones":  {`{"compute":{"location":"westeurope","zone":"","platformFaultDomain":"1"}}`, "westeurope"},
		"cloud-init":           {`{"v1":{"region":"eu-west-1","availability_zone":"eu-west-1a","cloud_name":"aws"},"ds":{}}`, "eu-west-1/eu-west-1a"},
		"cloud-init of GCP":    {`{"v1":{"region":"europe-west1","availability_zone":"europe-west1-b"}}`, "europe-west1/europe-west1-b"},
	} {
		found, err := locality.Of(write(t, c.document))
		require.NoError(t, err, name)
		require.Equal(t, c.want, found, name)
	}
}

func TestAFileThatSaysNothingIsAnErrorWhereItWasAskedFor(t *testing.T) {
	t.Parallel()
	_, err := locality.Of(write(t, `{"v1":{"region":null}}`))
	require.ErrorContains(t, err, "says nothing of a region")
	_, err = locality.Of(write(t, `eu-west-1`))
	require.ErrorContains(t, err, "not the JSON of a cloud")
	_, err = locality.Of(filepath.Join(t.TempDir(), "none"))
	require.ErrorIs(t, err, os.ErrNotExist)
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "metadata.json")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}
