package register_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/pgmesh/pgmesh/discovery/mesh"
	"github.com/pgmesh/pgmesh/kinds"
	machinev1 "github.com/pgmesh/pgmesh/proto/pgmesh/machine/v1"
)

func TestMachinesAreToldThatTheServerIsAwayAndReportedWhenItIsBack(t *testing.T) {
	t.Parallel()
	d := start(t, false)
	before := d.connect("", described("before", "cart"))
	before.registered()
	d.one()
	vanishes := d.connect("", described("vanishes", "cart"))
	vanishes.registered()
	d.one()

	d.stop()
	meanwhile := d.connect("", described("meanwhile", "cart"))
	answer := meanwhile.told()
	require.True(t, answer.GetRefused().GetPassing(), answer)
	require.Contains(t, answer.GetRefused().GetReason(), "mcp-server")
	before.report("cart", unhealthy, "meanwhile")
	vanishes.cancel()

	d.start()
	require.Equal(t, "cart-meanwhile", meanwhile.registered())
	said := map[string]string{}
	for len(said) < 3 {
		b := d.next()
		require.Equal(t, 2, b.session)
		for _, c := range b.changes {
			said[c.GetMachine()] = c.GetState().String() + c.GetService().GetDetail()
		}
	}
	require.Equal(t, map[string]string{"before": "STATE_HEREmeanwhile", "meanwhile": "STATE_HERE", "vanishes": "STATE_GONE"}, said)

	// A machine that stayed registered was told nothing.
	before.leave()
	require.NotNil(t, before.told().GetLeft())
}

func TestTheLaterOfTwoStreamsOfAMachineCounts(t *testing.T) {
	t.Parallel()
	d := start(t, true)
	early, late := described("a", "cart"), described("a", "cart")
	first := d.connect("cart", early)
	first.registered()
	d.one()
	second := d.connect("cart", late)
	s := first.ends()
	require.Equal(t, codes.Aborted, s.Code())
	require.Contains(t, s.Message(), "--id")
	second.registered()
	require.Equal(t, late.GetSince(), d.one().GetSince())
	require.Equal(t, codes.Aborted, d.connect("cart", early).ends().Code(), "one that comes late is not the later")

	// Another client with the same name does not matter here: mcp-server knows whom the group is
	// for.
	d.decide(func(c *machinev1.Change) *machinev1.Outcome {
		if c.GetServiceAccount() != "cart" {
			return &machinev1.Outcome{Refused: "the group is for cart"}
		}
		return &machinev1.Outcome{Entry: "cart-a"}
	})
	thief := d.connect("ads", described("a", "cart"))
	require.Equal(t, "the group is for cart", thief.told().GetRefused().GetReason())
	require.Equal(t, "ads", d.one().GetServiceAccount())
	second.leave()
	require.NotNil(t, second.told().GetLeft(), "it is there as ever")

	// mcp-server tells that another discovery has the machine by now.
	d.decide(func(*machinev1.Change) *machinev1.Outcome { return &machinev1.Outcome{Superseded: true} })
	require.Equal(t, codes.Aborted, d.connect("cart", described("b", "cart")).ends().Code())
}

func TestOneCertificateHasFewStreams(t *testing.T) {
	t.Parallel()
	d := start(t, true)
	var streams []*machine
	for i := range 16 {
		m := d.connect("cart", described(fmt.Sprint("m", i), "cart"))
		m.registered()
		streams = append(streams, m)
	}
	require.Equal(t, codes.ResourceExhausted, d.connect("cart", described("one-more", "cart")).ends().Code())
	streams[0].leave()
	require.NotNil(t, streams[0].told().GetLeft())
	streams[0].ends()
	d.connect("cart", described("one-more", "cart")).registered()
}

func TestNamesakes(t *testing.T) {
	t.Parallel()
	d := startEmpty(t, true)
	client := machinev1.NewMachineServiceClient(d.conn)
	ask := func(account, id string) []string {
		t.Helper()
		answer, err := client.Namesakes(metadata.AppendToOutgoingContext(t.Context(), "account", account), &machinev1.NamesakesRequest{Id: id})
		require.NoError(t, err)
		var all []string
		for _, n := range answer.GetNamesakes() {
			all = append(all, n.GetGroup()+" "+n.GetEntry()+" "+n.GetAddress())
		}
		return all
	}
	_, err := client.Namesakes(t.Context(), &machinev1.NamesakesRequest{Id: "m"})
	require.Equal(t, codes.Unauthenticated, status.Code(err))
	_, err = client.Namesakes(metadata.AppendToOutgoingContext(t.Context(), "account", "cart"), &machinev1.NamesakesRequest{Id: "m"})
	require.Equal(t, codes.Unavailable, status.Code(err), "nobody knows yet")

	const entry = `
apiVersion: networking.istio.io/v1
kind: WorkloadEntry
metadata: {name: %s, namespace: shop, annotations: {mesh.pgmesh.io/machine: %s, istio.io/autoRegistrationGroup: G}}
spec: {address: 10.0.0.1, serviceAccount: %s}
---`
	d.apply(fmt.Sprintf(entry+entry+entry+entry, "a", "m", "cart", "b", "m", "cart", "c", "m", "other", "d", "n", "cart"))
	require.Equal(t, []string{"G a 10.0.0.1", "G b 10.0.0.1"}, ask("cart", "m"))
	require.Equal(t, []string{"G c 10.0.0.1"}, ask("other", "m"))
	require.Empty(t, ask("cart", "x"))
	d.apply(fmt.Sprintf(entry, "a", "x", "cart"), kinds.Key{Kind: mesh.WorkloadEntry, Namespace: "shop", Name: "b"})
	require.Empty(t, ask("cart", "m"))
	require.Equal(t, []string{"G a 10.0.0.1"}, ask("cart", "x"))
}
