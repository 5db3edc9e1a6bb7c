package refusal_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/identity/refusal"
	identityv1 "github.com/pgmesh/pgmesh/proto/pgmesh/identity/v1"
)

func TestReasonsRoundTripThroughStatuses(t *testing.T) {
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

// Strangers may have written part of the text: it must be bounded and valid UTF-8.
func TestTextIsBounded(t *testing.T) {
	t.Parallel()
	for _, said := range []string{strings.Repeat("é", 5000), strings.Repeat("a", 999) + "é", strings.Repeat("\xffa", 5000), "a\xffb", "€"} {
		err := refusal.New(identityv1.Refusal_REFUSAL_REQUEST, "%s", said)
		text := status.Convert(err).Message()
		require.True(t, utf8.ValidString(text), text)
		require.LessOrEqual(t, len(text), 1000+len("…"))
		require.Equal(t, len(said) > 1000, strings.HasSuffix(text, "…"), text)
		require.Equal(t, text, err.Error())
		require.Equal(t, identityv1.Refusal_REFUSAL_REQUEST, refusal.Of(status.Convert(err).Err()), "it travels")
	}
	require.Equal(t, "a\uFFFDb", refusal.Short("a\xffb", 10))
	require.Equal(t, "…", refusal.Short("€", 2), "no half of a letter")
}

func TestWrongClaimsArePermissionDenied(t *testing.T) {
	t.Parallel()
	require.Equal(t, codes.PermissionDenied, refusal.CodeOf(identityv1.Refusal_REFUSAL_JWT_CLAIMS))
	require.Equal(t, codes.Unauthenticated, refusal.CodeOf(identityv1.Refusal_REFUSAL_JWT_SIGNATURE))
}

func TestWhom(t *testing.T) {
	t.Parallel()
	err := status.Convert(refusal.NewFor("shop", "cart", identityv1.Refusal_REFUSAL_TOKEN_USED, "used")).Err()
	namespace, account := refusal.Whom(err)
	require.Equal(t, []string{"shop", "cart"}, []string{namespace, account})
	namespace, account = refusal.Whom(refusal.New(identityv1.Refusal_REFUSAL_TOKEN_USED, "used"))
	require.Empty(t, namespace+account)
}
