package httpapi_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestResourcesTravelAsPeopleWriteThem(t *testing.T) {
	t.Parallel()
	a := start(t)

	applied := a.do(http.MethodPost, "/v1/resources?message=first&author=ada", rule+"---\n"+strings.Replace(rule, "name: reviews", "name: ratings", 1),
		"Content-Type", "application/x-www-form-urlencoded") // as curl says of --data-binary
	require.Equal(t, http.StatusOK, applied.code, applied.text)
	require.True(t, strings.HasPrefix(compacted(t, applied.text), `{"revision":"1","outcomes":[`+
		`{"resource":{"group":"networking.istio.io","kind":"DestinationRule","namespace":"shop","name":"reviews"},"action":"ACTION_CREATED"},`+
		`{"resource":{"group":"networking.istio.io","kind":"DestinationRule","namespace":"shop","name":"ratings"},"action":"ACTION_CREATED"}],"warnings":`),
		applied.text)

	got := a.get("/v1/resources/dr/shop/reviews")
	require.Equal(t, "application/json", got.header.Get("Content-Type"))
	tree := got.tree(t)
	require.Equal(t, "DestinationRule", tree["kind"])
	require.Equal(t, "networking.istio.io/v1", tree["apiVersion"])
	require.Equal(t, "1", tree["metadata"].(map[string]any)["resourceVersion"])
	require.Equal(t, map[string]any{"host": "reviews.shop"}, tree["spec"])
	asYAML := a.do(http.MethodGet, "/v1/resources/dr/shop/reviews", "", "Accept", "application/yaml")
	require.Equal(t, "application/yaml", asYAML.header.Get("Content-Type"))
	require.True(t, strings.HasPrefix(asYAML.text, "apiVersion: networking.istio.io/v1\nkind: DestinationRule\nmetadata:\n  name: reviews\n"), asYAML.text)

	for _, form := range []string{got.text, asYAML.text} { // what was read can be sent
		same := a.do(http.MethodPost, "/v1/resources?expectResourceVersions=true", form)
		require.Contains(t, same.text, "ACTION_UNCHANGED")
	}
	list := a.get("/v1/resources/destinationrules/shop?pageSize=1").tree(t)
	require.Len(t, list["resources"], 1)
	require.NotEmpty(t, list["nextPageToken"])
	require.JSONEq(t, `{"resources": [], "revision": "1"}`, a.get("/v1/resources?kinds=vs,gateways&namespaces=shop").text)
	deleted := a.do(http.MethodDelete, "/v1/resources/dr/shop/ratings?message=no", "")
	require.Contains(t, deleted.text, "ACTION_DELETED")
	require.Equal(t, "no", a.get("/v1/revisions/2").tree(t)["revisions"].([]any)[0].(map[string]any)["message"])
}

func TestKindsWithoutNamespacesHaveADash(t *testing.T) {
	t.Parallel()
	a := start(t)
	created := a.do(http.MethodPost, "/v1/resources", "apiVersion: gateway.networking.k8s.io/v1\nkind: GatewayClass\nmetadata: {name: x}\nspec: {controllerName: example.com/x}\n")
	require.Equal(t, http.StatusOK, created.code, created.text)
	require.Equal(t, http.StatusOK, a.get("/v1/resources/gatewayclass/-/x").code)
	require.Len(t, a.get("/v1/resources/gatewayclass/-").tree(t)["resources"], 1)
	require.Equal(t, http.StatusOK, a.do(http.MethodDelete, "/v1/resources/gatewayclass/-/x", "").code)
}

func TestFailuresAreStatusesWithDetails(t *testing.T) {
	t.Parallel()
	a := start(t)
	require.Equal(t, http.StatusOK, a.do(http.MethodPost, "/v1/resources", rule).code)

	refused := a.do(http.MethodPost, "/v1/resources", strings.Replace(rule, "host:", "hots:", 1))
	require.Equal(t, http.StatusBadRequest, refused.code)
	details := refused.tree(t)["details"].([]any)
	require.Equal(t, "type.googleapis.com/pgmesh.admin.v1.Refusal", details[0].(map[string]any)["@type"])
	violations := details[0].(map[string]any)["violations"].([]any)
	require.Len(t, violations, 2)
	unknown := violations[1].(map[string]any)
	require.Equal(t, []any{"spec.hots", 7.0}, []any{unknown["path"], unknown["line"]})
	require.Equal(t, "type.googleapis.com/google.rpc.BadRequest", details[1].(map[string]any)["@type"])

	for path, want := range map[string]struct {
		status, code int
		message      string
	}{
		"/v1/resources/dr/shop/revews":             {404, 5, `did you mean "reviews"?`},
		"/v1/resources?namespce=shop":              {400, 3, `unknown parameter "namespce" (did you mean "namespaces"?)`},
		"/v1/resources/dr/shop/x?resource.gruop=x": {400, 3, `unknown parameter "resource.gruop"`},
		"/v1/resources?pageSize=many":              {400, 3, "page_size"},
		"/v1/resources/nothing":                    {400, 3, `unknown kind "nothing" (mcp-client kinds lists them)`},
		"/v1/resources/pods":                       {400, 3, `unknown kind "pods" (here it is a WorkloadEntry; mcp-client proxy-status lists proxies)`},
		"/v1/resources?revision=7":                 {400, 11, "there is no revision 7 yet"},
		"/v1/watch?after=7":                        {400, 11, "revision 7 was seen"},
		"/v1/nothing":                              {404, 5, "docs/admin-api.md"},
	} {
		got := a.get(path)
		if strings.HasPrefix(path, "/v1/watch") { // an error of a stream is one of its lines
			require.Equal(t, want.status, got.code)
			require.Contains(t, got.tree(t)["error"].(map[string]any)["message"], want.message)
			continue
		}
		status, code, message := got.failure(t)
		require.Equal(t, []int{want.status, want.code}, []int{status, code}, path)
		require.Contains(t, message, want.message, path)
	}
	status, code, _ := a.do(http.MethodPut, "/v1/resources", "").failure(t)
	require.Equal(t, []int{http.StatusMethodNotAllowed, 12}, []int{status, code})
	status, code, message := a.do(http.MethodPost, "/v1/restore", `{"revison": 1}`).failure(t)
	require.Equal(t, []int{400, 3}, []int{status, code})
	require.Contains(t, message, "revison")
	stale := strings.Replace(rule, "name:", "resourceVersion: 7\n  name:", 1)
	require.Contains(t, a.do(http.MethodPost, "/v1/resources?expectResourceVersions=true", stale).text, "ACTION_UNCHANGED", "it is there already")
	status, code, message = a.do(http.MethodPost, "/v1/resources?expectResourceVersions=true", strings.Replace(stale, "host: reviews", "host: ratings", 1)).failure(t)
	require.Equal(t, []int{409, 10}, []int{status, code})
	require.Contains(t, message, "is at revision 1")
	status, code, message = a.do(http.MethodPost, "/v1/resources", "a: "+strings.Repeat("x", 64<<20)).failure(t)
	require.Equal(t, []int{400, 3}, []int{status, code})
	require.Contains(t, message, "larger than")
}

func TestAWatchHasALineForEachRevision(t *testing.T) {
	t.Parallel()
	a := start(t)
	require.Equal(t, http.StatusOK, a.do(http.MethodPost, "/v1/resources", rule).code)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.url+"/v1/watch/dr/shop?after=0", nil)
	require.NoError(t, err)
	got, err := a.client.Do(req)
	require.NoError(t, err)
	defer got.Body.Close()
	require.Equal(t, "application/x-ndjson", got.Header.Get("Content-Type"))
	lines := bufio.NewScanner(got.Body)
	line := func() string {
		require.True(t, lines.Scan())
		return lines.Text()
	}
	require.JSONEq(t, `{"revision":{}}`, line())
	require.Contains(t, line(), `{"revision":{"revision":"1","author":"somebody at 127.0.0.1","application":"Go-http-client/1.1"`)

	require.Equal(t, http.StatusOK, a.do(http.MethodPost, "/v1/resources", strings.Replace(rule, "host: reviews.shop", "host: other.shop", 1)).code)

	changed := line()
	require.Contains(t, changed, `"operation":"update"`)
	require.Contains(t, changed, `"host":"other.shop"`)
}

func TestGoingBackOverHTTP(t *testing.T) {
	t.Parallel()
	a := start(t)
	a.do(http.MethodPost, "/v1/resources", rule)
	second := a.do(http.MethodPost, "/v1/resources?confirmWithin=1h", strings.Replace(rule, "host: reviews.shop", "host: other.shop", 1))
	require.NotEmpty(t, second.tree(t)["confirmBy"])
	require.Len(t, a.get("/v1/confirmations?states=waiting").tree(t)["confirmations"], 1)
	require.Equal(t, http.StatusOK, a.do(http.MethodPost, "/v1/revisions/2/confirm", "").code)
	require.Empty(t, a.get("/v1/confirmations?states=waiting").tree(t)["confirmations"])
	require.Contains(t, a.get("/v1/diff?fromRevision=1").text, `"path":"spec.host","before":"reviews.shop","after":"other.shop"`)
	require.Len(t, a.get("/v1/blame/dr/shop/reviews").tree(t)["fields"], 1)
	require.Len(t, a.get("/v1/history/dr/shop/reviews").tree(t)["revisions"], 2)
	reverted := a.do(http.MethodPost, "/v1/revisions/2/revert", `{"message": "no"}`)
	require.Contains(t, reverted.text, `"reverted"`)
	restored := a.do(http.MethodPost, "/v1/restore", "revision: 2\ndryRun: true\n", "Content-Type", "application/yaml")
	require.Contains(t, restored.text, "ACTION_CONFIGURED", restored.text)
	require.Equal(t, "3", a.get("/v1/status").tree(t)["mesh"].(map[string]any)["newestRevision"])
	require.NotNil(t, a.get("/v1/problems").tree(t)["problems"])
}

// A browser sends requests of a foreign page with the rights of whoever views it.
func TestCrossOriginRequestsAreRefused(t *testing.T) {
	t.Parallel()
	a := start(t)
	for name, headers := range map[string][]string{
		"another origin": {"Origin", "https://evil.example"},
		"another site":   {"Sec-Fetch-Site", "cross-site"},
		"a name that leads here": {
			"Host", "evil.example:15022",
		},
	} {
		status, code, _ := a.do(http.MethodPost, "/v1/resources", rule, headers...).failure(t)
		require.Equal(t, []int{http.StatusForbidden, 7}, []int{status, code}, name)
	}
	require.JSONEq(t, `{"resources": []}`, a.get("/v1/resources").text)
	require.Equal(t, http.StatusOK, a.do(http.MethodGet, "/v1/status", "", "Host", "localhost:15022").code)
}

func TestCallsAreCounted(t *testing.T) {
	t.Parallel()
	a := start(t)
	a.get("/v1/resources/dr/shop/nobody")
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.web+"/metrics", nil)
	require.NoError(t, err)
	got, err := a.client.Do(req)
	require.NoError(t, err)
	defer got.Body.Close()
	lines := bufio.NewScanner(got.Body)
	counted := false
	for lines.Scan() {
		counted = counted || lines.Text() == `grpc_server_handled_total{grpc_code="NotFound",grpc_method="Get",grpc_service="pgmesh.admin.v1.AdminService",grpc_type="unary"} 1`
	}
	require.True(t, counted)
}

// The rule about an issuer is the body, in either form; its name is in the path.
func TestAnIssuerIsTheBody(t *testing.T) {
	t.Parallel()
	a := start(t)
	const json = `{"issuer": "https://cloud.example", "audiences": ["pgmesh"], "namespace": "shop", "serviceAccount": "cart"}`
	require.Equal(t, http.StatusOK, a.do(http.MethodPut, "/v1/join-issuers/cloud", json).code)
	yaml := a.do(http.MethodPut, "/v1/join-issuers/build", "issuer: https://ci.example\naudiences: [pgmesh]\nnamespace: shop\nserviceAccount: cart\n", "Content-Type", "application/yaml")
	require.Equal(t, http.StatusOK, yaml.code, yaml.text)
	list := a.get("/v1/join-issuers").tree(t)["issuers"].([]any)
	require.Equal(t, []any{"build", "cloud"}, []any{list[0].(map[string]any)["name"], list[1].(map[string]any)["name"]})
	for body, says := range map[string]string{
		strings.Replace(json, "audiences", "audience", 1): `unknown field \"audience\"`,
		strings.Replace(json, `"pgmesh"`, "", 1):          "there is no audience",
		"":                                                "the issuer is empty",
	} {
		refused := a.do(http.MethodPut, "/v1/join-issuers/cloud", body)
		require.Equal(t, http.StatusBadRequest, refused.code)
		require.Contains(t, refused.text, says)
	}
}
