package quarantine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/pgmesh/pgmesh/internal/ads/quarantine"
	"github.com/pgmesh/pgmesh/internal/ads/served"
)

var now = time.Unix(1000, 0)

// res makes the resource "name" with a version.
func res(name, version string) *served.Resource {
	return &served.Resource{Name: name, Version: version, Body: &anypb.Any{}}
}

// refused is a verdict on a response that had nothing but these resources in it.
func refused(reason string, sent ...quarantine.Sent) quarantine.Verdict {
	return quarantine.Verdict{Refused: sent, Alone: len(sent) == 1, Reason: reason}
}

func accepted(resources ...*served.Resource) quarantine.Verdict {
	return quarantine.Verdict{Accepted: resources}
}

// first is a resource of which the client had nothing.
func first(name, version string) quarantine.Sent {
	return quarantine.Sent{Resource: res(name, version)}
}

// second is the version 2 of what the client has in the version 1.
func second(name string) quarantine.Sent {
	return quarantine.Sent{Resource: res(name, "2"), Before: res(name, "1")}
}

// heal refuses a response with some resources, and answers what the quarantine sends next, until
// that is nothing. A refusal gives a reason for the resources that are refused. It returns the
// responses.
func heal(q *quarantine.Quarantine, names []string, bad func(name string) bool, reason func(bad []string) string) (responses []string) {
	for response := names; len(response) > 0; response = q.Next() {
		responses = append(responses, strings.Join(response, " "))
		v := quarantine.Verdict{}
		var culprits []string
		for _, name := range response {
			if bad(name) {
				culprits = append(culprits, name)
			}
			v.Accepted, v.Refused = append(v.Accepted, res(name, "1")), append(v.Refused, first(name, "1"))
		}
		if len(culprits) == 0 {
			v.Refused = nil
		} else {
			v.Accepted, v.Reason, v.Alone = nil, reason(culprits), len(response) == 1 && len(responses) > 1
		}
		q.Answered(v, now)
		q.Conclude()
	}
	return responses
}

func withheld(q *quarantine.Quarantine) (names []string) {
	for _, r := range q.Refused() {
		names = append(names, r.Name)
	}
	return names
}

func silent([]string) string { return "something is wrong" }

func named(bad []string) string {
	return "Error adding/updating cluster(s) " + strings.Join(bad, ": no such thing, ") + ": no such thing"
}

func TestOneResourceIsRefusedOfMany(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		names, refused string
		reason         func([]string) string
		responses      []string
	}{
		"the reason names it": {
			"a b c", "b", named,
			[]string{"a b c", "a c", "b"},
		},
		"the reason names several": {
			"a b c d", "b d", named,
			[]string{"a b c d", "a c", "b", "d"},
		},
		"the reason names another": {
			"a b c", "b", func([]string) string { return "a is wrong" },
			[]string{"a b c", "b c", "a", "b", "c"},
		},
		"the reason names all": {
			"a b", "b", func([]string) string { return "a, or b" },
			[]string{"a b", "a", "b"},
		},
		"the reason names none": {
			"a b c d e f g h", "f", silent,
			[]string{"a b c d e f g h", "a b c d", "e f g h", "e f", "g h", "e", "f"},
		},
		"none is accepted": {
			"a b c d", "a b c d", silent,
			[]string{"a b c d", "a b", "c d", "a", "b", "c", "d"},
		},
		"there is one left of several": {
			"a", "", func([]string) string { return "a" },
			[]string{"a"},
		},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			q, bad := quarantine.New(false), strings.Fields(c.refused)
			require.Equal(t, c.responses, heal(q, strings.Fields(c.names), func(name string) bool { return slices.Contains(bad, name) }, c.reason))
			require.Equal(t, c.refused, strings.Join(withheld(q), " "))
			require.Zero(t, q.Doubts())
			require.Equal(t, len(bad) == 0, q.Conclude())
		})
	}
}

// A client that has let go of all others of a refused response has not refused the last one alone.
func TestWhatIsLeftOfARefusedResponseIsNotRefusedYet(t *testing.T) {
	t.Parallel()
	q := quarantine.New(false)
	q.Answered(quarantine.Verdict{Refused: []quarantine.Sent{first("a", "1")}, Reason: "one of them is wrong"}, now)
	require.Empty(t, q.Refused())
	require.Equal(t, []string{"a"}, q.Next())
	q.Answered(accepted(res("a", "1")), now)
	require.True(t, q.Conclude())
}

func TestOneOfManyIsFoundInFewResponses(t *testing.T) {
	t.Parallel()
	var all []string
	for i := range 2000 {
		all = append(all, fmt.Sprintf("n%04d", i))
	}
	bad := func(name string) bool { return name == "n1234" }
	require.Len(t, heal(quarantine.New(false), all, bad, silent), 1+2*11)
	require.Len(t, heal(quarantine.New(false), all, bad, named), 1+2)
}

// What was refused alone is withheld in this version, and in its place the client has what it
// accepted last.
func TestWhatWasRefusedIsWithheldUntilItChanges(t *testing.T) {
	t.Parallel()
	q := quarantine.New(false)
	kept := q.Answered(refused("no", second("a")), now)
	require.Equal(t, quarantine.Kept{Resource: res("a", "1")}, kept)
	require.True(t, q.Changed())
	require.False(t, q.Changed(), "it was told")
	require.Equal(t, []quarantine.Refused{{Name: "a", Version: "2", Reason: "no", Since: now}}, q.Refused())

	r, is := q.Withholds(res("a", "2"))
	require.True(t, is)
	require.Equal(t, res("a", "1"), r)
	_, is = q.Withholds(res("a", "3"))
	require.False(t, is)
	_, is = q.Withholds(res("b", "2"))
	require.False(t, is)

	q.Answered(refused("still no", quarantine.Sent{Resource: res("a", "3"), Before: res("a", "1")}), now.Add(time.Minute))
	require.Equal(t, []quarantine.Refused{{Name: "a", Version: "3", Reason: "still no", Since: now}}, q.Refused(), "since it was refused first")
	q.Answered(accepted(res("a", "4")), now)
	require.True(t, q.Conclude())
	require.True(t, q.Changed())
}

func TestARefusalEndsWithItsResource(t *testing.T) {
	t.Parallel()
	for what, end := range map[string]func(*quarantine.Quarantine){
		"it is gone":                       func(q *quarantine.Quarantine) { q.Review("a", nil) },
		"it is again as the client has it": func(q *quarantine.Quarantine) { q.Review("a", res("a", "1")) },
		"the client does not want it":      func(q *quarantine.Quarantine) { q.Forget(func(name string) bool { return name == "a" }) },
		"the client accepts another":       func(q *quarantine.Quarantine) { q.Answered(accepted(res("a", "3")), now) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			q := quarantine.New(false)
			q.Answered(refused("no", second("a")), now)
			q.Review("a", res("a", "2"))
			q.Forget(func(string) bool { return false })
			q.EndDoubt("a")
			q.Answered(accepted(res("a", "1")), now) // which it has
			require.False(t, q.Conclude())
			end(q)
			require.True(t, q.Conclude())
			require.Empty(t, q.Refused())
		})
	}
}

// A client that was sent several versions since it accepted one may have any of them.
func TestAClientIsSentAgainWhatItMayHaveLost(t *testing.T) {
	t.Parallel()
	q := quarantine.New(false)
	q.Answered(refused("no", second("a"), second("b")), now)
	kept := q.Answered(refused("no", quarantine.Sent{Resource: res("a", "3")}), now)
	require.Equal(t, quarantine.Kept{Resource: res("a", "1"), Unsure: true}, kept, "it may have taken 2 when it refused b with it")
	kept = q.Answered(refused("no", second("b")), now)
	require.Equal(t, quarantine.Kept{Resource: res("b", "1")}, kept)

	kept = q.Answered(refused("no", quarantine.Sent{Resource: res("a", "4")}), now)
	require.True(t, kept.Needed, "it was not sent yet")
	q.Answered(accepted(res("a", "1")), now)
	kept = q.Answered(refused("no", quarantine.Sent{Resource: res("a", "5")}), now)
	require.Equal(t, quarantine.Kept{Resource: res("a", "1")}, kept)

	one := second("c")
	one.Needed = true
	require.True(t, q.Answered(refused("no", one), now).Needed, "it needs it, changed or not")
}

// Of a version that a client accepted once and refuses now, nothing is kept.
func TestWhatIsRefusedAfterItWasAcceptedIsWithheld(t *testing.T) {
	t.Parallel()
	q := quarantine.New(false)
	kept := q.Answered(refused("not any more", quarantine.Sent{Resource: res("a", "1"), Before: res("a", "1")}), now)
	require.Nil(t, kept.Resource)
	require.Equal(t, []quarantine.Refused{{Name: "a", Version: "1", Reason: "not any more", Since: now}}, q.Refused())

	q.Answered(refused("no", second("b")), now)
	kept = q.Answered(refused("nor that", quarantine.Sent{Resource: res("b", "1")}), now)
	require.Nil(t, kept.Resource)
	_, is := q.Withholds(res("b", "2"))
	require.True(t, is, "what was refused first stays so")
}

// A response that was given up may have been applied, so what was tried in it is tried again, and
// first.
func TestWhatWasTriedWithoutAnAnswerIsTriedAgain(t *testing.T) {
	t.Parallel()
	q := quarantine.New(false)
	q.Answered(refused("b", second("a"), second("b"), second("c")), now)
	q.Answered(refused("no", second("d")), now)
	require.Equal(t, []string{"a", "c"}, q.Next())
	q.Overtaken([]*served.Resource{res("a", "2"), res("c", "3"), res("d", "3"), res("e", "2")})
	require.Equal(t, []string{"a", "c"}, q.Next())
	require.True(t, q.Answered(refused("no", quarantine.Sent{Resource: res("c", "3")}), now).Unsure)
	require.True(t, q.Answered(refused("no", quarantine.Sent{Resource: res("d", "4")}), now).Needed)
}

func TestNobodyTriesWhatIsGone(t *testing.T) {
	t.Parallel()
	q := quarantine.New(false)
	q.Answered(refused("no", first("a", "1"), first("b", "1"), first("c", "1"), first("d", "1")), now)
	q.EndDoubt("a")
	q.Forget(func(name string) bool { return name == "b" })
	require.Equal(t, 2, q.Doubts())
	require.True(t, q.Pending())
	require.Equal(t, []string{"c", "d"}, q.Next())
	require.False(t, q.Pending())
	require.Empty(t, q.Next())
}

func TestAReasonIsKeptShort(t *testing.T) {
	t.Parallel()
	q := quarantine.New(false)
	q.Answered(refused(strings.Repeat("no ", 10_000), first("a", "1")), now)
	require.Less(t, len(q.Refused()[0].Reason), 2*quarantine.MaxReason)
}

// A host is refused because another one still has its domain, and then a change takes the domain
// from the other. The refused host must be tried again after that, but not with every change of
// another host.
func TestARefusedHostIsTriedOnceWhenAnotherIsAccepted(t *testing.T) {
	t.Parallel()
	q := quarantine.New(true)
	q.Answered(refused("duplicate entry of domain one", second("80/a")), now)
	q.Conclude()
	require.False(t, q.Pending(), "nothing has changed")
	q.Answered(accepted(res("81/b", "2")), now)
	q.Conclude()
	require.False(t, q.Pending(), "it is of another owner")

	q.Answered(accepted(res("80/b", "2")), now)
	q.Conclude()
	require.Equal(t, []string{"80/a"}, q.Next())
	q.Answered(refused("duplicate entry of domain one", second("80/a")), now)
	q.Conclude()
	q.Answered(accepted(res("80/b", "3")), now)
	q.Conclude()
	require.False(t, q.Pending(), "it was tried")
}

// Most clients refuse nothing, and have no quarantine.
func TestWithoutAQuarantineNothingIsInDoubt(t *testing.T) {
	t.Parallel()
	var q *quarantine.Quarantine
	require.False(t, q.InDoubt("a"))
	require.False(t, q.Pending())
	require.Zero(t, q.Doubts())
	require.Nil(t, q.Get("a"))
	require.Empty(t, q.Refused())
}
