package legacy_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	rpcstatus "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	meshconfig "istio.io/api/mesh/v1alpha1"
	networking "istio.io/api/networking/v1alpha3"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
	legacyv1 "github.com/pgmesh/pgmesh/proto/istio/mcp/v1alpha1"
)

// pilots are the collections that Pilots of any release ask for.
var pilots = strings.Fields(`
	istio/networking/v1alpha3/virtualservices istio/networking/v1alpha3/gateways istio/networking/v1alpha3/serviceentries
	istio/networking/v1alpha3/destinationrules istio/networking/v1alpha3/envoyfilters istio/networking/v1alpha3/sidecars
	istio/networking/v1alpha3/synthetic/serviceentries istio/networking/v1alpha3/workloadentries istio/networking/v1alpha3/workloadgroups
	istio/security/v1beta1/authorizationpolicies istio/security/v1beta1/requestauthentications istio/security/v1beta1/peerauthentications
	istio/rbac/v1alpha1/authorizationpolicies istio/authentication/v1alpha1/policies istio/authentication/v1alpha1/meshpolicies
	istio/rbac/v1alpha1/serviceroles istio/rbac/v1alpha1/servicerolebindings istio/rbac/v1alpha1/rbacconfigs
	istio/rbac/v1alpha1/clusterrbacconfigs istio/config/v1alpha2/httpapispecs istio/config/v1alpha2/httpapispecbindings
	istio/mixer/v1/config/client/quotaspecs istio/mixer/v1/config/client/quotaspecbindings`)

// others are collections that only Mixer, or people, ask for.
var others = strings.Fields(`
	istio/policy/v1beta1/attributemanifests istio/policy/v1beta1/instances istio/policy/v1beta1/handlers istio/policy/v1beta1/rules
	istio/config/v1alpha2/adapters istio/config/v1alpha2/templates istio/config/v1alpha2/legacy/deniers istio/config/v1alpha2/legacy/zipkins
	istio/mesh/v1alpha1/MeshConfig istio/mesh/v1alpha1/MeshNetworks
	k8s/core/v1/nodes k8s/core/v1/namespaces k8s/extensions/v1beta1/ingresses`)

func TestEveryCollectionIsAnswered(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	s := m.connect()
	for _, c := range append(pilots, others...) {
		s.ask(c)
		r := s.recv()
		require.Equal(t, c, r.GetCollection())
		require.Equal(t, c+"/0", r.GetSystemVersionInfo())
		require.Empty(t, r.GetResources())
		require.NotEmpty(t, r.GetNonce())
	}
}

func TestEveryKindWithACollectionIsServed(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.sql(`INSERT INTO mesh.resources (kind, api_group, namespace, name, spec) VALUES
		('AuthorizationPolicy', 'security.istio.io', 'shop', 'x', '{}'),
		('DestinationRule', 'networking.istio.io', 'shop', 'x', '{"host": "a"}'),
		('EnvoyFilter', 'networking.istio.io', 'shop', 'x', '{"configPatches": [{"applyTo": "CLUSTER", "patch": {"operation": "REMOVE"}}]}'),
		('Gateway', 'networking.istio.io', 'shop', 'x', '{"servers": [{"port": {"number": 80, "name": "http", "protocol": "HTTP"}, "hosts": ["*"]}]}'),
		('PeerAuthentication', 'security.istio.io', 'shop', 'x', '{}'),
		('RequestAuthentication', 'security.istio.io', 'shop', 'x', '{}'),
		('ServiceEntry', 'networking.istio.io', 'shop', 'x', '{"hosts": ["a.example"], "ports": [{"number": 80, "name": "http", "protocol": "HTTP"}], "resolution": "DNS"}'),
		('Sidecar', 'networking.istio.io', 'shop', 'x', '{"egress": [{"hosts": ["./*"]}]}'),
		('VirtualService', 'networking.istio.io', 'shop', 'x', '{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}}]}]}'),
		('WorkloadEntry', 'networking.istio.io', 'shop', 'x', '{"address": "10.0.0.1"}'),
		('WorkloadGroup', 'networking.istio.io', 'shop', 'x', '{"template": {"serviceAccount": "a"}}'),
		('MeshConfig', 'core', 'istio-system', 'istio', '{}'),
		('MeshNetworks', 'core', 'istio-system', 'istio', '{"networks": {}}')`)
	s := m.connect()
	for _, k := range kinds.All() {
		if k.Collection == "" {
			continue
		}
		s.ask(k.Collection)
		r := s.recv()
		require.Len(t, r.GetResources(), 1, k.Collection)
		require.Equal(t, "type.googleapis.com/"+string(k.Message), r.GetResources()[0].GetBody().GetTypeUrl())
	}
	s.ask("istio/networking/v1alpha3/synthetic/serviceentries")
	require.Empty(t, s.recv().GetResources(), "what is made from Kubernetes would come twice")
}

func TestAResourceIsWhatGalleySends(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	before := time.Now().Add(-time.Minute)
	m.write("reviews=reviews.example")
	s := m.connect()
	s.ask(virtualServices)
	r := s.recv()
	require.False(t, r.GetIncremental())
	require.Empty(t, r.GetRemovedResources())
	require.Len(t, r.GetResources(), 1)
	one := r.GetResources()[0]
	require.Equal(t, "default/reviews", one.GetMetadata().GetName())
	require.NotEmpty(t, one.GetMetadata().GetVersion())
	require.WithinRange(t, one.GetMetadata().GetCreateTime().AsTime(), before, time.Now().Add(time.Minute))
	require.Equal(t, "type.googleapis.com/istio.networking.v1alpha3.VirtualService", one.GetBody().GetTypeUrl())
	var spec networking.VirtualService
	require.NoError(t, proto.Unmarshal(one.GetBody().GetValue(), &spec), "the value is the spec alone")
	require.Equal(t, []string{"reviews.example"}, spec.GetHosts())
}

func TestTheMeshConfigHasTheNameThatGalleyGivesIt(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.sql(`INSERT INTO mesh.resources (kind, namespace, name, spec) VALUES ('MeshConfig', 'istio-system', 'istio', '{"trustDomain": "td"}')`)
	s := m.connect()
	s.ask(meshConfigs)
	r := s.recv()
	require.Equal(t, []string{"istio-system/meshconfig"}, names(r))
	var spec meshconfig.MeshConfig
	require.NoError(t, r.GetResources()[0].GetBody().UnmarshalTo(&spec))
	require.Equal(t, "td", spec.GetTrustDomain())
	s.ack(r)

	m.sql(`UPDATE mesh.resources SET spec = '{"trustDomain": "other"}' WHERE kind = 'MeshConfig'`)
	next := s.recv()
	require.NotEqual(t, r.GetResources()[0].GetMetadata().GetVersion(), next.GetResources()[0].GetMetadata().GetVersion())
	require.NoError(t, next.GetResources()[0].GetBody().UnmarshalTo(&spec))
	require.Equal(t, "other", spec.GetTrustDomain())
}

func TestTheHeaderNamesTheSource(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	stream, err := legacyv1.NewResourceSourceClient(m.client).EstablishResourceStream(t.Context())
	require.NoError(t, err)
	header, err := stream.Header() // before anything is asked
	require.NoError(t, err)
	require.Len(t, header.Get("config.source.version"), 1)
	require.Regexp(t, "^pgmesh", header.Get("config.source.version")[0])
}

func TestNoncesCountTheResponsesOfAStream(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	for range 2 {
		s := m.connect()
		s.ask(virtualServices, gateways, serviceRoles)
		for _, nonce := range []string{"1", "2", "3"} {
			require.Equal(t, nonce, s.recv().GetNonce())
		}
	}
}

func TestAnAcceptedCollectionIsSentAgainWhenItChanges(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a", "b=b")
	s := m.connect()
	s.ask(virtualServices)
	first := s.recv()
	s.ack(first)
	s.silent(gateways)

	m.remove("a")
	second := s.recv()
	require.Equal(t, []string{"default/b"}, names(second))
	require.Empty(t, second.GetRemovedResources(), "of a whole it says nothing")
	require.NotEqual(t, first.GetSystemVersionInfo(), second.GetSystemVersionInfo())
	s.ack(second)
	m.sql(`INSERT INTO mesh.resources (kind, name, spec) VALUES ('DestinationRule', 'x', '{"host": "a"}')`)
	s.silent(serviceRoles)
}

func TestNothingIsSentWhileAResponseIsUnanswered(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	s := m.connect()
	s.ask(virtualServices)
	first := s.recv()
	m.write("a=a")
	m.write("b=b")
	m.remove("a")
	s.silent(gateways)

	s.ack(first)
	second := s.recv()
	require.Equal(t, virtualServices, second.GetCollection())
	require.Equal(t, []string{"default/b"}, names(second), "the newest state wins")
	s.ack(second)
	s.silent(serviceRoles)
}

func TestAnUnchangedCollectionIsNotSentAgain(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s := m.connect()
	s.ask(virtualServices)
	first := s.recv()
	m.write("a=b")
	m.write("a=a")
	s.ack(first)
	s.silent(gateways)
}

func TestARefusedCollectionWaitsForNewContent(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s := m.connect()
	s.ask(virtualServices)
	s.nack(s.recv())
	s.silent(gateways)
	require.Contains(t, m.log.String(), "it does not apply")
	require.InDelta(t, 1, m.metric("legacy_answers_total", "nack", virtualServices), 0)

	m.write("b=b")
	r := s.recv()
	require.Equal(t, []string{"default/a", "default/b"}, names(r))
	s.ack(r)
	s.silent(serviceRoles)
	require.InDelta(t, 1, m.metric("legacy_answers_total", "ack", virtualServices), 0)
}

func TestStaleAnswersAreIgnored(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s := m.connect()
	s.ask(virtualServices, gateways)
	first, other := s.recv(), s.recv()
	for _, nonce := range []string{"77", other.GetNonce(), "2026-01-02 03:04:05"} {
		s.send(&legacyv1.RequestResources{Collection: virtualServices, ResponseNonce: nonce})
		s.send(&legacyv1.RequestResources{Collection: virtualServices, ResponseNonce: nonce, ErrorDetail: &rpcstatus.Status{Code: 3}})
	}
	m.write("b=b")
	s.silent(serviceRoles)
	s.ack(first)
	second := s.recv()
	require.Equal(t, []string{"default/a", "default/b"}, names(second))
	s.ack(second)
	s.ack(second) // an ACK that was said already
	s.ack(first)
	s.silent(meshConfigs)
}

func TestARequestWithoutANonceIsAnsweredAgain(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s := m.connect()
	s.ask(virtualServices)
	first := s.recv()
	s.ask(virtualServices) // while a response is pending it takes the place of its ACK
	second := s.recv()
	require.Equal(t, names(first), names(second))
	require.Equal(t, "2", second.GetNonce())
	s.ack(first) // which is stale now
	m.write("b=b")
	s.silent(gateways)
	s.ack(second)
	third := s.recv()
	require.Len(t, third.GetResources(), 2)
	s.ack(third)
	// An error in a request that answers nothing is ignored.
	s.send(&legacyv1.RequestResources{Collection: virtualServices, ErrorDetail: &rpcstatus.Status{Code: 3, Message: "what?"}})
	require.Len(t, s.recv().GetResources(), 2)
	require.Zero(t, m.metric("legacy_answers_total", "nack", virtualServices))
}

func TestAFirstRequestIsOneWhateverItsNonce(t *testing.T) {
	t.Parallel()
	s := newMesh(t).connect()
	s.send(&legacyv1.RequestResources{Collection: virtualServices, ResponseNonce: "left from another stream"})
	require.Equal(t, virtualServices, s.recv().GetCollection())
}

func TestAnUnknownCollectionEndsTheStream(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	for _, name := range []string{"virtualservices", "", "$triggerCollection", "other/networking.istio.io/v1alpha3/gateways", "k8s/a b/c"} {
		s := m.connect()
		s.ask(name)
		err := s.ended()
		require.Equal(t, codes.InvalidArgument, status.Code(err))
		require.ErrorContains(t, err, `unsupported collection "`+name+`"`)
	}
}

// The tool mcpc asks on one stream for every collection that its Istio knows.
func TestACollectionOfKubernetesOrAnotherIstioIsEmpty(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s := m.connect()
	for _, name := range []string{"k8s/apps/v1/deployments", "k8s/networking.istio.io/v1alpha3/gateways", "k8s/core/v1/configmaps", "istio/future/v1/kinds"} {
		s.ask(name)
		empty := s.recv()
		require.Equal(t, name, empty.GetCollection())
		require.Empty(t, empty.GetResources())
		s.ack(empty)
	}
	s.ask(virtualServices)
	require.Equal(t, []string{"default/a"}, names(s.recv()))
	require.Contains(t, m.log.String(), "k8s/apps/v1/deployments")
}

// Little is kept of what a sink says, however long it is.
func TestTextsOfSinksAreTruncated(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s, long := m.connect(), strings.Repeat("ä", 5<<20)
	s.send(&legacyv1.RequestResources{SinkNode: &legacyv1.SinkNode{Id: "x" + long}, Collection: virtualServices})
	r := s.recv()
	s.send(&legacyv1.RequestResources{Collection: r.GetCollection(), ResponseNonce: r.GetNonce(), ErrorDetail: &rpcstatus.Status{Code: 3, Message: "x" + long}})
	s.silent(gateways)
	told, err := json.Marshal(m.source.Streams())
	require.NoError(t, err)
	require.Less(t, len(told), 4<<10)
	require.Contains(t, string(told), "bytes more)")
	roll := m.clients.List()
	require.Len(t, roll, 1)
	encoded, err := proto.Marshal(roll[0])
	require.NoError(t, err, "what was cut off ends between characters")
	require.Less(t, len(encoded), 4<<10)
	require.Less(t, len(m.log.String()), 8<<10)

	s.send(&legacyv1.RequestResources{Collection: "x" + long})
	require.Less(t, len(s.ended().Error()), 1<<10)
}

func TestAVersionIsTheSameOnEveryServer(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a", "b=b")
	s := m.connect()
	s.ask(virtualServices)
	first := s.recv()
	require.Regexp(t, "^"+virtualServices+"/[0-9a-f]{16}$", first.GetSystemVersionInfo())

	other := serve(t, m.database).connect()
	other.ask(virtualServices)
	require.Equal(t, first.GetSystemVersionInfo(), other.recv().GetSystemVersionInfo())

	s.ack(first)
	m.write("a=c")
	second := s.recv()
	s.ack(second)
	require.NotEqual(t, first.GetSystemVersionInfo(), second.GetSystemVersionInfo())
	m.write("a=a")
	require.Equal(t, first.GetSystemVersionInfo(), s.recv().GetSystemVersionInfo(), "the same content")
}

// An empty response would tell a sink that everything is gone.
func TestAnswersAreHeldUntilTheDatabaseIsRead(t *testing.T) {
	t.Parallel()
	database := pgtest.New(t)
	serve(t, database).write("a=a")
	m := prepare(t, database)
	s := m.connect()
	s.ask(virtualServices)
	s.send(&legacyv1.RequestResources{Collection: "nonsense"}) // which needs no database, and tells when all was handled
	require.Equal(t, codes.InvalidArgument, status.Code(s.ended()))

	s = m.connect()
	s.ask(virtualServices)
	m.load()
	require.Equal(t, []string{"default/a"}, names(s.recv()))
}

func TestShutdownEndsStreamsWithAnError(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	s := m.connect()
	s.ask(virtualServices)
	s.recv()
	m.source.Shutdown()
	require.Equal(t, codes.Unavailable, status.Code(s.ended()))
}

func TestStreamsAreListed(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	m.write("a=a")
	s := m.connect()
	s.ask(virtualServices, gateways)
	first, second := s.recv(), s.recv()
	s.ack(first)
	s.nack(second)
	s.silent(serviceRoles)
	streams := m.source.Streams()
	require.Len(t, streams, 1)
	require.Equal(t, "ResourceSource", streams[0].Service)
	require.Equal(t, "pilot-0", streams[0].Sink)
	require.Len(t, streams[0].Collections, 3)
	require.Equal(t, "it does not apply", streams[0].Collections[0].Refusal)
	require.Equal(t, first.GetSystemVersionInfo(), streams[0].Collections[1].Acked)
	listed := m.clients.List()
	require.Len(t, listed, 1)
	require.Equal(t, "pilot-0 legacy", listed[0].GetNode()+" "+listed[0].GetProtocol())
	require.Equal(t, []string{gateways, virtualServices, serviceRoles},
		[]string{listed[0].GetSubscriptions()[0].GetType(), listed[0].GetSubscriptions()[1].GetType(), listed[0].GetSubscriptions()[2].GetType()})
	require.Equal(t, "it does not apply", listed[0].GetSubscriptions()[0].GetReason())
	require.Equal(t, int64(1), listed[0].GetSubscriptions()[1].GetAccepted(), "the revision")
	require.InDelta(t, 1, m.metric("legacy_streams", "ResourceSource"), 0)
	require.InDelta(t, 1, m.metric("legacy_responses_total", virtualServices), 0)
	require.InDelta(t, 1, m.metric("legacy_resources_total", "sent", virtualServices), 0)
}

// A sink that asks without end is slowed down. Its stream does not end, and others are not
// affected.
func TestASinkThatAsksWithoutEndIsSlowedDown(t *testing.T) {
	t.Parallel()
	m := newMesh(t)
	s := m.connect()
	began := time.Now()
	for range 101 {
		s.ask(virtualServices)
	}
	for range 101 {
		s.recv()
	}
	require.Greater(t, time.Since(began), 900*time.Millisecond)
}
