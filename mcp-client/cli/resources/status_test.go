package resources_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/clitest"
	"github.com/pgmesh/pgmesh/store/rollout"
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

	for args, want := range map[string]string{
		"--sort-by .status.proxies.running":                              "api web ",
		`--sort-by {.status.conditions[?(@.type=="Programmed")].status}`: "web api ",
		"--sort-by .metadata.resourceVersion":                            "api web ",
		"--field-selector status.proxies.refusing=1":                     "web ",
		"--field-selector metadata.resourceVersion=1":                    "api ",
	} {
		require.Equal(t, want, m.OK(append(strings.Fields("get vs -n shop "+args), "-o", "jsonpath={range .items[*]}{.metadata.name} {end}")...), args)
	}

	colored := m.OK("get", "vs", "-n", "shop", "--color", "always")
	require.Contains(t, colored, "\x1b[31mUnknownHost\x1b[0m ")
	plain := regexp.MustCompile(`\x1b\[\d+m`).ReplaceAllString(colored, "")
	require.Equal(t, ages.ReplaceAllString(m.OK("get", "vs", "-n", "shop"), "<age>"), ages.ReplaceAllString(plain, "<age>"), "colours take no place in a column")
}

// What changes is printed with its status, and again as it comes further.
func TestGetWatchesWhatBecomesOfResources(t *testing.T) {
	t.Parallel()
	m := clitest.Start(t)
	send := m.ReportRefusal()
	w := m.Follow("get", "vs", "-n", "shop", "-w")
	lines := w.Lines(w.Out, 3)
	require.Regexp(t, `^NAMESPACE +NAME +GATEWAYS +HOSTS +STATUS +PROXIES +AGE$`, lines[0])
	require.Regexp(t, `^shop +web +mesh +\S+ +UnknownHost +1/3 +\d+s$`, lines[2])

	send(rollout.Message{Revision: 2, Proxies: []rollout.Proxy{clitest.ProxyOf(2, "shop", "pay", "sidecar")}})
	require.Regexp(t, `^shop +web +mesh +\S+ +UnknownHost +2/3 +\d+s$`, w.Lines(w.Out, 1)[0])
	m.Apply(clitest.VirtualService("shop", "new", "new.shop"))
	require.Regexp(t, `^shop +new +mesh +\S+ +\S+ +0/0 +\d+s$`, w.Lines(w.Out, 1)[0])
	m.OK("delete", "vs/new", "-n", "shop")
	require.Equal(t, "virtualservice.networking.istio.io/shop/new deleted", w.Lines(w.Out, 1)[0])
	require.Equal(t, 130, w.Interrupt())

	m = clitest.Start(t)
	m.Apply(clitest.VirtualService("shop", "early", "early.shop"))
	w = m.Follow("get", "vs", "-n", "shop", "-w")
	require.NotContains(t, w.Lines(w.Out, 1)[0], "STATUS", "no discovery reports anything")
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
