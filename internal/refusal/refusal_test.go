package refusal_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/internal/refusal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

func TestReasonsTravelInStatuses(t *testing.T) {
	t.Parallel()
	for number := range identityv1.Refusal_name {
		reason := identityv1.Refusal(number)
		require.Equal(t, reason, refusal.Parse(refusal.Word(reason)))
		if reason == identityv1.Refusal_REFUSAL_UNSPECIFIED {
			continue
		}
		err := refusal.New(reason, "no, %s", "thanks")
		require.Equal(t, refusal.CodeOf(reason), status.Code(err))
		require.NotEqual(t, codes.OK, status.Code(err))
		require.Equal(t, "no, thanks", status.Convert(err).Message())
		require.Equal(t, reason, refusal.Of(fmt.Errorf("joining: %w", err)))
	}
	require.Equal(t, "token_used", refusal.Word(identityv1.Refusal_REFUSAL_TOKEN_USED))
	require.NotZero(t, refusal.Parse("of_a_newer_program"))
	require.Zero(t, refusal.Of(errors.New("another")))
	require.Zero(t, refusal.Of(nil))
}
