package resources_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
)

func TestGetShowsWhatBecameOfResources(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.Apply(clitest.VirtualService("shop", "early", "early.shop"))
	require.NotContains(t, m.OK("get", "vs", "-n", "shop"), "STATUS", "no discovery reports anything")

	m = clitest.Start(t)
	m.ReportRefusal()
	require.Regexp(t, `\ANAMESPACE +NAME +GATEWAYS +HOSTS +STATUS +PROXIES +AGE
shop +api +mesh +\S+ +UnknownHost +0/0 +\d+s
shop +web +mesh +\S+ +UnknownHost +1/3 +\d+s
\z`, m.OK("get", "vs", "-n", "shop"))

	var one struct {
		Status struct {
			ObservedRevision int64
			Conditions       []struct{ Type, Status, Reason, Message, LastTransitionTime string }
			Proxies          map[string]int
		}
	}
	require.NoError(t, json.Unmarshal([]byte(m.OK("get", "vs/web", "-n", "shop", "-o", "json")), &one))
	require.EqualValues(t, 2, one.Status.ObservedRevision)
	require.Equal(t, map[string]int{"concerned": 3, "running": 1, "refusing": 1}, one.Status.Proxies)
	conditions := map[string]string{}
	for _, c := range one.Status.Conditions {
		require.NotEmpty(t, c.LastTransitionTime)
		conditions[c.Type] = c.Status + " " + c.Reason
	}
	require.Equal(t, map[string]string{"Accepted": "True Accepted", "ResolvedRefs": "False UnknownHost", "Programmed": "False Refused"}, conditions)

	yaml := m.OK("get", "vs", "-n", "shop", "-o", "yaml")
	require.Contains(t, yaml, "1 of 3 proxies refuse it: shop/pay.shop refuses 80: no such thing")
	require.Contains(t, m.Pipe(yaml, "apply", "-f", "-", "-n", "shop").Out, "nothing", "what get prints can be applied again")
	require.Equal(t, 2, strings.Count(m.OK("get", "vs", "-n", "shop", "-o", "name"), "\n"))
}

func TestDescribeShowsWhoRunsAResource(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	m.ReportRefusal()
	require.Regexp(t, `(?s)\nStatus:
  Accepted +True +Accepted.*
  Programmed +False +Refused +1 of 3 proxies refuse it: shop/pay.shop refuses 80: no such thing.*
Proxies \(1 of 3 run it\):
  bank/gate.bank +sending +runs revision 1 +does not run it yet
  shop/pay.shop +refused +runs revision 1 +does not run it yet
  shop/cart.shop +synced +runs revision 2 +runs it
`, m.OK("describe", "vs/web", "-n", "shop"))
}
