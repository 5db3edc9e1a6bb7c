package bugreport

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// examples has texts for each pattern, and the redacted results. Secrets contain "planted", so that
// leaks show.
var examples = map[string]map[string]string{
	"a private key": {
		"a -----BEGIN OPENSSH PRIVATE KEY-----\nplanted\n-----END OPENSSH PRIVATE KEY----- b":              "a (redacted) b",
		"a -----BEGIN PGP PRIVATE KEY BLOCK-----\n\nplanted\n=abcd\n-----END PGP PRIVATE KEY BLOCK----- b": "a (redacted) b",
	},
	"a private key in base64":    {"key LS0tLS1CRUdJTiBPUEVOU1NIIFBSSVZBVEplanted x": "key (redacted) x"},
	"a key of age":               {"AGE-SECRET-KEY-1PLANTED9": "(redacted)"},
	"a join token":               {"with pgmesh_join_planted-planted_planted x": "with (redacted) x"},
	"a bearer token of the mesh": {"said pgmesh_aHHIplantedplantedplantedplanted-planted, no": "said (redacted), no", "pgmesh_-_x-aPlantedplanted": "(redacted)"},
	"a web token":                {"x eyJhbGciOiJub25lIn0.eyJwbGFudGVkIjoxfQ.cGxhbnRlZA y": "x (redacted) y"},
	"GitHub":                     {"ghp_plantedplantedplanted00": "(redacted)", "clone github_pat_plantedplanted_planted0": "clone (redacted)"},
	"GitLab":                     {"glpat-planted-plantedplanted": "(redacted)", "glrt-t1_plantedplantedplanted": "(redacted)"},
	"AWS":                        {"id AKIAPLANTEDPLANTED00 and ASIAPLANTEDPLANTED00": "id (redacted) and (redacted)"},
	"Vault":                      {"hvs.plantedplantedplantedplanted": "(redacted)", "hvb.plantedplantedplantedplanted": "(redacted)"},
	"Slack":                      {"xoxb-1234-planted-planted": "(redacted)", "xapp-1-planted-planted": "(redacted)"},
	"a hook of Slack":            {"https://hooks.slack.com/services/T0/B0/planted": "https://(redacted)"},
	"Google": {
		"AIzaplantedplantedplantedplantedplanted": "(redacted)", "ya29.planted-planted_planted": "(redacted)", "GOCSPX-plantedplantedplanted": "(redacted)",
	},
	"Stripe":                            {"sk_live_plantedplanted": "(redacted)", "whsec_plantedplantedplanted": "(redacted)"},
	"OpenAI, Anthropic":                 {"sk-ant-planted-plantedplanted": "(redacted)"},
	"registries of packages and images": {"npm_plantedplantedplantedplantedplanted": "(redacted)", "dckr_pat_planted-plantedplanted": "(redacted)"},
	"other clouds and services":         {"SG.plantedplantedplanted.plantedplantedplanted": "(redacted)", "hf_plantedplantedplantedplantedplanted": "(redacted)"},
	"a bearer":                          {"sends bearer plantedplanted.": "sends bearer (redacted)"},
	"a password of HTTP":                {"sends Basic cGxhbnRlZA== to": "sends Basic (redacted) to"},
	"a digest":                          {"Digest username=\"me\", response=\"planted\"\nnext": "Digest (redacted)\nnext"},
	"a header of Envoy's":               {`{"key":"x-api-key","value":"planted \"quoted\" planted"},1`: `{"key":"x-api-key","value":"(redacted)"},1`},
	"a header of Envoy's, value first":  {`{"value":"planted","key":"Authorization"}`: `{"value":"(redacted)","key":"Authorization"}`},
	"a key of Envoy's":                  {`"private_key":{"inline_string":"planted"},"x":1`: `"private_key":"(redacted)","x":1`},
	"authorization":                     {"Authorization: AWS4-HMAC planted": "Authorization: (redacted)", "proxy-authorization: planted\nx": "proxy-authorization: (redacted)\nx"},
	"cookies":                           {"set-cookie: a=planted; b=planted\nnext": "set-cookie: (redacted)\nnext"},
	"what has a name, in quotes":        {`password = "correct planted battery", user`: `password = "(redacted)", user`, `{"SecretAccessKey": "plan/ted"}`: `{"SecretAccessKey": "(redacted)"}`},
	"what has a name, in single quotes": {`host=db password='correct planted \' battery' user=me`: `host=db password='(redacted)' user=me`},
	"what has a name, in escaped quotes": {
		`"{\"api_key\": \"planted planted\", \"a\": 1}"`: `"{\"api_key\": \"(redacted)\", \"a\": 1}"`,
	},
	"what has a name": {"PGPASSWORD=planted x": "PGPASSWORD=(redacted) x", "/x?access_token=planted&y=1": "/x?access_token=(redacted)&y=1", "X-Amz-Signature=planted": "X-Amz-Signature=(redacted)"},
	"a flag":          {"run --token planted --x": "run --token (redacted) --x", "vault -client-secret 'planted' x": "vault -client-secret '(redacted)' x"},
	"a URL": {
		"postgres://me:plan@ted@db:5432/mesh?sslmode=require": "postgres://me:(redacted)@db:5432/mesh?sslmode=require",
		"redis://:planted@cache":                              "redis://:(redacted)@cache", "https://me:planted@one and https://two": "https://me:(redacted)@one and https://two",
	},
	"a URL whose user is a secret": {"https://plantedplantedplanted@git.example/x": "https://(redacted)@git.example/x"},
}

func TestPatterns(t *testing.T) {
	t.Parallel()
	r := &Redactor{}
	for _, p := range patterns {
		require.NotEmpty(t, examples[p.what], "%s has no example", p.what)
		for text, want := range examples[p.what] {
			require.Regexp(t, p.expression, text, p.what)
			got := string(r.Text([]byte(text)))
			require.Equal(t, want, got, p.what)
			require.NotContains(t, strings.ToLower(got), "planted", p.what)
			require.Equal(t, want, string(r.Text([]byte(got))), "%s: once is enough", p.what)
		}
	}
}

func TestOrdinaryTextStays(t *testing.T) {
	t.Parallel()
	r := &Redactor{}
	for _, text := range []string{
		"pgmesh_discovery_mcp_connected 1\npgmesh_mesh_agent_serving_last_good 0",
		"postgres://mesh@db1,db2/mesh?target_session_attrs=read-write and https://api.shop.example:8443/v1?a=b",
		"mail to somebody@example.com, from cart@shop.example:80 at 10:00",
		"cluster outbound|8080|v1|cart.shop.svc.cluster.local, sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
		"spiffe://mesh.example/ns/shop/sa/cart until 2026-11-23T12:00:00Z, serial 7d0b1a2c3e4f",
		"mesh-agent run --token-file /etc/mesh-agent/token --jwt-file /var/run/token --discovery discovery:15012",
		"the token was used up: mcp-client token create makes another; basic checks passed, the bearer",
		"-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----",
		"risk-averse, task-oriented-and-more-words, desk-lamp; AKIA is a prefix, hvs. too, and xox",
		"ASIAN and AKIAK, glances-at-everything-that-is, S.H.I.E.L.D., sk-tools",
		"level=INFO msg=\"Envoy started\" pid=4711 state=/var/lib/mesh-agent node=cart~10.0.0.1",
	} {
		require.Equal(t, text, string(r.Text([]byte(text))))
	}
}
