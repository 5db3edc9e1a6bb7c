package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
)

func to(host, more string) string {
	return fmt.Sprintf(`{"route": [{"destination": {"host": %q}}]%s}`, host, more)
}

func routing(routes ...string) string {
	return fmt.Sprintf(`{"hosts": ["a"], "http": [%s]}`, strings.Join(routes, ", "))
}

// What the quick check does not pass costs a walk to the letter, so it has to pass what people
// write.
func TestQuickCheckPassesWhatPeopleWrite(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	long := strings.Repeat("a", 60) + "." + strings.Repeat("b", 60)
	for spec, passes := range map[string]bool{
		routing(to("a", "")):                                                         true,
		routing(to(long, "")):                                                        true, // too long for the one predicate
		routing(to("a", `, "timeout": "5s"`)):                                        true,
		routing(to("a", `, "timeout": "1500ms"`)):                                    true,
		routing(to("a", `, "timeout": "0.25s"`)):                                     true,
		routing(to("a", `, "timeout": "12345678s"`)):                                 true, // too long for it, too
		routing(to("a", `, "timeout": "1h30m"`)):                                     false,
		routing(to("a", `, "timeout": "0s"`)):                                        false, // is refused
		routing(to("a", `, "timeout": "0.0001s"`)):                                   false,
		routing(to("a", `, "retries": {"attempts": 2.0}`)):                           true,
		routing(to("a", `, "retries": {"attempts": 2.5}`)):                           false,
		routing(to("a", `, "retries": {"attempts": "2"}`)):                           false,
		routing(to("a", `, "match": [{"uri": {"regex": "^/(a|b)/[0-9]+$"}}]`)):       true,
		routing(to("a", `, "match": [{"uri": {"regex": "^/(?P<a>x{2,3})$"}}]`)):      true, // is parsed
		routing(to("a", `, "match": [{"uri": {"regex": "("}}]`)):                     false,
		routing(to("a", `, "match": [{"headers": {"x": {"exact": ["b"]}}}]`)):        false,
		routing(to("a", `, "match": [[{"uri": {"prefix": "/"}}]]`)):                  false,
		routing(to("a", `, "match": {"uri": {"prefix": "/"}}`)):                      false,
		routing(to("a", `, "match": [{"uri": {"prefix": "/", "exact": "/"}}]`)):      false,
		routing(to("a", `, "headers": {"request": {"set": {"x": "y", ":z": "1"}}}`)): false,
		routing(to("a", `, "wieght": 1`)):                                            false,
		routing(to("a", `, "rewrite": null`)):                                        false,
	} {
		e := specOf(t, "VirtualService", spec)
		require.Equal(t, passes, db.passes(e), spec)
		db.requireAgreement(e)
	}
	for spec, kind := range map[string]string{
		`{"hosts": ["a"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "STATIC", "endpoints": [{"address": "2001:db8::1"}, {"address": "10.0.0.1"}]}`: "ServiceEntry",
		`{"selector": {"matchLabels": {"app": "a"}}, "rules": [{"from": [{"source": {"ipBlocks": ["2001:db8::/32"]}}]}]}`:                                                             "AuthorizationPolicy",
	} {
		require.True(t, db.passes(specOf(t, kind, spec)), spec)
	}
}

// Where a spec was another before, only what differs is looked at, wherever it moved.
func TestQuickCheckLooksAtWhatDiffers(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	a, b, c := to("a", ""), to("b", ""), to("c", "")
	wrong := to("d", `, "timeout": "soon"`)
	for _, test := range []struct {
		before, after string
		passes        bool
	}{
		{routing(a, b), routing(a, b), true},
		{routing(a, b), routing(c, a, b), true},
		{routing(a, b, c), routing(b, c), true},
		{routing(a, b), routing(wrong, a, b), false},
		{routing(a, b), routing(a, wrong), false},
		{routing(a, b), routing(a, b, wrong), false},
		{routing(wrong, a), routing(wrong, b), true},
		{routing(a, wrong), routing(b, a, wrong), true},
		{`{"hosts": ["a"], "http": {}}`, routing(wrong), false},
		{`{"hosts": ["a"], "http": "x"}`, routing(a), true},
		{`"x"`, routing(a), true},
		{routing(a), `"x"`, false},
		{routing(a), `{"hosts": ["a"], "http": []}`, false},
		{routing(a), `{"hosts": ["a", "A b"], "http": [` + a + `]}`, false},
	} {
		require.Equal(t, test.passes, db.passesAfter(json.RawMessage(test.before), specOf(t, "VirtualService", test.after)), "from %s to %s", test.before, test.after)
	}
}

func specOf(t *testing.T, name, spec string) exam {
	t.Helper()
	kind, err := kinds.ByName(name)
	require.NoError(t, err)
	return exam{kind: kind, spec: json.RawMessage(spec)}
}
