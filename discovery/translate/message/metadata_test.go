package message

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestKindsArePathsAsIstioWritesThem(t *testing.T) {
	t.Parallel()
	require.Equal(t, "destination-rule", kebab("DestinationRule"))
}
