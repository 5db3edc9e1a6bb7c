package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"

	"github.com/pgmesh/pgmesh/internal/testbench/pgtest"
	"github.com/pgmesh/pgmesh/kinds"
)

func TestRefusalsInSQL(t *testing.T) {
	t.Parallel()
	url := pgtest.New(t)
	for _, test := range []struct{ name, row, code, message, hint string }{
		{
			"unknown kind", `('VirtualServic', NULL, 'default', 'x', '{}')`, "23514",
			`unknown kind "VirtualServic"`, `did you mean "VirtualService"?`,
		},
		{
			"unknown group", `('VirtualService', 'networking.istio.io/v1', 'default', 'x', '{}')`, "23514",
			`VirtualService default/x: api_group: unknown api_group "networking.istio.io/v1" of VirtualService`, "write networking.istio.io",
		},
		{
			"ambiguous kind", `('Gateway', NULL, 'default', 'x', '{}')`, "23514",
			"Gateway default/x: api_group: Gateway is a kind of more than one group", "set api_group to gateway.networking.k8s.io or networking.istio.io",
		},
		{
			"name", `('VirtualService', NULL, 'default', 'X/y', '{"hosts": ["a"]}')`, "23514",
			`VirtualService default/X/y: metadata.name: "X/y" is not a valid name`,
			`at most 253 letters, digits, "-", "_" and ".", the first and the last a letter or digit`,
		},
		{
			"unknown field", `('VirtualService', NULL, 'default', 'reviews', '{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}, "wieght": 5}]}]}')`, "23514",
			`VirtualService default/reviews: spec.http[0].route[0].wieght: unknown field "wieght"`, `did you mean "weight"?`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			db := connect(t, url)
			err := db.Refused("INSERT INTO mesh.resources (kind, api_group, namespace, name, spec) VALUES " + test.row)
			require.Equal(t, test.code, err.Code)
			require.Equal(t, test.message, err.Message)
			require.Equal(t, test.hint, err.Hint)
			require.Zero(t, db.Newest())
		})
	}
}

// Nobody says of a row that it comes from a registry, or what it has there.
func TestAnnotationsOfOriginsAreRefused(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	for _, name := range kinds.OriginAnnotations() {
		err := db.Refused(fmt.Sprintf(`INSERT INTO mesh.resources (kind, namespace, name, annotations, spec) VALUES
			('InferencePool', 'default', 'x', '{"%s": "[]"}', '{"selector": {"matchLabels": {"a": "b"}}, "targetPorts": [{"number": 80}], "endpointPickerRef": {"name": "a", "port": {"number": 1}}}')`, name))
		require.Equal(t, "23514", err.Code)
		require.Equal(t, `InferencePool default/x: metadata.annotations["`+name+`"]: is for resources of registries, which servers mark themselves`, err.Message)
	}
	require.Equal(t, kinds.OriginAnnotations(), value[[]string](db, "SELECT mesh_internal.origin_annotations()"))
}

// badSpecs are specs that are wrong, or look it, by kind. Both validators must say the same of
// each. Numbers with an exponent are not among them: jsonb writes them out, so the database cannot
// repeat them as they were written.
var badSpecs = map[string][]string{
	"VirtualService": {
		`{}`, `[]`, `"x"`, `null`, `{"hosts": []}`, `{"hosts": null}`, `{"hosts": "a"}`, `{"hosts": [1]}`, `{"hosts": [null]}`, `{"hosts": [""]}`,
		`{"hosts": ["a"], "x y": 1}`, `{"hosts": ["a"], "größe": 1}`, `{"hosts": ["a"], "zzzzzzzz": 1, "Http": 2}`,
		`{"hosts": ["a"], "http": {}}`, `{"hosts": ["a"], "http": [[]]}`, `{"hosts": ["a"], "http": [{"timeout": "soon"}]}`,
		`{"hosts": ["a"], "http": [{"timeout": 5}]}`, `{"hosts": ["a"], "http": [{"timeout": 1.5}]}`, `{"hosts": ["a"], "http": [{"timeout": "1h30m"}]}`,
		`{"hosts": ["a"], "http": [{"timeout": "300y"}]}`, `{"hosts": ["a"], "http": [{"timeout": "99999999999s"}]}`, `{"hosts": ["a"], "http": [{"timeout": {}}]}`,
		`{"hosts": ["a"], "http": [{"timeout": "5"}]}`, `{"hosts": ["a"], "http": [{"timeout": ".5s"}]}`, `{"hosts": ["a"], "http": [{"timeout": ""}]}`,
		`{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}, "weight": 2147483648}]}]}`,
		`{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}, "weight": -1}]}]}`,
		`{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}, "weight": "50"}]}]}`,
		`{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}, "weight": "x"}]}]}`,
		`{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}, "weight": 1.5}]}]}`,
		`{"hosts": ["a"], "http": [{"route": [{"destination": {"host": "a"}, "weight": 1.0}]}]}`,
		`{"hosts": ["a"], "http": [{"route": [{"weight": 1}]}]}`, `{"hosts": ["a"], "http": [{"route": [{"destination": {}}]}]}`,
		`{"hosts": ["a"], "http": [{"match": [{"uri": {"exact": "a", "prefix": "b"}}]}]}`,
		`{"hosts": ["a"], "http": [{"match": [{"uri": {"exact": "a", "prefix": null}}]}]}`,
		`{"hosts": ["a"], "http": [{"match": [{"uri": "/a"}]}]}`, `{"hosts": ["a"], "http": [{"match": [{"headers": {"x-user": {"exakt": "a"}}}]}]}`,
		`{"hosts": ["a"], "http": [{"match": [{"headers": {"x user": {"exact": 1}, "a.b": 2}}]}]}`, `{"hosts": ["a"], "http": [{"match": [{"headers": []}]}]}`,
		`{"hosts": ["a"], "http": [{"match": [{"ignoreUriCase": "yes", "ignore_uri_case": true}]}]}`, `{"hosts": ["a"], "http": [{"match": [{"ignore_uri_case": "yes"}]}]}`,
		`{"hosts": ["a"], "http": [{"directResponse": {"status": 99999999999}}]}`, `{"hosts": ["a"], "http": [{"fault": {"abort": {"httpStatus": 500, "grpcStatus": "X"}}}]}`,
		`{"hosts": ["a"], "http": [{"corsPolicy": {"allowCredentials": 1}}]}`,
		`{"hosts": ["a"], "tcp": [{"route": [{"destination": {"host": "a", "port": {"number": 70000}}}]}]}`,
	},
	"DestinationRule": {
		`{}`, `{"host": ""}`, `{"host": 5}`, `{"host": "a", "trafficPolicy": {"loadBalancer": {"simple": "ROUND_ROBBIN"}}}`,
		`{"host": "a", "trafficPolicy": {"loadBalancer": {"simple": 1}}}`, `{"host": "a", "trafficPolicy": {"loadBalancer": {"simple": 77}}}`,
		`{"host": "a", "trafficPolicy": {"loadBalancer": {"simple": true}}}`,
		`{"host": "a", "trafficPolicy": {"loadBalancer": {"simple": "RANDOM", "consistentHash": {"useSourceIp": true}}}}`,
		`{"host": "a", "trafficPolicy": {"loadBalancer": {"consistentHash": {"useSourceIp": true, "httpHeaderName": "x"}}}}`,
		`{"host": "a", "trafficPolicy": {"connectionPool": {"tcp": {"connectTimeout": "0.1"}}}}`, `{"host": "a", "subsets": [{"labels": {"a": 1}}]}`,
		`{"host": "a", "subsets": [{}]}`, `{"host": "a", "trafficPolicy": {"outlierDetection": {"maxEjectionPercent": 101, "consecutive5xxErrors": -1}}}`,
		`{"host": "a", "trafficPolicy": {"tls": {"mode": "SIMPLE", "subjectAltNames": "x"}}}`, `{"host": "a", "exportTo": [["."]]}`,
	},
	"ServiceEntry": {
		`{}`, `{"hosts": []}`, `{"hosts": ["a"], "ports": [{"number": 0, "name": "http"}]}`, `{"hosts": ["a"], "ports": [{"number": 80}]}`,
		`{"hosts": ["a"], "resolution": "STATICC"}`, `{"hosts": ["a"], "location": 7}`, `{"hosts": ["a"], "endpoints": [{"address": "1.1.1.1", "ports": {"http": "80", "x": "y"}}]}`,
		`{"hosts": ["a"], "endpoints": [{"address": "1.1.1.1", "weight": -3}]}`, `{"hosts": ["a"], "workloadSelector": {"labels": []}}`,
		`{"hosts": ["a"], "endpoints": {"address": "x"}}`,
	},
	"PeerAuthentication": {`{"portLevelMtls": {"x": {"mode": "STRICT"}}}`, `{"mtls": {"mode": "STRICTT"}}`, `{"portLevelMtls": {}}`, `{"portLevelMtls": {"80": {"mode": 1}}}`},
	"EnvoyFilter":        {`{"configPatches": [{"applyTo": "CLUSTERR", "patch": {"value": []}}]}`, `{"configPatches": [{"patch": {"value": {"any": [1]}}}]}`, `{"priority": 1.5}`},
	"WasmPlugin":         {`{"url": ""}`, `{"sha256": "xyz"}`, `{"pluginConfig": 5}`, `{"url": "oci://a", "priority": "5", "failStrategy": "x"}`},
	"HTTPRoute":          {`{"rules": [{"matches": [{"path": {"type": "Exakt"}}]}]}`, `{"hostnames": ["UPPER"], "parentRefs": [{}]}`, `{"rules": [{"timeouts": {"request": "1"}}]}`},
	"Sidecar":            {`{"egress": [{"hosts": []}]}`, `{"egress": [{"port": {"number": 1}}]}`},
	"WorkloadEntry":      {`{"address": 1}`, `{"weight": 4294967296}`, `{"ports": {"a": -1}}`},
	"Telemetry":          {`{"tracing": [{"randomSamplingPercentage": 101.5}]}`, `{"tracing": [{"randomSamplingPercentage": "x"}]}`, `{"metrics": [{"reportingInterval": "5"}]}`},
}

func TestBothValidatorsAgree(t *testing.T) {
	t.Parallel()
	db := connect(t, pgtest.New(t))
	n := 0
	for name, specs := range badSpecs {
		kind, err := kinds.ByName(name)
		require.NoError(t, err)
		for _, spec := range specs {
			if spec == "null" {
				continue // the column does not take it
			}
			db.requireAgreement(exam{kind: kind, spec: json.RawMessage(spec)})
			n++
		}
	}
	require.Greater(t, n, 90)
}

// requireAgreement has both validators say the same of a spec, and returns it. What the quick check
// passes nobody looks at again.
func (s session) requireAgreement(e exam) []string {
	s.T.Helper()
	want := violationsOf(kinds.Validate(e.kind, e.tree(s.T), &e.meta))
	if diff := cmp.Diff(want, s.problems(e)); diff != "" {
		s.T.Errorf("%s: Go and SQL differ:\n%s", e, diff)
	}
	if s.passes(e) && len(want) > 0 {
		s.T.Errorf("%s: the quick check passes it, and wrong is:\n%s", e, strings.Join(want, "\n"))
	}
	return want
}

func violationsOf(violations []kinds.Violation) []string {
	var list []string
	for _, v := range violations {
		list = append(list, fmt.Sprintf("%s: %s (%s)", v.Path, v.Reason, v.Hint))
	}
	return list
}

// problems is what the database finds wrong with a spec.
func (s session) problems(e exam) []string {
	s.T.Helper()
	rows, err := s.Conn.Query(s.T.Context(), `SELECT format('%s: %s (%s)', p.path, p.reason, p.hint)
		FROM mesh.kinds k, mesh_internal.check_spec(k.type, $3, $4) p WHERE k.api_group = $1 AND k.kind = $2`, e.kind.Group, e.kind.Name, e.spec, e.metadata())
	require.NoError(s.T, err)
	list, err := pgx.CollectRows(rows, pgx.RowTo[string])
	require.NoError(s.T, err, e)
	if len(list) == 0 {
		return nil
	}
	return list
}

// passes says whether the quick check passes a spec.
func (s session) passes(e exam) bool {
	s.T.Helper()
	return s.passesAfter(nil, e)
}

// passesAfter says whether it passes a spec that was another before.
func (s session) passesAfter(before json.RawMessage, e exam) bool {
	s.T.Helper()
	return value[bool](s, `SELECT mesh_internal.is_sound(ARRAY[jsonb_populate_record(NULL::mesh_internal.changes, jsonb_build_object('api_group', $1::text, 'kind', $2::text,
		'namespace', m -> 'namespace', 'name', m -> 'name', 'after_spec', $3::jsonb, 'after_labels', m -> 'labels', 'after_annotations', m -> 'annotations',
		'before_spec', $5::jsonb))])
		FROM (SELECT $4::jsonb) AS metadata (m)`, e.kind.Group, e.kind.Name, e.spec, e.metadata(), before)
}
