package version

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTheCommitIsInAVersionWithoutATag(t *testing.T) {
	t.Parallel()
	for version, commit := range map[string]string{
		"v0.0.0-20260102150405-0123456789ab":         "0123456789ab",
		"v1.2.4-0.20260102150405-0123456789ab+dirty": "0123456789ab",
		"v1.2.3": "", "v1.2.3-rc1": "", "(devel)": "", "": "", "v1-2-3": "",
	} {
		require.Equal(t, commit, commitIn(version), version)
	}
	require.NotEmpty(t, OfBuild().Go)
}
